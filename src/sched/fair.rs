//! Level 1: which group a free worker serves next. Weighted fair queueing by vruntime, as CFS does for
//! threads and StarRocks' pipeline engine for drivers, over any number of workers and with one queue.
//!
//! Pure. Invariants:
//! 1. `vruntime = charged worker time ÷ weight`, exact to the remainder, one for the whole governor.
//! 2. A group is in the heap iff it is *queued* (has tasks that no worker holds); its key is its vruntime
//!    plus the credit that it may not spend yet, plus the pre-charges of the slices it is being given, so that
//!    two workers do not dive on one group.
//! 3. A group *has work* iff it is queued or some worker serves it. Only a group without work is idle.
//! 4. A group that comes back from idle, and one that was passed over because nothing of it was queued, is
//!    at most half of its ideal share of a period behind the others: neither sleep nor inability earns credit.
//!    One slice of that credit counts at once, so that short work begins at the next poll boundary; the rest
//!    pays half of what the group uses from then on, so that it counts double until the credit is spent but
//!    shuts nobody out.
//! 5. vruntimes are rebased to the least one long before 64 bits end; charges saturate.
//!
//! The executor's order of calls, all under its lock: [`Fair::wake`] when a group gets a task while it is not
//! queued; [`Fair::stop`] at the end of a slice; [`Fair::first`], [`Fair::dequeue`] if it turns out to be
//! empty, and [`Fair::start`] to begin a slice.

use super::Config;
use super::heap::IndexedHeap;
use super::weight::Vtime;
use crate::unit::{Nanos, Weight};

/// A group's place in the policy. Reused after [`Fair::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// A slice that a worker may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The group to serve.
    pub group: Slot,
    /// When to ask again.
    pub end: Nanos,
    /// No other group has work: counting is all that is needed.
    pub solo: bool,
}

/// What a finished slice cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The group that was served.
    pub group: Slot,
    /// The worker time that it was given.
    pub given: Nanos,
}

#[derive(Debug)]
struct Group {
    weight: Weight,
    vruntime: Vtime,
    /// Credit that may not be spent yet, in virtual time.
    held: u64,
    /// Pre-charges of the slices that are running, in virtual time.
    inflight: u64,
    /// Workers that serve this group now, and the sum of the instants since when.
    running: u32,
    since: u128,
    live: bool,
}

impl Group {
    /// Where it stands in the order of service, pre-charges left aside.
    fn rank(&self) -> u64 {
        self.vruntime.v.saturating_add(self.held)
    }

