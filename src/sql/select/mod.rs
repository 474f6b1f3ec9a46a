//! SELECT over one system view: its text to a statement of our own.
//!
//! Pure. Read by `sqlparser`, of whose trees nothing leaves this folder. Caps come before it: it was seen to abort the
//! process on texts of 20 000 terms.

mod ast;
mod before;
mod cast;
mod error;
mod foreign;
mod operator;
mod places;
mod predicate;
mod render;

pub use ast::{
    Aggregate, Compare, Function, Item, Literal, OrderBy, Predicate, Scalar, Select, Term,
};
pub use error::SelectError;

use super::error::{SqlError, SqlErrorKind};
use super::scan::Piece;
use super::span::Span;
use places::Places;

/// Bytes of a SELECT at most.
pub(super) const BYTES: usize = 8 << 10;
/// Tokens of a SELECT at most.
pub(super) const TOKENS: usize = 2_000;

/// What is supported, for refusals.
pub(super) const GRAMMAR: &str = "SELECT columns, count, sum, min, max or avg FROM view [WHERE ..] [GROUP BY ..] \
     [ORDER BY ..] [LIMIT n] [OFFSET n]; WHERE knows = <> < > <= >= AND OR NOT IN LIKE BETWEEN IS NULL";

/// Reads the SELECT that a piece of a script holds; `tokens`: how many it has, and where they are.
pub(super) fn parse(piece: &Piece<'_>, tokens: usize, whole: Span) -> Result<Select, SqlError> {
    let too_long = |what, bytes, limit| {
        SqlError::new(SqlErrorKind::TooLong { what, bytes, limit }, whole)
            .with_hint("a SELECT over a system view is short")
    };
    if piece.text.len() > BYTES {
        return Err(too_long("SELECT", piece.text.len(), BYTES));
    }
    if tokens > TOKENS {
        return Err(SqlError::new(
            SelectError::TooManyTokens {
                tokens,
                limit: TOKENS,
            }
            .into(),
            whole,
        ));
    }
    foreign::select(&Places::new(piece))
}
