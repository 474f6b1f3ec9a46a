//! Input and output of groups.
//!
//! ```text
//! fs::read ─▶ slice ─▶ blocking pool ─▶ slice ─▶ blocking pool ─▶ … ─▶ output
//!                      (as the group and query that asked; bytes counted there)
//! ```
//!
//! It knows groups as the executor does, by their accounts.

pub mod fs;
