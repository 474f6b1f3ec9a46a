//! A discrete-event simulator of workers that follow the policy: the executor's protocol in virtual time.
//!
//! Pure and deterministic: one thread, no clock; a run is a function of its set-up, its calls and its seed. The
//! decisions are those of [`Fair`](super::fair::Fair), [`Feedback`] and [`batch`](super::batch) themselves; only
//! the workers around them are simulated (`worker`), and what is measured is exact (`books`).
//!
//! Lag is entitlement minus what was given, since the group last had all that it could use and was entitled to
//! it. At that moment nobody will pay any more what it is owed or owes, so it is written off and handed to
//! the groups that contend for workers, in proportion to their weights. Otherwise the lag of a group that
//! always has work would be the sum of all visits of others and say nothing of the present.
//! [`Sim::plain_lag`] is without that: since the group last began to have work.
//!
//! ```
//! use quotient::sched::sim::{Setup, Sim, steady};
//! use quotient::unit::Nanos;
//!
//! let mut sim = Sim::new(Setup::default());
//! let (a, b) = (sim.group(2), sim.group(1));
//! for group in [a, a, b, b] {
//!     sim.spawn(group, None, Nanos::ZERO, steady(Nanos::from_micros(20)));
//! }
//! sim.run_until(Nanos::from_secs(3));
//! assert!(sim.given(a).0.abs_diff(4_000_000_000) < 100_000); // of 6 worker seconds
//! assert_eq!(sim.wasted(), Nanos::ZERO);
//! ```

mod books;
mod limits;
mod rng;
mod work;
mod worker;

pub use rng::Rng;
pub use work::{Step, Then, bursts, job, random, steady};

use super::fair::Slot;
use super::feedback::{Feedback, Stream};
use super::trace::{Recorder, Trace};
use super::{Config, FIRST_AVERAGE};
use crate::unit::{Nanos, QueryId, Weight};
use books::Books;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use worker::Worker;

/// A simulated task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(usize);

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The number of workers.
    pub workers: usize,
    /// The constants of the policy.
    pub config: Config,
    /// Decides all that is random.
    pub seed: u64,
    /// How long a sleeping worker takes to get up.
    pub wake_latency: Nanos,
    /// Record the calls to the policy; [`Sim::trace`] hands them out.
    pub record: bool,
}

impl Default for Setup {
    /// Two workers with the policy's defaults that get up at once.
    fn default() -> Setup {
        Setup {
            workers: 2,
            config: Config::default(),
            seed: 1,
            wake_latency: Nanos::ZERO,
            record: false,
        }
    }
}

type Work = Box<dyn FnMut(&mut Rng) -> Step>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not yet arrived, asleep, or waiting to be woken.
    Away,
    /// In a queue or a ring since.
    Runnable(Nanos),
    /// Being polled; `woken` meanwhile.
    Polled {
        woken: bool,
    },
    Finished(Nanos),
}

struct Task {
    group: usize,
    stream: Stream,
    state: State,
    /// Its own CPU time, for its level if it has no query.
    cpu: Nanos,
    /// Which of its timers is the valid one.
    timer: u64,
    work: Work,
}

struct Group {
    slot: Slot,
    queue: Feedback<TaskId>,
    average_poll: Nanos,
    waiting: usize,
    running: usize,
    blocked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    PollEnds(usize),
    GetsUp(usize),
    Wakes(TaskId, u64),
    /// A quota opens, if it has not been seen to already.
    Opens,
}

/// A running simulation.
pub struct Sim {
    setup: Setup,
    now: Nanos,
    fair: Recorder,
    groups: Vec<Group>,
    tasks: Vec<Task>,
    queries: BTreeMap<QueryId, Nanos>,
    workers: Vec<Worker>,
    idle: usize,
    /// Runnable tasks that no worker polls, in groups that are not blocked.
    waiting: usize,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    sequence: u64,
    /// For when an event `Opens` is under way.
    opens: Option<Nanos>,
    rng: Rng,
    books: Books,
}

impl Sim {
    /// All workers idle, no groups, at time zero.
    pub fn new(setup: Setup) -> Sim {
        let fair = if setup.record {
            Recorder::recording(setup.config, setup.workers)
        } else {
            Recorder::silent(setup.config, setup.workers)
        };
        Sim {
            setup,
            now: Nanos::ZERO,
            fair,
            groups: Vec::new(),
            tasks: Vec::new(),
            queries: BTreeMap::new(),
            workers: (0..setup.workers).map(|_| Worker::default()).collect(),
            idle: setup.workers,
            waiting: 0,
            events: BinaryHeap::new(),
            sequence: 0,
            opens: None,
            rng: Rng::new(setup.seed),
            books: Books::new(setup.workers),
        }
    }

    /// Adds a group.
    pub fn group(&mut self, weight: u64) -> Slot {
        let weight = Weight::new(weight);
        self.books.open(weight.get());
        let slot = self.fair.add(weight);
        self.groups.push(Group {
            slot,
            queue: Feedback::new(self.setup.config.level_base),
            average_poll: FIRST_AVERAGE,
            waiting: 0,
            running: 0,
            blocked: false,
        });
        slot
    }

    /// Adds a query; its tasks share one age.
    pub fn query(&mut self) -> QueryId {
        let id = QueryId(self.queries.len() as u64);
        self.queries.insert(id, Nanos::ZERO);
        id
    }

