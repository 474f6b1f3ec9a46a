//! `quotient::spawn`: the drop-in for `tokio::spawn`, and where it finds its governor.
//!
//! Wiring; any thread.

use super::Governor;
use super::error::Error;
use crate::exec::account::Account;
use crate::exec::blocking;
use crate::exec::context::{self, Entered};
use crate::exec::join::JoinHandle;
use crate::exec::task::{self, Origin, surroundings};
use crate::query::Query;
use std::future::Future;
use std::sync::Arc;

/// Spawns a task, as `tokio::spawn`: inside a task, in the same group and query; outside, in `default_wg` of
/// the governor that is entered on this thread, else of the installed one.
///
/// # Panics
///
/// Outside of a task, with no governor entered or installed, as tokio does without a runtime.
///
/// # Metrics
///
/// `quotient_group_tasks_total` and `quotient_group_tasks`; what the task uses is in
/// `quotient_group_cpu_seconds_total`.
///
/// # Examples
///
/// ```
/// use quotient::{Governor, Host};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let governor = Governor::builder().host(Host::Owned).workers(1).build()?;
/// let _entered = governor.enter();
/// let answer = quotient::spawn(async { quotient::task::current().map(|it| it.group().to_owned()) });
/// assert_eq!(governor.block_on(answer)?.as_deref(), Some("default_wg"));
/// # Ok(()) }
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match task::spawn_beside(Origin::here(), future) {
        Ok(handle) => handle,
        Err(future) => {
            let outside = surroundings();
            task::spawn(outside.account, None, future)
        }
    }
}

/// Runs a closure that may block, as `tokio::task::spawn_blocking`, on the governor's blocking pool: in the group and
/// query that [`spawn`] would choose.
///
/// A thread that is free runs the closure that has waited longest of the group that had the least of the threads' time
/// for its `io_weight`. The CPU time of the thread is charged to group and query. Inside the closure [`spawn`] and
/// `task::current` work as in a task. An abort or a kill ends it only before it begins, but then at once.
///
/// It is not taken if too many closures of its group wait
/// ([`Builder::max_queued_blocking`](crate::Builder::max_queued_blocking)): the handle yields
/// [`KillReason::BlockingQueueFull`](crate::KillReason::BlockingQueueFull). See [`Builder::max_blocking_threads`] for how
/// many run at once.
///
/// [`Builder::max_blocking_threads`]: crate::Builder::max_blocking_threads
///
/// # Panics
///
/// As [`spawn`].
///
/// # Metrics
///
/// `quotient_group_io_seconds_total` and `quotient_group_cpu_seconds_total` of the kind `blocking`,
/// `quotient_group_blocking_closures`.
#[track_caller]
pub fn spawn_blocking<F, R>(closure: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let around = surroundings();
    blocking::spawn(Origin::here(), &around.account, around.lease, closure)
}

/// Makes a governor the default of this thread until it is dropped. Made by [`Governor::enter`].
#[derive(Debug)]
#[must_use = "the governor is left when the guard is dropped"]
pub struct EnterGuard<'a> {
    _entered: Entered,
    _governor: std::marker::PhantomData<&'a Governor>,
}

impl Governor {
    /// Makes this governor the process's default: `quotient::spawn` outside of tasks uses it. It then lives
    /// until [`Governor::shutdown`].
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyInstalled`] if there is one.
    pub fn install(&self) -> Result<(), Error> {
        let installed = self.clone();
        match context::install(move || installed.default_account()) {
            true => Ok(()),
            false => Err(Error::AlreadyInstalled),
        }
    }

    /// Makes this governor the default of this thread while the guard lives, as `tokio::runtime::Handle::enter`.
    pub fn enter(&self) -> EnterGuard<'_> {
        EnterGuard {
            _entered: context::enter(self.default_account()),
            _governor: std::marker::PhantomData,
        }
    }

    /// Runs a future on the calling thread until it is ready, with this governor entered: the way in from plain
    /// `fn main`, as `tokio::runtime::Runtime::block_on`. The future is in no group and is charged to none; what it
    /// spawns is in `default_wg`. It needs not be `Send`.
    ///
    /// Under [`Host::Owned`](super::Host::Owned) timers and I/O of the future are served by the workers; after
    /// [`Governor::shutdown`] inside of it, by the calling thread until it returns. Under
    /// [`Host::Attached`](super::Host::Attached) they are served by the runtime, as in tokio's `Handle::block_on`: if
    /// that is a current-thread runtime, some other thread must be driving it.
    ///
    /// # Panics
    ///
    /// Inside of an async context, as tokio's. And if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.enter();
        self.inner.entrance.block_on(future)
    }

    fn default_account(&self) -> Arc<Account> {
        self.inner.routing.load().default().loose.clone()
    }
}

impl Query {
    /// Runs a closure that may block in this query; see [`task::spawn_blocking`](crate::task::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, closure: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.spawn_blocking_as(Origin::here(), closure)
    }

    pub(super) fn spawn_blocking_as<F, R>(&self, origin: Origin, closure: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        blocking::spawn(origin, self.account(), Some(self.lease()), closure)
    }
}
