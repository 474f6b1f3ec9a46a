//! A trace as text: a line with the constants, then one line per call, `call arguments = answer`.
//!
//! Pure.

use super::{Answer, Op, Trace};
use crate::sched::Config;
use crate::sched::fair::{Charge, Late, Slot};
use crate::unit::{Cores, Nanos, Weight};
use std::fmt;
use std::str::{FromStr, SplitWhitespace};

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Op::Add { weight } => write!(f, "add {weight}"),
            Op::Remove { slot } => write!(f, "remove {}", slot.0),
            Op::SetWeight { slot, weight } => write!(f, "weight {} {weight}", slot.0),
            Op::Wake {
                slot,
                now,
                all_busy,
            } => write!(f, "wake {} {} {all_busy}", slot.0, now.0),
            Op::First => write!(f, "first"),
            Op::Dequeue { slot } => write!(f, "dequeue {}", slot.0),
            Op::Start { worker, slot, now } => write!(f, "start {worker} {} {}", slot.0, now.0),
            Op::Stop { worker, now, polls } => write!(f, "stop {worker} {} {polls}", now.0),
            Op::ChargeRunning { worker, now } => write!(f, "charge {worker} {}", now.0),
            Op::Late { worker, now, does } => {
                let blocked = does == Late::Blocked;
                write!(f, "late {worker} {} {blocked}", now.0)
            }
            Op::FirstInTime { now } => write!(f, "in_time {}", now.0),
            Op::ExpectLate { worker, now } => write!(f, "expect_late {worker} {}", now.0),
            Op::IsBehindNext { slot } => write!(f, "behind {}", slot.0),
            Op::SetReserved { slot, workers } => write!(f, "reserve {} {workers}", slot.0),
            Op::SetCap {
                slot,
                cap: Some(cap),
                now,
            } => write!(f, "cap {} {} {}", slot.0, now.0, cap.millionths()),
            Op::SetCap { slot, now, .. } => write!(f, "uncap {} {}", slot.0, now.0),
            Op::Excuse { slot, excused, now } => {
                write!(f, "excuse {} {} {excused}", slot.0, now.0)
            }
            Op::Refill { now } => write!(f, "refill {}", now.0),
            Op::GiveWay { now } => write!(f, "give_way {}", now.0),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Answer::Unit => Ok(()),
            Answer::Flag(flag) => write!(f, "{flag}"),
            Answer::Group(Some(slot)) => write!(f, "{}", slot.0),
            Answer::Preempt(Some(worker)) => write!(f, "{worker}"),
            Answer::Slice(end, solo) => write!(f, "{} {solo}", end.0),
            Answer::Charge(Some(charge)) => write!(f, "{} {}", charge.group.0, charge.given.0),
            Answer::Group(None) | Answer::Preempt(None) | Answer::Charge(None) => write!(f, "-"),
        }
    }
}

impl fmt::Display for Trace {
    /// The constants, then one call per line: `start 1 0 5000 = 105000 false`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.config;
        writeln!(
            f,
            "quotient-trace 1 {} {} {} {} {} {}",
            self.workers, c.slice.0, c.granularity.0, c.period.0, c.min_charge.0, c.level_base.0
        )?;
        for (op, answer) in &self.calls {
            writeln!(f, "{op} = {answer}")?;
        }
        Ok(())
    }
}

/// A line of a trace that does not say what a [`Trace`] prints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the trace is not understood: `{text}`")]
pub struct TraceError {
    /// Counted from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Trace, TraceError> {
        let wrong = |line: usize, text: &str| TraceError {
            line: line + 1,
            text: text.to_string(),
        };
        let mut lines = text.lines().enumerate();
        let (_, head) = lines.next().unwrap_or_default();
        let mut trace = header(head).ok_or_else(|| wrong(0, head))?;
        for (i, line) in lines {
            trace.calls.push(call(line).ok_or_else(|| wrong(i, line))?);
        }
        Ok(trace)
    }
}

fn header(line: &str) -> Option<Trace> {
    let words = &mut line.strip_prefix("quotient-trace 1 ")?.split_whitespace();
    let workers = next(words)?;
    let config = Config {
        slice: Nanos(next(words)?),
        granularity: Nanos(next(words)?),
        period: Nanos(next(words)?),
        min_charge: Nanos(next(words)?),
        level_base: Nanos(next(words)?),
    };
    words.next().is_none().then(|| Trace {
        config,
        workers,
        calls: Vec::new(),
    })
}

