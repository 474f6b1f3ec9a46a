//! Who passes next: a capacity in bytes per second, divided among lanes by their weights.
//!
//! Pure. A lane is one group's way through one capacity. The capacity is a [`Bucket`]; whose request is paid from it
//! next is level 1 of the scheduler ([`Fair`]), charged in time of the capacity: bytes ÷ capacity ÷ weight. Invariants:
//! 1. Within a lane, first come, first served.
//! 2. While requests wait, what comes into the bucket goes to the lane with the least vruntime. That may be one that
//!    has no request at this instant because its one stream is busy with what it was just granted: then a few bytes
//!    are *set aside* for it, which its next requests take without waiting. Without this a group with one stream would
//!    have one request per beat of the timer, and one with a hundred streams all the rest.
//! 3. What is set aside and not asked for returns to the bucket when the round (a millisecond) is over. A lane that was
//!    granted nothing for a round is idle: nothing is set aside for it, and its vruntime is settled as for any group
//!    that returns.
//! 4. What is charged and not used makes the lane's next bytes free.
//! 5. While nobody waits, whoever comes is served: the capacity of idle lanes is lent.
//! 6. While nobody waits, a lane that passes something may be [lent](Shares::lend) what comes in within a millisecond,
//!    so that its next requests need not come here at all. It is charged at once; what it did not pass when the loan is
//!    over, which it is before anybody waits, makes its next bytes free.
//! 7. Requests of lanes that go *first* (those of short_query groups) are granted before all others, for up to half of
//!    the capacity; beyond it, they are as others.
//!
//! The order of calls: [`Shares::pass`], else [`Shares::queue`]; whenever something was queued, given back or changed,
//! [`Shares::next`] until it grants nothing; the same at [`Shares::due`].

mod lane;
mod loans;

use super::bucket::Bucket;
use crate::sched;
use crate::sched::fair::{Fair, Slot};
use crate::sched::quota::{Quota, Running};
use crate::unit::{Cores, Nanos, Weight};
use lane::Lane;

/// How long what is set aside for a lane waits for its requests: the beat of tokio's timers.
const ROUND: Nanos = Nanos::from_millis(1);

/// Less than this of what is set aside is not worth an operation.
const WORTH_IT: u64 = 4 << 10;

/// How much of a capacity goes first to those that go first.
const HALF: Cores = Cores::from_millionths(500_000);

/// A request that waits. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    lane: Slot,
    number: u64,
}

/// The division of one capacity.
#[derive(Debug)]
pub struct Shares {
    /// None: there is no limit, and nothing to divide.
    bucket: Option<Bucket>,
    fair: Fair,
    /// What lanes that go first are given before others.
    quota: Quota,
    lanes: Vec<Lane>,
    live: usize,
    waiting: usize,
    /// Lanes that go first.
    first: Vec<Slot>,
    /// Lanes that the policy knows to have work though nothing of them waits.
    absent: Vec<Slot>,
    /// Lanes with something set aside.
    holders: Vec<Slot>,
    round: Nanos,
    /// Time of the capacity that was too little to be charged, in billionths of bytes.
    rest: u128,
    numbers: u64,
}

impl Shares {
    /// A capacity without lanes; `None` = no limit.
    pub fn new(rate: Option<u64>, now: Nanos) -> Shares {
        let config = sched::Config {
            slice: ROUND,
            min_charge: Nanos::ZERO,
            ..sched::Config::default()
        };
        Shares {
            bucket: rate.map(|rate| Bucket::new(rate, now)),
            fair: Fair::new(config, 1),
            quota: Quota::new(HALF, config.period, now),
            lanes: Vec::new(),
            live: 0,
            waiting: 0,
            first: Vec::new(),
            absent: Vec::new(),
            holders: Vec::new(),
            round: now,
            rest: 0,
            numbers: 0,
        }
    }

    /// The capacity in bytes per second; `None` = no limit.
    pub fn rate(&self) -> Option<u64> {
        self.bucket.map(|bucket| bucket.rate())
    }

    /// Changes the capacity from now on, also for those who wait.
    pub fn set_rate(&mut self, rate: Option<u64>, now: Nanos) {
        self.reclaim();
        self.rest = 0;
        match (&mut self.bucket, rate) {
            (Some(bucket), Some(rate)) => bucket.set_rate(rate, now),
            (bucket, rate) => *bucket = rate.map(|rate| Bucket::new(rate, now)),
        }
    }

    /// A lane without requests, level with the others. `first`: its requests go first.
    pub fn add(&mut self, weight: Weight, first: bool) -> Slot {
        let slot = self.fair.add(weight);
        let at = slot.0 as usize;
        if at >= self.lanes.len() {
            self.lanes.resize_with(at + 1, Lane::default);
        }
        self.lanes[at] = Lane::new();
        self.live += 1;
        if first {
            self.first.push(slot);
        }
        slot
    }

