//! The decision whether a group may start one more query now.
//!
//! Pure. A state machine over numbers; [`Gate`](super::Gate) calls it under one lock.
//!
//! 1. `running` counts places that were given and not yet given back, and nothing else moves it.
//! 2. A place is given only while `running < limit`, but for queries that move in from another group. A limit that is lowered below `running` takes nothing back:
//!    no place is given until enough have come back.
//! 3. A group that was removed gives no place, but counts until its last one is back; then it is forgotten.
//! 4. Counters of a group only grow, through removal and return, until it is forgotten. Its counts then pass to the
//!    group that has its name now, if there is one, so that the sum over a name does not go back.

use crate::unit::GroupId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who runs in each group, and who may.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    groups: BTreeMap<GroupId, Group>,
    closed: bool,
}

/// What becomes of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It has a place, until [`Policy::leave`].
    Admit,
    /// The group is full.
    Reject {
        /// Its concurrency_limit.
        limit: u64,
        /// How many of its places are taken.
        running: u64,
    },
    /// There is no such group, or it was removed.
    Unknown,
    /// Nothing is admitted any more.
    Closed,
}

/// One group's places and counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupAdmission {
    /// The group.
    pub group: GroupId,
    /// Its name.
    pub name: Arc<str>,
    /// Its concurrency_limit; none = unlimited.
    pub limit: Option<u64>,
    /// Places taken now.
    pub running: u64,
    /// Most places taken at once so far.
    pub running_peak: u64,
    /// Places given so far.
    pub admitted: u64,
    /// Queries that came from inside a running one and share its place, so far; not in `admitted`.
    pub nested: u64,
    /// Requests refused so far.
    pub rejected: Rejections,
    /// Whether the group was removed and only waits for its last query to end.
    pub draining: bool,
}

/// Requests of one group that were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejections {
    /// At the concurrency_limit.
    pub concurrency: u64,
    /// While shutting down.
    pub shutdown: u64,
}

#[derive(Clone, Debug)]
struct Group {
    name: Arc<str>,
    limit: Option<u64>,
    running: u64,
    running_peak: u64,
    admitted: u64,
    nested: u64,
    rejected: Rejections,
    removed: bool,
}

impl Policy {
    /// No groups yet.
    pub fn new() -> Policy {
        Policy::default()
    }

    /// Adds a group. One that is there already keeps its places and counters, also while it drains, and takes the
    /// name and the limit. A limit of 0 is none, as in SQL.
    pub fn register(&mut self, group: GroupId, name: Arc<str>, limit: Option<u64>) {
        let entry = self.groups.entry(group).or_insert_with(|| Group {
            name: name.clone(),
            limit: None,
            running: 0,
            running_peak: 0,
            admitted: 0,
            nested: 0,
            rejected: Rejections::default(),
            removed: false,
        });
        entry.name = name;
        entry.limit = effective(limit);
        entry.removed = false;
    }

    /// Changes a group's limit in place; 0 is none. False if there is no such group.
    pub fn set_limit(&mut self, group: GroupId, limit: Option<u64>) -> bool {
        match self.present(group) {
            Some(entry) => {
                entry.limit = effective(limit);
                true
            }
            None => false,
        }
    }

    /// Removes a group: it admits nothing more, and its queries go on. False if there is no such group.
    pub fn remove(&mut self, group: GroupId) -> bool {
        let Some(entry) = self.present(group) else {
            return false;
        };
        entry.removed = true;
        if entry.running == 0 {
            self.forget(group);
        }
        true
    }

    /// Admits nothing more, in any group, for good.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// A request of this group wants to start.
    pub fn arrive(&mut self, group: GroupId) -> Decision {
        let closed = self.closed;
        let Some(entry) = self.present(group) else {
            return if closed {
                Decision::Closed
            } else {
                Decision::Unknown
            };
        };
        if closed {
            entry.rejected.shutdown += 1;
            return Decision::Closed;
        }
        match entry.limit {
            Some(limit) if entry.running >= limit => {
                entry.rejected.concurrency += 1;
                Decision::Reject {
                    limit,
                    running: entry.running,
                }
            }
            _ => {
                entry.running += 1;
                entry.running_peak = entry.running_peak.max(entry.running);
                entry.admitted += 1;
                Decision::Admit
            }
        }
    }

    /// A query shares the place of the one that it came from: counted, no place taken.
    pub fn share(&mut self, group: GroupId) {
        if let Some(entry) = self.groups.get_mut(&group) {
            entry.nested += 1;
        }
    }

    /// A query that runs in another group goes on in this one: it takes a place, beyond the limit if need be, and
    /// never waits. False if there is no such group.
    pub fn move_in(&mut self, group: GroupId) -> bool {
        let Some(entry) = self.present(group) else {
            return false;
        };
        entry.running += 1;
        entry.running_peak = entry.running_peak.max(entry.running);
        true
    }

    /// A place is given back: once for each [`Decision::Admit`] and each [`Policy::move_in`].
    pub fn leave(&mut self, group: GroupId) {
        let Some(entry) = self.groups.get_mut(&group) else {
            debug_assert!(false, "a place of a group that holds none");
            return;
        };
        debug_assert!(entry.running > 0, "a place was given back twice");
        entry.running = entry.running.saturating_sub(1);
        if entry.removed && entry.running == 0 {
            self.forget(group);
        }
    }

    fn forget(&mut self, group: GroupId) {
        let Some(gone) = self.groups.remove(&group) else {
            return;
        };
        let namesakes = self.groups.values_mut().filter(|g| g.name == gone.name);
        if let Some(heir) = namesakes.min_by_key(|g| g.removed) {
            heir.admitted += gone.admitted;
            heir.nested += gone.nested;
            heir.rejected.concurrency += gone.rejected.concurrency;
            heir.rejected.shutdown += gone.rejected.shutdown;
        }
    }

    /// The name of a group, also while it drains.
    pub fn name(&self, group: GroupId) -> Option<&Arc<str>> {
        self.groups.get(&group).map(|entry| &entry.name)
    }

    /// One group's numbers, also while it drains.
    pub fn group(&self, group: GroupId) -> Option<GroupAdmission> {
        self.groups.get(&group).map(|entry| entry.read(group))
    }

    /// All groups' numbers, by id; those that drain too.
    pub fn groups(&self) -> impl Iterator<Item = GroupAdmission> {
        self.groups.iter().map(|(&group, entry)| entry.read(group))
    }

    fn present(&mut self, group: GroupId) -> Option<&mut Group> {
        self.groups.get_mut(&group).filter(|entry| !entry.removed)
    }
}

impl Group {
    fn read(&self, group: GroupId) -> GroupAdmission {
        GroupAdmission {
            group,
            name: self.name.clone(),
            limit: self.limit,
            running: self.running,
            running_peak: self.running_peak,
            admitted: self.admitted,
            nested: self.nested,
            rejected: self.rejected,
            draining: self.removed,
        }
    }
}

/// 0 = unlimited, so that an absent limit and a limit of nothing cannot be confused.
fn effective(limit: Option<u64>) -> Option<u64> {
    limit.filter(|&limit| limit > 0)
}
