//! What is promised: six suites of tenants, their loads, and the ratios that must come out.

use crate::query::Query;
use crate::table::{BLOCKS, CUSTOMERS, DAYS, REGIONS, mix};

/// When a promise holds.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// How far a ratio may be from what was asked, as a part of it.
    pub(crate) tolerance: f64,
    /// The same for queries per second beside others ÷ alone, where queries may cost more in one of the two.
    pub(crate) throughput: f64,
    /// How far a tenant's share of the worker time may be from its share of the weights, as a part of the whole.
    pub(crate) share: f64,
    /// Whether a ratio that is nearer to what was asked than plain tokio's will do.
    pub(crate) nearer: bool,
}

impl Rules {
    /// What is promised.
    pub(crate) const FULL: Rules = Rules {
        tolerance: 0.05,
        throughput: 0.25,
        share: 0.01,
        nearer: false,
    };
    /// What a run of some hundred milliseconds shows beside a build that takes most of the CPU: in a third of a second
    /// a worker may lose dozens of milliseconds to it, and with it the tenant whose query it runs.
    pub(crate) const QUICK: Rules = Rules {
        tolerance: 0.25,
        throughput: 0.4,
        share: 0.06,
        nearer: true,
    };
}

/// One experiment.
pub(crate) struct Suite {
    pub(crate) title: &'static str,
    /// Statements that are run before it, on the governor that serves all suites.
    pub(crate) statements: &'static str,
    /// Workers that the first tenant's group reserves, where there are enough of them.
    pub(crate) reserved: u32,
    pub(crate) tenants: &'static [Tenant],
    pub(crate) promises: &'static [Promise],
}

/// One tenant: what its requests say of themselves, and what it asks for.
pub(crate) struct Tenant {
    /// Also the name of its group in tenants.sql.
    pub(crate) name: &'static str,
    /// Its group's cpu_core_limit there, or by the suite's own statements.
    pub(crate) weight: u32,
    pub(crate) user: &'static str,
    pub(crate) role: &'static str,
    pub(crate) db: &'static str,
    pub(crate) loads: &'static [Load],
}

/// A closed loop: so many clients per worker, each asking again as soon as it has its answer.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) query_type: &'static str,
    pub(crate) shape: Shape,
    pub(crate) clients_per_worker: usize,
}

/// The size of a load's queries. Their keys and places are drawn anew for each query.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    Lookup { days: u32 },
    Aggregate { days: u32 },
    Compact { blocks: u32 },
}

impl Shape {
    /// The shape of queries that are `divisor` times smaller.
    pub(crate) fn shrunk(self, divisor: u32) -> Shape {
        let part = |length: u32| (length / divisor.max(1)).max(1);
        match self {
            Shape::Lookup { days } => Shape::Lookup { days: part(days) },
            Shape::Aggregate { days } => Shape::Aggregate { days: part(days) },
            Shape::Compact { blocks } => Shape::Compact {
                blocks: part(blocks),
            },
        }
    }

    /// The query for a random number.
    pub(crate) fn draw(self, random: u64) -> Query {
        let below = |salt: u64, end: u32| (mix(random ^ salt) % u64::from(end)) as u32;
        match self {
            Shape::Lookup { days } => Query::Lookup {
                customer: below(1, CUSTOMERS),
                from: below(2, DAYS - days + 1),
                days,
            },
            Shape::Aggregate { days } => Query::Aggregate {
                region: below(1, REGIONS),
                from: below(2, DAYS - days + 1),
                days,
            },
            Shape::Compact { blocks } => Query::Compact {
                from: below(2, BLOCKS - blocks + 1),
                blocks,
            },
        }
    }
}

/// Which tenants are at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// The first tenant only.
    Alone,
    /// All of the suite.
    Beside,
}

/// A ratio that the governor must keep, as near as the [`Rules`] say.
#[derive(Clone, Copy)]
pub(crate) enum Promise {
    /// Queries per second of the first tenant ÷ those of the second.
    Throughput { asked: f64 },
    /// CPU time of the first tenant's queries beside the others ÷ alone.
    OfAlone { asked: f64 },
    /// A tenant's queries per second ÷ those of all tenants.
    Share { tenant: usize, asked: f64 },
    /// CPU time of the first tenant's queries ÷ that of the second's.
    Cpu { asked: f64 },
    /// CPU time of the first tenant's queries beside the others ÷ alone: what its reservation comes to.
    OfAloneReserved,
}

impl Promise {
    /// Whether it compares with the first tenant's throughput alone.
    pub(crate) fn is_of_alone(self) -> bool {
        matches!(self, Promise::OfAlone { .. } | Promise::OfAloneReserved)
    }
}

impl Suite {
    /// The share of the worker time that each tenant is entitled to when all have more work than they get: by weight,
    /// but for the first one no less than what it reserves. One worker is never reserved.
    pub(crate) fn shares(&self, workers: usize) -> Vec<f64> {
        let weights = || self.tenants.iter().map(|tenant| f64::from(tenant.weight));
        let all: f64 = weights().sum();
        let first = weights().next().unwrap_or(0.0);
        let reserved = (self.reserved as usize).min(workers - 1) as f64 / workers as f64;
        let own = (first / all).max(reserved);
        let others = weights()
            .skip(1)
            .map(|weight| weight / (all - first) * (1.0 - own));
        std::iter::once(own).chain(others).collect()
    }

