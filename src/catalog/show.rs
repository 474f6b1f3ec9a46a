//! SHOW RESOURCE GROUPS and SHOW CREATE RESOURCE GROUP: a snapshot as rows.
//!
//! Pure. One row per classifier, as in StarRocks; a group without any has one row. Properties are shown as they are
//! written, or with what holds when they are absent; where this machine gives less, a notice says so.

use super::check::clamped;
use super::draft::unknown_group;
use super::group::GroupSpec;
use super::notice;
use super::property::{Key, Setting};
use super::snapshot::Snapshot;
use crate::sql::ast::{ShowGroups, Which};
use crate::sql::like::like;
use crate::sql::value::{Memory, Number};
use crate::sql::{Output, Span, Spanned, SqlError, SqlErrorKind, Statement, Type, Value};
use std::sync::Arc;

/// One column: its name, its type, whether only VERBOSE shows it, its cell.
type Column = (&'static str, Type, bool, fn(&GroupSpec) -> Value);

const COLUMNS: [Column; 22] = [
    ("name", Type::Text, false, |g| g.name.as_str().into()),
    ("id", Type::Int, false, |g| g.id.0.into()),
    ("cpu_core_limit", Type::Int, false, |g| {
        g.cpu_core_limit().get().into()
    }),
    ("max_cpu_cores", Type::Float, false, |g| {
        match written(g, Key::MaxCpuCores) {
            Some(Setting::Cores(n)) => n.as_f64().into(),
            _ => Value::Null,
        }
    }),
    ("exclusive_cpu_cores", Type::Int, false, |g| {
        g.exclusive_cpu_cores_written().into()
    }),
    ("mem_limit", Type::Text, false, mem_limit),
    (
        "spill_mem_limit_threshold",
        Type::Text,
        false,
        |g| match written(g, Key::SpillMemLimitThreshold) {
            Some(Setting::Share(n)) => percent(*n).into(),
            _ => "100%".into(),
        },
    ),
    ("concurrency_limit", Type::Int, false, |g| {
        match written(g, Key::ConcurrencyLimit) {
            Some(Setting::Integer(n)) => (*n).into(),
            _ => Value::Null,
        }
    }),
    ("max_queued_queries", Type::Int, false, |g| {
        g.max_queued_queries().into()
    }),
    ("queue_timeout", Type::Text, false, |g| {
        g.queue_timeout().to_string().into()
    }),
    ("big_query_cpu_second_limit", Type::Float, false, |g| {
        g.big_query_cpu_second_limit()
            .map_or(0.0, |t| t.as_secs_f64())
            .into()
    }),
    ("big_query_scan_rows_limit", Type::Int, false, |g| {
        g.big_query_scan_rows_limit().unwrap_or(0).into()
    }),
    ("big_query_mem_limit", Type::Int, false, |g| {
        g.big_query_mem_limit().map_or(0, |b| b.0).into()
    }),
    ("big_query_elapsed_second_limit", Type::Float, false, |g| {
        g.big_query_elapsed_second_limit()
            .map_or(0.0, |t| t.as_secs_f64())
            .into()
    }),
    ("big_query_action", Type::Text, false, |g| {
        g.big_query_action().to_string().into()
    }),
    ("type", Type::Text, false, |g| {
        g.group_type().name().to_ascii_uppercase().into()
    }),
    ("io_weight", Type::Int, false, |g| {
        g.io_weight().get().into()
    }),
    ("max_io_bytes_per_second", Type::Int, false, |g| {
        g.max_io_bytes_per_second().map_or(0, |b| b.0).into()
    }),
    ("quarantine_after", Type::Int, true, |g| {
        g.quarantine_after().unwrap_or(0).into()
    }),
    ("quarantine_window", Type::Text, true, |g| {
        g.quarantine_window().to_string().into()
    }),
    ("mem_pool", Type::Text, true, |_| "default_mem_pool".into()),
    ("notes", Type::Text, true, |g| notes(g).into()),
];

/// The columns that VERBOSE shows, but for the classifiers: names and types.
pub fn columns() -> impl Iterator<Item = (&'static str, Type)> {
    COLUMNS.iter().map(|&(name, kind, ..)| (name, kind))
}

/// A group's cells of these columns.
pub fn cells(group: &GroupSpec) -> Vec<Value> {
    COLUMNS.iter().map(|(.., cell)| cell(group)).collect()
}

/// Answers a SHOW of groups.
///
/// # Errors
/// A group that does not exist; a statement that is not answered from the catalog alone.
pub(super) fn answer(snapshot: &Snapshot, statement: &Statement) -> Result<Output, SqlError> {
    match statement {
        Statement::ShowGroups(s) => groups(snapshot, s),
        Statement::ShowCreateGroup(name) => {
            let group = existing(snapshot, name)?;
            let mut output = Output::table(statement.tag(), ["name", "create_statement"]);
            output.push(vec![
                group.name.as_str().into(),
                group.to_statement().to_string().into(),
            ]);
            Ok(output)
        }
        other => {
            let what = other.to_string();
            Err(SqlError::new(
                SqlErrorKind::Unsupported { what },
                Span::default(),
            ))
        }
    }
}

pub(super) fn existing<'a>(
    snapshot: &'a Snapshot,
    name: &Spanned<String>,
) -> Result<&'a Arc<GroupSpec>, SqlError> {
    snapshot.group(name).ok_or_else(|| {
        let known = snapshot.groups_by_name().map(|g| g.name.as_str());
        unknown_group(name, name.span, known)
    })
}

