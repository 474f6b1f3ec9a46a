//! Everything that is measured, as plain values of one moment.
//!
//! Pure. The governor fills it from the counters of the stages whenever somebody asks; nothing here is
//! touched on spawn or poll. All counters are totals since the process began.

use super::memory::{GroupMemory, ProcessMemory};
use crate::admission::waits::Waits;
use crate::exec::stats::{
    GroupUsage, KillTimes, PoolUsage, SpareUsage, TimeHistogram, WorkerUsage,
};
use crate::unit::Nanos;
use std::collections::BTreeMap;

/// The state of one governor at one moment. An empty one is `Snapshot::default()`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// One row per group, a dropped one as long as it has queries or tasks. Rows of one name are added up.
    pub groups: Vec<GroupRow>,
    /// One entry per worker, in the workers' order.
    pub workers: Vec<WorkerUsage>,
    /// Memory of the process.
    pub memory: ProcessMemory,
    /// The threads that stand in for workers in long polls.
    pub spares: SpareUsage,
    /// The threads of the blocking pool.
    pub blocking_pool: PoolUsage,
    /// Requests that matched no classifier.
    pub unclassified: u64,
    /// Queries over all groups, and how many there may be.
    pub queries: Queries,
    /// CPU time that nobody was charged for; see [`unmanaged`].
    pub unmanaged_cpu: Nanos,
    /// How fast kills took effect.
    pub kills: KillTimes,
    /// Version of the catalog in force.
    pub catalog_version: u64,
    /// Statements that the catalog refused.
    pub catalog_apply_errors: u64,
}

/// Queries over all groups: StarTree's six gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queries {
    /// How many may run at once while memory is not short; none = no limit.
    pub num_runner_threads: Option<u64>,
    /// How many run.
    pub running: u64,
    /// How many may run at once now; none = no limit.
    pub max_allowed: Option<u64>,
    /// For how long admission has been throttled; zero if it is not.
    pub throttling_for: Nanos,
    /// Time spent throttling so far.
    pub throttling_total: Nanos,
    /// Collections that lasting throttling asked for so far.
    pub collections: u64,
}

/// One group's numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupRow {
    /// The group's name: the value of the label `group`.
    pub name: String,
    /// What the executor counted.
    pub usage: GroupUsage,
    /// Its memory.
    pub memory: GroupMemory,
    /// Queries that hold a slot now.
    pub queries_running: u64,
    /// Requests that wait for a slot now.
    pub queries_queued: u64,
    /// Queries that ended.
    pub queries_ended: QueryOutcomes,
    /// Requests for a slot. An absent pair is not shown, so that impossible ones make no series.
    pub admission: BTreeMap<(AdmissionOutcome, AdmissionReason), u64>,
    /// How long those waited that got one.
    pub admission_wait: Waits,
    /// Requests that a classifier, or the name itself, brought here.
    pub classified: u64,
    /// Queries that went over a limit of the group, by the labels `kind` and `action`. An absent pair is not shown.
    pub big_queries: BTreeMap<(&'static str, &'static str), u64>,
}

/// How queries ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryOutcomes {
    /// All tasks returned.
    pub completed: u64,
    /// A task panicked.
    pub failed: u64,
    /// The governor ended it.
    pub killed: u64,
    /// The program aborted or dropped it.
    pub cancelled: u64,
}

/// What became of a request for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdmissionOutcome {
    /// It got one.
    Admitted,
    /// It was refused.
    Rejected,
    /// It waited for longer than `queue_timeout`.
    TimedOut,
    /// Whoever asked went away.
    Cancelled,
}

/// What stood in the way of a request for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdmissionReason {
    /// Nothing.
    None,
    /// The group's `concurrency_limit` or the governor's, without waiting.
    Concurrency,
    /// The group's queue was full, or it was waited in.
    Queue,
    /// Memory.
    Memory,
    /// The memory throttle.
    Throttle,
    /// The watch list.
    Watch,
    /// The governor was shutting down.
    Shutdown,
}

impl AdmissionOutcome {
    /// The value of the label `outcome`.
    pub const fn label(self) -> &'static str {
        match self {
            AdmissionOutcome::Admitted => "admitted",
            AdmissionOutcome::Rejected => "rejected",
            AdmissionOutcome::TimedOut => "timed_out",
            AdmissionOutcome::Cancelled => "cancelled",
        }
    }
}

