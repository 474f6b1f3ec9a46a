//! The decision who may start, who waits, who is refused.
//!
//! Pure. A state machine over numbers; [`Gate`](super::Gate) calls it under one lock and tells those that waited
//! what it [answered](Policy::take_answers). Every step costs at most the logarithm of how many groups and requests
//! there are, but for what it answers: a hundred thousand that wait cost memory, not time.
//!
//! 1. `running` counts places that were given and not yet given back, and nothing else moves it.
//! 2. A place is given only while its group's `running` is below the group's limit, and `running` over all groups
//!    below the governor's. A limit that is lowered takes nothing back: none is given until enough have come back.
//! 3. After every step nobody waits that could start. So nobody who arrives can overtake: if he may start, nobody of
//!    his group waits.
//! 4. In a group the first that came is the first that starts, and the first whose time is over.
//! 5. A group that was removed lets nobody in, but those who came before wait and run as if it were there; when the
//!    last one has left, it is forgotten.
//! 6. Counters of a group only grow, through removal and return, until it is forgotten. Its counts then pass to the
//!    group that has its name now, if there is one, so that the sum over a name does not go back.

mod decision;
mod group;
mod leaving;
mod look;
mod moves;
mod obstacle;
mod pace;
mod throttle;

pub use decision::{Answer, Decision, GovernorLimits, GroupLimits, Order, Refusal, Standing};
pub use group::{Counts, GroupAdmission, Rejections, Waited};
pub use look::{GovernorAdmission, Waiting};
pub use throttle::{SUSTAINED, Step, Throttle, ThrottleRules};

use super::error::WaitReason;
use crate::unit::{Bytes, GroupId, Nanos, QueryId};
use group::{Group, Waiter};
use pace::Pace;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Who runs and who waits in each group, and who may. `W` is what the caller knows a waiting request by.
#[derive(Clone, Debug)]
pub struct Policy<W = ()> {
    groups: BTreeMap<GroupId, Group<W>>,
    /// Where each request waits: its group, and its number by order of arrival.
    waiting: FxHashMap<QueryId, (GroupId, u64)>,
    /// Groups with somebody who could start but for the governor, the next one first.
    ready: BTreeSet<(u64, GroupId)>,
    /// Groups with somebody who waits, by when the first of them has waited for too long.
    deadlines: BTreeSet<(Nanos, GroupId)>,
    answers: Vec<(W, Answer)>,
    limits: GovernorLimits,
    throttle: Throttle,
    running: u64,
    pace: Pace,
    arrivals: u64,
    turns: u64,
    closed: bool,
}

impl<W> Default for Policy<W> {
    fn default() -> Policy<W> {
        Policy {
            groups: BTreeMap::new(),
            waiting: FxHashMap::default(),
            ready: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            answers: Vec::new(),
            limits: GovernorLimits::default(),
            throttle: Throttle::default(),
            running: 0,
            pace: Pace::default(),
            arrivals: 0,
            turns: 0,
            closed: false,
        }
    }
}

impl<W: Clone> Policy<W> {
    /// No groups yet, and no limit over all of them.
    pub fn new() -> Policy<W> {
        Policy::default()
    }

    /// Adds a group. One that is there already keeps its places, line and counters, also while it drains, and takes
    /// the name and the limits.
    pub fn register(&mut self, id: GroupId, name: Arc<str>, limits: GroupLimits, now: Nanos) {
        let group = self
            .groups
            .entry(id)
            .or_insert_with(|| Group::new(name.clone()));
        group.name = name;
        (group.removed, group.kept) = (false, false);
        self.set_limits(id, limits, now);
    }

    /// Changes a group's limits in place. Raised, as many start as fit; lowered, nobody is sent away.
    /// False if there is no such group.
    pub fn set_limits(&mut self, id: GroupId, limits: GroupLimits, now: Nanos) -> bool {
        let Some(group) = self.present(id) else {
            return false;
        };
        group.set_limits(limits);
        self.place(id);
        self.start(now);
        true
    }

    /// Changes the limits over all groups in place, as [`set_limits`](Policy::set_limits).
    pub fn set_governor(&mut self, limits: GovernorLimits, now: Nanos) {
        let runner_threads = limits.runner_threads.filter(|&limit| limit > 0);
        self.limits = GovernorLimits {
            runner_threads,
            ..limits
        };
        self.throttle.set_rules(limits.throttle, now);
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        ids.into_iter().for_each(|id| self.place(id));
        self.start(now);
    }

