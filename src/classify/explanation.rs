//! Where a request goes, and each classifier's part in it: condition by condition, with what decided.
//!
//! Pure. Built on [`explain`](super::explain), which knows no index; the two must not disagree.

use super::attributes::Attributes;
use super::explain::{in_range, source_ip_fits};
use super::rank::{Rank, Rule};
use crate::catalog::Snapshot;
use crate::catalog::classifier::{ClassifierSpec, Part};
use crate::catalog::property::GroupType;
use crate::unit::{ClassifierId, GroupId};
use std::fmt;

/// So many classifiers that do not match are described: those that come nearest.
pub const NEAREST: usize = 100;

/// Where a request goes, and why.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The group that it belongs to.
    pub group: GroupId,
    /// Its name.
    pub group_name: String,
    /// What decided.
    pub decided_by: Decider,
    /// The classifiers that match, the strongest first; behind them those that do not, the nearest first: fewest
    /// conditions that are not met, then the stronger one. Of these, [`NEAREST`] at most.
    pub candidates: Vec<Candidate>,
    /// Classifiers that do not match and are not among `candidates`.
    pub unlisted: usize,
}

/// What decides on a request's group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decider {
    /// The request names its group: no classifier is asked.
    Request,
    /// This classifier.
    Classifier(ClassifierId),
    /// No classifier matches, so it is `default_wg`.
    Nobody,
}

/// One classifier, seen from a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// The group that it stands for.
    pub group: GroupId,
    /// The group's name.
    pub group_name: String,
    /// Its conditions.
    pub classifier: ClassifierSpec,
    /// The same one by one, in the order of the canonical text.
    pub terms: Vec<Term>,
    /// Its place in the order of precedence, with each number that the rules compare.
    pub rank: Rank,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// One condition of a classifier, held against a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Term {
    /// The condition's key.
    pub key: &'static str,
    /// What it asks for.
    pub asks: String,
    /// Whether the request meets it.
    pub met: bool,
    /// What it adds to StarRocks' weight, which is shown and decides nothing.
    pub weight: f64,
}

/// What becomes of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It decides.
    Chosen,
    /// It matches, but another one is stronger by this rule.
    Lost {
        /// The one that is chosen.
        to: ClassifierId,
        /// The first rule by which the two differ.
        by: Rule,
    },
    /// It matches, but the request names its group.
    Overruled,
    /// At least one condition is not met.
    NotMet,
}

impl Candidate {
    /// StarRocks' weight, the sum over the terms; for information.
    pub fn weight(&self) -> f64 {
        self.classifier.starrocks_weight()
    }
}

impl fmt::Display for Candidate {
    /// The verdict in words: `lost to 10002: more conditions`, `not met: user, db`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Chosen => f.write_str("chosen"),
            Verdict::Lost { to, by } => write!(f, "lost to {to}: {by}"),
            Verdict::Overruled => f.write_str("matches, but the request names its group"),
            Verdict::NotMet => {
                let unmet = self.terms.iter().filter(|term| !term.met);
                let keys: Vec<&str> = unmet.map(|term| term.key).collect();
                write!(f, "not met: {}", keys.join(", "))
            }
        }
    }
}

/// A classifier before it is described.
struct Seen<'a> {
    unmet: usize,
    rank: Rank,
    group: GroupId,
    group_name: &'a str,
    spec: &'a ClassifierSpec,
}

/// Explains where a request goes. None if it names a group that does not exist; whether it may name one is not asked.
pub fn explanation(catalog: &Snapshot, attributes: &Attributes) -> Option<Explanation> {
    let named = match attributes.get_resource_group() {
        Some(name) => Some(catalog.group(name)?),
        None => None,
    };
    let mut seen: Vec<Seen<'_>> = catalog
        .classifiers()
        .map(|(group, spec)| Seen {
            unmet: tests(spec, attributes)
                .filter(|met| *met == Some(false))
                .count(),
            rank: Rank::of(group.group_type() == GroupType::ShortQuery, spec),
            group: group.id,
            group_name: &group.name,
            spec,
        })
        .collect();
    seen.sort_by_key(|one| (one.unmet, one.rank));
    let matching = seen.iter().take_while(|one| one.unmet == 0).count();
    let listed = seen.len().min(matching.saturating_add(NEAREST));
    let winner = seen.first().filter(|one| one.unmet == 0);
    let (group, decided_by) = match (named, winner) {
        (Some(named), _) => (named.id, Decider::Request),
        (None, Some(winner)) => (winner.group, Decider::Classifier(winner.spec.id)),
        (None, None) => (catalog.default_group().id, Decider::Nobody),
    };
    let verdict = |one: &Seen<'_>| match winner {
        _ if one.unmet > 0 => Verdict::NotMet,
        _ if named.is_some() => Verdict::Overruled,
        Some(winner) if winner.spec.id != one.spec.id => Verdict::Lost {
            to: winner.spec.id,
            by: winner.rank.decided_by(&one.rank),
        },
        _ => Verdict::Chosen,
    };
    let candidate = |one: &Seen<'_>| Candidate {
        group: one.group,
        group_name: one.group_name.to_owned(),
        classifier: one.spec.clone(),
        terms: terms(one.spec, attributes),
        rank: one.rank,
        verdict: verdict(one),
    };
    Some(Explanation {
        group,
        group_name: catalog.group_by_id(group)?.name.clone(),
        decided_by,
        candidates: seen.iter().take(listed).map(candidate).collect(),
        unlisted: seen.len() - listed,
    })
}

/// Whether each condition is met, in the order of the keys; None where there is no condition.
fn tests<'a>(
    spec: &'a ClassifierSpec,
    attributes: &'a Attributes,
) -> impl Iterator<Item = Option<bool>> {
    let user = spec.user.as_deref();
    let role = spec.role.as_deref();
    let stated = attributes.get_dbs();
    [
        user.map(|user| attributes.get_user() == Some(user)),
        role.map(|role| attributes.get_roles().any(|stated| stated == role)),
        (!spec.query_types.is_empty()).then(|| {
            let stated = attributes.get_query_type();
            stated.is_some_and(|stated| spec.query_types.contains(&stated))
        }),
        (!spec.dbs.is_empty())
            .then(|| stated.len() > 0 && stated.clone().all(|stated| spec.dbs.contains(stated))),
        spec.source_ip
            .map(|network| source_ip_fits(network, attributes)),
        spec.plan_cpu_cost_range
            .map(|range| in_range(Some(range), attributes.get_plan_cpu_cost())),
        spec.plan_mem_cost_range
            .map(|range| in_range(Some(range), attributes.get_plan_mem_cost())),
    ]
    .into_iter()
}

fn terms(spec: &ClassifierSpec, attributes: &Attributes) -> Vec<Term> {
    let parts = spec.parts();
    let met = tests(spec, attributes).flatten();
    let term = |(part, met): (Part, bool)| Term {
        key: part.key,
        asks: part.asks,
        met,
        weight: part.weight,
    };
    parts.into_iter().zip(met).map(term).collect()
}
