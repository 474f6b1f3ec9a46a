//! EXPLAIN: it says what would happen, exactly that happens, and until then nothing does.

#![allow(clippy::unwrap_used)]

use quotient::catalog::difference::{What, differences};
use quotient::catalog::{Catalog, Machine, Origin, QueryType};
use quotient::classify::explanation::{Decider, NEAREST, Verdict};
use quotient::classify::shadow::shadowed;
use quotient::sql::{self, Output, Value};
use quotient::unit::{Bytes, ClassifierId, Nanos};
use quotient::view::change::{Now, NowQuery, table};
use quotient::{AdmissionError, Attributes, Error, Governor};
use std::collections::BTreeMap;

async fn governor(script: &str) -> Governor {
    let builder = Governor::builder().workers(2).memory_limit(1 << 30);
    let governor = builder.build().unwrap();
    governor.execute(script).await.unwrap();
    governor
}

async fn ask(governor: &Governor, text: &str) -> Output {
    let answered = governor.execute(text).await;
    answered
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .pop()
        .unwrap()
}

async fn refusal(governor: &Governor, text: &str) -> sql::SqlError {
    match governor.execute(text).await {
        Err(Error::Sql(error)) => error,
        other => panic!("{text}: {other:?}"),
    }
}

fn cell(output: &Output, row: usize, column: &str) -> String {
    output.get(row, column).unwrap().to_string()
}

fn effects(output: &Output) -> Vec<String> {
    (0..output.rows().len())
        .map(|row| {
            format!(
                "{} {}: {} -> {}: {}",
                cell(output, row, "group_name"),
                cell(output, row, "change"),
                cell(output, row, "before"),
                cell(output, row, "after"),
                cell(output, row, "effect"),
            )
        })
        .collect()
}

// ---- EXPLAIN CLASSIFY ---------------------------------------------------------------------------------------------

const GROUPS: &str = "
    CREATE RESOURCE GROUP bi TO (user='bi'), (user='bi', db='sales, stock'), (role='analyst', source_ip='10.0.0.0/8')
      WITH ('cpu_weight'='3');
    CREATE RESOURCE GROUP etl TO (query_type IN ('insert', 'import')), (plan_cpu_cost_range='[0, 100)')
      WITH ('cpu_weight'='1')";

#[tokio::test]
async fn every_candidate_is_shown_with_each_condition_and_why_it_lost() {
    let governor = governor(GROUPS).await;
    let output = ask(
        &governor,
        "EXPLAIN CLASSIFY (user='bi', role='guest', role='analyst', source_ip='10.1.2.3', db='sales', plan_cpu_cost=99.5)",
    )
    .await;
    let verdicts: Vec<String> = (0..output.rows().len())
        .map(|row| {
            format!(
                "{} {} {} {}",
                cell(&output, row, "place"),
                cell(&output, row, "group_name"),
                cell(&output, row, "classifier_id"),
                cell(&output, row, "verdict")
            )
        })
        .collect();
    assert_eq!(
        verdicts,
        [
            "1 bi 10003 chosen",
            "2 bi 10004 lost to 10003: has a db condition",
            "3 bi 10002 lost to 10003: has a db condition",
            "4 etl 10007 lost to 10003: has a db condition",
            "5 default_wg NULL lost: a classifier matches",
            "NULL etl 10006 not met: query_type",
        ]
    );
    assert_eq!(cell(&output, 0, "db"), "sales, stock: met, +20");
    assert_eq!(cell(&output, 0, "user_name"), "bi: met, +1");
    assert_eq!(cell(&output, 0, "weight"), "21");
    assert_eq!(cell(&output, 1, "source_ip"), "10.0.0.0/8: met, +1.125");
    assert_eq!(cell(&output, 5, "query_type"), "insert, import: not met");
    assert_eq!(cell(&output, 5, "user_name"), "NULL");
}

