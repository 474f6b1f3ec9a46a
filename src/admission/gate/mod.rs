//! The door: one lock around the policy, any thread.
//!
//! It is one for all groups because admission is: places of the governor, turns among groups and the memory throttle
//! are decided over all of them at once. It is held for a few counters' worth of work, never across an await.
//!
//! 1. No foreign code runs under it: wakers are cloned, woken and dropped outside.
//! 2. Each request that waits is answered once. Whoever takes it out of the line answers it: a step of the policy, a
//!    kill, or its own drop. A place that was given to a request that is gone meanwhile goes to the next one.
//! 3. From its arrival until it takes its answer or leaves, a request that waits is found by lists and kills: in a line, or
//!    among those that were given a place (`given`).

mod given;
mod leaving;
mod refusal;
mod seat;
mod waiting;

pub use seat::Who;
pub use waiting::Waiting;

use super::error::{AdmissionError, WaitReason};
use super::permit::Permit;
use super::policy::{
    Answer, Decision, GovernorAdmission, GovernorLimits, GroupAdmission, GroupLimits, Policy, Step,
};
use crate::sync::{Arc, Mutex};
use crate::unit::{Bytes, GroupId, Nanos, QueryId};
use given::Door;
use refusal::{name, tell_refusal, told};
use seat::Seat;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Gives places to queries. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    door: Mutex<Door>,
    /// Where the policy's time begins.
    origin: Instant,
    /// Whose timers those use that wait outside of any runtime.
    runtime: Option<Handle>,
}

/// What became of a request that arrived.
#[derive(Debug)]
#[must_use = "a place that nobody takes is given back at once, and so is a place in the line"]
pub enum Arrived {
    /// It has a place.
    In(Permit),
    /// It waits for one.
    Waits(Waiting),
}

/// A request that waits, as a list shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitingQuery {
    /// Its id; as a query it keeps it.
    pub id: QueryId,
    /// Its group.
    pub group: GroupId,
    /// Its group's name.
    pub group_name: std::sync::Arc<str>,
    /// Who asks for what.
    pub who: Who,
    /// When it came, on tokio's clock.
    pub since: Instant,
    /// What it waits for; none if it was given a place, and has only to be polled.
    pub reason: Option<WaitReason>,
    /// Its place in its group's line, from 1; 0 if it was given a place.
    pub position: u64,
    /// How many stand in that line; 0 if it was given a place.
    pub queued: u64,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}

impl Gate {
    /// Whether the other one is a clone of it.
    pub(super) fn is(&self, other: &Gate) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A gate without groups, and without a limit over all of them. Its time is tokio's: that of the runtime that it
    /// is made in.
    pub fn new() -> Gate {
        Gate::made(Handle::try_current().ok())
    }

    /// As [`new`](Gate::new); those that wait outside of any runtime use the timers of this one.
    pub fn with_timers_of(runtime: Handle) -> Gate {
        Gate::made(Some(runtime))
    }

    fn made(runtime: Option<Handle>) -> Gate {
        Gate(Arc::new(Shared {
            door: Mutex::default(),
            origin: Instant::now(),
            runtime,
        }))
    }

    /// Adds a group, or takes it back while it drains; one that is there keeps its places, line and counters.
    pub fn register(&self, group: GroupId, name: impl AsRef<str>, limits: impl Into<GroupLimits>) {
        let (name, limits) = (std::sync::Arc::from(name.as_ref()), limits.into());
        self.change(|policy, now| policy.register(group, name, limits, now));
    }

    /// Changes a group's limits at once. Raised, as many start as fit; lowered, nobody is sent away: none starts
    /// until enough have ended. False if there is no such group.
    pub fn set_limits(&self, group: GroupId, limits: impl Into<GroupLimits>) -> bool {
        let limits = limits.into();
        self.change(|policy, now| policy.set_limits(group, limits, now))
    }

    /// Changes the limits over all groups at once, as [`set_limits`](Gate::set_limits).
    pub fn set_governor(&self, limits: GovernorLimits) {
        self.change(|policy, now| policy.set_governor(limits, now));
    }

