//! The one table of all metrics: name, kind, unit, labels, help.
//!
//! Pure. The page is written from it and the documentation is compared with it. Names follow Prometheus'
//! rules (base units, `_total` for counters); no label has unbounded values.

/// How a series behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never goes back while the process lives.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
}

impl Kind {
    /// The word of the text format's `# TYPE` line.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// What one unit of a series' value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, with fractions down to the nanosecond.
    Seconds,
    /// Between 0 and 1.
    Ratio,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
}

/// One family of series.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// As it is scraped.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: Kind,
    /// Unit of the value.
    pub unit: Unit,
    /// Label names, in the order in which they are written.
    pub labels: &'static [&'static str],
    /// One sentence for the reader of the page.
    pub help: &'static str,
}

macro_rules! table {
    ($($id:ident = $name:literal, $kind:ident, $unit:ident, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &[$($label),*],
                help: $help,
            };
        )*
        /// Every family, in the order of the page.
        pub const ALL: &[Metric] = &[$($id),*];
    };
}

table! {
    GROUP_CPU = "quotient_group_cpu_seconds_total", Counter, Seconds, ["group", "kind"],
        "Worker time charged to the group: polls, drops of futures, blocking closures.";
    GROUP_POLLS = "quotient_group_polls_total", Counter, Count, ["group"],
        "Polls of the group's tasks.";
    GROUP_LONG_POLLS = "quotient_group_long_polls_total", Counter, Count, ["group"],
        "Polls longer than long_poll_threshold.";
    GROUP_TASKS_SPAWNED = "quotient_group_tasks_total", Counter, Count, ["group"],
        "Tasks spawned in the group.";
    GROUP_TASKS = "quotient_group_tasks", Gauge, Count, ["group", "state"],
        "Tasks of the group: being polled, ready and queued, or waiting for something else.";
    GROUP_QUEUE_DELAY = "quotient_group_queue_delay_seconds", Histogram, Seconds, ["group"],
        "Time from the wake of a task to its poll.";
    GROUP_POLL_DURATION = "quotient_group_poll_duration_seconds", Histogram, Seconds, ["group"],
        "Length of single polls.";
    GROUP_LAG = "quotient_group_lag_seconds", Gauge, Seconds, ["group"],
        "Worker time the group was entitled to less what it was given, over about the last ten seconds with work.";
    GROUP_CPU_SHARE = "quotient_group_cpu_share_ratio", Gauge, Ratio, ["group"],
        "Share of all workers' time that the group was given in the last second.";
    GROUP_CPU_ENTITLED = "quotient_group_cpu_entitled_ratio", Gauge, Ratio, ["group"],
        "Share of all workers' time that the group was entitled to in the last second.";
    GROUP_THROTTLED = "quotient_group_throttled_seconds_total", Counter, Seconds, ["group"],
        "Time during which max_cpu_cores held ready tasks of the group back.";
    GROUP_RESERVED = "quotient_group_reserved_workers", Gauge, Count, ["group"],
        "Workers that are reserved for the group while it has work.";
    GROUP_IO_TIME = "quotient_group_io_seconds_total", Counter, Seconds, ["group", "kind"],
        "Time that the group was given of what is shared by io_weight: of the blocking pool's threads.";
    GROUP_BLOCKING = "quotient_group_blocking_closures", Gauge, Count, ["group", "state"],
        "Blocking closures of the group: having a thread, or waiting for one.";
    GROUP_MEMORY = "quotient_group_memory_bytes", Gauge, Bytes, ["group"],
        "Memory of the group: live blocks and reservations of its queries and tasks.";
    GROUP_MEMORY_LIMIT = "quotient_group_memory_limit_bytes", Gauge, Bytes, ["group"],
        "mem_limit of the group.";
    GROUP_MEMORY_PEAK = "quotient_group_memory_peak_bytes", Gauge, Bytes, ["group"],
        "Most memory that the group had at once.";
    GROUP_MEMORY_RESERVED = "quotient_group_memory_reserved_bytes", Gauge, Bytes, ["group"],
        "Memory that the group's queries have reserved; part of quotient_group_memory_bytes.";
    GROUP_MEMORY_WAITING = "quotient_group_memory_waiting", Gauge, Count, ["group"],
        "Reservations of the group that wait for room.";
    GROUP_SPILL_REQUESTS = "quotient_group_spill_requests_total", Counter, Count, ["group"],
        "How often a query of the group was asked to spill.";
    GROUP_IO_BYTES = "quotient_group_io_bytes_total", Counter, Bytes, ["group", "direction"],
        "Bytes that the group's queries and tasks read and wrote through files and metered streams.";
    GROUP_IO_THROTTLED = "quotient_group_io_throttled_seconds_total", Counter, Seconds, ["group"],
        "Time that operations on the group's files and metered streams waited for its limit and for shared capacities.";
    GROUP_QUERIES = "quotient_group_queries", Gauge, Count, ["group", "state"],
        "Queries of the group: holding a slot, or waiting for one.";
    GROUP_QUERIES_ENDED = "quotient_group_queries_total", Counter, Count, ["group", "outcome"],
        "Queries that ended, by how they ended.";
    GROUP_ADMISSION = "quotient_group_admission_total", Counter, Count, ["group", "outcome", "reason"],
        "Requests for a slot, by what became of them and why.";
    GROUP_ADMISSION_WAIT = "quotient_group_admission_wait_seconds", Histogram, Seconds, ["group"],
        "Time from a request to its slot, of those that got one.";
    GROUP_CLASSIFIED = "quotient_group_classified_total", Counter, Count, ["group"],
        "Requests that a classifier of the group, or its name, brought here.";
    GROUP_BIG_QUERY = "quotient_group_big_query_total", Counter, Count, ["group", "kind", "action"],
        "Queries that went over a limit of the group, by the limit and by what came of it.";
    UNOWNED_MEMORY = "quotient_unowned_memory_bytes", Gauge, Bytes, [],
        "Memory that belongs to no group: the allocator's total less the sum over the groups.";
    MEMORY_TRACKED = "quotient_memory_tracked_bytes", Gauge, Bytes, [],
        "Memory that the allocator has given out, with the reservations.";
    MEMORY_RESIDENT = "quotient_memory_resident_bytes", Gauge, Bytes, [],
        "What the kernel keeps in memory for the process.";
    MEMORY_CGROUP = "quotient_memory_cgroup_bytes", Gauge, Bytes, [],
        "What the cgroup nearest to its limit holds, less page cache that can be taken back.";
    MEMORY_CGROUP_LIMIT = "quotient_memory_cgroup_limit_bytes", Gauge, Bytes, [],
        "Limit of that cgroup.";
    MEMORY_USED = "quotient_memory_used_bytes", Gauge, Bytes, [],
        "Memory used, as compared with the limit: the greatest of the figures that are about this process.";
    MEMORY_LIMIT = "quotient_memory_limit_bytes", Gauge, Bytes, [],
        "memory_limit of the governor: explicit, else the cgroup's, else the physical memory.";
    UNCLASSIFIED = "quotient_unclassified_total", Counter, Count, [],
        "Requests that matched no classifier and went to default_wg.";
    QUERY_NUM_RUNNER_THREADS = "quotient_query_num_runner_threads", Gauge, Count, [],
        "Queries that may run at once over all groups while memory is not short; +Inf = no limit.";
    QUERY_RUNNING = "quotient_query_running_total", Gauge, Count, [],
        "Queries that hold a slot now, over all groups.";
    QUERY_MAX_ALLOWED = "quotient_query_max_allowed_queries", Gauge, Count, [],
        "Queries that may run at once now: less than the runner threads while and after memory is short.";
    QUERY_THROTTLING_SINCE = "quotient_query_throttling_since_ms", Gauge, Count, [],
        "For how many milliseconds admission has been throttled for memory; 0 while it is not.";
    QUERY_THROTTLING_TOTAL = "quotient_query_throttling_total_ms", Gauge, Count, [],
        "Milliseconds in which admission was throttled for memory, so far.";
    QUERY_THROTTLING_GC = "quotient_query_throttling_gc_requested", Gauge, Count, [],
        "How often lasting throttling asked the allocator to give free memory back, so far.";
    WORKER_BUSY = "quotient_worker_busy_seconds_total", Counter, Seconds, ["worker"],
        "Time that the worker spent in polls.";
    WORKER_PARKS = "quotient_worker_parks_total", Counter, Count, ["worker"],
        "How often the worker went to sleep.";
    POLLS = "quotient_polls_total", Counter, Count, ["path"],
        "Polls while one group had work (fast) and while groups competed (fair).";
    SPARES = "quotient_spares", Gauge, Count, [],
        "Threads that serve now in the place of workers in long polls or in block_in_place.";
    SPARES_STARTED = "quotient_spares_started_total", Counter, Count, [],
        "How often such a thread has begun to serve.";
    BLOCKING_THREADS = "quotient_blocking_threads", Gauge, Count, ["state"],
        "Threads of the blocking pool: running a closure, or waiting for one.";
    OVERRUNS = "quotient_overruns_total", Counter, Count, [],
        "Polls that were found to be longer than long_poll_threshold while they went on.";
    UNMANAGED_CPU = "quotient_unmanaged_cpu_seconds_total", Counter, Seconds, [],
        "CPU time of the process that no group was charged for: raw tokio tasks, other threads.";
    KILL_LATENCY = "quotient_kill_latency_seconds", Histogram, Seconds, ["stage"],
        "From going over a limit to the kill, and from a kill to the drop of the query's last future.";
    CATALOG_VERSION = "quotient_catalog_version", Gauge, Count, [],
        "Version of the catalog in force.";
    CATALOG_APPLY_ERRORS = "quotient_catalog_apply_errors_total", Counter, Count, [],
        "Statements and kept catalogs that were refused when they were to be applied.";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// StarTree's names, kept as operators know them.
    const AS_ELSEWHERE: [&str; 2] = [QUERY_RUNNING.name, QUERY_THROTTLING_TOTAL.name];

    #[test]
    fn names_are_distinct_and_follow_prometheus_rules() {
        for (place, metric) in ALL.iter().enumerate() {
            assert!(ALL[..place].iter().all(|other| other.name != metric.name));
            assert!(metric.name.starts_with("quotient_"));
            if AS_ELSEWHERE.contains(&metric.name) {
                continue;
            }
            let base = metric.name.strip_suffix("_total");
            assert_eq!(
                base.is_some(),
                metric.kind == Kind::Counter,
                "{}",
                metric.name
            );
            let base = base.unwrap_or(metric.name);
            assert_eq!(
                base.ends_with("_seconds"),
                metric.unit == Unit::Seconds,
                "{base}"
            );
            assert_eq!(
                base.ends_with("_ratio"),
                metric.unit == Unit::Ratio,
                "{base}"
            );
            assert_eq!(
                base.ends_with("_bytes"),
                metric.unit == Unit::Bytes,
                "{base}"
            );
            assert!(metric.help.ends_with('.') && !metric.help.contains(['\n', '\\']));
        }
    }
}
