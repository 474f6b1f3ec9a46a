//! What can be wrong with a SELECT. The texts and SQLSTATEs are PostgreSQL's where it has one.
//!
//! Pure.

use crate::sql::error::SqlErrorKind;
use crate::sql::input::Unread;

/// A SELECT that is understood, but cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// More tokens than the cap; refused before it is read.
    #[error("the SELECT has {tokens} tokens, allowed are {limit}")]
    TooManyTokens {
        /// How many it has.
        tokens: usize,
        /// The cap.
        limit: usize,
    },
    /// No such system view.
    #[error("there is no system view \"{name}\"")]
    UnknownView {
        /// The name.
        name: String,
    },
    /// The view has no such column.
    #[error("column \"{column}\" does not exist in {view}")]
    UnknownColumn {
        /// The column.
        column: String,
        /// The view.
        view: String,
    },
    /// Several output columns have the name that ORDER BY or GROUP BY speaks of.
    #[error("\"{column}\" is ambiguous: several columns of the result have this name")]
    Ambiguous {
        /// The name.
        column: String,
    },
    /// An operator or function that its operands' types do not have.
    #[error("{what} does not exist")]
    NoSuchOperation {
        /// As PostgreSQL writes it: `operator text = integer`.
        what: String,
    },
    /// A text that is not a value of the type that it is compared with.
    #[error("invalid input for type {kind}: {text:?}")]
    InvalidText {
        /// The type.
        kind: &'static str,
        /// The text.
        text: String,
    },
    /// A column that is neither grouped nor inside an aggregate.
    #[error("column \"{column}\" must be in GROUP BY or inside an aggregate")]
    NotGrouped {
        /// The column.
        column: String,
    },
    /// An aggregate where none may be.
    #[error("aggregates are not allowed in {place}")]
    MisplacedAggregate {
        /// `WHERE` or `GROUP BY`.
        place: &'static str,
    },
    /// A position beyond the result's columns.
    #[error("{clause} position {position} is not in the select list, which has {columns}")]
    BadPosition {
        /// `ORDER BY` or `GROUP BY`.
        clause: &'static str,
        /// The position.
        position: String,
        /// How many columns there are.
        columns: usize,
    },
    /// A condition that is neither true nor false.
    #[error("the argument of {place} must be boolean, not {kind}")]
    NotBoolean {
        /// `WHERE`, `AND`, `OR` or `NOT`.
        place: &'static str,
        /// The type found.
        kind: &'static str,
    },
    /// LIMIT or OFFSET below zero.
    #[error("{clause} must not be negative")]
    Negative {
        /// `LIMIT` or `OFFSET`.
        clause: &'static str,
    },
    /// A number that its type has no room for: too large, below its least, or so small that only zero would be left of it.
    #[error("value {text:?} is out of range for type {kind}")]
    ValueOutOfRange {
        /// The type.
        kind: &'static str,
        /// The number as written.
        text: String,
    },
    /// A sum beyond 64 bits.
    #[error("{what} is out of range")]
    OutOfRange {
        /// What was computed.
        what: String,
    },
}

impl SelectError {
    pub(crate) fn unread(why: Unread, kind: &'static str, text: String) -> SelectError {
        match why {
            Unread::Form => SelectError::InvalidText { kind, text },
            Unread::Range => SelectError::ValueOutOfRange { kind, text },
        }
    }

    pub(crate) fn sqlstate(&self) -> &'static str {
        match self {
            SelectError::TooManyTokens { .. } => "54001",
            SelectError::UnknownView { .. } => "42P01",
            SelectError::UnknownColumn { .. } => "42703",
            SelectError::Ambiguous { .. } => "42702",
            SelectError::NoSuchOperation { .. } => "42883",
            SelectError::InvalidText { .. } => "22P02",
            SelectError::NotGrouped { .. } | SelectError::MisplacedAggregate { .. } => "42803",
            SelectError::BadPosition { .. } => "42P10",
            SelectError::NotBoolean { .. } => "42804",
            SelectError::Negative { .. } => "2201W",
            SelectError::ValueOutOfRange { .. } | SelectError::OutOfRange { .. } => "22003",
        }
    }

    /// What to write instead, where whoever found the error does not know better.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            SelectError::Ambiguous { .. } => "name them apart, as in SELECT name AS a, id AS b",
            SelectError::InvalidText { .. } => {
                "a quoted text takes the type of the other side, as in tasks = '12'"
            }
            SelectError::ValueOutOfRange { .. } => {
                "a whole number has 64 bits, and any other is a double precision number"
            }
            SelectError::NotGrouped { .. } => {
                "as in SELECT type, count(*) FROM groups GROUP BY type, or max(name)"
            }
            SelectError::MisplacedAggregate { .. } => {
                "aggregates stand behind SELECT and in ORDER BY, as in SELECT count(*) FROM groups"
            }
            SelectError::BadPosition { .. } => {
                "positions count the columns of the result from 1; a name says it too, as in ORDER BY name"
            }
            SelectError::NotBoolean { .. } => "compare it with something, as in WHERE tasks > 0",
            SelectError::Negative { .. } => {
                "leave it out to have all rows, as in LIMIT 10 OFFSET 20"
            }
            _ => return None,
        })
    }

    pub(crate) fn code(&self) -> &'static str {
        match self {
            SelectError::TooManyTokens { .. } => "too_many_tokens",
            SelectError::UnknownView { .. } => "unknown_view",
            SelectError::UnknownColumn { .. } => "unknown_column",
            SelectError::Ambiguous { .. } => "ambiguous",
            SelectError::NoSuchOperation { .. } => "no_such_operation",
            SelectError::InvalidText { .. } => "invalid_text",
            SelectError::NotGrouped { .. } => "not_grouped",
            SelectError::MisplacedAggregate { .. } => "misplaced_aggregate",
            SelectError::BadPosition { .. } => "bad_position",
            SelectError::NotBoolean { .. } => "not_boolean",
            SelectError::Negative { .. } => "negative",
            SelectError::ValueOutOfRange { .. } => "value_out_of_range",
            SelectError::OutOfRange { .. } => "out_of_range",
        }
    }
}

impl From<SelectError> for SqlErrorKind {
    fn from(error: SelectError) -> SqlErrorKind {
        SqlErrorKind::Select(error)
    }
}
