//! Tokens to one statement.
//!
//! Pure. A loop over a flat list of tokens: no recursion, no look-ahead beyond two tokens, linear time. Words decide
//! first and errors say what may stand at that very place.

use super::ast::Statement;
use super::error::{SqlError, SqlErrorKind};
use super::scan::Piece;
use super::select;
use super::span::Span;
use super::suggest::closest;
use super::token::{Tok, TokKind, tokens};

const EXAMPLE: &str =
    "for example CREATE RESOURCE GROUP etl TO (user='loader') WITH ('cpu_core_limit'='4')";
const CLASSIFIER: &str = "for example (user='bi', query_type IN ('select', 'insert'))";
const ASSIGNMENT: &str = "for example WITH ('cpu_core_limit'='4', 'concurrency_limit'='10')";
const VARIABLE: &str =
    "for example SET GLOBAL query_runner_threads = 40; SHOW VARIABLES lists them";
const NAME: &str =
    "a name is a letter or _ followed by at most 63 letters, digits, _, $ or -, for example etl_1";

mod explain;
mod operation;
mod part;
mod statement;

type Parsed<T> = Result<T, SqlError>;

/// The statement that a piece of a script holds.
pub(super) fn statement(piece: &Piece<'_>) -> Parsed<Statement> {
    let toks = tokens(piece)?;
    if let Some(first) = toks
        .first()
        .filter(|t| t.text.eq_ignore_ascii_case("SELECT"))
    {
        let select = select::parse(piece, toks.len(), first.span)?;
        return Ok(Statement::Select(Box::new(select)));
    }
    let mut parser = Parser {
        toks: &toks,
        at: 0,
        text: piece.text,
        base: piece.at.byte,
    };
    let statement = parser.statement()?;
    parser.end()?;
    Ok(statement)
}

struct Parser<'a> {
    toks: &'a [Tok<'a>],
    at: usize,
    text: &'a str,
    base: usize,
}

impl<'a> Parser<'a> {
    fn open(&mut self, example: &str) -> Parsed<Span> {
        match self.take_punct('(') {
            Some(span) => Ok(span),
            None => Err(self.unexpected(&["("], example)),
        }
    }

    fn comma_or_close(&mut self, example: &str) -> Parsed<()> {
        if self.punct(',') {
            return Ok(());
        }
        Err(self.unexpected(&[",", ")"], example))
    }

    fn end(&self) -> Parsed<()> {
        if self.at < self.toks.len() {
            let hint = if self.peek_keyword("TO") {
                "the classifiers stand before the properties: CREATE RESOURCE GROUP etl TO (user='loader') WITH (..)"
            } else {
                "statements are separated by ;"
            };
            return Err(self.unexpected(&["the end of the statement"], hint));
        }
        Ok(())
    }

    fn peek(&self) -> Option<&'a Tok<'a>> {
        self.toks.get(self.at)
    }

    fn peek_keyword(&self, word: &str) -> bool {
        self.peek()
            .is_some_and(|t| t.kind == TokKind::Word && t.text.eq_ignore_ascii_case(word))
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = self.peek_keyword(word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, word: &str, example: &str) -> Parsed<()> {
        if self.keyword(word) {
            return Ok(());
        }
        Err(self.unexpected(&[word], example))
    }

    fn peek_punct(&self, c: char) -> bool {
        self.peek().is_some_and(|t| t.kind == TokKind::Punct(c))
    }

    fn take_punct(&mut self, c: char) -> Option<Span> {
        let span = self.peek().filter(|t| t.kind == TokKind::Punct(c))?.span;
        self.at += 1;
        Some(span)
    }

    fn punct(&mut self, c: char) -> bool {
        self.take_punct(c).is_some()
    }

    /// The place of the next token, or just behind the last one.
    fn here(&self) -> Span {
        match self.peek() {
            Some(t) => t.span,
            None => self.toks.last().map_or(Span::default(), |t| t.span.after()),
        }
    }

    /// The next token as a message names it: short, whatever it is.
    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the statement".to_owned(),
            Some(t) if t.text.chars().count() > 40 => {
                let head: String = t.text.chars().take(40).collect();
                format!("{head}…")
            }
            Some(t) => t.text.to_owned(),
        }
    }

    /// An error: one of these words or signs may stand here.
    fn unexpected(&self, words: &[&str], example: &str) -> SqlError {
        let expected = match words {
            [] => "something else".to_owned(),
            [one] => (*one).to_owned(),
            [most @ .., last] => format!("{} or {last}", most.join(", ")),
        };
        self.expected(&expected, words, example)
    }

    fn expected(&self, expected: &str, words: &[&str], example: &str) -> SqlError {
        let kind = SqlErrorKind::Syntax {
            found: self.found(),
            expected: expected.to_owned(),
        };
        let suggestion = self
            .peek()
            .filter(|t| t.kind == TokKind::Word)
            .and_then(|t| closest(t.text, words.iter().copied()));
        SqlError::new(kind, self.here())
            .with_hint(example)
            .with_suggestion(suggestion)
    }
}