    /// Removes a lane. False (and nothing happens) while requests of it wait.
    pub fn remove(&mut self, slot: Slot) -> bool {
        let lane = &mut self.lanes[slot.0 as usize];
        if !lane.live || !lane.waiting.is_empty() {
            return false;
        }
        let aside = std::mem::take(lane).allowance;
        if let Some(bucket) = &mut self.bucket {
            bucket.give_back(aside);
        }
        for list in [&mut self.first, &mut self.absent, &mut self.holders] {
            list.retain(|&other| other != slot);
        }
        self.live -= 1;
        self.fair.dequeue(slot);
        self.fair.remove(slot)
    }

    /// Changes a lane's weight in place.
    pub fn set_weight(&mut self, slot: Slot, weight: Weight) {
        if self.fair.weight(slot) != weight {
            self.fair.set_weight(slot, weight);
        }
    }

    /// Requests of the lane that wait.
    pub fn waiting(&self, slot: Slot) -> usize {
        self.lanes[slot.0 as usize].waiting.len()
    }

    /// Bytes of the lane that have passed or are about to.
    pub fn passed(&self, slot: Slot) -> u64 {
        self.lanes[slot.0 as usize].passed
    }

    /// A request for up to `want` bytes: how many may pass now, at least one; None if it has to wait.
    pub fn pass(&mut self, slot: Slot, want: u64, now: Nanos) -> Option<u64> {
        self.turn(now);
        let Some(bucket) = &mut self.bucket else {
            return Some(self.grant(slot, want, now));
        };
        let want = want.clamp(1, bucket.most());
        let open = self.waiting == 0 && bucket.is_open(now);
        let lane = &mut self.lanes[slot.0 as usize];
        if !lane.waiting.is_empty() {
            return None;
        }
        if let Some(bytes) = lane.draw(want) {
            return Some(self.grant(slot, bytes, now));
        }
        if open {
            self.pay(slot, want);
            return Some(self.grant(slot, want, now));
        }
        None
    }

    /// A request that has to wait, until [`Shares::next`] names it.
    pub fn queue(&mut self, slot: Slot, want: u64, now: Nanos) -> Ticket {
        if let Some(bucket) = &mut self.bucket {
            bucket.wait(now);
        }
        self.numbers += 1;
        let ticket = Ticket {
            lane: slot,
            number: self.numbers,
        };
        self.forget_idle(now);
        let lane = &mut self.lanes[slot.0 as usize];
        lane.waiting.insert(ticket.number, want.max(1));
        self.waiting += 1;
        self.absent.retain(|&other| other != slot);
        self.fair.wake(slot, Nanos::ZERO, false);
        ticket
    }

    /// Whether anybody waits.
    pub fn is_contended(&self) -> bool {
        self.waiting > 0
    }

    /// The request waits no longer. Nothing happens if it does not wait.
    pub fn withdraw(&mut self, ticket: Ticket) {
        let lane = &mut self.lanes[ticket.lane.0 as usize];
        if lane.waiting.remove(&ticket.number).is_some() {
            self.waiting -= 1;
            if lane.waiting.is_empty() {
                self.absent.push(ticket.lane);
            }
        }
    }

    /// Of what was granted, so much did not pass.
    pub fn give_back(&mut self, slot: Slot, bytes: u64) {
        let lane = &mut self.lanes[slot.0 as usize];
        lane.passed = lane.passed.saturating_sub(bytes);
        if let Some(bucket) = &mut self.bucket {
            // What was granted while there was no limit, or a higher one, was not paid for in full.
            let bytes = bytes.min(bucket.most());
            bucket.give_back(bytes);
            lane.prepaid = lane.prepaid.saturating_add(bytes);
        }
    }

    /// The next request that may pass, and how many bytes of it. Call it until it names none.
    pub fn next(&mut self, now: Nanos) -> Option<(Ticket, u64)> {
        if let Some(bucket) = self.bucket.as_mut().filter(|_| self.waiting > 0) {
            bucket.wait(now);
        }
        self.turn(now);
        while self.waiting > 0 && self.bucket.as_mut().is_none_or(|b| b.is_open(now)) {
            let claimant = self.claimant(now);
            let slot = match claimant {
                Some(first) => first,
                // There is nothing to divide, and nothing to set aside: whoever waits passes.
                None if self.bucket.is_none() => self.any_waiting()?,
                None => self.fair.first()?,
            };
            let lane = &mut self.lanes[slot.0 as usize];
            if let Some((number, want)) = lane.waiting.pop_first() {
                self.waiting -= 1;
                if lane.waiting.is_empty() {
                    self.absent.push(slot);
                }
                let most = self.bucket.map_or(u64::MAX, |bucket| bucket.most());
                let bytes = want.min(most);
                let time = self.pay(slot, bytes);
                if claimant.is_some() {
                    self.quota.pay(time, Running::default(), now);
                }
                self.grant(slot, bytes, now);
                return Some((Ticket { lane: slot, number }, bytes));
            }
            if lane.is_busy(now) {
                self.set_aside(slot);
            } else {
                self.dismiss(slot);
            }
        }
        None
    }

