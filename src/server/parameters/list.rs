//! The parameters that are whole items of a select list: their columns have their types, as in PostgreSQL.
//!
//! Pure.

use super::cast::{BOOL, FLOAT8, INT2, INT4, INT8};
use crate::server::answer::{Field, Kind as Column};
use crate::server::lex::{Kind, Token};

/// A parameter that is an item of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// The number behind `$`.
    pub(super) number: u16,
    /// Items before it; behind a `*`, those that follow it.
    items: usize,
    is_behind_star: bool,
}

/// Those of a SELECT. Among several `*` nobody knows which column is which here: then there are none.
pub(super) fn listed(tokens: &[Token<'_>]) -> Vec<Listed> {
    let items = items(tokens);
    let is_star = |item: &[Token<'_>]| matches!(item, [one] if one.sign('*'));
    if items.iter().filter(|item| is_star(item)).count() > 1 {
        return Vec::new();
    }
    let star = items.iter().position(|item| is_star(item));
    let found = items.iter().enumerate().filter_map(|(at, item)| {
        let is_behind_star = star.is_some_and(|star| star < at);
        let after = items.len() - at - 1;
        Some(Listed {
            number: alone(item)?,
            items: if is_behind_star { after } else { at },
            is_behind_star,
        })
    });
    found.collect()
}

/// What stands between the commas from SELECT to FROM.
fn items<'a, 't>(tokens: &'a [Token<'t>]) -> Vec<&'a [Token<'t>]> {
    let list = match tokens {
        [select, rest @ ..] if select.is("select") => rest,
        _ => return Vec::new(),
    };
    let end = list.iter().position(|token| token.is("from"));
    let list = list.get(..end.unwrap_or(list.len())).unwrap_or_default();
    let mut depth = 0_usize;
    let parts = list.split(|token| {
        match token.kind {
            Kind::Sign('(') => depth += 1,
            Kind::Sign(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && token.sign(',')
    });
    parts.collect()
}

/// The number of a parameter that is all of an item, perhaps with a name.
fn alone(item: &[Token<'_>]) -> Option<u16> {
    let is_name = |token: &Token<'_>| matches!(token.kind, Kind::Word | Kind::Name);
    let first = match item {
        [one] => one,
        [one, name] if is_name(name) => one,
        [one, by, name] if by.is("as") && is_name(name) => one,
        _ => return None,
    };
    match first.kind {
        Kind::Parameter(number) => Some(number),
        _ => None,
    }
}

/// Gives its column the type of the parameter.
pub(super) fn retype(fields: &mut [Field], listed: Listed, oid: u32) {
    let at = if listed.is_behind_star {
        fields.len().checked_sub(listed.items + 1)
    } else {
        Some(listed.items)
    };
    if let Some(field) = at.and_then(|at| fields.get_mut(at)) {
        field.kind = match oid {
            BOOL => Column::Bool,
            INT2 => Column::Int2,
            INT4 => Column::Int4,
            // An oid has no sign.
            INT8 | 26 => Column::Int8,
            FLOAT8 | 700 | 1700 => Column::Float8,
            _ => Column::Text,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::lex::tokens;

    #[test]
    fn a_parameter_alone_is_found_on_either_side_of_a_star() {
        let kinds = |text: &str, columns: usize| {
            let field = Field {
                name: String::new(),
                kind: Column::Bool,
            };
            let mut fields = vec![field; columns];
            for listed in listed(&tokens(text)) {
                retype(&mut fields, listed, INT8);
            }
            let is_retyped = |field: &Field| field.kind == Column::Int8;
            fields.iter().map(is_retyped).collect::<Vec<_>>()
        };
        let (no, yes) = (false, true);
        for (text, expected) in [
            ("SELECT $1", &[yes][..]),
            ("SELECT 1, $1 AS a, $2 \"b\" FROM t", &[no, yes, yes]),
            ("SELECT $1, *, $2, name FROM t", &[yes, no, no, yes, no]),
            ("SELECT *, $1, * FROM t", &[no, no, no]),
            ("SELECT f($1, $2), -$1, $1::int8", &[no, no, no]),
            ("SELECT name FROM t WHERE id IN (1, $1, 2)", &[no]),
            ("SHOW a, $1", &[no, no]),
        ] {
            assert_eq!(kinds(text, expected.len()), expected, "{text}");
        }
    }
}
