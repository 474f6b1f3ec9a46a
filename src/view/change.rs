//! EXPLAIN of a CREATE, ALTER or DROP: what would differ, and what that means for running and waiting queries.
//!
//! Pure. Which queries there are is handed in; the rules are those of the stages that obey the properties.

mod effect;

use crate::catalog::difference::{Difference, What, differences};
use crate::catalog::property::Key;
use crate::catalog::{ClassifierSpec, GroupSpec, Snapshot};
use crate::sql::{Output, Type, Value};
use crate::unit::{Bytes, GroupId, Nanos};
use std::collections::BTreeMap;

/// What a group does at this moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Now {
    /// Queries that hold a place.
    pub running: u64,
    /// How long each query in its line has waited.
    pub waited: Vec<Nanos>,
    /// Its tasks that are alive.
    pub tasks: u64,
    /// Its memory: all of it, or its reservations if nothing else is counted.
    pub memory: Bytes,
    /// Whether nothing but reservations is counted.
    pub reservations_only: bool,
    /// Its running queries.
    pub queries: Vec<NowQuery>,
    /// Places over all groups, if they are limited.
    pub runner_threads: Option<u64>,
}

/// What a running query has used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NowQuery {
    /// Its id.
    pub id: u64,
    /// Worker time.
    pub cpu: Nanos,
    /// Since admission.
    pub elapsed: Nanos,
    /// Rows that it reported.
    pub scan_rows: u64,
    /// Memory that it holds.
    pub memory: Bytes,
    /// Whether it went over a limit already, which happens once.
    pub tripped: bool,
}

/// A difference with what it is a difference of.
struct Seen<'a> {
    difference: &'a Difference,
    before: Option<&'a GroupSpec>,
    after: Option<&'a GroupSpec>,
    now: &'a Now,
    /// The weights of all groups, before and after.
    weights: (u64, u64),
    catalog: &'a Snapshot,
}

/// One row per thing that would differ. `now` has the groups that are there.
pub fn table(before: &Snapshot, after: &Snapshot, now: &BTreeMap<GroupId, Now>) -> Output {
    let columns = ["group_name", "change", "before", "after", "effect"];
    let mut output = Output::table("EXPLAIN", columns).with_types(columns.map(|_| Type::Text));
    let nothing = Now::default();
    let sum = |snapshot: &Snapshot| snapshot.groups().map(|g| g.cpu_core_limit().get()).sum();
    let weights = (sum(before), sum(after));
    for difference in &differences(before, after) {
        let id = difference.group;
        let seen = Seen {
            difference,
            before: before.group_by_id(id).map(AsRef::as_ref),
            after: after.group_by_id(id).map(AsRef::as_ref),
            now: now.get(&id).unwrap_or(&nothing),
            weights,
            catalog: after,
        };
        output.push(row(&seen));
    }
    output
}

fn row(seen: &Seen<'_>) -> Vec<Value> {
    let (change, before, after) = change(seen);
    let effect = effect::of(seen);
    let effect = (!effect.is_empty()).then_some(effect);
    vec![
        seen.difference.name.as_str().into(),
        change.into(),
        before.into(),
        after.into(),
        effect.into(),
    ]
}

/// What a difference is called, with what it was and what it becomes.
fn change(seen: &Seen<'_>) -> (&'static str, Option<String>, Option<String>) {
    match &seen.difference.what {
        What::Created => ("group created", None, None),
        What::Dropped => ("group dropped", None, None),
        What::Property { key, before, after } => {
            let before = seen.before.map(|group| holds(group, *key, before));
            let after = seen.after.map(|group| holds(group, *key, after));
            (key.name(), before, after)
        }
        What::Reserved { before, after } => (
            "reserved workers",
            Some(before.to_string()),
            Some(after.to_string()),
        ),
        What::ClassifierAdded(new) => ("classifier added", None, Some(new.identity())),
        What::ClassifierRemoved(old) => ("classifier removed", Some(numbered(old)), None),
        What::ClassifierRenumbered(old, new) => {
            let ids = (old.id.to_string(), new.id.to_string());
            ("classifier renumbered", Some(ids.0), Some(ids.1))
        }
    }
}

/// A property as it is written, or what holds without it.
fn holds(group: &GroupSpec, key: Key, written: &Option<String>) -> String {
    match (written, key) {
        (Some(text), _) => text.clone(),
        (None, Key::CpuCoreLimit) => group.cpu_core_limit().to_string(),
        (None, Key::IoWeight) => group.io_weight().to_string(),
        (None, _) => key.property().absent.to_owned(),
    }
}

fn numbered(classifier: &ClassifierSpec) -> String {
    format!("{} {}", classifier.id, classifier.identity())
}