    /// Admits nothing more, in any group, for good; whoever waits is told.
    pub fn close(&mut self) {
        self.closed = true;
        let ids: Vec<GroupId> = self.groups.keys().copied().collect();
        for id in ids {
            while let Some(waiter) = self.pop_first(id) {
                if let Some(group) = self.groups.get_mut(&id) {
                    group.counts.reject(&Refusal::Closed);
                }
                self.answers.push((waiter.payload, Answer::Closed));
            }
            self.place(id);
            self.forget_if_over(id);
        }
    }

    /// A request of this group wants to start now or not at all.
    pub fn try_arrive(&mut self, id: GroupId, now: Nanos) -> Decision {
        let decision = match self.obstacle(id) {
            Err(refusal) => Decision::Reject(refusal),
            Ok(Some(reason)) => Decision::Reject(self.refusal(id, reason, now)),
            Ok(None) => self.admit(id, None, now),
        };
        self.count(id, decision)
    }

    /// A request of this group wants to start, and may wait for it. `waiter` is called if it waits.
    pub fn arrive(
        &mut self,
        id: GroupId,
        query: QueryId,
        now: Nanos,
        waiter: impl FnOnce() -> W,
    ) -> Decision {
        let decision = match self.obstacle(id) {
            Err(refusal) => Decision::Reject(refusal),
            Ok(None) => self.admit(id, None, now),
            Ok(Some(reason)) => match self.no_room(id, now) {
                Some(refusal) => Decision::Reject(refusal),
                None => self.enqueue(id, query, reason, now, waiter),
            },
        };
        self.count(id, decision)
    }

