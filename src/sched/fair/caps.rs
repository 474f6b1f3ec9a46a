//! Hard caps: a group whose quota ran dry is passed over until it opens again.
//!
//! Pure. While it is held back, a group that does not run counts for idle: what it returns with is settled as for
//! any group that returns (invariant 4 of level 1), so a cap that is raised or dropped leaves no debt to collect.

use super::{Fair, Slot};
use crate::sched::quota::Quota;
use crate::unit::{Cores, Nanos};

impl Fair {
    /// Caps a group's worker time, or lifts its cap, from now on.
    pub fn set_cap(&mut self, slot: Slot, cap: Option<Cores>, now: Nanos) {
        let period = self.config.period;
        let group = &mut self.groups[slot.0 as usize];
        let running = group.slices(now);
        match (&mut group.quota, cap) {
            (Some(quota), Some(cap)) => quota.set_cap(cap, running, now),
            (quota, cap) => *quota = cap.map(|cap| Quota::new(cap, period, now)),
        }
        self.reconsider(slot, now);
    }

    /// A group's cap.
    pub fn cap(&self, slot: Slot) -> Option<Cores> {
        self.group(slot).quota.map(|quota| quota.cap())
    }

    /// Whether the group has queued tasks that its cap holds back.
    pub fn is_throttled(&self, slot: Slot) -> bool {
        self.dry.contains(slot.0)
    }

    /// How long the group's cap has held queued tasks back.
    pub fn throttled(&self, slot: Slot, now: Nanos) -> Nanos {
        let group = self.group(slot);
        if self.is_throttled(slot) {
            let open = now.since(group.throttled_since);
            group.throttled.plus(open)
        } else {
            group.throttled
        }
    }

    /// Whether the group's cap must not hold it back for now. What it is given meanwhile is owed.
    pub fn excuse(&mut self, slot: Slot, excused: bool, now: Nanos) {
        self.groups[slot.0 as usize].excused = excused;
        self.reconsider(slot, now);
    }

    /// What [`Fair::excuse`] said last.
    pub fn is_excused(&self, slot: Slot) -> bool {
        self.group(slot).excused
    }

    /// When [`Fair::refill`] should be called next, if ever.
    pub fn next_refill(&self) -> Option<Nanos> {
        self.dry.peek().map(|(due, _)| Nanos(due))
    }

    /// Lets a group back in whose quota has opened by now, and names it. Call it until it names none.
    pub fn refill(&mut self, now: Nanos) -> Option<Slot> {
        while let Some((due, member)) = self.dry.peek()
            && due <= now.0
        {
            // One that ran on meanwhile, and has spent more, gets a later date.
            self.reconsider(Slot(member), now);
            if !self.dry.contains(member) {
                return Some(Slot(member));
            }
        }
        None
    }

    /// The length of a slice that begins now.
    pub(super) fn longest_slice(&mut self, slot: Slot, now: Nanos) -> Nanos {
        let slice = self.config.slice;
        let group = &mut self.groups[slot.0 as usize];
        let running = group.slices(now);
        let Some(quota) = group.quota.as_mut().filter(|_| !group.excused) else {
            return slice;
        };
        quota.is_open(running, now);
        slice.min(quota.longest_slice(running))
    }

    /// A slice of the group was charged.
    pub(super) fn pay(&mut self, slot: Slot, given: Nanos, now: Nanos) {
        let group = &mut self.groups[slot.0 as usize];
        let running = group.slices(now);
        if let Some(quota) = &mut group.quota {
            quota.pay(given, running, now);
            self.reconsider(slot, now);
        }
    }

    /// A group that is not queued got a task: whether its cap holds it back, in which case it now waits for that.
    pub(super) fn is_held_back(&mut self, slot: Slot, now: Nanos) -> bool {
        let opens = self.opens_at(slot, now);
        if let Some(opens) = opens {
            self.hold_back(slot, opens, now);
        }
        opens.is_some()
    }

    /// Takes a queued group out if its quota has run dry.
    pub(super) fn hold_back_if_dry(&mut self, slot: Slot, now: Nanos) {
        if self.group(slot).quota.is_some() {
            self.reconsider(slot, now);
        }
    }

    /// Puts a group with queued tasks where its quota says.
    fn reconsider(&mut self, slot: Slot, now: Nanos) {
        let (queued, held) = (self.queue.contains(slot.0), self.dry.contains(slot.0));
        if !queued && !held {
            return;
        }
        match self.opens_at(slot, now) {
            Some(opens) => {
                if queued {
                    self.leave(slot);
                }
                self.hold_back(slot, opens, now);
            }
            None if held => {
                let throttled = self.throttled(slot, now);
                self.dry.remove(slot.0);
                self.groups[slot.0 as usize].throttled = throttled;
                self.join(slot, now);
            }
            None => {}
        }
    }

    fn hold_back(&mut self, slot: Slot, opens: Nanos, now: Nanos) {
        if !self.dry.contains(slot.0) {
            self.groups[slot.0 as usize].throttled_since = now;
        }
        self.dry.set(slot.0, opens.0.max(now.0.saturating_add(1)));
    }

    /// When the quota of a group opens; none if it is open, or if there is none.
    fn opens_at(&mut self, slot: Slot, now: Nanos) -> Option<Nanos> {
        let group = &mut self.groups[slot.0 as usize];
        let running = group.slices(now);
        let quota = group.quota.as_mut().filter(|_| !group.excused)?;
        let open = quota.is_open(running, now);
        (!open).then(|| quota.opens_at(running, now))
    }
}
