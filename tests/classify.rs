//! The contract of classification: five rules, every condition, and an index that never disagrees with them.

use ipnet::IpNet;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use quotient::catalog::classifier::{ClassifierSpec, CostRange, QueryType};
use quotient::classify::explain::explain;
use quotient::classify::{Attributes, Index, Input, Match, Rule};
use quotient::unit::{ClassifierId, GroupId};
use std::collections::BTreeSet;
use std::net::IpAddr;

// ---- a small language for catalogs ---------------------------------------------------------------------------

/// A classifier of group 10 unless told otherwise.
#[derive(Clone, Debug)]
struct Row {
    group: u64,
    short_query: bool,
    spec: ClassifierSpec,
}

fn row(id: u64) -> Row {
    Row {
        group: id * 10,
        short_query: false,
        spec: ClassifierSpec::empty(ClassifierId(id)),
    }
}

impl Row {
    fn short_query(mut self) -> Row {
        self.short_query = true;
        self
    }
    fn user(mut self, user: &str) -> Row {
        self.spec.user = Some(user.into());
        self
    }
    fn role(mut self, role: &str) -> Row {
        self.spec.role = Some(role.into());
        self
    }
    fn types(mut self, types: &[QueryType]) -> Row {
        self.spec.query_types = types.iter().copied().collect();
        self
    }
    fn ip(mut self, network: &str) -> Row {
        self.spec.source_ip = Some(network.parse().expect("a network"));
        self
    }
    fn dbs(mut self, dbs: &[&str]) -> Row {
        self.spec.dbs = dbs.iter().map(|&db| db.to_owned()).collect();
        self
    }
    fn cpu(mut self, min: f64, max: f64) -> Row {
        self.spec.plan_cpu_cost_range = Some(CostRange { min, max });
        self
    }
    fn mem(mut self, min: f64, max: f64) -> Row {
        self.spec.plan_mem_cost_range = Some(CostRange { min, max });
        self
    }
}

fn inputs(rows: &[Row]) -> impl Iterator<Item = Input<'_>> {
    rows.iter().map(|row| Input {
        group: GroupId(row.group),
        short_query: row.short_query,
        classifier: &row.spec,
    })
}

/// The id of the classifier that wins, by the index; the explanation must say the same.
fn winner(rows: &[Row], attributes: &Attributes) -> Option<u64> {
    let found = Index::new(inputs(rows)).classify(attributes);
    let explained = explain(inputs(rows), attributes);
    assert_eq!(
        found,
        explained.first().map(|first| Match {
            group: first.group,
            classifier: first.classifier.id
        }),
    );
    found.map(|found| {
        assert_eq!(found.group.0, found.classifier.0 * 10);
        found.classifier.0
    })
}

fn at(address: &str) -> Attributes {
    Attributes::new().source_ip(address.parse().expect("an address"))
}

// ---- the five rules ------------------------------------------------------------------------------------------

#[track_caller]
fn beats(rule: Rule, strong: Row, weak: Row, attributes: &Attributes) {
    // Whichever is older, and whichever comes first, unless age itself is the rule.
    let ids: &[(u64, u64)] = if rule == Rule::Older {
        &[(1, 2)]
    } else {
        &[(1, 2), (2, 1)]
    };
    for &(strong_id, weak_id) in ids {
        let with_id = |row: &Row, id: u64| {
            let mut row = row.clone();
            row.spec.id = ClassifierId(id);
            row.group = id * 10;
            row
        };
        let (strong, weak) = (with_id(&strong, strong_id), with_id(&weak, weak_id));
        for rows in [
            [strong.clone(), weak.clone()],
            [weak.clone(), strong.clone()],
        ] {
            assert_eq!(winner(&rows, attributes), Some(strong_id), "{rows:?}");
            let explained = explain(inputs(&rows), attributes);
            assert_eq!(explained.len(), 2, "both match");
            assert_eq!(explained[0].lost_by, None);
            assert_eq!(explained[1].lost_by, Some(rule));
        }
    }
}

fn everything() -> Attributes {
    at("10.0.0.1")
        .user("u")
        .roles(["r", "s"])
        .db("a")
        .query_type(QueryType::Select)
        .plan_cpu_cost(5.0)
        .plan_mem_cost(5.0)
}

