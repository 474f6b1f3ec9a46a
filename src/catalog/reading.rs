//! A kept text read as a catalog: statement by statement, under the ids that it had.
//!
//! Pure. Whoever reads the same text after the same past gives the same ids, so that the programs of a fleet agree on
//! those of a group that somebody wrote by hand.

use super::draft::Draft;
use super::script::{self, Stored};
use super::snapshot::Snapshot;
use super::{Machine, Origin};
use crate::sql::SqlError;
use crate::unit::{ClassifierId, GroupId};
use std::collections::BTreeSet;

/// What a text says.
pub(super) struct Reading {
    pub(super) draft: Draft,
    /// The version that was written, if the text says.
    pub(super) version: Option<u64>,
    /// What could not be read or run: its text, and why. In the order of the text.
    pub(super) damaged: Vec<(String, SqlError)>,
}

impl Reading {
    /// Reads `text`. A group to which it gives no identity keeps the one that it has in `before`; ids below `floor`
    /// are not given to anything new.
    pub(super) fn of(
        machine: Machine,
        text: &str,
        before: Option<&Snapshot>,
        floor: u64,
    ) -> Reading {
        let script = script::read(text);
        let mut draft = Draft::new(machine);
        for least in [
            floor,
            script.next_id.unwrap_or(0),
            above_all(&script.statements),
        ] {
            draft.reserve_ids(least);
        }
        let first_free = draft.next_id();
        let (mut draft, failed) = run(machine, &script.statements, first_free);
        let mut damaged: Vec<(String, SqlError)> = script.unreadable;
        damaged.extend(failed);
        damaged.sort_by_key(|(_, error)| error.statement);
        let earlier = identities(&script.statements, before, &draft);
        draft.identify(
            earlier
                .iter()
                .map(|(name, id, classifiers)| (name.as_str(), *id, &classifiers[..])),
        );
        draft.close_ranks(first_free);
        if let Some(before) = before {
            draft.share(before);
        }
        Reading {
            draft,
            version: script.version,
            damaged,
        }
    }
}

type Identity = (String, GroupId, Vec<ClassifierId>);

/// What the text says who is who, then what was so before.
fn identities(statements: &[Stored], before: Option<&Snapshot>, draft: &Draft) -> Vec<Identity> {
    let written = statements.iter().filter_map(|stored| {
        let name = stored.statement.group()?.value.clone();
        Some((name, stored.group?, stored.classifiers.clone()))
    });
    let mut identities: Vec<Identity> = written.collect();
    let named: BTreeSet<String> = identities.iter().map(|(name, ..)| name.clone()).collect();
    for group in before.iter().flat_map(|before| before.groups()) {
        if named.contains(&group.name) {
            continue;
        }
        let Some(now) = draft.group(&group.name) else {
            continue;
        };
        let conditions = |of: &super::GroupSpec| -> Vec<String> {
            of.classifiers.iter().map(|c| c.identity()).collect()
        };
        let ids: Vec<ClassifierId> = if conditions(group) == conditions(now) {
            group.classifiers.iter().map(|c| c.id).collect()
        } else {
            Vec::new()
        };
        identities.push((group.name.clone(), group.id, ids));
    }
    identities
}

/// The first id above those that the statements had.
fn above_all(statements: &[Stored]) -> u64 {
    let ids = statements.iter().flat_map(|stored| {
        let classifiers = stored.classifiers.iter().map(|id| id.0);
        classifiers.chain(stored.group.map(|id| id.0))
    });
    ids.max().map_or(0, |id| id.saturating_add(1))
}

/// Runs what can be run. A statement that speaks of a group that no other creates counts as failed.
fn run(
    machine: Machine,
    statements: &[Stored],
    first_free: u64,
) -> (Draft, Vec<(String, SqlError)>) {
    let mut without = BTreeSet::new();
    let mut failed = Vec::new();
    loop {
        let mut draft = Draft::new(machine);
        draft.reserve_ids(first_free);
        for stored in statements {
            if without.contains(&stored.number) {
                continue;
            }
            let done = draft.run(&stored.statement, Origin::File, stored.number);
            if let Err(error) = done {
                without.insert(stored.number);
                failed.push((stored.text.clone(), error.at_statement(stored.number, 0)));
            }
        }
        match draft.settle() {
            Ok(()) => return (draft, failed),
            Err(error) => {
                let number = error.statement;
                let text = statements
                    .iter()
                    .find(|stored| stored.number == number)
                    .map(|stored| stored.text.clone());
                failed.push((text.unwrap_or_default(), error));
                // Each round leaves one more out, so that it ends.
                if !without.insert(number) {
                    return (draft, failed);
                }
            }
        }
    }
}