#[tokio::test]
async fn what_matches_nothing_is_default_wg_and_a_named_group_overrules_all() {
    let governor = governor(GROUPS).await;
    let output = ask(&governor, "EXPLAIN CLASSIFY ()").await;
    assert_eq!(cell(&output, 0, "group_name"), "default_wg");
    assert_eq!(cell(&output, 0, "verdict"), "chosen: no classifier matches");
    assert_eq!(output.rows().len(), 6);

    let output = ask(
        &governor,
        "EXPLAIN CLASSIFY (user='bi', resource_group='etl')",
    )
    .await;
    assert_eq!(cell(&output, 0, "group_name"), "etl");
    assert_eq!(cell(&output, 0, "verdict"), "chosen: the request names it");
    assert_eq!(
        cell(&output, 1, "verdict"),
        "matches, but the request names its group"
    );
}

#[tokio::test]
async fn what_cannot_be_stated_is_refused_at_its_place() {
    let builder = Governor::builder().workers(2);
    let builder = builder.allow_override(|_, group| group != "etl");
    let governor = builder.init_sql(GROUPS).build().unwrap();
    for (marked, code, message, word) in [
        (
            "EXPLAIN CLASSIFY (⟦usr='bi')",
            "unknown_attribute",
            "unknown attribute 'usr'",
            Some("user"),
        ),
        (
            "EXPLAIN CLASSIFY (user='a', ⟦user='b')",
            "duplicate",
            "'user' is given twice",
            None,
        ),
        (
            "EXPLAIN CLASSIFY (source_ip=⟦'10.0.0.0/8')",
            "bad_value",
            "it is no address",
            None,
        ),
        (
            "EXPLAIN CLASSIFY (query_type=⟦'selct')",
            "bad_value",
            "no such type",
            Some("select"),
        ),
        (
            "EXPLAIN CLASSIFY (plan_cpu_cost=⟦'1e9')",
            "bad_value",
            "no finite decimal",
            None,
        ),
        (
            "EXPLAIN CLASSIFY (plan_mem_cost=⟦'NaN')",
            "bad_value",
            "no finite decimal",
            None,
        ),
        (
            "EXPLAIN CLASSIFY (plan_mem_cost=⟦'- 1')",
            "bad_value",
            "no finite decimal",
            None,
        ),
        ("EXPLAIN CLASSIFY (db=⟦'a,,b')", "bad_value", "empty", None),
        (
            "EXPLAIN CLASSIFY (resource_group=⟦'b')",
            "unknown_group",
            "b does not exist",
            None,
        ),
        (
            "EXPLAIN CLASSIFY (user='a', resource_group=⟦'etl')",
            "bad_value",
            "etl",
            None,
        ),
        ("EXPLAIN CLASSIFY ⟦user='a'", "syntax", "expected (", None),
        (
            "EXPLAIN CLASSIFY (user ⟦IN ('a'))",
            "syntax",
            "expected =",
            None,
        ),
        (
            "EXPLAIN CLASSIFY (user='a'⟦",
            "syntax",
            "end of the statement",
            None,
        ),
        (
            "EXPLAIN CLASSIFY (user=⟦a)",
            "syntax",
            "a value in quotes",
            None,
        ),
        (
            "EXPLAIN ⟦CLASIFY ()",
            "syntax",
            "expected CLASSIFY, CREATE",
            Some("CLASSIFY"),
        ),
        (
            "EXPLAIN ⟦SHOW RESOURCE GROUPS",
            "syntax",
            "expected CLASSIFY, CREATE",
            None,
        ),
        (
            "EXPLAIN ⟦EXPLAIN DROP RESOURCE GROUP bi",
            "syntax",
            "expected CLASSIFY",
            None,
        ),
        ("EXPLAIN DROP ⟦WATCH 3", "syntax", "expected RESOURCE", None),
    ] {
        let column = marked.chars().position(|c| c == '⟦').unwrap() + 1;
        let text = marked.replace('⟦', "");
        let error = refusal(&governor, &text).await;
        assert_eq!(error.kind.code(), code, "{text}: {error}");
        assert_eq!(error.column(), column, "{text}: {error}");
        assert!(error.message().contains(message), "{text}: {error}");
        assert_eq!(error.did_you_mean.as_deref(), word, "{text}: {error}");
        assert!(error.hint.is_some(), "{text}: {error}");
    }
    let refused = governor.explain_classify(&Attributes::new().resource_group("etl"));
    assert!(matches!(
        refused,
        Err(Error::Admission(AdmissionError::OverrideRefused { .. }))
    ));
    let unknown = governor.explain_classify(&Attributes::new().resource_group("b"));
    assert!(matches!(
        unknown,
        Err(Error::Admission(AdmissionError::UnknownGroup { .. }))
    ));
}

