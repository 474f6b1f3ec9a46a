//! A snapshot as a page of Prometheus' text format.
//!
//! Pure. Seconds are written exactly, as decimals, though they are counted in nanoseconds. A family without
//! series is left out. Each family is contiguous and no series occurs twice: rows of one name were added up.

use super::memory::{GroupMemory, ProcessMemory};
use super::names::{self, Metric};
use super::series::{Page, Sample, Seconds, SignedSeconds, Sink, Value};
use super::snapshot::{GroupRow, Queries, Snapshot};
use crate::admission::waits::WAIT_BOUNDS;
use crate::exec::stats::{PoolUsage, TIME_BOUNDS, TimeHistogram};
use crate::unit::Nanos;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The page: what `GET /metrics` answers, with content type `text/plain; version=0.0.4`.
///
/// # Examples
///
/// ```
/// use quotient::metrics::{Snapshot, text::render};
///
/// let page = render(&Snapshot { catalog_version: 7, ..Snapshot::default() });
/// assert!(page.contains("\nquotient_catalog_version 7\n"));
/// ```
pub fn render(snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    walk(snapshot, &mut text);
    text.page
}

/// Gives every sample of the snapshot to `sink`, in the order of the table of names.
pub(crate) fn walk(snapshot: &Snapshot, sink: &mut dyn Sink) {
    let mut page = Page::new(sink);
    groups(&mut page, &snapshot.by_name());
    memory(&mut page, &snapshot.memory);
    page.family(&names::UNCLASSIFIED)
        .line(&[], snapshot.unclassified);
    queries(&mut page, &snapshot.queries);
    workers(&mut page, snapshot);
    page.family(&names::SPARES)
        .line(&[], snapshot.spares.serving);
    page.family(&names::SPARES_STARTED)
        .line(&[], snapshot.spares.started);
    let mut family = page.family(&names::BLOCKING_THREADS);
    let PoolUsage { threads, busy } = snapshot.blocking_pool;
    family.line(&["busy"], busy);
    family.line(&["idle"], threads.saturating_sub(busy));
    page.family(&names::OVERRUNS)
        .line(&[], snapshot.spares.late_polls);
    page.family(&names::UNMANAGED_CPU)
        .line(&[], Seconds(snapshot.unmanaged_cpu));
    let mut family = page.family(&names::KILL_LATENCY);
    for (stage, times) in [
        ("crossing_to_kill", &snapshot.kills.crossing_to_kill),
        ("kill_to_drop", &snapshot.kills.kill_to_drop),
    ] {
        family.histogram(stage, &TIME_BOUNDS, &times.buckets, times.sum);
    }
    page.family(&names::CATALOG_VERSION)
        .line(&[], snapshot.catalog_version);
    page.family(&names::CATALOG_APPLY_ERRORS)
        .line(&[], snapshot.catalog_apply_errors);
}

