//! What the division of a capacity knows of one lane.
//!
//! Pure.

use crate::unit::Nanos;
use std::collections::BTreeMap;

/// The requests of one group, and what it holds of the capacity.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Requests that wait, in their order: what each wants.
    pub(super) waiting: BTreeMap<u64, u64>,
    /// Bytes that are set aside for it, until the round is over.
    pub(super) allowance: u64,
    /// Bytes that it may pass without asking, or has passed.
    pub(super) lent: u64,
    /// Bytes that it was charged for and did not use: the next ones are free.
    pub(super) prepaid: u64,
    /// When it was granted something last.
    pub(super) granted_at: Option<Nanos>,
    /// Bytes that have passed, or are about to.
    pub(super) passed: u64,
    pub(super) live: bool,
}

impl Lane {
    pub(super) fn new() -> Lane {
        Lane {
            live: true,
            ..Lane::default()
        }
    }

    /// Takes `want` out of what is set aside, or as much as is worth an operation.
    pub(super) fn draw(&mut self, want: u64) -> Option<u64> {
        let bytes = self.allowance.min(want);
        if bytes < want.min(super::WORTH_IT) {
            return None;
        }
        self.allowance -= bytes;
        Some(bytes)
    }

    /// How many of `bytes` must be charged.
    pub(super) fn settle(&mut self, bytes: u64) -> u64 {
        let free = self.prepaid.min(bytes);
        self.prepaid -= free;
        bytes - free
    }

    /// Whether it has had something so lately that it may be about to want more.
    pub(super) fn is_busy(&self, now: Nanos) -> bool {
        self.granted_at
            .is_some_and(|at| now.since(at) < super::ROUND)
    }
}