#[tokio::test]
async fn of_thousands_that_do_not_match_the_nearest_are_shown() {
    let classifiers: Vec<String> = (0..3_000)
        .map(|i| format!("(user='u{i}', db='d')"))
        .collect();
    let governor = governor(&format!(
        "CREATE RESOURCE GROUP many TO {}, (db='d') WITH ('cpu_weight'='1')",
        classifiers.join(", ")
    ))
    .await;
    let request = Attributes::new().user("u7").db("x");
    let explained = governor.explain_classify(&request).unwrap();
    assert_eq!(explained.decided_by, Decider::Nobody);
    assert_eq!(explained.candidates.len(), NEAREST);
    assert_eq!(explained.unlisted, 3_001 - NEAREST);
    let first: Vec<String> = explained.candidates[..2]
        .iter()
        .map(ToString::to_string)
        .collect();
    // One condition away each; the one with more conditions would be the stronger.
    assert_eq!(first, ["not met: db", "not met: db"]);
    assert_eq!(
        explained.candidates[0].classifier.user.as_deref(),
        Some("u7")
    );
    let output = ask(&governor, "EXPLAIN CLASSIFY (user='u7', db='x')").await;
    assert_eq!(
        output.notices()[0].to_string(),
        "2901 more classifiers do not match; those that come nearest are shown"
    );
}

/// A small generator: the same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn classifier(&mut self) -> String {
        let mut conditions = Vec::new();
        while conditions.is_empty() {
            if self.one_in(3) {
                conditions.push(format!("user='u{}'", self.below(3)));
            }
            if self.one_in(3) {
                conditions.push(format!("role='r{}'", self.below(3)));
            }
            if self.one_in(3) {
                let types = [
                    "'select'",
                    "'insert'",
                    "'select', 'insert'",
                    "'import', 'other', 'select'",
                ];
                let types = types[self.below(4) as usize];
                conditions.push(format!("query_type IN ({types})"));
            }
            if self.one_in(3) {
                let dbs = ["a", "b", "a, b", "a, b, c"][self.below(4) as usize];
                conditions.push(format!("db='{dbs}'"));
            }
            if self.one_in(3) {
                let nets = [
                    "10.0.0.0/8",
                    "10.1.0.0/16",
                    "10.1.2.3",
                    "::/0",
                    "2001:db8::/32",
                    "::ffff:10.0.0.0/104",
                ];
                conditions.push(format!("source_ip='{}'", nets[self.below(6) as usize]));
            }
            if self.one_in(4) {
                let low = self.below(3);
                conditions.push(format!(
                    "plan_cpu_cost_range='[{low}, {})'",
                    low + 1 + self.below(3)
                ));
            }
            if self.one_in(5) {
                conditions.push(format!("plan_mem_cost_range='[{}, 9)'", self.below(3)));
            }
        }
        format!("({})", conditions.join(", "))
    }

    fn request(&mut self) -> Attributes {
        let mut request = Attributes::new();
        if !self.one_in(4) {
            request = request.user(format!("u{}", self.below(4)));
        }
        for _ in 0..self.below(3) {
            request = request.role(format!("r{}", self.below(4)));
        }
        if !self.one_in(3) {
            request = request.query_type(QueryType::ALL[self.below(6) as usize]);
        }
        for _ in 0..self.below(3) {
            request = request.db(["a", "b", "c", "d"][self.below(4) as usize]);
        }
        if !self.one_in(3) {
            let from = [
                "10.1.2.3",
                "10.9.9.9",
                "192.168.0.1",
                "2001:db8::7",
                "::ffff:10.1.2.3",
            ];
            request = request.source_ip(from[self.below(5) as usize].parse().unwrap());
        }
        if !self.one_in(3) {
            request = request.plan_cpu_cost([0.0, 0.5, 1.0, 2.5, f64::NAN][self.below(5) as usize]);
        }
        if !self.one_in(3) {
            request = request.plan_mem_cost(self.below(5) as f64);
        }
        if self.one_in(50) {
            request = request.resource_group(["g0", "g1", "nobody"][self.below(3) as usize]);
        }
        request
    }
}

