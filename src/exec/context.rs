//! Where am I: the worker of this thread, the task that it polls, and the executor entered by hand.
//!
//! Mechanism: thread-locals, each set for a scope and restored on every way out, panics included.

use super::account::Account;
use super::core::Seat;
use super::task::{Lease, Task};
use super::worker::Worker;
use crate::mem;
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::mem::{ManuallyDrop, forget, swap};
use std::sync::{Arc, OnceLock};

/// What a running task is: kept by the task, lent to the thread while it is polled or dropped.
#[repr(C)]
pub(super) struct Scope {
    pub(super) task: Arc<Task>,
    pub(super) lease: Option<Lease>,
}

scoped_tls::scoped_thread_local!(static WORKER: Worker);

thread_local! {
    /// What this thread runs. Without a destructor, so that every poll finds it at once: whoever puts it here takes it back.
    static TASK: RefCell<Option<ManuallyDrop<Scope>>> = const { RefCell::new(None) };

    /// The seat of the worker that ran on this thread last.
    static HOME: RefCell<Option<Arc<CachePadded<Seat>>>> = const { RefCell::new(None) };

    /// The default accounts entered on this thread, innermost last, each with its guard's number.
    static ENTERED: RefCell<Vec<(u64, Arc<Account>)>> = const { RefCell::new(Vec::new()) };
    static NEXT_GUARD: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn in_worker<R>(worker: &Worker, f: impl FnOnce() -> R) -> R {
    WORKER.set(worker, f)
}

/// The worker that runs on this thread now is the one to come back to it, most likely.
pub(super) fn settle_at(seat: &Arc<CachePadded<Seat>>) {
    HOME.with_borrow_mut(|home| {
        if !home.as_ref().is_some_and(|home| Arc::ptr_eq(home, seat)) {
            *home = Some(seat.clone());
        }
    });
}

/// Calls `f` with the seat of the worker that ran on this thread last, if one did.
#[inline]
pub(super) fn home<R>(f: impl FnOnce(&Arc<CachePadded<Seat>>) -> R) -> Option<R> {
    let called = HOME.try_with(|home| home.try_borrow().ok()?.as_ref().map(f));
    called.ok().flatten()
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

/// Calls `f` with the worker that runs a task on this thread.
///
/// # Panics
///
/// If there is none: only workers run tasks.
#[inline]
pub(super) fn own_worker<R>(f: impl FnOnce(&Worker) -> R) -> R {
    WORKER.with(f)
}

/// A scope: with its task, or with the thread that runs that.
pub(super) struct Lendable(Option<ManuallyDrop<Scope>>);

impl Lendable {
    pub(super) fn new(scope: Scope) -> Lendable {
        Lendable(Some(ManuallyDrop::new(scope)))
    }

    /// The scope, unless the thread has it, or it was taken.
    #[inline]
    pub(super) fn get(&self) -> Option<&Scope> {
        self.0.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self) -> Option<&mut Scope> {
        self.0.as_deref_mut()
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<Scope> {
        self.0.take().map(ManuallyDrop::into_inner)
    }

    /// With the thread if it was here, and here if it was with the thread; what that ran before, if anything, is at the other place
    /// meanwhile. It is nobody's just now: whoever [`task`] lends it to runs no tasks.
    #[inline(always)]
    fn exchange(&mut self) {
        TASK.with(|task| {
            if let Ok(mut task) = task.try_borrow_mut() {
                swap(&mut *task, &mut self.0);
            }
        });
    }
}

impl Drop for Lendable {
    #[inline]
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Brings a scope back if a panic gets by.
struct Lent<'a>(&'a mut Lendable);

impl Drop for Lent<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.exchange();
    }
}

/// Runs a task's own code, or drops what is its own: as that task, and with its owner's memory. The thread has the scope
/// meanwhile.
#[inline]
pub(super) fn in_task<R>(scope: &mut Lendable, f: impl FnOnce() -> R) -> R {
    // The scope keeps the owner, here or there.
    let owner = scope.get().map(|scope| scope.task.account().memory());
    let _owner = owner.map(|owner| mem::enter_unbound(owner));
    scope.exchange();
    let lent = Lent(scope);
    let result = f();
    lent.0.exchange();
    forget(lent);
    result
}

/// Whether this thread runs a task.
#[inline]
pub(super) fn on_task() -> bool {
    task(|scope| scope.is_some())
}

/// Calls `f` with the task that this thread runs, if any. It must not call code of others, not even to drop what is theirs: that
/// could run tasks on this thread, which would be taken for this one.
#[inline]
pub(super) fn task<R>(f: impl FnOnce(Option<&Scope>) -> R) -> R {
    TASK.with(|task| match task.try_borrow() {
        Ok(task) => f(task.as_deref()),
        Err(_) => f(None),
    })
}

/// The account that spawns without a task around them are charged to, until the guard is dropped.
#[must_use = "the executor is left when the guard is dropped"]
#[derive(Debug)]
pub struct Entered {
    guard: u64,
    // A guard belongs to the thread that it was made on.
    _not_send: std::marker::PhantomData<*const ()>,
}

/// Enters an executor on this thread through a default account.
pub fn enter(account: Arc<Account>) -> Entered {
    let guard = NEXT_GUARD.get();
    NEXT_GUARD.set(guard + 1);
    ENTERED.with_borrow_mut(|stack| stack.push((guard, account)));
    Entered {
        guard,
        _not_send: std::marker::PhantomData,
    }
}

/// Tells the account of spawns without a task around them, on threads that have entered none.
type Default = Box<dyn Fn() -> Arc<Account> + Send + Sync>;

static INSTALLED: OnceLock<Default> = OnceLock::new();

/// Makes an account the process's default, asked for at each use. False if there is one: the first call decides.
pub fn install(account: impl Fn() -> Arc<Account> + Send + Sync + 'static) -> bool {
    INSTALLED.set(Box::new(account)).is_ok()
}

/// The account of what is not in a task: entered on this thread, else installed.
pub fn outside() -> Option<Arc<Account>> {
    entered().or_else(|| Some(INSTALLED.get()?()))
}

/// The innermost account entered on this thread.
pub fn entered() -> Option<Arc<Account>> {
    ENTERED
        .try_with(|stack| stack.borrow().last().map(|(_, account)| account.clone()))
        .ok()
        .flatten()
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Guards may be dropped in any order: each takes its own account out, and no other.
        let left = ENTERED.try_with(|stack| {
            let mut stack = stack.borrow_mut();
            let place = stack.iter().position(|&(guard, _)| guard == self.guard);
            place.map(|place| stack.remove(place))
        });
        drop(left);
    }
}
