//! What running tasks ask of the worker under them.
//!
//! Mechanism; called from inside polls, on the worker's own thread.

use super::Worker;
use super::aside::Away;
use super::stolen::SUSPECT;
use crate::exec::group::Group;
use crate::exec::task::{Runnable, Task, conclude};
use crate::sched::worth_a_wake;
use crate::unit::Nanos;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// What tasks and their harness ask of the worker that runs them.
impl Worker {
    #[inline]
    pub(in crate::exec) fn now(&self) -> Nanos {
        self.now.get()
    }

    /// Whether every task must end. Whoever was woken to end sees it at its next poll, not at the next slice.
    #[inline]
    pub(in crate::exec) fn is_cancelling(&self) -> bool {
        self.seat.ending.load(Relaxed)
    }

    /// Whether the running poll has used up what a slice is: reads the clock.
    pub(in crate::exec) fn is_turn_over(&self) -> bool {
        let ends = self.now.get().plus(self.core.setup().quantum);
        self.is_cancelling() || self.seat.preempt.load(Relaxed) || self.core.clock().now() >= ends
    }

    /// A poll begins, of the task with this number, which was spawned here.
    #[inline]
    pub(in crate::exec) fn polls_task(&self, number: u64, place: &'static Location<'static>) {
        self.seat.task.store(number, Relaxed);
        self.seat.place.store(Some(place));
    }

    /// A poll that began at `started` is over: reads the clock. What it costs, and how long it kept the worker.
    #[inline(always)]
    pub(in crate::exec) fn polled(&self, started: Nanos, delay: Nanos) -> (Nanos, Nanos) {
        let now = self.core.clock().now();
        self.now.set(now);
        let took = now.since(started);
        let (mut cost, mut held) = (took, took);
        if took >= self.suspect.get() || self.away.get() != Away::default() {
            (cost, held) = self.long_poll(took, now);
        }
        self.tally.poll(delay, held);
        (cost, held)
    }

    #[cold]
    fn long_poll(&self, took: Nanos, now: Nanos) -> (Nanos, Nanos) {
        let away = self.away.take();
        let mut held = took.since(away.wall);
        if took >= SUSPECT || away != Away::default() {
            held = held.since(self.robbed(held, now));
        }
        if held > self.core.long_poll() {
            self.tally.long_poll();
            // More may come: from now on the watchdog looks more often.
            self.core.watchdog().alarm();
            if let Some(blame) = self.seat.blame.lock().take() {
                blame.end(now);
            }
        }
        (held.plus(away.cpu), held)
    }

    /// What was stolen of a poll counts for nobody: the slice and the turn began so much later.
    fn robbed(&self, took: Nanos, now: Nanos) -> Nanos {
        let stolen = self.stolen.during(took, now);
        self.lost.set(self.lost.get().plus(stolen));
        self.slice_began.set(self.slice_began.get().plus(stolen));
        self.turn_began.set(self.turn_began.get().plus(stolen));
        stolen
    }

    /// That poll used up the cooperative budget.
    pub(in crate::exec) fn spent(&self) {
        self.spent.set(true);
    }

    /// That poll was the drop of a cancelled future.
    pub(in crate::exec) fn dropped(&self, took: Nanos) {
        let dropped = self.tally.dropped.get().saturating_add(took.0);
        self.tally.dropped.set(dropped);
    }

    /// The task's query has used `cpu` so far.
    #[inline]
    pub(in crate::exec) fn aged(&self, cpu: Nanos) {
        if cpu.0 >= self.level_end.get() {
            self.outgrown.set(true);
        }
    }

    /// That poll was its last: the rest is done when its output has reached its place.
    #[inline]
    pub(in crate::exec) fn ended(&self, task: Option<Arc<Task>>) {
        self.ended.set(task);
    }

    /// A task has ended whose output, or whose query's place, somebody may wait for, on the host's side perhaps.
    #[inline]
    pub(in crate::exec) fn is_awaited(&self) {
        self.quantum.is_awaited();
    }

    /// After a poll.
    #[inline]
    pub(super) fn see_off(&self) {
        if let Some(task) = self.ended.take() {
            conclude(self, &task);
        }
    }

    /// A task is gone that was counted in `home`: mostly the group that is being served.
    #[inline]
    pub(in crate::exec) fn finished(&self, home: &Group) {
        if home.uid == self.uid.get() {
            self.tally.finished.set(self.tally.finished.get() + 1);
        } else {
            home.counters.finished.fetch_add(1, SeqCst);
        }
    }

    /// Whether a task of this stream may join the ring.
    #[inline]
    pub(in crate::exec) fn serves(&self, stream: u64) -> bool {
        self.stream.get() == stream
    }

    /// A task of the served stream is ready. It is probably warm with what the running task just did, so it goes first.
    #[inline]
    pub(in crate::exec) fn push(&self, task: Runnable) {
        task.metadata().task.queued(self.now.get());
        if let Some(older) = self.seat.swap_lifo(task) {
            self.ring.push(older);
        }
        self.pushed();
    }

    /// A task of the served stream woke itself while it ran: it goes last.
    #[inline]
    pub(in crate::exec) fn push_yielded(&self, task: Runnable) {
        task.metadata().task.queued(self.now.get());
        self.ring.push(task);
        self.pushed();
    }

    #[inline]
    fn pushed(&self) {
        if self.lone.get() && !self.ring.is_empty() {
            self.show();
        }
        if self.core.sleepers.any() && self.ring.len() >= self.offer_at.get() {
            self.offer();
        }
    }

    /// Others sleep while more than one task waits here. If it is the same again in one poll, whoever was woken has run
    /// out of them already, and has learned how short they are.
    #[cold]
    pub(super) fn offer(&self) {
        if self.core.sleepers.wanted()
            && let Some(group) = self.group.borrow().as_deref()
        {
            self.offer_at.set(worth_a_wake(group.average_poll()));
            if self.ring.len() >= self.offer_at.get() {
                group.expose();
            }
        }
    }

    /// The group is served without a place in the level-1 queue, and is alone no more: whoever looks for work before it
    /// sleeps must find what it can take.
    #[cold]
    fn show(&self) {
        self.lone.set(false);
        if let Some(group) = self.group.borrow().as_deref() {
            group.expose_quietly();
        }
    }
}