    /// A place of the group, now or not at all.
    ///
    /// # Errors
    /// [`Rejected`](AdmissionError::Rejected) at the group's concurrency_limit or the governor's,
    /// [`MemoryThrottled`](AdmissionError::MemoryThrottled) while memory is short,
    /// [`UnknownGroup`](AdmissionError::UnknownGroup) if the group is not there or was removed (a caller that
    /// classified on an older snapshot classifies again), [`ShuttingDown`](AdmissionError::ShuttingDown) after
    /// [`close`](Gate::close).
    pub fn try_admit(&self, group: GroupId) -> Result<Permit, AdmissionError> {
        let decided = self.change(|policy, now| match policy.try_arrive(group, now) {
            Decision::Reject(refusal) => Err(told(policy, group, refusal)),
            Decision::Admit | Decision::Wait(_) => Ok(()),
        });
        decided
            .map(|()| Permit::new(self.clone(), group))
            .inspect_err(tell_refusal)
    }

    /// A place of the group for a query that moves in from another one: at once, and beyond the limits if need be.
    /// None if the group is not there or was removed. Works also after the gate was closed.
    pub fn move_in(&self, group: GroupId) -> Option<Permit> {
        let moved = self.change(|policy, now| policy.move_in(group, now));
        moved.then(|| Permit::new(self.clone(), group))
    }

    /// A place of the group, now or in the line, under the id that the query will have. Does not wait itself.
    ///
    /// # Errors
    /// As [`try_admit`](Gate::try_admit), but for reasons that can be waited for: with all waiting places taken
    /// [`QueueFull`](AdmissionError::QueueFull), without any [`Rejected`](AdmissionError::Rejected).
    pub fn arrive(
        &self,
        group: GroupId,
        query: QueryId,
        who: impl FnOnce() -> Who,
    ) -> Result<Arrived, AdmissionError> {
        let mut seat = None;
        let decided = self.change(|policy, now| {
            let waiter = || seat.insert(Arc::new(Seat::new(query, now, who()))).clone();
            match policy.arrive(group, query, now, waiter) {
                Decision::Admit => Ok(None),
                Decision::Wait(standing) => Ok(Some(standing.deadline)),
                Decision::Reject(refusal) => Err(told(policy, group, refusal)),
            }
        });
        match (decided.inspect_err(tell_refusal)?, seat) {
            (Some(deadline), Some(seat)) => {
                let waiting = Waiting::new(self.clone(), query, seat, deadline);
                Ok(Arrived::Waits(waiting))
            }
            _ => Ok(Arrived::In(Permit::new(self.clone(), group))),
        }
    }

    /// A place of the group, after a wait in its line if need be.
    ///
    /// # Errors
    /// As [`arrive`](Gate::arrive); and for one that waited, [`Timeout`](AdmissionError::Timeout) after the group's
    /// queue_timeout, [`Killed`](AdmissionError::Killed), [`ShuttingDown`](AdmissionError::ShuttingDown).
    ///
    /// # Cancel safety
    /// Dropped at any instant, it leaves the line, or gives the place that it was just given to the next one.
    pub async fn admit(
        &self,
        group: GroupId,
        query: QueryId,
        who: impl FnOnce() -> Who,
    ) -> Result<Permit, AdmissionError> {
        match self.arrive(group, query, who)? {
            Arrived::In(permit) => Ok(permit),
            Arrived::Waits(waiting) => waiting.await,
        }
    }

    /// Ends the wait of a query with [`Killed`](AdmissionError::Killed), also if it was given a place and has not been
    /// polled since: the next one has that place. False if it does not wait.
    pub fn kill_waiting(&self, query: QueryId, why: &str) -> bool {
        let seat = self.step(|door, _| door.withdraw(query));
        let killed = AdmissionError::Killed { why: why.into() };
        seat.is_some_and(|seat| seat.take_back(killed))
    }

    /// Tells those whose time is over. Those that wait see to it themselves; for a runtime without timers.
    pub fn expire(&self) {
        self.change(|policy, now| policy.expire(now));
    }

