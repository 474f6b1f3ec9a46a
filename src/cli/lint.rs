//! What a script says in vain: classifiers that never decide, groups that nothing reaches, reservations that do not fit,
//! limits without what they need.
//!
//! Pure.

use super::finding::{Finding, Level};
use super::script::Script;
use crate::catalog::property::{BigQueryAction, GroupType, Key};
use crate::catalog::{GroupSpec, Snapshot};
use crate::classify::shadow::{Shadowed, shadowed};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// All of it, in the order of the script.
pub(super) fn warnings(script: &Script) -> Vec<Finding> {
    let catalog = &*script.snapshot;
    let hidden = shadowed(catalog);
    let mut found = shadows(script, &hidden);
    found.extend(unreachable(script, &hidden));
    found.extend(reservations(script));
    for group in catalog.groups() {
        found.extend(in_vain(group).into_iter().map(|(key, why)| {
            let message = format!("{} of {} does nothing: {why}", key.name(), group.name);
            let span = script.group(&group.name);
            Finding::new(Level::Warning, "no_effect", message, span)
        }));
    }
    found.sort_by_key(|one| one.span.start);
    found
}

fn shadows(script: &Script, hidden: &[Shadowed<'_>]) -> Vec<Finding> {
    let finding = |one: &Shadowed<'_>| {
        let message = format!(
            "a classifier of {} never decides: {} of {} matches whatever it matches",
            one.group.name,
            one.by.identity(),
            one.by_group.name,
        );
        let span = script.classifier(one.classifier.identity());
        Finding::new(Level::Warning, "shadowed", message, span)
            .with_note(format!("and comes first: {}", one.rule))
    };
    hidden.iter().map(finding).collect()
}

/// Groups that no classifier leads to.
fn unreachable(script: &Script, hidden: &[Shadowed<'_>]) -> Vec<Finding> {
    let catalog = &*script.snapshot;
    let hidden: HashSet<_> = hidden.iter().map(|one| one.classifier.id).collect();
    let targets = targets(catalog);
    let finding = |group: &Arc<GroupSpec>| {
        let why = match group.classifiers.len() {
            0 => "it has no classifiers",
            _ => "none of its classifiers ever decides",
        };
        let message = format!("nothing is classified into {}: {why}", group.name);
        Finding::new(
            Level::Warning,
            "never_matches",
            message,
            script.group(&group.name),
        )
        .with_note("only requests that name it get there")
    };
    catalog
        .groups()
        .filter(|group| !group.is_default() && !targets.contains(&group.name))
        .filter(|group| group.classifiers.iter().all(|one| hidden.contains(&one.id)))
        .map(finding)
        .collect()
}

/// Groups that queries are switched to.
fn targets(catalog: &Snapshot) -> BTreeSet<String> {
    let target = |group: &Arc<GroupSpec>| match group.big_query_action() {
        BigQueryAction::SwitchGroup(name) => Some(name),
        _ => None,
    };
    catalog.groups().filter_map(target).collect()
}

/// More reserved workers than there can be: which groups get less than they say.
fn reservations(script: &Script) -> Vec<Finding> {
    let catalog = &*script.snapshot;
    let workers = catalog.machine().workers as u64;
    let written = |group: &GroupSpec| match group.group_type() {
        GroupType::ShortQuery => group.cpu_core_limit().get(),
        _ => group.exclusive_cpu_cores_written(),
    };
    let groups: Vec<&Arc<GroupSpec>> = catalog.groups().filter(|g| written(g) > 0).collect();
    let sum = groups
        .iter()
        .fold(0_u64, |sum, g| sum.saturating_add(written(g)));
    let most = workers.saturating_sub(1);
    if sum <= most {
        return Vec::new();
    }
    let short = groups.iter().filter(|g| g.reserved_cores() < written(g));
    let told: Vec<String> = short
        .map(|g| format!("{} {} of {}", g.name, g.reserved_cores(), written(g)))
        .collect();
    let first = groups.iter().find(|g| g.reserved_cores() < written(g));
    let span = first.map(|g| script.group(&g.name)).unwrap_or_default();
    let message = format!(
        "{sum} workers are reserved over all groups, and {most} of {workers} can be: {}",
        told.join(", ")
    );
    vec![Finding::new(Level::Warning, "reservations", message, span).with_note(
        "exclusive_cpu_cores are granted first, then the weights of short_query groups, in order of their ids",
    )]
}

/// Properties that need another one.
fn in_vain(group: &GroupSpec) -> Vec<(Key, &'static str)> {
    let mut found = Vec::new();
    let limited = group.concurrency_limit().is_some();
    if group.max_queued_queries() > 0 && !limited {
        found.push((
            Key::MaxQueuedQueries,
            "without a concurrency_limit nobody waits for the group",
        ));
    }
    if group.properties.contains_key(&Key::QueueTimeout)
        && limited
        && group.max_queued_queries() == 0
    {
        found.push((
            Key::QueueTimeout,
            "with max_queued_queries = 0 nobody waits for the group",
        ));
    }
    let breaks = group.big_query_cpu_second_limit().is_some()
        || group.big_query_scan_rows_limit().is_some()
        || group.big_query_mem_limit().is_some()
        || group.big_query_elapsed_second_limit().is_some();
    if group.properties.contains_key(&Key::BigQueryAction) && !breaks {
        found.push((
            Key::BigQueryAction,
            "the group has none of the big_query limits",
        ));
    }
    let kills = breaks && group.big_query_action() == BigQueryAction::Kill;
    if group.quarantine_after().is_some() && !kills {
        found.push((
            Key::QuarantineAfter,
            "nothing of the group is ever killed for a big_query limit",
        ));
    }
    found
}
