//! Classifiers that never decide: whatever they match, another one matches too and comes first.
//!
//! Pure. For people who write catalogs. Only single classifiers are compared: one that several others hide together
//! is not found.

use super::rank::{Rank, Rule, canonical};
use crate::catalog::classifier::{ClassifierSpec, CostRange};
use crate::catalog::property::GroupType;
use crate::catalog::{GroupSpec, Snapshot};

/// A classifier that never decides, and the one in whose shadow it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shadowed<'a> {
    /// The group that it stands for, in vain.
    pub group: &'a GroupSpec,
    /// The one that never decides.
    pub classifier: &'a ClassifierSpec,
    /// The group of the other.
    pub by_group: &'a GroupSpec,
    /// The one that matches whatever it matches.
    pub by: &'a ClassifierSpec,
    /// Why that one comes first.
    pub rule: Rule,
}

/// All that never decide, the oldest first.
pub fn shadowed(catalog: &Snapshot) -> Vec<Shadowed<'_>> {
    let mut found: Vec<Shadowed<'_>> = catalog
        .classifiers()
        .filter_map(|(group, classifier)| shadow_of(catalog, group, classifier))
        .collect();
    found.sort_by_key(|one| one.classifier.id);
    found
}

/// The strongest classifier that always comes before this one of `group`, if there is one.
pub fn shadow_of<'a>(
    catalog: &'a Snapshot,
    group: &'a GroupSpec,
    classifier: &'a ClassifierSpec,
) -> Option<Shadowed<'a>> {
    let rank =
        |group: &GroupSpec, spec| Rank::of(group.group_type() == GroupType::ShortQuery, spec);
    let own = rank(group, classifier);
    catalog
        .classifiers()
        .filter(|(_, other)| implies(classifier, other))
        .map(|(owner, other)| (rank(owner, other), owner, other))
        .filter(|(other, ..)| *other < own)
        .min_by_key(|(other, ..)| *other)
        .map(|(other, by_group, by)| Shadowed {
            group,
            classifier,
            by_group,
            by,
            rule: other.decided_by(&own),
        })
}

/// Whether every request that meets all conditions of `one` meets all of `other`.
fn implies(one: &ClassifierSpec, other: &ClassifierSpec) -> bool {
    fn same(one: &Option<String>, other: &Option<String>) -> bool {
        other.is_none() || one == other
    }
    let within = |one: Option<CostRange>, other: Option<CostRange>| match (one, other) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(one), Some(other)) => other.min <= one.min && one.max <= other.max,
    };
    let network = match (one.source_ip, other.source_ip) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(one), Some(other)) => canonical(other).contains(&canonical(one)),
    };
    let among = |few: bool, none: bool, subset: bool| none || (few && subset);
    same(&one.user, &other.user)
        && same(&one.role, &other.role)
        && network
        && among(
            !one.query_types.is_empty(),
            other.query_types.is_empty(),
            one.query_types.is_subset(&other.query_types),
        )
        && among(
            !one.dbs.is_empty(),
            other.dbs.is_empty(),
            one.dbs.is_subset(&other.dbs),
        )
        && within(one.plan_cpu_cost_range, other.plan_cpu_cost_range)
        && within(one.plan_mem_cost_range, other.plan_mem_cost_range)
}
