//! Looking at the policy: groups, those who wait, the limits over all groups.
//!
//! Pure.

use super::{GroupAdmission, Policy};
use crate::admission::error::WaitReason;
use crate::unit::{GroupId, Nanos, QueryId};
use std::sync::Arc;

/// A request that waits.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Waiting<'a, W> {
    /// Its id; as a query it keeps it.
    pub id: QueryId,
    /// Its group.
    pub group: GroupId,
    /// Its group's name.
    pub name: &'a Arc<str>,
    /// When it came.
    pub since: Nanos,
    /// What it waits for.
    pub reason: WaitReason,
    /// Its place in its group's line, from 1.
    pub position: u64,
    /// How many stand in that line.
    pub queued: u64,
    /// What the caller knows it by.
    pub payload: &'a W,
}

/// What runs over all groups, and what may: StarTree's six gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GovernorAdmission {
    /// Queries at once when memory is not short; none = no limit.
    pub runner_threads: Option<u64>,
    /// Queries that run now.
    pub running: u64,
    /// Queries that may run now; none = no limit.
    pub max_allowed: Option<u64>,
    /// For how long admission has been throttled; zero if it is not.
    pub throttling_for: Nanos,
    /// Time spent throttling so far.
    pub throttling_total: Nanos,
    /// Collections that lasting pressure asked for so far.
    pub collections: u64,
}

impl<W: Clone> Policy<W> {
    /// The name of a group, also while it drains.
    pub fn name(&self, id: GroupId) -> Option<&Arc<str>> {
        self.groups.get(&id).map(|group| &group.name)
    }

    /// One group's numbers, also while it drains.
    pub fn group(&self, id: GroupId) -> Option<GroupAdmission> {
        self.groups.get(&id).map(|group| group.read(id))
    }

    /// All groups' numbers, by id; those that drain too.
    pub fn groups(&self) -> impl Iterator<Item = GroupAdmission> {
        self.groups.iter().map(|(&id, group)| group.read(id))
    }

    /// Everybody who waits: group by group, in the order of each line.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting<'_, W>> {
        self.groups.iter().flat_map(|(&group, entry)| {
            let (reason, queued) = (self.reason(entry), entry.queued());
            let line = entry.line().zip(1..);
            line.map(move |(waiter, position)| Waiting {
                id: waiter.id,
                group,
                name: &entry.name,
                since: waiter.since,
                reason,
                position,
                queued,
                payload: &waiter.payload,
            })
        })
    }

    /// How many wait in all groups.
    pub fn queued(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// The time between two looks at the memory; none while nothing is throttled.
    pub fn throttle_interval(&self) -> Option<Nanos> {
        self.throttle.interval()
    }

    /// What runs over all groups, and what may.
    pub fn governor(&self, now: Nanos) -> GovernorAdmission {
        let age = |since| now.since(since).max(Nanos::from_millis(1));
        GovernorAdmission {
            runner_threads: self.limits.runner_threads,
            running: self.running,
            max_allowed: self.cap(),
            throttling_for: self.throttle.since().map_or(Nanos::ZERO, age),
            throttling_total: self.throttle.total(now),
            collections: self.throttle.collections(),
        }
    }
}