/// 100 catalogs, 1 000 requests to each: the explanation ends where the path of requests ends, and moves no counter.
#[tokio::test]
async fn the_explanation_and_the_path_of_requests_never_disagree() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let (mut by_classifier, mut refused, mut shadows) = (0, 0, 0);
    for round in 0..100 {
        let governor = governor("").await;
        let mut changes = Vec::new();
        for group in 0..1 + dice.below(6) {
            let kind = if dice.one_in(5) {
                "short_query"
            } else {
                "normal"
            };
            let script = format!("CREATE RESOURCE GROUP g{group} WITH ('type'='{kind}')");
            governor.execute(&script).await.unwrap();
            changes.push(script);
            for _ in 0..dice.below(8) {
                let add = format!("ALTER RESOURCE GROUP g{group} ADD {}", dice.classifier());
                // One that is there already is refused: the catalog has one less.
                if governor.execute(&add).await.is_ok() {
                    changes.push(add);
                }
            }
        }
        let hidden = never_deciding(&changes);
        shadows += hidden.len();
        for case in 0..1_000 {
            let request = dice.request();
            let before = (case == 0).then(|| counts(&governor));
            let explained = governor.explain_classify(&request);
            if let Some(before) = before {
                assert_eq!(counts(&governor), before, "explaining counts nothing");
            }
            match (governor.classify(&request), explained) {
                (Ok(found), Ok(explained)) => {
                    assert_eq!(
                        found.name(),
                        explained.group_name,
                        "round {round}: {request:?}"
                    );
                    assert_eq!(found.id(), explained.group);
                    let chosen: Vec<_> = explained
                        .candidates
                        .iter()
                        .filter(|one| one.verdict == Verdict::Chosen)
                        .map(|one| one.classifier.id)
                        .collect();
                    match explained.decided_by {
                        Decider::Classifier(id) => {
                            assert_eq!(chosen, [id]);
                            assert!(!hidden.contains(&id), "{id} decides on {request:?}");
                            by_classifier += 1;
                        }
                        _ => assert!(chosen.is_empty()),
                    }
                    for one in &explained.candidates {
                        let met = one.terms.iter().all(|term| term.met);
                        assert_eq!(met, one.verdict != Verdict::NotMet);
                        assert!(!one.terms.is_empty());
                    }
                }
                (Err(found), Err(explained)) => {
                    assert_eq!(found.to_string(), explained.to_string());
                    refused += 1;
                }
                (found, explained) => panic!("{request:?}: {found:?}, {explained:?}"),
            }
        }
    }
    println!("100000 requests, {by_classifier} decided by a classifier, {refused} refused by both");
    assert!(by_classifier > 20_000 && refused > 200 && shadows > 20);
}

/// What a catalog of the same statements says can never decide.
fn never_deciding(changes: &[String]) -> Vec<ClassifierId> {
    let catalog = Catalog::new(Machine {
        workers: 2,
        memory_limit: Bytes(1 << 30),
    });
    for change in changes {
        let change = sql::parse(change).unwrap();
        catalog.apply_all(&change, Origin::Statement).unwrap();
    }
    let snapshot = catalog.snapshot();
    let hidden = shadowed(&snapshot);
    hidden.iter().map(|one| one.classifier.id).collect()
}

