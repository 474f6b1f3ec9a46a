//! A task: the user's future in a harness that contains its panics, charges its polls and ends it on demand.
//!
//! Mechanism. The block that is polled, and that the output is put into, is `async-task`'s. What is shared is our own, as
//! is the place of the join waker: a join waker or a destructor that panics cannot abort the process (async-task's
//! would), and an abort handle needs no type. Invariants:
//! 1. The future is polled and dropped only by a worker, inside `context::in_task`; never in `wake`, never
//!    under a lock of ours. (Exception: a spawn after shutdown drops the future where it is.)
//! 2. The order at the end of a task is tokio's: drop the future, give the lease back, publish the output,
//!    wake the joiner. Whoever sees the output can count on the lease being free.
//! 3. A handle polls its block only when the task is done, and then with a waker that does nothing; every output
//!    contains what its destructor does.
//! 4. An abort, a kill or a shutdown at the task's first `Pending` is not missed: see `flags`.

mod cell;
mod ends;
mod flags;
mod harness;
mod spawn;

use super::account::Account;
use super::context;
use super::join::{Cause, JoinHandle};
use super::stats::Direction;
use super::worker::Worker;
use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

pub(super) use cell::{Kind, Meta, Task};
pub(super) use harness::conclude;
pub use spawn::{spawn, spawn_as, spawn_beside};
pub use tokio::task::{consume_budget, coop, unconstrained};

/// Something that a task holds until its future is gone: a query's slot, for instance. Children inherit it.
pub type Lease = Arc<dyn Any + Send + Sync>;

pub(super) type Runnable = async_task::Runnable<Meta>;

/// Identity of a task, unique in the process while the task lives, as `tokio::task::Id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Id {
    pub(crate) fn next() -> Id {
        Id(NEXT_ID.fetch_add(1, Relaxed))
    }

    /// From 1.
    pub(super) fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Where a task comes from: by what people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The line that spawned it.
    pub place: &'static Location<'static>,
    /// The name that it was given, if any.
    pub name: Option<Box<str>>,
}

impl Origin {
    /// A task without a name, spawned by the line that calls this or the one that calls that, and so on.
    #[track_caller]
    pub fn here() -> Origin {
        Origin {
            place: Location::caller(),
            name: None,
        }
    }
}

/// The handle of a task that was refused before it existed: cancelled, for `cause`.
#[track_caller]
pub fn refused<T: Send + 'static>(account: &Arc<Account>, cause: Cause) -> JoinHandle<T> {
    let (task, _span) = Task::new(account.clone(), Origin::here(), Kind::Task);
    task.fail_for(cause);
    JoinHandle::apart(task, Arc::default())
}

/// What the running task belongs to.
#[derive(Debug)]
pub struct Current {
    /// The task.
    pub id: Id,
    /// Whom it is charged to.
    pub account: Arc<Account>,
    /// What it holds until its future is gone.
    pub lease: Option<Lease>,
}

/// The task that this thread polls or drops, if any.
pub fn current() -> Option<Current> {
    context::task(|scope| {
        scope.map(|scope| Current {
            id: scope.task.id(),
            account: scope.task.account().clone(),
            lease: scope.lease.clone(),
        })
    })
}

/// Whom a spawn is charged to, and what it inherits.
#[derive(Debug)]
pub struct Surroundings {
    /// Whom it is charged to.
    pub account: Arc<Account>,
    /// What it holds until its future is gone.
    pub lease: Option<Lease>,
}

/// Those of the running task; outside of one, of whoever was entered or installed.
///
/// # Panics
///
/// If there is nobody, as tokio does without a runtime.
#[track_caller]
pub fn surroundings() -> Surroundings {
    if let Some(Current { account, lease, .. }) = current() {
        return Surroundings { account, lease };
    }
    match context::outside() {
        Some(account) => Surroundings {
            account,
            lease: None,
        },
        None => panic!(
            "no governor is running: quotient::spawn must be called from inside a task, under Governor::enter, or after Governor::install"
        ),
    }
}

/// Counts bytes for whoever runs on this thread, a query's task or a group's; nobody, if none does.
pub fn record_io(direction: Direction, bytes: u64) {
    context::task(|scope| {
        if let Some(scope) = scope {
            scope.task.account().record_io(direction, bytes);
        }
    });
}

/// Whether nobody will ask what comes of the task or closure that runs on this thread: its handle was dropped.
pub fn is_unwanted() -> bool {
    context::task(|scope| scope.is_some_and(|scope| scope.task.is_unwanted()))
}

/// Calls `f` with the account of the task that this thread polls or drops, if it belongs to a query. It must not run code
/// of others.
#[inline]
pub fn with_account<R>(f: impl FnOnce(&Account) -> R) -> Option<R> {
    context::task(|scope| {
        let account = scope.map(|scope| scope.task.account());
        let account = account.filter(|account| account.query().is_some());
        account.map(|account| f(account))
    })
}

/// The running task's id.
///
/// # Panics
///
/// Outside of a task, as `tokio::task::id` does.
#[track_caller]
pub fn id() -> Id {
    match try_id() {
        Some(id) => id,
        None => panic!("Can't get a task id when not inside a task"),
    }
}

/// The running task's id, if there is one.
pub fn try_id() -> Option<Id> {
    context::task(|scope| scope.map(|scope| scope.task.id()))
}

/// A place where a long computation can be ended, or give way: does nothing, in a few ns, unless the task's query has
/// been killed or doomed, the task aborted, or its turn is over; then it is as [`yield_now`]. For loops that do not
/// otherwise await.
///
/// # Cancel safety
///
/// Cancel safe: it holds nothing.
pub async fn checkpoint() {
    let must_stop = context::task(|scope| scope.is_some_and(|scope| scope.task.must_stop()));
    if must_stop || context::worker(|worker| worker.is_some_and(Worker::is_turn_over)) {
        yield_now().await;
    }
}

/// Lets the other ready tasks of the group run before this one goes on.
///
/// Other than tokio's own `yield_now`, the task is queued again at once, so that its group's share does not
/// depend on when the runtime looks after I/O.
///
/// # Cancel safety
///
/// Cancel safe: it holds nothing.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