fn groups(snapshot: &Snapshot, s: &ShowGroups) -> Result<Output, SqlError> {
    let shown: Vec<&GroupSpec> = match &s.which {
        Which::One(name) => vec![existing(snapshot, name)?],
        Which::Many { all, like: pattern } => snapshot
            .groups_by_name()
            .map(Arc::as_ref)
            .filter(|g| *all || !g.classifiers.is_empty())
            .filter(|g| {
                pattern
                    .as_ref()
                    .is_none_or(|p| like(p, &g.name) == Ok(true))
            })
            .collect(),
    };
    let columns = || {
        COLUMNS
            .iter()
            .filter(|(_, _, verbose, _)| s.verbose || !verbose)
    };
    let names = columns().map(|(name, ..)| *name);
    let types = columns().map(|(_, kind, ..)| *kind);
    let mut output =
        Output::table("SHOW", names.chain(["classifiers"])).with_types(types.chain([Type::Text]));
    for group in &shown {
        let cells: Vec<Value> = columns().map(|(.., cell)| cell(group)).collect();
        let mut row = |classifier: String| {
            let mut cells = cells.clone();
            cells.push(classifier.into());
            output.push(cells);
        };
        if group.classifiers.is_empty() {
            row("(id=0, weight=0.0)".to_owned());
        }
        for classifier in &group.classifiers {
            row(classifier.to_string());
        }
    }
    notice::about(&mut output, shown, |_| true);
    Ok(output)
}

fn written(group: &GroupSpec, key: Key) -> Option<&Setting> {
    group.properties.get(&key).map(|w| &w.setting)
}

/// A share as StarRocks prints it, `20.0%`; an amount as it was written.
fn mem_limit(group: &GroupSpec) -> Value {
    match group.properties.get(&Key::MemLimit) {
        None => "100.0%".into(),
        Some(w) => match &w.setting {
            Setting::Memory(Memory::Share(n)) => {
                let text = percent(*n);
                match text.strip_suffix('%') {
                    Some(whole) if !whole.contains('.') => format!("{whole}.0%").into(),
                    _ => text.into(),
                }
            }
            _ => w.text.as_str().into(),
        },
    }
}

fn percent(share: Number) -> String {
    match share.as_percent() {
        Some(percent) => format!("{percent}%"),
        None => share.to_string(),
    }
}

/// What this machine makes of a group's properties, in one cell.
fn notes(group: &GroupSpec) -> String {
    let note = |(key, effect): (Key, _)| format!("{} is {effect} in effect", key.name());
    let notes: Vec<String> = clamped(group).into_iter().map(note).collect();
    notes.join("; ")
}
