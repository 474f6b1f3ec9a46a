//! A place in the line, as a future: it yields the answer, and leaves the line when it is dropped.
//!
//! Mechanism; any thread. The deadline is the policy's; the timer here only brings somebody to look at it in time, on
//! tokio's clock, so that a paused clock controls it.

use super::seat::{Found, Seat};
use super::{AdmissionError, Gate, Permit};
use crate::sync::Arc;
use crate::unit::{Nanos, QueryId};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep_until};

/// A request that waits for a place.
///
/// # Errors
/// Yields [`Timeout`](AdmissionError::Timeout), [`Killed`](AdmissionError::Killed) or
/// [`ShuttingDown`](AdmissionError::ShuttingDown).
///
/// # Cancel safety
/// Dropped at any instant, it leaves the line, or gives the place that it was just given to the next one.
#[must_use = "it waits only while it is polled, and leaves the line when it is dropped"]
pub struct Waiting {
    gate: Gate,
    query: QueryId,
    seat: Arc<Seat>,
    timer: Timer,
}

enum Timer {
    /// To be set to this at the next poll.
    Due(Nanos),
    Set(Pin<Box<Sleep>>),
    /// There is nothing to wait for, or no timers to be had.
    Off,
}

impl Waiting {
    pub(super) fn new(gate: Gate, query: QueryId, seat: Arc<Seat>, deadline: Nanos) -> Waiting {
        Waiting {
            gate,
            query,
            seat,
            timer: Timer::Due(deadline),
        }
    }

    /// The id that the query will have.
    pub fn id(&self) -> QueryId {
        self.query
    }

    /// Looks whether there is an answer, without regard to the time.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, AdmissionError>> {
        loop {
            match self.seat.poll(cx) {
                Found::Answer(answer) => {
                    self.timer = Timer::Off;
                    return Poll::Ready(answer);
                }
                Found::Sooner => self.ask_for_deadline(),
                Found::Nothing => return Poll::Pending,
            }
        }
    }

    fn ask_for_deadline(&mut self) {
        let (gate, query) = (&self.gate, self.query);
        let deadline = gate.change(|policy, now| {
            policy.expire(now);
            policy.deadline(query)
        });
        self.timer = deadline.map_or(Timer::Off, Timer::Due);
    }

    /// Ready when it is time to look at the deadline.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Timer::Due(deadline) = self.timer {
            self.timer = self.gate.timer(deadline).map_or(Timer::Off, Timer::Set);
        }
        match &mut self.timer {
            Timer::Set(sleep) => sleep.as_mut().poll(cx),
            Timer::Due(_) | Timer::Off => Poll::Pending,
        }
    }
}

impl Gate {
    /// None if that time never comes, or if there is no runtime with timers.
    fn timer(&self, deadline: Nanos) -> Option<Pin<Box<Sleep>>> {
        let deadline = self.instant(deadline)?;
        let outside = Handle::try_current().is_err();
        let _inside = match &self.0.runtime {
            Some(runtime) if outside => Some(runtime.enter()),
            None if outside => return None,
            _ => None,
        };
        // tokio says that a runtime has no timers by a panic. Those who wait then have no deadline.
        let timer = AssertUnwindSafe(|| Box::pin(sleep_until(deadline)));
        catch_unwind(timer).ok()
    }
}

impl Future for Waiting {
    type Output = Result<Permit, AdmissionError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            if let Poll::Ready(answer) = this.look(cx) {
                return Poll::Ready(answer);
            }
            std::task::ready!(this.poll_timer(cx));
            // If somebody else has taken it out of the line, there is no deadline any more, and the answer is coming.
            this.ask_for_deadline();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let given = self.seat.leave();
        if given.is_none() {
            let query = self.query;
            let seat = self.gate.change(|policy, _| policy.withdraw(query));
            drop(seat);
        }
        drop(given);
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}
