//! All classifiers of a snapshot, compiled so that a request meets few of them.
//!
//! Pure; built once per snapshot, then only read, by any thread.
//!
//! A tree. A node holds classifiers in the order of [`Rank`](super::rank::Rank); one that holds many sends each
//! to a child by its *rarest* condition there (its user, its role, its network, or each of its databases), and that
//! kind of condition is done with below. A request follows the edges for what it states: its user, each of its roles,
//! each network around its address, one of its databases. The shape bounds what adversarial catalogs can do:
//! a node's list stays long only if its classifiers are alike in all four and differ in query types or costs.
//!
//! 1. Texts and networks are numbers (`Symbol`) from the door on; edges and conditions compare numbers only.
//! 2. A classifier that matches is reached by some edge at every node on its way: an edge is taken whenever the
//!    condition behind it is met. (For databases one stated name is enough: a classifier stands below each of its
//!    own, and a matching one lists all that are stated.)
//! 3. What an edge says is checked again in the list. The edges only save time; the list decides.
//! 4. `Node::best` is the least position below; a node that cannot beat the best match so far is not entered.

mod build;
mod hash;
mod networks;
mod request;

use super::attributes::Attributes;
use crate::catalog::classifier::{ClassifierSpec, CostRange};
use crate::unit::{ClassifierId, GroupId};
use hash::Numbers;
use networks::Networks;
use request::{Names, Request};

/// One classifier of a catalog, as the index takes it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The group that the classifier stands for.
    pub group: GroupId,
    /// Whether that group is of type short_query.
    pub short_query: bool,
    /// The conditions.
    pub classifier: &'a ClassifierSpec,
}

/// The classifier that won, and its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// The group that the request belongs to.
    pub group: GroupId,
    /// The classifier that says so.
    pub classifier: ClassifierId,
}

/// A compiled catalog: from attributes to a group without looking at every classifier.
#[derive(Debug, Default)]
pub struct Index {
    names: Names,
    networks: Networks,
    /// The tree; the first node is the root.
    nodes: Vec<Node>,
    edges: Numbers<(NodeId, Symbol), NodeId>,
    /// The nodes' lists, one after the other, each in the order of rank.
    rules: Vec<Rule>,
    /// The rules' databases, one sorted run per classifier.
    dbs: Vec<Symbol>,
    /// The rules' cost ranges, CPU and memory.
    costs: Vec<[Option<CostRange>; 2]>,
    /// By position in the order of rank.
    matches: Vec<Match>,
}

/// Number of a text or a network; one row of numbers for all kinds, so that a number tells its kind.
type Symbol = u32;
/// Stands for "no condition" in a rule and for "not stated, or in no classifier" in a request.
const NONE: Symbol = 0;
/// Number of a node.
type NodeId = u32;
/// A classifier's position when all are sorted by rank: the smaller wins.
type Position = u32;
/// Worse than every position.
const NO_MATCH: Position = u32::MAX;

/// The kinds of condition that edges stand for, as bits.
mod kind {
    pub(super) const USER: u8 = 1;
    pub(super) const ROLE: u8 = 2;
    pub(super) const NETWORK: u8 = 4;
    pub(super) const DB: u8 = 8;
    pub(super) const ALL: u8 = 15;
}

#[derive(Clone, Copy, Debug)]
struct Node {
    best: Position,
    /// Kinds of edges that leave it.
    kinds: u8,
    /// Its own list: a range of `Index::rules`.
    first: u32,
    end: u32,
}

/// A classifier in numbers.
#[derive(Clone, Copy, Debug)]
struct Rule {
    position: Position,
    user: Symbol,
    role: Symbol,
    /// The networks inside this rule's own, which is the first of them; everything if there is no condition.
    networks: (Symbol, Symbol),
    /// A range of `Index::dbs`.
    dbs: (u32, u32),
    /// Into `Index::costs`; `NO_COSTS` = no condition.
    costs: u32,
    query_types: u8,
}

const NO_COSTS: u32 = u32::MAX;

impl Index {
    /// Compiles a catalog; the order of the inputs does not matter.
    pub fn new<'a>(catalog: impl IntoIterator<Item = Input<'a>>) -> Index {
        build::compile(catalog)
    }

    /// The classifier that wins, by the order of [`Rank`](super::Rank); none if nothing matches, which makes the
    /// request one of `default_wg`.
    ///
    /// Looks neither at [`Attributes::resource_group`] nor at the fingerprint. Does not allocate, unless a request
    /// states more than 16 roles or databases that the catalog knows.
    pub fn classify(&self, attributes: &Attributes) -> Option<Match> {
        let request = Request::read(attributes, &self.names, &self.networks);
        let mut best = NO_MATCH;
        self.search(0, &request, &mut best);
        self.matches.get(best as usize).copied()
    }

    /// How many classifiers it holds.
    pub fn len(&self) -> usize {
        self.matches.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.matches.is_empty()
    }

    /// Improves `best` by what lies at and below `id`. Depth: the kinds of edges, four.
    fn search(&self, id: NodeId, request: &Request, best: &mut Position) {
        let Some(node) = self.nodes.get(id as usize) else {
            return;
        };
        if node.best >= *best {
            return;
        }
        if node.kinds & kind::DB != 0 {
            self.follow(id, request.probe_db(), request, best);
        }
        if node.kinds & kind::USER != 0 {
            self.follow(id, request.user, request, best);
        }
        if node.kinds & kind::ROLE != 0 {
            for &role in request.roles.as_slice() {
                self.follow(id, role, request, best);
            }
        }
        if node.kinds & kind::NETWORK != 0 {
            let mut network = request.network;
            while network != NONE {
                self.follow(id, network, request, best);
                network = self.networks.around(network);
            }
        }
        let own = self.rules.get(node.first as usize..node.end as usize);
        for rule in own.unwrap_or_default() {
            if rule.position >= *best {
                return;
            }
            if self.meets(rule, request) {
                *best = rule.position;
                return;
            }
        }
    }

    #[inline]
    fn follow(&self, from: NodeId, by: Symbol, request: &Request, best: &mut Position) {
        if by != NONE
            && let Some(&to) = self.edges.get(&(from, by))
        {
            self.search(to, request, best);
        }
    }

    #[inline]
    fn meets(&self, rule: &Rule, request: &Request) -> bool {
        rule.query_types & request.query_type != 0
            && (rule.user == NONE || rule.user == request.user)
            && rule.networks.0 <= request.network
            && request.network <= rule.networks.1
            && (rule.role == NONE || request.roles.as_slice().contains(&rule.role))
            && (rule.dbs.0 == rule.dbs.1 || self.lists_all(rule, request))
            && (rule.costs == NO_COSTS || self.costs_fit(rule, request))
    }

    /// Whether the request states databases and the rule lists each of them.
    fn lists_all(&self, rule: &Rule, request: &Request) -> bool {
        let listed = self.dbs.get(rule.dbs.0 as usize..rule.dbs.1 as usize);
        let listed = listed.unwrap_or_default();
        let stated = request.dbs.as_slice();
        !stated.is_empty() && stated.iter().all(|db| listed.binary_search(db).is_ok())
    }

    fn costs_fit(&self, rule: &Rule, request: &Request) -> bool {
        self.costs.get(rule.costs as usize).is_some_and(|ranges| {
            let [cpu, memory] = *ranges;
            super::explain::in_range(cpu, request.plan_cpu_cost)
                && super::explain::in_range(memory, request.plan_mem_cost)
        })
    }
}
