//! The view `memory`: of the process, of each group, of each query that runs.
//!
//! Pure. What nobody counts is NULL.

use super::queries::QueryRow;
use super::relation::{Cell, Relation, relation};
use crate::metrics::memory::ProcessMemory;
use crate::metrics::snapshot::GroupRow;
use crate::sql::Type;

/// One owner of memory; all figures but the last two counts in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    scope: &'static str,
    name: Option<String>,
    query: Option<u64>,
    used: Option<u64>,
    peak: Option<u64>,
    limit: Option<u64>,
    reserved: Option<u64>,
    resident: Option<u64>,
    cgroup: Option<u64>,
    waiting: Option<u64>,
    spill_requests: Option<u64>,
}

const COLUMNS: [Cell<Row>; 11] = [
    ("scope", Type::Text, |row| row.scope.into()),
    ("group_name", Type::Text, |row| row.name.clone().into()),
    ("query_id", Type::Int, |row| row.query.into()),
    ("used_bytes", Type::Int, |row| row.used.into()),
    ("peak_bytes", Type::Int, |row| row.peak.into()),
    ("limit_bytes", Type::Int, |row| row.limit.into()),
    ("reserved_bytes", Type::Int, |row| row.reserved.into()),
    ("resident_bytes", Type::Int, |row| row.resident.into()),
    ("cgroup_bytes", Type::Int, |row| row.cgroup.into()),
    ("waiting_reservations", Type::Int, |row| row.waiting.into()),
    ("spill_requests", Type::Int, |row| row.spill_requests.into()),
];

/// The process, what belongs to no group of it, then the groups and the queries that run, in the order given.
pub fn memory<'a>(
    process: &ProcessMemory,
    groups: impl IntoIterator<Item = &'a GroupRow>,
    queries: impl IntoIterator<Item = &'a QueryRow>,
) -> Relation {
    let mut rows = vec![
        Row {
            scope: "process",
            used: process.tracked,
            limit: Some(process.limit),
            resident: process.resident,
            cgroup: process.cgroup,
            ..Row::default()
        },
        Row {
            scope: "unowned",
            used: process.unowned,
            ..Row::default()
        },
    ];
    rows.extend(groups.into_iter().map(|group| Row {
        scope: "group",
        name: Some(group.name.clone()),
        used: group.memory.used,
        peak: group.memory.peak,
        limit: group.memory.limit,
        reserved: Some(group.memory.reserved),
        waiting: Some(group.memory.waiting),
        spill_requests: Some(group.memory.spill_requests),
        ..Row::default()
    }));
    // One that waits for a place has nothing yet.
    let running = queries.into_iter().filter(|query| query.state != "waiting");
    rows.extend(running.map(|query| Row {
        scope: "query",
        name: Some(query.group.clone()),
        query: Some(query.id),
        used: query.memory.map(|(used, _)| used.0),
        peak: query.memory.map(|(_, peak)| peak.0),
        ..Row::default()
    }));
    relation("memory", &COLUMNS, &rows)
}
