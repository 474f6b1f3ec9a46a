//! Why memory was not reserved: every refusal with its numbers, and whether asking again can help.
//!
//! Data only; any thread.

use super::shortfall::{MemoryScope, Shortfall};
use std::sync::Arc;
use std::time::Duration;

/// Memory was not reserved. Nothing was charged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// More than the limit allows with nobody else there. Nobody was hurt by the attempt.
    #[error(
        "resource group '{group}': {asked} bytes can never be reserved, the {scope}'s memory limit is {limit} bytes; \
         work in smaller parts, or raise the limit"
    )]
    TooLarge {
        /// The group.
        group: Arc<str>,
        /// Bytes asked for.
        asked: u64,
        /// Whose limit.
        scope: MemoryScope,
        /// The limit, in bytes.
        limit: u64,
    },
    /// It does not fit now, or others wait already, and the request does not wait.
    #[error(
        "resource group '{group}': {asked} bytes do not fit now, {used} of the {scope}'s {limit} bytes are in use \
         and {waiting} requests wait before this one; spill, or wait with `reserve`"
    )]
    Full {
        /// The group.
        group: Arc<str>,
        /// Bytes asked for.
        asked: u64,
        /// Whose limit is nearest.
        scope: MemoryScope,
        /// That limit, in bytes.
        limit: u64,
        /// Bytes in use below it.
        used: u64,
        /// Reservations of the group that wait.
        waiting: u64,
    },
    /// It waited for the group's whole queue_timeout.
    #[error(
        "resource group '{group}': {asked} bytes did not become free within {waited:?}, \
         {used} of the {scope}'s {limit} bytes are in use; spill, retry later, or raise queue_timeout"
    )]
    TimedOut {
        /// The group.
        group: Arc<str>,
        /// Bytes asked for.
        asked: u64,
        /// How long the request waited.
        waited: Duration,
        /// Whose limit is nearest.
        scope: MemoryScope,
        /// That limit, in bytes.
        limit: u64,
        /// Bytes in use below it.
        used: u64,
    },
    /// The caller is not a task of a governor, so that there is nobody to charge.
    #[error(
        "memory is reserved for a query: call this inside a task that a governor runs, or on the Query itself"
    )]
    NoTask,
}

impl MemoryError {
    /// Whether the same request can succeed later without anybody changing a limit.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            MemoryError::Full { .. } | MemoryError::TimedOut { .. }
        )
    }

    pub(super) fn too_large(group: &Arc<str>, short: Shortfall) -> MemoryError {
        MemoryError::TooLarge {
            group: group.clone(),
            asked: short.asked,
            scope: short.scope,
            limit: short.limit,
        }
    }

    pub(super) fn full(group: &Arc<str>, short: Shortfall, waiting: usize) -> MemoryError {
        MemoryError::Full {
            group: group.clone(),
            asked: short.asked,
            scope: short.scope,
            limit: short.limit,
            used: short.used,
            waiting: waiting as u64,
        }
    }

    pub(super) fn timed_out(group: &Arc<str>, short: Shortfall, waited: Duration) -> MemoryError {
        MemoryError::TimedOut {
            group: group.clone(),
            asked: short.asked,
            waited,
            scope: short.scope,
            limit: short.limit,
            used: short.used,
        }
    }
}
