//! Standing in for other workers, and being found to be stuck oneself.
//!
//! Mechanism; the worker's own thread. See [`spares`](crate::exec::spares).

use super::Worker;
use crate::clock;
use crate::exec::context;
use crate::exec::core::Sched;
use crate::exec::spares::{Absence, Role};
use crate::exec::task::Runnable;
use crate::sched::fair::{Late, Slot};
use crate::unit::Nanos;
use crossbeam_deque::Worker as Ring;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl From<Late> for Absence {
    fn from(late: Late) -> Absence {
        match late {
            Late::Computing => Absence::Late,
            Late::Blocked => Absence::Blocked,
        }
    }
}

impl Worker {
    /// It runs on this thread now.
    pub(super) fn arrive(&self) {
        let seat = &**self.seat;
        seat.thread.store(clock::this_thread(), Relaxed);
        // A stand-in's thread is nobody's home: it does not come back to it by itself.
        if self.role.get().is_none() {
            context::settle_at(&self.seat);
            if seat.held_up.load(Relaxed) && seat.held_up.swap(false, SeqCst) {
                self.core
                    .spares
                    .places
                    .now_absent(Some(Absence::Late), None);
            }
        }
    }

    /// From now on it stands in, as this.
    pub(in crate::exec) fn stand_in(&self, role: Role) {
        if self.role.replace(Some(role)).is_none() {
            self.never_defers();
            self.stolen.begin(self.core.clock().now());
            let over = self.core.cancelled().is_some();
            self.seat.ending.store(over, SeqCst);
        }
    }

    pub(in crate::exec) fn role(&self) -> Option<Role> {
        self.role.get()
    }

    /// Its place is filled again, or there is nothing to do: what it holds goes back.
    pub(in crate::exec) fn stand_down(&self) {
        self.give_back_all();
        if self.core.queued_groups() > 0 {
            self.core.notify();
        }
    }

    pub(in crate::exec) fn into_ring(self) -> Ring<Runnable> {
        self.ring
    }

    /// The first group that this worker may serve.
    pub(super) fn first(&self, sched: &mut Sched) -> Option<Slot> {
        match self.role.get() {
            // At the end, everything must go.
            Some(Role::Spare) if !self.is_cancelling() => sched.fair.first_in_time(self.now.get()),
            _ => sched.fair.first(),
        }
    }

    /// If the group that is served from now on has long polls, the others are not made to wait until this one turns
    /// out to be late too.
    #[inline]
    pub(super) fn expect_late(&self, sched: &mut Sched, now: Nanos) {
        if sched.fair.expect_late(self.index, now) {
            // One poll, so that a group that has changed its ways is known to be back at once.
            self.seat.preempt.store(true, Relaxed);
            let places = &self.core.spares.places;
            places.now_absent(None, Some(Absence::Late));
        }
    }

    /// The slice has ended whose poll was found to be late: the worker is back.
    #[cold]
    pub(super) fn back_in_time(&self, late: Late) {
        self.seat.late.store(false, Relaxed);
        self.core.spares.places.now_absent(Some(late.into()), None);
        if let Some(blame) = self.seat.blame.lock().take() {
            blame.end(self.now.get());
        }
    }
}
