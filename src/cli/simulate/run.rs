//! One run: the scheduler's simulator for CPU, the gate's policy for admission, a step of a millisecond between them.
//!
//! Pure and deterministic.

use super::load::{Load, Work};
use crate::admission::policy::{Answer, Decision, GovernorLimits, GroupLimits, Policy};
use crate::catalog::Snapshot;
use crate::sched::fair::Slot;
use crate::sched::sim::{Setup, Sim, Step, TaskId, Then, bursts, job};
use crate::unit::{GroupId, Nanos, QueryId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How often arrivals, ends and deadlines are looked at.
const STEP: Nanos = Nanos::from_millis(1);

/// What came of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) group: String,
    pub(super) weight: u64,
    pub(super) reserved: u64,
    pub(super) cap: Option<f64>,
    pub(super) given: Nanos,
    pub(super) entitled: Nanos,
    pub(super) polls: u64,
    /// The longest time that one of its tasks was ready and not polled.
    pub(super) longest_wait: Nanos,
    /// The longest time that none of its ready tasks was polled.
    pub(super) longest_unserved: Nanos,
    pub(super) loads: Vec<String>,
    pub(super) queries: Queries,
}

/// What came of a group's queries.
#[derive(Clone, Debug, Default)]
pub(super) struct Queries {
    pub(super) arrived: u64,
    pub(super) refused: u64,
    pub(super) timed_out: u64,
    pub(super) finished: u64,
    /// At the end.
    pub(super) running: u64,
    /// At the end.
    pub(super) waiting: u64,
    /// Of those that were let in: how long they waited for it.
    pub(super) waits: Times,
    /// Of those that finished: from arrival on.
    pub(super) responses: Times,
}

/// Times of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) count: u64,
    sum: Nanos,
    pub(super) most: Nanos,
}

impl Times {
    fn add(&mut self, time: Nanos) {
        self.count += 1;
        self.sum = self.sum.plus(time);
        self.most = self.most.max(time);
    }

    /// None of none.
    pub(super) fn mean(&self) -> Option<Nanos> {
        self.sum.0.checked_div(self.count).map(Nanos)
    }
}

/// A query on its way.
#[derive(Clone, Copy, Debug)]
struct Query {
    group: GroupId,
    arrived: Nanos,
    cpu: Nanos,
    poll: Nanos,
}

struct Run {
    sim: Sim,
    slots: BTreeMap<GroupId, Slot>,
    policy: Policy<Query>,
    outcomes: BTreeMap<GroupId, Outcome>,
    running: BTreeMap<TaskId, Query>,
    /// Tasks whose last poll has begun.
    ending: Rc<RefCell<Vec<usize>>>,
    /// By the order in which they were started.
    started: Vec<TaskId>,
    now: Rc<Cell<Nanos>>,
    numbers: u64,
}

/// Runs the loads for so long; the groups that have any, by id.
pub(super) fn run(
    catalog: &Snapshot,
    limits: GovernorLimits,
    loads: &[(Load, GroupId)],
    time: Nanos,
    seed: u64,
) -> Vec<Outcome> {
    let mut run = Run::new(catalog, limits, seed);
    for (load, group) in loads {
        if let Some(outcome) = run.outcomes.get_mut(group) {
            outcome.loads.push(load.name.clone());
        }
        run.spawn_tasks(load, *group);
    }
    let mut next: Vec<Nanos> = loads.iter().map(|(load, _)| load.from).collect();
    let mut now = Nanos::ZERO;
    loop {
        for ((load, group), next) in loads.iter().zip(&mut next) {
            let Work::Queries { every, cpu } = load.work else {
                continue;
            };
            let until = load.until.unwrap_or(time).min(time);
            while *next <= now && *next < until {
                let query = Query {
                    group: *group,
                    arrived: *next,
                    cpu,
                    poll: load.poll,
                };
                run.arrive(query, now);
                *next = next.plus(every);
            }
        }
        if now >= time {
            break;
        }
        now = now.plus(STEP).min(time);
        run.go_on(now);
    }
    run.finish()
}

