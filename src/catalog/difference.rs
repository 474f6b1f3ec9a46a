//! What differs between two versions of the catalog, group by group.
//!
//! Pure. What a difference means for running work is not known here.

use super::classifier::ClassifierSpec;
use super::group::GroupSpec;
use super::property::Key;
use super::snapshot::Snapshot;
use crate::unit::GroupId;
use std::collections::BTreeMap;

/// One thing that differs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: String,
    /// What of it.
    pub what: What,
}

/// What differs of a group.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// There was no such group.
    Created,
    /// There is no such group any more.
    Dropped,
    /// A property says something else; absent = not set.
    Property {
        /// Which one.
        key: Key,
        /// As it was written.
        before: Option<String>,
        /// As it is written now.
        after: Option<String>,
    },
    /// Workers that are reserved for it: what this machine grants.
    Reserved {
        /// So many before.
        before: u64,
        /// So many now.
        after: u64,
    },
    /// It has one more classifier.
    ClassifierAdded(ClassifierSpec),
    /// It has one classifier less.
    ClassifierRemoved(ClassifierSpec),
    /// A classifier asks the same under another id.
    ClassifierRenumbered(ClassifierSpec, ClassifierSpec),
}

/// All that differs, by id of the group; in a group its properties in the order of their table, then its classifiers.
pub fn differences(before: &Snapshot, after: &Snapshot) -> Vec<Difference> {
    let mut ids: Vec<GroupId> = before
        .groups()
        .chain(after.groups())
        .map(|g| g.id)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let mut found = Vec::new();
    for id in ids {
        let (old, new) = (before.group_by_id(id), after.group_by_id(id));
        let Some(named) = new.or(old) else { continue };
        if old == new {
            continue;
        }
        let mut add = |what| {
            found.push(Difference {
                group: id,
                name: named.name.clone(),
                what,
            });
        };
        match (old, new) {
            (None, Some(_)) => add(What::Created),
            (Some(_), None) => add(What::Dropped),
            _ => {}
        }
        let (old, new) = (old.map(AsRef::as_ref), new.map(AsRef::as_ref));
        // A dropped group's properties go with it: that is said once.
        if new.is_some() {
            properties(old, new).into_iter().for_each(&mut add);
        }
        let reserved = |group: Option<&GroupSpec>| group.map_or(0, GroupSpec::reserved_cores);
        if reserved(old) != reserved(new) {
            add(What::Reserved {
                before: reserved(old),
                after: reserved(new),
            });
        }
        classifiers(old, new).into_iter().for_each(&mut add);
    }
    found
}

fn properties(old: Option<&GroupSpec>, new: Option<&GroupSpec>) -> Vec<What> {
    let text = |group: Option<&GroupSpec>, key| {
        let written = group.and_then(|group| group.properties.get(key));
        written.map(|written| written.text.clone())
    };
    let setting = |group: Option<&GroupSpec>, key| {
        let written = group.and_then(|group| group.properties.get(key));
        written.map(|written| written.setting.clone())
    };
    let mut keys: Vec<&Key> = [old, new]
        .into_iter()
        .flatten()
        .flat_map(|group| group.properties.keys())
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter()
        .filter(|key| setting(old, key) != setting(new, key))
        .map(|key| What::Property {
            key: *key,
            before: text(old, key),
            after: text(new, key),
        })
        .collect()
}

fn classifiers(old: Option<&GroupSpec>, new: Option<&GroupSpec>) -> Vec<What> {
    let of = |group: Option<&GroupSpec>| -> Vec<ClassifierSpec> {
        group.map_or_else(Vec::new, |group| group.classifiers.clone())
    };
    let mut left: BTreeMap<String, ClassifierSpec> =
        of(old).into_iter().map(|c| (c.identity(), c)).collect();
    let (mut added, mut renumbered) = (Vec::new(), Vec::new());
    for new in of(new) {
        match left.remove(&new.identity()) {
            None => added.push(What::ClassifierAdded(new)),
            Some(old) if old.id != new.id => renumbered.push(What::ClassifierRenumbered(old, new)),
            Some(_) => {}
        }
    }
    let mut removed: Vec<ClassifierSpec> = left.into_values().collect();
    removed.sort_by_key(|one| one.id);
    let removed = removed.into_iter().map(What::ClassifierRemoved);
    removed.chain(renumbered).chain(added).collect()
}