fn call(line: &str) -> Option<(Op, Answer)> {
    let (op, answer) = line.split_once('=')?;
    let (words, said) = (&mut op.split_whitespace(), answer.trim());
    let told = &mut said.split_whitespace();
    let none = said == "-";
    let call = match words.next()? {
        "add" => {
            let weight = Weight::new(next(words)?);
            (Op::Add { weight }, Answer::Group(Some(slot(told)?)))
        }
        "remove" => (Op::Remove { slot: slot(words)? }, Answer::Flag(next(told)?)),
        "weight" => {
            let (slot, weight) = (slot(words)?, Weight::new(next(words)?));
            (Op::SetWeight { slot, weight }, Answer::Unit)
        }
        "wake" => {
            let (slot, now, all_busy) = (slot(words)?, Nanos(next(words)?), next(words)?);
            let preempt = if none { None } else { Some(next(told)?) };
            let op = Op::Wake {
                slot,
                now,
                all_busy,
            };
            (op, Answer::Preempt(preempt))
        }
        "first" => {
            let first = if none { None } else { Some(slot(told)?) };
            (Op::First, Answer::Group(first))
        }
        "dequeue" => (Op::Dequeue { slot: slot(words)? }, Answer::Unit),
        "start" => {
            let (worker, slot, now) = (next(words)?, slot(words)?, Nanos(next(words)?));
            let answer = Answer::Slice(Nanos(next(told)?), next(told)?);
            (Op::Start { worker, slot, now }, answer)
        }
        "stop" => {
            let (worker, now, polls) = (next(words)?, Nanos(next(words)?), next(words)?);
            (Op::Stop { worker, now, polls }, charge(none, told)?)
        }
        "charge" => {
            let (worker, now) = (next(words)?, Nanos(next(words)?));
            (Op::ChargeRunning { worker, now }, charge(none, told)?)
        }
        "late" => {
            let (worker, now, blocked) = (next(words)?, Nanos(next(words)?), next(words)?);
            let does = if blocked {
                Late::Blocked
            } else {
                Late::Computing
            };
            (Op::Late { worker, now, does }, charge(none, told)?)
        }
        "expect_late" => {
            let (worker, now) = (next(words)?, Nanos(next(words)?));
            (Op::ExpectLate { worker, now }, Answer::Flag(next(told)?))
        }
        "in_time" => {
            let first = if none { None } else { Some(slot(told)?) };
            let now = Nanos(next(words)?);
            (Op::FirstInTime { now }, Answer::Group(first))
        }
        "behind" => (
            Op::IsBehindNext { slot: slot(words)? },
            Answer::Flag(next(told)?),
        ),
        "reserve" => {
            let (slot, workers) = (slot(words)?, next(words)?);
            (Op::SetReserved { slot, workers }, Answer::Unit)
        }
        "cap" => {
            let (slot, now) = (slot(words)?, Nanos(next(words)?));
            let cap = Some(Cores::from_millionths(next(words)?));
            (Op::SetCap { slot, cap, now }, Answer::Unit)
        }
        "uncap" => {
            let (slot, now) = (slot(words)?, Nanos(next(words)?));
            let cap = None;
            (Op::SetCap { slot, cap, now }, Answer::Unit)
        }
        "excuse" => {
            let (slot, now, excused) = (slot(words)?, Nanos(next(words)?), next(words)?);
            (Op::Excuse { slot, excused, now }, Answer::Unit)
        }
        "refill" => {
            let now = Nanos(next(words)?);
            let opened = if none { None } else { Some(slot(told)?) };
            (Op::Refill { now }, Answer::Group(opened))
        }
        "give_way" => {
            let now = Nanos(next(words)?);
            let worker = if none { None } else { Some(next(told)?) };
            (Op::GiveWay { now }, Answer::Preempt(worker))
        }
        _ => return None,
    };
    (words.next().is_none() && (none || told.next().is_none())).then_some(call)
}

fn next<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

fn slot(words: &mut SplitWhitespace<'_>) -> Option<Slot> {
    next(words).map(Slot)
}

fn charge(none: bool, words: &mut SplitWhitespace<'_>) -> Option<Answer> {
    if none {
        return Some(Answer::Charge(None));
    }
    let (group, given) = (slot(words)?, Nanos(next(words)?));
    Some(Answer::Charge(Some(Charge { group, given })))
}
