//! Time per classification, by size and kind of catalog.
//!
//! `cargo bench --bench classify`. Prints the median ns per request over interleaved repetitions, with the least
//! and the greatest; beside it the share of requests that match and the time to compile the index. Every round
//! visits every catalog once, so that a slow second of the machine touches all of them alike.
//!
//! - mixed: what an administrator of many tenants writes: users, roles, databases, types, networks, costs, in
//!   all combinations; a request states everything.
//! - cidr-only: networks of both families, many nested; an address inside or near one of them.
//! - all-match: every classifier fits every request.
//! - near-miss: every classifier fits but for its cost range, which no edge of the index stands for: each list
//!   that a request reaches is read to its end. The worst there is.

use ipnet::IpNet;
use quotient::catalog::classifier::{ClassifierSpec, CostRange, QueryType};
use quotient::classify::{Attributes, Index, Input};
use quotient::unit::{ClassifierId, GroupId};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

const SIZES: [usize; 3] = [10, 1_000, 10_000];
const ROUNDS: usize = 31;
/// Different requests per catalog, so that nothing stays in a cache that would not in service.
const REQUESTS: usize = 4_096;
/// A repetition ends after this many requests, or after `SLICE`.
const PER_ROUND: usize = 8_192;
const SLICE: Duration = Duration::from_millis(20);

/// A generator without a dependency: splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

const TYPES: [QueryType; 6] = [
    QueryType::Select,
    QueryType::Insert,
    QueryType::Import,
    QueryType::Compaction,
    QueryType::MvRefresh,
    QueryType::Other,
];

struct Catalog {
    name: &'static str,
    specs: Vec<ClassifierSpec>,
    requests: Vec<Attributes>,
}

fn blank(id: usize) -> ClassifierSpec {
    ClassifierSpec::empty(ClassifierId(id as u64 + 1))
}

fn network(address: impl Into<IpAddr>, length: u8) -> IpNet {
    IpNet::new(address.into(), length).map_or_else(|_| unreachable!(), |network| network.trunc())
}

fn mixed(size: usize, dice: &mut Dice) -> Catalog {
    let (users, dbs) = (size / 4 + 2, size / 10 + 2);
    let roles = 20 + size / 100;
    let address =
        |dice: &mut Dice| Ipv4Addr::from(0x0A00_0000 | (dice.next() as u32 & 0x00FF_FFFF));
    let specs = (0..size).map(|id| {
        let mut spec = blank(id);
        if dice.one_in(2) {
            spec.user = Some(format!("tenant_{}", dice.below(users)));
        }
        if dice.one_in(3) {
            spec.role = Some(format!("role_{}", dice.below(roles)));
        }
        if dice.one_in(3) {
            let listed = 1 + dice.below(3);
            spec.dbs = (0..listed)
                .map(|_| format!("db_{}", dice.below(dbs)))
                .collect();
        }
        if dice.one_in(4) {
            let listed = 1 + dice.below(2);
            spec.query_types = (0..listed).map(|_| TYPES[dice.below(6)]).collect();
        }
        if dice.one_in(4) || (spec.user.is_none() && spec.role.is_none() && spec.dbs.is_empty()) {
            let length = [8, 12, 16, 20, 24, 28, 32][dice.below(7)];
            spec.source_ip = Some(network(address(dice), length));
        }
        if dice.one_in(8) {
            let min = dice.below(100) as f64;
            spec.plan_cpu_cost_range = Some(CostRange {
                min,
                max: min + 50.0,
            });
        }
        spec
    });
    let specs = specs.collect();
    let requests = (0..REQUESTS).map(|_| {
        Attributes::new()
            .user(format!("tenant_{}", dice.below(users)))
            .roles((0..2).map(|_| format!("role_{}", dice.below(roles))))
            .db(format!("db_{}", dice.below(dbs)))
            .query_type(TYPES[dice.below(6)])
            .source_ip(address(dice).into())
            .plan_cpu_cost(dice.below(150) as f64)
            .plan_mem_cost(1e6)
    });
    Catalog {
        name: "mixed",
        requests: requests.collect(),
        specs,
    }
}

