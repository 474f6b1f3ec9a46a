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
//! [`pool`] is level 1 for threads that nobody can interrupt: blocking closures, first come first served inside a group.
//! [`quota`] keeps a group with a hard cap from the workers while it has had enough; reservations are a part of
//! level 1. Beside them, [`entitle`] computes what each group *should* have had, so that unfairness has a number,
//! and [`breaker`] says which queries use too much.

pub mod breaker;
pub mod entitle;
pub mod fair;
pub mod feedback;
mod heap;
pub mod pool;
pub mod quota;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod trace;
mod weight;

use crate::unit::{Cores, Nanos, Weight};

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

/// What a group may have of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Its part of the worker time among groups that have work.
    pub weight: Weight,
    /// Workers that it has before others while it has work.
    pub reserved: u32,
    /// The most that it may have, on average over [`Config::period`]; `None` = no cap.
    pub cap: Option<Cores>,
}

/// The most tasks that a worker takes from its group at once, however short their polls: so few that they and what
/// they touch stay in a core's first cache for a slice. What is left can be seen by all workers.
pub const MAX_BATCH: usize = 32;

/// The most tasks that a worker takes from another one's ring at once, of which it takes half: a ring of up to 256 is
/// shared evenly by two; from a longer one it takes again when it has run dry.
pub const MAX_STEAL: usize = 128;

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

/// What a group's polls are taken to last before any was seen.
pub const FIRST_AVERAGE: Nanos = Nanos::from_micros(1);

/// The moving average of a group's poll lengths after a slice of `polls` polls that took `time` together: what was
/// known before counts for three polls.
///
/// A slice of many short polls thereby says nearly all. A task that spawns thousands of others is one long poll before
/// them, after which each of them would seem worth a wake-up if slices counted alike.
pub fn learn(average: Nanos, polls: u64, time: Nanos) -> Nanos {
    if polls == 0 {
        return average;
    }
    let known = average.0.saturating_mul(3);
    Nanos(known.saturating_add(time.0) / polls.saturating_add(3))
}

/// What waking a sleeping thread takes, on both sides and amply. Tiny tasks that are spread over two workers
/// instead cost two to four times the CPU (measured). What is still there at the end of a whole slice is worth a
/// wake-up in any case.
const WAKE: Nanos = Nanos::from_micros(50);

/// How many tasks that wait at one worker are worth the wake-up of another: at least two, and not so few that they
/// will be done, at the group's average, before it is up.
pub fn worth_a_wake(average_poll: Nanos) -> usize {
    let tasks = WAKE.0 / average_poll.0.max(1);
    usize::try_from(tasks).unwrap_or(usize::MAX).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_follows_the_polls_and_a_slice_without_any_says_nothing() {
        let once = learn(FIRST_AVERAGE, 17, Nanos::from_micros(97));
        assert_eq!(once, Nanos(5_000), "3 polls of 1 µs and 97 µs in 17 more");
        assert_eq!(learn(once, 0, Nanos::from_millis(1)), once);
        assert_eq!(learn(Nanos::MAX, 1, Nanos::MAX), Nanos(u64::MAX / 4));
    }

    #[test]
    fn after_one_long_poll_a_slice_of_short_ones_is_not_taken_for_long_ones() {
        // A task spawns ten thousand others: a poll of 2 ms, and then slices of polls of 100 ns.
        let long = learn(Nanos(100), 1, Nanos::from_millis(2));
        assert_eq!(long, Nanos(500_075));
        let short = learn(long, 1_000, Nanos::from_micros(100));
        assert_eq!(short, Nanos(1_595));
        let short = learn(short, 1_000, Nanos::from_micros(100));
        assert_eq!(short, Nanos(104));
        assert_eq!(worth_a_wake(short), 480);
    }

    #[test]
    fn only_work_that_outlasts_a_wake_up_is_worth_one() {
        let tasks = [0, 50, 1_000, 8_000, 20_000, 1_000_000].map(|ns| worth_a_wake(Nanos(ns)));
        assert_eq!(tasks, [50_000, 1_000, 50, 6, 2, 2]);
    }

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
