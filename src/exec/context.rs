//! Where am I: the worker of this thread, the task that it polls, and the executor entered by hand.
//!
//! Mechanism: thread-locals, each set for a scope and restored on every way out, panics included.

use super::account::Account;
use super::task::{Lease, Task};
use super::worker::Worker;
use std::cell::RefCell;
use std::sync::Arc;

/// What a running task is: kept by the task, lent to the thread while it is polled or dropped.
pub(super) struct Scope {
    pub(super) task: Arc<Task>,
    pub(super) lease: Option<Lease>,
}

scoped_tls::scoped_thread_local!(static WORKER: Worker);
scoped_tls::scoped_thread_local!(static TASK: Scope);

thread_local! {
    /// The default accounts entered on this thread, innermost last.
    static ENTERED: RefCell<Vec<Arc<Account>>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn in_worker<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    WORKER.set(worker, f)
}

/// Whether this thread is inside a worker's run loop.
pub(super) fn on_worker() -> bool {
    WORKER.is_set()
}

/// Calls `f` with this thread's worker, if it is one and inside its run loop.
#[inline]
pub(super) fn worker<R>(f: impl FnOnce(Option<&Worker>) -> R) -> R {
    if WORKER.is_set() {
        WORKER.with(|worker| f(Some(worker)))
    } else {
        f(None)
    }
}

#[inline]
pub(super) fn in_task<R>(scope: &Scope, f: impl FnOnce() -> R) -> R {
    TASK.set(scope, f)
}

/// Calls `f` with the task that this thread runs, if any.
#[inline]
pub(super) fn task<R>(f: impl FnOnce(Option<&Scope>) -> R) -> R {
    if TASK.is_set() {
        TASK.with(|scope| f(Some(scope)))
    } else {
        f(None)
    }
}

/// The account that spawns without a task around them are charged to, until the guard is dropped.
#[must_use = "the executor is left when the guard is dropped"]
#[derive(Debug)]
pub struct Entered {
    depth: usize,
    // A guard belongs to the thread that it was made on.
    _not_send: std::marker::PhantomData<*const ()>,
}

/// Enters an executor on this thread through a default account.
pub fn enter(account: Arc<Account>) -> Entered {
    let depth = ENTERED.with_borrow_mut(|stack| {
        stack.push(account);
        stack.len()
    });
    Entered {
        depth,
        _not_send: std::marker::PhantomData,
    }
}

/// The innermost account entered on this thread.
pub fn entered() -> Option<Arc<Account>> {
    ENTERED
        .try_with(|stack| stack.borrow().last().cloned())
        .ok()
        .flatten()
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Guards dropped out of order take the inner ones with them, as a stack must.
        let left = ENTERED.try_with(|stack| {
            let mut stack = stack.borrow_mut();
            let keep = (self.depth - 1).min(stack.len());
            stack.split_off(keep)
        });
        drop(left);
    }
}
