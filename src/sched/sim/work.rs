//! What a simulated task does each time it is polled.
//!
//! Pure.

use super::{Rng, TaskId};
use crate::unit::Nanos;

/// One poll: how long it holds its worker, and what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The length of the poll, at least 1 ns. It is not interrupted.
    pub poll: Nanos,
    /// A task that is woken at the beginning of the poll.
    pub wake: Option<TaskId>,
    /// What follows.
    pub then: Then,
}

/// What a task does after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is runnable at once.
    Yield,
    /// It wakes this much later.
    Sleep(Nanos),
    /// It waits until another task wakes it.
    Wait,
    /// It is finished.
    Done,
}

impl Step {
    /// A poll that wakes nobody.
    pub fn new(poll: Nanos, then: Then) -> Step {
        Step {
            poll,
            wake: None,
            then,
        }
    }
}

/// Endless: polls of `poll`, one after the other.
pub fn steady(poll: Nanos) -> impl FnMut(&mut Rng) -> Step {
    move |_| Step::new(poll, Then::Yield)
}

/// Uses `cpu` in all, in polls of `poll` (the last one shorter), and finishes.
pub fn job(cpu: Nanos, poll: Nanos) -> impl FnMut(&mut Rng) -> Step {
    let mut left = cpu;
    move |_| {
        let now = poll.min(left);
        left = left.since(now);
        Step::new(
            now,
            if left == Nanos::ZERO {
                Then::Done
            } else {
                Then::Yield
            },
        )
    }
}

/// Endless: a burst of `polls` polls of `poll`, then asleep for `sleep`.
pub fn bursts(polls: u32, poll: Nanos, sleep: Nanos) -> impl FnMut(&mut Rng) -> Step {
    let mut done = 0;
    move |_| {
        done += 1;
        Step::new(
            poll,
            if done % polls.max(1) == 0 {
                Then::Sleep(sleep)
            } else {
                Then::Yield
            },
        )
    }
}

/// Endless: polls and sleeps of random lengths, evenly between the bounds; one time in `sleep_one_in` it sleeps.
pub fn random(
    poll: (Nanos, Nanos),
    sleep: (Nanos, Nanos),
    sleep_one_in: u64,
) -> impl FnMut(&mut Rng) -> Step {
    move |rng| {
        let time = rng.time(poll.0, poll.1);
        if rng.between(1, sleep_one_in.max(1)) == 1 {
            Step::new(time, Then::Sleep(rng.time(sleep.0, sleep.1)))
        } else {
            Step::new(time, Then::Yield)
        }
    }
}
