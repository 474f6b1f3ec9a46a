//! The catalog while it is being changed: what each statement does, and the rules across groups.
//!
//! Pure. A statement checks everything before it changes anything, so a refused one leaves the draft as it was.
//!
//! 1. `by_id` and `by_name` hold the same groups; `identities` holds exactly their classifiers.
//! 2. Groups and classifiers draw their ids from one counter, in the order of the text. An id that a snapshot ever
//!    showed is never given again.

use super::Origin;
use super::check::{self, Change};
use super::classifier::ClassifierSpec;
use super::condition;
use super::group::{GroupSpec, Machine};
use super::notice;
use super::property::{BigQueryAction, GroupType, Key, Setting};
use super::snapshot::{DEFAULT_GROUP, Snapshot};
use crate::sql::ast::*;
use crate::sql::suggest::closest;
use crate::sql::{Output, Span, Spanned, SqlError, SqlErrorKind};
use crate::unit::{ClassifierId, GroupId};
use std::collections::{BTreeMap, HashMap};
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
        draft.put(GroupSpec::new(
            GroupId::DEFAULT,
            DEFAULT_GROUP.to_owned(),
            machine,
        ));
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

    /// The draft as a snapshot. Reservations are granted here, in order of id, as far as workers are left.
    pub(super) fn freeze(&mut self, version: u64) -> Snapshot {
        let mut left = self.machine.workers() - 1;
        for (id, group) in &mut self.by_id {
            let granted = group.exclusive_cpu_cores_written().min(left);
            left -= granted;
            if group.granted_cores != granted {
                let mut spec = GroupSpec::clone(group);
                spec.granted_cores = granted;
                *group = Arc::new(spec);
                self.by_name.insert(group.name.clone(), group.clone());
            }
            debug_assert_eq!(*id, group.id);
        }
        self.changed = false;
        let default = self
            .by_id
            .get(&GroupId::DEFAULT)
            .cloned()
            .unwrap_or_else(|| {
                let name = DEFAULT_GROUP.to_owned();
                Arc::new(GroupSpec::new(GroupId::DEFAULT, name, self.machine))
            });
        Snapshot::new(
            version,
            self.machine,
            default,
            self.by_id.values().cloned().collect(),
            self.by_name.values().cloned().collect(),
        )
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

    fn create(
        &mut self,
        s: &CreateGroup,
        origin: Origin,
        statement: usize,
        output: &mut Output,
    ) -> Result<(), SqlError> {
        if !is_group_name(&s.name) {
            let name = s.name.value.clone();
            return Err(SqlError::new(SqlErrorKind::BadName { name }, s.name.span));
        }
        let old = self.by_name.get(&s.name.value).cloned();
        let mut next_id = self.next_id;
        let id = match &old {
            Some(old) => old.id,
            None => GroupId(draw(&mut next_id)),
        };
        let mut spec = GroupSpec::new(id, s.name.value.clone(), self.machine);
        spec.classifiers = read_all(&s.classifiers, &mut next_id)?;
        let change = some(&s.properties, &s.name)?;
        change.merge_into(&mut spec)?;
        if origin == Origin::Statement {
            change.check_machine(self.machine)?;
        }
        if old.is_some() && !s.if_not_exists && !s.or_replace {
            let name = s.name.value.clone();
            return Err(SqlError::new(SqlErrorKind::GroupExists { name }, s.name.span).with_hint(
                "CREATE RESOURCE GROUP OR REPLACE changes it in place, IF NOT EXISTS leaves it as it is",
            ));
        }
        if spec.is_default() {
            if let Some(first) = s.classifiers.first() {
                return Err(builtin(&spec.name, "it takes no classifiers", first.span));
            }
            if spec.group_type() != GroupType::Normal {
                let span = change.value_span(Key::Type).unwrap_or_default();
                return Err(builtin(&spec.name, "its type is normal", span));
            }
        }
        let replaced = old.as_ref().map(|old| old.id);
        self.check_distinct(&spec.name, &spec.classifiers, &s.classifiers, replaced)?;
        let before = old
            .as_ref()
            .map_or(0, |old| old.exclusive_cpu_cores_written());
        self.check_across(&spec, before, &change, origin)?;
        if old.is_some() && !s.or_replace {
            output.notice(notice::skipped(&spec.name, "already exists"));
            return Ok(());
        }
        self.await_target(&spec, &change, statement);
        self.next_id = next_id;
        self.put(spec);
        self.remark(id, &change, output);
        Ok(())
    }

    fn alter(
        &mut self,
        s: &AlterGroup,
        origin: Origin,
        statement: usize,
        output: &mut Output,
    ) -> Result<(), SqlError> {
        let old = self.existing(&s.name)?;
        let mut spec = GroupSpec::clone(&old);
        let mut next_id = self.next_id;
        if spec.is_default() && !matches!(s.action, AlterAction::With(_)) {
            return Err(builtin(&spec.name, "it takes no classifiers", s.name.span));
        }
        match &s.action {
            AlterAction::Add(written) => {
                let added = read_all(written, &mut next_id)?;
                self.check_distinct(&spec.name, &added, written, None)?;
                spec.classifiers.extend(added);
            }
            AlterAction::Drop(ids) => {
                self.check_owned(&spec, ids)?;
                let dropped = |c: &ClassifierSpec| ids.iter().any(|id| id.value == c.id.0);
                spec.classifiers.retain(|c| !dropped(c));
            }
            AlterAction::DropAll => spec.classifiers.clear(),
            AlterAction::With(written) => {
                let change = some(written, &s.name)?;
                if let Some(key) = change.keys().find(|key| key.property().immutable) {
                    let span = change.key_span(key).unwrap_or_default();
                    let key = key.name();
                    return Err(SqlError::new(SqlErrorKind::Immutable { key }, span)
                        .with_hint("CREATE RESOURCE GROUP OR REPLACE can set it anew"));
                }
                change.merge_into(&mut spec)?;
                if origin == Origin::Statement {
                    change.check_machine(self.machine)?;
                }
                let before = old.exclusive_cpu_cores_written();
                self.check_across(&spec, before, &change, origin)?;
                self.await_target(&spec, &change, statement);
                let id = spec.id;
                self.put(spec);
                self.remark(id, &change, output);
                return Ok(());
            }
        }
        self.next_id = next_id;
        self.put(spec);
        Ok(())
    }

    fn drop(&mut self, s: &DropGroup, output: &mut Output) -> Result<(), SqlError> {
        if s.if_exists && !self.by_name.contains_key(&s.name.value) {
            output.notice(notice::skipped(&s.name, "does not exist"));
            return Ok(());
        }
        let old = self.existing(&s.name)?;
        if old.is_default() {
            return Err(builtin(&old.name, "it cannot be dropped", s.name.span));
        }
        let names_it = |g: &&Arc<GroupSpec>| target(g) == Some(old.name.as_str());
        if let Some(by) = self.by_name.values().find(names_it) {
            let kind = SqlErrorKind::InUse {
                name: old.name.clone(),
                by: by.name.clone(),
            };
            let hint = format!(
                "first ALTER RESOURCE GROUP {} WITH ('big_query_action'='kill')",
                by.name
            );
            return Err(SqlError::new(kind, s.name.span).with_hint(hint));
        }
        self.take(&old);
        self.changed = true;
        Ok(())
    }

    /// Puts a group in the place of the one with the same id, if there is one.
    fn put(&mut self, spec: GroupSpec) {
        if let Some(old) = self.by_id.get(&spec.id).cloned() {
            self.take(&old);
        }
        for c in &spec.classifiers {
            self.identities.insert(c.identity(), (spec.id, c.id));
        }
        let spec = Arc::new(spec);
        self.by_name.insert(spec.name.clone(), spec.clone());
        self.by_id.insert(spec.id, spec);
        self.changed = true;
    }

    fn take(&mut self, old: &GroupSpec) {
        for c in &old.classifiers {
            self.identities.remove(&c.identity());
        }
        self.by_name.remove(&old.name);
        self.by_id.remove(&old.id);
    }

    fn existing(&self, name: &Spanned<String>) -> Result<Arc<GroupSpec>, SqlError> {
        self.by_name
            .get(&name.value)
            .cloned()
            .ok_or_else(|| self.unknown(name, name.span))
    }

    fn unknown(&self, name: &str, span: Span) -> SqlError {
        unknown_group(name, span, self.by_name.keys().map(String::as_str))
    }

    /// No classifier may ask what another one asks, in the statement or in the catalog but for a group that it
    /// replaces.
    fn check_distinct(
        &self,
        group: &str,
        new: &[ClassifierSpec],
        written: &[Classifier],
        replaced: Option<GroupId>,
    ) -> Result<(), SqlError> {
        let mut seen: HashMap<String, ()> = HashMap::new();
        for (spec, place) in new.iter().zip(written) {
            let identity = spec.identity();
            let twin = match self.identities.get(&identity) {
                Some((owner, id)) if Some(*owner) != replaced => {
                    Some((self.name_of(*owner), Some(id.0)))
                }
                _ if seen.contains_key(&identity) => Some((group.to_owned(), None)),
                _ => None,
            };
            if let Some((group, id)) = twin {
                let kind = SqlErrorKind::IdenticalClassifier { group, id };
                return Err(SqlError::new(kind, place.span).with_hint(format!(
                    "no request could tell them apart; both read {identity} once normalised"
                )));
            }
            seen.insert(identity, ());
        }
        Ok(())
    }

    fn check_owned(&self, spec: &GroupSpec, ids: &[Spanned<u64>]) -> Result<(), SqlError> {
        for (i, id) in ids.iter().enumerate() {
            if ids.iter().take(i).any(|earlier| earlier == id) {
                let key = id.value.to_string();
                return Err(SqlError::new(SqlErrorKind::Duplicate { key }, id.span));
            }
            if spec.classifiers.iter().any(|c| c.id.0 == id.value) {
                continue;
            }
            let owner = self
                .by_id
                .values()
                .find(|g| g.classifiers.iter().any(|c| c.id.0 == id.value));
            let kind = SqlErrorKind::UnknownClassifier {
                id: id.value,
                group: spec.name.clone(),
                owner: owner.map(|g| g.name.clone()),
            };
            let own: Vec<String> = spec
                .classifiers
                .iter()
                .take(20)
                .map(|c| c.id.to_string())
                .collect();
            let hint = if own.is_empty() {
                format!("{} has no classifiers", spec.name)
            } else {
                format!("{} has {}", spec.name, own.join(", "))
            };
            return Err(SqlError::new(kind, id.span).with_hint(hint));
        }
        Ok(())
    }

    /// What a group may say depends on the others: the sum of the reservations, the group that it names.
    fn check_across(
        &self,
        spec: &GroupSpec,
        before: u64,
        change: &Change,
        origin: Origin,
    ) -> Result<(), SqlError> {
        let wanted = spec.exclusive_cpu_cores_written();
        // Giving some back is always possible, even in a catalog from a larger machine.
        let more = change.value_span(Key::ExclusiveCpuCores).is_some() && wanted > before;
        if origin == Origin::Statement && more {
            let others = self
                .by_id
                .values()
                .filter(|g| g.id != spec.id)
                .fold(0_u64, |sum, g| {
                    sum.saturating_add(g.exclusive_cpu_cores_written())
                });
            let workers = self.machine.workers();
            if others.saturating_add(wanted) > workers - 1 {
                let why = format!(
                    "the other groups reserve {others}, and {} of {workers} workers can be reserved",
                    workers - 1
                );
                return Err(change.beyond_machine(Key::ExclusiveCpuCores, why));
            }
        }
        if let (Some(name), Some(span)) = (target(spec), change.value_span(Key::BigQueryAction)) {
            if name == spec.name {
                let kind = SqlErrorKind::BadValue {
                    key: Key::BigQueryAction.name().to_owned(),
                    value: format!("switch_group({name})"),
                    why: "it is the group itself".to_owned(),
                };
                return Err(SqlError::new(kind, span).with_hint("name another group"));
            }
            if origin == Origin::Statement && !self.by_name.contains_key(name) {
                return Err(self.unknown(name, span));
            }
        }
        Ok(())
    }

    fn await_target(&mut self, spec: &GroupSpec, change: &Change, statement: usize) {
        if let (Some(name), Some(span)) = (target(spec), change.value_span(Key::BigQueryAction)) {
            self.awaited.push(Awaited {
                statement,
                by: spec.id,
                target: name.to_owned(),
                span,
            });
        }
    }

    /// Says what the change sets without effect.
    fn remark(&mut self, id: GroupId, change: &Change, output: &mut Output) {
        if let Some(group) = self.by_id.get(&id) {
            notice::about(output, [group.as_ref()], |key| {
                change.value_span(key).is_some()
            });
        }
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

fn builtin(name: &str, why: &'static str, span: Span) -> SqlError {
    let kind = SqlErrorKind::Builtin {
        name: name.to_owned(),
        why,
    };
    SqlError::new(kind, span).with_hint(format!(
        "for example ALTER RESOURCE GROUP {name} WITH ('cpu_core_limit'='2')"
    ))
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

/// Reads a `WITH (..)` that sets something.
fn some(written: &[Assignment], name: &Spanned<String>) -> Result<Change, SqlError> {
    if written.is_empty() {
        return Err(SqlError::new(SqlErrorKind::NothingToSet, name.span));
    }
    check::read(written)
}

fn read_all(written: &[Classifier], next_id: &mut u64) -> Result<Vec<ClassifierSpec>, SqlError> {
    written
        .iter()
        .map(|c| condition::read(ClassifierId(draw(next_id)), c))
        .collect()
}

fn draw(next_id: &mut u64) -> u64 {
    let id = *next_id;
    *next_id = id.saturating_add(1);
    id
}
