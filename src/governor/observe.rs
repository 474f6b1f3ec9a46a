//! Looking at a governor: the snapshot that metrics are rendered from, and SHOW USAGE.
//!
//! Wiring; any thread. Everything here pulls; a scrape takes no lock that a poll takes, but for a moment the
//! scheduler's.

use super::routing::Entry;
use super::{Governor, machine};
use crate::admission::{Counts, GovernorAdmission, GroupAdmission};
use crate::exec::stats::{GroupUsage, LongPoll};
use crate::mem;
use crate::metrics::memory::{GroupMemory, ProcessMemory};
use crate::metrics::snapshot::{
    AdmissionOutcome, AdmissionReason, GroupRow, Queries, QueryOutcomes, Snapshot, unmanaged,
};
use crate::metrics::text;
use crate::query::Outcome;
use crate::sql::{Output, Spanned, SqlError};
use crate::unit::{Bytes, GroupId, Nanos};
use crate::view;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Governor {
    /// All metrics in Prometheus' text format.
    ///
    /// # Metrics
    ///
    /// Those of [`metrics::names`](crate::metrics::names).
    pub fn render_metrics(&self) -> String {
        let _ours = crate::mem::enter_process();
        text::render(&self.metrics())
    }

    /// All metrics as plain values of this moment.
    pub fn metrics(&self) -> Snapshot {
        let inner = &*self.inner;
        self.sweep();
        let (mut groups, past_cpu) = self.rows();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        let charged = groups.iter().fold(past_cpu, |sum, g| sum.plus(cpu(g)));
        let memory = self.memory(&groups);
        let before = Nanos(inner.unmanaged_cpu.load(Relaxed));
        let unmanaged_cpu = unmanaged(machine::process_cpu(), charged, before);
        inner.unmanaged_cpu.fetch_max(unmanaged_cpu.0, Relaxed);
        Snapshot {
            groups,
            workers: inner.core.worker_usage(),
            memory,
            spares: inner.core.spare_usage(),
            blocking_pool: inner.core.pool_usage(),
            unclassified: inner.unclassified.load(Relaxed),
            queries: queries(inner.gate.governor()),
            unmanaged_cpu,
            kills: inner.core.kill_latency(),
            catalog_version: inner.routing.load().snapshot.version(),
            catalog_apply_errors: inner.apply_errors.load(Relaxed),
        }
    }

    /// The memory of the process, of which the groups own theirs.
    fn memory(&self, groups: &[GroupRow]) -> ProcessMemory {
        let reading = self.inner.pressure.read();
        let owned = groups.iter().filter_map(|group| group.memory.used);
        let bytes = |value: Option<Bytes>| value.map(|bytes| bytes.0);
        ProcessMemory {
            resident: bytes(reading.resident),
            cgroup: reading.cgroup.map(|cgroup| cgroup.used().0),
            cgroup_limit: reading.cgroup.map(|cgroup| cgroup.limit.0),
            used: reading.used().0,
            limit: reading.limit.0,
            ..ProcessMemory::default()
        }
        .tracking(bytes(reading.root), owned.sum())
    }

    /// Polls longer than the threshold that others had to wait for, the newest first: the last 256, those that go on
    /// included. Whose they were, where the task was spawned, how long they took, who waited.
    pub fn long_polls(&self) -> Vec<LongPoll> {
        self.inner.core.long_polls()
    }

    /// One row per group, and what is in none of them any more. Nothing moves from one group to another
    /// meanwhile, so that nothing is missed or counted twice.
    fn rows(&self) -> (Vec<GroupRow>, Nanos) {
        let dropped = self.inner.dropped.lock();
        let mut admission = self.admission();
        let mut rows: Vec<GroupRow> = self
            .listed(&dropped)
            .iter()
            .map(|entry| row(entry, admission.remove(&entry.key).as_ref()))
            .collect();
        // A group that is being created may have inherited counts already.
        let early = admission.into_values().map(|a| GroupRow {
            name: a.name.to_string(),
            admission: counts(&a),
            admission_wait: a.waits,
            ..GroupRow::default()
        });
        rows.extend(early.filter(|row| !row.admission.is_empty()));
        (rows, Nanos(self.inner.past_cpu.load(Relaxed)))
    }

    /// Every group that has anything to show: those of the catalog, then dropped ones that still drain.
    fn listed(&self, dropped: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
        let mut entries: Vec<_> = self.inner.routing.load().entries().cloned().collect();
        entries.extend(dropped.iter().cloned());
        entries
    }

    fn admission(&self) -> BTreeMap<GroupId, GroupAdmission> {
        self.inner
            .gate
            .groups()
            .into_iter()
            .map(|group| (group.group, group))
            .collect()
    }

    /// Lets go of dropped groups whose last query and task have ended. What they counted passes to the group
    /// that has their name now; if there is none, what they were charged stays counted.
    pub(super) fn sweep(&self) {
        let inner = &*self.inner;
        let mut dropped = inner.dropped.lock();
        let is_gone = |entry: &mut Arc<Entry>| inner.gate.is_over(entry.key) && !entry.is_alive();
        let gone: Vec<Arc<Entry>> = dropped.extract_if(.., is_gone).collect();
        for entry in gone {
            // What the gate counted it passes on itself.
            inner.gate.forget(entry.key);
            let last = at_rest(row(&entry, None));
            let routing = inner.routing.load();
            let namesake = dropped.iter().find(|other| other.name == entry.name);
            match routing.by_name(&entry.name).or(namesake) {
                Some(heir) => heir.heritage.lock().add(&last),
                None => drop(inner.past_cpu.fetch_add(cpu(&last).0, Relaxed)),
            }
        }
    }

    /// SHOW USAGE RESOURCE GROUPS, or of one group.
    pub(super) fn show_usage(&self, only: Option<&Spanned<String>>) -> Result<Output, SqlError> {
        if let Some(name) = only {
            self.inner.routing.load().snapshot.find(name)?;
        }
        let rows = self.usage_rows(only.map(|name| name.value.as_str()));
        Ok(view::usage::table(rows.iter().map(|(id, row)| (*id, row))))
    }

    /// One row per group and drained namesake, or those of one name; by name, then id.
    pub(super) fn usage_rows(&self, only: Option<&str>) -> Vec<(GroupId, GroupRow)> {
        let admission = self.admission();
        let mut entries = self.listed(&self.inner.dropped.lock());
        entries.retain(|entry| only.is_none_or(|name| name == &*entry.name));
        entries.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        entries
            .iter()
            .map(|entry| (entry.id, row(entry, admission.get(&entry.key))))
            .collect()
    }
}