fn counts(governor: &Governor) -> Vec<(String, u64)> {
    let metrics = governor.metrics();
    let mut counts: Vec<_> = metrics
        .groups
        .iter()
        .map(|g| (g.name.clone(), g.classified))
        .collect();
    counts.push(("unclassified".into(), metrics.unclassified));
    counts.push(("version".into(), metrics.catalog_version));
    counts.push(("errors".into(), metrics.catalog_apply_errors));
    counts
}

// ---- EXPLAIN of a change: the catalog -------------------------------------------------------------------------------

/// What is said to differ is what differs then, and until then nothing does.
#[test]
fn what_is_explained_is_what_happens_then() {
    let catalog = Catalog::new(Machine {
        workers: 8,
        memory_limit: Bytes(1 << 30),
    });
    let mut dice = Dice(77);
    let (mut done, mut refused) = (0, 0);
    for _ in 0..3_000 {
        let name = format!("g{}", dice.below(5));
        let property = [
            "'cpu_weight'='3'",
            "'cpu_weight'='0', 'exclusive_cpu_cores'='2'",
            "'exclusive_cpu_cores'='0', 'cpu_weight'='5'",
            "'mem_limit'='20%'",
            "'concurrency_limit'='4', 'max_queued_queries'='2'",
            "'big_query_action'='switch_group(g1)'",
            "'type'='short_query'",
            "'io_weight'='7'",
            "'cpu_weight'='x'",
        ][dice.below(9) as usize];
        let (one, two) = (dice.classifier(), dice.classifier());
        let text = match dice.below(8) {
            0 => format!("CREATE RESOURCE GROUP {name} TO {one} WITH ({property})"),
            1 => format!("CREATE RESOURCE GROUP IF NOT EXISTS {name} WITH ({property})"),
            2 => {
                format!("CREATE RESOURCE GROUP OR REPLACE {name} TO {one}, {two} WITH ({property})")
            }
            3 => format!("ALTER RESOURCE GROUP {name} ADD {one}"),
            4 => format!("ALTER RESOURCE GROUP {name} DROP ALL"),
            5 => format!("DROP RESOURCE GROUP IF EXISTS {name}"),
            6 => format!("DROP RESOURCE GROUP {name}"),
            _ => format!("ALTER RESOURCE GROUP {name} WITH ({property})"),
        };
        let statement = sql::parse(&text).unwrap().remove(0);
        let before = catalog.snapshot();
        let explained = catalog.explain(&statement);
        let untouched = catalog.snapshot();
        assert_eq!(untouched.version(), before.version(), "{text}");
        assert!(untouched == before, "{text}");
        match (explained, catalog.apply(&statement, Origin::Statement)) {
            (Ok(explained), Ok(applied)) => {
                assert_eq!(explained.before, before);
                assert_eq!(explained.after, applied.snapshot, "{text}");
                assert_eq!(
                    explained.after.version(),
                    applied.snapshot.version(),
                    "{text}"
                );
                assert_eq!(explained.output, applied.output, "{text}");
                let changed = !differences(&before, &explained.after).is_empty();
                assert!(
                    changed || *explained.after == *before,
                    "{text}: a change that is not told"
                );
                done += 1;
            }
            (Err(explained), Err(applied)) => {
                assert_eq!(explained, applied, "{text}");
                refused += 1;
            }
            (explained, applied) => panic!("{text}: {explained:?}, {applied:?}"),
        }
    }
    assert!(
        done > 1_000 && refused > 300,
        "{done} done, {refused} refused"
    );
}

