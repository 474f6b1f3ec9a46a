//! What a client is told when something is wrong, or worth a remark.
//!
//! Pure. The fields are PostgreSQL's: severity, SQLSTATE, message, position in characters from 1, hint, detail.

use super::frame::Malformed;
use crate::governor::Error;
use crate::sql::SqlError;
use pgwire::error::ErrorInfo;

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Error,
    Fatal,
    Warning,
    Notice,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Warning => "WARNING",
            Severity::Notice => "NOTICE",
        }
    }
}

/// An error or a remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) severity: Severity,
    pub(super) code: &'static str,
    pub(super) message: String,
    /// Characters before the place, if it has one.
    pub(super) at: Option<usize>,
    pub(super) hint: Option<String>,
    pub(super) detail: Option<String>,
}

impl Fault {
    pub(super) fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Fault {
        Fault {
            severity,
            code,
            message: message.into(),
            at: None,
            hint: None,
            detail: None,
        }
    }

    pub(super) fn error(code: &'static str, message: impl Into<String>) -> Fault {
        Fault::new(Severity::Error, code, message)
    }

    pub(super) fn fatal(code: &'static str, message: impl Into<String>) -> Fault {
        Fault::new(Severity::Fatal, code, message)
    }

    /// The protocol was broken: nothing that follows can be understood.
    pub(super) fn protocol(message: impl Into<String>) -> Fault {
        Fault::fatal("08P01", message)
    }

    pub(super) fn cancelled() -> Fault {
        Fault::error("57014", "canceling statement due to user request")
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn detail(mut self, detail: impl Into<String>) -> Fault {
        self.detail = Some(detail.into());
        self
    }

    pub(super) fn at(mut self, characters: usize) -> Fault {
        self.at = Some(characters);
        self
    }

    /// What the statement that begins behind so many characters of the script says of itself.
    pub(super) fn behind(mut self, characters: usize) -> Fault {
        self.at = self.at.map(|at| at + characters);
        self
    }

    /// A statement that cannot be read or was refused.
    pub(super) fn of_sql(error: &SqlError) -> Fault {
        let mut fault = Fault::error(error.sqlstate(), error.message());
        if error.line() > 0 {
            fault.at = Some(error.span.start);
        }
        let suggestion = error.did_you_mean.as_ref();
        let suggestion = suggestion.map(|word| format!("did you mean {word}?"));
        let parts: Vec<&str> = [suggestion.as_deref(), error.hint.as_deref()]
            .into_iter()
            .flatten()
            .collect();
        if !parts.is_empty() {
            fault.hint = Some(parts.join(" "));
        }
        fault
    }

    /// What the governor answered.
    pub(super) fn of_governor(error: &Error) -> Fault {
        match error {
            Error::Sql(error) => Fault::of_sql(error),
            Error::UnknownGroup { .. } => Fault::error("42704", error.to_string()),
            Error::Admission(_) => Fault::error("53000", error.to_string()),
            _ => Fault::error("XX000", error.to_string()),
        }
    }

    /// What a broken message is answered with; the connection ends.
    pub(super) fn of_malformed(malformed: &Malformed) -> Fault {
        match malformed {
            Malformed::Unknown(letter) => {
                Fault::protocol(format!("there is no message of type {letter:#04x}"))
            }
            Malformed::Shape(why) => Fault::protocol(format!("the message is malformed: {why}")),
            Malformed::NotUtf8 => Fault::error("22021", "the text is not UTF-8")
                .hint("SET client_encoding to UTF8 and send it as such"),
            Malformed::Version(major, minor) => Fault::fatal(
                "0A000",
                format!(
                    "protocol {major}.{minor} is not supported: this is a PostgreSQL server, 3.0 or 3.2"
                ),
            ),
        }
    }

    /// In the library's words. Texts are cut to what a client can read.
    pub(super) fn into_info(self) -> ErrorInfo {
        let word = self.severity.word();
        let mut info = ErrorInfo::new(word.to_owned(), self.code.to_owned(), cut(self.message));
        info.severity_nonlocalized = Some(word.to_owned());
        info.position = self.at.map(|at| (at + 1).to_string());
        info.hint = self.hint.map(cut);
        info.detail = self.detail.map(cut);
        info
    }
}

/// No message has a NUL inside, and none needs more than this.
fn cut(text: String) -> String {
    const MOST: usize = 4_000;
    let mut text: String = match text.char_indices().nth(MOST) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text,
    };
    if text.contains('\0') {
        text = text.replace('\0', "\u{fffd}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_place_suggestion_and_hint() {
        let error = crate::sql::parse("DROP RESOURCE GRUOP x").unwrap_err();
        let fault = Fault::of_sql(&error).behind(10);
        assert_eq!((fault.code, fault.at), ("42601", Some(24)));
        assert!(
            fault
                .hint
                .clone()
                .unwrap()
                .starts_with("did you mean GROUP? ")
        );
        let info = fault.into_info();
        assert_eq!(info.position.as_deref(), Some("25"));
        assert_eq!(info.severity, "ERROR");
    }

    #[test]
    fn a_text_is_cut_and_has_no_nul() {
        let info = Fault::error("XX000", "a\0".repeat(10_000)).into_info();
        assert_eq!(info.message.chars().count(), 4_001);
        assert!(!info.message.contains('\0'));
    }
}
