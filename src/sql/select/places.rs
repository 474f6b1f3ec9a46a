//! Where the parts of a foreign tree stand in our script, and refusals that point there.
//!
//! Pure.

use super::GRAMMAR;
use crate::sql::error::{SqlError, SqlErrorKind};
use crate::sql::scan::Piece;
use crate::sql::span::{Cursor, Span};
use sqlparser::ast::{Expr, ObjectName, Query, SetExpr, TableFactor};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::Span as Place;

/// Where a piece's lines and columns are in the script.
pub(super) struct Places<'a> {
    piece: &'a Piece<'a>,
    /// Characters of the piece before each of its lines; then, of all of it.
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(super) fn new(piece: &'a Piece<'a>) -> Places<'a> {
        let mut lines = vec![0];
        let mut count = 0;
        for character in piece.text.chars() {
            count += 1;
            if character == '\n' {
                lines.push(count);
            }
        }
        lines.push(count);
        Places { piece, lines }
    }

    pub(super) fn text(&self) -> &'a str {
        self.piece.text
    }

    /// A place by its line and column in the piece, from 1; one beyond the end is the end. Its bytes are not known.
    fn cursor(&self, line: u64, column: u64) -> Cursor {
        let index = |number: u64| usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
        let last = self.lines.len().saturating_sub(2);
        let (mut line, mut column) = (index(line), index(column));
        if line > last {
            (line, column) = (last, usize::MAX);
        }
        let at = |line: usize| self.lines.get(line).copied().unwrap_or_default();
        let column = column.min(at(line + 1) - at(line));
        let start = self.piece.at;
        Cursor {
            byte: start.byte,
            char: start.char + at(line) + column,
            line: start.line + line,
            column: if line == 0 { start.column } else { 1 } + column,
        }
    }

    pub(super) fn span(&self, span: Place) -> Span {
        if span.start.line == 0 {
            return self.whole();
        }
        let end = self.cursor(span.end.line, span.end.column);
        self.cursor(span.start.line, span.start.column).until(&end)
    }

    pub(super) fn whole(&self) -> Span {
        self.piece.at.until(&self.piece.at)
    }

    pub(super) fn refuse(&self, what: &str, at: Place) -> SqlError {
        let kind = SqlErrorKind::Unsupported {
            what: what.to_owned(),
        };
        SqlError::new(kind, self.span(at)).with_hint(format!("supported is {GRAMMAR}"))
    }

    /// `sqlparser` puts the place into the text of its errors.
    pub(super) fn unreadable(&self, error: &ParserError) -> SqlError {
        let (ParserError::ParserError(text) | ParserError::TokenizerError(text)) = error else {
            let kind = SqlErrorKind::Unsupported {
                what: "a condition nested that deeply".to_owned(),
            };
            return SqlError::new(kind, self.whole()).with_hint("write it flatter");
        };
        let (message, place) = text.rsplit_once(" at Line: ").unwrap_or((text, ""));
        let at = place
            .split_once(", Column: ")
            .and_then(|(line, column)| Some((line.parse().ok()?, column.trim().parse().ok()?)));
        // Without a place, it is the end of the text that was not expected.
        let (line, column) = at.unwrap_or((u64::MAX, 1));
        let here = self.cursor(line, column);
        let at = here.until(&here);
        let (expected, found) = message
            .strip_prefix("Expected: ")
            .and_then(|rest| rest.rsplit_once(", found: "))
            .unwrap_or((message, "this"));
        let found = match found {
            "EOF" => "the end of the statement",
            found => found,
        };
        let kind = SqlErrorKind::Syntax {
            found: found.chars().take(40).collect(),
            expected: expected.chars().take(200).collect(),
        };
        SqlError::new(kind, at).with_hint(format!("supported is {GRAMMAR}"))
    }
}

/// Where an expression begins. Its own `span` recurses as deep as the longest chain of operators.
pub(super) fn begin(expr: &Expr) -> Place {
    let mut expr = expr;
    loop {
        expr = match expr {
            Expr::Identifier(name) => return name.span,
            Expr::CompoundIdentifier(names) => {
                return names.first().map_or(Place::empty(), |name| name.span);
            }
            Expr::Value(value) => return value.span,
            Expr::Function(call) => return begin_of_name(&call.name),
            Expr::BinaryOp { left, .. } => left,
            Expr::UnaryOp { expr, .. }
            | Expr::Nested(expr)
            | Expr::IsNull(expr)
            | Expr::IsNotNull(expr)
            | Expr::InList { expr, .. }
            | Expr::Between { expr, .. }
            | Expr::Like { expr, .. }
            | Expr::ILike { expr, .. }
            | Expr::Cast { expr, .. } => expr,
            Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => {
                return begin_of_query(subquery);
            }
            _ => return Place::empty(),
        }
    }
}

pub(super) fn begin_of_query(query: &Query) -> Place {
    match &*query.body {
        SetExpr::Select(select) => select.select_token.0.span,
        SetExpr::Query(query) => begin_of_query(query),
        _ => Place::empty(),
    }
}

pub(super) fn begin_of_table(table: &TableFactor) -> Place {
    match table {
        TableFactor::Table { name, .. } => begin_of_name(name),
        TableFactor::Derived { subquery, .. } => begin_of_query(subquery),
        _ => Place::empty(),
    }
}

pub(super) fn begin_of_name(name: &ObjectName) -> Place {
    let first = name.0.first().and_then(|part| part.as_ident());
    first.map_or(Place::empty(), |name| name.span)
}