#[test]
fn a_reservation_that_takes_workers_from_another_group_is_told_for_both() {
    let catalog = Catalog::new(Machine {
        workers: 4,
        memory_limit: Bytes(1 << 30),
    });
    let run = |text: &str| {
        for statement in sql::parse(text).unwrap() {
            catalog.apply(&statement, Origin::Statement).unwrap();
        }
    };
    run("CREATE RESOURCE GROUP fast WITH ('type'='short_query', 'cpu_weight'='3')");
    let text = "CREATE RESOURCE GROUP own WITH ('exclusive_cpu_cores'='2')";
    let statement = sql::parse(text).unwrap().remove(0);
    let explained = catalog.explain(&statement).unwrap();
    let found = differences(&explained.before, &explained.after);
    let reserved: Vec<_> = found
        .iter()
        .filter_map(|one| match one.what {
            What::Reserved { before, after } => Some((one.name.as_str(), before, after)),
            _ => None,
        })
        .collect();
    assert_eq!(reserved, [("fast", 3, 1), ("own", 0, 2)]);
}

#[test]
fn a_classifier_that_can_never_decide_is_told_before_it_is_made() {
    let catalog = Catalog::new(Machine {
        workers: 4,
        memory_limit: Bytes(1 << 30),
    });
    let first = "CREATE RESOURCE GROUP a TO (user='u', plan_cpu_cost_range='[0, 100)') WITH ('cpu_weight'='1')";
    catalog
        .apply(&sql::parse(first).unwrap()[0], Origin::Statement)
        .unwrap();
    for (classifier, effect) in [
        (
            "(user='u', plan_cpu_cost_range='[5, 6)')",
            "never decides: 10002 of a matches whatever it matches and comes first (older classifier)",
        ),
        (
            "(user='u', plan_cpu_cost_range='[5, 101)')",
            "new requests that it wins are the group's",
        ),
        (
            "(user='u', plan_cpu_cost_range='[5, 6)', role='r')",
            "new requests that it wins are the group's",
        ),
    ] {
        let text = format!("CREATE RESOURCE GROUP b TO {classifier} WITH ('cpu_weight'='1')");
        let explained = catalog.explain(&sql::parse(&text).unwrap()[0]).unwrap();
        let output = table(&explained.before, &explained.after, &BTreeMap::new());
        let last = output.rows().len() - 1;
        assert_eq!(cell(&output, last, "effect"), effect);
    }
}

// ---- EXPLAIN of a change: who runs and who waits ------------------------------------------------------------------------

/// Everything that could betray that an EXPLAIN was more than talk.
async fn state(governor: &Governor) -> Vec<String> {
    let mut state = vec![
        ask(governor, "SHOW RESOURCE GROUPS ALL").await.to_string(),
        ask(governor, "SHOW CATALOG HISTORY").await.to_string(),
        ask(
            governor,
            "SELECT id, state, waiting_reason FROM queries ORDER BY id",
        )
        .await
        .to_string(),
        ask(
            governor,
            "SELECT name, outcome, reason, requests FROM admission",
        )
        .await
        .to_string(),
        ask(governor, "SELECT name, running, queued, tasks FROM groups")
            .await
            .to_string(),
    ];
    state.extend(counts(governor).iter().map(|count| format!("{count:?}")));
    state
}

