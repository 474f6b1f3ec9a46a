//! A query: one admitted unit of work. It holds a slot of its group, owns tasks, has an account, can be killed.
//!
//! Mechanism; any thread. Every clone of a [`Query`] and every task of it holds one reference to the same
//! core; when the last one is gone (a task's when its *future* is dropped, a kept handle holds nothing), the
//! slot is free and the query has ended. There is no other way for a slot to come back, so there is none to
//! forget: cancel, panic, abort and drop all end in dropping.

use crate::admission::error::AdmissionError;
use crate::admission::permit::Permit;
use crate::exec::account::Account;
use crate::exec::blocking;
use crate::exec::join::{Cause, JoinError, JoinHandle};
use crate::exec::task::{self, Lease, Origin};
use crate::unit::QueryId;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// An admitted query. Clones are the same query.
#[derive(Clone)]
pub struct Query {
    core: Arc<Core>,
}

struct Core {
    id: QueryId,
    account: Arc<Account>,
    permit: Permit,
    admitted: Instant,
    scan_rows: AtomicU64,
    scan_bytes: AtomicU64,
    ended: Box<dyn Fn(QueryId, Outcome) + Send + Sync>,
}

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All its tasks ran to their ends.
    Completed,
    /// A task panicked.
    Failed,
    /// It was killed.
    Killed,
    /// A task was aborted, or ended by a shutdown.
    Cancelled,
}

/// What a query has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Worker time of its polls, complete up to the last poll that ended.
    pub cpu: Duration,
    /// Polls of its tasks.
    pub polls: u64,
    /// Its longest poll; zero for a group.
    pub longest_poll: Duration,
    /// Rows that it reported as scanned; zero for a group.
    pub scan_rows: u64,
    /// Bytes that it reported as scanned; zero for a group.
    pub scan_bytes: u64,
    /// Time since it was admitted, on tokio's clock; zero for a group.
    pub elapsed: Duration,
}

/// Why the governor ended a task or refused to begin one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KillReason {
    /// Somebody killed the query.
    #[error("killed by {by}: {why}")]
    Killed {
        /// The reason given.
        why: Arc<str>,
        /// Through what: `Query::kill` or an operator's statement.
        by: Arc<str>,
    },
    /// The governor shut down, or the runtime under it was dropped.
    #[error("the governor was shut down")]
    Shutdown,
    /// A spawn was refused at admission.
    #[error("not admitted: {0}")]
    NotAdmitted(#[source] AdmissionError),
}

impl KillReason {
    pub(crate) fn into_cause(self) -> Cause {
        Arc::new(self)
    }
}

impl JoinError {
    /// Why the governor ended the task: `Some` if it was killed, shut down or refused; `None` for a plain
    /// abort and for a panic.
    pub fn reason(&self) -> Option<&KillReason> {
        self.cause()?.downcast_ref()
    }
}

impl Query {
    /// A query that `permit` lets in, charged to `account`. `ended` is called once, when the last reference
    /// is gone and before the slot is given back.
    pub(crate) fn new(
        account: Arc<Account>,
        permit: Permit,
        ended: impl Fn(QueryId, Outcome) + Send + Sync + 'static,
    ) -> Query {
        Query {
            core: Arc::new(Core {
                id: account.query().unwrap_or(QueryId(0)),
                account,
                permit,
                admitted: Instant::now(),
                scan_rows: AtomicU64::new(0),
                scan_bytes: AtomicU64::new(0),
                ended: Box::new(ended),
            }),
        }
    }

    pub(crate) fn next_id() -> QueryId {
        QueryId(NEXT_ID.fetch_add(1, Relaxed))
    }

    /// The query that the running task belongs to.
    pub fn current() -> Option<Query> {
        let core = task::current()?.lease?.downcast::<Core>().ok()?;
        Some(Query { core })
    }

    /// Its id, unique in the process.
    pub fn id(&self) -> QueryId {
        self.core.id
    }

