//! Level 1: which group a free worker serves next. Weighted fair queueing by vruntime, as CFS does for
//! threads and StarRocks' pipeline engine for drivers, over any number of workers and with one queue.
//!
//! Pure. Invariants:
//! 1. `vruntime = charged worker time ÷ weight`, exact to the remainder, one for the whole governor.
//! 2. A group is in the heap iff it is *queued* (has tasks that no worker holds) and its cap leaves it time; its
//!    key is its vruntime plus the credit that it may not spend yet, plus the pre-charges of the slices it is
//!    being given, so that two workers do not dive on one group. A group that its cap holds back is among the
//!    `dry` ones instead until its quota opens ([`Fair::refill`]); without running tasks it counts for idle.
//! 3. A group *has work* iff it is queued or some worker serves it. Only a group without work is idle.
//! 4. A group that comes back from idle, and one that was passed over because nothing of it was queued while it
//!    had no more workers than it is entitled to, is at most half of its ideal share of a period behind the
//!    others: neither sleep nor inability earns credit.
//!    One slice of that credit counts at once, so that short work begins at the next poll boundary; the rest
//!    pays half of what the group uses from then on, so that it counts double until the credit is spent but
//!    shuts nobody out.
//! 5. A group with a reservation that has fewer workers than that is served before all others; see `reserve`. One
//!    worker at least is given away by the weights.
//! 6. vruntimes are rebased to the least one long before 64 bits end; charges saturate.
//!
//! The executor's order of calls, all under its lock: [`Fair::wake`] when a group gets a task while it is not
//! queued; [`Fair::stop`] at the end of a slice; [`Fair::refill`], [`Fair::first`], [`Fair::dequeue`] if that one
//! turns out to be empty, and [`Fair::start`] to begin a slice, or [`Fair::start_held`]; then [`Fair::give_way`] until
//! it names nobody.
//! [`Fair::late`] when a poll takes too long.

mod caps;
mod group;
mod held;
mod lasting;
mod late;
mod place;
mod reserve;

pub use late::Late;

use super::Config;
use super::heap::IndexedHeap;
use crate::unit::{Nanos, Weight};
use group::Group;

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