fn groups(page: &mut Page, rows: &BTreeMap<&str, GroupRow>) {
    let mut family = page.family(&names::GROUP_CPU);
    for (name, row) in rows {
        family.line(&[name, "poll"], Seconds(row.usage.cpu_poll));
        family.line(&[name, "drop"], Seconds(row.usage.cpu_drop));
        family.line(&[name, "blocking"], Seconds(row.usage.cpu_blocking));
    }
    each(page, &names::GROUP_POLLS, rows, |row| row.usage.polls);
    each(page, &names::GROUP_LONG_POLLS, rows, |row| {
        row.usage.long_polls
    });
    each(page, &names::GROUP_TASKS_SPAWNED, rows, |row| {
        row.usage.tasks_total
    });
    let mut family = page.family(&names::GROUP_TASKS);
    for (name, row) in rows {
        family.line(&[name, "running"], row.usage.tasks_running);
        family.line(&[name, "queued"], row.usage.tasks_queued);
        family.line(&[name, "waiting"], row.usage.tasks_waiting);
    }
    histograms(page, &names::GROUP_QUEUE_DELAY, rows, |row| {
        &row.usage.queue_delay
    });
    histograms(page, &names::GROUP_POLL_DURATION, rows, |row| {
        &row.usage.poll_duration
    });
    each(page, &names::GROUP_LAG, rows, |row| {
        SignedSeconds(row.usage.lag_ns)
    });
    each(page, &names::GROUP_CPU_SHARE, rows, |row| row.usage.share);
    each(page, &names::GROUP_CPU_ENTITLED, rows, |row| {
        row.usage.entitled
    });
    each(page, &names::GROUP_THROTTLED, rows, |row| {
        Seconds(row.usage.throttled)
    });
    each(page, &names::GROUP_RESERVED, rows, |row| row.usage.reserved);
    blocking(page, rows);
    group_memory(page, rows);
    let mut family = page.family(&names::GROUP_IO_BYTES);
    for (name, row) in rows {
        family.line(&[name, "read"], row.usage.io.read);
        family.line(&[name, "write"], row.usage.io.written);
    }
    each(page, &names::GROUP_IO_THROTTLED, rows, |row| {
        Seconds(row.usage.io_throttled)
    });
    let mut family = page.family(&names::GROUP_QUERIES);
    for (name, row) in rows {
        family.line(&[name, "running"], row.queries_running);
        family.line(&[name, "queued"], row.queries_queued);
    }
    let mut family = page.family(&names::GROUP_QUERIES_ENDED);
    for (name, row) in rows {
        family.line(&[name, "completed"], row.queries_ended.completed);
        family.line(&[name, "failed"], row.queries_ended.failed);
        family.line(&[name, "killed"], row.queries_ended.killed);
        family.line(&[name, "cancelled"], row.queries_ended.cancelled);
    }
    let mut family = page.family(&names::GROUP_ADMISSION);
    for (name, row) in rows {
        for ((outcome, reason), count) in &row.admission {
            family.line(&[name, outcome.label(), reason.label()], count);
        }
    }
    let mut family = page.family(&names::GROUP_ADMISSION_WAIT);
    for (name, row) in rows {
        let waits = &row.admission_wait;
        family.histogram(name, &WAIT_BOUNDS, &waits.buckets, waits.sum);
    }
    each(page, &names::GROUP_CLASSIFIED, rows, |row| row.classified);
    let mut family = page.family(&names::GROUP_BIG_QUERY);
    for (name, row) in rows {
        for ((kind, action), count) in &row.big_queries {
            family.line(&[name, kind, action], count);
        }
    }
}

fn group_memory(page: &mut Page, rows: &BTreeMap<&str, GroupRow>) {
    let mut known = |metric, value: fn(&GroupMemory) -> Option<u64>| {
        let mut family = page.family(metric);
        for (name, row) in rows {
            if let Some(value) = value(&row.memory) {
                family.line(&[name], value);
            }
        }
    };
    known(&names::GROUP_MEMORY, |memory| memory.used);
    known(&names::GROUP_MEMORY_LIMIT, |memory| memory.limit);
    known(&names::GROUP_MEMORY_PEAK, |memory| memory.peak);
    each(page, &names::GROUP_MEMORY_RESERVED, rows, |row| {
        row.memory.reserved
    });
    each(page, &names::GROUP_MEMORY_WAITING, rows, |row| {
        row.memory.waiting
    });
    each(page, &names::GROUP_SPILL_REQUESTS, rows, |row| {
        row.memory.spill_requests
    });
}

/// What is not known has no series: zero would be a lie.
fn memory(page: &mut Page, memory: &ProcessMemory) {
    let known = [
        (&names::UNOWNED_MEMORY, memory.unowned),
        (&names::MEMORY_TRACKED, memory.tracked),
        (&names::MEMORY_RESIDENT, memory.resident),
        (&names::MEMORY_CGROUP, memory.cgroup),
        (&names::MEMORY_CGROUP_LIMIT, memory.cgroup_limit),
        (&names::MEMORY_USED, Some(memory.used)),
        (&names::MEMORY_LIMIT, Some(memory.limit)),
    ];
    for (metric, value) in known {
        if let Some(value) = value {
            page.family(metric).line(&[], value);
        }
    }
}

