//! Where requests for a capacity wait: the policy of [`share`](super::share) under a lock, with wakers and a timer.
//!
//! Mechanism; any thread. Invariants:
//! 1. A request that was granted is out of the line, and its bytes are paid for: nobody behind it waits for what
//!    becomes of it. Whoever drops it before it was used gives the bytes back, and they go to the next.
//! 2. While requests wait there is a driver on the runtime under each governor that one of them is of: a task that looks
//!    at the line when the policy says so. It is there before the lock is released under which the request came, or
//!    whoever came learns that there can be none. So nobody waits for a runtime that is not their own. When no request
//!    of its governor waits any more, a driver ends at its next look, whoever else waits.
//! 3. While nobody waits, a lane may hold a [`Credit`], out of which its requests pass without the lock and without a
//!    look at the clock. Credits are collected before anybody waits, and before anything is changed.
//! 4. Nobody is woken, and nothing is spawned, under the lock.
//!
//! Time is tokio's, so that a paused clock controls it.

mod credit;
mod driver;
mod place;

pub(super) use driver::Beat;
pub(super) use place::{Grant, Lane, Place};

use super::share::{Shares, Ticket};
use crate::foreign;
use crate::mem;
use crate::sched::fair::Slot;
use crate::sync::Mutex;
use crate::unit::{Nanos, Weight};
use credit::Credit;
use driver::{Driven, Looks};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A capacity, and those who wait for it.
pub(super) struct Turnstile {
    state: Mutex<State>,
    origin: Instant,
}

struct State {
    shares: Shares,
    seats: FxHashMap<Ticket, Seat>,
    /// Credits that are open, and their lanes'.
    open: Vec<(Slot, Arc<Credit>)>,
    /// One for each governor of which a request waits, or of which a driver has not ended yet.
    drivers: Vec<Driven>,
    /// Bytes that passed through lanes that are gone.
    past: u64,
}

enum Seat {
    /// Whom to wake, and whose driver looks.
    Waits(Waker, Arc<Beat>),
    Granted(u64),
}

/// What has come of a change of the line: to be told without the lock.
#[derive(Default)]
struct After {
    wake: Vec<Waker>,
    /// It is time earlier than these drivers think.
    sooner: Vec<Arc<Notify>>,
    /// The caller has to start this one.
    drive: Option<Arc<Notify>>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// So many bytes may pass, and are paid for.
    Granted(u64),
    Waits(Ticket),
}

/// Why a request that would have to wait does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unserved {
    /// The runtime has no timers to wait with.
    NoTimers,
    /// The runtime was shut down: nothing is limited any more.
    Over,
}

impl Turnstile {
    /// So many bytes per second; `None` = no limit.
    pub(super) fn new(rate: Option<u64>) -> Arc<Turnstile> {
        Arc::new(Turnstile {
            state: Mutex::new(State {
                shares: Shares::new(rate, Nanos::ZERO),
                seats: FxHashMap::default(),
                open: Vec::new(),
                drivers: Vec::new(),
                past: 0,
            }),
            origin: Instant::now(),
        })
    }

    fn now(&self) -> Nanos {
        Instant::now().saturating_duration_since(self.origin).into()
    }

    /// Bytes per second; `None` = no limit.
    pub(super) fn rate(&self) -> Option<u64> {
        self.state.lock().shares.rate()
    }

    /// Changes the capacity, also for those who wait.
    pub(super) fn set_rate(&self, rate: Option<u64>) {
        self.change(|state, now| {
            if state.shares.rate() != rate {
                state.shares.set_rate(rate, now);
            }
        });
    }

    /// Changes a lane's weight.
    pub(super) fn set_weight(&self, lane: Slot, weight: Weight) {
        self.change(|state, _| state.shares.set_weight(lane, weight));
    }

    /// A new lane.
    fn open(&self, weight: Weight, first: bool) -> Slot {
        self.change(|state, _| state.shares.add(weight, first))
    }

    /// A lane is gone, and all that was asked for on it.
    fn close(&self, lane: Slot) {
        self.change(|state, _| {
            state.past = state.past.saturating_add(state.shares.passed(lane));
            state.shares.remove(lane);
        });
    }

