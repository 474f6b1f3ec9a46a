//! Why a request belongs to its group: every candidate in order, with the rule by which each loser lost.
//!
//! Pure. Looks at every classifier, condition by condition as they are written, and so is the index's witness:
//! its first candidate is what [`Index::classify`](super::Index::classify) finds. For EXPLAIN CLASSIFY, not for
//! the path of requests.

use super::attributes::Attributes;
use super::index::Input;
use super::rank::{Rank, Rule, canonical};
use crate::catalog::classifier::{ClassifierSpec, CostRange};
use crate::unit::GroupId;
use ipnet::IpNet;

/// A classifier that matches the request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// The group that it stands for.
    pub group: GroupId,
    /// Its conditions.
    pub classifier: &'a ClassifierSpec,
    /// Its place in the order, with each term that the rules compare.
    pub rank: Rank,
    /// Why it lost to the first candidate; none for the first itself.
    pub lost_by: Option<Rule>,
}

/// All classifiers that match, the winner first. Empty: the request belongs to `default_wg`.
pub fn explain<'a>(
    catalog: impl IntoIterator<Item = Input<'a>>,
    attributes: &Attributes,
) -> Vec<Candidate<'a>> {
    let mut candidates: Vec<Candidate<'a>> = catalog
        .into_iter()
        .filter(|input| meets(input.classifier, attributes))
        .map(|input| Candidate {
            group: input.group,
            classifier: input.classifier,
            rank: Rank::of(input.short_query, input.classifier),
            lost_by: None,
        })
        .collect();
    candidates.sort_by_key(|candidate| candidate.rank);
    if let Some((winner, losers)) = candidates.split_first_mut() {
        for loser in losers {
            loser.lost_by = Some(winner.rank.decided_by(&loser.rank));
        }
    }
    candidates
}

/// Whether the request meets every condition. One on something that it does not state is not met.
fn meets(spec: &ClassifierSpec, attributes: &Attributes) -> bool {
    let user = spec
        .user
        .as_deref()
        .is_none_or(|user| attributes.get_user() == Some(user));
    let role = spec
        .role
        .as_deref()
        .is_none_or(|role| attributes.get_roles().any(|stated| stated == role));
    let query_type = spec.query_types.is_empty()
        || attributes
            .get_query_type()
            .is_some_and(|stated| spec.query_types.contains(&stated));
    let source_ip = spec
        .source_ip
        .is_none_or(|network| source_ip_fits(network, attributes));
    let db = spec.dbs.is_empty()
        || (attributes.get_dbs().len() > 0
            && attributes.get_dbs().all(|stated| spec.dbs.contains(stated)));
    user && role
        && query_type
        && source_ip
        && db
        && in_range(spec.plan_cpu_cost_range, attributes.get_plan_cpu_cost())
        && in_range(spec.plan_mem_cost_range, attributes.get_plan_mem_cost())
}

/// Whether the request states an address in the network.
pub(super) fn source_ip_fits(network: IpNet, attributes: &Attributes) -> bool {
    let address = attributes.get_source_ip();
    address.is_some_and(|address| canonical(network).contains(&address.to_canonical()))
}

/// Whether a cost meets the condition, if there is one.
pub(super) fn in_range(range: Option<CostRange>, cost: Option<f64>) -> bool {
    range.is_none_or(|range| cost.is_some_and(|cost| range.min <= cost && cost < range.max))
}
