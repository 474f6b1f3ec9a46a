//! From a future to a task in a queue, and from a wake-up back into one.
//!
//! Mechanism; any thread. Nothing here polls or drops a future, but for a spawn that is refused.

use super::cell::{Kind, Meta, Task};
use super::harness::Harness;
use super::{Lease, Origin, Runnable};
use crate::exec::account::Account;
use crate::exec::context::{self, Scope};
use crate::exec::hooks;
use crate::exec::join::JoinHandle;
use crate::exec::worker::Worker;
use crate::foreign::contain;
use crate::mem;
use async_task::{Builder, ScheduleInfo, WithInfo};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Futures larger than this are boxed, so that a cell stays small; tokio's limits.
const BOX_ABOVE: usize = if cfg!(debug_assertions) {
    2_048
} else {
    16_384
};

/// Spawns a task on the executor of `account`'s group. The caller is the place that its long polls are blamed on.
#[track_caller]
pub fn spawn<F>(account: Arc<Account>, lease: Option<Lease>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_as(Origin::here(), account, lease, future)
}

/// As [`spawn`], for a task that comes from elsewhere or has a name.
pub fn spawn_as<F>(
    origin: Origin,
    account: Arc<Account>,
    lease: Option<Lease>,
    future: F,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let handle = {
        // What the task itself needs is its query's. The account goes to the task, and the handle keeps that.
        let _owner = mem::enter_unbound(account.memory());
        if size_of::<F>() > BOX_ABOVE {
            spawn_sized(origin, account, lease, Box::pin(future))
        } else {
            spawn_sized(origin, account, lease, future)
        }
    };
    handle.task().account().look_at_memory();
    handle
}

/// Spawns a task beside the one that this thread runs: for the same account, with the same lease.
///
/// # Errors
///
/// The future, if this thread runs none.
pub fn spawn_beside<F>(origin: Origin, future: F) -> Result<JoinHandle<F::Output>, F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let around = context::task(|scope| {
        scope.map(|scope| (scope.task.account().clone(), scope.lease.clone()))
    });
    match around {
        Some((account, lease)) => Ok(spawn_as(origin, account, lease, future)),
        None => Err(future),
    }
}

fn spawn_sized<F>(
    origin: Origin,
    account: Arc<Account>,
    lease: Option<Lease>,
    future: F,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (task, span) = Task::new(account, origin, Kind::Task);
    let account = task.account();
    let home = &account.home;
    let ending = home.core.ending();
    if let Err(cause) = ending.count(&home.counters, || home.core.look_whether_over()) {
        contain(|| drop(future));
        contain(|| drop(lease));
        task.fail_for(cause.clone());
        return JoinHandle::apart(task, Arc::default());
    }
    account.task_began(task.id.number());
    if let Some(hooks) = home.core.hooks() {
        hooks::call(hooks.spawn.as_ref(), &task.meta());
    }
    let meta = Meta { task: task.clone() };
    let harness = Harness::new(future, Scope { task, lease }, span);
    let (runnable, block) = Builder::new()
        .metadata(meta)
        .spawn(move |_| harness, WithInfo(schedule));
    let handle = JoinHandle::of(block);
    let _ours = mem::enter_process();
    context::worker(|worker| match worker {
        Some(worker) if worker.serves(runnable.metadata().stream()) => worker.push(runnable),
        // The handle holds the group.
        _ => handle.task().group().push(runnable),
    });
    handle
}

/// Puts a task that was woken where it belongs. Runs inside `wake`: no user code, no poll, no drop of a future.
fn schedule(runnable: Runnable, info: ScheduleInfo) {
    if !info.woken_while_running {
        return context::worker(|worker| schedule_elsewhere(runnable, worker));
    }
    // Whoever polled it says so, between two polls: what is allocated is the process's already.
    context::own_worker(|worker| {
        if worker.serves(runnable.metadata().stream()) {
            runnable.metadata().task.woken();
            worker.push_yielded(runnable);
        } else {
            schedule_elsewhere(runnable, Some(worker));
        }
    });
}

/// As [`schedule`], for what was woken in a poll of another task or outside of all, or is of a stream that is served no more.
#[inline(never)]
fn schedule_elsewhere(runnable: Runnable, worker: Option<&Worker>) {
    let _ours = mem::enter_process();
    runnable.metadata().task.woken();
    match worker {
        Some(worker) if worker.serves(runnable.metadata().stream()) => {
            worker.push(runnable);
        }
        Some(_) => push_to_group(runnable),
        None => deliver(runnable),
    }
}

fn push_to_group(runnable: Runnable) {
    // Once pushed, the task may be run and gone before this returns: hold the group ourselves.
    let group = runnable.metadata().task.group().clone();
    group.push(runnable);
}

/// A task was woken outside of any poll of ours: by I/O, a timer, a deferred yield, another thread.
fn deliver(runnable: Runnable) {
    let mut task = Some(runnable);
    context::home(|seat| {
        let fits = |task: &mut Runnable| {
            let group = task.metadata().task.group();
            seat.inbox.is_open()
                && seat.poll_start.load(Relaxed) == 0
                // The thread may be home to a worker of another governor.
                && group.core.has_seat(seat)
                && !group.is_held_back()
        };
        if let Some(runnable) = task.take_if(fits) {
            match seat.inbox.put(runnable) {
                Ok(true) => seat.wake_for_mail(),
                Ok(false) => {}
                Err(runnable) => task = Some(runnable),
            }
        }
    });
    let Some(task) = task else { return };
    let group = task.metadata().task.group().clone();
    group.push_quietly(task);
    // Only now: a worker says that it sleeps, then looks whether anything was pushed.
    if !group.core.expects_worker_here() {
        group.call_a_worker();
    }
}