    /// Bytes that have passed through a lane, and requests that wait on it.
    fn figures(&self, lane: Slot, credit: &Credit) -> (u64, usize) {
        let shares = &self.state.lock().shares;
        let passed = shares.passed(lane).saturating_sub(credit.left());
        (passed, shares.waiting(lane))
    }

    /// Bytes that passed through lanes that are gone.
    pub(super) fn past(&self) -> u64 {
        self.state.lock().past
    }

    /// Asks for `want` bytes: so many may pass now, or the request waits.
    fn arrive(
        self: &Arc<Self>,
        lane: Slot,
        credit: &Arc<Credit>,
        want: u64,
        beat: &Arc<Beat>,
        cx: &mut Context<'_>,
    ) -> Result<Arrival, Unserved> {
        let now = self.now();
        let waker = {
            let _ours = mem::enter_process();
            cx.waker().clone()
        };
        let mut state = self.state.lock();
        // The way of almost all requests that come here: no allocation, nobody to wake.
        state.collect(|open| open == lane, now);
        if let Some(bytes) = state.pass(lane, credit, want, now) {
            return Ok(Arrival::Granted(bytes));
        }
        if state.collect(|_| true, now)
            && let Some(bytes) = state.pass(lane, credit, want, now)
        {
            return Ok(Arrival::Granted(bytes));
        }
        if let Some(why) = beat.refusal() {
            return Err(why);
        }
        let _ours = mem::enter_process();
        let ticket = state.shares.queue(lane, want, now);
        state.seat(ticket, waker, beat);
        let mut after = self.settle(&mut state, now);
        // It may have been the next one at once.
        let granted = state.take_grant(ticket);
        if granted.is_none() {
            after.drive = state.needs_driver(beat, now);
        }
        drop(state);
        self.carry_out(after, beat);
        Ok(granted.map_or(Arrival::Waits(ticket), Arrival::Granted))
    }

    /// Whether a request that waits may pass.
    fn look(
        self: &Arc<Self>,
        ticket: Ticket,
        beat: &Arc<Beat>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<u64, Unserved>> {
        let _ours = mem::enter_process();
        // Foreign: neither cloned nor dropped under the lock.
        let mut other = cx.waker().clone();
        let mut state = self.state.lock();
        if let Some(bytes) = state.take_grant(ticket) {
            return Poll::Ready(Ok(bytes));
        }
        if let Some(why) = beat.refusal() {
            return Poll::Ready(Err(why));
        }
        if let Some(Seat::Waits(waker, _)) = state.seats.get_mut(&ticket) {
            std::mem::swap(waker, &mut other);
        }
        // The driver may have gone with its runtime.
        let drive = state.needs_driver(beat, self.now());
        drop(state);
        if let Some(sooner) = drive {
            self.start(beat, sooner);
        }
        foreign::contain(|| drop(other));
        Poll::Pending
    }

    /// A request waits no longer, or is not going to use what it was granted.
    fn leave(&self, lane: Slot, ticket: Ticket) {
        let seat = self.change(|state, _| {
            let seat = state.seats.remove(&ticket);
            match &seat {
                Some(Seat::Granted(bytes)) => state.shares.give_back(lane, *bytes),
                Some(Seat::Waits(_, beat)) => {
                    state.shares.withdraw(ticket);
                    state.waits_no_more(beat);
                }
                None => {}
            }
            seat
        });
        drop(seat);
    }

    /// Of what was granted, so much did not pass.
    fn give_back(&self, lane: Slot, bytes: u64) {
        let mut state = self.state.lock();
        state.shares.give_back(lane, bytes);
        if state.shares.is_contended() {
            let _ours = mem::enter_process();
            let after = self.settle(&mut state, self.now());
            drop(state);
            after.tell();
        }
    }

    fn change<R>(&self, f: impl FnOnce(&mut State, Nanos) -> R) -> R {
        let _ours = mem::enter_process();
        let mut state = self.state.lock();
        let now = self.now();
        state.collect(|_| true, now);
        let result = f(&mut state, now);
        let after = self.settle(&mut state, now);
        drop(state);
        after.tell();
        result
    }

    /// Under the lock: grants what can be granted.
    fn settle(&self, state: &mut State, now: Nanos) -> After {
        let mut after = After::default();
        while let Some((ticket, bytes)) = state.shares.next(now) {
            let seat = state.seats.insert(ticket, Seat::Granted(bytes));
            if let Some(Seat::Waits(waker, beat)) = seat {
                state.waits_no_more(&beat);
                after.wake.push(waker);
            }
        }
        if let Some(due) = state.shares.due(now) {
            let drivers = state.drivers.iter_mut();
            for task in drivers.filter_map(|driven| driven.task.as_mut()) {
                if due < task.next {
                    task.next = due;
                    after.sooner.push(task.sooner.clone());
                }
            }
        }
        after
    }

    fn carry_out(self: &Arc<Self>, mut after: After, beat: &Arc<Beat>) {
        let drive = after.drive.take();
        after.tell();
        if let Some(sooner) = drive {
            self.start(beat, sooner);
        }
    }
}

impl After {
    fn tell(self) {
        // One that panics must neither keep the others asleep nor end the driver.
        foreign::wake(self.wake);
        self.sooner.iter().for_each(|driver| driver.notify_one());
    }
}

impl State {
    /// A request that need not wait; and a credit for the next ones.
    fn pass(&mut self, lane: Slot, credit: &Arc<Credit>, want: u64, now: Nanos) -> Option<u64> {
        let bytes = self.shares.pass(lane, want, now)?;
        let more = self.shares.lend(lane, want, now);
        if more > 0 {
            let _ours = mem::enter_process();
            credit.open(more);
            self.open.push((lane, credit.clone()));
        }
        Some(bytes)
    }

