//! Polls that take too long, and the workers that stand in for those that are stuck in them.
//!
//! Pure. A *spare* is a worker with a number beyond those that the queue was made for. It adds nothing to the
//! time that is shared out: it keeps the others from waiting for a poll that nobody can interrupt. It must not
//! serve a group of which a poll is late, or that group would get more workers the longer its polls are.

use super::{Charge, Fair, Slot, Worker};
use crate::unit::Nanos;

/// What a late poll does, as far as it can be told from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// It computes.
    Computing,
    /// It waits for something and leaves its thread's CPU alone: whoever stands in takes nobody's time.
    Blocked,
}

impl Fair {
    /// The running poll of `worker` is late, and what it does. Its slice is charged for its time so far; the end of
    /// the slice charges only what comes after. Called again while the poll goes on, it charges again, and may
    /// change its mind. None, and nothing happens, if the worker has no slice.
    pub fn late(&mut self, worker: usize, now: Nanos, does: Late) -> Option<Charge> {
        let charge = self.charge_running(worker, now)?;
        let last = self.workers[worker].late.replace(does);
        self.workers[worker].preempted = true;
        let group = &mut self.groups[charge.group.0 as usize];
        group.late += u32::from(does == Late::Computing);
        group.late -= u32::from(last == Some(Late::Computing));
        Some(charge)
    }

    /// What the late poll of `worker` does; None if its poll is not late.
    pub fn is_late(&self, worker: usize) -> Option<Late> {
        self.workers.get(worker)?.late
    }

    /// The group that `worker` serves.
    pub fn served_by(&self, worker: usize) -> Option<Slot> {
        self.workers.get(worker)?.serving
    }

    /// As [`Fair::first`], for a spare: passes over the groups of which a poll is late and computes.
    pub fn first_in_time(&self) -> Option<Slot> {
        let in_time = |slot: Slot| self.group(slot).late == 0;
        let first = || self.queue.first_where(|member| in_time(Slot(member)));
        self.claimant_where(in_time).or_else(|| first().map(Slot))
    }

    /// Charges a slice that is still running for its time so far. None if the worker has no slice.
    pub fn charge_running(&mut self, worker: usize, now: Nanos) -> Option<Charge> {
        let slot = self.served_by(worker)?;
        let Worker {
            since, reserved, ..
        } = self.workers[worker];
        let given = now.since(since);
        self.workers[worker].since = since.plus(given);
        self.groups[slot.0 as usize].since += u128::from(given.0);
        self.charge(slot, given, reserved);
        if self.queue.contains(slot.0) {
            self.requeue(slot);
        }
        self.pay(slot, given, now);
        Some(Charge { group: slot, given })
    }
}
