//! Which of two matching classifiers wins: the five rules as one comparable key.
//!
//! Pure. The order is total: no two classifiers of one catalog are equal, since ids differ.

use crate::catalog::classifier::ClassifierSpec;
use crate::unit::ClassifierId;
use ipnet::{IpNet, Ipv4Net};
use std::fmt;

/// A classifier's place in the order of precedence; the *smaller* one wins.
///
/// The fields stand in the order of the rules, each turned so that the smaller value is the stronger, and the
/// derived order compares them one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    outside_short_query: bool,
    without_db: bool,
    conditions_absent: u8,
    dbs: u32,
    prefix_shortfall: u8,
    query_types: u8,
    id: ClassifierId,
}

/// How many kinds of condition a classifier can have.
const CONDITIONS: u8 = 7;
/// The shortfall of a classifier without a network: less specific than a prefix of length 0 (shortfall 128).
const NO_PREFIX: u8 = 129;
/// The number of query types that stands for "no condition": more than there are types.
const NO_TYPES: u8 = u8::MAX;

impl Rank {
    /// The place of a classifier; `short_query` tells whether its group is of that type.
    pub fn of(short_query: bool, spec: &ClassifierSpec) -> Rank {
        let conditions = [
            spec.user.is_some(),
            spec.role.is_some(),
            !spec.query_types.is_empty(),
            spec.source_ip.is_some(),
            !spec.dbs.is_empty(),
            spec.plan_cpu_cost_range.is_some(),
            spec.plan_mem_cost_range.is_some(),
        ];
        let present = conditions.iter().map(|&present| u8::from(present)).sum();
        Rank {
            outside_short_query: !short_query,
            without_db: spec.dbs.is_empty(),
            conditions_absent: CONDITIONS.saturating_sub(present),
            dbs: u32::try_from(spec.dbs.len()).unwrap_or(u32::MAX),
            prefix_shortfall: spec.source_ip.map_or(NO_PREFIX, |network| {
                128u8.saturating_sub(canonical(network).prefix_len())
            }),
            query_types: match spec.query_types.len() {
                0 => NO_TYPES,
                n => u8::try_from(n).unwrap_or(NO_TYPES - 1),
            },
            id: spec.id,
        }
    }

    /// Whether the classifier's group is of type short_query.
    pub fn short_query(&self) -> bool {
        !self.outside_short_query
    }

    /// How many conditions it has, 0 to 7.
    pub fn conditions(&self) -> u8 {
        CONDITIONS - self.conditions_absent
    }

    /// How many databases its db condition lists; 0 = no such condition.
    pub fn dbs(&self) -> u32 {
        self.dbs
    }

    /// The length of its network's prefix, counted in the network's own family.
    pub fn prefix_len(&self) -> Option<u8> {
        (self.prefix_shortfall != NO_PREFIX).then(|| 128 - self.prefix_shortfall)
    }

    /// How many query types it lists; 0 = no such condition.
    pub fn query_types(&self) -> u8 {
        if self.query_types == NO_TYPES {
            0
        } else {
            self.query_types
        }
    }

    /// The classifier.
    pub fn id(&self) -> ClassifierId {
        self.id
    }

    /// The first rule by which the two differ: why the larger loses to the smaller.
    pub fn decided_by(&self, other: &Rank) -> Rule {
        if self.outside_short_query != other.outside_short_query {
            Rule::ShortQuery
        } else if self.without_db != other.without_db {
            Rule::Db
        } else if self.conditions_absent != other.conditions_absent {
            Rule::MoreConditions
        } else if self.dbs != other.dbs {
            Rule::FewerDbs
        } else if self.prefix_shortfall != other.prefix_shortfall {
            Rule::LongerPrefix
        } else if self.query_types != other.query_types {
            Rule::FewerQueryTypes
        } else {
            Rule::Older
        }
    }
}

/// The rules of precedence, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A classifier of a short_query group before any other.
    ShortQuery,
    /// One with a db condition before one without.
    Db,
    /// More conditions before fewer.
    MoreConditions,
    /// Fewer databases before more.
    FewerDbs,
    /// A longer network prefix before a shorter one, and that before none.
    LongerPrefix,
    /// Fewer query types before more, and those before none.
    FewerQueryTypes,
    /// The older classifier, which has the smaller id.
    Older,
}

impl fmt::Display for Rule {
    /// Why the winner wins, as one phrase.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::ShortQuery => "group of type short_query",
            Rule::Db => "has a db condition",
            Rule::MoreConditions => "more conditions",
            Rule::FewerDbs => "fewer databases",
            Rule::LongerPrefix => "longer network prefix",
            Rule::FewerQueryTypes => "fewer query types",
            Rule::Older => "older classifier",
        })
    }
}

/// The network as it is compared: masked, and IPv4 where it holds nothing but IPv4-mapped addresses.
///
/// A wider IPv6 network holds no IPv4 address at all, `::/0` included.
pub fn canonical(network: IpNet) -> IpNet {
    let network = network.trunc();
    if let IpNet::V6(v6) = network
        && let Some(length) = v6.prefix_len().checked_sub(96)
        && let Some(address) = v6.addr().to_ipv4_mapped()
        && let Ok(v4) = Ipv4Net::new(address, length)
    {
        return IpNet::V4(v4);
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_network_is_an_ipv4_network() {
        let of = |text: &str| canonical(text.parse().expect("a network")).to_string();
        assert_eq!(of("::ffff:10.1.2.3/104"), "10.0.0.0/8");
        assert_eq!(of("::ffff:10.1.2.3/128"), "10.1.2.3/32");
        assert_eq!(of("::ffff:0.0.0.0/96"), "0.0.0.0/0");
        assert_eq!(of("::ffff:0.0.0.0/95"), "::fffe:0:0/95");
        assert_eq!(of("10.1.2.3/8"), "10.0.0.0/8");
        assert_eq!(of("2001:db8::1/32"), "2001:db8::/32");
    }
}
