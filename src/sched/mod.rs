//! The scheduling policy: pure decisions about who runs, for how long, and at what price.
//!
//! Pure: no clock, thread, lock, I/O or async; time comes in as [`Nanos`] with each call. The executor calls
//! it under one lock, once per slice; the simulator (`sim`) runs the very same code in virtual time, so
//! what the tests prove is what the workers do.
//!
//! Two levels:
//! - level 1, [`fair`]: which *group* a free worker serves next: the one with the least vruntime;
//! - level 2, [`feedback`]: which *tasks* of that group, by the age of their query.
//!
//! Beside them, [`entitle`] computes what each group *should* have had, so that unfairness has a number.

pub mod entitle;
pub mod fair;
pub mod feedback;
mod heap;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod trace;
mod weight;

use crate::unit::Nanos;

/// The constants of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a worker serves a group before it asks again. 100 µs: long enough that one lock per slice is
    /// invisible (60 ns against 100 µs), short enough that a group waits for little more than the running poll.
    pub slice: Nanos,
    /// How much further than the waking group (in worker time of that one) a running group must be to be preempted.
    pub granularity: Nanos,
    /// The period over which shares are meant to come out; half of a group's share of it is the credit that
    /// a returning group may bring along.
    pub period: Nanos,
    /// What a poll costs at least, so that empty yields are not free.
    pub min_charge: Nanos,
    /// Base of the feedback levels: level *i* lasts `(i + 1) × base` of a query's CPU time.
    pub level_base: Nanos,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            slice: Nanos::from_micros(100),
            granularity: Nanos::from_micros(20),
            period: Nanos::from_millis(100),
            min_charge: Nanos(50),
            level_base: Nanos::from_millis(200),
        }
    }
}

/// The most tasks that a worker takes from its group at once, however short their polls.
pub const MAX_BATCH: usize = 128;

/// How many tasks a worker takes from its group at the start of a slice.
///
/// Two slices' worth of polls at the group's average, so that long polls are taken one at a time (and keep
/// their order across workers) while short ones are taken in bulk; never more than a fair part of the
/// `queued` ones, so that `workers` share a short queue.
pub fn batch(config: &Config, average_poll: Nanos, queued: usize, workers: usize) -> usize {
    let by_time = config.slice.0.saturating_mul(2) / average_poll.0.max(1);
    let by_time = usize::try_from(by_time)
        .unwrap_or(MAX_BATCH)
        .clamp(1, MAX_BATCH);
    by_time.min(queued / workers.max(1) + 1).min(queued)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_polls_are_taken_one_by_one_and_short_ones_in_bulk() {
        let config = Config::default();
        assert_eq!(batch(&config, Nanos::from_millis(1), 1000, 2), 1);
        assert_eq!(batch(&config, Nanos::from_micros(20), 1000, 2), 10);
        assert_eq!(batch(&config, Nanos(0), 1000, 2), MAX_BATCH);
        assert_eq!(batch(&config, Nanos(0), 10, 2), 6);
        assert_eq!(batch(&config, Nanos(0), 0, 2), 0);
    }
}
