//! The groups' side of the level-1 queue: coming into it, going, and what they may have of the workers.
//!
//! Mechanism; any thread. What happens under the scheduler's lock here is a few steps of the policy each. Whether a
//! group's cap holds it back is mirrored in the group under that lock: whoever gives it a task need wake nobody then.

use super::{Core, Sched};
use crate::exec::alarm::Alarm;
use crate::exec::group::Group;
use crate::mem;
use crate::sched::Limits;
use crate::sched::fair::Slot;
use crate::unit::{Nanos, Weight};
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};

impl Core {
    pub(in crate::exec) fn add_group(&self, group: Weak<Group>, weight: Weight) -> Slot {
        let _ours = mem::enter_process();
        let mut sched = self.sched.lock();
        for slot in self.graves.lock().drain(..) {
            sched.fair.dequeue(slot);
            sched.fair.remove(slot);
        }
        let slot = sched.fair.add(weight);
        sched.ledger.open(slot);
        let index = slot.0 as usize;
        if index >= sched.groups.len() {
            sched.groups.resize_with(index + 1, Weak::new);
        }
        sched.groups[index] = group;
        slot
    }

    /// A group is gone. May be called with any lock of ours held but this one's own.
    pub(in crate::exec) fn bury(&self, slot: Slot) {
        self.graves.lock().push(slot);
    }

    /// What a group may have, from now on.
    pub(in crate::exec) fn set_limits(&self, group: &Group, limits: Limits) {
        let now = self.clock().now();
        let _ours = mem::enter_process();
        let mut sched = self.sched.lock();
        let (slot, fair) = (group.slot, &mut sched.fair);
        let before = Limits {
            weight: fair.weight(slot),
            reserved: fair.reserved(slot),
            cap: fair.cap(slot),
        };
        if before == limits {
            return;
        }
        if before.weight != limits.weight {
            fair.set_weight(slot, limits.weight);
        }
        if before.reserved != limits.reserved {
            fair.set_reserved(slot, limits.reserved);
        }
        if before.cap != limits.cap {
            fair.set_cap(slot, limits.cap, now);
        }
        group.mirror(&sched.fair);
        self.ask_to_give_way(&mut sched, now);
        self.publish(&sched);
        let work = sched.fair.is_queued(slot);
        drop(sched);
        // A cap that held its tasks back may be gone.
        if work {
            group.call_a_worker();
        }
    }

    /// Groups got their first ready tasks: they enter the level-1 queue, and each may make a worker give way.
    pub(in crate::exec) fn activate<'a>(&self, groups: impl Iterator<Item = &'a Group>) {
        let now = self.clock().now();
        let _ours = mem::enter_process();
        let mut sched = self.sched.lock();
        if sched.fair.working_groups().next().is_none() {
            sched.ledger.skip(now);
        }
        let all_busy = !self.sleepers.any();
        for group in groups {
            let victim = sched.fair.wake(group.slot, now, all_busy);
            // Some of what was pushed may only have to be dropped, and its cap may hold the group back as of now.
            self.see_to_excuse(&mut sched, group, now);
            if let Some(seat) = victim.and_then(|worker| self.seat(worker)) {
                seat.preempt.store(true, Relaxed);
            }
        }
        self.ask_to_give_way(&mut sched, now);
        self.publish(&sched);
    }

    /// Under the lock: what only has to be dropped passes by the cap, at the group's expense. So does everything
    /// once all is being ended.
    pub(in crate::exec) fn see_to_excuse(&self, sched: &mut Sched, group: &Group, now: Nanos) {
        let (slot, fair) = (group.slot, &mut sched.fair);
        let before = fair.is_excused(slot);
        if fair.is_throttled(slot) || before {
            let excused = self.cancelled().is_some() || group.has_urgent();
            if excused != before {
                fair.excuse(slot, excused, now);
            }
        }
        group.mirror(fair);
    }

    /// As [`Core::see_to_excuse`], when a task was doomed while the group's cap holds it back.
    pub(in crate::exec) fn excuse(&self, group: &Group) {
        let now = self.clock().now();
        let _ours = mem::enter_process();
        let mut sched = self.sched.lock();
        self.see_to_excuse(&mut sched, group, now);
        self.publish(&sched);
        drop(sched);
        group.call_a_worker();
    }

    /// Tells those workers that stand in the way of a reservation.
    pub(in crate::exec) fn ask_to_give_way(&self, sched: &mut Sched, now: Nanos) {
        while let Some(worker) = sched.fair.give_way(now) {
            if let Some(seat) = self.seat(worker) {
                seat.preempt.store(true, Relaxed);
            }
        }
    }

    /// Lets groups back in whose quotas have opened. True if there were any.
    pub(in crate::exec) fn refill(
        &self,
        sched: &mut Sched,
        now: Nanos,
        discard: &mut Vec<Arc<Group>>,
    ) -> bool {
        let mut any = false;
        while let Some(slot) = sched.fair.refill(now) {
            any = true;
            if let Some(group) = Core::group_at(sched, slot) {
                group.mirror(&sched.fair);
                discard.push(group);
            }
        }
        any
    }

    /// As [`Core::refill`], when no worker is about to choose: one is woken.
    pub(in crate::exec) fn refill_and_notify(&self) {
        let (now, mut discard) = (self.clock().now(), Vec::new());
        let _ours = mem::enter_process();
        let mut sched = self.sched.lock();
        let any = self.refill(&mut sched, now, &mut discard);
        if any {
            self.ask_to_give_way(&mut sched, now);
        }
        self.publish(&sched);
        drop(sched);
        if any {
            self.notify();
        }
    }

    /// Mirrors the length of the level-1 queue and the next date of a quota; the caller holds the lock.
    pub(in crate::exec) fn publish(&self, sched: &Sched) {
        // What is there already was stored under this lock before, and whoever looks at the sleepers after it relies on
        // that store.
        let queued = sched.fair.queued_groups();
        if self.queued_groups.load(Relaxed) != queued {
            self.queued_groups.store(queued, SeqCst);
        }
        let due = sched.fair.next_refill().map_or(u64::MAX, |due| due.0);
        if self.next_refill.load(Relaxed) != due {
            self.next_refill.store(due, SeqCst);
        }
        // Who goes to sleep after this sees the date; who sleeps already needs somebody to watch the clock.
        if due != u64::MAX && self.sleepers.any() {
            self.alarm.set(Nanos(due));
        }
    }

    pub(in crate::exec) fn queued_groups(&self) -> usize {
        self.queued_groups.load(SeqCst)
    }

    /// A worker is among the sleepers: sees to it that one is woken when a quota opens. True if one has.
    pub(in crate::exec) fn is_refill_due(&self) -> bool {
        let due = self.next_refill.load(SeqCst);
        if due == u64::MAX {
            return false;
        }
        let passed = self.clock().now().0 >= due;
        if !passed {
            self.alarm.set(Nanos(due));
        }
        passed
    }

    pub(in crate::exec) fn alarm(&self) -> &Alarm {
        &self.alarm
    }
}
