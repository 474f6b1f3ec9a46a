//! Statements about running work: who runs, who is ended, who is watched. Not the catalog's business.
//!
//! Pure.

use super::span::Spanned;
use std::fmt::{self, Display, Formatter};

/// What an operator asks of running work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// `SHOW QUERIES`: those that run and those that wait.
    ShowQueries,
    /// `SHOW RUNNING QUERIES [LIMIT n]`: those that have used most CPU time first.
    ShowRunningQueries {
        /// So many at most.
        limit: Option<Spanned<u64>>,
    },
    /// `KILL [QUERY] id`
    Kill(Spanned<u64>),
    /// `SHOW RUNAWAY EVENTS [LIMIT n]`: queries that went over a limit, the last ones first.
    ShowRunawayEvents {
        /// So many at most.
        limit: Option<Spanned<u64>>,
    },
    /// `SHOW WATCHES`: kinds of requests whose queries were killed.
    ShowWatches,
    /// `DROP WATCH id`
    DropWatch(Spanned<u64>),
}

impl Operation {
    /// What an [`Output`](super::Output) calls the statement.
    pub const fn tag(&self) -> &'static str {
        match self {
            Operation::ShowQueries
            | Operation::ShowRunningQueries { .. }
            | Operation::ShowRunawayEvents { .. }
            | Operation::ShowWatches => "SHOW",
            Operation::Kill(_) => "KILL",
            Operation::DropWatch(_) => "DROP WATCH",
        }
    }
}

impl Display for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (text, limit) = match self {
            Operation::ShowQueries => ("SHOW QUERIES", None),
            Operation::ShowRunningQueries { limit } => ("SHOW RUNNING QUERIES", limit.as_ref()),
            Operation::Kill(id) => return write!(f, "KILL QUERY {}", id.value),
            Operation::ShowRunawayEvents { limit } => ("SHOW RUNAWAY EVENTS", limit.as_ref()),
            Operation::ShowWatches => ("SHOW WATCHES", None),
            Operation::DropWatch(id) => return write!(f, "DROP WATCH {}", id.value),
        };
        f.write_str(text)?;
        match limit {
            Some(limit) => write!(f, " LIMIT {}", limit.value),
            None => Ok(()),
        }
    }
}
