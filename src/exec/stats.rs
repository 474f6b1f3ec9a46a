//! What the executor counts, as plain values read at one moment.
//!
//! Pure. The counters behind them live in the groups and workers; metrics pull these structs.

use crate::unit::{Nanos, QueryId};
use std::panic::Location;

/// Upper bounds of the time histograms' buckets; a last bucket without bound follows.
pub const TIME_BOUNDS: [Nanos; 12] = [
    Nanos::from_micros(16),
    Nanos::from_micros(64),
    Nanos::from_micros(256),
    Nanos::from_millis(1),
    Nanos::from_millis(5),
    Nanos::from_millis(20),
    Nanos::from_millis(100),
    Nanos::from_millis(500),
    Nanos::from_secs(2),
    Nanos::from_secs(10),
    Nanos::from_secs(60),
    Nanos::from_secs(300),
];

/// A histogram of times over [`TIME_BOUNDS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeHistogram {
    /// Observations per bucket (not cumulative); the last one has no upper bound.
    pub buckets: [u64; TIME_BOUNDS.len() + 1],
    /// Sum of all observations.
    pub sum: Nanos,
}

/// Which way bytes go, as seen from the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Into the program.
    Read,
    /// Out of the program.
    Write,
}

/// Bytes read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoBytes {
    /// Bytes that came into the program.
    pub read: u64,
    /// Bytes that went out of it.
    pub written: u64,
}

impl IoBytes {
    /// Both directions together.
    pub fn total(self) -> u64 {
        self.read.saturating_add(self.written)
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: IoBytes) -> IoBytes {
        IoBytes {
            read: self.read.saturating_add(other.read),
            written: self.written.saturating_add(other.written),
        }
    }
}

/// One group's use of the executor since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupUsage {
    /// Worker time spent in polls.
    pub cpu_poll: Nanos,
    /// Worker time spent dropping futures.
    pub cpu_drop: Nanos,
    /// CPU time of blocking closures, on the threads that ran them.
    pub cpu_blocking: Nanos,
    /// Blocking closures that run or wait for a thread.
    pub blocking: u64,
    /// Of these, those that wait for a thread of the blocking pool.
    pub blocking_queued: u64,
    /// Of these, those that have a thread.
    pub blocking_running: u64,
    /// How long its blocking closures have had threads, computing or waiting, those that run now included.
    pub io_blocking: Nanos,
    /// Bytes that passed through metered files and streams.
    pub io: IoBytes,
    /// How long operations on files and metered streams waited for limits, all together.
    pub io_throttled: Nanos,
    /// Polls.
    pub polls: u64,
    /// Polls longer than the governor's threshold.
    pub long_polls: u64,
    /// Tasks ever spawned.
    pub tasks_total: u64,
    /// Tasks that are being polled now.
    pub tasks_running: u64,
    /// Tasks that are ready and wait for a worker.
    pub tasks_queued: u64,
    /// Tasks that wait for something else (I/O, a timer, a message).
    pub tasks_waiting: u64,
    /// From wake to poll.
    pub queue_delay: TimeHistogram,
    /// Length of polls.
    pub poll_duration: TimeHistogram,
    /// How long its cap has held ready tasks back.
    pub throttled: Nanos,
    /// Workers that are reserved for it while it has work.
    pub reserved: u64,
    /// Entitlement minus what was given, in ns of worker time, over about the last ten seconds with work.
    pub lag_ns: i64,
    /// Share of all workers' time that the group was given in the last full second, 0 … 1.
    pub share: f64,
    /// Share that it was entitled to in the last full second, 0 … 1.
    pub entitled: f64,
}

impl GroupUsage {
    /// All its CPU time: of polls, of dropped futures, of blocking closures.
    pub fn cpu(&self) -> Nanos {
        self.cpu_poll.plus(self.cpu_drop).plus(self.cpu_blocking)
    }
}

/// One worker's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerUsage {
    /// Time spent in polls.
    pub busy: Nanos,
    /// How often it went to sleep.
    pub parks: u64,
    /// Polls while only one group had work.
    pub polls_fast: u64,
    /// Polls while groups competed.
    pub polls_fair: u64,
}

/// The times of all kills so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KillTimes {
    /// From going over a limit to the kill, of queries that a limit ended.
    pub crossing_to_kill: TimeHistogram,
    /// From the kill to the drop of the query's last future; of those that had any.
    pub kill_to_drop: TimeHistogram,
}

/// What the threads that stand in for workers in long polls, or in `block_in_place`, have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpareUsage {
    /// How many serve now.
    pub serving: u64,
    /// How often one has begun to serve.
    pub started: u64,
    /// Polls that were found to be long while they went on.
    pub late_polls: u64,
    /// The counters of all of them together, of those that have left too.
    pub work: WorkerUsage,
}

impl WorkerUsage {
    /// The counters of both.
    pub(super) fn plus(self, other: WorkerUsage) -> WorkerUsage {
        WorkerUsage {
            busy: self.busy.plus(other.busy),
            parks: self.parks + other.parks,
            polls_fast: self.polls_fast + other.polls_fast,
            polls_fair: self.polls_fair + other.polls_fair,
        }
    }
}

/// The threads of the blocking pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// How many there are.
    pub threads: u64,
    /// How many run a closure.
    pub busy: u64,
}

/// A long poll that others had to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongPoll {
    /// The group that was polled.
    pub group: String,
    /// The query that the task belongs to, if any.
    pub query: Option<QueryId>,
    /// Where the task was spawned.
    pub place: Option<&'static Location<'static>>,
    /// How long ago the poll began.
    pub ago: Nanos,
    /// How long it took, or has taken so far.
    pub lasted: Nanos,
    /// Whether it has ended.
    pub over: bool,
    /// Whether its thread was found to wait for something instead of computing.
    pub blocked: bool,
    /// The groups that had ready tasks which nobody took when it was noticed, and how many each; the most first.
    pub waited: Vec<(String, usize)>,
}

/// One task, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskSeen {
    /// Its number: what its [`Id`](crate::task::Id) prints.
    pub id: u64,
    /// The name that it was given, if any.
    pub name: Option<String>,
    /// The name of its group.
    pub group: String,
    /// Its query, if it belongs to one.
    pub query: Option<QueryId>,
    /// What it did.
    pub state: TaskState,
    /// How long it had been ready without being polled, if it was.
    pub ready_for: Option<Nanos>,
    /// Worker time of its polls; only kept for tasks without a query.
    pub cpu: Option<Nanos>,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// A worker polls it.
    Running,
    /// It could go on, and waits for a worker.
    Ready,
    /// It waits for something else.
    Waiting,
}

impl TaskState {
    /// In lower case.
    pub const fn label(self) -> &'static str {
        match self {
            TaskState::Running => "running",
            TaskState::Ready => "ready",
            TaskState::Waiting => "waiting",
        }
    }
}
