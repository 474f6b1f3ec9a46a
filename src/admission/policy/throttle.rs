//! The memory throttle: how many queries may run while memory is short, and for a while after.
//!
//! Pure; StarTree's MemoryThrottledFCFS. Time and memory come in as numbers, whenever somebody looks.
//!
//! ```text
//!          used > threshold                used ≤ threshold              cap = runner threads
//!   open ──────────────────▶ throttling ──────────────────▶ rising ──────────────────────────▶ open
//!                             cap = running, at least 1      cap + 1 per interval
//!                                   ▲                           │
//!                                   └───── used > threshold ────┘
//! ```
//!
//! 1. While throttling the cap is the number running, at least 1, and only falls: running queries go on, and none
//!    starts in the place of one that ends.
//! 2. The first rise comes one interval after memory was seen to be enough again.
//! 3. A collection is asked for after ten intervals of throttling without a break, and again after each ten more.

use crate::unit::{Bytes, Nanos};

/// Throttling that goes on for so many intervals asks for a collection.
pub const SUSTAINED: u64 = 10;

/// When admission is throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleRules {
    /// More than this in use begins it; this much or less ends it.
    pub threshold: Bytes,
    /// Time between two rises of the cap, at least 1 ms.
    pub interval: Nanos,
}

/// The throttle's state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    rules: Option<ThrottleRules>,
    phase: Phase,
    used: Bytes,
    /// Time spent throttling in periods that are over.
    past: Nanos,
    collections: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Open,
    Throttling {
        cap: u64,
        since: Nanos,
        /// When a collection was asked for last; at first, when throttling began.
        asked: Nanos,
    },
    Rising {
        cap: u64,
        stepped: Nanos,
    },
}

/// What a look at the memory changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Throttling began: with this cap.
    pub began: Option<u64>,
    /// Throttling ended.
    pub ended: bool,
    /// Memory that is free but kept should be given back to the system now.
    pub collect: bool,
}

impl Throttle {
    /// The rules; none = it does nothing. New ones bind from the next look on, or, given up, at once.
    pub fn set_rules(&mut self, rules: Option<ThrottleRules>, now: Nanos) {
        self.rules = rules;
        if rules.is_none() {
            self.past = self.total(now);
            self.phase = Phase::Open;
        }
    }

    /// So much memory is in use, and so many queries run. `top`: how many may run when memory is not short.
    pub fn look(&mut self, now: Nanos, used: Bytes, running: u64, top: u64) -> Step {
        let Some(rules) = self.rules else {
            return Step::default();
        };
        self.used = used;
        let short = used > rules.threshold;
        let interval = rules.interval.max(Nanos::from_millis(1));
        let mut step = Step::default();
        match &mut self.phase {
            Phase::Throttling { cap, asked, .. } if short => {
                *cap = (*cap).min(running.max(1));
                if now.since(*asked).0 >= interval.0.saturating_mul(SUSTAINED) {
                    *asked = now;
                    self.collections += 1;
                    step.collect = true;
                }
            }
            Phase::Throttling { cap, .. } => {
                let cap = *cap;
                step.ended = true;
                self.past = self.total(now);
                self.phase = Phase::Rising { cap, stepped: now };
            }
            Phase::Open | Phase::Rising { .. } if short => {
                let cap = running.max(1);
                step.began = Some(cap.min(top));
                let (since, asked) = (now, now);
                self.phase = Phase::Throttling { cap, since, asked };
            }
            Phase::Rising { cap, stepped } => {
                if now.since(*stepped) >= interval {
                    (*cap, *stepped) = (*cap + 1, now);
                }
            }
            Phase::Open => {}
        }
        if matches!(self.phase, Phase::Rising { cap, .. } if cap >= top) {
            self.phase = Phase::Open;
        }
        step
    }

    /// A query has ended; so many are left.
    pub fn left(&mut self, running: u64) {
        if let Phase::Throttling { cap, .. } = &mut self.phase {
            *cap = (*cap).min(running.max(1));
        }
    }

    /// How many queries may run; none = the throttle does not say.
    pub fn cap(&self) -> Option<u64> {
        match self.phase {
            Phase::Open => None,
            Phase::Throttling { cap, .. } | Phase::Rising { cap, .. } => Some(cap),
        }
    }

    /// Since when memory has been short; none while it is not.
    pub fn since(&self) -> Option<Nanos> {
        match self.phase {
            Phase::Throttling { since, .. } => Some(since),
            Phase::Open | Phase::Rising { .. } => None,
        }
    }

    /// Time spent throttling so far.
    pub fn total(&self, now: Nanos) -> Nanos {
        let current = self.since().map_or(Nanos::ZERO, |since| now.since(since));
        self.past.plus(current)
    }

    /// Collections asked for so far.
    pub fn collections(&self) -> u64 {
        self.collections
    }

    /// Memory in use at the last look, and the threshold.
    pub fn seen(&self) -> (Bytes, Bytes) {
        let threshold = self.rules.map_or(Bytes(u64::MAX), |rules| rules.threshold);
        (self.used, threshold)
    }

    /// The time between two looks; none if there is nothing to look for.
    pub fn interval(&self) -> Option<Nanos> {
        self.rules.map(|rules| rules.interval)
    }
}
