//! The system views over what was pulled: groups, classifiers, workers, scheduler, admission, rejections.
//!
//! Pure. Units are in the columns' names; a count that is not kept is NULL.

use super::relation::{Column, Relation};
use super::usage;
use crate::catalog::history::{self, Change};
use crate::catalog::{Snapshot as Catalog, show};
use crate::exec::stats::{TimeHistogram, WorkerUsage};
use crate::metrics::snapshot::{AdmissionOutcome, GroupRow, Snapshot};
use crate::sql::{Type, Value};
use crate::unit::GroupId;

fn columns<const N: usize>(columns: [(&'static str, Type); N]) -> Vec<Column> {
    let column = |(name, kind)| Column { name, kind };
    columns.into_iter().map(column).collect()
}

/// `groups`: one row per group that is there or drains; first what SHOW USAGE shows, then its properties, which are
/// NULL for a group that was dropped.
pub fn groups<'a>(
    rows: impl IntoIterator<Item = (GroupId, &'a GroupRow)>,
    catalog: &Catalog,
) -> Relation {
    let known: Vec<&str> = usage::columns().map(|column| column.name).collect();
    let keep: Vec<bool> = show::columns()
        .map(|(name, _)| !known.contains(&name))
        .collect();
    let properties = show::columns().map(|(name, kind)| Column { name, kind });
    let properties = properties.zip(&keep).filter(|(_, keep)| **keep);
    let columns: Vec<Column> = usage::columns()
        .chain(properties.map(|(column, _)| column))
        .collect();
    let cells = |(id, row): (GroupId, &GroupRow)| {
        let mut cells = usage::cells(id, row);
        if let Some(group) = catalog.group(&row.name).filter(|group| group.id == id) {
            let properties = show::cells(group).into_iter().zip(&keep);
            cells.extend(properties.filter(|(_, keep)| **keep).map(|(cell, _)| cell));
        }
        cells.resize(columns.len(), Value::Null);
        cells
    };
    let rows = rows.into_iter().map(cells).collect();
    Relation {
        name: "groups",
        columns,
        rows,
    }
}

/// `classifiers`: one row per classifier; a condition that it does not have is NULL.
pub fn classifiers(catalog: &Catalog) -> Relation {
    let mut rows = Vec::new();
    for group in catalog.groups_by_name() {
        for classifier in &group.classifiers {
            let types: Vec<&str> = classifier.query_types.iter().map(|t| t.name()).collect();
            let some = |text: String| (!text.is_empty()).then_some(text);
            rows.push(vec![
                classifier.id.0.into(),
                group.name.as_str().into(),
                classifier.starrocks_weight().into(),
                classifier.user.as_deref().into(),
                classifier.role.as_deref().into(),
                some(types.join(", ")).into(),
                some(classifier.db_list()).into(),
                classifier.source_ip.map(|net| net.to_string()).into(),
                classifier.plan_cpu_cost_range.map(|r| r.to_string()).into(),
                classifier.plan_mem_cost_range.map(|r| r.to_string()).into(),
                classifier.to_string().into(),
            ]);
        }
    }
    Relation {
        name: "classifiers",
        columns: columns([
            ("id", Type::Int),
            ("group_name", Type::Text),
            ("weight", Type::Float),
            ("user_name", Type::Text),
            ("role", Type::Text),
            ("query_type", Type::Text),
            ("db", Type::Text),
            ("source_ip", Type::Text),
            ("plan_cpu_cost_range", Type::Text),
            ("plan_mem_cost_range", Type::Text),
            ("text", Type::Text),
        ]),
        rows,
    }
}

/// `catalog_history`: one row per version that is kept, the newest first.
pub fn catalog_history(changes: &[Change]) -> Relation {
    let kinds = [Type::Int, Type::Text, Type::Int, Type::Text];
    let columns = history::COLUMNS.into_iter().zip(kinds);
    Relation {
        name: "catalog_history",
        columns: columns.map(|(name, kind)| Column { name, kind }).collect(),
        rows: changes.iter().map(Change::cells).collect(),
    }
}

/// `variables`: one row each, of name, value, default and what is allowed, in the order given.
pub fn variables(rows: impl IntoIterator<Item = [String; 4]>) -> Relation {
    let names = ["variable_name", "value", "default_value", "allowed"];
    let row = |cells: [String; 4]| cells.into_iter().map(Value::from).collect();
    Relation {
        name: "variables",
        columns: columns(names.map(|name| (name, Type::Text))),
        rows: rows.into_iter().map(row).collect(),
    }
}

/// `workers`: one row per worker, and one without a number for those that stand in.
pub fn workers(snapshot: &Snapshot) -> Relation {
    let row = |at: Value, worker: &WorkerUsage| {
        vec![
            at,
            worker.busy.as_secs_f64().into(),
            worker.parks.into(),
            worker.polls_fast.into(),
            worker.polls_fair.into(),
        ]
    };
    Relation {
        name: "workers",
        columns: columns([
            ("worker", Type::Int),
            ("busy_seconds", Type::Float),
            ("parks", Type::Int),
            ("polls_fast", Type::Int),
            ("polls_fair", Type::Int),
        ]),
        rows: (0_u64..)
            .zip(&snapshot.workers)
            .map(|(at, worker)| row(at.into(), worker))
            .chain([row(Value::Null, &snapshot.spares.work)])
            .collect(),
    }
}

/// `scheduler`: how each group's tasks were served.
pub fn scheduler<'a>(rows: impl IntoIterator<Item = (GroupId, &'a GroupRow)>) -> Relation {
    let mean = |histogram: &TimeHistogram| {
        let count: u64 = histogram.buckets.iter().sum();
        (count > 0).then(|| histogram.sum.as_secs_f64() / count as f64)
    };
    let row = |(id, row): (GroupId, &GroupRow)| {
        let usage = &row.usage;
        vec![
            row.name.as_str().into(),
            id.0.into(),
            usage.polls.into(),
            usage.long_polls.into(),
            usage.tasks_total.into(),
            usage.tasks_running.into(),
            usage.tasks_queued.into(),
            usage.tasks_waiting.into(),
            usage.cpu_poll.as_secs_f64().into(),
            usage.cpu_drop.as_secs_f64().into(),
            mean(&usage.queue_delay).into(),
            mean(&usage.poll_duration).into(),
            (usage.lag_ns as f64 / 1e9).into(),
            usage.share.into(),
            usage.entitled.into(),
            usage.io_blocking.as_secs_f64().into(),
            usage.blocking_running.into(),
            usage.blocking_queued.into(),
        ]
    };
    Relation {
        name: "scheduler",
        columns: columns([
            ("name", Type::Text),
            ("id", Type::Int),
            ("polls", Type::Int),
            ("long_polls", Type::Int),
            ("tasks_total", Type::Int),
            ("tasks_running", Type::Int),
            ("tasks_queued", Type::Int),
            ("tasks_waiting", Type::Int),
            ("cpu_poll_seconds", Type::Float),
            ("cpu_drop_seconds", Type::Float),
            ("mean_queue_delay_seconds", Type::Float),
            ("mean_poll_seconds", Type::Float),
            ("lag_seconds", Type::Float),
            ("cpu_share", Type::Float),
            ("entitled_share", Type::Float),
            ("io_seconds", Type::Float),
            ("blocking_running", Type::Int),
            ("blocking_queued", Type::Int),
        ]),
        rows: rows.into_iter().map(row).collect(),
    }
}

