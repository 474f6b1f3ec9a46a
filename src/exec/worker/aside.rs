//! Stepping aside: a task runs something that blocks or computes for long, and says so before.
//!
//! Mechanism; the worker's own thread, inside a poll. Invariants:
//! 1. A worker that is aside holds no tasks and serves no stream, so that nothing that is spawned or woken in there
//!    waits for it; a stand-in that may serve every group fills its place.
//! 2. Its slice has ended: it is charged up to there. What the thread's CPU clock counts in there is charged with
//!    the slice that begins afterwards, waiting is not.

use super::Worker;
use crate::clock::ThreadTime;
use crate::exec::context;
use crate::exec::spares::Absence;
use crate::mem;
use crate::unit::Nanos;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `f`, which may block or compute for long, and lets other tasks run meanwhile, as
/// `tokio::task::block_in_place`.
///
/// Inside a task, another thread takes the worker's place for all groups until `f` returns, at up to 512 places at
/// once (beyond, `f` runs and its worker is missing, as in tokio when its blocking threads are used up); what `f` uses
/// of the CPU is charged to the group and the query, what it waits is not. `f` still belongs to the task: what it
/// spawns is of the same group and query. An abort or a kill takes effect when the poll has ended. Calls may be nested.
///
/// Outside of a task it is tokio's.
///
/// # Panics
///
/// On a current-thread runtime, as tokio's; and if `f` panics.
///
/// # Metrics
///
/// `quotient_spares` and `quotient_spares_started_total`, if there was work for the thread that takes the place.
#[track_caller]
pub fn block_in_place<F, R>(f: F) -> R
where
    F: FnOnce() -> R,
{
    let in_task = context::task(|task| task.is_some());
    context::worker(|worker| match worker {
        Some(worker) if in_task => worker.run_aside(f),
        _ => tokio::task::block_in_place(f),
    })
}

/// A part of a poll in which the worker was aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Away {
    pub(super) wall: Nanos,
    /// What is charged of it.
    pub(super) cpu: Nanos,
}

/// While it lives, the worker is aside.
struct Aside<'a> {
    worker: &'a Worker,
    began: Nanos,
    cpu: Option<Nanos>,
}

impl Worker {
    #[track_caller]
    fn run_aside<R>(&self, f: impl FnOnce() -> R) -> R {
        let leaves_runtime = self.core.setup().hands_over;
        let refused = || {
            let handle = Handle::try_current();
            handle.is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::CurrentThread)
        };
        if self.seat.aside.load(Relaxed) || (leaves_runtime && refused()) {
            // Aside already; or tokio refuses, and says so before anything was changed.
            return if leaves_runtime {
                tokio::task::block_in_place(f)
            } else {
                f()
            };
        }
        let _aside = self.step_aside();
        if leaves_runtime {
            tokio::task::block_in_place(f)
        } else {
            f()
        }
    }

    fn step_aside(&self) -> Aside<'_> {
        let _ours = mem::enter_process();
        let began = self.core.clock().now();
        self.now.set(began);
        // A slice ends here too.
        self.ask_spillers();
        let began = self.now.get();
        let seat = &**self.seat;
        // A slice that was asked to end keeps nothing.
        seat.preempt.store(true, Relaxed);
        self.settle(began);
        let mut sched = self.core.sched.lock();
        self.queue_held(&mut sched, began);
        self.stop(&mut sched, began);
        self.core.publish(&sched);
        drop(sched);
        seat.poll_start.store(0, Relaxed);
        seat.aside.store(true, SeqCst);
        self.give_back_all();
        self.core
            .spares
            .places
            .now_absent(None, Some(Absence::Aside));
        if self.core.queued_groups() > 0 {
            self.core.notify();
        }
        Aside {
            worker: self,
            began,
            cpu: self.thread_cpu(),
        }
    }

    fn thread_cpu(&self) -> Option<Nanos> {
        let live = self.core.clock().is_live();
        live.then(ThreadTime::read).flatten().map(|time| time.cpu)
    }

    fn come_back(&self, began: Nanos, before: Option<Nanos>) {
        let _ours = mem::enter_process();
        let now = self.core.clock().now();
        let wall = now.since(began);
        // Without a CPU clock, waiting cannot be told from computing.
        let cpu = match (before, self.thread_cpu()) {
            (Some(before), Some(cpu)) => cpu.since(before).min(wall),
            _ => wall,
        };
        let away = self.away.get();
        self.away.set(Away {
            wall: away.wall.plus(wall),
            cpu: away.cpu.plus(cpu),
        });
        let seat = &**self.seat;
        seat.aside.store(false, SeqCst);
        let places = &self.core.spares.places;
        places.now_absent(Some(Absence::Aside), None);
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return;
        };
        self.now.set(now);
        let start = now.since(cpu);
        let mut sched = self.core.sched.lock();
        if !sched.fair.is_queued(group.slot) {
            // It may have had no work meanwhile: it takes its place among the others as one that returns.
            group.set_active();
            sched.fair.wake(group.slot, now, false);
        }
        sched.fair.start(self.index, group.slot, start);
        group.mirror(&sched.fair);
        self.core.publish(&sched);
        drop(sched);
        self.serving.set(true);
        self.slice_began.set(start);
        self.solo.set(false);
        self.polls.set(0);
        self.stolen.begin(now);
        seat.serving.store(group.uid + 1, Relaxed);
        seat.poll_start.store(now.0.max(1), Relaxed);
        // The slice that ran is over, whatever its time: it ends with the poll.
        seat.preempt.store(true, Relaxed);
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.worker.come_back(self.began, self.cpu);
    }
}
