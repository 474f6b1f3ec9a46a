//! Time that the operating system gave to others while a poll was running.
//!
//! Mechanism; the worker's own thread. Wall time is what a poll keeps the worker from others for, and what it
//! is charged. But on a machine with more busy threads than cores, the system takes the CPU away in the middle
//! of polls, for milliseconds. Charging those to whom they hit is worse than noise: the group that was hit
//! waits while the other one catches up *on the CPU* (measured: 2:1 came out as 1.65 with three quarters of
//! the CPU taken by others; with this it comes out as 2.00).
//!
//! So a poll that took suspiciously long is compared with the thread's CPU clock. Time in which the thread
//! *gave up* the CPU itself (a blocking call in a poll) stays charged: it did keep the worker.

use crate::clock::ThreadTime;
use crate::unit::Nanos;
use std::cell::Cell;
use std::thread::{self, ThreadId};

/// Polls shorter than this are not looked into: the system's own time slices are milliseconds.
pub(super) const SUSPECT: Nanos = Nanos::from_micros(500);
/// How old the reading to compare with may be: two system calls, 0.8 µs, per millisecond of work.
const REFRESH: Nanos = Nanos::from_millis(1);

#[derive(Clone, Copy)]
struct Reading {
    at: Nanos,
    time: ThreadTime,
    thread: ThreadId,
}

impl Reading {
    fn take(now: Nanos) -> Option<Reading> {
        Some(Reading {
            at: now,
            time: ThreadTime::read()?,
            thread: thread::current().id(),
        })
    }
}

/// Compares the clocks.
pub(super) struct Stolen {
    enabled: bool,
    last: Cell<Option<Reading>>,
    /// Since when the worker has been awake, or when the last reading was taken.
    mark: Cell<Nanos>,
    slept: Cell<bool>,
}

impl Stolen {
    pub(super) fn new(enabled: bool) -> Stolen {
        Stolen {
            enabled,
            last: Cell::new(None),
            mark: Cell::new(Nanos::ZERO),
            slept: Cell::new(false),
        }
    }

    /// The worker has slept: what came before cannot be compared with, whatever comes next is the first to look at.
    pub(super) fn awake(&self) {
        self.last.set(None);
        self.slept.set(true);
    }

    /// The worker begins to run.
    #[inline]
    pub(super) fn go_on(&self, now: Nanos) {
        if self.slept.take() {
            self.mark.set(now);
        }
    }

    /// The worker is on this thread from now on, and awake: its first poll can be compared already.
    pub(super) fn begin(&self, now: Nanos) {
        self.last
            .set(self.enabled.then(|| Reading::take(now)).flatten());
        self.mark.set(now);
    }

    /// Between two polls: keeps the reading fresh.
    #[inline]
    pub(super) fn refresh(&self, now: Nanos) {
        if now.since(self.mark.get()) >= REFRESH && self.enabled {
            self.last.set(Reading::take(now));
            self.mark.set(now);
        }
    }

    /// How much of a poll that took `took` until `now` was stolen.
    #[cold]
    pub(super) fn during(&self, took: Nanos, now: Nanos) -> Nanos {
        if !self.enabled {
            return Nanos::ZERO;
        }
        let reading = Reading::take(now);
        let last = self.last.replace(reading);
        self.mark.set(now);
        let (Some(reading), Some(last)) = (reading, last) else {
            return Nanos::ZERO;
        };
        stolen(&last, &reading).min(took)
    }
}

fn stolen(last: &Reading, now: &Reading) -> Nanos {
    // A driver may have moved to another thread; and who slept was not robbed.
    if last.thread != now.thread || last.time.yielded != now.time.yielded {
        return Nanos::ZERO;
    }
    now.at
        .since(last.at)
        .since(now.time.cpu.since(last.time.cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: u64, cpu: u64, yielded: i64) -> Reading {
        let time = ThreadTime {
            cpu: Nanos::from_micros(cpu),
            yielded,
        };
        Reading {
            at: Nanos::from_micros(at),
            time,
            thread: thread::current().id(),
        }
    }

    #[test]
    fn what_passed_without_cpu_time_was_stolen_unless_the_thread_slept() {
        let last = reading(100, 50, 7);
        assert_eq!(
            stolen(&last, &reading(5_100, 1_050, 7)),
            Nanos::from_micros(4_000)
        );
        assert_eq!(stolen(&last, &reading(5_100, 5_050, 7)), Nanos::ZERO);
        assert_eq!(stolen(&last, &reading(5_100, 1_050, 8)), Nanos::ZERO);
        let elsewhere = Reading {
            thread: thread::spawn(|| thread::current().id()).join().unwrap(),
            ..last
        };
        assert_eq!(stolen(&elsewhere, &reading(5_100, 1_050, 7)), Nanos::ZERO);
    }

    #[test]
    fn never_more_than_the_poll_took() {
        let meter = Stolen::new(true);
        let now = crate::clock::Clock::tsc();
        meter.refresh(now.now());
        let start = now.now();
        let cpu = ThreadTime::read();
        while now.now().since(start) < SUSPECT {}
        let stolen = meter.during(now.now().since(start), now.now());
        assert!(stolen <= now.now().since(start) || cpu.is_none());
    }

    #[test]
    fn a_busy_thread_is_robbed_of_no_more_than_it_did_not_run() {
        let (meter, clock) = (Stolen::new(true), crate::clock::Clock::tsc());
        let Some(before) = ThreadTime::read() else {
            return;
        };
        let begin = clock.now();
        let mut stolen = 0;
        for _ in 0..200 {
            let start = clock.now();
            while clock.now().since(start) < Nanos::from_micros(600) {}
            let now = clock.now();
            stolen += meter.during(now.since(start), now).0;
        }
        let wall = clock.now().since(begin);
        let cpu = ThreadTime::read().unwrap().cpu.since(before.cpu);
        let not_run = wall.since(cpu);
        assert!(
            stolen <= not_run.0 + wall.0 / 50,
            "{stolen} of {wall}, not run {not_run}"
        );
    }
}
