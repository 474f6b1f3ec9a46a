//! The catalog while it is being changed: what each statement does, and the rules across groups.
//!
//! Pure. A statement checks everything before it changes anything, so a refused one leaves the draft as it was.
//!
//! 1. `by_id` and `by_name` hold the same groups; `identities` holds exactly their classifiers.
//! 2. Groups and classifiers draw their ids from one counter, in the order of the text. An id that a snapshot ever
//!    showed is never given again.

mod across;
mod statement;

use super::Origin;
use super::group::{GroupSpec, Machine};
use super::property::{BigQueryAction, GroupType, Key, Setting};
use super::snapshot::{DEFAULT_GROUP, Snapshot};
use crate::sql::suggest::closest;
use crate::sql::{Output, Span, SqlError, SqlErrorKind, Statement};
use crate::unit::{ClassifierId, GroupId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Draft {
    machine: Machine,
    by_id: BTreeMap<GroupId, Arc<GroupSpec>>,
    by_name: BTreeMap<String, Arc<GroupSpec>>,
    identities: HashMap<String, (GroupId, ClassifierId)>,
    /// The next id to give.
    next_id: u64,
    /// Whether it differs from the snapshot it came from.
    changed: bool,
    /// Groups that a file names before it creates them.
    awaited: Vec<Awaited>,
}

#[derive(Debug)]
struct Awaited {
    statement: usize,
    by: GroupId,
    target: String,
    span: Span,
}

impl Draft {
    /// Only `default_wg`.
    pub(super) fn new(machine: Machine) -> Draft {
        let mut draft = Draft {
            machine,
            by_id: BTreeMap::new(),
            by_name: BTreeMap::new(),
            identities: HashMap::new(),
            next_id: GroupId::FIRST.0,
            changed: false,
            awaited: Vec::new(),
        };
        draft.put(default_group(machine));
        draft.changed = false;
        draft
    }

    /// What a snapshot says, ready to be changed. Ids that were drawn since are not given again.
    pub(super) fn of(snapshot: &Snapshot, next_id: u64) -> Draft {
        let mut draft = Draft::new(snapshot.machine());
        for group in snapshot.groups() {
            draft.put(GroupSpec::clone(group));
        }
        draft.next_id = next_id;
        draft.changed = false;
        draft
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id
    }

    pub(super) fn changed(&self) -> bool {
        self.changed
    }

    /// The draft as a snapshot.
    pub(super) fn freeze(&mut self, version: u64) -> Snapshot {
        self.changed = false;
        let default = self.by_id.get(&GroupId::DEFAULT).cloned();
        let default = default.unwrap_or_else(|| Arc::new(default_group(self.machine)));
        Snapshot::new(
            version,
            self.machine,
            default,
            self.by_id.values().cloned().collect(),
            self.by_name.values().cloned().collect(),
        )
    }

    /// Grants reservations in order of id, as far as workers are left: exclusive cores first, as their sum was checked
    /// when they were written, then what short_query groups reserve by their weights.
    fn grant(&mut self) {
        let mut left = self.machine.workers() - 1;
        for exclusive in [true, false] {
            for group in self.by_id.values_mut() {
                if (group.group_type() == GroupType::ShortQuery) == exclusive {
                    continue;
                }
                let granted = group.reserved_cores_written().min(left);
                left -= granted;
                if group.granted_cores != granted {
                    let mut spec = GroupSpec::clone(group);
                    spec.granted_cores = granted;
                    *group = Arc::new(spec);
                    self.by_name.insert(group.name.clone(), group.clone());
                }
            }
        }
    }

    /// Runs one CREATE, ALTER or DROP; `statement` is its number in the script, from 1.
    pub(super) fn run(
        &mut self,
        what: &Statement,
        origin: Origin,
        statement: usize,
    ) -> Result<Output, SqlError> {
        let mut output = Output::done(what.tag());
        match what {
            Statement::CreateGroup(s) => self.create(s, origin, statement, &mut output)?,
            Statement::AlterGroup(s) => self.alter(s, origin, statement, &mut output)?,
            Statement::DropGroup(s) => self.drop(s, &mut output)?,
            other => {
                let what = other.to_string();
                return Err(SqlError::new(
                    SqlErrorKind::Unsupported { what },
                    Span::default(),
                ));
            }
        }
        Ok(output)
    }

    /// Checks what a file may say before it is true: every group that is named exists in the end.
    pub(super) fn settle(&mut self) -> Result<(), SqlError> {
        for awaited in std::mem::take(&mut self.awaited) {
            let still = self
                .by_id
                .get(&awaited.by)
                .is_some_and(|g| target(g) == Some(awaited.target.as_str()));
            if still && !self.by_name.contains_key(&awaited.target) {
                return Err(self
                    .unknown(&awaited.target, awaited.span)
                    .at_statement(awaited.statement, 0));
            }
        }
        Ok(())
    }

    /// Puts a group in the place of the one with the same id, if there is one.
    fn put(&mut self, mut spec: GroupSpec) {
        spec.granted_cores = 0;
        if let Some(old) = self.by_id.get(&spec.id).cloned() {
            self.take(&old);
        }
        for c in &spec.classifiers {
            self.identities.insert(c.identity(), (spec.id, c.id));
        }
        let reserves = spec.reserved_cores_written() > 0;
        let spec = Arc::new(spec);
        self.by_name.insert(spec.name.clone(), spec.clone());
        self.by_id.insert(spec.id, spec);
        self.changed = true;
        if reserves {
            self.grant();
        }
    }

    fn take(&mut self, old: &GroupSpec) {
        for c in &old.classifiers {
            self.identities.remove(&c.identity());
        }
        self.by_name.remove(&old.name);
        self.by_id.remove(&old.id);
        self.changed = true;
        if old.reserved_cores_written() > 0 {
            self.grant();
        }
    }

    /// Gives new ids to the groups that `lost` their old ones, and to their classifiers.
    pub(super) fn renew(&mut self, lost: impl Fn(GroupId) -> bool) {
        let groups: Vec<_> = self.by_id.values().cloned().collect();
        for group in groups.iter().filter(|group| lost(group.id)) {
            let mut spec = GroupSpec::clone(group);
            self.take(group);
            spec.id = GroupId(statement::draw(&mut self.next_id));
            for classifier in &mut spec.classifiers {
                classifier.id = ClassifierId(statement::draw(&mut self.next_id));
            }
            self.put(spec);
        }
    }

    /// Gives groups the identities that they had in an earlier life, all below the ids that this draft drew. What two
    /// of them claim, the first one gets.
    pub(super) fn identify<'a>(
        &mut self,
        earlier: impl Iterator<Item = (&'a str, GroupId, &'a [ClassifierId])>,
    ) {
        let mut given = HashSet::new();
        for (name, id, classifiers) in earlier {
            let Some(group) = self.by_name.get(name).cloned() else {
                continue;
            };
            let mut spec = GroupSpec::clone(&group);
            if !spec.is_default() && id >= GroupId::FIRST && given.insert(id.0) {
                spec.id = id;
            }
            let mut free = classifiers.iter().all(|id| !given.contains(&id.0));
            free &= classifiers.iter().collect::<HashSet<_>>().len() == classifiers.len();
            if free && classifiers.len() == spec.classifiers.len() {
                for (classifier, id) in spec.classifiers.iter_mut().zip(classifiers) {
                    classifier.id = *id;
                    given.insert(id.0);
                }
                spec.classifiers.sort_by_key(|classifier| classifier.id);
            }
            self.take(&group);
            self.put(spec);
        }
    }

    /// Ids from `next` on are free.
    pub(super) fn reserve_ids(&mut self, next: u64) {
        self.next_id = self.next_id.max(next);
    }

    /// The group of that name.
    pub(super) fn group(&self, name: &str) -> Option<&Arc<GroupSpec>> {
        self.by_name.get(name)
    }

    /// Gives the ids that were drawn from `first_free` on anew, in the same order and without gaps.
    pub(super) fn close_ranks(&mut self, first_free: u64) {
        let drawn = |id: u64| id >= first_free;
        let groups: Vec<_> = self.by_id.values().cloned().collect();
        let mut ids: Vec<u64> = groups
            .iter()
            .flat_map(|group| {
                let classifiers = group.classifiers.iter().map(|c| c.id.0);
                classifiers.chain([group.id.0])
            })
            .filter(|id| drawn(*id))
            .collect();
        ids.sort_unstable();
        let rank = |id: u64| match ids.binary_search(&id) {
            Ok(rank) => first_free + rank as u64,
            Err(_) => id,
        };
        // In ascending order, a group moves to an id that nobody has any more.
        for group in groups {
            let moves = drawn(group.id.0) || group.classifiers.iter().any(|c| drawn(c.id.0));
            if !moves {
                continue;
            }
            let mut spec = GroupSpec::clone(&group);
            spec.id = GroupId(rank(spec.id.0));
            for classifier in &mut spec.classifiers {
                classifier.id = ClassifierId(rank(classifier.id.0));
            }
            self.take(&group);
            self.put(spec);
        }
        self.next_id = first_free + ids.len() as u64;
    }

    /// Groups that are as they were in `before` are the same in memory too.
    pub(super) fn share(&mut self, before: &Snapshot) {
        for group in self.by_id.values_mut() {
            if let Some(same) = before.group_by_id(group.id).filter(|old| *old == group) {
                self.by_name.insert(same.name.clone(), same.clone());
                *group = same.clone();
            }
        }
    }

    fn unknown(&self, name: &str, span: Span) -> SqlError {
        unknown_group(name, span, self.by_name.keys().map(String::as_str))
    }

    fn name_of(&self, id: GroupId) -> String {
        self.by_id
            .get(&id)
            .map_or_else(String::new, |g| g.name.clone())
    }
}

/// An error that names no group, with the closest of those that exist.
pub(super) fn unknown_group<'a>(
    name: &str,
    span: Span,
    known: impl Iterator<Item = &'a str>,
) -> SqlError {
    // Enough for a slip of the hand; an error is not worth reading ten thousand names.
    let suggestion = closest(name, known.take(1_000));
    let kind = SqlErrorKind::UnknownGroup {
        name: name.to_owned(),
    };
    SqlError::new(kind, span)
        .with_suggestion(suggestion)
        .with_hint("SHOW RESOURCE GROUPS ALL lists them; case counts in names")
}

/// `default_wg` as nobody changed it.
fn default_group(machine: Machine) -> GroupSpec {
    GroupSpec::new(GroupId::DEFAULT, DEFAULT_GROUP.to_owned(), machine)
}

/// The group that a group's big_query_action names.
fn target(spec: &GroupSpec) -> Option<&str> {
    match spec
        .properties
        .get(&Key::BigQueryAction)
        .map(|w| &w.setting)
    {
        Some(Setting::Action(BigQueryAction::SwitchGroup(name))) => Some(name),
        _ => None,
    }
}