    /// The name of its group.
    pub fn group(&self) -> &str {
        self.core.account.group().name()
    }

    /// Spawns a task of this query. It starts without being awaited; dropping the handle detaches it.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        task::spawn(&self.core.account, Some(self.lease()), future)
    }

    /// Spawns a task of this query and awaits it.
    ///
    /// # Errors
    ///
    /// As awaiting a [`JoinHandle`].
    ///
    /// # Cancel safety
    ///
    /// Dropping this future detaches the task, as dropping a handle does; the task goes on.
    #[track_caller]
    pub fn run<F>(&self, future: F) -> impl Future<Output = Result<F::Output, JoinError>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let origin = Origin::here();
        async move { self.spawn_as(origin, future).await }
    }

    pub(crate) fn spawn_as<F>(&self, origin: Origin, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        task::spawn_as(
            origin,
            self.core.account.clone(),
            Some(self.lease()),
            future,
        )
    }

    /// Runs a closure that may block in this query; see [`task::spawn_blocking`](crate::task::spawn_blocking).
    ///
    /// # Panics
    ///
    /// If the runtime's pool can start no thread, as tokio does.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, closure: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.spawn_blocking_as(Origin::here(), closure)
    }

    pub(crate) fn spawn_blocking_as<F, R>(&self, origin: Origin, closure: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        blocking::spawn(origin, &self.core.account, Some(self.lease()), closure)
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        let account = self.core.account.usage();
        Usage {
            cpu: account.cpu.into(),
            polls: account.polls,
            longest_poll: account.longest_poll.into(),
            scan_rows: self.core.scan_rows.load(Relaxed),
            scan_bytes: self.core.scan_bytes.load(Relaxed),
            elapsed: self.core.admitted.elapsed(),
        }
    }

    /// Ends all its tasks: waiting ones at once, running ones at the end of their poll, later ones before
    /// they begin. Their handles yield [`KillReason::Killed`]. False if it had been killed before.
    pub fn kill(&self, why: &str) -> bool {
        self.kill_for(KillReason::Killed {
            why: why.into(),
            by: "Query::kill".into(),
        })
    }

    pub(crate) fn kill_for(&self, reason: KillReason) -> bool {
        self.core.account.kill(reason.into_cause())
    }

    /// Adds to the rows that it has scanned.
    pub fn record_scan_rows(&self, rows: u64) {
        self.core.scan_rows.fetch_add(rows, Relaxed);
    }

    /// Adds to the bytes that it has scanned.
    pub fn record_scan_bytes(&self, bytes: u64) {
        self.core.scan_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.core.account
    }

    pub(crate) fn permit(&self) -> &Permit {
        &self.core.permit
    }

    pub(crate) fn downgrade(&self) -> WeakQuery {
        WeakQuery(Arc::downgrade(&self.core))
    }

    fn lease(&self) -> Lease {
        self.core.clone()
    }
}

/// A query that is looked at without being kept.
pub(crate) struct WeakQuery(std::sync::Weak<Core>);

impl WeakQuery {
    pub(crate) fn upgrade(&self) -> Option<Query> {
        Some(Query {
            core: self.0.upgrade()?,
        })
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let account = &self.account;
        let outcome = match account {
            account if account.killed().is_some() => Outcome::Killed,
            account if account.has_panicked() => Outcome::Failed,
            account if account.was_aborted() => Outcome::Cancelled,
            _ => Outcome::Completed,
        };
        (self.ended)(self.id, outcome);
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("id", &self.core.id)
            .field("group", &self.group())
            .finish_non_exhaustive()
    }
}

/// Adds to the rows scanned by the query of the running task; nothing outside of one.
pub fn record_scan_rows(rows: u64) {
    if let Some(query) = Query::current() {
        query.record_scan_rows(rows);
    }
}

/// Adds to the bytes scanned by the query of the running task; nothing outside of one.
pub fn record_scan_bytes(bytes: u64) {
    if let Some(query) = Query::current() {
        query.record_scan_bytes(bytes);
    }
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