/// `admission`: what became of requests for a place, by group, outcome and reason; only what happened.
pub fn admission<'a>(rows: impl IntoIterator<Item = (GroupId, &'a GroupRow)>) -> Relation {
    requests("admission", rows, |_| true)
}

/// `rejections`: the same, without those that were admitted.
pub fn rejections<'a>(rows: impl IntoIterator<Item = (GroupId, &'a GroupRow)>) -> Relation {
    requests("rejections", rows, |outcome| {
        outcome != AdmissionOutcome::Admitted
    })
}

fn requests<'a>(
    name: &'static str,
    rows: impl IntoIterator<Item = (GroupId, &'a GroupRow)>,
    keep: impl Fn(AdmissionOutcome) -> bool,
) -> Relation {
    let mut cells = Vec::new();
    for (id, row) in rows {
        for (&(outcome, reason), &count) in &row.admission {
            if keep(outcome) {
                cells.push(vec![
                    row.name.as_str().into(),
                    id.0.into(),
                    outcome.label().into(),
                    reason.label().into(),
                    count.into(),
                ]);
            }
        }
    }
    Relation {
        name,
        columns: columns([
            ("name", Type::Text),
            ("id", Type::Int),
            ("outcome", Type::Text),
            ("reason", Type::Text),
            ("requests", Type::Int),
        ]),
        rows: cells,
    }
}
