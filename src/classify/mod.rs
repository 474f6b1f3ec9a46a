//! From a request's attributes to its resource group.
//!
//! Classification is a pure function of a catalog snapshot and [`Attributes`]. A classifier is an AND of
//! conditions, a group the OR of its classifiers; among those that match, [`Rank`] decides. [`Index`] is what
//! runs per request, compiled once per snapshot; [`explain`](explain::explain) answers the same question slowly,
//! and [`explanation`] in full, for people. Work that matches nothing belongs to `default_wg`; naming a group
//! ([`Attributes::resource_group`]) skips this room altogether.

pub mod attributes;
pub mod explain;
pub mod explanation;
pub mod index;
pub mod rank;
pub mod shadow;

pub use attributes::Attributes;
pub use index::{Index, Input, Match};
pub use rank::{Rank, Rule};
