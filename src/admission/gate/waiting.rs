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
        let query = self.query;
        let seat = self.gate.step(|door, _| door.withdraw(query));
        drop(seat);
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

#[cfg(all(test, quotient_loom))]
mod loom {
    //! Everybody who can touch a request that waits does so at once: the one that gives it a place, the clock, a
    //! kill, an ALTER, a shutdown, and its own drop. It is answered once or leaves, and no place is lost: whoever
    //! waits behind it starts, which a lost wake-up would make a deadlock.

    use super::super::{Arrived, Gate, GroupLimits, Who};
    use super::*;
    use crate::unit::GroupId;
    use ::loom::sync::{Condvar, Mutex};
    use ::loom::thread::spawn;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::{Wake, Waker};

    const A: GroupId = GroupId(1);

    /// Wakes the thread that waits for it.
    struct Bell {
        rung: Mutex<bool>,
        waits: Condvar,
    }

    impl Wake for Bell {
        fn wake(self: std::sync::Arc<Bell>) {
            *self.rung.lock().expect("no panic under it") = true;
            self.waits.notify_one();
        }
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        let bell = std::sync::Arc::new(Bell {
            rung: Mutex::new(false),
            waits: Condvar::new(),
        });
        let waker = Waker::from(bell.clone());
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            let mut rung = bell.rung.lock().expect("no panic under it");
            while !std::mem::take(&mut *rung) {
                rung = bell.waits.wait(rung).expect("no panic under it");
            }
        }
    }

    fn limits(concurrency_limit: u64) -> GroupLimits {
        GroupLimits {
            concurrency_limit: Some(concurrency_limit),
            max_queued_queries: 9,
            queue_timeout: Nanos::from_secs(1_000),
        }
    }

    fn gate() -> Gate {
        let gate = Gate::new();
        gate.register(A, "a", limits(1));
        gate
    }

    fn line_up(gate: &Gate, id: u64) -> Waiting {
        match gate.arrive(A, QueryId(id), Who::default) {
            Ok(Arrived::Waits(waiting)) => waiting,
            other => panic!("{other:?}"),
        }
    }

    fn wait(mut waiting: Waiting) -> Result<Permit, AdmissionError> {
        block_on(poll_fn(|cx| waiting.look(cx)))
    }

    /// Four threads: more preemptions take minutes.
    fn check_up_to_3(model: impl Fn() + Send + Sync + 'static) {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    fn nobody_is_left(gate: &Gate) {
        let group = gate.group(A).expect("a group");
        assert_eq!((group.running, group.queued), (0, 0));
    }

    #[test]
    fn a_place_given_to_one_that_is_dropped_meanwhile_passes_on() {
        ::loom::model(|| {
            let gate = gate();
            let held = gate.try_admit(A).expect("a place");
            let (mut first, second) = (line_up(&gate, 1), line_up(&gate, 2));
            let giver = spawn(move || drop(held));
            let leaver = spawn(move || {
                let answer = block_on(poll_fn(|cx| Poll::Ready(first.look(cx))));
                drop(first);
                drop(answer);
            });
            drop(wait(second).expect("a place"));
            giver.join().expect("it gave");
            leaver.join().expect("it left");
            nobody_is_left(&gate);
        });
    }

    #[test]
    fn a_place_that_comes_as_the_time_is_over_is_given_once() {
        ::loom::model(|| {
            let gate = gate();
            let held = gate.try_admit(A).expect("a place");
            let first = line_up(&gate, 1);
            let giver = spawn(move || drop(held));
            let other = gate.clone();
            let clock = spawn(move || {
                other.change(|policy, _| policy.expire(Nanos::MAX));
            });
            match wait(first) {
                Ok(permit) => drop(permit),
                Err(AdmissionError::Timeout { .. }) => {}
                Err(other) => panic!("{other}"),
            }
            giver.join().expect("it gave");
            clock.join().expect("it told the time");
            nobody_is_left(&gate);
        });
    }

    #[test]
    fn a_kill_a_raised_limit_and_a_freed_place_answer_everybody_once() {
        check_up_to_3(|| {
            let gate = gate();
            let held = gate.try_admit(A).expect("a place");
            let (first, second) = (line_up(&gate, 1), line_up(&gate, 2));
            let killer = {
                let gate = gate.clone();
                spawn(move || gate.kill_waiting(QueryId(1), "why not"))
            };
            let operator = {
                let gate = gate.clone();
                spawn(move || {
                    drop(held);
                    gate.set_limits(A, limits(2))
                })
            };
            let killed = matches!(wait(first), Err(AdmissionError::Killed { .. }));
            drop(wait(second).expect("a place"));
            assert_eq!(killer.join().expect("it asked"), killed);
            operator.join().expect("it altered");
            nobody_is_left(&gate);
        });
    }

    #[test]
    fn closing_answers_those_that_are_given_a_place_and_those_that_are_not() {
        check_up_to_3(|| {
            let gate = gate();
            let held = gate.try_admit(A).expect("a place");
            let (first, second) = (line_up(&gate, 1), line_up(&gate, 2));
            let giver = spawn(move || drop(held));
            let closer = {
                let gate = gate.clone();
                spawn(move || gate.close())
            };
            let leaver = spawn(move || drop(first));
            let answer = wait(second);
            assert!(matches!(answer, Ok(_) | Err(AdmissionError::ShuttingDown)));
            drop(answer);
            giver.join().expect("it gave");
            closer.join().expect("it closed");
            leaver.join().expect("it left");
            nobody_is_left(&gate);
        });
    }

    #[test]
    fn a_shortened_timeout_reaches_the_one_that_waits() {
        ::loom::model(|| {
            let gate = gate();
            let held = gate.try_admit(A).expect("a place");
            let mut first = line_up(&gate, 1);
            let operator = {
                let gate = gate.clone();
                spawn(move || {
                    let queue_timeout = Nanos::from_secs(500);
                    gate.set_limits(
                        A,
                        GroupLimits {
                            queue_timeout,
                            ..limits(1)
                        },
                    )
                })
            };
            // Woken to look at its deadline again: that is what it does when it finds that nothing else has happened.
            block_on(poll_fn(|cx| match first.look(cx) {
                Poll::Pending if matches!(first.timer, Timer::Due(at) if at < Nanos::from_secs(900)) => {
                    Poll::Ready(())
                }
                Poll::Pending => Poll::Pending,
                Poll::Ready(answer) => panic!("{answer:?}"),
            }));
            operator.join().expect("it altered");
            drop(first);
            drop(held);
            nobody_is_left(&gate);
        });
    }
}
