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
        let time = (u128::from(group.running) * u128::from(now.0)).saturating_sub(group.since);
        u64::try_from(time / u128::from(group.weight.get())).unwrap_or(u64::MAX)
    }

    /// Where the group would rank now if its running slices were charged.
    pub(super) fn standing(&self, slot: Slot, now: Nanos) -> u64 {
        let (group, used) = (self.group(slot), self.uncharged(slot, now));
        let held = group.held.saturating_sub(used.div_ceil(2));
        group.vruntime.v.saturating_add(used).saturating_add(held)
    }

    /// Invariant 4: the others are at `at`, and `credit` behind them is the most that `slot` may be.
    pub(super) fn place(&mut self, slot: Slot, at: u64, credit: u64) {
        let slice = self.config.slice.0 / self.group(slot).weight.get();
        let group = &mut self.groups[slot.0 as usize];
        let rank = group.rank().max(at.saturating_sub(credit.min(slice)));
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

    /// The worker that serves the group furthest ahead of the woken one, if it is far enough ahead. Among
    /// several, the one that began last: the others are nearer to the end of their slices, or past it.
    pub(super) fn preempt(&mut self, woken: Slot, now: Nanos) -> Option<usize> {
        let step = self.config.granularity.0 / self.group(woken).weight.get();
        let needed = self.key(woken).saturating_add(step);
        let ahead = |worker: &Worker| {
            let slot = worker
                .serving
                .filter(|&s| s != woken && !worker.preempted)?;
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