    /// The ratio that is asked for on so many workers.
    pub(crate) fn asked(&self, promise: Promise, workers: usize) -> f64 {
        match promise {
            Promise::Throughput { asked }
            | Promise::OfAlone { asked }
            | Promise::Share { asked, .. }
            | Promise::Cpu { asked } => asked,
            Promise::OfAloneReserved => self.shares(workers)[0],
        }
    }

    /// Whether a promise compares with the first tenant's throughput alone.
    pub(crate) fn needs_alone(&self) -> bool {
        self.promises.iter().any(|promise| promise.is_of_alone())
    }

    /// The tenants at work.
    pub(crate) fn present(&self, company: Company) -> &'static [Tenant] {
        match company {
            Company::Alone => &self.tenants[..1],
            Company::Beside => self.tenants,
        }
    }
}

const LOOKUPS: Load = Load {
    name: "look-ups",
    query_type: "select",
    shape: Shape::Lookup { days: 360 },
    clients_per_worker: 6,
};

const REPORTS: Load = Load {
    name: "aggregations",
    query_type: "select",
    shape: Shape::Aggregate { days: 540 },
    clients_per_worker: 4,
};

const COMPACTION: Load = Load {
    name: "compaction",
    query_type: "compaction",
    shape: Shape::Compact { blocks: 64 },
    clients_per_worker: 4,
};

const fn tenant(name: &'static str, weight: u32, loads: &'static [Load]) -> Tenant {
    Tenant {
        name,
        weight,
        user: name,
        role: "app",
        db: "sales",
        loads,
    }
}

/// All suites, in the order in which they run.
pub(crate) const SUITES: [Suite; 6] = [
    Suite {
        title: "two tenants 2:1, same load",
        statements: "",
        reserved: 0,
        tenants: &[
            tenant("acme", 2, &[LOOKUPS]),
            tenant("globex", 1, &[LOOKUPS]),
        ],
        promises: &[Promise::Throughput { asked: 2.0 }],
    },
    Suite {
        title: "small beside large queries 2:1",
        statements: "",
        reserved: 0,
        tenants: &[
            Tenant {
                db: "dashboards",
                ..tenant("dashboards", 2, &[LOOKUPS])
            },
            Tenant {
                db: "lake",
                ..tenant("analysts", 1, &[LOOKUPS, REPORTS])
            },
        ],
        promises: &[Promise::OfAlone { asked: 2.0 / 3.0 }],
    },
    Suite {
        title: "short queries beside a heavy tenant 3:1",
        statements: "ALTER RESOURCE GROUP checkout WITH ('cpu_core_limit'='3');
                     ALTER RESOURCE GROUP reports WITH ('cpu_core_limit'='1')",
        reserved: 3,
        tenants: &[
            Tenant {
                user: "shop",
                db: "orders",
                ..tenant("checkout", 3, &[LOOKUPS])
            },
            Tenant {
                user: "shop",
                db: "archive",
                // Twice as many requests in flight as its neighbour: it must not matter.
                ..tenant(
                    "reports",
                    1,
                    &[Load {
                        clients_per_worker: 12,
                        ..REPORTS
                    }],
                )
            },
        ],
        promises: &[Promise::OfAlone { asked: 3.0 / 4.0 }],
    },
    Suite {
        title: "three tenants 1:3:4",
        statements: "",
        reserved: 0,
        tenants: &[
            Tenant {
                role: "bronze",
                ..tenant("bronze", 1, &[LOOKUPS])
            },
            Tenant {
                role: "silver",
                ..tenant("silver", 3, &[LOOKUPS])
            },
            Tenant {
                role: "gold",
                ..tenant("gold", 4, &[LOOKUPS])
            },
        ],
        promises: &[
            Promise::Share {
                tenant: 0,
                asked: 1.0 / 8.0,
            },
            Promise::Share {
                tenant: 1,
                asked: 3.0 / 8.0,
            },
            Promise::Share {
                tenant: 2,
                asked: 4.0 / 8.0,
            },
        ],
    },
    Suite {
        title: "queries, compaction 4:1",
        statements: "",
        reserved: 0,
        tenants: &[
            Tenant {
                user: "warehouse",
                ..tenant("queries", 4, &[LOOKUPS])
            },
            Tenant {
                user: "warehouse",
                ..tenant("compaction", 1, &[COMPACTION])
            },
        ],
        promises: &[Promise::Cpu { asked: 4.0 }],
    },
    Suite {
        title: "short queries that reserve a worker, weight 1 beside 10",
        statements: "ALTER RESOURCE GROUP checkout WITH ('cpu_core_limit'='1');
                     ALTER RESOURCE GROUP reports WITH ('cpu_core_limit'='10')",
        reserved: 1,
        tenants: &[
            Tenant {
                user: "shop",
                db: "orders",
                ..tenant("checkout", 1, &[LOOKUPS])
            },
            Tenant {
                user: "shop",
                db: "archive",
                ..tenant("reports", 10, &[REPORTS])
            },
        ],
        promises: &[Promise::OfAloneReserved],
    },
];