impl Run {
    fn new(catalog: &Snapshot, limits: GovernorLimits, seed: u64) -> Run {
        let mut sim = Sim::new(Setup {
            workers: catalog.machine().workers,
            seed,
            ..Setup::default()
        });
        let (mut policy, mut slots) = (Policy::new(), BTreeMap::new());
        let mut outcomes = BTreeMap::new();
        for group in catalog.groups() {
            let slot = sim.group(group.cpu_core_limit().get());
            let reserved = u32::try_from(group.reserved_cores()).unwrap_or(u32::MAX);
            sim.set_reserved(slot, reserved);
            sim.set_cap(slot, group.max_cpu_cores());
            let own = GroupLimits {
                concurrency_limit: group.concurrency_limit(),
                max_queued_queries: group.max_queued_queries(),
                queue_timeout: group.queue_timeout(),
            };
            policy.register(group.id, group.name.as_str().into(), own, Nanos::ZERO);
            slots.insert(group.id, slot);
            let outcome = Outcome {
                group: group.name.clone(),
                weight: group.cpu_core_limit().get(),
                reserved: group.reserved_cores(),
                cap: group.max_cpu_cores(),
                ..Outcome::default()
            };
            outcomes.insert(group.id, outcome);
        }
        // Memory is not simulated, so nothing is throttled for it.
        let limits = GovernorLimits {
            throttle: None,
            ..limits
        };
        policy.set_governor(limits, Nanos::ZERO);
        Run {
            sim,
            slots,
            policy,
            outcomes,
            running: BTreeMap::new(),
            ending: Rc::default(),
            started: Vec::new(),
            now: Rc::default(),
            numbers: 0,
        }
    }

    fn spawn_tasks(&mut self, load: &Load, group: GroupId) {
        let (
            Work::Tasks {
                tasks,
                burst,
                sleep,
            },
            Some(&slot),
        ) = (load.work, self.slots.get(&group))
        else {
            return;
        };
        let polls = if sleep > Nanos::ZERO { burst } else { u64::MAX };
        let polls = u32::try_from(polls).unwrap_or(u32::MAX);
        for _ in 0..tasks {
            let (now, until) = (self.now.clone(), load.until);
            let mut work = bursts(polls, load.poll, sleep);
            self.sim.spawn(slot, None, load.from, move |rng| {
                let step = work(rng);
                match until {
                    Some(until) if now.get() >= until => Step::new(step.poll, Then::Done),
                    _ => step,
                }
            });
        }
    }

    fn arrive(&mut self, query: Query, now: Nanos) {
        self.numbers += 1;
        let decision = self
            .policy
            .arrive(query.group, QueryId(self.numbers), now, || query);
        if let Some(outcome) = self.outcomes.get_mut(&query.group) {
            outcome.queries.arrived += 1;
            outcome.queries.refused += u64::from(matches!(decision, Decision::Reject(_)));
        }
        if decision == Decision::Admit {
            self.start(query, now);
        }
    }

    fn start(&mut self, query: Query, now: Nanos) {
        let Some(&slot) = self.slots.get(&query.group) else {
            return;
        };
        let stream = self.sim.query();
        let (ending, number) = (self.ending.clone(), self.started.len());
        let mut work = job(query.cpu, query.poll);
        let task = self.sim.spawn(slot, Some(stream), now, move |rng| {
            let step = work(rng);
            if step.then == Then::Done {
                ending.borrow_mut().push(number);
            }
            step
        });
        self.started.push(task);
        self.running.insert(task, query);
        if let Some(outcome) = self.outcomes.get_mut(&query.group) {
            outcome.queries.waits.add(now.since(query.arrived));
        }
    }

    /// Everything up to `now`.
    fn go_on(&mut self, now: Nanos) {
        self.sim.run_until(now);
        self.now.set(now);
        let mut last_polls = std::mem::take(&mut *self.ending.borrow_mut());
        last_polls.retain(|&number| !self.ended(number, now));
        self.ending.borrow_mut().append(&mut last_polls);
        self.policy.expire(now);
        for (query, answer) in self.policy.take_answers() {
            match answer {
                Answer::Admit { .. } => self.start(query, now),
                Answer::TimedOut { .. } => {
                    if let Some(outcome) = self.outcomes.get_mut(&query.group) {
                        outcome.queries.timed_out += 1;
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a query has ended; if so, its place is given back.
    fn ended(&mut self, number: usize, now: Nanos) -> bool {
        let Some(&task) = self.started.get(number) else {
            return true;
        };
        let Some(at) = self.sim.finished(task) else {
            return false;
        };
        if let Some(query) = self.running.remove(&task) {
            self.policy.leave(query.group, now);
            if let Some(outcome) = self.outcomes.get_mut(&query.group) {
                outcome.queries.finished += 1;
                outcome.queries.responses.add(at.since(query.arrived));
            }
        }
        true
    }

    fn finish(mut self) -> Vec<Outcome> {
        for admission in self.policy.groups() {
            if let Some(outcome) = self.outcomes.get_mut(&admission.group) {
                outcome.queries.running = admission.running;
                outcome.queries.waiting = admission.queued;
            }
        }
        for (id, outcome) in &mut self.outcomes {
            if let Some(&slot) = self.slots.get(id) {
                outcome.given = self.sim.given(slot);
                outcome.entitled = self.sim.entitled(slot);
                outcome.polls = self.sim.polls(slot);
                outcome.longest_wait = self.sim.longest_wait(slot);
                outcome.longest_unserved = self.sim.longest_unserved(slot);
            }
        }
        let all = self.outcomes.into_values();
        all.filter(|one| !one.loads.is_empty()).collect()
    }
}
