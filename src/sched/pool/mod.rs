//! Which blocking closure a free thread runs next: of the group with the least IO vruntime the one that came first.
//!
//! Pure; the executor calls it under one lock, once per closure. Level 1 is [`Fair`], with `io_weight` for a weight and
//! wall time for a price: a closure keeps its thread from others whether it computes or waits. Invariants:
//! 1. The group is chosen when a thread is free, never before: whatever a group has in line, at most the closures
//!    that run are ahead of another group's first one.
//! 2. A group is queued in level 1 iff its line is not empty.
//! 3. A closure counts while it runs: with what its group's closures last on average, and with what it has taken once
//!    that is more.
//! 4. The weights share threads as they become free. Nobody is interrupted: while a group's long closures hold all
//!    threads, the others wait for the first of them to end, and are served more often afterwards.

mod line;

use super::fair::{Fair, Slot};
use super::{Config, learn};
use crate::unit::{Nanos, Weight};
use line::Line;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a group may have of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its part of the threads' time among groups whose closures wait.
    pub weight: Weight,
    /// Threads that are kept free for it, as far as one is left to the others.
    pub reserved: u32,
}

/// A closure that a thread is to run.
#[derive(Debug)]
pub struct Turn<J> {
    /// The closure.
    pub job: J,
    /// The place that it takes until [`Pool::done`].
    pub seat: usize,
}

/// A closure was not taken: as many of its group wait as may.
#[derive(Debug, PartialEq, Eq)]
pub struct Full<J> {
    /// The closure.
    pub job: J,
    /// How many may wait.
    pub limit: usize,
}

/// The closures that wait, and who may run next.
#[derive(Debug)]
pub struct Pool<J> {
    fair: Fair,
    lines: Vec<Line<J>>,
    /// How many closures of one group may wait.
    limit: usize,
    queued: usize,
    next_number: u64,
    /// Seats that were used before, and how many there are.
    free: BinaryHeap<Reverse<usize>>,
    seats: usize,
}

impl<J> Pool<J> {
    /// A pool of at most `threads` threads, with at most `limit` closures of one group in line.
    pub fn new(config: Config, threads: usize, limit: usize) -> Pool<J> {
        Pool {
            fair: Fair::lasting(config, threads),
            lines: Vec::new(),
            limit,
            queued: 0,
            next_number: 1,
            free: BinaryHeap::new(),
            seats: 0,
        }
    }

    /// Adds a group without closures.
    pub fn add(&mut self, weight: Weight) -> Slot {
        let slot = self.fair.add(weight);
        let index = slot.0 as usize;
        if index >= self.lines.len() {
            self.lines.resize_with(index + 1, Line::new);
        }
        self.lines[index] = Line::new();
        slot
    }

    /// Removes a group. False (and nothing happens) while closures of it wait or run.
    pub fn remove(&mut self, slot: Slot) -> bool {
        self.fair.remove(slot)
    }

    /// What a group may have from now on. More threads may be able to start than before.
    pub fn set_share(&mut self, slot: Slot, share: Share) {
        self.fair.set_lasting(slot, share.weight, share.reserved);
    }

    /// What a group may have.
    pub fn share(&self, slot: Slot) -> Share {
        Share {
            weight: self.fair.weight(slot),
            reserved: self.fair.reserved(slot),
        }
    }

    /// Puts a closure in its group's line; the number that [`Pool::take`] finds it by, never 0. `owner`: what it has in
    /// common with others for [`Pool::take_of`].
    ///
    /// # Errors
    ///
    /// The closure, if the line is full.
    pub fn push(&mut self, slot: Slot, now: Nanos, owner: u64, job: J) -> Result<u64, Full<J>> {
        if self.queued_of(slot) >= self.limit {
            let limit = self.limit;
            return Err(Full { job, limit });
        }
        Ok(self.push_on(slot, now, owner, job))
    }

    /// The same for a closure that goes on with what another one began: it is taken however many wait.
    pub fn push_on(&mut self, slot: Slot, now: Nanos, owner: u64, job: J) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.lines[slot.0 as usize].push(number, owner, job);
        self.queued += 1;
        self.fair.wake(slot, now, false);
        number
    }

    /// The closure that a free thread runs now; None if there is none, or what is left is reserved for other groups.
    pub fn next(&mut self, now: Nanos) -> Option<Turn<J>> {
        loop {
            let slot = self.fair.first_at(now)?;
            let line = &mut self.lines[slot.0 as usize];
            let expected = line.average;
            let Some(job) = line.pop() else {
                self.fair.dequeue(slot);
                continue;
            };
            let emptied = line.len() == 0;
            self.queued -= 1;
            let seat = self.free.pop().map_or(self.seats, |Reverse(seat)| seat);
            self.seats = self.seats.max(seat + 1);
            self.fair.start_lasting(seat, slot, now, expected);
            if emptied {
                self.fair.dequeue(slot);
            }
            return Some(Turn { job, seat });
        }
    }

    /// The closure in `seat` has ended; how long it had its thread.
    pub fn done(&mut self, seat: usize, now: Nanos) -> Nanos {
        let Some(charge) = self.fair.stop_lasting(seat, now) else {
            return Nanos::ZERO;
        };
        self.free.push(Reverse(seat));
        let line = &mut self.lines[charge.group.0 as usize];
        line.average = learn(line.average, 1, charge.given);
        line.used = line.used.plus(charge.given);
        charge.given
    }

    /// Takes a closure out of its group's line; None if it is not there any more.
    pub fn take(&mut self, slot: Slot, number: u64) -> Option<J> {
        let taken = self.lines[slot.0 as usize].take(number)?;
        self.left(slot, 1);
        Some(taken)
    }

    /// Takes all closures of an owner out of a group's line, in order.
    pub fn take_of(&mut self, slot: Slot, owner: u64) -> Vec<J> {
        let taken = self.lines[slot.0 as usize].take_of(owner);
        self.left(slot, taken.len());
        taken
    }

    /// Takes all closures out.
    pub fn take_all(&mut self) -> Vec<J> {
        let mut taken = Vec::with_capacity(self.queued);
        for (index, line) in self.lines.iter_mut().enumerate() {
            taken.extend(std::iter::from_fn(|| line.pop()));
            self.fair.dequeue(Slot(index as u32));
        }
        self.queued = 0;
        taken
    }

    fn left(&mut self, slot: Slot, taken: usize) {
        self.queued -= taken;
        if self.lines[slot.0 as usize].len() == 0 {
            self.fair.dequeue(slot);
        }
    }

    /// How many closures could begin now if there were threads for them.
    pub fn startable(&self) -> usize {
        if self.fair.reserves_nothing() {
            let free = self.fair.capacity().saturating_sub(self.running());
            return self.queued.min(free);
        }
        let queued = |slot: Slot| self.queued_of(slot);
        self.fair.startable(self.queued, queued)
    }

    /// Closures that wait.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Closures that run.
    pub fn running(&self) -> usize {
        self.fair.threads_busy()
    }

    /// Closures of a group that wait.
    pub fn queued_of(&self, slot: Slot) -> usize {
        self.lines[slot.0 as usize].len()
    }

    /// Closures of a group that run.
    pub fn running_of(&self, slot: Slot) -> usize {
        self.fair.running(slot) as usize
    }

    /// How long a group's closures have had threads, those that run now included.
    pub fn used(&self, slot: Slot, now: Nanos) -> Nanos {
        let used = self.lines[slot.0 as usize].used;
        used.plus(self.fair.unpaid(slot, now))
    }
}

#[cfg(test)]
mod tests;
