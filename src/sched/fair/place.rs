//! Where a group stands among the others: credit, the clamp of a returning group, and who gives way to it.
//!
//! Pure. Invariant 4 of level 1 lives here.

use super::{Fair, Slot, Worker};
use crate::unit::Nanos;

impl Fair {
    /// Half of the group's ideal share of a period, in its virtual time: the credit that it may hold.
    /// `others` = groups with work beside it, `weights` = the sum of weights with it.
    pub(super) fn credit(&self, slot: Slot, others: usize, weights: u64) -> u64 {
        let w = self.group(slot).weight.get();
        let period = u128::from(self.config.period.0);
        let ideal =
            (period * others as u128 * u128::from(w) / u128::from(weights.max(1))).min(period);
        (ideal / (2 * u128::from(w))) as u64
    }

    /// Virtual time that the running slices of a group have used and not yet been charged for.
    pub(super) fn uncharged(&self, slot: Slot, now: Nanos) -> u64 {
        let group = self.group(slot);
        group.uncharged(now).0 / group.weight.get()
    }

    /// Where the group would rank now if its running slices were charged.
    pub(super) fn standing(&self, slot: Slot, now: Nanos) -> u64 {
        let (group, used) = (self.group(slot), self.uncharged(slot, now));
        let held = group.held.saturating_sub(used.div_ceil(2));
        let standing = group.vruntime.v.saturating_add(used).saturating_add(held);
        if group.reserved > 0 && self.is_within_reservation(slot) {
            standing.min(self.ceiling(slot)).max(group.rank())
        } else {
            standing
        }
    }

    /// Invariant 4: the others are at `at`, and `credit` behind them is the most that `slot` may be.
    pub(super) fn place(&mut self, slot: Slot, at: u64, credit: u64) {
        let group = &mut self.groups[slot.0 as usize];
        let at_once = match credit {
            0 => 0,
            credit => credit.min(self.config.slice.0 / group.weight.get()),
        };
        let rank = group.rank().max(at.saturating_sub(at_once));
        group.vruntime.raise(at.saturating_sub(credit));
        group.held = rank.saturating_sub(group.vruntime.v);
    }

    /// The least vruntime among the groups with work, running time included.
    ///
    /// A running group may be first in the queue by what it was charged and yet stand far behind the next
    /// one, so the queue is asked for the first that does not run.
    pub(super) fn least(&self, now: Nanos) -> Option<u64> {
        let running = self.workers.iter().filter_map(|w| w.serving);
        let running = running.map(|slot| self.standing(slot, now)).min();
        let queued = self
            .queue
            .least_where(|member| self.group(Slot(member)).running == 0);
        running.into_iter().chain(queued).min()
    }

    /// Invariant 4 for groups that are never idle but cannot use their share: `picked` is being served
    /// while nothing of them is queued, and the water level entitles them to all the workers that they have. (One
    /// that has more workers than that is catching up with the long polls of others; it forfeits nothing.)
    pub(super) fn settle_absent(&mut self, picked: Slot, now: Nanos) {
        if self.absent.iter().all(|&slot| slot == picked) {
            return;
        }
        let at = self.group(picked).rank();
        let level = self.level(picked);
        for i in 0..self.absent.len() {
            let slot = self.absent[i];
            if slot != picked && self.is_satisfied(slot, level) {
                let others = self.working.saturating_sub(1);
                let credit = self.credit(slot, others, self.working_weight);
                // Its running slices will be charged on top.
                let at = at.saturating_sub(self.uncharged(slot, now));
                self.place(slot, at, credit);
            }
        }
    }

    /// The water level: workers, and the weights that share them, after every group that reserves more than its part
    /// and every absent group that needs less has taken what is its own. Groups that are queued, and `picked`, could
    /// use any number.
    pub(super) fn level(&self, picked: Slot) -> (u64, u64) {
        let whole = (self.capacity as u64, self.working_weight);
        let apart = |&&slot: &&Slot| self.counts(slot) && self.exceeds_its_weight(slot, whole);
        let (mut all, mut weights) = whole;
        for &slot in self.reserving.iter().filter(apart) {
            let group = self.group(slot);
            let queued = self.queue.contains(slot.0);
            let taken = if queued {
                group.reserved
            } else {
                group.running.min(group.reserved)
            };
            all = all.saturating_sub(u64::from(taken));
            weights = weights.saturating_sub(group.weight.get());
        }
        let mut level = (all, weights);
        loop {
            let (mut workers, mut weights) = (all, weights);
            for &slot in &self.absent {
                let apart = self.exceeds_its_weight(slot, whole);
                if slot != picked && !apart && self.is_satisfied(slot, level) {
                    workers = workers.saturating_sub(u64::from(self.group(slot).running));
                    weights = weights.saturating_sub(self.group(slot).weight.get());
                }
            }
            if (workers, weights) == level {
                return level;
            }
            level = (workers, weights);
        }
    }

    /// Whether a group that has no queued tasks is entitled to all the workers that it has.
    fn is_satisfied(&self, slot: Slot, (workers, weights): (u64, u64)) -> bool {
        let group = self.group(slot);
        group.running <= group.reserved
            || u64::from(group.running) * weights <= workers * group.weight.get()
    }

    /// The worker that serves the group furthest ahead of the woken one, if it is far enough ahead. Among
    /// several, the one that began last: the others are nearer to the end of their slices, or past it.
    pub(super) fn preempt(&mut self, woken: Slot, now: Nanos) -> Option<usize> {
        let step = self.config.granularity.0 / self.group(woken).weight.get();
        let needed = self.key(woken).saturating_add(step);
        let ahead = |worker: &Worker| {
            let slot = worker
                .serving
                .filter(|&s| s != woken && !worker.preempted && !self.is_within_reservation(s))?;
            let standing = self.standing(slot, now);
            (standing > needed).then_some((standing, worker.since))
        };
        let (_, victim) = self
            .workers
            .iter()
            .enumerate()
            .filter_map(|(i, w)| Some((ahead(w)?, i)))
            .max()?;
        self.workers[victim].preempted = true;
        Some(victim)
    }

    /// Invariant 5: moves all vruntimes down by the least one of those with work.
    pub(super) fn rebase(&mut self) {
        let all = self.groups.iter().enumerate().filter(|(_, g)| g.live);
        let working = all
            .filter(|&(i, _)| self.has_work(Slot(i as u32)))
            .map(|(_, g)| g.vruntime.v);
        let Some(by) = working.min() else { return };
        self.groups.iter_mut().for_each(|g| g.vruntime.rebase(by));
        self.horizon = self.horizon.saturating_sub(by);
        self.top = self.top.saturating_sub(by);
        self.queue.rebase(by);
    }
}