#[test]
fn rule_1_a_short_query_group_wins_whatever_its_conditions() {
    let strong = row(0).short_query().user("u");
    let weak = row(0)
        .user("u")
        .role("r")
        .types(&[QueryType::Select])
        .ip("10.0.0.1/32")
        .dbs(&["a"])
        .cpu(0.0, 9.0)
        .mem(0.0, 9.0);
    beats(Rule::ShortQuery, strong, weak, &everything());
}

#[test]
fn rule_2_a_db_condition_beats_any_number_of_others() {
    let strong = row(0).dbs(&["a", "b", "c"]);
    let weak = row(0)
        .user("u")
        .role("r")
        .types(&[QueryType::Select])
        .ip("10.0.0.1/32")
        .cpu(0.0, 9.0)
        .mem(0.0, 9.0);
    beats(Rule::Db, strong, weak, &everything());
}

#[test]
fn rule_3_more_conditions_beat_fewer_however_specific() {
    beats(
        Rule::MoreConditions,
        row(0).user("u").role("r"),
        row(0).ip("10.0.0.1/32"),
        &everything(),
    );
    beats(
        Rule::MoreConditions,
        row(0).dbs(&["a", "b"]).user("u"),
        row(0).dbs(&["a"]),
        &everything(),
    );
    beats(
        Rule::MoreConditions,
        row(0).cpu(0.0, 9.0).mem(0.0, 9.0),
        row(0).user("u"),
        &everything(),
    );
    beats(
        Rule::MoreConditions,
        row(0).user("u"),
        row(0),
        &everything(),
    );
}

#[test]
fn rule_4_the_more_specific_wins_databases_then_prefix_then_types() {
    use QueryType::{Insert, Other, Select};
    beats(
        Rule::FewerDbs,
        row(0).dbs(&["a"]).user("u"),
        row(0).dbs(&["a", "b"]).ip("10.0.0.1/32"),
        &everything(),
    );
    beats(
        Rule::LongerPrefix,
        row(0).ip("10.0.0.0/31").role("r"),
        row(0).ip("10.0.0.0/30").types(&[Select]),
        &everything(),
    );
    beats(
        Rule::LongerPrefix,
        row(0).ip("0.0.0.0/0"),
        row(0).types(&[Select]),
        &everything(),
    );
    beats(
        Rule::LongerPrefix,
        row(0).ip("::ffff:10.0.0.0/128").user("u"),
        row(0).ip("10.0.0.0/31").user("u"),
        &at("10.0.0.0").user("u"),
    );
    beats(
        Rule::FewerQueryTypes,
        row(0).types(&[Select]),
        row(0).types(&[Select, Insert]),
        &everything(),
    );
    let all = [
        Select,
        Insert,
        QueryType::Import,
        QueryType::Compaction,
        QueryType::MvRefresh,
        Other,
    ];
    beats(
        Rule::FewerQueryTypes,
        row(0).types(&all),
        row(0).user("u"),
        &everything(),
    );
    beats(
        Rule::FewerQueryTypes,
        row(0).dbs(&["a"]).ip("10.0.0.0/8").types(&[Select, Other]),
        row(0).dbs(&["a"]).ip("10.0.0.0/8").user("u"),
        &everything(),
    );
}

#[test]
fn rule_5_the_older_classifier_wins_a_tie() {
    beats(
        Rule::Older,
        row(0).user("u"),
        row(0).role("r"),
        &everything(),
    );
    beats(
        Rule::Older,
        row(0).role("s"),
        row(0).role("r"),
        &everything(),
    );
    beats(
        Rule::Older,
        row(0).cpu(0.0, 9.0),
        row(0).cpu(4.0, 6.0),
        &everything(),
    );
    beats(
        Rule::Older,
        row(0).short_query().dbs(&["a", "z"]),
        row(0).short_query().dbs(&["a", "b"]),
        &everything(),
    );
}

// ---- every condition -----------------------------------------------------------------------------------------

#[test]
fn nothing_matches_an_empty_catalog_and_the_default_group_takes_it() {
    assert_eq!(winner(&[], &everything()), None);
    assert_eq!(winner(&[], &Attributes::new()), None);
    assert!(Index::default().is_empty());
    assert_eq!(Index::default().classify(&everything()), None);
}

