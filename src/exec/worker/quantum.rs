//! How long a worker runs before its host has its turn: to look after I/O and timers, and to run tasks of its own.
//!
//! Pure, but for its cells; the worker's own thread. A turn of the host costs some microseconds, with what the worker
//! does to stop and to begin again. While its turns are of use there is one per quantum; after each that was not, the
//! next comes twice as late, up to four quanta. Invariants:
//! 1. Between two turns lie four quanta and what was begun within them at most, a slice or a poll; after one that brought
//!    something, or after a sleep, one quantum and that.
//! 2. Where somebody may wait on the host's side for a task that has ended, or for the place of its query, it is one
//!    quantum in any case.

use crate::unit::Nanos;
use std::cell::Cell;

/// As many times is the time between two turns doubled.
const DOUBLINGS: u32 = 2;
/// A host that has nothing to do is back sooner.
const IDLE_TURN: Nanos = Nanos::from_micros(5);

pub(super) struct Quantum {
    length: Nanos,
    doublings: Cell<u32>,
    /// When the host got its turn at the end of a quantum, until the worker is back.
    left: Cell<Option<Nanos>>,
    /// Soonest and latest end of the running one.
    soon: Cell<Nanos>,
    end: Cell<Nanos>,
    awaited: Cell<bool>,
}

impl Quantum {
    pub(super) fn new(length: Nanos) -> Quantum {
        Quantum {
            length,
            doublings: Cell::new(0),
            left: Cell::new(None),
            soon: Cell::new(Nanos::ZERO),
            end: Cell::new(Nanos::ZERO),
            awaited: Cell::new(false),
        }
    }

    /// The worker begins to run. `of_use`: something was made ready on the host's side meanwhile.
    pub(super) fn begin(&self, now: Nanos, of_use: bool) {
        let idle = |left: Nanos| !of_use && now.since(left) < IDLE_TURN;
        let doublings = match self.left.take() {
            Some(left) if idle(left) => (self.doublings.get() + 1).min(DOUBLINGS),
            _ => 0,
        };
        self.doublings.set(doublings);
        self.awaited.set(false);
        self.soon.set(now.plus(self.length));
        self.end.set(now.plus(Nanos(self.length.0 << doublings)));
    }

    /// A task has ended whose handle somebody has, or that had a part in its query's place.
    #[inline]
    pub(super) fn is_awaited(&self) {
        self.awaited.set(true);
    }

    /// Whether it is the host's turn.
    #[inline]
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        now >= self.end.get() || (self.awaited.get() && now >= self.soon.get())
    }

    /// The host has its turn because it is over.
    pub(super) fn leave(&self, now: Nanos) {
        self.left.set(Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUANTUM: u64 = 100;

    fn us(micros: u64) -> Nanos {
        Nanos::from_micros(micros)
    }

    /// The length of the quantum that begins at `now`.
    fn length(quantum: &Quantum, now: u64) -> u64 {
        let over = |after: &u64| quantum.is_over(us(now + after));
        (0..10_000).find(over).unwrap()
    }

    fn new() -> Quantum {
        let quantum = Quantum::new(us(QUANTUM));
        quantum.begin(us(0), false);
        quantum
    }

    #[test]
    fn turns_without_use_come_half_as_often_and_at_last_after_four_quanta() {
        let quantum = new();
        let mut now = 0;
        let lengths = [0; 5].map(|_| {
            let length = length(&quantum, now);
            now += length;
            quantum.leave(us(now));
            now += 2;
            quantum.begin(us(now), false);
            length
        });
        assert_eq!(lengths, [100, 200, 400, 400, 400]);
    }

    #[test]
    fn whatever_the_host_had_to_do_the_next_turn_comes_after_one_quantum() {
        for (mail, took) in [(true, 2), (false, 5), (true, 1_000)] {
            let quantum = new();
            quantum.leave(us(100));
            quantum.begin(us(102), false);
            assert_eq!(length(&quantum, 102), 200);
            quantum.leave(us(302));
            quantum.begin(us(302 + took), mail);
            assert_eq!(length(&quantum, 302 + took), 100, "{mail} {took}");
        }
    }

    #[test]
    fn after_a_sleep_or_a_look_it_is_one_quantum() {
        let quantum = new();
        quantum.leave(us(100));
        quantum.begin(us(102), false);
        quantum.begin(us(150), false);
        assert_eq!(length(&quantum, 150), 100);
    }

    #[test]
    fn who_waits_for_a_task_on_the_hosts_side_waits_for_one_quantum() {
        let quantum = new();
        quantum.leave(us(100));
        quantum.begin(us(102), false);
        quantum.is_awaited();
        assert_eq!(length(&quantum, 102), 100);
        assert!(!quantum.is_over(us(201)) && quantum.is_over(us(202)));
        quantum.leave(us(202));
        quantum.begin(us(203), false);
        assert_eq!(length(&quantum, 203), 400);
    }
}
