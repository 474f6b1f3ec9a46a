//! The report about a query that went over a limit of its group: what, by how much, whose limit, what came of it.
//!
//! Data only; any thread. The same report is in the error of every handle, in the list of runaway queries and, as
//! text, in the refusal of a query that is watched.

use super::Usage;
use crate::sched::breaker::{Action, BigQueryKind};
use crate::unit::{Nanos, QueryId};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// A query that went over one of its group's big_query limits. There is one for each such query, whoever looks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runaway {
    /// The query.
    pub query: QueryId,
    /// The group whose limit it was.
    pub group: Arc<str>,
    /// Who asked, if that was stated.
    pub user: Option<Arc<str>>,
    /// The databases that were stated.
    pub dbs: Vec<Arc<str>>,
    /// What the request has in common with its repetitions, if that was stated.
    pub fingerprint: Option<u64>,
    /// What it used too much of. [`BigQueryKind::property`] names the property that limits it.
    pub kind: BigQueryKind,
    /// How much it had used: nanoseconds, rows or bytes.
    pub used: u64,
    /// How much it may use, in the same unit.
    pub limit: u64,
    /// The version of the catalog since which the group's limits are as they are.
    pub catalog_version: u64,
    /// What came of it.
    pub action: Action,
    /// When.
    pub at: SystemTime,
    /// What it had used of everything by then.
    pub usage: Usage,
    /// How long ago it may have gone over its limit when that was found: at most the length of one poll, or of the
    /// timer's delay.
    pub late: Nanos,
}

impl fmt::Display for Runaway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let property = self.kind.property();
        write!(
            f,
            "query {} of resource group '{}' used {}, and {property} allows {} to one query in this process \
             (catalog version {}): {}; by then it had run {:?}, {:?} of it CPU time in {} polls, the longest {:?}",
            self.query,
            self.group,
            self.kind.amount(self.used),
            Limit(self.kind, self.limit),
            self.catalog_version,
            self.action,
            self.usage.elapsed,
            self.usage.cpu,
            self.usage.polls,
            self.usage.longest_poll,
        )?;
        match self.usage.longest_poll_at {
            Some(place) => write!(f, " of a task spawned at {place}"),
            None => Ok(()),
        }
    }
}

/// A limit without saying of what.
struct Limit(BigQueryKind, u64);

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            BigQueryKind::Cpu | BigQueryKind::Elapsed => Nanos(self.1).fmt(f),
            BigQueryKind::ScanRows => write!(f, "{} rows", self.1),
            BigQueryKind::Memory => write!(f, "{} bytes", self.1),
        }
    }
}