#[tokio::test]
async fn running_and_waiting_queries_are_in_what_is_said_and_nothing_changes() {
    let governor = governor(
        "CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='3', 'concurrency_limit'='3', 'max_queued_queries'='5');
         CREATE RESOURCE GROUP etl TO (user='etl') WITH ('cpu_core_limit'='1')",
    )
    .await;
    let bi = Attributes::new().user("bi");
    let running: Vec<_> = (0..3).map(|_| governor.try_admit(&bi).unwrap()).collect();
    let waiting: Vec<_> = (0..2)
        .map(|_| governor.spawn(&bi, std::future::pending::<()>()))
        .collect();
    let before = state(&governor).await;
    let scan = running[0].id();
    running[0].record_scan_rows(5_000);
    for (text, expected) in [
        (
            "EXPLAIN ALTER RESOURCE GROUP bi WITH ('concurrency_limit'='2')",
            vec!["bi concurrency_limit: 3 -> 2: 3 running over the new concurrency_limit of 2 go on; no new start until 2 of them have ended".to_owned()],
        ),
        (
            "EXPLAIN ALTER RESOURCE GROUP bi WITH ('concurrency_limit'='4', 'max_queued_queries'='1')",
            vec![
                "bi concurrency_limit: 3 -> 4: 1 of 2 waiting start at once".to_owned(),
                "bi max_queued_queries: 5 -> 1: nobody is sent away: 2 waiting queries stay; new ones are refused until fewer than 1 wait".to_owned(),
            ],
        ),
        (
            "EXPLAIN ALTER RESOURCE GROUP bi WITH ('concurrency_limit'='0')",
            vec!["bi concurrency_limit: 3 -> 0: 2 of 2 waiting start at once".to_owned()],
        ),
        (
            "EXPLAIN ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='7')",
            vec!["bi cpu_core_limit: 3 -> 7: with work in all groups 70 % of the workers instead of 50 %, from the next slice on".to_owned()],
        ),
        (
            "EXPLAIN ALTER RESOURCE GROUP bi WITH ('big_query_scan_rows_limit'='4000')",
            vec![format!("bi big_query_scan_rows_limit: off -> 4000: 1 of 3 running have used more: kill at the next check: query {scan}")],
        ),
        (
            "EXPLAIN DROP RESOURCE GROUP bi",
            vec![
                "bi group dropped: NULL -> NULL: drains: 3 running queries and 2 waiting ones keep it until they end (2 tasks); \
                 new requests are classified anew, and one that names it is refused".to_owned(),
                "bi classifier removed: 10002 (user='bi') -> NULL: new requests go by the other classifiers; what runs or \
                 waits stays where it is".to_owned(),
            ],
        ),
        (
            "EXPLAIN DROP RESOURCE GROUP etl",
            vec![
                "etl group dropped: NULL -> NULL: nothing is in it: it is gone at once".to_owned(),
                "etl classifier removed: 10004 (user='etl') -> NULL: new requests go by the other classifiers; what runs or \
                 waits stays where it is".to_owned(),
            ],
        ),
        (
            "EXPLAIN CREATE RESOURCE GROUP OR REPLACE bi TO (user='bi'), (user='bo') WITH ('concurrency_limit'='3')",
            vec![
                "bi cpu_core_limit: 3 -> 1: with work in all groups 25 % of the workers instead of 50 %, from the next slice on".to_owned(),
                "bi max_queued_queries: 5 -> 0: nobody is sent away: 2 waiting queries stay; new ones are refused while the group is full".to_owned(),
                "bi classifier renumbered: 10002 -> 10005: asks the same as before".to_owned(),
                "bi classifier added: NULL -> (user='bo'): new requests that it wins are the group's".to_owned(),
            ],
        ),
        ("EXPLAIN ALTER RESOURCE GROUP bi WITH ('concurrency_limit'='3')", vec![]),
        (
            "EXPLAIN ALTER RESOURCE GROUP etl ADD (user='bi', plan_cpu_cost_range='[0, 10)'), (user='x')",
            vec![
                "etl classifier added: NULL -> (user='bi', plan_cpu_cost_range='[0.0, 10.0)'): new requests that it wins \
                 are the group's".to_owned(),
                "etl classifier added: NULL -> (user='x'): new requests that it wins are the group's".to_owned(),
            ],
        ),
    ] {
        let output = ask(&governor, text).await;
        assert_eq!(output.tag(), "EXPLAIN");
        assert_eq!(effects(&output), expected, "{text}");
        assert_eq!(state(&governor).await, before, "{text}");
    }
    // What is refused is refused as ever, and counted as ever.
    let error = refusal(&governor, "EXPLAIN DROP RESOURCE GROUP etk").await;
    assert_eq!(
        (error.column(), error.did_you_mean.as_deref()),
        (29, Some("etl"))
    );
    let skipped = ask(&governor, "EXPLAIN DROP RESOURCE GROUP IF EXISTS bj").await;
    assert_eq!(skipped.rows().len(), 0);
    assert_eq!(
        skipped.notices()[0].to_string(),
        "resource group bj does not exist, skipped"
    );

    // And so it comes: no start until two of the three have ended.
    ask(
        &governor,
        "ALTER RESOURCE GROUP bi WITH ('concurrency_limit'='2')",
    )
    .await;
    let mut running = running;
    let queued = async || {
        cell(
            &ask(&governor, "SELECT queued FROM groups WHERE name = 'bi'").await,
            0,
            "queued",
        )
    };
    drop(running.pop());
    assert_eq!(queued().await, "2");
    drop(running.pop());
    assert_eq!(queued().await, "1");
    drop(waiting);
}

