//! Looking at a governor: the snapshot that metrics are rendered from, and SHOW USAGE.
//!
//! Everything here pulls; a scrape takes no lock that a poll takes, but for a moment the scheduler's.

use super::routing::Entry;
use super::{Governor, machine};
use crate::admission::GroupAdmission;
use crate::metrics::snapshot::{
    AdmissionOutcome, AdmissionReason, GroupRow, QueryOutcomes, Snapshot, unmanaged,
};
use crate::metrics::text;
use crate::query::Outcome;
use crate::sql::{Output, Spanned, SqlError, Value};
use crate::unit::{GroupId, Nanos};
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
        text::render(&self.metrics())
    }

    /// All metrics as plain values of this moment.
    pub fn metrics(&self) -> Snapshot {
        let inner = &*self.inner;
        self.sweep();
        let admission = self.admission();
        let mut groups: Vec<GroupRow> = self
            .entries()
            .iter()
            .map(|entry| row(entry, admission.get(&entry.id)))
            .collect();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        let charged = groups
            .iter()
            .map(|g| g.usage.cpu_poll.plus(g.usage.cpu_drop).0)
            .sum::<u64>();
        let charged = Nanos(charged.saturating_add(inner.past_cpu.load(Relaxed)));
        let before = Nanos(inner.unmanaged_cpu.load(Relaxed));
        let unmanaged_cpu = unmanaged(machine::process_cpu(), charged, before);
        inner.unmanaged_cpu.fetch_max(unmanaged_cpu.0, Relaxed);
        Snapshot {
            groups,
            workers: inner.core.worker_usage(),
            unclassified: inner.unclassified.load(Relaxed),
            unmanaged_cpu,
            catalog_version: inner.routing.load().snapshot.version(),
            catalog_apply_errors: inner.apply_errors.load(Relaxed),
        }
    }

    /// Every group that has anything to show: those of the catalog, then dropped ones that still drain.
    fn entries(&self) -> Vec<Arc<Entry>> {
        let mut entries: Vec<_> = self.inner.routing.load().entries().cloned().collect();
        entries.extend(self.inner.dropped.lock().iter().cloned());
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

    /// Lets go of dropped groups whose last query and task have ended; what they were charged stays counted.
    pub(super) fn sweep(&self) {
        let inner = &*self.inner;
        let mut dropped = inner.dropped.lock();
        dropped.retain(|entry| {
            let usage = entry.group.usage();
            let tasks = usage.tasks_running + usage.tasks_queued + usage.tasks_waiting;
            let draining = tasks > 0 || inner.gate.group(entry.id).is_some();
            if !draining {
                inner
                    .past_cpu
                    .fetch_add(usage.cpu_poll.plus(usage.cpu_drop).0, Relaxed);
            }
            draining
        });
    }

    /// SHOW USAGE RESOURCE GROUPS, or of one group.
    pub(super) fn show_usage(&self, only: Option<&Spanned<String>>) -> Result<Output, SqlError> {
        if let Some(name) = only {
            self.inner.routing.load().snapshot.find(name)?;
        }
        let admission = self.admission();
        let mut output = Output::table(
            "SHOW USAGE RESOURCE GROUPS",
            [
                "name",
                "id",
                "running",
                "queued",
                "cpu_seconds",
                "cpu_share",
                "entitled_share",
                "lag_ms",
                "tasks",
            ],
        );
        let mut entries = self.entries();
        entries.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        for entry in entries
            .iter()
            .filter(|entry| only.is_none_or(|name| *name.value == *entry.name))
        {
            let row = row(entry, admission.get(&entry.id));
            let usage = &row.usage;
            output.push(vec![
                Value::from(row.name),
                Value::from(entry.id.0),
                Value::from(row.queries_running),
                Value::from(row.queries_queued),
                Value::from(usage.cpu_poll.plus(usage.cpu_drop).as_secs_f64()),
                Value::from(usage.share),
                Value::from(usage.entitled),
                Value::from(usage.lag_ns as f64 / 1e6),
                Value::from(usage.tasks_running + usage.tasks_queued + usage.tasks_waiting),
            ]);
        }
        Ok(output)
    }
}

fn row(entry: &Entry, admission: Option<&GroupAdmission>) -> GroupRow {
    use {AdmissionOutcome as O, AdmissionReason as R};
    let counts = admission.map(|a| {
        [
            ((O::Admitted, R::None), a.admitted + a.nested),
            ((O::Rejected, R::Concurrency), a.rejected.concurrency),
            ((O::Rejected, R::Shutdown), a.rejected.shutdown),
        ]
    });
    GroupRow {
        name: entry.name.to_string(),
        usage: entry.group.usage(),
        cpu_blocking: None,
        queries_running: admission.map_or(0, |a| a.running),
        queries_queued: 0,
        queries_ended: QueryOutcomes {
            completed: entry.outcome(Outcome::Completed),
            failed: entry.outcome(Outcome::Failed),
            killed: entry.outcome(Outcome::Killed),
            cancelled: entry.outcome(Outcome::Cancelled),
        },
        admission: counts
            .into_iter()
            .flatten()
            .filter(|&(_, count)| count > 0)
            .collect(),
        classified: entry.classified.load(Relaxed),
    }
}
