//! The policy with a tape beside it.
//!
//! Pure.

use super::{Answer, Op, Trace};
use crate::sched::Config;
use crate::sched::fair::{Charge, Fair, Late, Slice, Slot};
use crate::unit::{Cores, Nanos, Weight};
use std::ops::Deref;

/// A [`Fair`] whose calls can be recorded. Reads that decide nothing go to it directly.
#[derive(Debug)]
pub struct Recorder {
    fair: Fair,
    trace: Option<Trace>,
}

impl Recorder {
    /// Records nothing: each call costs one branch more than on a [`Fair`].
    pub fn silent(config: Config, workers: usize) -> Recorder {
        Recorder {
            fair: Fair::new(config, workers),
            trace: None,
        }
    }

    /// Records every call from the first one on. Memory grows by about 64 bytes per call.
    pub fn recording(config: Config, workers: usize) -> Recorder {
        let trace = Trace {
            config,
            workers,
            calls: Vec::new(),
        };
        Recorder {
            trace: Some(trace),
            ..Recorder::silent(config, workers)
        }
    }

    /// Ends the recording. None if it was silent.
    pub fn finish(&mut self) -> Option<Trace> {
        self.trace.take()
    }

    fn note(&mut self, op: Op, answer: Answer) {
        if let Some(trace) = &mut self.trace {
            trace.calls.push((op, answer));
        }
    }

    /// See [`Fair::add`].
    pub fn add(&mut self, weight: Weight) -> Slot {
        let slot = self.fair.add(weight);
        self.note(Op::Add { weight }, Answer::Group(Some(slot)));
        slot
    }

    /// See [`Fair::remove`].
    pub fn remove(&mut self, slot: Slot) -> bool {
        let removed = self.fair.remove(slot);
        self.note(Op::Remove { slot }, Answer::Flag(removed));
        removed
    }

    /// See [`Fair::set_weight`].
    pub fn set_weight(&mut self, slot: Slot, weight: Weight) {
        self.fair.set_weight(slot, weight);
        self.note(Op::SetWeight { slot, weight }, Answer::Unit);
    }

    /// See [`Fair::wake`].
    pub fn wake(&mut self, slot: Slot, now: Nanos, all_busy: bool) -> Option<usize> {
        let preempt = self.fair.wake(slot, now, all_busy);
        let op = Op::Wake {
            slot,
            now,
            all_busy,
        };
        self.note(op, Answer::Preempt(preempt));
        preempt
    }

    /// See [`Fair::first`].
    pub fn first(&mut self) -> Option<Slot> {
        let first = self.fair.first();
        self.note(Op::First, Answer::Group(first));
        first
    }

    /// See [`Fair::dequeue`].
    pub fn dequeue(&mut self, slot: Slot) {
        self.fair.dequeue(slot);
        self.note(Op::Dequeue { slot }, Answer::Unit);
    }

    /// See [`Fair::start`].
    pub fn start(&mut self, worker: usize, slot: Slot, now: Nanos) -> Slice {
        let slice = self.fair.start(worker, slot, now);
        let op = Op::Start { worker, slot, now };
        self.note(op, Answer::Slice(slice.end, slice.solo));
        slice
    }

    /// See [`Fair::start_held`]. Recorded as the calls that it stands for.
    pub fn start_held(&mut self, worker: usize, slot: Slot, now: Nanos) -> Option<Slice> {
        let slice = self.fair.start_held(worker, slot, now)?;
        if self.trace.is_some() {
            let wake = Op::Wake {
                slot,
                now,
                all_busy: false,
            };
            self.note(wake, Answer::Preempt(None));
            self.note(Op::First, Answer::Group(Some(slot)));
            let op = Op::Start { worker, slot, now };
            self.note(op, Answer::Slice(slice.end, slice.solo));
            self.note(Op::Dequeue { slot }, Answer::Unit);
        }
        Some(slice)
    }

    /// See [`Fair::stop`].
    pub fn stop(&mut self, worker: usize, now: Nanos, polls: u64) -> Option<Charge> {
        let charge = self.fair.stop(worker, now, polls);
        self.note(Op::Stop { worker, now, polls }, Answer::Charge(charge));
        charge
    }

    /// See [`Fair::charge_running`].
    pub fn charge_running(&mut self, worker: usize, now: Nanos) -> Option<Charge> {
        let charge = self.fair.charge_running(worker, now);
        self.note(Op::ChargeRunning { worker, now }, Answer::Charge(charge));
        charge
    }

    /// See [`Fair::late`].
    pub fn late(&mut self, worker: usize, now: Nanos, does: Late) -> Option<Charge> {
        let charge = self.fair.late(worker, now, does);
        self.note(Op::Late { worker, now, does }, Answer::Charge(charge));
        charge
    }

    /// See [`Fair::expect_late`]. Not recorded where nothing is expected.
    #[inline]
    pub fn expect_late(&mut self, worker: usize, now: Nanos) -> bool {
        let served = self.fair.served_by(worker);
        if !served.is_some_and(|slot| self.fair.is_notorious(slot, now)) {
            return false;
        }
        let expected = self.fair.expect_late(worker, now);
        self.note(Op::ExpectLate { worker, now }, Answer::Flag(expected));
        expected
    }

    /// See [`Fair::first_in_time`].
    pub fn first_in_time(&mut self, now: Nanos) -> Option<Slot> {
        let first = self.fair.first_in_time(now);
        self.note(Op::FirstInTime { now }, Answer::Group(first));
        first
    }

    /// See [`Fair::set_reserved`].
    pub fn set_reserved(&mut self, slot: Slot, workers: u32) {
        self.fair.set_reserved(slot, workers);
        self.note(Op::SetReserved { slot, workers }, Answer::Unit);
    }

    /// See [`Fair::set_cap`].
    pub fn set_cap(&mut self, slot: Slot, cap: Option<Cores>, now: Nanos) {
        self.fair.set_cap(slot, cap, now);
        self.note(Op::SetCap { slot, cap, now }, Answer::Unit);
    }

    /// See [`Fair::excuse`].
    pub fn excuse(&mut self, slot: Slot, excused: bool, now: Nanos) {
        self.fair.excuse(slot, excused, now);
        self.note(Op::Excuse { slot, excused, now }, Answer::Unit);
    }

    /// See [`Fair::refill`]. Not recorded where it is too early to do anything.
    #[inline]
    pub fn refill(&mut self, now: Nanos) -> Option<Slot> {
        if self.fair.next_refill().is_none_or(|due| due > now) {
            return None;
        }
        let opened = self.fair.refill(now);
        self.note(Op::Refill { now }, Answer::Group(opened));
        opened
    }

    /// See [`Fair::give_way`]. Not recorded where nothing is reserved.
    #[inline]
    pub fn give_way(&mut self, now: Nanos) -> Option<usize> {
        if self.fair.reserves_nothing() {
            return None;
        }
        let worker = self.fair.give_way(now);
        self.note(Op::GiveWay { now }, Answer::Preempt(worker));
        worker
    }

    /// See [`Fair::is_behind_next`].
    pub fn is_behind_next(&mut self, slot: Slot) -> bool {
        let behind = self.fair.is_behind_next(slot);
        self.note(Op::IsBehindNext { slot }, Answer::Flag(behind));
        behind
    }
}

impl Deref for Recorder {
    type Target = Fair;

    fn deref(&self) -> &Fair {
        &self.fair
    }
}