#[test]
fn a_condition_on_something_that_is_not_stated_is_not_met() {
    let rows = [
        row(1).user("u"),
        row(2).role("r"),
        row(3).types(&[QueryType::Select]),
        row(4).ip("0.0.0.0/0"),
        row(5).ip("::/0"),
        row(6).dbs(&["a"]),
        row(7).cpu(f64::MIN, f64::MAX),
        row(8).mem(f64::MIN, f64::MAX),
        row(9).user(""),
    ];
    assert_eq!(winner(&rows, &Attributes::new()), None);
    assert_eq!(winner(&[row(1)], &Attributes::new()), Some(1));
    let not_a_number = Attributes::new()
        .plan_cpu_cost(f64::NAN)
        .plan_mem_cost(f64::NAN);
    assert_eq!(winner(&rows, &not_a_number), None);
}

#[test]
fn all_conditions_must_hold() {
    let full = row(1)
        .user("u")
        .role("r")
        .types(&[QueryType::Select])
        .ip("10.0.0.0/8")
        .dbs(&["a"])
        .cpu(0.0, 9.0)
        .mem(0.0, 9.0);
    let rows = [full];
    assert_eq!(winner(&rows, &everything()), Some(1));
    for broken in [
        everything().user("v"),
        everything().query_type(QueryType::Insert),
        everything().source_ip("11.0.0.1".parse().expect("an address")),
        everything().db("b"),
        everything().plan_cpu_cost(9.0),
        everything().plan_mem_cost(-1.0),
    ] {
        assert_eq!(winner(&rows, &broken), None, "{broken:?}");
    }
}

#[test]
fn texts_are_compared_exactly() {
    let rows = [row(1).user("Bi"), row(2).role("é"), row(3).dbs(&["a b"])];
    assert_eq!(winner(&rows, &Attributes::new().user("bi")), None);
    assert_eq!(winner(&rows, &Attributes::new().user("Bi ")), None);
    assert_eq!(winner(&rows, &Attributes::new().user("Bi")), Some(1));
    assert_eq!(winner(&rows, &Attributes::new().role("e\u{301}")), None);
    assert_eq!(winner(&rows, &Attributes::new().role("é")), Some(2));
    assert_eq!(winner(&rows, &Attributes::new().db("a b")), Some(3));
}

#[test]
fn a_user_a_role_and_a_database_of_one_name_are_three_things() {
    let rows = [row(1).user("x"), row(2).role("x"), row(3).dbs(&["x"])];
    assert_eq!(winner(&rows, &Attributes::new().user("x")), Some(1));
    assert_eq!(winner(&rows, &Attributes::new().role("x")), Some(2));
    assert_eq!(winner(&rows, &Attributes::new().db("x")), Some(3));
}

#[test]
fn any_of_the_roles_will_do_and_many_are_no_trouble() {
    let rows = [row(1).role("r7"), row(2).role("r40").user("u")];
    assert_eq!(
        winner(&rows, &Attributes::new().roles(["a", "r7"])),
        Some(1)
    );
    let many: Vec<Row> = (0..60).map(|n| row(n + 1).role(&format!("r{n}"))).collect();
    let stated = (0..60).rev().map(|n| format!("r{n}"));
    let asks = Attributes::new().roles(stated);
    assert_eq!(winner(&many, &asks), Some(1));
    let late = Attributes::new().roles((30..60).map(|n| format!("r{n}")));
    assert_eq!(winner(&many, &late), Some(31));
    let repeated = Attributes::new().roles(std::iter::repeat_n("r59", 50));
    assert_eq!(winner(&many, &repeated), Some(60));
}

#[test]
fn every_database_that_is_touched_must_be_listed() {
    let rows = [row(1).dbs(&["a", "b"]), row(2).dbs(&["a", "b", "c"])];
    let touching = |dbs: &[&str]| winner(&rows, &Attributes::new().dbs(dbs));
    assert_eq!(touching(&[]), None, "SELECT 1 touches none");
    assert_eq!(touching(&["a"]), Some(1));
    assert_eq!(touching(&["b", "a", "b"]), Some(1));
    assert_eq!(touching(&["a", "c"]), Some(2));
    assert_eq!(touching(&["a", "d"]), None, "d is in no list");
    assert_eq!(touching(&["d"]), None);
    // More than fit into the small set, in a catalog that is divided by database.
    let names: Vec<String> = (0..100).map(|n| format!("d{n}")).collect();
    let lists: Vec<Row> = (0..50u64)
        .map(|n| {
            let all: Vec<&str> = names.iter().skip(n as usize).map(|db| &**db).collect();
            row(n + 1).dbs(&all)
        })
        .collect();
    let asks = |from: usize| Attributes::new().dbs(&names[from..]);
    assert_eq!(winner(&lists, &asks(0)), Some(1));
    assert_eq!(winner(&lists, &asks(30)), Some(31));
    assert_eq!(winner(&lists, &asks(99)), Some(50));
    assert_eq!(winner(&lists, &asks(30).db("other")), None);
}