#[derive(Clone, Copy, Debug, Default)]
struct Worker {
    serving: Option<Slot>,
    since: Nanos,
    precharge: u64,
    /// The slice is a part of the group's reservation.
    reserved: bool,
    /// Asked to give way at the next poll boundary.
    preempted: bool,
    /// Its poll takes too long.
    late: Option<Late>,
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
    /// How many workers' time is shared out.
    capacity: usize,
    /// Those workers, then the ones that stand in for them; see `late.rs`.
    workers: Vec<Worker>,
    /// How many of them serve lasting slices; see `lasting.rs`.
    lasting: usize,
    /// Groups that have work, and the sum of their weights.
    working: usize,
    working_weight: u64,
    /// Groups that have running but no queued tasks; at most one per worker.
    absent: Vec<Slot>,
    /// Groups with queued tasks that their caps hold back, by when their quotas open.
    dry: IndexedHeap,
    /// Groups that have a reservation.
    reserving: Vec<Slot>,
    claims_made: u64,
    /// The highest vruntime ever picked, reserved slices aside: where a new group starts.
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
            capacity: workers,
            workers: vec![Worker::default(); workers],
            lasting: 0,
            working: 0,
            working_weight: 0,
            absent: Vec::with_capacity(workers),
            dry: IndexedHeap::default(),
            reserving: Vec::new(),
            claims_made: 0,
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
        let group = Group::new(weight, self.horizon);
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
        self.reserving.retain(|&s| s != slot);
        self.free.push(slot);
        true
    }

    /// Changes a weight in place. What was charged stays charged; the slices that run now are charged at
    /// the new weight.
    pub fn set_weight(&mut self, slot: Slot, weight: Weight) {
        let working = self.counts(slot);
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
        self.queue.contains(slot.0) || self.dry.contains(slot.0)
    }

    /// Whether a worker serves the group beside another one, who asks.
    pub fn is_served_by_others(&self, slot: Slot) -> bool {
        self.group(slot).running > 1
    }

    /// Whether the group has queued or running tasks.
    pub fn has_work(&self, slot: Slot) -> bool {
        self.is_queued(slot) || self.group(slot).running > 0
    }

    /// How many groups are queued and may be served.
    pub fn queued_groups(&self) -> usize {
        self.queue.len()
    }

    /// The groups that have work, in no order.
    pub fn working_groups(&self) -> impl Iterator<Item = Slot> + '_ {
        let held_back = self.dry.iter().map(Slot);
        self.queue
            .iter()
            .map(Slot)
            .chain(self.absent.iter().copied())
            .chain(held_back.filter(|&slot| self.group(slot).running == 0))
    }

    /// A group got a task while it was not queued. `all_busy`: no worker is asleep.
    ///
    /// Returns the worker that should give way at its next poll boundary, if the group is so far behind
    /// what that worker serves.
    pub fn wake(&mut self, slot: Slot, now: Nanos, all_busy: bool) -> Option<usize> {
        if self.is_queued(slot) || self.is_held_back(slot, now) {
            return None;
        }
        self.join(slot, now);
        if all_busy {
            self.preempt(slot, now)
        } else {
            None
        }
    }

    /// The group enters the heap.
    fn join(&mut self, slot: Slot, now: Nanos) {
        self.get_work(slot, now);
        self.claim(slot);
        self.requeue(slot);
    }

    /// The group leaves the heap.
    fn leave(&mut self, slot: Slot) {
        self.queue.remove(slot.0);
        if self.group(slot).running > 0 {
            self.absent.push(slot);
        } else {
            self.retire(slot);
        }
    }

    /// The group to serve next. Call [`Fair::dequeue`] and ask again if it has nothing queued after all.
    pub fn first(&self) -> Option<Slot> {
        self.claimant().or_else(|| self.queue.first().map(Slot))
    }

    /// The group turned out to have nothing queued.
    pub fn dequeue(&mut self, slot: Slot) {
        if self.queue.contains(slot.0) {
            self.leave(slot);
        }
        self.dry.remove(slot.0);
    }

    /// Begins a slice of `slot` on `worker`, which must have stopped its last one.
    pub fn start(&mut self, worker: usize, slot: Slot, now: Nanos) -> Slice {
        let counted = self.counts(slot);
        self.begin(worker, slot, now, self.config.slice, counted)
    }

    /// The same as [`Fair::start`], pre-charged with what it is `expected` to last; `counted`: the group is among
    /// those that have work.
    fn begin(
        &mut self,
        worker: usize,
        slot: Slot,
        now: Nanos,
        expected: Nanos,
        counted: bool,
    ) -> Slice {
        let reserved = self.may_claim(slot);
        if !reserved {
            self.settle_absent(slot, now);
            self.horizon = self.horizon.max(self.group(slot).rank());
        }
        let end = now.plus(self.longest_slice(slot, now));
        let precharge = expected.0 / self.group(slot).weight.get();
        let group = &mut self.groups[slot.0 as usize];
        group.running += 1;
        group.since += u128::from(now.0);
        group.inflight = group.inflight.saturating_add(precharge);
        if !counted {
            self.working += 1;
            self.working_weight += group.weight.get();
        }
        if self.queue.contains(slot.0) {
            self.requeue(slot);
        } else if !self.absent.contains(&slot) {
            self.absent.push(slot);
        }
        if worker >= self.workers.len() {
            self.workers.resize(worker + 1, Worker::default());
        }
        self.workers[worker] = Worker {
            serving: Some(slot),
            since: now,
            precharge,
            reserved,
            preempted: false,
            late: None,
        };
        let solo = self.working == 1;
        self.hold_back_if_dry(slot, now);
        Slice {
            group: slot,
            end,
            solo,
        }
    }

    /// Ends the slice of `worker` after `polls` polls and charges its group. None if it had none.
    pub fn stop(&mut self, worker: usize, now: Nanos, polls: u64) -> Option<Charge> {
        let Worker {
            serving,
            since,
            precharge,
            late,
            reserved,
            ..
        } = std::mem::take(self.workers.get_mut(worker)?);
        let slot = serving?;
        let given = now.since(since);
        let price = given.0.max(polls.saturating_mul(self.config.min_charge.0));
        let group = &mut self.groups[slot.0 as usize];
        group.inflight = group.inflight.saturating_sub(precharge);
        group.running -= 1;
        group.since -= u128::from(since.0);
        group.late -= u32::from(late == Some(Late::Computing));
        self.charge(slot, Nanos(price), reserved);
        self.answer(slot, polls);
        if self.queue.contains(slot.0) {
            self.claim(slot);
            self.requeue(slot);
        } else if self.group(slot).running == 0 {
            self.absent.retain(|&s| s != slot);
            self.retire(slot);
        }
        self.pay(slot, given, now);
        if self.group(slot).vruntime.v > REBASE_AT {
            self.rebase();
        }
        Some(Charge { group: slot, given })
    }

    /// Whether `slot` is behind the next queued group (other than itself): the worker that just ran it dry
    /// should look for its deferred tasks before it serves the next.
    pub fn is_behind_next(&self, slot: Slot) -> bool {
        if self.queue.is_empty() {
            return false;
        }
        // The group itself may still be queued, and first: that it ran dry is found out when it is picked.
        let next = self.queue.least_where(|member| member != slot.0);
        next.is_some_and(|next| self.group(slot).rank() < next || self.may_claim(slot))
    }

    fn group(&self, slot: Slot) -> &Group {
        &self.groups[slot.0 as usize]
    }

    /// Whether it counts among the groups with work: queued and not held back, or served.
    fn counts(&self, slot: Slot) -> bool {
        self.queue.contains(slot.0) || self.group(slot).running > 0
    }

    fn charge(&mut self, slot: Slot, time: Nanos, reserved: bool) {
        let most = if reserved {
            self.ceiling(slot)
        } else {
            u64::MAX
        };
        let group = &mut self.groups[slot.0 as usize];
        group.charge(time, most);
        self.top = self.top.max(group.vruntime.v);
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
}

#[cfg(test)]
mod tests;
