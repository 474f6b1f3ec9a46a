//! The figures of one moment, as the page reads them.
//!
//! Mechanism; the thread that serves a connection, and nothing here waits. The same snapshot as for the metrics, and the
//! system views by SQL, so that page, metrics and SELECT agree. A column's name is a field's name; what is not known is
//! null.

use crate::governor::Governor;
use crate::metrics::snapshot::{AdmissionOutcome, GroupRow, Snapshot};
use crate::sql::{Output, Value as Cell};
use crate::unit::Nanos;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Lines of each list under the groups.
const LINES: usize = 20;

/// What is asked of the catalog for each group.
const PROPERTIES: &str =
    "SELECT name, cpu_core_limit, max_cpu_cores, concurrency_limit FROM groups";

/// Takes the picture.
pub(super) async fn take(governor: &Governor) -> Value {
    let snapshot = governor.metrics();
    let properties = rows(governor, PROPERTIES).await;
    let lists = |view: &str, order: &str| {
        format!("SELECT * FROM {view} ORDER BY {order} DESC LIMIT {LINES}")
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "catalog_version": snapshot.catalog_version,
        "workers": snapshot.workers.len(),
        "busy_seconds": seconds(snapshot.workers.iter().fold(Nanos::ZERO, |sum, it| sum.plus(it.busy))),
        "unmanaged_cpu_seconds": seconds(snapshot.unmanaged_cpu),
        "memory": memory(&snapshot),
        "queries": queries(&snapshot),
        "groups": groups(&snapshot, &properties),
        "top": rows(governor, &lists("queries", "cpu_seconds")).await,
        "runaway": rows(governor, &lists("runaway_events", "at_unix_seconds")).await,
        "long_polls": rows(governor, &lists("long_polls", "seconds")).await,
    })
}

fn memory(snapshot: &Snapshot) -> Value {
    let memory = &snapshot.memory;
    json!({
        "used": memory.used,
        "limit": memory.limit,
        "tracked": memory.tracked,
        "unowned": memory.unowned,
        "resident": memory.resident,
    })
}

fn queries(snapshot: &Snapshot) -> Value {
    let queries = &snapshot.queries;
    let queued: u64 = snapshot
        .groups
        .iter()
        .map(|group| group.queries_queued)
        .sum();
    json!({
        "running": queries.running,
        "queued": queued,
        "max_allowed": queries.max_allowed,
        "num_runner_threads": queries.num_runner_threads,
        "throttling_seconds": seconds(queries.throttling_for),
    })
}

/// One entry per name, in the names' order: a group that drains beside a new one of its name is added to it.
fn groups(snapshot: &Snapshot, properties: &[Value]) -> Vec<Value> {
    let by_name = properties
        .iter()
        .map(|group| (group["name"].as_str(), group));
    let by_name: BTreeMap<Option<&str>, &Value> = by_name.collect();
    let entry = |(name, row): (&str, GroupRow)| {
        let mut group = figures(name, &row);
        let limits = by_name.get(&Some(name)).and_then(|it| it.as_object());
        let limits = limits.into_iter().flatten();
        group.extend(limits.map(|(key, value)| (key.clone(), value.clone())));
        Value::Object(group)
    };
    snapshot.by_name().into_iter().map(entry).collect()
}

fn figures(name: &str, row: &GroupRow) -> Map<String, Value> {
    let usage = &row.usage;
    let refused = row.admission.iter();
    let refused = refused.filter(|((outcome, _), _)| {
        *outcome == AdmissionOutcome::Rejected || *outcome == AdmissionOutcome::TimedOut
    });
    let figures = json!({
        "name": name,
        "cpu_seconds": seconds(usage.cpu()),
        "share": usage.share,
        "entitled": usage.entitled,
        "lag_seconds": usage.lag_ns as f64 / 1e9,
        "running": row.queries_running,
        "queued": row.queries_queued,
        "tasks": usage.tasks_running + usage.tasks_queued + usage.tasks_waiting,
        "polls": usage.polls,
        "long_polls": usage.long_polls,
        "io_bytes": usage.io.total(),
        "memory": row.memory.used,
        "memory_peak": row.memory.peak,
        "memory_limit": row.memory.limit,
        "refused": refused.map(|(_, count)| count).sum::<u64>(),
        "runaway": row.big_queries.values().sum::<u64>(),
    });
    match figures {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The rows of a SELECT, each an object by its columns.
async fn rows(governor: &Governor, statement: &str) -> Vec<Value> {
    let outputs = governor.execute(statement).await.unwrap_or_default();
    let object = |output: &Output, row: &[Cell]| {
        let columns = output.columns().iter().cloned();
        Value::Object(columns.zip(row.iter().map(value)).collect())
    };
    let all = |output: Output| -> Vec<Value> {
        output
            .rows()
            .iter()
            .map(|row| object(&output, row))
            .collect()
    };
    outputs.into_iter().flat_map(all).collect()
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Bool(is) => (*is).into(),
        Cell::Int(number) => (*number).into(),
        Cell::Float(number) => (*number).into(),
        Cell::Text(text) => text.as_str().into(),
    }
}

fn seconds(time: Nanos) -> f64 {
    time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_list_is_answered_and_a_group_has_its_figures_and_its_limits() {
        let governor = Governor::builder()
            .init_sql("CREATE RESOURCE GROUP bi TO (user='b') WITH ('cpu_core_limit'='3', 'concurrency_limit'='5', 'mem_limit'='50%')")
            .build()
            .unwrap();
        for statement in [
            PROPERTIES,
            "SELECT * FROM queries ORDER BY cpu_seconds DESC LIMIT 20",
            "SELECT * FROM runaway_events ORDER BY at_unix_seconds DESC LIMIT 20",
            "SELECT * FROM long_polls ORDER BY seconds DESC LIMIT 20",
        ] {
            governor.execute(statement).await.unwrap();
        }
        let user = "<b>\"b\"\n</b>";
        let query = governor
            .admit(&crate::Attributes::new().user(user).resource_group("bi"))
            .await
            .unwrap();
        let picture = take(&governor).await;
        let bi = &picture["groups"][0];
        assert_eq!(
            (&bi["name"], &bi["cpu_core_limit"], &bi["concurrency_limit"]),
            (&json!("bi"), &json!(3), &json!(5))
        );
        assert_eq!((&bi["running"], &bi["queued"]), (&json!(1), &json!(0)));
        assert_eq!(picture["top"][0]["id"], query.id().0);
        assert_eq!(picture["top"][0]["user_name"], user);
        // A line break would end an event in the middle.
        assert!(!picture.to_string().contains('\n'));
    }
}
