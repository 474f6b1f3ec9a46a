//! What a worker counts during a slice without touching shared memory, and where it pours it afterwards.
//!
//! Mechanism: [`Tally`] belongs to one worker; [`Counters`] are a group's and are read from any thread.
//! Nothing here is exact in the middle of a slice (100 µs); everything is exact when the group is at rest.

use super::stats::{Direction, GroupUsage, IoBytes, TIME_BOUNDS, TimeHistogram};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::unit::Nanos;
use std::cell::Cell;

const BUCKETS: usize = TIME_BOUNDS.len() + 1;

/// One worker's counts of the running slice.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) polls: Cell<u64>,
    pub(super) dropped: Cell<u64>,
    pub(super) finished: Cell<u64>,
    long_polls: Cell<u64>,
    delay: Times,
    duration: Times,
}

/// Times of one kind. Those below the first bound are only counted through the number of polls.
#[derive(Debug, Default)]
struct Times {
    sum: Cell<u64>,
    slow: Cell<u64>,
    buckets: [Cell<u64>; BUCKETS],
}

impl Times {
    #[inline]
    fn record(&self, time: u64) {
        // 584 years.
        self.sum.set(self.sum.get().wrapping_add(time));
        if time > TIME_BOUNDS[0].0 {
            self.record_slow(time);
        }
    }

    #[cold]
    fn record_slow(&self, time: u64) {
        let bucket = TIME_BOUNDS
            .iter()
            .position(|bound| time <= bound.0)
            .unwrap_or(BUCKETS - 1);
        self.buckets[bucket].set(self.buckets[bucket].get() + 1);
        self.slow.set(self.slow.get() + 1);
    }

    fn pour(&self, polls: u64, into: &Histogram) {
        let slow = self.slow.take();
        add(&into.sum, self.sum.take());
        add(&into.buckets[0], polls.saturating_sub(slow));
        if slow > 0 {
            for (from, to) in self
                .buckets
                .iter()
                .zip(&into.buckets)
                .filter(|(from, _)| from.get() > 0)
            {
                to.fetch_add(from.take(), Relaxed);
            }
        }
    }
}

impl Tally {
    /// One poll: how long its task had waited for it, and how long it took.
    #[inline]
    pub(super) fn poll(&self, delay: Nanos, took: Nanos) {
        self.polls.set(self.polls.get() + 1);
        self.delay.record(delay.0);
        self.duration.record(took.0);
    }

    /// That poll was longer than polls should be.
    pub(super) fn long_poll(&self) {
        self.long_polls.set(self.long_polls.get() + 1);
    }

    /// Empties itself into the group's counters. `given`: the worker time of the slice.
    pub(super) fn pour(&self, given: Nanos, into: &Counters) {
        let polls = self.polls.take();
        let dropped = self.dropped.take();
        add(&into.cpu_poll, given.0.saturating_sub(dropped));
        add(&into.cpu_drop, dropped);
        add(&into.polls, polls);
        add(&into.finished, self.finished.take());
        add(&into.long_polls, self.long_polls.take());
        self.delay.pour(polls, &into.delay);
        self.duration.pour(polls, &into.duration);
    }
}

/// Most of what is counted is nothing at the end of a short slice, and nothing need be added then.
#[inline]
fn add(count: &AtomicU64, more: u64) {
    if more > 0 {
        count.fetch_add(more, Relaxed);
    }
}

/// A group's counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    cpu_poll: AtomicU64,
    cpu_drop: AtomicU64,
    cpu_blocking: AtomicU64,
    polls: AtomicU64,
    /// Closures that wait for a thread of the blocking pool or run on one.
    pub(super) blocking: AtomicU64,
    pub(super) spawned: AtomicU64,
    pub(super) finished: AtomicU64,
    long_polls: AtomicU64,
    pub(super) traffic: Traffic,
    delay: Histogram,
    duration: Histogram,
}

/// Bytes that were read and written, and what operations waited for limits, counted per operation and not per slice.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
    waited: AtomicU64,
}

impl Traffic {
    pub(super) fn add(&self, direction: Direction, bytes: u64) {
        let count = match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.written,
        };
        count.fetch_add(bytes, Relaxed);
    }

    pub(super) fn wait(&self, time: Nanos) {
        self.waited.fetch_add(time.0, Relaxed);
    }

    pub(super) fn waited(&self) -> Nanos {
        Nanos(self.waited.load(Relaxed))
    }

    pub(super) fn counted(&self) -> IoBytes {
        IoBytes {
            read: self.read.load(Relaxed),
            written: self.written.load(Relaxed),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Histogram {
    sum: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Histogram {
    /// One observation of something that is rare.
    pub(super) fn record(&self, time: Nanos) {
        let bucket = TIME_BOUNDS.iter().position(|&bound| time <= bound);
        self.buckets[bucket.unwrap_or(BUCKETS - 1)].fetch_add(1, Relaxed);
        self.sum.fetch_add(time.0, Relaxed);
    }

    pub(super) fn read(&self) -> TimeHistogram {
        TimeHistogram {
            buckets: std::array::from_fn(|i| self.buckets[i].load(Relaxed)),
            sum: Nanos(self.sum.load(Relaxed)),
        }
    }
}

impl Counters {
    /// Tasks that are alive: spawned and not finished. Reads in the order that never gives too few.
    pub(super) fn live(&self) -> u64 {
        let finished = self.finished.load(SeqCst);
        self.spawned.load(SeqCst).saturating_sub(finished)
    }

    /// A blocking closure has used so much.
    pub(super) fn blocked(&self, took: Nanos) {
        self.cpu_blocking.fetch_add(took.0, Relaxed);
    }

    /// The counters as values; the gauges are the caller's to fill in.
    pub(super) fn read(&self) -> GroupUsage {
        GroupUsage {
            cpu_poll: Nanos(self.cpu_poll.load(Relaxed)),
            cpu_drop: Nanos(self.cpu_drop.load(Relaxed)),
            cpu_blocking: Nanos(self.cpu_blocking.load(Relaxed)),
            blocking: self.blocking.load(Relaxed),
            io: self.traffic.counted(),
            io_throttled: self.traffic.waited(),
            polls: self.polls.load(Relaxed),
            long_polls: self.long_polls.load(Relaxed),
            tasks_total: self.spawned.load(Relaxed),
            queue_delay: self.delay.read(),
            poll_duration: self.duration.read(),
            ..GroupUsage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poured_tally_is_empty_and_the_group_has_it_all() {
        let (tally, counters) = (Tally::default(), Counters::default());
        tally.poll(Nanos(5), Nanos::from_micros(20));
        tally.poll(Nanos::from_secs(1), Nanos::from_millis(6));
        tally.long_poll();
        for _ in 0..2 {
            tally.pour(Nanos::from_millis(7), &counters);
        }
        let usage = counters.read();
        assert_eq!((usage.polls, usage.long_polls), (2, 1));
        assert_eq!(usage.cpu_poll, Nanos::from_millis(14));
        assert_eq!(usage.queue_delay.buckets.iter().sum::<u64>(), 2);
        assert_eq!(usage.queue_delay.buckets[0], 1);
        assert_eq!(usage.poll_duration.buckets[0], 0);
        assert_eq!(usage.poll_duration.sum, Nanos::from_micros(6_020));
    }
}
