//! Something that is to be said of a script: how bad it is, where, and what to do.
//!
//! Pure.

use crate::sql::{Span, SqlError, picture};
use serde_json::{Value, json};

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Good to know.
    Note,
    /// It does not do what it seems to.
    Warning,
    /// It would be refused.
    Error,
}

/// Something that was found.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// A stable word for the kind.
    pub(super) code: &'static str,
    pub(super) sqlstate: Option<&'static str>,
    pub(super) message: String,
    pub(super) span: Span,
    pub(super) notes: Vec<String>,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

impl From<&SqlError> for Finding {
    fn from(error: &SqlError) -> Finding {
        let suggestion = error.did_you_mean.as_ref();
        let suggestion = suggestion.map(|word| format!("did you mean {word}?"));
        Finding {
            level: Level::Error,
            code: error.kind.code(),
            sqlstate: Some(error.sqlstate()),
            message: error.message(),
            span: error.span,
            notes: suggestion.into_iter().chain(error.hint.clone()).collect(),
        }
    }
}

impl Finding {
    /// One without a SQLSTATE: nothing is refused for it.
    pub(super) fn new(level: Level, code: &'static str, message: String, span: Span) -> Finding {
        Finding {
            level,
            code,
            sqlstate: None,
            message,
            span,
            notes: Vec::new(),
        }
    }

    pub(super) fn with_note(mut self, note: impl Into<String>) -> Finding {
        self.notes.push(note.into());
        self
    }

    /// The picture: as an error of the service, with the file's name at the place.
    pub(super) fn picture(&self, file: &str, script: &str) -> String {
        let code = self.sqlstate.unwrap_or(self.code);
        let heading = format!("{}[{code}]: {}", self.level.name(), self.message);
        let place = format!("{file}:{}:{}", self.span.line, self.span.column);
        picture::draw(&heading, self.span, &place, script, &self.notes)
    }

    pub(super) fn json(&self) -> Value {
        // Line 0: it is of no place in particular.
        let place = |number: usize| (self.span.line > 0).then_some(number);
        json!({
            "level": self.level.name(),
            "code": self.code,
            "sqlstate": self.sqlstate,
            "message": self.message,
            "line": place(self.span.line),
            "column": place(self.span.column),
            "notes": self.notes,
        })
    }
}

/// All pictures, one after the other.
pub(super) fn pictures(findings: &[Finding], file: &str, script: &str) -> String {
    let drawn = findings.iter().map(|one| one.picture(file, script));
    drawn.map(|picture| picture + "\n\n").collect()
}