#[test]
fn networks_hold_their_first_and_last_address() {
    let rows = [
        row(1).ip("10.0.0.0/8"),
        row(2).ip("10.0.0.4/30"),
        row(3).ip("10.0.0.4/31"),
        row(4).ip("10.0.0.4/32"),
        row(5).ip("255.255.255.255/32"),
        row(6).ip("2001:db8::/64"),
        row(7).ip("2001:db8::/128"),
    ];
    for (address, expected) in [
        ("9.255.255.255", None),
        ("10.0.0.0", Some(1)),
        ("10.0.0.3", Some(1)),
        ("10.0.0.4", Some(4)),
        ("10.0.0.5", Some(3)),
        ("10.0.0.6", Some(2)),
        ("10.0.0.7", Some(2)),
        ("10.0.0.8", Some(1)),
        ("10.255.255.255", Some(1)),
        ("11.0.0.0", None),
        ("255.255.255.254", None),
        ("255.255.255.255", Some(5)),
        ("2001:db8::", Some(7)),
        ("2001:db8::1", Some(6)),
        ("2001:db8::ffff:ffff:ffff:ffff", Some(6)),
        ("2001:db8:0:1::", None),
    ] {
        assert_eq!(winner(&rows, &at(address)), expected, "{address}");
    }
}

#[test]
fn a_mapped_address_counts_as_ipv4_on_either_side() {
    let plain = [row(1).ip("10.0.0.0/8"), row(2).ip("::/0")];
    assert_eq!(winner(&plain, &at("::ffff:10.1.1.1")), Some(1));
    assert_eq!(winner(&plain, &at("::ffff:11.1.1.1")), None);
    assert_eq!(
        winner(&plain, &at("::10.1.1.1")),
        Some(2),
        "compatible, not mapped"
    );
    let mapped = [row(1).ip("::ffff:10.0.0.0/104"), row(2).ip("10.1.0.0/16")];
    assert_eq!(winner(&mapped, &at("10.0.0.9")), Some(1));
    assert_eq!(
        winner(&mapped, &at("10.1.0.9")),
        Some(2),
        "16 is longer than 8"
    );
    assert_eq!(winner(&mapped, &at("::ffff:10.1.0.9")), Some(2));
}

#[test]
fn a_network_that_is_not_masked_means_the_network() {
    let rows = [row(1).ip("10.9.9.9/8")];
    assert_eq!(winner(&rows, &at("10.0.0.0")), Some(1));
}

#[test]
fn a_cost_range_holds_its_lower_end_and_not_its_upper() {
    let rows = [row(1).cpu(-1.0, 10.0), row(2).mem(0.0, 0.1 + 0.2)];
    let cpu = |cost: f64| winner(&rows, &Attributes::new().plan_cpu_cost(cost));
    assert_eq!(cpu(-1.0), Some(1));
    assert_eq!(cpu((-1.0_f64).next_down()), None);
    assert_eq!(cpu(10.0_f64.next_down()), Some(1));
    assert_eq!(cpu(10.0), None);
    assert_eq!(cpu(f64::INFINITY), None);
    assert_eq!(cpu(f64::NEG_INFINITY), None);
    let mem = |cost: f64| winner(&rows, &Attributes::new().plan_mem_cost(cost));
    assert_eq!(mem(-0.0), Some(2));
    assert_eq!(mem(0.3), Some(2));
    assert_eq!(mem(0.1 + 0.2), None);
}

#[test]
fn naming_a_group_and_a_fingerprint_do_not_change_the_classifier() {
    let rows = [row(1).user("u")];
    let asks = everything().resource_group("other").fingerprint(7);
    assert_eq!(winner(&rows, &asks), Some(1));
    assert_eq!(asks.get_resource_group(), Some("other"));
    assert_eq!(asks.resource_group("").get_resource_group(), None);
}

