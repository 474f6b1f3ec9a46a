//! Refusals, as those who asked are told them.
//!
//! Mechanism; any thread. They are put into words under the gate's lock, as they name groups, and told outside of it.

use super::seat::Seat;
use crate::admission::error::{AdmissionError, WaitReason};
use crate::admission::policy::{Policy, Refusal};
use crate::event;
use crate::sync::Arc;
use crate::unit::{GroupId, Nanos};
use std::time::Duration;

/// A group's name; its number if it is gone.
pub(super) fn name(policy: &Policy<Arc<Seat>>, group: GroupId) -> std::sync::Arc<str> {
    match policy.name(group) {
        Some(name) => name.clone(),
        None => group.to_string().into(),
    }
}

/// A refusal as whoever asked is told it.
pub(super) fn told(policy: &Policy<Arc<Seat>>, group: GroupId, refusal: Refusal) -> AdmissionError {
    let name = || name(policy, group);
    let after = |retry_after: Option<Nanos>| retry_after.map(Duration::from);
    match refusal {
        Refusal::Concurrency {
            limit,
            running,
            retry_after,
        }
        | Refusal::Governor {
            limit,
            running,
            retry_after,
        } => AdmissionError::Rejected {
            group: name(),
            limit,
            running,
            reason: match refusal {
                Refusal::Governor { .. } => WaitReason::GovernorLimit,
                _ => WaitReason::GroupLimit,
            },
            retry_after: after(retry_after),
        },
        Refusal::QueueFull {
            limit,
            queued,
            retry_after,
        } => AdmissionError::QueueFull {
            group: name(),
            limit,
            queued,
            retry_after: after(retry_after),
        },
        Refusal::Throttled {
            used,
            threshold,
            retry_after,
        } => AdmissionError::MemoryThrottled {
            group: name(),
            used,
            threshold,
            retry_after: after(retry_after),
        },
        Refusal::Unknown => AdmissionError::UnknownGroup { group: name() },
        Refusal::Closed => AdmissionError::ShuttingDown,
    }
}

/// An event, if asking again can help.
pub(super) fn tell_refusal(error: &AdmissionError) {
    if let Some(group) = error.group()
        && error.is_transient()
    {
        event::refused(group, error);
    }
}