    /// So much memory is in use: the throttle decides whether fewer may run, or more again.
    pub fn look(&self, used: Bytes) -> Step {
        self.change(|policy, now| policy.look(used, now))
    }

    /// The time between two looks at the memory; none while nothing is throttled.
    pub fn throttle_interval(&self) -> Option<Nanos> {
        self.0.door.lock().policy.throttle_interval()
    }

    /// Admits nothing more, for good: those that wait are told. What has a place keeps it, and may still share it.
    pub fn close(&self) {
        self.change(|policy, _| policy.close());
    }

    /// One group's numbers, also while it drains.
    pub fn group(&self, group: GroupId) -> Option<GroupAdmission> {
        self.0.door.lock().policy.group(group)
    }

    /// All groups' numbers at one moment, by id; those that drain too.
    pub fn groups(&self) -> Vec<GroupAdmission> {
        self.0.door.lock().policy.groups().collect()
    }

    /// What runs over all groups, and what may.
    pub fn governor(&self) -> GovernorAdmission {
        let now = self.now();
        self.0.door.lock().policy.governor(now)
    }

    /// Everybody who waits, at one moment: first those that were given a place and have not been polled since, then
    /// group by group, in the order of each line.
    pub fn waiting(&self) -> Vec<WaitingQuery> {
        let door = self.0.door.lock();
        let since = |time| self.instant(time).unwrap_or(self.0.origin);
        let given = door.given().map(|(seat, group)| WaitingQuery {
            id: seat.query(),
            group,
            group_name: name(&door.policy, group),
            who: seat.who().clone(),
            since: since(seat.since()),
            reason: None,
            position: 0,
            queued: 0,
        });
        let line = door.policy.waiting().map(|it| WaitingQuery {
            id: it.id,
            group: it.group,
            group_name: it.name.clone(),
            who: it.payload.who().clone(),
            since: since(it.since),
            reason: Some(it.reason),
            position: it.position,
            queued: it.queued,
        });
        given.chain(line).collect()
    }

    pub(super) fn share(&self, group: GroupId) {
        self.0.door.lock().policy.share(group);
    }

    pub(super) fn leave(&self, group: GroupId) {
        self.change(|policy, now| policy.leave(group, now));
    }

    /// A step that concerns the policy alone.
    fn change<R>(&self, step: impl FnOnce(&mut Policy<Arc<Seat>>, Nanos) -> R) -> R {
        self.step(|door, now| step(&mut door.policy, now))
    }

    /// A step of the policy; then, outside of the lock, those who waited are told what it answered.
    fn step<R>(&self, step: impl FnOnce(&mut Door, Nanos) -> R) -> R {
        let now = self.now();
        let mut door = self.0.door.lock();
        let result = step(&mut door, now);
        let answers = door.take_answers();
        drop(door);
        if !answers.is_empty() {
            self.tell(answers.into(), now);
        }
        result
    }

    /// Not recursive, however many of those that are told have gone meanwhile.
    fn tell(&self, mut answers: VecDeque<(Arc<Seat>, Answer)>, now: Nanos) {
        while let Some((seat, answer)) = answers.pop_front() {
            let told = match answer {
                Answer::Admit { group } => {
                    let taken = seat.answer(|| Ok(Permit::new(self.clone(), group)));
                    if !taken {
                        let mut door = self.0.door.lock();
                        door.policy.leave(group, now);
                        answers.extend(door.take_answers());
                    }
                    continue;
                }
                Answer::TimedOut {
                    group,
                    waited,
                    reason,
                    retry_after,
                } => AdmissionError::Timeout {
                    group,
                    waited: waited.into(),
                    reason,
                    retry_after: retry_after.map(Duration::from),
                },
                Answer::Closed => AdmissionError::ShuttingDown,
                Answer::Sooner => {
                    seat.sooner();
                    continue;
                }
            };
            tell_refusal(&told);
            seat.answer(|| Err(told));
        }
    }

    fn now(&self) -> Nanos {
        Instant::now()
            .saturating_duration_since(self.0.origin)
            .into()
    }

    fn instant(&self, time: Nanos) -> Option<Instant> {
        self.0.origin.checked_add(time.into())
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}
