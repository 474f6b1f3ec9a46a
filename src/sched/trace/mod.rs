//! A record of every call to [`Fair`] and of its answers, and its replay on a fresh one.
//!
//! Pure. The executor (or the simulator) calls the policy through a [`Recorder`]; what it recorded is text, one
//! call per line, and [`replay`] proves that the policy answers the same calls in the same way: the picks
//! of a live run depend on nothing but the calls and their times.

mod recorder;
mod text;

pub use recorder::Recorder;
pub use text::TraceError;

use super::Config;
use super::fair::{Charge, Fair, Late, Slot};
use crate::unit::{Cores, Nanos, Weight};

/// One call to the policy, with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are the arguments of the method of `Fair` that each variant names"
)]
pub enum Op {
    /// [`Fair::add`].
    Add { weight: Weight },
    /// [`Fair::remove`].
    Remove { slot: Slot },
    /// [`Fair::set_weight`].
    SetWeight { slot: Slot, weight: Weight },
    /// [`Fair::wake`].
    Wake {
        slot: Slot,
        now: Nanos,
        all_busy: bool,
    },
    /// [`Fair::first`].
    First,
    /// [`Fair::dequeue`].
    Dequeue { slot: Slot },
    /// [`Fair::start`].
    Start {
        worker: usize,
        slot: Slot,
        now: Nanos,
    },
    /// [`Fair::stop`].
    Stop {
        worker: usize,
        now: Nanos,
        polls: u64,
    },
    /// [`Fair::charge_running`].
    ChargeRunning { worker: usize, now: Nanos },
    /// [`Fair::late`].
    Late {
        worker: usize,
        now: Nanos,
        does: Late,
    },
    /// [`Fair::first_in_time`].
    FirstInTime { now: Nanos },
    /// [`Fair::expect_late`].
    ExpectLate { worker: usize, now: Nanos },
    /// [`Fair::is_behind_next`].
    IsBehindNext { slot: Slot },
    /// [`Fair::set_reserved`].
    SetReserved { slot: Slot, workers: u32 },
    /// [`Fair::set_cap`].
    SetCap {
        slot: Slot,
        cap: Option<Cores>,
        now: Nanos,
    },
    /// [`Fair::excuse`].
    Excuse {
        slot: Slot,
        excused: bool,
        now: Nanos,
    },
    /// [`Fair::refill`].
    Refill { now: Nanos },
    /// [`Fair::give_way`].
    GiveWay { now: Nanos },
}

/// What a call answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing to answer.
    Unit,
    /// Yes or no.
    Flag(bool),
    /// A group, of [`Fair::add`], [`Fair::first`] and [`Fair::refill`].
    Group(Option<Slot>),
    /// The worker that has to give way.
    Preempt(Option<usize>),
    /// The end of a slice, and whether it is a solo one.
    Slice(Nanos, bool),
    /// What was charged.
    Charge(Option<Charge>),
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The constants of the policy that was recorded.
    pub config: Config,
    /// Its workers.
    pub workers: usize,
    /// All calls, in their order, with their answers.
    pub calls: Vec<(Op, Answer)>,
}

/// Where a replay first answered otherwise than the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("call {call} `{op}`: recorded {recorded:?}, replayed {replayed:?}")]
pub struct Divergence {
    /// Index of the call in [`Trace::calls`].
    pub call: usize,
    /// The call.
    pub op: Op,
    /// What was answered then.
    pub recorded: Answer,
    /// What is answered now.
    pub replayed: Answer,
}

/// Feeds all calls of a trace to a fresh [`Fair`] and hands that back.
///
/// # Errors
/// [`Divergence`] at the first call whose answer is not the recorded one.
pub fn replay(trace: &Trace) -> Result<Fair, Divergence> {
    let mut fair = Fair::new(trace.config, trace.workers);
    for (call, &(op, recorded)) in trace.calls.iter().enumerate() {
        let replayed = apply(&mut fair, op);
        if replayed != recorded {
            return Err(Divergence {
                call,
                op,
                recorded,
                replayed,
            });
        }
    }
    Ok(fair)
}

fn apply(fair: &mut Fair, op: Op) -> Answer {
    match op {
        Op::Add { weight } => Answer::Group(Some(fair.add(weight))),
        Op::Remove { slot } => Answer::Flag(fair.remove(slot)),
        Op::SetWeight { slot, weight } => {
            fair.set_weight(slot, weight);
            Answer::Unit
        }
        Op::Wake {
            slot,
            now,
            all_busy,
        } => Answer::Preempt(fair.wake(slot, now, all_busy)),
        Op::First => Answer::Group(fair.first()),
        Op::Dequeue { slot } => {
            fair.dequeue(slot);
            Answer::Unit
        }
        Op::Start { worker, slot, now } => {
            let slice = fair.start(worker, slot, now);
            Answer::Slice(slice.end, slice.solo)
        }
        Op::Stop { worker, now, polls } => Answer::Charge(fair.stop(worker, now, polls)),
        Op::ChargeRunning { worker, now } => Answer::Charge(fair.charge_running(worker, now)),
        Op::Late { worker, now, does } => Answer::Charge(fair.late(worker, now, does)),
        Op::FirstInTime { now } => Answer::Group(fair.first_in_time(now)),
        Op::ExpectLate { worker, now } => Answer::Flag(fair.expect_late(worker, now)),
        Op::IsBehindNext { slot } => Answer::Flag(fair.is_behind_next(slot)),
        Op::SetReserved { slot, workers } => {
            fair.set_reserved(slot, workers);
            Answer::Unit
        }
        Op::SetCap { slot, cap, now } => {
            fair.set_cap(slot, cap, now);
            Answer::Unit
        }
        Op::Excuse { slot, excused, now } => {
            fair.excuse(slot, excused, now);
            Answer::Unit
        }
        Op::Refill { now } => Answer::Group(fair.refill(now)),
        Op::GiveWay { now } => Answer::Preempt(fair.give_way(now)),
    }
}
