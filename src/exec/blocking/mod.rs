//! Closures that may block: run on the executor's own pool of threads, in the group and query of whoever spawned them.
//!
//! ```text
//! spawn ─▶ job ─▶ its group's line ─▶ a free thread: pick group by IO vruntime, first of its line ─▶ run, charge
//! ```
//!
//! Mechanism; spawned from any thread, run by the pool's. Which closure is next, [`sched::pool`](crate::sched::pool)
//! decides. What a closure spends on the CPU is charged to its account, what it takes of a thread's time to its group's
//! share of the pool. A closure cannot be interrupted: an abort, a kill or a shutdown ends it only before it begins,
//! but then at once. The order at the end is that of a task: closure gone, lease given back, output published.

mod anchor;
mod job;
mod meter;
mod pool;
mod shares;
#[cfg(test)]
mod tests;
mod threads;

pub(super) use pool::Pool;
pub use threads::Source;
pub(super) use threads::thread_is_lost;

use super::account::Account;
use super::context::{self, Scope};
use super::join::{Cause, JoinHandle};
use super::task::{Kind, Lease, Origin, Task};
use crate::mem;
use crate::sched::feedback::Place;
use job::Job;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// How the pool is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Threads at most, at least 1.
    pub threads: usize,
    /// Closures of one group that may wait for a thread.
    pub queue: usize,
    /// How long a thread waits for its next closure before it ends.
    pub keep_alive: Duration,
    /// Where the threads come from.
    pub source: Source,
    /// What the handle of a closure is told that is not taken.
    pub refusal: fn(&Account, Refusal) -> Cause,
}

/// Why a closure was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As many closures of its group wait as may.
    Full {
        /// How many that is.
        limit: usize,
    },
    /// There is no thread, and the system gives none.
    NoThread,
}

/// Runs `closure` on the pool of the account's executor. One that is not taken is dropped, and its handle is told why.
pub fn spawn<F, R>(
    origin: Origin,
    account: &Arc<Account>,
    lease: Option<Lease>,
    closure: F,
) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    cast(origin, account, lease, closure, false)
}

/// The same for a closure that goes on with what another one began: a full line does not refuse it.
pub fn go_on<F, R>(
    origin: Origin,
    account: &Arc<Account>,
    lease: Option<Lease>,
    closure: F,
) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    cast(origin, account, lease, closure, true)
}

fn cast<F, R>(
    origin: Origin,
    account: &Arc<Account>,
    lease: Option<Lease>,
    closure: F,
    goes_on: bool,
) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    // What the closure itself needs is its query's.
    let _owner = mem::enter(account.memory());
    let (task, span) = Task::new(account.clone(), origin, Kind::Closure);
    let scope = Scope {
        task: task.clone(),
        lease,
    };
    account.home.counters.blocking.fetch_add(1, SeqCst);
    account.task_began(task.id().number());
    let output = Arc::default();
    let job = Box::new(Job::new(closure, scope, Arc::clone(&output), span));
    let number = |number| task.placed(Place::unpack(number));
    account.core().pool().submit(account, job, goes_on, number);
    JoinHandle::apart(task, output)
}

/// Whether the closure that runs on this thread, which could stop here and go on as another one, had better: somebody
/// waits for a thread, or it is to end.
pub fn must_give_way() -> bool {
    context::task(|scope| {
        scope.is_some_and(|scope| {
            let account = scope.task.account();
            let core = account.core();
            account.killed().is_some() || core.cancelled().is_some() || core.pool().anyone_waits()
        })
    })
}