    /// Adds a task that becomes runnable at `at` (now, if that is past).
    pub fn spawn(
        &mut self,
        group: Slot,
        query: Option<QueryId>,
        at: Nanos,
        work: impl FnMut(&mut Rng) -> Step + 'static,
    ) -> TaskId {
        let task = TaskId(self.tasks.len());
        self.tasks.push(Task {
            group: group.0 as usize,
            stream: query.map_or(Stream::Loose, Stream::Query),
            state: State::Away,
            cpu: Nanos::ZERO,
            timer: 0,
            work: Box::new(work),
        });
        self.after(at.since(self.now), Event::Wakes(task, 0));
        task
    }

    /// Adds a task that waits until another one wakes it.
    pub fn spawn_waiting(
        &mut self,
        group: Slot,
        query: Option<QueryId>,
        work: impl FnMut(&mut Rng) -> Step + 'static,
    ) -> TaskId {
        let task = self.spawn(group, query, self.now, work);
        self.tasks[task.0].timer += 1;
        task
    }

    /// Runs all that happens up to and at `time`.
    pub fn run_until(&mut self, time: Nanos) {
        while let Some(&Reverse((at, _, event))) = self.events.peek() {
            if at > time {
                break;
            }
            self.events.pop();
            self.advance(at);
            match event {
                Event::PollEnds(worker) => self.poll_ends(worker),
                Event::GetsUp(worker) => self.gets_up(worker),
                Event::Wakes(task, timer) if self.tasks[task.0].timer == timer => {
                    self.wake(task, None);
                }
                Event::Wakes(..) => {}
                Event::Opens => self.opens(),
            }
            self.await_opening();
        }
        self.advance(time);
    }

    /// Runs on for `time`.
    pub fn run_for(&mut self, time: Nanos) {
        self.run_until(self.now.plus(time));
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Worker time that the group was given so far, that of running polls included. Exact.
    pub fn given(&mut self, group: Slot) -> Nanos {
        self.books.given(group.0 as usize, self.now)
    }

    /// Worker time that the group was entitled to so far.
    pub fn entitled(&mut self, group: Slot) -> Nanos {
        self.books.entitled(group.0 as usize, self.now)
    }

    /// What the group is owed now, in ns of worker time; negative = it is ahead. See the module's header.
    pub fn lag(&mut self, group: Slot) -> i64 {
        self.books.lag(group.0 as usize, self.now)
    }

    /// Entitlement minus given since the group last began to have work, nothing written off.
    pub fn plain_lag(&mut self, group: Slot) -> i64 {
        self.books.plain_lag(group.0 as usize, self.now)
    }

    /// The largest amount of [`Sim::lag`] at any instant so far.
    pub fn worst_lag(&mut self, group: Slot) -> Nanos {
        self.books.worst_lag(group.0 as usize, self.now)
    }

    /// The longest time that the group had runnable tasks of which none was being polled.
    pub fn longest_unserved(&self, group: Slot) -> Nanos {
        self.books.longest_unserved(group.0 as usize, self.now)
    }

    /// The longest time that a task of the group was runnable before it was polled, those that still wait included.
    pub fn longest_wait(&mut self, group: Slot) -> Nanos {
        let waits = self.tasks.iter().filter_map(|t| match t.state {
            State::Runnable(since) if t.group == group.0 as usize => Some(self.now.since(since)),
            _ => None,
        });
        let open = waits.max().unwrap_or_default();
        self.books.of(group.0 as usize).longest_wait.max(open)
    }

    /// How often a worker chose the group.
    pub fn picks(&mut self, group: Slot) -> u64 {
        self.books.of(group.0 as usize).picks
    }

    /// How many polls of the group began.
    pub fn polls(&mut self, group: Slot) -> u64 {
        self.books.of(group.0 as usize).polls
    }

    /// Time during which some worker was idle and some task runnable, wake latency included. Zero without latency.
    pub fn wasted(&self) -> Nanos {
        self.books.wasted
    }

    /// When the task finished.
    pub fn finished(&self, task: TaskId) -> Option<Nanos> {
        match self.tasks[task.0].state {
            State::Finished(at) => Some(at),
            _ => None,
        }
    }

    /// What the policy has charged to the group, ÷ its weight.
    pub fn vruntime(&self, group: Slot) -> Nanos {
        self.fair.vruntime(group)
    }

    /// Ends the recording and hands it out. None unless [`Setup::record`] was set.
    pub fn trace(&mut self) -> Option<Trace> {
        self.fair.finish()
    }

    fn after(&mut self, time: Nanos, event: Event) {
        self.sequence += 1;
        let entry = (self.now.plus(time), self.sequence, event);
        self.events.push(Reverse(entry));
    }

    fn advance(&mut self, to: Nanos) {
        let time = to.since(self.now);
        if time == Nanos::ZERO {
            return;
        }
        self.books.share_out(self.now);
        if self.workers.iter().any(Worker::is_not_busy) && self.has_runnable() {
            self.books.wasted = self.books.wasted.plus(time);
        }
        self.now = to;
    }

    /// Tells the books what the group's tasks do now.
    fn book(&mut self, group: usize) {
        let g = &self.groups[group];
        let waiting = if g.blocked { 0 } else { g.waiting };
        self.books.demand(group, waiting, g.running, self.now);
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim")
            .field("now", &self.now)
            .field("groups", &self.groups.len())
            .field("tasks", &self.tasks.len())
            .finish_non_exhaustive()
    }
}