impl AdmissionReason {
    /// The value of the label `reason`.
    pub const fn label(self) -> &'static str {
        match self {
            AdmissionReason::None => "none",
            AdmissionReason::Concurrency => "concurrency",
            AdmissionReason::Queue => "queue",
            AdmissionReason::Memory => "memory",
            AdmissionReason::Throttle => "throttle",
            AdmissionReason::Watch => "watch",
            AdmissionReason::Shutdown => "shutdown",
        }
    }
}

/// CPU time of the process less all worker time ever charged, dropped groups included.
///
/// Charges are wall time and the process' figure is CPU time, so the difference can shrink (a worker that was
/// preempted inside a poll). A counter must not: `before` is the figure of the previous snapshot.
pub fn unmanaged(process_cpu: Nanos, charged: Nanos, before: Nanos) -> Nanos {
    before.max(process_cpu.since(charged))
}

impl Snapshot {
    /// The groups by name, one row each: a group that drains beside a new one of its name is added to it.
    pub fn by_name(&self) -> BTreeMap<&str, GroupRow> {
        let mut rows: BTreeMap<&str, GroupRow> = BTreeMap::new();
        for row in &self.groups {
            rows.entry(&row.name)
                .and_modify(|sum| sum.add(row))
                .or_insert_with(|| row.clone());
        }
        rows
    }
}

impl GroupRow {
    /// Adds another row's numbers to its own.
    pub(crate) fn add(&mut self, other: &GroupRow) {
        add_usage(&mut self.usage, &other.usage);
        self.memory.add(&other.memory);
        self.queries_running += other.queries_running;
        self.queries_queued += other.queries_queued;
        self.queries_ended.completed += other.queries_ended.completed;
        self.queries_ended.failed += other.queries_ended.failed;
        self.queries_ended.killed += other.queries_ended.killed;
        self.queries_ended.cancelled += other.queries_ended.cancelled;
        for (pair, count) in &other.admission {
            *self.admission.entry(*pair).or_default() += count;
        }
        self.admission_wait.add(&other.admission_wait);
        self.classified += other.classified;
        for (pair, count) in &other.big_queries {
            *self.big_queries.entry(*pair).or_default() += count;
        }
    }
}

/// Adds another group's use to a sum.
pub(crate) fn add_usage(sum: &mut GroupUsage, other: &GroupUsage) {
    sum.cpu_poll = sum.cpu_poll.plus(other.cpu_poll);
    sum.cpu_drop = sum.cpu_drop.plus(other.cpu_drop);
    sum.cpu_blocking = sum.cpu_blocking.plus(other.cpu_blocking);
    sum.blocking += other.blocking;
    sum.blocking_queued += other.blocking_queued;
    sum.blocking_running += other.blocking_running;
    sum.io_blocking = sum.io_blocking.plus(other.io_blocking);
    sum.io = sum.io.plus(other.io);
    sum.io_throttled = sum.io_throttled.plus(other.io_throttled);
    sum.polls += other.polls;
    sum.long_polls += other.long_polls;
    sum.tasks_total += other.tasks_total;
    sum.tasks_running += other.tasks_running;
    sum.tasks_queued += other.tasks_queued;
    sum.tasks_waiting += other.tasks_waiting;
    add_histogram(&mut sum.queue_delay, &other.queue_delay);
    add_histogram(&mut sum.poll_duration, &other.poll_duration);
    sum.throttled = sum.throttled.plus(other.throttled);
    sum.reserved += other.reserved;
    sum.lag_ns = sum.lag_ns.saturating_add(other.lag_ns);
    sum.share += other.share;
    sum.entitled += other.entitled;
}

fn add_histogram(sum: &mut TimeHistogram, other: &TimeHistogram) {
    for (bucket, more) in sum.buckets.iter_mut().zip(other.buckets) {
        *bucket += more;
    }
    sum.sum = sum.sum.plus(other.sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmanaged_cpu_never_goes_back() {
        let seen = unmanaged(Nanos(900), Nanos(600), Nanos::ZERO);
        assert_eq!(seen, Nanos(300));
        assert_eq!(unmanaged(Nanos(1000), Nanos(950), seen), Nanos(300));
        assert_eq!(unmanaged(Nanos(1000), Nanos(2000), seen), Nanos(300));
        assert_eq!(unmanaged(Nanos(1400), Nanos(1000), seen), Nanos(400));
    }
}