fn queries(page: &mut Page, queries: &Queries) {
    let bound = |limit: Option<u64>| limit.map_or(Value::Real(f64::INFINITY), Value::from);
    let ms = |time: Nanos| time.0 / 1_000_000;
    page.family(&names::QUERY_NUM_RUNNER_THREADS)
        .line(&[], bound(queries.num_runner_threads));
    page.family(&names::QUERY_RUNNING)
        .line(&[], queries.running);
    page.family(&names::QUERY_MAX_ALLOWED)
        .line(&[], bound(queries.max_allowed));
    page.family(&names::QUERY_THROTTLING_SINCE)
        .line(&[], ms(queries.throttling_for));
    page.family(&names::QUERY_THROTTLING_TOTAL)
        .line(&[], ms(queries.throttling_total));
    page.family(&names::QUERY_THROTTLING_GC)
        .line(&[], queries.collections);
}

/// The label of those that stand in for workers, all together: their number has no small bound.
const SPARES: &str = "spares";

fn workers(page: &mut Page, snapshot: &Snapshot) {
    let mut family = page.family(&names::WORKER_BUSY);
    for (number, worker) in snapshot.workers.iter().enumerate() {
        family.line(&[&number.to_string()], Seconds(worker.busy));
    }
    let spares = &snapshot.spares.work;
    family.line(&[SPARES], Seconds(spares.busy));
    let mut family = page.family(&names::WORKER_PARKS);
    for (number, worker) in snapshot.workers.iter().enumerate() {
        family.line(&[&number.to_string()], worker.parks);
    }
    family.line(&[SPARES], spares.parks);
    let all = || snapshot.workers.iter().chain([spares]);
    let mut family = page.family(&names::POLLS);
    family.line(&["fast"], all().map(|one| one.polls_fast).sum::<u64>());
    family.line(&["fair"], all().map(|one| one.polls_fair).sum::<u64>());
}

fn blocking(page: &mut Page, rows: &BTreeMap<&str, GroupRow>) {
    let mut family = page.family(&names::GROUP_IO_TIME);
    for (name, row) in rows {
        family.line(&[name, "blocking"], Seconds(row.usage.io_blocking));
    }
    let mut family = page.family(&names::GROUP_BLOCKING);
    for (name, row) in rows {
        family.line(&[name, "running"], row.usage.blocking_running);
        family.line(&[name, "queued"], row.usage.blocking_queued);
    }
}

fn each<V: Into<Value>>(
    page: &mut Page,
    metric: &'static Metric,
    rows: &BTreeMap<&str, GroupRow>,
    value: impl Fn(&GroupRow) -> V,
) {
    let mut family = page.family(metric);
    for (name, row) in rows {
        family.line(&[name], value(row));
    }
}

fn histograms(
    page: &mut Page,
    metric: &'static Metric,
    rows: &BTreeMap<&str, GroupRow>,
    of: impl Fn(&GroupRow) -> &TimeHistogram,
) {
    let mut family = page.family(metric);
    for (name, row) in rows {
        let times = of(row);
        family.histogram(name, &TIME_BOUNDS, &times.buckets, times.sum);
    }
}

/// The page, and the family that it is in.
#[derive(Default)]
struct Text {
    page: String,
    family: &'static str,
}

impl Sink for Text {
    fn sample(&mut self, sample: Sample<'_>) {
        let Metric {
            name, kind, help, ..
        } = sample.metric;
        let page = &mut self.page;
        // Writing to a String cannot fail.
        if self.family != *name {
            self.family = name;
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {}", kind.word());
        }
        page.push_str(name);
        page.push_str(sample.part.suffix());
        let mut before = '{';
        for (label, value) in sample.labels {
            page.push(before);
            page.push_str(label);
            page.push_str("=\"");
            push_escaped(page, value);
            page.push('"');
            before = ',';
        }
        if before == ',' {
            page.push('}');
        }
        let _ = writeln!(page, " {}", sample.value);
    }
}

/// Each of the three characters on its own, so that no two values are written alike.
fn push_escaped(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}
