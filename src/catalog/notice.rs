//! What an answer says besides: properties without effect in this version, values that this machine cuts.
//!
//! Pure.

use super::check::clamped;
use super::group::{GroupSpec, is_enforced};
use super::property::Key;
use crate::sql::{Notice, NoticeKind, Output};
use std::collections::BTreeMap;

/// Names that are spelt out in one notice.
const NAMED: usize = 5;

/// Adds what is to be said of these groups: one notice per property, however many groups set it, and one per value
/// that is cut.
pub(super) fn about<'a>(
    output: &mut Output,
    groups: impl IntoIterator<Item = &'a GroupSpec>,
    mentioned: impl Fn(Key) -> bool,
) {
    let mut idle: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    let mut cut = Vec::new();
    for group in groups {
        for (key, written) in &group.properties {
            if mentioned(*key) && !is_enforced(*key, &written.setting) {
                idle.entry(*key).or_default().push(group.name.clone());
            }
        }
        for (key, effect) in clamped(group) {
            if mentioned(key) {
                cut.push(clamp(group, key, &effect));
            }
        }
    }
    for (key, groups) in idle {
        output.notice(not_enforced(key, groups));
    }
    for notice in cut {
        output.notice(notice);
    }
}

/// Nothing was to be done.
pub(super) fn skipped(name: &str, why: &str) -> Notice {
    Notice {
        kind: NoticeKind::Skipped,
        groups: vec![name.to_owned()],
        property: None,
        message: format!("resource group {name} {why}, skipped"),
    }
}

fn not_enforced(key: Key, groups: Vec<String>) -> Notice {
    let what = key.name();
    let mut named = groups
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if groups.len() > NAMED {
        named += &format!(" and {} more", groups.len() - NAMED);
    }
    Notice {
        kind: NoticeKind::NotEnforced,
        message: format!("{what} is not enforced by this version (stored for {named})"),
        property: Some(key.name()),
        groups,
    }
}

fn clamp(group: &GroupSpec, key: Key, effect: &str) -> Notice {
    let written = group
        .properties
        .get(&key)
        .map_or("", |written| written.text.as_str());
    Notice {
        kind: NoticeKind::Clamped,
        groups: vec![group.name.clone()],
        property: Some(key.name()),
        message: format!(
            "{} of {} is kept as {written}, which this machine cannot give: {effect} in effect",
            key.name(),
            group.name
        ),
    }
}