    /// Held credit pays half of what is used, to the nanosecond in the group's disfavour.
    fn charge(&mut self, time: Nanos) {
        let before = self.vruntime.v;
        self.vruntime.charge(time, self.weight);
        let used = self.vruntime.v - before;
        self.held = self.held.saturating_sub(used.div_ceil(2));
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Worker {
    serving: Option<Slot>,
    since: Nanos,
    precharge: u64,
    /// Asked to give way at the next poll boundary.
    preempted: bool,
}

/// Beyond this, all vruntimes are moved down by the least one.
const REBASE_AT: u64 = u64::MAX / 4;

/// The level-1 queue.
#[derive(Debug)]
pub struct Fair {
    config: Config,
    groups: Vec<Group>,
    free: Vec<Slot>,
    queue: IndexedHeap,
    workers: Vec<Worker>,
    /// Groups that have work, and the sum of their weights.
    working: usize,
    working_weight: u64,
    /// Groups that have running but no queued tasks; at most one per worker.
    absent: Vec<Slot>,
    /// The highest vruntime ever picked: where a new group starts.
    horizon: u64,
    /// The highest vruntime ever reached: where a group starts that finds nobody with work. An empty system
    /// owes nothing to anybody; without this, whoever came first would have all that the others once had.
    top: u64,
}

impl Fair {
    /// An empty queue for `workers` workers, numbered from 0.
    pub fn new(config: Config, workers: usize) -> Fair {
        Fair {
            config,
            groups: Vec::new(),
            free: Vec::new(),
            queue: IndexedHeap::default(),
            workers: vec![Worker::default(); workers],
            working: 0,
            working_weight: 0,
            absent: Vec::with_capacity(workers),
            horizon: 0,
            top: 0,
        }
    }

    /// The constants it works with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Adds a group without work. It starts level with the others: age gives no credit.
    pub fn add(&mut self, weight: Weight) -> Slot {
        let group = Group {
            weight,
            vruntime: Vtime::at(self.horizon),
            held: 0,
            inflight: 0,
            running: 0,
            since: 0,
            live: true,
        };
        match self.free.pop() {
            Some(slot) => {
                self.groups[slot.0 as usize] = group;
                slot
            }
            None => {
                self.groups.push(group);
                Slot((self.groups.len() - 1) as u32)
            }
        }
    }

    /// Removes a group. False (and nothing happens) while it still has work.
    pub fn remove(&mut self, slot: Slot) -> bool {
        if !self.group(slot).live || self.has_work(slot) {
            return false;
        }
        self.groups[slot.0 as usize].live = false;
        self.free.push(slot);
        true
    }

    /// Changes a weight in place. What was charged stays charged; the slices that run now are charged at
    /// the new weight.
    pub fn set_weight(&mut self, slot: Slot, weight: Weight) {
        let working = self.has_work(slot);
        let group = &mut self.groups[slot.0 as usize];
        let old = std::mem::replace(&mut group.weight, weight);
        group.vruntime.reweigh(old, weight);
        if working {
            self.working_weight = self.working_weight - old.get() + weight.get();
        }
    }

    /// The weight of a group.
    pub fn weight(&self, slot: Slot) -> Weight {
        self.group(slot).weight
    }

    /// A group's vruntime in ns ÷ weight, as far as charged.
    pub fn vruntime(&self, slot: Slot) -> Nanos {
        Nanos(self.group(slot).vruntime.v)
    }

    /// Whether the group has queued tasks, as far as the policy was told.
    pub fn is_queued(&self, slot: Slot) -> bool {
        self.queue.contains(slot.0)
    }

    /// Whether the group has queued or running tasks.
    pub fn has_work(&self, slot: Slot) -> bool {
        self.is_queued(slot) || self.group(slot).running > 0
    }

    /// How many groups are queued.
    pub fn queued_groups(&self) -> usize {
        self.queue.len()
    }

    /// The groups that have work, in no order.
    pub fn working_groups(&self) -> impl Iterator<Item = Slot> + '_ {
        self.queue
            .iter()
            .map(Slot)
            .chain(self.absent.iter().copied())
    }

    /// A group got a task while it was not queued. `all_busy`: no worker is asleep.
    ///
    /// Returns the worker that should give way at its next poll boundary, if the group is so far behind
    /// what that worker serves.
    pub fn wake(&mut self, slot: Slot, now: Nanos, all_busy: bool) -> Option<usize> {
        if self.queue.contains(slot.0) {
            return None;
        }
        if self.group(slot).running > 0 {
            // It never stopped having work; what it was passed over for has been settled in `start`.
            self.absent.retain(|&s| s != slot);
        } else {
            match self.least(now) {
                Some(least) => {
                    let weights = self.working_weight + self.group(slot).weight.get();
                    self.place(slot, least, self.credit(slot, self.working, weights));
                }
                None => self.place(slot, self.top, 0),
            }
            self.working += 1;
            self.working_weight += self.group(slot).weight.get();
        }
        self.requeue(slot);
        if all_busy {
            self.preempt(slot, now)
        } else {
            None
        }
    }

    /// The group to serve next. Call [`Fair::dequeue`] and ask again if it has nothing queued after all.
    pub fn first(&self) -> Option<Slot> {
        self.queue.first().map(Slot)
    }

    /// The group turned out to have nothing queued.
    pub fn dequeue(&mut self, slot: Slot) {
        if !self.queue.contains(slot.0) {
            return;
        }
        self.queue.remove(slot.0);
        if self.group(slot).running > 0 {
            self.absent.push(slot);
        } else {
            self.retire(slot);
        }
    }

    /// Begins a slice of `slot` on `worker`, which must have stopped its last one.
    pub fn start(&mut self, worker: usize, slot: Slot, now: Nanos) -> Slice {
        self.settle_absent(slot, now);
        let precharge = self.config.slice.0 / self.group(slot).weight.get();
        let was_idle = !self.has_work(slot);
        let group = &mut self.groups[slot.0 as usize];
        group.running += 1;
        group.since += u128::from(now.0);
        group.inflight = group.inflight.saturating_add(precharge);
        self.horizon = self.horizon.max(group.rank());
        if was_idle {
            self.working += 1;
            self.working_weight += group.weight.get();
        }
        if self.queue.contains(slot.0) {
            self.requeue(slot);
        } else if !self.absent.contains(&slot) {
            self.absent.push(slot);
        }
        self.workers[worker] = Worker {
            serving: Some(slot),
            since: now,
            precharge,
            preempted: false,
        };
        Slice {
            group: slot,
            end: now.plus(self.config.slice),
            solo: self.working == 1,
        }
    }

    /// Ends the slice of `worker` after `polls` polls and charges its group. None if it had none.
    pub fn stop(&mut self, worker: usize, now: Nanos, polls: u64) -> Option<Charge> {
        let Worker {
            serving,
            since,
            precharge,
            ..
        } = std::mem::take(&mut self.workers[worker]);
        let slot = serving?;
        let given = now.since(since);
        let price = given.0.max(polls.saturating_mul(self.config.min_charge.0));
        let group = &mut self.groups[slot.0 as usize];
        group.inflight = group.inflight.saturating_sub(precharge);
        group.running -= 1;
        group.since -= u128::from(since.0);
        group.charge(Nanos(price));
        let (running, v) = (group.running, group.vruntime.v);
        self.top = self.top.max(v);
        if self.queue.contains(slot.0) {
            self.requeue(slot);
        } else if running == 0 {
            self.absent.retain(|&s| s != slot);
            self.retire(slot);
        }
        if v > REBASE_AT {
            self.rebase();
        }
        Some(Charge { group: slot, given })
    }

    /// Charges a slice that is still running for its time so far, as the watchdog does for long polls.
    pub fn charge_running(&mut self, worker: usize, now: Nanos) -> Option<Charge> {
        let slot = self.workers[worker].serving?;
        let since = std::mem::replace(&mut self.workers[worker].since, now);
        let given = now.since(since);
        let group = &mut self.groups[slot.0 as usize];
        group.since = group.since - u128::from(since.0) + u128::from(now.0);
        group.charge(given);
        self.top = self.top.max(group.vruntime.v);
        if self.queue.contains(slot.0) {
            self.requeue(slot);
        }
        Some(Charge { group: slot, given })
    }

    /// Whether `slot` is behind the next queued group (other than itself): the worker that just ran it dry
    /// should look for its deferred tasks before it serves the next.
    pub fn is_behind_next(&self, slot: Slot) -> bool {
        match self.first() {
            Some(next) if next != slot => self.group(slot).rank() < self.key(next),
            _ => false,
        }
    }

    fn group(&self, slot: Slot) -> &Group {
        &self.groups[slot.0 as usize]
    }

    fn key(&self, slot: Slot) -> u64 {
        let group = self.group(slot);
        group.rank().saturating_add(group.inflight)
    }

    fn requeue(&mut self, slot: Slot) {
        self.queue.set(slot.0, self.key(slot));
    }

    fn retire(&mut self, slot: Slot) {
        self.working -= 1;
        self.working_weight -= self.group(slot).weight.get();
    }

    /// Half of the group's ideal share of a period, in its virtual time: the credit that it may hold.
    /// `others` = groups with work beside it, `weights` = the sum of weights with it.
    fn credit(&self, slot: Slot, others: usize, weights: u64) -> u64 {
        let w = self.group(slot).weight.get();
        let period = u128::from(self.config.period.0);
        let ideal =
            (period * others as u128 * u128::from(w) / u128::from(weights.max(1))).min(period);
        (ideal / (2 * u128::from(w))) as u64
    }

    /// Virtual time that the running slices of a group have used and not yet been charged for.
    fn uncharged(&self, slot: Slot, now: Nanos) -> u64 {
        let group = self.group(slot);
        let time = (u128::from(group.running) * u128::from(now.0)).saturating_sub(group.since);
        u64::try_from(time / u128::from(group.weight.get())).unwrap_or(u64::MAX)
    }

    /// Where the group would rank now if its running slices were charged.
    fn standing(&self, slot: Slot, now: Nanos) -> u64 {
        let (group, used) = (self.group(slot), self.uncharged(slot, now));
        let held = group.held.saturating_sub(used.div_ceil(2));
        group.vruntime.v.saturating_add(used).saturating_add(held)
    }

    /// Invariant 4: the others are at `at`, and `credit` behind them is the most that `slot` may be.
    fn place(&mut self, slot: Slot, at: u64, credit: u64) {
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
    fn least(&self, now: Nanos) -> Option<u64> {
        let running = self.workers.iter().filter_map(|w| w.serving);
        let running = running.map(|slot| self.standing(slot, now)).min();
        let queued = self
            .queue
            .least_where(|member| self.group(Slot(member)).running == 0);
        running.into_iter().chain(queued).min()
    }

    /// Invariant 4 for groups that are never idle but cannot use their share: `picked` is being served
    /// while nothing of them is queued.
    fn settle_absent(&mut self, picked: Slot, now: Nanos) {
        let at = self.group(picked).rank();
        for i in 0..self.absent.len() {
            let slot = self.absent[i];
            if slot != picked {
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
    fn preempt(&mut self, woken: Slot, now: Nanos) -> Option<usize> {
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

    fn rebase(&mut self) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn fair(workers: usize) -> Fair {
        Fair::new(
            Config {
                slice: Nanos(100 * MS),
                min_charge: Nanos(0),
                ..Config::default()
            },
            workers,
        )
    }

    /// Runs `slices` fixed slices on one worker with all groups always queued; slices per group.
    fn run(weights: &[u64], slices: usize) -> (Vec<usize>, Vec<u32>) {
        let mut fair = fair(1);
        let slots: Vec<Slot> = weights.iter().map(|&w| fair.add(Weight::new(w))).collect();
        for &slot in &slots {
            fair.wake(slot, Nanos(0), false);
        }
        let (mut counts, mut order) = (vec![0; weights.len()], Vec::new());
        let mut now = Nanos(0);
        for _ in 0..slices {
            let slot = fair.first().unwrap();
            let slice = fair.start(0, slot, now);
            now = slice.end;
            fair.stop(0, now, 1);
            counts[slot.0 as usize] += 1;
            order.push(slot.0);
        }
        (counts, order)
    }

    #[test]
    fn fixed_slices_come_out_by_weight_exactly() {
        assert_eq!(run(&[2, 1], 30).0, [20, 10]);
        assert_eq!(run(&[1, 3, 4], 80).0, [10, 30, 40]);
        assert_eq!(run(&[2, 6, 8], 160).0, [20, 60, 80]);
        assert_eq!(run(&[2, 1], 6).1, [0, 1, 0, 0, 1, 0]);
    }

    /// A queue in which the given groups (weight, vruntime in ms) are queued.
    fn queued(groups: &[(u64, u64)]) -> Fair {
        let mut fair = fair(1);
        for &(weight, v) in groups {
            let slot = fair.add(Weight::new(weight));
            fair.groups[slot.0 as usize].vruntime = Vtime::at(v * MS);
            fair.working += 1;
            fair.working_weight += weight;
            fair.requeue(slot);
        }
        fair
    }

    #[test]
    fn a_returning_group_is_clamped_to_half_its_ideal_share() {
        let cases = [
            (&[(2, 1000)][..], 1, 0, 983_333_334),
            (&[(1, 1000)], 4, 0, 990_000_000),
            (&[(1, 1000), (2, 1500)], 1, 0, 975_000_000),
            (&[(2, 1000)], 1, 990 * MS, 990_000_000),
        ];
        for (others, weight, own, expected) in cases {
            let mut fair = queued(others);
            let slot = fair.add(Weight::new(weight));
            fair.groups[slot.0 as usize].vruntime = Vtime::at(own);
            fair.wake(slot, Nanos(0), false);
            assert_eq!(
                fair.vruntime(slot),
                Nanos(expected),
                "{others:?} + {weight}"
            );
        }
    }

    #[test]
    fn a_new_weight_counts_from_now_on() {
        let mut fair = fair(1);
        let slot = fair.add(Weight::new(1));
        fair.wake(slot, Nanos(0), false);
        fair.start(0, slot, Nanos(0));
        fair.stop(0, Nanos(100 * MS), 1);
        assert_eq!(fair.vruntime(slot), Nanos(100 * MS));
        fair.set_weight(slot, Weight::new(4));
        fair.start(0, slot, Nanos(100 * MS));
        fair.stop(0, Nanos(200 * MS), 1);
        assert_eq!(fair.vruntime(slot), Nanos(125 * MS));
    }

    #[test]
    fn vruntimes_near_the_end_of_the_range_are_rebased_and_keep_their_distance() {
        let mut fair = queued(&[(1, 0), (1, 0)]);
        let near = u64::MAX / 4;
        fair.groups[0].vruntime = Vtime::at(near);
        fair.groups[1].vruntime = Vtime::at(near - 5);
        fair.requeue(Slot(0));
        fair.requeue(Slot(1));
        for _ in 0..10 {
            let slot = fair.first().unwrap();
            fair.start(0, slot, Nanos(0));
            fair.stop(0, Nanos(10), 1);
        }
        let (a, b) = (fair.vruntime(Slot(0)).0, fair.vruntime(Slot(1)).0);
        assert!(a < 100 && b < 100 && a.abs_diff(b) <= 10, "{a} {b}");
        // One absurd charge cannot wrap either, and the other group is served from then on.
        fair.start(0, Slot(0), Nanos(0));
        fair.stop(0, Nanos::MAX, u64::MAX);
        assert_eq!(fair.first(), Some(Slot(1)));
    }

    #[test]
    fn a_waking_group_preempts_the_worker_that_is_furthest_ahead() {
        let mut fair = fair(2);
        let (a, b, c) = (
            fair.add(Weight::new(1)),
            fair.add(Weight::new(1)),
            fair.add(Weight::new(1)),
        );
        fair.wake(a, Nanos(0), false);
        fair.start(0, a, Nanos(0));
        fair.wake(b, Nanos(0), false);
        fair.start(1, b, Nanos(10 * MS));
        assert_eq!(fair.wake(c, Nanos(50 * MS), true), Some(0));
        assert_eq!(fair.wake(c, Nanos(50 * MS), true), None, "already queued");
    }

    #[test]
    fn a_group_with_work_is_not_removed() {
        let mut fair = fair(1);
        let a = fair.add(Weight::MIN);
        fair.wake(a, Nanos(0), false);
        assert!(!fair.remove(a));
        fair.dequeue(a);
        assert!(fair.remove(a));
        assert!(!fair.remove(a), "only once");
        assert_eq!(fair.add(Weight::MIN), a, "its place is used again");
    }
}
