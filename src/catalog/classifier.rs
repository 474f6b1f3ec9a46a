//! One classifier: the conditions that a request must meet, all of them.
//!
//! Pure. A condition that is absent is met by everything.

use crate::sql::ast::{Classifier, Condition, Test};
use crate::sql::{Span, Spanned};
use crate::unit::ClassifierId;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::fmt;

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

impl QueryType {
    /// All of them.
    pub const ALL: [QueryType; 6] = [
        QueryType::Select,
        QueryType::Insert,
        QueryType::Import,
        QueryType::Compaction,
        QueryType::MvRefresh,
        QueryType::Other,
    ];

    /// As in statements, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            QueryType::Select => "select",
            QueryType::Insert => "insert",
            QueryType::Import => "import",
            QueryType::Compaction => "compaction",
            QueryType::MvRefresh => "mv_refresh",
            QueryType::Other => "other",
        }
    }

    /// The type of that name, in any case.
    pub fn from_name(name: &str) -> Option<QueryType> {
        QueryType::ALL
            .into_iter()
            .find(|t| t.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for QueryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A half-open range of plan costs, `[min, max)`; both ends finite, `min < max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostRange {
    /// The least cost that fits.
    pub min: f64,
    /// The least cost that no longer fits.
    pub max: f64,
}

/// As StarRocks prints it, `[1.0, 2.0)`; reads back as the same range.
impl fmt::Display for CostRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", decimal(self.min), decimal(self.max))
    }
}

/// In full digits, with at least one behind the point.
fn decimal(x: f64) -> String {
    let text = x.to_string();
    if text.contains('.') {
        text
    } else {
        format!("{text}.0")
    }
}

/// One condition of a classifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its key.
    pub key: &'static str,
    /// What it asks for, as text.
    pub asks: String,
    /// What it adds to [StarRocks' weight](ClassifierSpec::starrocks_weight).
    pub weight: f64,
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

impl ClassifierSpec {
    /// A classifier without any condition yet.
    pub fn empty(id: ClassifierId) -> ClassifierSpec {
        ClassifierSpec {
            id,
            user: None,
            role: None,
            query_types: BTreeSet::new(),
            source_ip: None,
            dbs: BTreeSet::new(),
            plan_cpu_cost_range: None,
            plan_mem_cost_range: None,
        }
    }

    /// The canonical classifier of a statement.
    pub fn to_ast(&self) -> Classifier {
        let equals = |key: &str, text: String| Condition {
            key: key.to_owned().into(),
            test: Test::Equals(text.into()),
        };
        let mut conditions = Vec::new();
        let text = |key, text: &Option<String>| text.as_ref().map(|t| equals(key, t.clone()));
        conditions.extend(text("user", &self.user));
        conditions.extend(text("role", &self.role));
        if !self.query_types.is_empty() {
            let name = |t: &QueryType| Spanned::from(t.name().to_owned());
            conditions.push(Condition {
                key: "query_type".to_owned().into(),
                test: Test::In(self.query_types.iter().map(name).collect()),
            });
        }
        if !self.dbs.is_empty() {
            conditions.push(equals("db", self.db_list()));
        }
        if let Some(net) = &self.source_ip {
            conditions.push(equals("source_ip", net.to_string()));
        }
        if let Some(range) = &self.plan_cpu_cost_range {
            conditions.push(equals("plan_cpu_cost_range", range.to_string()));
        }
        if let Some(range) = &self.plan_mem_cost_range {
            conditions.push(equals("plan_mem_cost_range", range.to_string()));
        }
        Classifier {
            conditions,
            span: Span::default(),
        }
    }

    /// A text that two classifiers share exactly when they ask the same, whatever their ids.
    pub fn identity(&self) -> String {
        self.to_ast().to_string()
    }

    /// StarRocks' weight, shown for information: it decides nothing here.
    pub fn starrocks_weight(&self) -> f64 {
        self.parts().iter().map(|part| part.weight).sum()
    }

    /// Its conditions one by one, in the order of the canonical text.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut part = |key, asks: Option<String>, weight| {
            parts.extend(asks.map(|asks| Part { key, asks, weight }));
        };
        part("user", self.user.clone(), 1.0);
        part("role", self.role.clone(), 1.0);
        let types: Vec<&str> = self.query_types.iter().map(|t| t.name()).collect();
        let some = |text: String| (!text.is_empty()).then_some(text);
        let fewer_are_heavier = 1.0 + 0.1 / types.len().max(1) as f64;
        part("query_type", some(types.join(", ")), fewer_are_heavier);
        part("db", some(self.db_list()), 10.0 * self.dbs.len() as f64);
        let prefix = self.source_ip.map_or(0, |net| net.prefix_len());
        let longer_is_heavier = 1.0 + f64::from(prefix) / 64.0;
        let network = self.source_ip.map(|net| net.to_string());
        part("source_ip", network, longer_is_heavier);
        let range = |range: Option<CostRange>| range.map(|range| range.to_string());
        part("plan_cpu_cost_range", range(self.plan_cpu_cost_range), 1.0);
        part("plan_mem_cost_range", range(self.plan_mem_cost_range), 1.0);
        parts
    }

    /// Its databases, with a comma between them.
    pub fn db_list(&self) -> String {
        let names: Vec<&str> = self.dbs.iter().map(String::as_str).collect();
        names.join(", ")
    }
}

/// The cell of SHOW, as StarRocks prints it: `(id=10007, weight=2.1, user=u, query_type in (SELECT))`.
impl fmt::Display for ClassifierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Six digits show every prefix exactly, and hide what the sum of floats adds.
        let weight = (self.starrocks_weight() * 1e6).round() / 1e6;
        write!(f, "(id={}, weight={}", self.id, decimal(weight))?;
        if let Some(user) = &self.user {
            write!(f, ", user={user}")?;
        }
        if let Some(role) = &self.role {
            write!(f, ", role={role}")?;
        }
        if !self.query_types.is_empty() {
            let mut names: Vec<String> = self
                .query_types
                .iter()
                .map(|t| t.name().to_ascii_uppercase())
                .collect();
            names.sort_unstable();
            write!(f, ", query_type in ({})", names.join(", "))?;
        }
        if !self.dbs.is_empty() {
            write!(f, ", db='{}'", self.db_list())?;
        }
        if let Some(net) = &self.source_ip {
            write!(f, ", source_ip={net}")?;
        }
        if let Some(range) = &self.plan_cpu_cost_range {
            write!(f, ", plan_cpu_cost_range={range}")?;
        }
        if let Some(range) = &self.plan_mem_cost_range {
            write!(f, ", plan_mem_cost_range={range}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ClassifierSpec {
        ClassifierSpec::empty(ClassifierId(10_007))
    }

    #[test]
    fn weights_are_those_of_starrocks() {
        let net = |text: &str| Some(text.parse().unwrap());
        let text = |t: &str| Some(t.to_owned());
        let select = || BTreeSet::from([QueryType::Select]);
        for (spec, weight) in [
            (
                ClassifierSpec {
                    source_ip: net("192.0.0.0/8"),
                    ..spec()
                },
                "1.125",
            ),
            (
                ClassifierSpec {
                    source_ip: net("192.168.7.1/32"),
                    ..spec()
                },
                "1.5",
            ),
            (
                ClassifierSpec {
                    query_types: select(),
                    ..spec()
                },
                "1.1",
            ),
            (
                ClassifierSpec {
                    query_types: [QueryType::Select, QueryType::Insert].into(),
                    ..spec()
                },
                "1.05",
            ),
            (
                ClassifierSpec {
                    dbs: ["a".to_owned()].into(),
                    ..spec()
                },
                "10.0",
            ),
            (
                ClassifierSpec {
                    dbs: ["a".to_owned(), "b".to_owned()].into(),
                    ..spec()
                },
                "20.0",
            ),
            (
                ClassifierSpec {
                    user: text("u"),
                    role: text("r"),
                    query_types: select(),
                    source_ip: net("192.168.2.0/24"),
                    ..spec()
                },
                "4.475",
            ),
        ] {
            let shown = spec.to_string();
            assert!(
                shown.starts_with(&format!("(id=10007, weight={weight}, ")),
                "{shown}"
            );
        }
    }

    #[test]
    fn the_cell_has_starrocks_form_and_order() {
        let full = ClassifierSpec {
            user: Some("u".to_owned()),
            role: Some("r".to_owned()),
            query_types: BTreeSet::from([QueryType::Select, QueryType::Insert]),
            source_ip: Some("192.168.2.0/24".parse().unwrap()),
            dbs: BTreeSet::from(["db2".to_owned(), "db1".to_owned()]),
            plan_cpu_cost_range: Some(CostRange { min: 1.0, max: 2.0 }),
            plan_mem_cost_range: Some(CostRange {
                min: 0.0,
                max: 100.5,
            }),
            ..spec()
        };
        assert_eq!(
            full.to_string(),
            "(id=10007, weight=26.425, user=u, role=r, query_type in (INSERT, SELECT), db='db1, db2', \
             source_ip=192.168.2.0/24, plan_cpu_cost_range=[1.0, 2.0), plan_mem_cost_range=[0.0, 100.5))"
        );
        assert_eq!(
            full.identity(),
            "(user='u', role='r', query_type IN ('select', 'insert'), db='db1, db2', \
             source_ip='192.168.2.0/24', plan_cpu_cost_range='[1.0, 2.0)', plan_mem_cost_range='[0.0, 100.5)')"
        );
    }
}
