//! The simulator's hand on its groups while it runs: weights, reservations, caps, and a switch.
//!
//! Pure.

use super::{Event, Sim};
use crate::sched::fair::Slot;
use crate::unit::{Cores, Nanos, Weight};

impl Sim {
    /// Changes a group's weight now.
    pub fn set_weight(&mut self, group: Slot, weight: u64) {
        let weight = Weight::new(weight);
        self.fair.set_weight(group, weight);
        self.books
            .set_weight(group.0 as usize, weight.get(), self.now);
    }

    /// Reserves workers for a group from now on.
    pub fn set_reserved(&mut self, group: Slot, workers: u32) {
        self.fair.set_reserved(group, workers);
        self.books.set_reserved(group.0 as usize, workers);
        self.ask_to_give_way();
    }

    /// Caps a group, or lifts its cap, from now on.
    pub fn set_cap(&mut self, group: Slot, cores: Option<f64>) {
        let cap = cores.map(Cores::from_f64);
        self.fair.set_cap(group, cap, self.now);
        self.books.set_cap(group.0 as usize, cores);
        self.call_for_queued();
        self.await_opening();
    }

    /// How long the group's cap has held its tasks back.
    pub fn throttled(&self, group: Slot) -> Nanos {
        self.fair.throttled(group, self.now)
    }

    /// Workers stop serving the group at their next poll boundary, whatever it has to do.
    pub fn block(&mut self, group: Slot) {
        let i = group.0 as usize;
        if !std::mem::replace(&mut self.groups[i].blocked, true) {
            self.waiting -= self.groups[i].waiting;
            self.book(i);
        }
    }

    /// Ends [`Sim::block`].
    pub fn unblock(&mut self, group: Slot) {
        let i = group.0 as usize;
        if std::mem::replace(&mut self.groups[i].blocked, false) {
            self.waiting += self.groups[i].waiting;
            self.book(i);
            if self.groups[i].waiting > 0 {
                self.announce(i);
            }
        }
    }

    /// A quota may have opened.
    pub(super) fn opens(&mut self) {
        self.opens = None;
        while self.fair.refill(self.now).is_some() {
            self.call_for_queued();
        }
    }

    /// Sees to it that somebody is there when the next quota opens.
    pub(super) fn await_opening(&mut self) {
        let Some(due) = self.fair.next_refill() else {
            return;
        };
        if self.opens.is_none_or(|at| due < at) {
            self.opens = Some(due);
            self.after(due.since(self.now), Event::Opens);
        }
    }

    /// Groups were let back in.
    fn call_for_queued(&mut self) {
        for _ in 0..self.fair.queued_groups().min(self.idle) {
            self.call_a_worker();
        }
        self.ask_to_give_way();
    }

    /// Tells those workers that stand in the way of a reservation.
    pub(super) fn ask_to_give_way(&mut self) {
        while let Some(worker) = self.fair.give_way(self.now) {
            self.workers[worker].give_way = true;
        }
    }

    /// Whether a task could be polled if there were a worker.
    pub(super) fn has_runnable(&self) -> bool {
        let runnable =
            |g: &super::Group| g.waiting > 0 && !g.blocked && !self.fair.is_throttled(g.slot);
        self.waiting > 0 && self.groups.iter().any(runnable)
    }
}