fn cpu(row: &GroupRow) -> Nanos {
    row.usage.cpu()
}

/// What remains of a row when its group is gone: the counters without the gauges.
fn at_rest(mut row: GroupRow) -> GroupRow {
    row.usage = GroupUsage {
        tasks_running: 0,
        tasks_queued: 0,
        tasks_waiting: 0,
        blocking: 0,
        blocking_queued: 0,
        blocking_running: 0,
        reserved: 0,
        lag_ns: 0,
        share: 0.0,
        entitled: 0.0,
        ..row.usage
    };
    row.memory = row.memory.at_rest();
    row
}

fn group_memory(entry: &Entry) -> GroupMemory {
    let (memory, desk) = (entry.group.memory(), entry.group.desk());
    let tracked = mem::is_installed();
    GroupMemory {
        used: tracked.then(|| memory.used()),
        peak: tracked.then(|| memory.peak()),
        limit: Some(entry.mem_limit.load(Relaxed)),
        reserved: desk.reserved(),
        waiting: desk.waiting() as u64,
        spill_requests: desk.asks(),
    }
}

fn queries(a: GovernorAdmission) -> Queries {
    Queries {
        num_runner_threads: a.runner_threads,
        running: a.running,
        max_allowed: a.max_allowed,
        throttling_for: a.throttling_for,
        throttling_total: a.throttling_total,
        collections: a.collections,
    }
}

fn counts(a: &GroupAdmission) -> BTreeMap<(AdmissionOutcome, AdmissionReason), u64> {
    use {AdmissionOutcome as O, AdmissionReason as R};
    let Counts {
        admitted,
        waited,
        nested,
        rejected,
        timed_out,
        cancelled,
        ..
    } = a.counts;
    let at_once = (admitted + nested).saturating_sub(waited.place + waited.throttle);
    let counts = [
        ((O::Admitted, R::None), at_once),
        ((O::Admitted, R::Queue), waited.place),
        ((O::Admitted, R::Throttle), waited.throttle),
        ((O::Rejected, R::Concurrency), rejected.concurrency),
        ((O::Rejected, R::Queue), rejected.queue),
        ((O::Rejected, R::Throttle), rejected.throttle),
        ((O::Rejected, R::Shutdown), rejected.shutdown),
        ((O::TimedOut, R::Queue), timed_out.place),
        ((O::TimedOut, R::Throttle), timed_out.throttle),
        ((O::Cancelled, R::Queue), cancelled.place),
        ((O::Cancelled, R::Throttle), cancelled.throttle),
    ];
    counts.into_iter().filter(|&(_, count)| count > 0).collect()
}

fn row(entry: &Entry, admission: Option<&GroupAdmission>) -> GroupRow {
    let mut row = GroupRow {
        name: entry.name.to_string(),
        usage: entry.usage(),
        memory: group_memory(entry),
        queries_running: admission.map_or(0, |a| a.running),
        queries_queued: admission.map_or(0, |a| a.queued),
        queries_ended: QueryOutcomes {
            completed: entry.outcome(Outcome::Completed),
            failed: entry.outcome(Outcome::Failed),
            killed: entry.outcome(Outcome::Killed),
            cancelled: entry.outcome(Outcome::Cancelled),
        },
        admission: admission.map(counts).unwrap_or_default(),
        admission_wait: admission.map(|a| a.waits).unwrap_or_default(),
        classified: entry.classified.load(Relaxed),
        big_queries: entry.fuse.trips(),
    };
    let watched = entry.fuse.watched();
    if watched > 0 {
        let refused = (AdmissionOutcome::Rejected, AdmissionReason::Watch);
        *row.admission.entry(refused).or_default() += watched;
    }
    row.add(&entry.heritage.lock());
    row
}
