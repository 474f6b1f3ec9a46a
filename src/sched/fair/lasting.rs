//! Slices that nobody can cut short: a thread is given away until what it runs has ended, after a microsecond or an hour.
//!
//! Pure. What differs from the slices of workers:
//! - Whoever gives a thread away says how long the slice is expected to last, and so much is pre-charged.
//! - What has lasted longer than that counts before it ends: [`Fair::first_at`] brings a key up to date before it
//!   believes it. Keys only grow while time passes, so the first one that is up to date is the least.
//! - A reservation cannot be taken back from those whom it was lent to. It is kept free instead ([`Fair::kept_free`]),
//!   and is not pre-charged.

use super::{Charge, Fair, Slot};
use crate::sched::Config;
use crate::unit::{Nanos, Weight};

impl Fair {
    /// An empty queue for up to `threads` threads, which cost nothing until they are used.
    pub fn lasting(config: Config, threads: usize) -> Fair {
        Fair {
            capacity: threads,
            ..Fair::new(config, 0)
        }
    }

    /// As [`Fair::first`], with everything counted that runs now; nobody, if what is left is reserved for others.
    pub fn first_at(&mut self, now: Nanos) -> Option<Slot> {
        if self.lasting >= self.capacity {
            return None;
        }
        if let Some(claimant) = self.claimant() {
            return Some(claimant);
        }
        if self.lasting + self.kept_free() >= self.capacity {
            return None;
        }
        loop {
            let (key, member) = self.queue.peek()?;
            let fresh = self.key_at(Slot(member), now);
            if fresh <= key {
                return Some(Slot(member));
            }
            self.queue.set(member, fresh);
        }
    }

    /// Changes what a group may have. Keys depend on it, also for what runs.
    pub fn set_lasting(&mut self, slot: Slot, weight: Weight, reserved: u32) {
        if self.weight(slot) != weight {
            self.set_weight(slot, weight);
        }
        if self.reserved(slot) != reserved {
            self.set_reserved(slot, reserved);
        }
        if self.queue.contains(slot.0) {
            self.requeue(slot);
        }
    }

    /// As [`Fair::start`], of a slice that is expected to last for `expected`.
    pub fn start_lasting(&mut self, thread: usize, slot: Slot, now: Nanos, expected: Nanos) {
        let expected = if self.may_claim(slot) {
            Nanos::ZERO
        } else {
            expected
        };
        let counted = self.counts(slot);
        self.begin(thread, slot, now, expected, counted);
        self.lasting += 1;
    }

    /// As [`Fair::stop`], after one step.
    pub fn stop_lasting(&mut self, thread: usize, now: Nanos) -> Option<Charge> {
        let charge = self.stop(thread, now, 1)?;
        self.lasting -= 1;
        // Everything that is asked of all threads is asked of these.
        while self.workers.pop_if(|it| it.serving.is_none()).is_some() {}
        Some(charge)
    }

    /// How many threads could begin a slice now. `all` steps wait, and `queued` of a group.
    pub fn startable(&self, all: usize, queued: impl Fn(Slot) -> usize) -> usize {
        let free = self.capacity.saturating_sub(self.lasting);
        let mut claims = 0;
        for &slot in &self.reserving {
            let group = self.group(slot);
            let missing = group.reserved.saturating_sub(group.running) as usize;
            claims += missing.min(queued(slot));
        }
        let claims = claims.min(self.claimable());
        let shared = free.saturating_sub(self.kept_free());
        (claims + shared.min(all.saturating_sub(claims))).min(free)
    }

    /// How many threads serve a group now.
    pub fn running(&self, slot: Slot) -> u32 {
        self.group(slot).running
    }

    /// Time that a group's running slices have used and not been charged for.
    pub fn unpaid(&self, slot: Slot, now: Nanos) -> Nanos {
        self.group(slot).uncharged(now)
    }

    /// How many threads there may be.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many threads serve any group.
    pub fn threads_busy(&self) -> usize {
        self.lasting
    }

    /// Threads that are reserved and not used by whom they are reserved for.
    fn kept_free(&self) -> usize {
        let missing = self.reserving.iter().map(|&slot| {
            let group = self.group(slot);
            group.reserved.saturating_sub(group.running) as usize
        });
        missing.sum::<usize>().min(self.claimable())
    }

    /// Where a queued group ranks, with what its running slices have used or are expected to.
    fn key_at(&self, slot: Slot, now: Nanos) -> u64 {
        let group = self.group(slot);
        let beyond = u128::from(group.running.saturating_sub(group.reserved));
        let used = u128::from(self.uncharged(slot, now)) * beyond;
        let used = used.checked_div(u128::from(group.running)).unwrap_or(0);
        let used = u64::try_from(used).unwrap_or(u64::MAX);
        group.rank().saturating_add(group.inflight.max(used))
    }
}