fn cidr_only(size: usize, dice: &mut Dice) -> Catalog {
    let mut specs: Vec<ClassifierSpec> = Vec::new();
    let mut addresses: Vec<IpAddr> = Vec::new();
    for id in 0..size {
        // Every other network lies inside an earlier one's block, so that chains of nested ones grow.
        let near = (!addresses.is_empty() && dice.one_in(2)).then(|| dice.below(addresses.len()));
        let address: IpAddr = match near.map(|at| addresses[at]) {
            Some(IpAddr::V4(v4)) => {
                Ipv4Addr::from(v4.to_bits() ^ (dice.next() as u32 & 0xFFFF)).into()
            }
            Some(IpAddr::V6(v6)) => Ipv6Addr::from(v6.to_bits() ^ u128::from(dice.next())).into(),
            None if dice.one_in(5) => {
                Ipv6Addr::from((0x2001 << 112) | u128::from(dice.next()) << 40).into()
            }
            None => Ipv4Addr::from(dice.next() as u32).into(),
        };
        let length = match address {
            IpAddr::V4(_) => [8, 12, 16, 20, 22, 24, 28, 30, 32][dice.below(9)],
            IpAddr::V6(_) => [32, 48, 56, 64, 96, 128][dice.below(6)],
        };
        addresses.push(address);
        let mut spec = blank(id);
        spec.source_ip = Some(network(address, length));
        specs.push(spec);
    }
    let requests = (0..REQUESTS).map(|_| {
        let address = match addresses[dice.below(addresses.len())] {
            IpAddr::V4(v4) => Ipv4Addr::from(v4.to_bits() ^ (dice.next() as u32 & 0xFF)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from(v6.to_bits() ^ u128::from(dice.next() & 0xFF)).into(),
        };
        Attributes::new().source_ip(address)
    });
    Catalog {
        name: "cidr-only",
        requests: requests.collect(),
        specs,
    }
}

/// Classifiers that all fit a request of tenant 7 with costs 50, or none of which does if it misses `cost`.
fn alike(name: &'static str, cost: f64, size: usize, dice: &mut Dice) -> Catalog {
    let specs = (0..size).map(|id| {
        let mut spec = blank(id);
        spec.user = dice.one_in(2).then(|| "tenant_7".to_owned());
        spec.role = dice.one_in(2).then(|| format!("role_{}", dice.below(8)));
        if dice.one_in(2) {
            let mut types: BTreeSet<QueryType> = (0..2).map(|_| TYPES[dice.below(6)]).collect();
            types.insert(QueryType::Select);
            spec.query_types = types;
        }
        spec.source_ip = dice
            .one_in(2)
            .then(|| network(Ipv4Addr::new(10, 0, 0, 7), dice.below(33) as u8));
        if dice.one_in(2) {
            let others = dice.below(4);
            spec.dbs = (0..others)
                .map(|_| format!("db_{}", dice.below(500)))
                .collect();
            spec.dbs.insert("sales".to_owned());
        }
        let min = dice.below(40) as f64 + id as f64 / 1e6;
        spec.plan_cpu_cost_range = Some(CostRange {
            min,
            max: min + 60.0,
        });
        spec
    });
    let request = Attributes::new()
        .user("tenant_7")
        .roles((0..8).map(|role| format!("role_{role}")))
        .db("sales")
        .query_type(QueryType::Select)
        .source_ip(Ipv4Addr::new(10, 0, 0, 7).into())
        .plan_cpu_cost(cost);
    Catalog {
        name,
        specs: specs.collect(),
        requests: vec![request; REQUESTS],
    }
}

struct Subject {
    catalog: Catalog,
    index: Index,
    built: Duration,
    matched: f64,
    ns: Vec<f64>,
}

impl Subject {
    fn new(catalog: Catalog) -> Subject {
        let inputs = || {
            catalog.specs.iter().map(|spec| Input {
                group: GroupId(10_001 + spec.id.0 % 64),
                short_query: spec.id.0.is_multiple_of(97),
                classifier: spec,
            })
        };
        let start = Instant::now();
        let index = Index::new(inputs());
        let built = start.elapsed();
        let requests = &catalog.requests;
        let hits = requests
            .iter()
            .filter(|one| index.classify(one).is_some())
            .count();
        let matched = hits as f64 / requests.len() as f64;
        Subject {
            catalog,
            index,
            built,
            matched,
            ns: Vec::new(),
        }
    }

    fn round(&mut self) {
        let start = Instant::now();
        let mut done = 0;
        for request in self.catalog.requests.iter().cycle().take(PER_ROUND) {
            black_box(self.index.classify(black_box(request)));
            done += 1;
            if done % 64 == 0 && start.elapsed() > SLICE {
                break;
            }
        }
        self.ns
            .push(start.elapsed().as_nanos() as f64 / f64::from(done));
    }
}

fn main() {
    let mut dice = Dice(7);
    let mut subjects: Vec<Subject> = Vec::new();
    for size in SIZES {
        subjects.push(Subject::new(mixed(size, &mut dice)));
        subjects.push(Subject::new(cidr_only(size, &mut dice)));
        subjects.push(Subject::new(alike("all-match", 50.0, size, &mut dice)));
        subjects.push(Subject::new(alike("near-miss", 500.0, size, &mut dice)));
    }
    for _ in 0..ROUNDS {
        for subject in &mut subjects {
            subject.round();
        }
    }
    println!("{ROUNDS} interleaved repetitions");
    println!("catalog     classifiers  matched    median ns       min       max   compiled in");
    for subject in &mut subjects {
        subject.ns.sort_by(f64::total_cmp);
        let at = |place: usize| subject.ns.get(place).copied().unwrap_or(f64::NAN);
        println!(
            "{:<12}{:>11} {:>7.0}% {:>12.1} {:>9.1} {:>9.1} {:>13.2?}",
            subject.catalog.name,
            subject.catalog.specs.len(),
            subject.matched * 100.0,
            at(ROUNDS / 2),
            at(0),
            at(ROUNDS - 1),
            subject.built,
        );
    }
}
