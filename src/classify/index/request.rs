//! A request in the numbers of one index.
//!
//! Pure. Invariants: what the catalog does not mention is `NONE` or left out; a request with a database that the
//! catalog does not mention can meet no db condition and states none here.

use super::super::attributes::Attributes;
use super::hash::Numbers;
use super::networks::Networks;
use super::{NONE, Symbol};
use crate::catalog::classifier::QueryType;

/// The texts of a catalog and their numbers.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) users: Numbers<Box<str>, Symbol>,
    pub(super) roles: Numbers<Box<str>, Symbol>,
    /// Numbered from the rarest to the commonest.
    pub(super) dbs: Numbers<Box<str>, Symbol>,
}

/// What a request states, as far as the catalog asks for it.
pub(super) struct Request {
    pub(super) user: Symbol,
    pub(super) roles: Symbols,
    pub(super) dbs: Symbols,
    /// The smallest network of the catalog around the address.
    pub(super) network: Symbol,
    /// One bit: [`query_type_bit`], or [`NO_QUERY_TYPE`].
    pub(super) query_type: u8,
    pub(super) plan_cpu_cost: Option<f64>,
    pub(super) plan_mem_cost: Option<f64>,
}

/// The bit that only rules without a condition on the query type have set.
pub(super) const NO_QUERY_TYPE: u8 = 0x80;
/// What such a rule accepts: everything.
pub(super) const ANY_QUERY_TYPE: u8 = u8::MAX;

/// The bit of a query type.
pub(super) fn query_type_bit(query_type: QueryType) -> u8 {
    1 << match query_type {
        QueryType::Select => 0,
        QueryType::Insert => 1,
        QueryType::Import => 2,
        QueryType::Compaction => 3,
        QueryType::MvRefresh => 4,
        QueryType::Other => 5,
    }
}

impl Request {
    #[inline]
    pub(super) fn read(attributes: &Attributes, names: &Names, networks: &Networks) -> Request {
        let number = |names: &Numbers<Box<str>, Symbol>, text: &str| names.get(text).copied();
        let mut roles = Symbols::default();
        if !names.roles.is_empty() {
            for role in attributes.get_roles() {
                if let Some(role) = number(&names.roles, role) {
                    roles.insert(role);
                }
            }
        }
        let mut dbs = Symbols::default();
        if !names.dbs.is_empty() {
            for db in attributes.get_dbs() {
                let Some(db) = number(&names.dbs, db) else {
                    dbs = Symbols::default();
                    break;
                };
                dbs.insert(db);
            }
        }
        let user = attributes.get_user();
        Request {
            user: user
                .and_then(|user| number(&names.users, user))
                .unwrap_or(NONE),
            roles,
            dbs,
            network: attributes
                .get_source_ip()
                .map_or(NONE, |address| networks.innermost(address)),
            query_type: attributes
                .get_query_type()
                .map_or(NO_QUERY_TYPE, query_type_bit),
            plan_cpu_cost: attributes.get_plan_cpu_cost(),
            plan_mem_cost: attributes.get_plan_mem_cost(),
        }
    }

    /// The database to look for classifiers by: the rarest one stated, or `NONE`.
    #[inline]
    pub(super) fn probe_db(&self) -> Symbol {
        self.dbs.as_slice().iter().copied().min().unwrap_or(NONE)
    }
}

/// A small set of numbers that allocates only when it grows beyond 16.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    few: [Symbol; FEW],
    len: usize,
    /// All of them, once there are more than a few.
    many: Vec<Symbol>,
}

const FEW: usize = 16;

impl Symbols {
    fn insert(&mut self, symbol: Symbol) {
        if !self.many.is_empty() {
            // Repetitions cost time only; looking for one in a long list would cost more.
            self.many.push(symbol);
        } else if !self.as_slice().contains(&symbol) {
            match self.few.get_mut(self.len) {
                Some(place) => {
                    *place = symbol;
                    self.len += 1;
                }
                None => {
                    self.many.extend(self.few);
                    self.many.push(symbol);
                }
            }
        }
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[Symbol] {
        if self.many.is_empty() {
            self.few.get(..self.len).unwrap_or_default()
        } else {
            &self.many
        }
    }
}
