//! Rules across groups: no two classifiers alike, reservations that fit together, targets that exist.
//!
//! Pure.

use super::{Draft, target};
use crate::catalog::Origin;
use crate::catalog::check::Change;
use crate::catalog::classifier::ClassifierSpec;
use crate::catalog::group::GroupSpec;
use crate::catalog::property::Key;
use crate::sql::ast::Classifier;
use crate::sql::{Spanned, SqlError, SqlErrorKind};
use crate::unit::GroupId;
use std::collections::HashSet;

impl Draft {
    /// No classifier may ask what another one asks, in the statement or in the catalog but for a group that it
    /// replaces.
    pub(super) fn check_distinct(
        &self,
        group: &str,
        new: &[ClassifierSpec],
        written: &[Classifier],
        replaced: Option<GroupId>,
    ) -> Result<(), SqlError> {
        let mut seen = HashSet::new();
        for (spec, place) in new.iter().zip(written) {
            let identity = spec.identity();
            let twin = match self.identities.get(&identity) {
                Some((owner, id)) if Some(*owner) != replaced => {
                    Some((self.name_of(*owner), Some(id.0)))
                }
                _ if seen.contains(&identity) => Some((group.to_owned(), None)),
                _ => None,
            };
            if let Some((group, id)) = twin {
                let kind = SqlErrorKind::IdenticalClassifier { group, id };
                return Err(SqlError::new(kind, place.span).with_hint(format!(
                    "no request could tell them apart; both read {identity} once normalised"
                )));
            }
            seen.insert(identity);
        }
        Ok(())
    }

    pub(super) fn check_owned(
        &self,
        spec: &GroupSpec,
        ids: &[Spanned<u64>],
    ) -> Result<(), SqlError> {
        let own: HashSet<u64> = spec.classifiers.iter().map(|c| c.id.0).collect();
        let mut seen = HashSet::new();
        for id in ids {
            if !seen.insert(id.value) {
                let key = id.value.to_string();
                return Err(SqlError::new(SqlErrorKind::Duplicate { key }, id.span));
            }
            if own.contains(&id.value) {
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
    pub(super) fn check_across(
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
}
