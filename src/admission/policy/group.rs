//! One group at the gate: its limits, its places, its line, its counters.
//!
//! Pure. The line is first in, first out; whoever leaves it may leave from anywhere. Everything costs at most the
//! logarithm of its length.

use super::decision::{GroupLimits, Refusal};
use super::pace::Pace;
use crate::admission::error::WaitReason;
use crate::admission::waits::Waits;
use crate::unit::{GroupId, Nanos, QueryId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One group's places and counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupAdmission {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: Arc<str>,
    /// Its concurrency_limit; none = unlimited.
    pub limit: Option<u64>,
    /// Its max_queued_queries.
    pub max_queued_queries: u64,
    /// Its queue_timeout.
    pub queue_timeout: Nanos,
    /// Places taken now.
    pub running: u64,
    /// Most places taken at once so far.
    pub running_peak: u64,
    /// Requests that wait now.
    pub queued: u64,
    /// Most requests that waited at once so far.
    pub queued_peak: u64,
    /// What became of its requests so far.
    pub counts: Counts,
    /// How long those waited that were admitted.
    pub waits: Waits,
    /// Whether the group was removed and only waits for its last query to end.
    pub draining: bool,
}

/// What became of a group's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Places given, after a wait or without.
    pub admitted: u64,
    /// Of these, those that waited first.
    pub waited: Waited,
    /// Queries that came from inside a running one and share its place; not in `admitted`.
    pub nested: u64,
    /// Requests refused when they arrived.
    pub rejected: Rejections,
    /// Requests that waited for too long.
    pub timed_out: Waited,
    /// Requests that were withdrawn or killed while they waited.
    pub cancelled: Waited,
}

/// Requests of one group that were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejections {
    /// At the concurrency_limit, or the governor's limit, and not waiting.
    pub concurrency: u64,
    /// With all waiting places taken.
    pub queue: u64,
    /// While memory was short, and not waiting.
    pub throttle: u64,
    /// While shutting down.
    pub shutdown: u64,
}

/// Requests that waited, by what they waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waited {
    /// A place of the group or of the governor.
    pub place: u64,
    /// Memory.
    pub throttle: u64,
}

impl Waited {
    pub(super) fn count(&mut self, reason: WaitReason) {
        match reason {
            WaitReason::MemoryThrottle => self.throttle += 1,
            WaitReason::GroupLimit | WaitReason::GovernorLimit => self.place += 1,
        }
    }

    fn add(&mut self, other: Waited) {
        self.place += other.place;
        self.throttle += other.throttle;
    }
}

impl Counts {
    pub(super) fn reject(&mut self, refusal: &Refusal) {
        let rejected = &mut self.rejected;
        match refusal {
            Refusal::Concurrency { .. } | Refusal::Governor { .. } => rejected.concurrency += 1,
            Refusal::QueueFull { .. } => rejected.queue += 1,
            Refusal::Throttled { .. } => rejected.throttle += 1,
            Refusal::Closed => rejected.shutdown += 1,
            Refusal::Unknown => {}
        }
    }

    fn add(&mut self, other: &Counts) {
        self.admitted += other.admitted;
        self.waited.add(other.waited);
        self.nested += other.nested;
        self.rejected.concurrency += other.rejected.concurrency;
        self.rejected.queue += other.rejected.queue;
        self.rejected.throttle += other.rejected.throttle;
        self.rejected.shutdown += other.rejected.shutdown;
        self.timed_out.add(other.timed_out);
        self.cancelled.add(other.cancelled);
    }
}

/// A request in the line.
#[derive(Clone, Debug)]
pub(super) struct Waiter<W> {
    pub(super) id: QueryId,
    pub(super) since: Nanos,
    /// The deadline that it knows of.
    pub(super) told: Nanos,
    /// What it waited for when it came.
    pub(super) reason: WaitReason,
    pub(super) payload: W,
}

#[derive(Clone, Debug)]
pub(super) struct Group<W> {
    pub(super) name: Arc<str>,
    limits: GroupLimits,
    pub(super) running: u64,
    running_peak: u64,
    /// By order of arrival over all groups.
    line: BTreeMap<u64, Waiter<W>>,
    queued_peak: u64,
    pub(super) counts: Counts,
    waits: Waits,
    pub(super) pace: Pace,
    /// When it was given a place last, as a number that grows with each place given.
    pub(super) turn: u64,
    /// Where it stands among those that could start but for the governor, if it does.
    pub(super) ready: Option<u64>,
    /// When the first of its line has waited for too long, if somebody waits.
    pub(super) deadline: Option<Nanos>,
    pub(super) removed: bool,
    /// Its numbers are wanted although it is over.
    pub(super) kept: bool,
}

