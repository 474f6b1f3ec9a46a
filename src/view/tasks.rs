//! The view `tasks`: what each task does, where it comes from.
//!
//! Pure.

use super::relation::{Cell, Relation, relation};
use crate::exec::stats::TaskSeen;
use crate::sql::Type;

/// So many tasks are shown at most.
pub const SHOWN: usize = 10_000;

const COLUMNS: [Cell<TaskSeen>; 8] = [
    ("id", Type::Int, |task| task.id.into()),
    ("name", Type::Text, |task| task.name.clone().into()),
    ("group_name", Type::Text, |task| task.group.as_str().into()),
    ("query_id", Type::Int, |task| {
        task.query.map(|query| query.0).into()
    }),
    ("state", Type::Text, |task| task.state.label().into()),
    ("ready_ms", Type::Float, |task| {
        task.ready_for.map(|it| it.as_secs_f64() * 1e3).into()
    }),
    ("cpu_seconds", Type::Float, |task| {
        task.cpu.map(|cpu| cpu.as_secs_f64()).into()
    }),
    ("spawned_at", Type::Text, |task| {
        task.spawned_at.to_string().into()
    }),
];

/// `tasks`: one row each, in the order given. CPU time is NULL for a query's tasks: it is kept for the query.
pub fn tasks(rows: &[TaskSeen]) -> Relation {
    relation("tasks", &COLUMNS, rows)
}
