//! One classifier: the conditions that a request must meet, all of them.
//!
//! Pure. A condition that is absent is met by everything.

use crate::unit::ClassifierId;
use ipnet::IpNet;
use std::collections::BTreeSet;

/// What kind of statement a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueryType {
    /// Reads.
    Select,
    /// Writes rows.
    Insert,
    /// Loads data in bulk.
    Import,
    /// Rewrites stored data in the background.
    Compaction,
    /// Refreshes a materialised view.
    MvRefresh,
    /// Anything else.
    Other,
}

/// A half-open range of plan costs, `[min, max)`; both ends finite, `min < max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostRange {
    /// The least cost that fits.
    pub min: f64,
    /// The least cost that no longer fits.
    pub max: f64,
}

/// The conditions of one classifier, normalised: sets are sorted and distinct, networks are masked.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierSpec {
    /// Grows in the order in which classifiers were written.
    pub id: ClassifierId,
    /// The request's user is exactly this.
    pub user: Option<String>,
    /// One of the request's roles is exactly this.
    pub role: Option<String>,
    /// The request's type is one of these; empty = no condition.
    pub query_types: BTreeSet<QueryType>,
    /// The request's address lies in this network.
    pub source_ip: Option<IpNet>,
    /// The request touches at least one database, and all that it touches are among these; empty = no condition.
    pub dbs: BTreeSet<String>,
    /// The planner's CPU cost lies in this range.
    pub plan_cpu_cost_range: Option<CostRange>,
    /// The planner's memory cost lies in this range.
    pub plan_mem_cost_range: Option<CostRange>,
}
