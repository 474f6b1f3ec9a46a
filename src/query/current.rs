//! The running task's query, as seen from inside.
//!
//! Mechanism; the thread that polls the task.

use super::{Query, Usage};
use crate::exec::task;
use crate::sched::breaker::BigQueryKind;
use crate::unit::{Nanos, QueryId};

/// Adds to the rows scanned by the query of the running task; nothing outside of one. As
/// [`Query::record_scan_rows`], and cheap enough to be called per batch.
///
/// # Metrics
///
/// `quotient_group_big_query_total`, if that is more than the group's `big_query_scan_rows_limit`.
pub fn record_scan_rows(rows: u64) {
    let too_many = task::with_account(|account| account.add_scan_rows(rows));
    if let Some(scanned) = too_many.flatten() {
        report(scanned);
    }
}

/// Whoever hears of it may end the query, and then drops what is foreign.
#[cold]
fn report(scanned: u64) {
    if let Some(task) = task::current() {
        let account = task.account;
        account.over(BigQueryKind::ScanRows, scanned, Nanos::ZERO);
    }
}

/// Adds to the bytes scanned by the query of the running task; nothing outside of one.
pub fn record_scan_bytes(bytes: u64) {
    task::with_account(|account| account.record_scan_bytes(bytes));
}

/// The running task, as seen from inside.
#[derive(Debug)]
pub struct Current {
    task: task::Current,
}

/// The task that this thread runs, if any.
pub fn current() -> Option<Current> {
    Some(Current {
        task: task::current()?,
    })
}

impl Current {
    /// The name of its group.
    pub fn group(&self) -> &str {
        self.task.account.group().name()
    }

    /// The query that it belongs to, if any.
    pub fn query_id(&self) -> Option<QueryId> {
        self.task.account.query()
    }

    /// What its query has used so far; zero if it belongs to none. The running poll is not included.
    pub fn usage(&self) -> Usage {
        Query::current().map_or_else(Usage::default, |query| query.usage())
    }
}
