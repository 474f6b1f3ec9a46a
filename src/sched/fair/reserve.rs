//! Reservations: a group that has work and fewer workers than it reserved is served before all others.
//!
//! Pure. A reservation is a floor, not a ration: what a group has by its weight counts towards it, and above it the
//! weights decide. It is lent by itself while the group has no work, since nobody is kept from the workers then;
//! and taken back at the next poll boundary of a worker whose group has more than it reserved. Time within a
//! reservation that is larger than the weight's share moves the group's vruntime only so far ahead
//! of the others as a returning group may be behind them: when the reservation ends, it is not shut out for it.
//!
//! However much is reserved, one worker is always given away by the weights.

use super::{Fair, Slot, Worker};
use crate::unit::Nanos;

impl Fair {
    /// Reserves `workers` workers for a group, from now on.
    pub fn set_reserved(&mut self, slot: Slot, workers: u32) {
        self.groups[slot.0 as usize].reserved = workers;
        self.reserving.retain(|&s| s != slot);
        if workers > 0 {
            self.reserving.push(slot);
        }
    }

    /// The workers that are reserved for a group.
    pub fn reserved(&self, slot: Slot) -> u32 {
        self.group(slot).reserved
    }

    /// Whether no group reserves anything.
    pub fn reserves_nothing(&self) -> bool {
        self.reserving.is_empty()
    }

    /// A worker that must give way at its next poll boundary because a group with work has fewer workers than it
    /// reserved. Call it until it names none.
    pub fn give_way(&mut self, now: Nanos) -> Option<usize> {
        if self.reserving.is_empty() || self.claims() <= self.coming() {
            return None;
        }
        let lent = |(i, worker): (usize, &Worker)| {
            let slot = worker.serving.filter(|_| !worker.preempted)?;
            // Those of its workers that were asked already are as good as gone.
            let kept = self.group(slot).running.saturating_sub(self.asked_of(slot));
            let more = kept > self.group(slot).reserved;
            more.then(|| (self.standing(slot, now), worker.since, i))
        };
        let (_, _, victim) = self.workers.iter().enumerate().filter_map(lent).max()?;
        self.workers[victim].preempted = true;
        Some(victim)
    }

    /// Workers that groups with queued tasks may still claim.
    fn claims(&self) -> usize {
        let claims = self.reserving.iter().filter(|s| self.queue.contains(s.0));
        let missing = claims.map(|&slot| {
            let group = self.group(slot);
            group.reserved.saturating_sub(group.running) as usize
        });
        missing.sum::<usize>().min(self.claimable())
    }

    /// The group may want more workers from now on.
    pub(super) fn claim(&mut self, slot: Slot) {
        if self.group(slot).reserved > 0 {
            self.claims_made += 1;
            self.groups[slot.0 as usize].claimed = self.claims_made;
        }
    }

    /// Workers that will choose in a moment: those that serve nobody, and those that were asked to give way.
    fn coming(&self) -> usize {
        // Whoever is stuck in a late poll comes when it can.
        let asked = |worker: &Worker| worker.preempted && worker.late.is_none();
        let coming = |worker: &&Worker| worker.serving.is_none() || asked(worker);
        let regular = self.workers.iter().take(self.capacity);
        regular.filter(coming).count()
    }

    fn asked_of(&self, slot: Slot) -> u32 {
        let asked = |worker: &&Worker| worker.preempted && worker.serving == Some(slot);
        self.workers.iter().filter(asked).count() as u32
    }

    /// Workers that may still be claimed if one is to be left to the weights.
    pub(super) fn claimable(&self) -> usize {
        let claimed = self.reserving.iter().map(|&slot| {
            let group = self.group(slot);
            group.running.min(group.reserved) as usize
        });
        (self.capacity.saturating_sub(1)).saturating_sub(claimed.sum())
    }

    /// Whether the next worker of this group is one that it reserved.
    pub(super) fn may_claim(&self, slot: Slot) -> bool {
        let group = self.group(slot);
        group.running < group.reserved && self.claimable() > 0
    }

    /// The queued group that is first to be given what it reserved: the one that began to claim last. It is mostly
    /// the one whose slice just ended on the worker that asks, which goes on with it. For each of the others a worker
    /// was asked to give way, and comes.
    pub(super) fn claimant(&self) -> Option<Slot> {
        self.claimant_where(|_| true)
    }

    /// The same, of the groups that `wanted` accepts.
    pub(super) fn claimant_where(&self, wanted: impl Fn(Slot) -> bool) -> Option<Slot> {
        if self.reserving.is_empty() || self.claimable() == 0 {
            return None;
        }
        let claims = |slot: &Slot| {
            let group = self.group(*slot);
            group.running < group.reserved && self.queue.contains(slot.0) && wanted(*slot)
        };
        let claimants = self.reserving.iter().copied().filter(claims);
        claimants.max_by_key(|&slot| (self.group(slot).claimed, slot))
    }

    /// How far reserved time may move a group: half its ideal share of a period beyond what the weights have
    /// reached. No bound if its weight alone gives it what it reserved.
    pub(super) fn ceiling(&self, slot: Slot) -> u64 {
        if !self.exceeds_its_weight(slot, (self.capacity as u64, self.working_weight)) {
            return u64::MAX;
        }
        let others = self.working.saturating_sub(1);
        let credit = self.credit(slot, others, self.working_weight);
        self.horizon.saturating_add(credit)
    }

    /// Whether a group reserves more than its weight's part of this water level.
    pub(super) fn exceeds_its_weight(&self, slot: Slot, (workers, weights): (u64, u64)) -> bool {
        let group = self.group(slot);
        u64::from(group.reserved) * weights > workers * group.weight.get()
    }

    /// Whether all workers that the group has are reserved for it.
    pub(super) fn is_within_reservation(&self, slot: Slot) -> bool {
        let group = self.group(slot);
        group.running <= group.reserved
    }
}