    /// When to call [`Shares::next`] again, if anybody waits.
    pub fn due(&self, now: Nanos) -> Option<Nanos> {
        if self.waiting == 0 {
            return None;
        }
        let opens = self.bucket.map_or(now, |bucket| bucket.opens_at(now));
        if self.holders.is_empty() {
            return Some(opens);
        }
        Some(opens.min(self.round.plus(ROUND)))
    }

    fn any_waiting(&self) -> Option<Slot> {
        let at = self
            .lanes
            .iter()
            .position(|lane| !lane.waiting.is_empty())?;
        Some(Slot(at as u32))
    }

    /// The lane whose request goes before those of others, if there are such, and such others.
    fn claimant(&mut self, now: Nanos) -> Option<Slot> {
        let waits = |slot: &Slot| self.waiting(*slot) > 0;
        let waiting = || self.first.iter().copied().filter(waits);
        let next = waiting().min_by_key(|&slot| (self.fair.vruntime(slot), slot))?;
        let others = waiting().map(|slot| self.waiting(slot)).sum::<usize>() < self.waiting;
        (others && self.quota.is_open(Running::default(), now)).then_some(next)
    }

    /// When a round is over, what was set aside and not used returns to the bucket.
    fn turn(&mut self, now: Nanos) {
        if now.since(self.round) >= ROUND {
            self.round = now;
            self.reclaim();
        }
    }

    fn reclaim(&mut self) {
        for slot in self.holders.drain(..) {
            let lane = &mut self.lanes[slot.0 as usize];
            let unused = std::mem::take(&mut lane.allowance);
            lane.prepaid = lane.prepaid.saturating_add(unused);
            if let Some(bucket) = &mut self.bucket {
                bucket.give_back(unused);
            }
        }
    }

    /// Sets a few bytes aside: a tenth of what comes in within a round, so that what there is goes by weight. At least
    /// what is worth an operation, but no more than one may owe; and no fewer the higher the rate, so that a full bucket
    /// is divided in a thousand steps at most.
    fn set_aside(&mut self, slot: Slot) {
        let Some(bucket) = &self.bucket else { return };
        let bytes = (bucket.rate() / 10_000).max(WORTH_IT.min(bucket.most()));
        self.pay(slot, bytes);
        let lane = &mut self.lanes[slot.0 as usize];
        if lane.allowance == 0 {
            self.holders.push(slot);
        }
        lane.allowance = lane.allowance.saturating_add(bytes);
    }

    fn grant(&mut self, slot: Slot, bytes: u64, now: Nanos) -> u64 {
        let lane = &mut self.lanes[slot.0 as usize];
        lane.passed = lane.passed.saturating_add(bytes);
        lane.granted_at = Some(now);
        bytes
    }

    /// Takes the bytes out of the bucket, and charges the lane: the time of the capacity that it is charged for.
    fn pay(&mut self, slot: Slot, bytes: u64) -> Nanos {
        let Some(bucket) = &mut self.bucket else {
            return Nanos::ZERO;
        };
        bucket.take(bytes);
        self.charge(slot, bytes)
    }

    /// Charges the lane for bytes that are out of the bucket.
    fn charge(&mut self, slot: Slot, bytes: u64) -> Nanos {
        let Some(bucket) = &self.bucket else {
            return Nanos::ZERO;
        };
        let lane = &mut self.lanes[slot.0 as usize];
        if self.live < 2 {
            lane.prepaid = 0; // there is nobody to compare it with
            return Nanos::ZERO;
        }
        let total = u128::from(lane.settle(bytes)) * 1_000_000_000 + self.rest;
        let rate = u128::from(bucket.rate());
        self.rest = total % rate;
        let time = Nanos(u64::try_from(total / rate).unwrap_or(u64::MAX));
        self.fair.start(0, slot, Nanos::ZERO);
        self.fair.stop(0, time, 0);
        time
    }

    /// Lanes that are busy no more stop counting for such that have work.
    fn forget_idle(&mut self, now: Nanos) {
        let lanes = &self.lanes;
        let idle = |slot: &mut Slot| !lanes[slot.0 as usize].is_busy(now);
        for slot in self.absent.extract_if(.., idle) {
            self.fair.dequeue(slot);
        }
    }

    fn dismiss(&mut self, slot: Slot) {
        self.absent.retain(|&other| other != slot);
        self.fair.dequeue(slot);
    }
}

#[cfg(test)]
mod tests;
