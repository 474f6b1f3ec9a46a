//! Why settings were refused.
//!
//! Pure.

use super::Variable;

/// Settings were refused; nothing of them is in effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A key under `pinot.query.scheduler.` that is not known.
    #[error(
        "line {line}: unknown key {key}{}",
        .did_you_mean.map(|it| format!("; did you mean {it}?")).unwrap_or_default()
    )]
    UnknownKey {
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// A known key that looks like it.
        did_you_mean: Option<&'static str>,
    },
    /// A value out of range.
    #[error(
        "{}illegal value {value:?} of {key}; allowed is {}, such as {}",
        .line.map(|line| format!("line {line}: ")).unwrap_or_default(),
        variable.spec().allowed,
        variable.spec().example
    )]
    BadValue {
        /// The line, from 1; none if it did not come from a text.
        line: Option<usize>,
        /// The key, or the variable's name.
        key: String,
        /// The value.
        value: String,
        /// Which variable it was meant for.
        variable: Variable,
    },
    /// `\u` without four hexadecimal digits.
    #[error("line {line}: \\u is followed by four hexadecimal digits, as in \\u00e4")]
    BadEscape {
        /// The line, from 1.
        line: usize,
    },
}