impl<W> Group<W> {
    pub(super) fn new(name: Arc<str>) -> Group<W> {
        Group {
            name,
            limits: GroupLimits::default(),
            running: 0,
            running_peak: 0,
            line: BTreeMap::new(),
            queued_peak: 0,
            counts: Counts::default(),
            waits: Waits::default(),
            pace: Pace::default(),
            turn: 0,
            ready: None,
            deadline: None,
            removed: false,
            kept: false,
        }
    }

    /// 0 = unlimited, so that an absent limit and a limit of nothing cannot be confused.
    pub(super) fn set_limits(&mut self, limits: GroupLimits) {
        let concurrency_limit = limits.concurrency_limit.filter(|&limit| limit > 0);
        self.limits = GroupLimits {
            concurrency_limit,
            ..limits
        };
    }

    pub(super) fn limits(&self) -> &GroupLimits {
        &self.limits
    }

    pub(super) fn queued(&self) -> u64 {
        self.line.len() as u64
    }

    /// Whether no more of its queries may run.
    pub(super) fn is_full(&self) -> bool {
        let limit = self.limits.concurrency_limit;
        limit.is_some_and(|limit| self.running >= limit)
    }

    /// How many may stand in its line now; none = no bound. Those that its own limit would let run wait for the
    /// governor, and take none of the group's waiting places.
    pub(super) fn room(&self) -> Option<u64> {
        let own = self.limits.max_queued_queries;
        match self.limits.concurrency_limit {
            Some(limit) => Some(own.saturating_add(limit.saturating_sub(self.running))),
            None => Some(own).filter(|&own| own > 0),
        }
    }

    pub(super) fn take_place(&mut self, waited: Option<(Nanos, WaitReason)>, now: Nanos) {
        self.running += 1;
        self.running_peak = self.running_peak.max(self.running);
        self.counts.admitted += 1;
        if let Some((_, reason)) = waited {
            self.counts.waited.count(reason);
        }
        self.waits
            .record(waited.map_or(Nanos::ZERO, |(waited, _)| waited));
        if self.is_full() {
            self.pace.filled(now);
        }
    }

    pub(super) fn move_in(&mut self, now: Nanos) {
        self.running += 1;
        self.running_peak = self.running_peak.max(self.running);
        if self.is_full() {
            self.pace.filled(now);
        }
    }

    pub(super) fn give_place_back(&mut self, now: Nanos) {
        debug_assert!(self.running > 0, "a place was given back twice");
        if self.is_full() {
            self.pace.freed(now);
        }
        self.running = self.running.saturating_sub(1);
    }

    pub(super) fn enqueue(&mut self, arrival: u64, waiter: Waiter<W>) {
        self.line.insert(arrival, waiter);
        self.queued_peak = self.queued_peak.max(self.queued());
    }

    pub(super) fn dequeue(&mut self, arrival: u64) -> Option<Waiter<W>> {
        self.line.remove(&arrival)
    }

    pub(super) fn first(&self) -> Option<(u64, &Waiter<W>)> {
        let (&arrival, waiter) = self.line.first_key_value()?;
        Some((arrival, waiter))
    }

    pub(super) fn pop_first(&mut self) -> Option<Waiter<W>> {
        Some(self.line.pop_first()?.1)
    }

    pub(super) fn waiter_mut(&mut self, arrival: u64) -> Option<&mut Waiter<W>> {
        self.line.get_mut(&arrival)
    }

    pub(super) fn line(&self) -> impl Iterator<Item = &Waiter<W>> {
        self.line.values()
    }

    /// When a request that came at `since` has waited for too long.
    pub(super) fn deadline_of(&self, since: Nanos) -> Nanos {
        since.plus(self.limits.queue_timeout)
    }

    /// Nobody is in it, and nobody will come.
    pub(super) fn is_over(&self) -> bool {
        self.removed && self.running == 0 && self.line.is_empty()
    }

    pub(super) fn inherit(&mut self, gone: &Group<W>) {
        self.counts.add(&gone.counts);
        self.waits.add(&gone.waits);
    }

    pub(super) fn read(&self, group: GroupId) -> GroupAdmission {
        GroupAdmission {
            group,
            name: self.name.clone(),
            limit: self.limits.concurrency_limit,
            max_queued_queries: self.limits.max_queued_queries,
            queue_timeout: self.limits.queue_timeout,
            running: self.running,
            running_peak: self.running_peak,
            queued: self.queued(),
            queued_peak: self.queued_peak,
            counts: self.counts,
            waits: self.waits,
            draining: self.removed,
        }
    }
}
