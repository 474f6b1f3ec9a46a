//! What an answer says besides: values that this machine cuts, statements that found nothing to do.
//!
//! Pure.

use super::check::clamped;
use super::group::GroupSpec;
use super::property::Key;
use crate::sql::{Notice, NoticeKind, Output};

/// Adds what is to be said of these groups: one notice per value that is cut.
pub(super) fn about<'a>(
    output: &mut Output,
    groups: impl IntoIterator<Item = &'a GroupSpec>,
    mentioned: impl Fn(Key) -> bool,
) {
    for group in groups {
        for (key, effect) in clamped(group) {
            if mentioned(key) {
                output.notice(clamp(group, key, &effect));
            }
        }
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