    /// Ends the credits of these lanes. Whether there were such.
    fn collect(&mut self, of: impl Fn(Slot) -> bool, now: Nanos) -> bool {
        let before = self.open.len();
        for (lane, credit) in self.open.extract_if(.., |(lane, _)| of(*lane)) {
            if let Some(left) = credit.close() {
                self.shares.repay(lane, left, now);
            }
        }
        self.open.len() < before
    }

    /// A request waits from here on.
    fn seat(&mut self, ticket: Ticket, waker: Waker, beat: &Arc<Beat>) {
        self.seats.insert(ticket, Seat::Waits(waker, beat.clone()));
        match self.drivers.iter_mut().find(|driven| driven.is_by(beat)) {
            Some(driven) => driven.waiting += 1,
            None => self.drivers.push(Driven {
                beat: beat.clone(),
                waiting: 1,
                task: None,
            }),
        }
    }

    /// A request that waited by this beat does not any more.
    fn waits_no_more(&mut self, beat: &Arc<Beat>) {
        if let Some(driven) = self.drivers.iter_mut().find(|driven| driven.is_by(beat)) {
            driven.waiting = driven.waiting.saturating_sub(1);
        }
        self.drivers.retain(Driven::is_there);
    }

    /// Whether the caller has to start a driver for who waits by this beat: it is taken for granted from here on.
    fn needs_driver(&mut self, beat: &Arc<Beat>, now: Nanos) -> Option<Arc<Notify>> {
        let driven = self.drivers.iter_mut().find(|driven| driven.is_by(beat))?;
        if driven.task.is_some() {
            return None;
        }
        let next = self.shares.due(now)?;
        let sooner = Arc::<Notify>::default();
        driven.task = Some(Looks {
            next,
            sooner: sooner.clone(),
        });
        Some(sooner)
    }

    fn take_grant(&mut self, ticket: Ticket) -> Option<u64> {
        match self.seats.get(&ticket) {
            Some(Seat::Granted(bytes)) => {
                let bytes = *bytes;
                self.seats.remove(&ticket);
                Some(bytes)
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Turnstile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Turnstile")
            .field("rate", &state.shares.rate())
            .field("waiting", &state.seats.len())
            .finish_non_exhaustive()
    }
}
