//! Text to statements: tokens, the flat AST with its canonical text, values, errors with a picture.
//!
//! ```
//! let script = "create resource group etl to (user='loader') with ('cpu_weight' = 4); show resource groups";
//! let statements = quotient::sql::parse(script)?;
//! assert_eq!(
//!     statements[0].to_string(),
//!     "CREATE RESOURCE GROUP etl TO (user='loader') WITH ('cpu_weight'='4')",
//! );
//!
//! let script = "DROP RESOURCE\n  GRUOP etl";
//! let error = quotient::sql::parse(script).unwrap_err();
//! assert_eq!((error.line(), error.column()), (2, 3));
//! assert_eq!(
//!     error.render(script).lines().collect::<Vec<_>>()[..6],
//!     [
//!         "error[42601]: found GRUOP, expected GROUP",
//!         " --> line 2, column 3",
//!         "  |",
//!         "2 |   GRUOP etl",
//!         "  |   ^^^^^",
//!         "  = did you mean GROUP?",
//!     ]
//! );
//! # Ok::<(), quotient::sql::SqlError>(())
//! ```
//!
//! Pure. What a statement means, and whether its keys and values exist, is the business of [`catalog`](crate::catalog).

pub mod ast;
mod error;
pub(crate) mod input;
pub mod like;
pub mod operation;
mod output;
mod parser;
pub(crate) mod picture;
mod render;
mod scan;
pub mod select;
mod span;
pub mod suggest;
mod token;
pub mod value;
mod width;

pub use ast::Statement;
pub use error::{Refusal, SqlError, SqlErrorKind};
pub use operation::Operation;
pub use output::{Notice, NoticeKind, Output, Type, Value};
pub use render::{Name, Quoted};
pub use scan::Caps;
pub use span::{Span, Spanned};

/// Reads a script from a client: statements separated by semicolons, at most 1 MiB each and 16 MiB together.
///
/// # Errors
/// The first thing that cannot be read, with its place and the number of its statement. The whole script is read
/// before anything is returned, so nothing of a script with a mistake is ever run.
pub fn parse(script: &str) -> Result<Vec<Statement>, SqlError> {
    parse_within(script, Caps::CLIENT)
}

/// Reads a script with other caps: [`Caps::NONE`] for files and texts of the program itself.
///
/// # Errors
/// As [`parse`].
pub fn parse_within(script: &str, caps: Caps) -> Result<Vec<Statement>, SqlError> {
    scan::split(script, caps)?
        .iter()
        .enumerate()
        .map(|(i, piece)| parser::statement(piece).map_err(|e| e.at_statement(i + 1, 0)))
        .collect()
}

/// Reads a script whose statements stand for themselves, one after the other: where each begins, in characters, its text,
/// and what it is. Each is read when it is asked for. What follows a quote or comment that is never closed is one statement that cannot be read.
pub(crate) fn parse_each(
    script: &str,
    caps: Caps,
) -> impl Iterator<Item = (usize, &str, Result<Statement, SqlError>)> {
    let mut scan = scan::Scan::new(script);
    let mut is_broken = false;
    std::iter::from_fn(move || {
        if is_broken {
            return None;
        }
        match scan.next(caps) {
            Ok(piece) => piece.map(|piece| (piece.at.char, piece.text, parser::statement(&piece))),
            Err(error) => {
                is_broken = true;
                let at = scan.broken_at();
                let text = script.get(at.byte..).unwrap_or_default();
                Some((at.char, text, Err(error)))
            }
        }
    })
}
