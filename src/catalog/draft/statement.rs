//! CREATE, ALTER and DROP: check everything, then change the draft in one step.
//!
//! Pure.

use super::{Awaited, Draft, target};
use crate::catalog::Origin;
use crate::catalog::check::{self, Change};
use crate::catalog::classifier::ClassifierSpec;
use crate::catalog::condition;
use crate::catalog::group::GroupSpec;
use crate::catalog::notice;
use crate::catalog::property::{GroupType, Key};
use crate::sql::ast::*;
use crate::sql::{Output, Span, Spanned, SqlError, SqlErrorKind};
use crate::unit::{ClassifierId, GroupId};
use std::collections::HashSet;
use std::sync::Arc;

impl Draft {
    pub(super) fn create(
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
            // Said again it would be an ALTER, which takes no type.
            spec.properties.remove(&Key::Type);
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

    pub(super) fn alter(
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
                let ids: HashSet<u64> = ids.iter().map(|id| id.value).collect();
                spec.classifiers.retain(|c| !ids.contains(&c.id.0));
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

    pub(super) fn drop(&mut self, s: &DropGroup, output: &mut Output) -> Result<(), SqlError> {
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
        Ok(())
    }

    fn existing(&self, name: &Spanned<String>) -> Result<Arc<GroupSpec>, SqlError> {
        self.by_name
            .get(&name.value)
            .cloned()
            .ok_or_else(|| self.unknown(name, name.span))
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

pub(super) fn draw(next_id: &mut u64) -> u64 {
    let id = *next_id;
    *next_id = id.saturating_add(1);
    id
}
