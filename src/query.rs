//! A query: one admitted unit of work. It holds a slot of its group, owns tasks, has an account, can be killed.
//!
//! Mechanism; any thread. Every clone of a [`Query`] and every task of it holds one reference to the same
//! core; when the last one is gone (a task's when its *future* is dropped, a kept handle holds nothing), the
//! slot is free and the query has ended. There is no other way for a slot to come back, so there is none to
//! forget: cancel, panic, abort and drop all end in dropping.

mod ancestry;
mod current;
mod late;
pub(crate) mod memory;
mod reason;
mod runaway;

pub(crate) use ancestry::Ancestry;
pub(crate) use late::LateQuery;

pub use current::{Current, current, record_scan_bytes, record_scan_rows};
pub use reason::KillReason;
pub use runaway::Runaway;

use crate::admission::permit::Permit;
use crate::event;
use crate::exec::account::Account;
use crate::exec::join::{JoinError, JoinHandle};
use crate::exec::task::{self, Lease, Origin};
use crate::mem;
use crate::unit::QueryId;
use parking_lot::Mutex;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
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
    /// Its place. A query that moves to another group takes one there and gives this one back.
    /// None while it is being dropped.
    permit: Mutex<Option<Permit>>,
    ancestry: Ancestry,
    admitted: Instant,
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
    /// CPU time of its polls and blocking closures, complete up to the last one that ended.
    pub cpu: Duration,
    /// Polls of its tasks.
    pub polls: u64,
    /// Its longest poll; zero for a group. Time in `block_in_place` is not counted.
    pub longest_poll: Duration,
    /// Where the task of that poll was spawned; none for a group.
    pub longest_poll_at: Option<&'static Location<'static>>,
    /// Bytes that it uses now, with what threads keep in their credits.
    pub memory: u64,
    /// The most that it ever used at once.
    pub memory_peak: u64,
    /// Rows that it reported as scanned; zero for a group.
    pub scan_rows: u64,
    /// Bytes that it reported as scanned; zero for a group.
    pub scan_bytes: u64,
    /// Bytes read and written through [`fs`](crate::fs) and metered streams: the sum of the two below.
    pub io_bytes: u64,
    /// Bytes read.
    pub io_read_bytes: u64,
    /// Bytes written.
    pub io_written_bytes: u64,
    /// How long operations on files and metered streams waited for `max_io_bytes_per_second` and for shared capacities,
    /// all together.
    pub io_throttled: Duration,
    /// Time since it was admitted, on tokio's clock; zero for a group.
    pub elapsed: Duration,
    /// Its tasks that are alive; zero for a group.
    pub tasks: u64,
}

impl Query {
    /// A query that `permit` lets in, charged to `account`. `ended` is called once, when the last reference
    /// is gone and before the slot is given back.
    pub(crate) fn new(
        account: Arc<Account>,
        permit: Permit,
        ancestry: Ancestry,
        ended: impl Fn(QueryId, Outcome) + Send + Sync + 'static,
    ) -> Query {
        Query {
            core: Arc::new(Core {
                id: account.query().unwrap_or(QueryId(0)),
                account,
                permit: Mutex::new(Some(permit)),
                ancestry,
                admitted: Instant::now(),
                ended: Box::new(ended),
            }),
        }
    }

    pub(crate) fn next_id() -> QueryId {
        QueryId(NEXT_ID.fetch_add(1, Relaxed))
    }

    /// The query that the running task belongs to.
    pub fn current() -> Option<Query> {
        match task::current()?.lease?.downcast::<Core>() {
            Ok(core) => Some(Query { core }),
            Err(lease) => lease.downcast::<OnceLock<Query>>().ok()?.get().cloned(),
        }
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
        task::spawn(self.core.account.clone(), Some(self.lease()), future)
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
    pub fn run<F>(
        &self,
        future: F,
    ) -> impl Future<Output = Result<F::Output, JoinError>> + use<'_, F>
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
        let account = self.core.account.clone();
        task::spawn_as(origin, account, Some(self.lease()), future)
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        let account = self.core.account.usage();
        Usage {
            cpu: account.cpu.into(),
            polls: account.polls,
            longest_poll: account.longest_poll.into(),
            longest_poll_at: account.longest_poll_at,
            memory: self.core.account.memory_used(),
            memory_peak: self.core.account.memory().peak(),
            scan_rows: account.scan_rows,
            scan_bytes: account.scan_bytes,
            io_bytes: account.io.total(),
            io_read_bytes: account.io.read,
            io_written_bytes: account.io.written,
            io_throttled: account.io_throttled.into(),
            tasks: account.tasks,
            elapsed: self.core.admitted.elapsed(),
        }
    }

    /// Ends all its tasks: waiting ones at once, running ones at the end of their poll, later ones before
    /// they begin. Their handles yield [`KillReason::Killed`]. False if it had been killed before.
    pub fn kill(&self, why: &str) -> bool {
        self.kill_by(why, "Query::kill")
    }

    pub(crate) fn kill_by(&self, why: &str, by: &str) -> bool {
        // The reason is kept for its handles, and whoever kills may be any task.
        let _ours = mem::enter_process();
        let reason = KillReason::Killed {
            why: why.into(),
            by: by.into(),
        };
        let text = reason.to_string();
        let first = self.kill_for(reason);
        if first {
            event::kill(self.group(), self.id(), &text);
        }
        first
    }

    pub(crate) fn kill_for(&self, reason: KillReason) -> bool {
        self.core.account.kill(reason.into_cause())
    }

    /// Adds to the rows that it has scanned. Above its group's `big_query_scan_rows_limit` it is dealt with at
    /// once. Costs one atomic addition and one comparison: call it once per batch, not per row.
    pub fn record_scan_rows(&self, rows: u64) {
        self.core.account.record_scan_rows(rows);
    }

    /// Adds to the bytes that it has scanned.
    pub fn record_scan_bytes(&self, bytes: u64) {
        self.core.account.record_scan_bytes(bytes);
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.core.account
    }

    /// Such a place for one more query, which was admitted inside of this one: its own, or that of the nearest query that it is
    /// nested in itself.
    pub(crate) fn share_place(&self, such: impl Fn(&Permit) -> bool) -> Option<Permit> {
        let own = self.share_own_place(&such);
        own.or_else(|| self.core.ancestry.share_place(such))
    }

    fn share_own_place(&self, such: &impl Fn(&Permit) -> bool) -> Option<Permit> {
        let permit = self.core.permit.lock();
        permit
            .as_ref()
            .filter(|permit| such(permit))
            .map(Permit::share)
    }

    /// Takes another place; the one it had, for the caller to give back.
    pub(crate) fn change_place(&self, place: Permit) -> Option<Permit> {
        self.core.permit.lock().replace(place)
    }

    /// When it was admitted, on tokio's clock.
    pub(crate) fn admitted(&self) -> Instant {
        self.core.admitted
    }

    /// Whether it was killed, and only its end is awaited.
    pub(crate) fn is_killed(&self) -> bool {
        self.core.account.killed().is_some()
    }

    pub(crate) fn downgrade(&self) -> WeakQuery {
        WeakQuery(Arc::downgrade(&self.core))
    }

    pub(crate) fn lease(&self) -> Lease {
        self.core.clone()
    }
}

/// A query that is looked at without being kept.
#[derive(Clone)]
pub(crate) struct WeakQuery(std::sync::Weak<Core>);

impl WeakQuery {
    fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

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
        // By whichever task held it last: what others are given with its place is not that task's memory.
        let _ours = mem::enter_process();
        (self.ended)(self.id, outcome);
        drop(self.permit.get_mut().take());
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