/// The sentences that need memory or time in them, over numbers of our own.
#[test]
fn memory_spill_timeouts_and_limits_are_told_with_their_numbers() {
    let catalog = Catalog::new(Machine {
        workers: 4,
        memory_limit: Bytes(1_000_000),
    });
    let run = |text: &str| {
        for statement in sql::parse(text).unwrap() {
            catalog.apply(&statement, Origin::Statement).unwrap();
        }
    };
    run("CREATE RESOURCE GROUP g WITH ('concurrency_limit'='3', 'mem_limit'='80%')");
    let query = |id, memory, seconds| NowQuery {
        id,
        cpu: Nanos::from_secs(seconds),
        elapsed: Nanos::from_secs(10 * seconds),
        memory: Bytes(memory),
        ..NowQuery::default()
    };
    let busy = Now {
        running: 3,
        waited: vec![Nanos::from_secs(90), Nanos::from_secs(20)],
        tasks: 9,
        memory: Bytes(600_000),
        queries: vec![
            query(7, 100_000, 3),
            query(8, 300_000, 30),
            query(9, 150_000, 300),
        ],
        ..Now::default()
    };
    let reserved = Now {
        reservations_only: true,
        ..busy.clone()
    };
    let told = |now: &Now, with: &str| {
        let text = format!("ALTER RESOURCE GROUP g WITH ({with})");
        let explained = catalog.explain(&sql::parse(&text).unwrap()[0]).unwrap();
        let id = explained.before.group("g").unwrap().id;
        let now = BTreeMap::from([(id, now.clone())]);
        let output = table(&explained.before, &explained.after, &now);
        match output.get(0, "effect") {
            Some(Value::Text(text)) => text.clone(),
            other => panic!("{with}: {other:?}"),
        }
    };
    let over = "uses 600000 bytes, 350000 over the new limit of 250000: nothing ends by itself; the next allocation that \
                does not fit ends the query that asks, or the largest one if the asker holds less than its share; to \
                fit, queries 8, 9 would have to end";
    for (now, with, expected) in [
        (&busy, "'mem_limit'='25%'", over),
        (
            &busy,
            "'mem_limit'='70%'",
            "uses 600000 of 700000 bytes: binds at the next allocation",
        ),
        (
            &reserved,
            "'mem_limit'='25%'",
            "reserves (nothing else is tracked) 600000 bytes, 350000 over the new limit of 250000: they stay, new \
             reservations wait until there is room",
        ),
        (
            &busy,
            "'spill_mem_limit_threshold'='50%'",
            "600000 bytes are over 400000: registered queries are asked for memory at once",
        ),
        (
            &busy,
            "'queue_timeout'='30s'",
            "1 of 2 waiting have waited longer and time out at once",
        ),
        (
            &busy,
            "'queue_timeout'='2m'",
            "counted from enqueue for the 2 waiting too; none has waited that long",
        ),
        (
            &busy,
            "'big_query_cpu_second_limit'='20'",
            "2 of 3 running have used more: kill at the next check: queries 8, 9",
        ),
        (
            &busy,
            "'big_query_elapsed_second_limit'='3000'",
            "binds the 3 running too; none has used more",
        ),
        (
            &busy,
            "'big_query_mem_limit'='250000'",
            "1 of 3 running have used more: kill at the next check: query 8",
        ),
        (
            &busy,
            "'concurrency_limit'='5'",
            "2 of 2 waiting start at once",
        ),
        (&busy, "'io_weight'='5'", "from the next operation on"),
    ] {
        assert_eq!(told(now, with), expected, "{with}");
    }
}
