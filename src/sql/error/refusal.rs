//! An error as it is made, and as it is read.
//!
//! Pure.

use super::{Refusal, SqlError, SqlErrorKind};
use crate::sql::picture;
use crate::sql::span::Span;
use std::fmt;
use std::ops::Deref;

impl SqlError {
    /// An error of the first statement, nothing applied before it.
    pub fn new(kind: SqlErrorKind, span: Span) -> SqlError {
        let hint = match &kind {
            SqlErrorKind::Select(error) => error.hint().map(str::to_owned),
            _ => None,
        };
        SqlError(Box::new(Refusal {
            kind,
            span,
            hint,
            did_you_mean: None,
            statement: 1,
            applied: 0,
        }))
    }

    /// Adds what is allowed, with an example.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the closest known word, if one is close.
    #[must_use]
    pub fn with_suggestion(mut self, word: Option<&str>) -> SqlError {
        self.0.did_you_mean = word.map(str::to_owned);
        self
    }

    /// Says which statement of a script it was, from 1, and how many were applied before it.
    #[must_use]
    pub fn at_statement(mut self, statement: usize, applied: usize) -> SqlError {
        self.0.statement = statement;
        self.0.applied = applied;
        self
    }

    /// The SQLSTATE, five characters.
    pub fn sqlstate(&self) -> &'static str {
        self.kind.sqlstate()
    }

    /// Line of the script, from 1; 0 when the statement did not come from a text.
    pub fn line(&self) -> usize {
        self.span.line
    }

    /// Column in characters, from 1; 0 when the statement did not come from a text.
    pub fn column(&self) -> usize {
        self.span.column
    }

    /// What is wrong, without place and hint.
    pub fn message(&self) -> String {
        self.kind.to_string()
    }

    /// A picture: message, place, the line of `script` with carets under what is meant, hints. `script` is the
    /// text that was parsed; with another text the picture is wrong, but nothing else.
    pub fn render(&self, script: &str) -> String {
        picture::render(self, script)
    }
}

impl Deref for SqlError {
    type Target = Refusal;

    fn deref(&self) -> &Refusal {
        &self.0
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.span.line > 0 {
            write!(f, " ({})", self.span)?;
        }
        if let Some(word) = &self.did_you_mean {
            write!(f, "; did you mean {word}?")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}
