//! Why a request did not start: every refusal with its numbers, and whether asking again can help.
//!
//! Data only; any thread.

use crate::clock;
use crate::clock::unix_seconds;
use crate::unit::Bytes;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A request was not admitted. Nothing of it ran, and it holds no place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// The group is at its concurrency_limit, and so many requests wait already that no more may.
    #[error(
        "resource group '{group}': its queue is full ({queued} of {limit} places); \
         retry {}, or raise max_queued_queries",
        when(*retry_after, "later")
    )]
    QueueFull {
        /// The group.
        group: Arc<str>,
        /// How many may wait: its max_queued_queries, and those that only wait for the governor.
        limit: u64,
        /// How many wait.
        queued: u64,
        /// When a waiting place is probably free, by the rate of late; none if nothing is known yet.
        retry_after: Option<Duration>,
    },
    /// The request waited for its group's whole queue_timeout.
    #[error(
        "resource group '{group}': no place within {waited:?} ({reason}); \
         retry {}, or raise queue_timeout",
        when(*retry_after, "later")
    )]
    Timeout {
        /// The group.
        group: Arc<str>,
        /// How long the request waited.
        waited: Duration,
        /// What it waited for last.
        reason: WaitReason,
        /// When it would probably have been its turn, by the rate of late; none if nothing is known yet.
        retry_after: Option<Duration>,
    },
    /// The group is at its concurrency_limit, or the governor at its own, and the request may not wait.
    #[error(
        "resource group '{group}': {} reached ({running} running{}, {limit} allowed); retry {}{}",
        reason.limit(),
        if *reason == WaitReason::GroupLimit { "" } else { " in all groups" },
        when(*retry_after, "when one ends"),
        advice(*reason)
    )]
    Rejected {
        /// The group.
        group: Arc<str>,
        /// Its concurrency_limit, or how many may run over all groups.
        limit: u64,
        /// How many run, of the group or over all; more than the limit after that was lowered.
        running: u64,
        /// Which limit it is.
        reason: WaitReason,
        /// When a place is probably free, by the rate of late; none if nothing is known yet.
        retry_after: Option<Duration>,
    },
    /// Memory is short, and the request may not wait until it is not.
    #[error(
        "resource group '{group}': admission is throttled, {used} bytes of memory in use, \
         more than {threshold}, or it was a moment ago; retry {}",
        when(*retry_after, "later")
    )]
    MemoryThrottled {
        /// The group.
        group: Arc<str>,
        /// Memory in use.
        used: Bytes,
        /// Above this, throttling begins.
        threshold: Bytes,
        /// When one more may start, if memory allows it.
        retry_after: Option<Duration>,
    },
    /// There is no group of this name, or no longer.
    #[error("there is no resource group '{group}'; SHOW RESOURCE GROUPS ALL lists those there are")]
    UnknownGroup {
        /// The name that was asked for.
        group: Arc<str>,
    },
    /// The request named its group, and `allow_override` did not agree.
    #[error(
        "this request may not choose resource group '{group}'; \
         leave the choice to the classifiers"
    )]
    OverrideRefused {
        /// The name that was asked for.
        group: Arc<str>,
    },
    /// The request was killed while it waited.
    #[error("killed while waiting for a place: {why}")]
    Killed {
        /// What the killer gave as the reason.
        why: Arc<str>,
    },
    /// Requests like this one were killed too often of late.
    #[error(
        "resource group '{group}': refused until {:.0} s after 1970 (Unix time) because requests like it were killed: \
         {report}; \
         SHOW WATCHES lists what is refused, DROP WATCH lifts it",
        unix_seconds(*until).floor()
    )]
    Watched {
        /// The group.
        group: Arc<str>,
        /// When requests like it are admitted again.
        until: SystemTime,
        /// What they were killed for.
        report: Arc<str>,
    },
    /// The group's polls have cost as many threads as there were workers: nothing of it runs any more. See
    /// [`MemoryOverrun::Quarantine`](crate::memory::MemoryOverrun::Quarantine).
    #[error(
        "resource group '{group}' is frozen: polls that asked for more memory than its mem_limit allows have cost \
         as many threads as there were workers; a group created anew is not"
    )]
    Frozen {
        /// The group.
        group: Arc<str>,
    },
    /// The governor is shutting down.
    #[error("the governor is shutting down and admits nothing more")]
    ShuttingDown,
}

impl AdmissionError {
    /// The group that refused, where the refusal is about one.
    pub fn group(&self) -> Option<&str> {
        match self {
            AdmissionError::QueueFull { group, .. }
            | AdmissionError::Timeout { group, .. }
            | AdmissionError::Rejected { group, .. }
            | AdmissionError::MemoryThrottled { group, .. }
            | AdmissionError::UnknownGroup { group }
            | AdmissionError::OverrideRefused { group }
            | AdmissionError::Watched { group, .. }
            | AdmissionError::Frozen { group } => Some(group),
            AdmissionError::Killed { .. } | AdmissionError::ShuttingDown => None,
        }
    }

    /// In how long asking again is worth while, as far as is known: for a `Retry-After` header.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            AdmissionError::QueueFull { retry_after, .. }
            | AdmissionError::Timeout { retry_after, .. }
            | AdmissionError::Rejected { retry_after, .. }
            | AdmissionError::MemoryThrottled { retry_after, .. } => *retry_after,
            // Over already is not unknown.
            AdmissionError::Watched { until, .. } => {
                Some(until.duration_since(clock::wall()).unwrap_or_default())
            }
            _ => None,
        }
    }

    /// Whether the same request can succeed later with nothing changed but the load: an HTTP service answers
    /// 429 or 503 to these, and 403, 404 or 500 to the others.
    pub fn is_transient(&self) -> bool {
        match self {
            AdmissionError::QueueFull { .. }
            | AdmissionError::Timeout { .. }
            | AdmissionError::Rejected { .. }
            | AdmissionError::MemoryThrottled { .. }
            | AdmissionError::Watched { .. } => true,
            AdmissionError::UnknownGroup { .. }
            | AdmissionError::OverrideRefused { .. }
            | AdmissionError::Killed { .. }
            | AdmissionError::Frozen { .. }
            | AdmissionError::ShuttingDown => false,
        }
    }
}

/// What a request waits for, or waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum WaitReason {
    /// A place of its group: concurrency_limit.
    GroupLimit,
    /// A place of the governor: query_runner_threads.
    GovernorLimit,
    /// Memory: admission is throttled.
    MemoryThrottle,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitReason::GroupLimit => "at the group's concurrency_limit",
            WaitReason::GovernorLimit => "at query_runner_threads",
            WaitReason::MemoryThrottle => "throttled for memory",
        })
    }
}

impl WaitReason {
    /// The limit that it waits at.
    const fn limit(self) -> &'static str {
        match self {
            WaitReason::GroupLimit => "concurrency_limit",
            WaitReason::GovernorLimit => "query_runner_threads",
            WaitReason::MemoryThrottle => "the memory throttle's cap",
        }
    }
}

fn when(retry_after: Option<Duration>, else_say: &str) -> String {
    match retry_after {
        Some(wait) => format!("in about {} ms", wait.as_millis().max(1)),
        None => else_say.to_owned(),
    }
}

fn advice(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::GroupLimit => {
            ", raise concurrency_limit, or let requests wait with max_queued_queries"
        }
        WaitReason::GovernorLimit => ", or raise query_runner_threads",
        WaitReason::MemoryThrottle => "",
    }
}