// ---- the index against a model of the rules -------------------------------------------------------------------

/// What the contract says, written without looking at the code: an O(n) matcher and the rules one by one.
mod model {
    use super::*;
    use std::cmp::Ordering;

    /// A request as plain data.
    #[derive(Clone, Debug, Default)]
    pub(super) struct Ask {
        pub(super) user: Option<String>,
        pub(super) roles: Vec<String>,
        pub(super) ip: Option<IpAddr>,
        pub(super) dbs: Vec<String>,
        pub(super) query_type: Option<QueryType>,
        pub(super) cpu: Option<f64>,
        pub(super) mem: Option<f64>,
    }

    impl Ask {
        pub(super) fn attributes(&self) -> Attributes {
            let mut attributes = Attributes::new().roles(&self.roles).dbs(&self.dbs);
            if let Some(user) = &self.user {
                attributes = attributes.user(user);
            }
            if let Some(ip) = self.ip {
                attributes = attributes.source_ip(ip);
            }
            if let Some(query_type) = self.query_type {
                attributes = attributes.query_type(query_type);
            }
            if let Some(cost) = self.cpu {
                attributes = attributes.plan_cpu_cost(cost);
            }
            if let Some(cost) = self.mem {
                attributes = attributes.plan_mem_cost(cost);
            }
            attributes
        }
    }

    /// An address as bits from the top, with the length of its family: mapped ones are 32 bits long.
    fn bits(ip: IpAddr) -> Vec<bool> {
        let all = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => {
                let octets = ip.octets();
                if octets[..10] == [0; 10] && octets[10..12] == [255, 255] {
                    octets[12..].to_vec()
                } else {
                    octets.to_vec()
                }
            }
        };
        let of_byte = |byte: u8| (0..8).rev().map(move |bit| byte >> bit & 1 == 1);
        all.into_iter().flat_map(of_byte).collect()
    }

    /// A network as (family's length, prefix).
    fn prefix(network: &IpNet) -> (usize, Vec<bool>) {
        let address = bits(network.network());
        let length = usize::from(network.prefix_len());
        if network.network().is_ipv6() && address.len() == 32 {
            if length >= 96 {
                return (32, address[..length - 96].to_vec());
            }
            // Wider than the mapped block although its first address is mapped: of the IPv6 family.
            let IpAddr::V6(ip) = network.network() else {
                unreachable!()
            };
            let all = ip.octets().into_iter();
            let all = all.flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
            return (128, all.take(length).collect());
        }
        (address.len(), address[..length].to_vec())
    }

    fn matches(spec: &ClassifierSpec, ask: &Ask) -> bool {
        if let Some(user) = &spec.user
            && ask.user.as_ref() != Some(user)
        {
            return false;
        }
        if let Some(role) = &spec.role
            && !ask.roles.contains(role)
        {
            return false;
        }
        if !spec.query_types.is_empty()
            && !ask
                .query_type
                .is_some_and(|one| spec.query_types.contains(&one))
        {
            return false;
        }
        if let Some(network) = &spec.source_ip {
            let Some(ip) = ask.ip else { return false };
            let (family, prefix) = prefix(network);
            let ip = bits(ip);
            if ip.len() != family || !ip.starts_with(&prefix) {
                return false;
            }
        }
        if !spec.dbs.is_empty() {
            let touched: BTreeSet<String> = ask.dbs.iter().cloned().collect();
            if touched.is_empty() || !touched.is_subset(&spec.dbs) {
                return false;
            }
        }
        for (range, cost) in [
            (spec.plan_cpu_cost_range, ask.cpu),
            (spec.plan_mem_cost_range, ask.mem),
        ] {
            if let Some(range) = range {
                let Some(cost) = cost else { return false };
                if cost < range.min || cost >= range.max {
                    return false;
                }
            }
        }
        true
    }

    fn conditions(spec: &ClassifierSpec) -> usize {
        let mut count = 0;
        count += usize::from(spec.user.is_some());
        count += usize::from(spec.role.is_some());
        count += usize::from(!spec.query_types.is_empty());
        count += usize::from(spec.source_ip.is_some());
        count += usize::from(!spec.dbs.is_empty());
        count += usize::from(spec.plan_cpu_cost_range.is_some());
        count + usize::from(spec.plan_mem_cost_range.is_some())
    }

    /// `Less`: the first wins.
    fn by_the_rules(a: &Row, b: &Row) -> Ordering {
        if a.short_query != b.short_query {
            return if a.short_query {
                Ordering::Less
            } else {
                Ordering::Greater
            };
        }
        if a.spec.dbs.is_empty() != b.spec.dbs.is_empty() {
            return if b.spec.dbs.is_empty() {
                Ordering::Less
            } else {
                Ordering::Greater
            };
        }
        let more = conditions(&b.spec).cmp(&conditions(&a.spec));
        let fewer_dbs = a.spec.dbs.len().cmp(&b.spec.dbs.len());
        let length = |row: &Row| {
            row.spec
                .source_ip
                .map_or(-1, |net| prefix(&net).1.len() as i32)
        };
        let longer = length(b).cmp(&length(a));
        let types = |row: &Row| match row.spec.query_types.len() {
            0 => usize::MAX,
            n => n,
        };
        let fewer_types = types(a).cmp(&types(b));
        more.then(fewer_dbs)
            .then(longer)
            .then(fewer_types)
            .then(a.spec.id.0.cmp(&b.spec.id.0))
    }

    pub(super) fn classify(rows: &[Row], ask: &Ask) -> Vec<u64> {
        let mut matching: Vec<&Row> = rows.iter().filter(|row| matches(&row.spec, ask)).collect();
        matching.sort_by(|a, b| by_the_rules(a, b));
        matching.iter().map(|row| row.spec.id.0).collect()
    }
}

