//! What the policy is told and what it answers, as plain values.
//!
//! Pure.

use crate::admission::error::WaitReason;
use crate::unit::{Bytes, GroupId, Nanos};
use std::sync::Arc;

/// What becomes of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It has a place, until [`Policy::leave`](super::Policy::leave).
    Admit,
    /// It stands in its group's line, until it is answered or withdrawn.
    Wait(Standing),
    /// It may neither start nor wait.
    Reject(Refusal),
}

/// Where a request stands that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// What it waits for.
    pub reason: WaitReason,
    /// Its place in its group's line, from 1.
    pub position: u64,
    /// How many stand in that line.
    pub queued: u64,
    /// When it has waited for as long as it may.
    pub deadline: Nanos,
}

/// Why a request may neither start nor wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its group is at its limit and has no line.
    Concurrency {
        /// The group's concurrency_limit.
        limit: u64,
        /// How many of its queries run.
        running: u64,
        /// When a place will probably be free.
        retry_after: Option<Nanos>,
    },
    /// Its group's line is full.
    QueueFull {
        /// How many may stand in it.
        limit: u64,
        /// How many do.
        queued: u64,
        /// When a place in it will probably be free.
        retry_after: Option<Nanos>,
    },
    /// The governor is at its limit, and the request may not wait.
    Governor {
        /// Queries at once over all groups.
        limit: u64,
        /// How many run.
        running: u64,
        /// When a place will probably be free.
        retry_after: Option<Nanos>,
    },
    /// Memory is short, and the request may not wait.
    Throttled {
        /// Memory in use when it was last looked at.
        used: Bytes,
        /// Above this, throttling begins.
        threshold: Bytes,
        /// When the cap rises next, if memory allows it.
        retry_after: Option<Nanos>,
    },
    /// There is no such group, or it was removed.
    Unknown,
    /// Nothing is admitted any more.
    Closed,
}

/// What becomes of a request that waited.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// It has a place of this group, until [`Policy::leave`](super::Policy::leave).
    Admit {
        /// The group.
        group: GroupId,
    },
    /// It waited for as long as its group lets requests wait.
    TimedOut {
        /// The group's name.
        group: Arc<str>,
        /// How long it waited.
        waited: Nanos,
        /// What it waited for last.
        reason: WaitReason,
        /// When it would probably have been its turn.
        retry_after: Option<Nanos>,
    },
    /// Nothing is admitted any more.
    Closed,
    /// It still waits, but its deadline is sooner than it was told: see
    /// [`Policy::deadline`](super::Policy::deadline).
    Sooner,
}

/// A group's limits on who may run and who may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Queries at once; none or 0 = unlimited.
    pub concurrency_limit: Option<u64>,
    /// Requests that may wait beyond those that `concurrency_limit` lets run.
    pub max_queued_queries: u64,
    /// Longest wait, counted from arrival.
    pub queue_timeout: Nanos,
}

impl Default for GroupLimits {
    fn default() -> GroupLimits {
        GroupLimits {
            concurrency_limit: None,
            max_queued_queries: 0,
            queue_timeout: Nanos::from_secs(300),
        }
    }
}

/// This many at once, and no line.
impl From<Option<u64>> for GroupLimits {
    fn from(concurrency_limit: Option<u64>) -> GroupLimits {
        GroupLimits {
            concurrency_limit,
            ..GroupLimits::default()
        }
    }
}

/// Who is next when a place of the governor is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The group whose last turn is longest ago.
    #[default]
    RoundRobin,
    /// Whoever arrived first, of whatever group.
    Fcfs,
}

/// The limits over all groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GovernorLimits {
    /// Queries at once; none or 0 = unlimited.
    pub runner_threads: Option<u64>,
    /// Who is next.
    pub order: Order,
    /// When admission is throttled for memory; none = never.
    pub throttle: Option<super::ThrottleRules>,
}
