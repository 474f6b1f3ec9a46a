//! Polls that take too long, and the workers that stand in for those that are stuck in them.
//!
//! Pure. A *spare* is a worker with a number beyond those that the queue was made for. It adds nothing to the
//! time that is shared out: it keeps the others from waiting for a poll that nobody can interrupt. It must not
//! serve a group of which a poll is late, or that group would get more workers the longer its polls are.

use super::{Charge, Fair, Slot, Worker};
use crate::unit::Nanos;

/// How long a group is taken at its word that its polls are long. One that has changed its ways costs the others, for
/// so long, a wake-up of a spare's thread per burst of theirs.
const NOTORIOUS: Nanos = Nanos::from_secs(1);

/// What a poll since then takes off the length of the late one. When nothing of it is left, the group is no longer expected
/// to be late. A slice of one poll costs 3 µs (measured), so that such slices take less than a tenth of the time that
/// the others may have been spared. Without it, ten thousand short polls after a late one had a slice each; and a task
/// that spawns so many in one poll was kept from its end by those slices on the other worker, and was late again.
const ANSWER: Nanos = Nanos::from_micros(50);

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
        if group.late_until <= now {
            // What was doubted long ago says nothing about this time.
            group.doubt = Nanos::ZERO;
        }
        group.late_until = group.late_until.max(now.plus(NOTORIOUS));
        // Like the second after which it is forgotten: whoever changes its ways answers for no more than one.
        group.doubt = group.doubt.plus(charge.given).min(NOTORIOUS);
        group.late += u32::from(does == Late::Computing);
        group.late -= u32::from(last == Some(Late::Computing));
        Some(charge)
    }

    /// A slice of `worker` begins. If a poll of its group was late within the last second, this one is expected to be:
    /// the others need not wait until it turns out to be. True if so; it is late then, until the slice ends.
    pub fn expect_late(&mut self, worker: usize, now: Nanos) -> bool {
        let slot = self
            .served_by(worker)
            .filter(|&s| self.is_notorious(s, now));
        let Some(slot) = slot.filter(|_| self.is_late(worker).is_none()) else {
            return false;
        };
        self.workers[worker].late = Some(Late::Computing);
        self.workers[worker].preempted = true;
        self.groups[slot.0 as usize].late += 1;
        true
    }

    /// Whether the group's polls are expected to be late.
    pub fn is_notorious(&self, slot: Slot, now: Nanos) -> bool {
        let group = self.group(slot);
        group.late_until > now && group.doubt > Nanos::ZERO
    }

    /// What the late poll of `worker` does; None if its poll is not late.
    pub fn is_late(&self, worker: usize) -> Option<Late> {
        self.workers.get(worker)?.late
    }

    /// The group that `worker` serves.
    pub fn served_by(&self, worker: usize) -> Option<Slot> {
        self.workers.get(worker)?.serving
    }

    /// As [`Fair::first`], for a spare: passes over the groups of which a poll is late and computes, or is expected
    /// to.
    pub fn first_in_time(&self, now: Nanos) -> Option<Slot> {
        let in_time = |slot: Slot| self.group(slot).late == 0 && !self.is_notorious(slot, now);
        let first = || self.queue.first_where(|member| in_time(Slot(member)));
        self.claimant_where(in_time).or_else(|| first().map(Slot))
    }

    /// So many polls of the group have ended.
    pub(super) fn answer(&mut self, slot: Slot, polls: u64) {
        let group = &mut self.groups[slot.0 as usize];
        let answer = ANSWER.0.saturating_mul(polls);
        group.doubt = group.doubt.since(Nanos(answer));
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