/// Few values of everything, so that classifiers collide, nest and tie.
mod draw {
    use super::model::Ask;
    use super::*;
    use proptest::collection::{btree_set, vec};
    use proptest::option;
    use proptest::sample::select;

    fn word() -> impl Strategy<Value = String> {
        // The same words for users, roles and databases: only their kind tells them apart.
        select(vec!["a", "b", "c", "d", "a_rather_long_name"]).prop_map(str::to_owned)
    }

    fn query_type() -> impl Strategy<Value = QueryType> {
        select(vec![
            QueryType::Select,
            QueryType::Insert,
            QueryType::Import,
            QueryType::Compaction,
            QueryType::MvRefresh,
            QueryType::Other,
        ])
    }

    fn address() -> impl Strategy<Value = IpAddr> {
        // Both families, close to the borders of the networks below; mapped, compatible and plain.
        let low = select(vec![
            0u32,
            1,
            2,
            3,
            4,
            7,
            8,
            255,
            256,
            0xFFFF_FFFE,
            0xFFFF_FFFF,
        ]);
        let high = select(vec![0u128, 0xFFFF, 0xFFFE, 1 << 95, 0x2001_0DB8 << 64]);
        (low, high, any::<bool>()).prop_map(|(low, high, v4)| {
            if v4 {
                IpAddr::from(low.to_be_bytes())
            } else {
                IpAddr::from((high << 32 | u128::from(low)).to_be_bytes())
            }
        })
    }

    fn network() -> impl Strategy<Value = IpNet> {
        let short = select(vec![0u8, 1, 24, 28, 29, 30, 31, 32]);
        (address(), short, any::<bool>()).prop_map(|(address, short, deep)| {
            let length = match (address, deep) {
                (IpAddr::V4(_), _) => short,
                (IpAddr::V6(_), true) => short + 96,
                (IpAddr::V6(_), false) => short * 3,
            };
            IpNet::new(address, length).expect("a prefix that fits")
        })
    }