    /// A query shares the place of one that it is nested in: counted, no place taken.
    pub fn share(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.counts.nested += 1;
        }
    }

    /// A place is given back: once for each that was given. As many start as fit then.
    pub fn leave(&mut self, id: GroupId, now: Nanos) {
        let Some(cap) = self.groups.get(&id).map(|_| self.cap()) else {
            debug_assert!(false, "a place of a group that holds none");
            return;
        };
        if cap.is_some_and(|cap| self.running >= cap) {
            self.pace.freed(now);
        }
        self.running = self.running.saturating_sub(1);
        self.throttle.left(self.running);
        if let Some(group) = self.groups.get_mut(&id) {
            group.give_place_back(now);
        }
        self.place(id);
        self.start(now);
        self.forget_if_over(id);
    }

    /// Takes a request out of the line, because whoever made it is gone or because it is killed. None if it does not
    /// wait any more: then it was answered.
    pub fn withdraw(&mut self, query: QueryId) -> Option<W> {
        let (id, arrival) = self.waiting.remove(&query)?;
        let reason = self.reason_of(id);
        let group = self.groups.get_mut(&id)?;
        let waiter = group.dequeue(arrival)?;
        group.counts.cancelled.count(reason);
        self.place(id);
        self.forget_if_over(id);
        Some(waiter.payload)
    }

    /// Tells those whose time is over.
    pub fn expire(&mut self, now: Nanos) {
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            let reason = self.reason_of(id);
            let retry_after = self.retry_after(id, reason, 1, now);
            let Some(waiter) = self.pop_first(id) else {
                debug_assert!(false, "a deadline of nobody");
                self.deadlines.pop_first();
                continue;
            };
            if let Some(group) = self.groups.get_mut(&id) {
                group.counts.timed_out.count(reason);
                let answer = Answer::TimedOut {
                    group: group.name.clone(),
                    waited: now.since(waiter.since),
                    reason,
                    retry_after,
                };
                self.answers.push((waiter.payload, answer));
            }
            self.place(id);
            self.forget_if_over(id);
        }
    }

    /// When a request that waits has waited for too long, as its group's limits are now. None if it waits no more.
    pub fn deadline(&mut self, query: QueryId) -> Option<Nanos> {
        let &(id, arrival) = self.waiting.get(&query)?;
        let group = self.groups.get_mut(&id)?;
        let timeout = group.limits().queue_timeout;
        let waiter = group.waiter_mut(arrival)?;
        waiter.told = waiter.since.plus(timeout);
        Some(waiter.told)
    }

    /// So much memory is in use: the throttle decides, and as many start as fit then.
    pub fn look(&mut self, used: Bytes, now: Nanos) -> Step {
        let top = self.limits.runner_threads.unwrap_or(u64::MAX);
        let step = self.throttle.look(now, used, self.running, top);
        self.start(now);
        step
    }

    /// What those who waited are to be told since the last call.
    pub fn take_answers(&mut self) -> Vec<(W, Answer)> {
        std::mem::take(&mut self.answers)
    }

    // ---- steps ---------------------------------------------------------------------------------------------------

    fn present(&mut self, id: GroupId) -> Option<&mut Group<W>> {
        self.groups.get_mut(&id).filter(|group| !group.removed)
    }

    fn count(&mut self, id: GroupId, decision: Decision) -> Decision {
        if let (Decision::Reject(refusal), Some(group)) = (&decision, self.present(id)) {
            group.counts.reject(refusal);
        }
        decision
    }

    fn admit(&mut self, id: GroupId, waited: Option<(Nanos, WaitReason)>, now: Nanos) -> Decision {
        self.running += 1;
        self.turns += 1;
        if let Some(group) = self.groups.get_mut(&id) {
            group.take_place(waited, now);
            group.turn = self.turns;
        }
        if self.is_full() {
            self.pace.filled(now);
        }
        self.place(id);
        Decision::Admit
    }

    fn enqueue(
        &mut self,
        id: GroupId,
        query: QueryId,
        reason: WaitReason,
        now: Nanos,
        waiter: impl FnOnce() -> W,
    ) -> Decision {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let Some(group) = self.groups.get_mut(&id) else {
            return Decision::Reject(Refusal::Unknown);
        };
        let deadline = group.deadline_of(now);
        let waiter = Waiter {
            id: query,
            since: now,
            told: deadline,
            reason,
            payload: waiter(),
        };
        group.enqueue(arrival, waiter);
        let queued = group.queued();
        self.waiting.insert(query, (id, arrival));
        self.place(id);
        Decision::Wait(Standing {
            reason,
            position: queued,
            queued,
            deadline,
        })
    }

    /// Gives places to those who wait, as many as there are.
    fn start(&mut self, now: Nanos) {
        while !self.closed
            && !self.is_full()
            && let Some(&(_, id)) = self.ready.first()
        {
            let Some(waiter) = self.pop_first(id) else {
                debug_assert!(false, "nobody waits in a group that is ready");
                self.ready.pop_first();
                continue;
            };
            let waited = now.since(waiter.since);
            self.admit(id, Some((waited, waiter.reason)), now);
            self.answers
                .push((waiter.payload, Answer::Admit { group: id }));
        }
    }

    fn pop_first(&mut self, id: GroupId) -> Option<Waiter<W>> {
        let waiter = self.groups.get_mut(&id)?.pop_first()?;
        self.waiting.remove(&waiter.id);
        Some(waiter)
    }

    /// Puts a group where it belongs among those that are ready and those with a deadline. Called after each change
    /// of its line, its running queries or its limits.
    fn place(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(&id) else {
            return;
        };
        let turn = group.turn;
        let first = group
            .first()
            .map(|(arrival, first)| (arrival, group.deadline_of(first.since), first.told));
        let deadline = first.map(|(_, deadline, _)| deadline);
        if let Some((arrival, deadline, told)) = first
            && deadline < told
            && let Some(waiter) = group.waiter_mut(arrival)
        {
            waiter.told = deadline;
            self.answers.push((waiter.payload.clone(), Answer::Sooner));
        }
        let ready =
            first
                .filter(|_| !group.is_full())
                .map(|(arrival, ..)| match self.limits.order {
                    Order::RoundRobin => turn,
                    Order::Fcfs => arrival,
                });
        if group.ready != ready {
            let before = std::mem::replace(&mut group.ready, ready);
            before.map(|key| self.ready.remove(&(key, id)));
            ready.map(|key| self.ready.insert((key, id)));
        }
        if group.deadline != deadline {
            let before = std::mem::replace(&mut group.deadline, deadline);
            before.map(|key| self.deadlines.remove(&(key, id)));
            deadline.map(|key| self.deadlines.insert((key, id)));
        }
    }
}
