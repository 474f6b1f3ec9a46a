//! Closures that may block: run on the blocking pool of the host's runtime, in the group and query of whoever
//! spawned them.
//!
//! Mechanism; spawned from any thread, run by the pool's. What a closure spends on the CPU is charged to its
//! account; it is not scheduled by groups. A closure cannot be interrupted: an abort, a kill or a shutdown ends it
//! only before it begins. The order at the end is that of a task: closure gone, lease given back, output published.

use super::account::Account;
use super::context::{self, Scope};
use super::join::{JoinError, JoinHandle};
use super::task::{Cell, Lease, Origin, Outcome, contain};
use crate::clock::{Clock, ThreadTime};
use crate::event::span::Span;
use crate::mem;
use crate::unit::Nanos;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Runs `closure` on the blocking pool of the runtime that drives the account's executor.
///
/// # Panics
///
/// If the pool can start no thread, as `tokio::task::spawn_blocking`.
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
    // What the closure itself needs is its query's.
    let _owner = mem::enter(account.memory());
    let (cell, span) = Cell::<Outcome<R>>::new(account.clone(), origin, "blocking");
    let scope = Scope {
        task: cell.clone(),
        lease,
    };
    account.home.counters.blocking.fetch_add(1, SeqCst);
    account.task_began(cell.id().number());
    let job = Job {
        closure: Some(closure),
        scope,
        cell: cell.clone(),
        span,
    };
    match account.core().runtime() {
        Some(runtime) if !job.must_end() => drop(runtime.spawn_blocking(move || job.run())),
        // Ended by its destructor.
        _ => drop(job),
    }
    JoinHandle::new(cell)
}

/// A closure on its way through the pool. However it is dropped, its handle learns how it ended.
struct Job<F, R: Send + 'static> {
    closure: Option<F>,
    scope: Scope,
    cell: Arc<Cell<Outcome<R>>>,
    span: Span,
}

impl<F, R> Job<F, R>
where
    F: FnOnce() -> R,
    R: Send + 'static,
{
    fn run(mut self) {
        if self.must_end() {
            return;
        }
        let Some(closure) = self.closure.take() else {
            return;
        };
        let meter = Meter::start(self.cell.account().core().clock());
        let result = context::in_task(&self.scope, || {
            catch_unwind(AssertUnwindSafe(|| self.span.within(closure)))
        });
        if mem::take_doom() {
            // It has run to its end all the same; what else is its query's ends.
            self.cell.account().core().kill_doomed();
            let _ = mem::take_refusal();
        }
        let took = meter.read(self.cell.account().core().clock());
        self.cell.account().charge_blocking(took);
        self.finish(result.map_err(|payload| JoinError::panic(self.cell.id(), payload)));
    }
}

impl<F, R: Send + 'static> Job<F, R> {
    fn must_end(&self) -> bool {
        let account = self.cell.account();
        self.cell.is_aborted() || account.killed().is_some() || account.core().cancelled().is_some()
    }

    /// Drops a closure that was not begun, in its context; the payload if its destructor panicked.
    fn drop_closure(&mut self) -> Option<Box<dyn Any + Send>> {
        let closure = self.closure.take();
        context::in_task(&self.scope, || {
            catch_unwind(AssertUnwindSafe(|| self.span.within(|| drop(closure)))).err()
        })
    }

    fn finish(&mut self, output: Result<R, JoinError>) {
        let account = self.cell.account().clone();
        if let Err(error) = &output {
            account.task_failed(error);
        }
        account.task_gone(self.cell.id().number());
        let lease = self.scope.lease.take();
        contain(|| drop(lease));
        self.span.end();
        account.home.counters.blocking.fetch_sub(1, SeqCst);
        self.cell.complete(output);
    }
}

impl<F, R: Send + 'static> Drop for Job<F, R> {
    fn drop(&mut self) {
        if self.cell.is_finished() {
            return;
        }
        // Aborted, killed, shut down, or the pool was: it never began.
        let cause = self.cell.cause();
        let output = match self.drop_closure() {
            None => JoinError::cancelled(self.cell.id(), cause),
            Some(payload) => JoinError::panic(self.cell.id(), payload),
        };
        self.finish(Err(output));
    }
}

/// The CPU time of a thread, or wall time where the system does not tell.
struct Meter {
    thread: Option<ThreadTime>,
    wall: Nanos,
}

impl Meter {
    fn start(clock: &Clock) -> Meter {
        Meter {
            thread: ThreadTime::read(),
            wall: clock.now(),
        }
    }

    fn read(&self, clock: &Clock) -> Nanos {
        match (self.thread, ThreadTime::read()) {
            (Some(before), Some(now)) => now.cpu.since(before.cpu),
            _ => clock.now().since(self.wall),
        }
    }
}