    fn cost() -> impl Strategy<Value = f64> {
        select(vec![-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
    }

    fn range() -> impl Strategy<Value = CostRange> {
        (cost(), select(vec![0.5, 1.0, 4.0])).prop_map(|(min, width)| CostRange {
            min,
            max: min + width,
        })
    }

    fn some<S: Strategy>(strategy: S) -> impl Strategy<Value = Option<S::Value>> {
        option::weighted(0.4, strategy)
    }

    fn row() -> impl Strategy<Value = Row> {
        let named = (some(word()), some(word()), some(btree_set(word(), 1..4)));
        let rest = (
            some(btree_set(query_type(), 1..4)),
            some(network()),
            option::weighted(0.2, range()),
            option::weighted(0.2, range()),
        );
        (any::<bool>(), any::<bool>(), named, rest).prop_map(|(a, b, named, rest)| Row {
            group: 0,
            short_query: a && b,
            spec: ClassifierSpec {
                id: ClassifierId(0),
                user: named.0,
                role: named.1,
                query_types: rest.0.unwrap_or_default(),
                source_ip: rest.1,
                dbs: named.2.unwrap_or_default(),
                plan_cpu_cost_range: rest.2,
                plan_mem_cost_range: rest.3,
            },
        })
    }

    /// Ids in any order, not that of the rows.
    pub(super) fn catalog(most: usize) -> impl Strategy<Value = Vec<Row>> {
        vec((row(), any::<u16>()), 0..most).prop_map(|rows| {
            let count = rows.len();
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by_key(|&at| (rows[at].1, at));
            let mut rows: Vec<Row> = rows.into_iter().map(|(row, _)| row).collect();
            for (id, at) in order.into_iter().enumerate() {
                rows[at].spec.id = ClassifierId(id as u64 + 1);
                rows[at].group = (id as u64 + 1) * 10;
            }
            rows
        })
    }

    pub(super) fn ask() -> impl Strategy<Value = Ask> {
        let unknown = prop_oneof![4 => word(), 1 => Just("unknown".to_owned())];
        let named = (
            option::weighted(0.8, unknown),
            vec(word(), 0..3),
            vec(
                prop_oneof![9 => word(), 1 => Just("unknown".to_owned())],
                0..3,
            ),
        );
        let rest = (
            option::weighted(0.8, query_type()),
            option::weighted(0.8, address()),
            option::weighted(0.8, cost()),
            option::weighted(0.8, cost()),
        );
        (named, rest).prop_map(|(named, rest)| Ask {
            user: named.0,
            roles: named.1,
            dbs: named.2,
            query_type: rest.0,
            ip: rest.1,
            cpu: rest.2,
            mem: rest.3,
        })
    }
}

fn agree(rows: &[Row], asks: &[model::Ask]) -> Result<usize, TestCaseError> {
    let index = Index::new(inputs(rows));
    prop_assert_eq!(index.len(), rows.len());
    let mut matched = 0;
    for ask in asks {
        let expected = model::classify(rows, ask);
        let attributes = ask.attributes();
        let found = index.classify(&attributes);
        prop_assert_eq!(
            found.map(|found| found.classifier.0),
            expected.first().copied(),
            "{:?}",
            ask
        );
        let explained = explain(inputs(rows), &attributes);
        let explained: Vec<u64> = explained.iter().map(|one| one.classifier.id.0).collect();
        prop_assert_eq!(explained, expected);
        matched += usize::from(found.is_some());
    }
    Ok(matched)
}

/// Runs random catalogs of fewer than `most` classifiers, 20 requests each, and gives the share that matched.
fn random_catalogs(catalogs: u32, most: usize) -> f64 {
    let asks = 20;
    let matched = std::cell::Cell::new(0);
    let config = ProptestConfig {
        cases: catalogs,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let strategy = (
        draw::catalog(most),
        proptest::collection::vec(draw::ask(), asks),
    );
    runner
        .run(&strategy, |(rows, asks)| {
            matched.set(matched.get() + agree(&rows, &asks)?);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    f64::from(u32::try_from(matched.get()).expect("a small count"))
        / f64::from(catalogs)
        / asks as f64
}

#[test]
fn the_index_agrees_with_the_rules_on_random_small_catalogs() {
    let matched = random_catalogs(500, 30);
    assert!(
        (0.2..0.9).contains(&matched),
        "a telling mixture: {matched}"
    );
}

#[test]
fn the_index_agrees_with_the_rules_where_lists_are_divided_again_and_again() {
    let matched = random_catalogs(40, 1_000);
    assert!(
        matched > 0.5,
        "nearly everything matches something: {matched}"
    );
}

#[test]
fn the_order_of_the_inputs_does_not_matter() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let rows = draw::catalog(200)
        .new_tree(&mut runner)
        .expect("a catalog")
        .current();
    let backwards: Vec<Row> = rows.iter().rev().cloned().collect();
    let (one, other) = (Index::new(inputs(&rows)), Index::new(inputs(&backwards)));
    for _ in 0..500 {
        let ask = draw::ask()
            .new_tree(&mut runner)
            .expect("a request")
            .current();
        let attributes = ask.attributes();
        assert_eq!(one.classify(&attributes), other.classify(&attributes));
    }
}
