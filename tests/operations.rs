//! What an operator asks of running work: SHOW QUERIES, SHOW RUNNING QUERIES, KILL; and that all ways of killing are one.

mod live;
mod support;

use live::named;
use quotient::clock::{Clock, ManualClock};
use quotient::sql::{Output, Value};
use quotient::unit::Nanos;
use quotient::{AdmissionError, Error, Governor, KillReason, QueryId};
use std::time::Duration;

fn governor(sql: &str) -> (Governor, ManualClock) {
    let (clock, hand) = Clock::manual();
    let built = Governor::builder().workers(1).clock(clock).init_sql(sql);
    (built.build().unwrap(), hand)
}

async fn run(governor: &Governor, text: &str) -> Output {
    governor.execute(text).await.unwrap().remove(0)
}

/// The cells of these columns, row by row.
fn cells(output: &Output, columns: &[&str]) -> Vec<Vec<String>> {
    let at = |name: &&str| {
        output
            .columns()
            .iter()
            .position(|column| column == name)
            .unwrap()
    };
    let places: Vec<usize> = columns.iter().map(at).collect();
    let row = |row: &Vec<Value>| places.iter().map(|&at| row[at].to_string()).collect();
    output.rows().iter().map(row).collect()
}

async fn settle() {
    for _ in 0..300 {
        tokio::task::yield_now().await;
    }
}

async fn compute(hand: ManualClock, polls: u64, ms: u64) {
    for _ in 0..polls {
        hand.advance(Nanos::from_millis(ms));
        quotient::task::yield_now().await;
    }
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn queries_that_run_and_queries_that_wait_are_listed_with_what_they_wait_for() {
    let (governor, hand) = governor(
        "CREATE RESOURCE GROUP bi WITH ('concurrency_limit'='2', 'max_queued_queries'='5')",
    );
    let attributes = named("bi").user("ann").dbs(["sales", "hr"]);
    let first = governor.admit(&attributes).await.unwrap();
    let second = governor.admit(&named("bi")).await.unwrap();
    first.spawn(compute(hand.clone(), 3, 2));
    second.spawn(compute(hand, 1, 9));
    second.spawn(std::future::pending::<()>());
    first.record_scan_rows(70);
    settle().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let (governor, attributes) = (governor.clone(), attributes.clone());
            tokio::spawn(async move { governor.admit(&attributes).await.map(|query| query.id()) })
        })
        .collect();
    settle().await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let shown = run(&governor, "SHOW QUERIES").await;
    let columns = [
        "group_name",
        "user_name",
        "db",
        "state",
        "waiting_reason",
        "elapsed_seconds",
    ];
    let why = "at the group's concurrency_limit";
    assert_eq!(
        cells(&shown, &columns),
        [
            ["bi", "ann", "sales, hr", "running", "NULL", "4"],
            ["bi", "NULL", "NULL", "running", "NULL", "4"],
            [
                "bi",
                "ann",
                "sales, hr",
                "waiting",
                &format!("{why}, 1 of 2"),
                "1"
            ],
            [
                "bi",
                "ann",
                "sales, hr",
                "waiting",
                &format!("{why}, 2 of 2"),
                "1"
            ],
        ]
    );
    let columns = [
        "cpu_seconds",
        "polls",
        "scan_rows",
        "longest_poll_ms",
        "tasks",
        "runaway",
    ];
    assert_eq!(
        cells(&shown, &columns)[..2],
        [
            ["0.006", "4", "70", "2", "1", "NULL"],
            ["0.009", "3", "0", "9", "2", "NULL"],
        ]
    );
    let place = &cells(&shown, &["longest_poll_place"])[0][0];
    assert!(place.contains("tests/operations.rs:"), "{place}");
    let busiest = run(&governor, "SHOW RUNNING QUERIES LIMIT 1").await;
    assert_eq!(cells(&busiest, &["id"]), [[second.id().to_string()]]);
    let both = run(&governor, "SHOW RUNNING QUERIES").await;
    assert_eq!(cells(&both, &["cpu_seconds"]), [["0.009"], ["0.006"]]);
    let selected = run(
        &governor,
        "SELECT state, count(*) FROM queries GROUP BY state ORDER BY state",
    )
    .await;
    assert_eq!(
        selected.rows(),
        [
            ["running".into(), 2_u64.into()],
            ["waiting".into(), 2_u64.into()]
        ]
    );

    // The first that waits is killed: the other one moves up, and nothing starts.
    let ids = cells(&shown, &["id"]);
    run(&governor, &format!("KILL QUERY {}", ids[2][0])).await;
    let mut waiting = waiting.into_iter();
    let refused = waiting.next().unwrap().await.unwrap().unwrap_err();
    assert!(
        matches!(refused, AdmissionError::Killed { .. }),
        "{refused:?}"
    );
    let shown = run(&governor, "SHOW QUERIES").await;
    assert_eq!(
        cells(&shown, &["waiting_reason"])[2],
        [format!("{why}, 1 of 1")]
    );

    // One that runs is killed: the one that waits starts, under the id that it waited under.
    run(&governor, &format!("KILL {}", second.id())).await;
    drop(second);
    let admitted = waiting.next().unwrap().await.unwrap().unwrap();
    assert_eq!(admitted.to_string(), ids[3][0]);
}

#[tokio::test(start_paused = true)]
async fn all_ways_of_killing_are_one_and_the_first_reason_stays() {
    let (governor, _) = governor("CREATE RESOURCE GROUP bi WITH ('cpu_core_limit'='1')");
    let query = governor.admit(&named("bi")).await.unwrap();
    let handle = query.spawn(std::future::pending::<()>());
    settle().await;
    run(&governor, &format!("kill query {}", query.id())).await;
    assert!(!query.kill("too late"));
    // It is there until its last reference is gone, and may be killed again, to no effect.
    assert!(governor.kill(query.id(), "again"));
    let shown = run(&governor, "SHOW QUERIES").await;
    assert_eq!(cells(&shown, &["state"]), [["ending"]]);
    let error = handle.await.unwrap_err();
    match error.reason() {
        Some(KillReason::Killed { why, by }) => {
            assert_eq!((&**why, &**by), ("an operator ended it", "KILL QUERY"));
        }
        other => panic!("{other:?}"),
    }
    let id = query.id();
    drop(query);
    assert!(!governor.kill(id, "gone"));
    let Err(Error::Sql(unknown)) = governor.execute(&format!("KILL {id}")).await else {
        panic!("killed what is gone");
    };
    assert_eq!(unknown.kind.code(), "unknown_query");
    assert_eq!((unknown.line(), unknown.column()), (1, 6));
    assert!(!governor.kill(QueryId(u64::MAX), "never was"));
    assert_eq!(governor.metrics().by_name()["bi"].queries_ended.killed, 1);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_outlive_the_first_one_are_told_apart() {
    let (governor, _) = governor("CREATE RESOURCE GROUP bi WITH ('cpu_core_limit'='1')");
    let query = governor.admit(&named("bi")).await.unwrap();
    let root = query.spawn(async {
        quotient::spawn(std::future::pending::<()>());
        quotient::spawn(std::future::pending::<()>());
        tokio::time::sleep(Duration::from_secs(5)).await;
    });
    settle().await;
    let columns = ["tasks", "outliving_tasks"];
    let shown = run(&governor, "SHOW QUERIES").await;
    assert_eq!(cells(&shown, &columns), [["3", "0"]]);
    root.await.unwrap();
    let shown = run(&governor, "SHOW QUERIES").await;
    assert_eq!(cells(&shown, &columns), [["2", "2"]]);
}

/// A kill in the very instant in which a place is given: the query is refused or it runs and is killed, and the place
/// comes back either way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_kill_beside_the_grant_leaves_no_place_behind() {
    let governor = Governor::builder()
        .workers(4)
        .init_sql(
            "CREATE RESOURCE GROUP bi WITH ('concurrency_limit'='1', 'max_queued_queries'='10')",
        )
        .build()
        .unwrap();
    for _ in 0..300 {
        let holder = governor.admit(&named("bi")).await.unwrap();
        let handle = governor.spawn(&named("bi"), async {
            quotient::task::yield_now().await;
            1
        });
        let id = loop {
            let shown = run(&governor, "SELECT id FROM queries WHERE state = 'waiting'").await;
            if let Some(row) = shown.rows().first() {
                break QueryId(row[0].to_string().parse().unwrap());
            }
        };
        let killer = governor.clone();
        let killing = tokio::spawn(async move { killer.kill(id, "race") });
        drop(holder);
        let _ = killing.await.unwrap();
        match handle.await {
            Ok(output) => assert_eq!(output, 1),
            Err(error) => assert!(
                matches!(
                    error.reason(),
                    Some(
                        KillReason::Killed { .. }
                            | KillReason::NotAdmitted(AdmissionError::Killed { .. })
                    )
                ),
                "{error}"
            ),
        }
    }
    live::settled(&governor, "bi").await;
    assert_eq!(governor.metrics().by_name()["bi"].queries_running, 0);
    drop(governor.try_admit(&named("bi")).unwrap());
}

/// How many queries have been measured from a kill to the end of their last task.
fn measured_kills(governor: &Governor) -> u64 {
    let kills = governor.metrics().kills;
    kills.kill_to_drop.buckets.iter().sum()
}

#[tokio::test]
async fn a_killed_query_without_tasks_is_no_sample_of_how_long_a_kill_takes() {
    let (governor, hand) = governor("CREATE RESOURCE GROUP bi WITH ('cpu_core_limit'='1')");
    let query = governor.admit(&named("bi")).await.unwrap();
    assert!(governor.kill(query.id(), "idle"));
    hand.advance(Nanos::from_secs(3_600));
    assert!(query.run(async {}).await.is_err());
    assert_eq!(measured_kills(&governor), 0);
}

#[tokio::test]
async fn a_query_that_is_killed_again_is_measured_once() {
    let (governor, hand) = governor("CREATE RESOURCE GROUP bi WITH ('cpu_core_limit'='1')");
    let query = governor.admit(&named("bi")).await.unwrap();
    let waits = query.spawn(std::future::pending::<()>());
    settle().await;
    assert!(governor.kill(query.id(), "first"));
    assert!(waits.await.is_err());
    settle().await;
    assert_eq!(measured_kills(&governor), 1);
    governor.kill(query.id(), "again");
    hand.advance(Nanos::from_secs(3_600));
    assert!(query.run(async {}).await.is_err());
    assert_eq!(measured_kills(&governor), 1);
}

#[tokio::test]
async fn a_query_that_has_not_taken_its_place_yet_is_listed_and_can_be_killed() {
    let (governor, _) = governor(
        "CREATE RESOURCE GROUP bi WITH ('concurrency_limit'='1', 'max_queued_queries'='5')",
    );
    let attributes = named("bi");
    let holder = governor.admit(&attributes).await.unwrap();
    let mut first = Box::pin(governor.admit(&attributes));
    let mut second = Box::pin(governor.admit(&attributes));
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    let columns = ["id", "state"];
    let before = cells(&run(&governor, "SHOW QUERIES").await, &columns);
    let [_, killed, next] = &before[..] else {
        panic!("{before:?}");
    };

    // The place is the first one's now, and nobody has polled it.
    drop(holder);
    assert_eq!(governor.metrics().by_name()["bi"].queries_running, 1);
    let shown = cells(&run(&governor, "SHOW QUERIES").await, &columns);
    assert_eq!(shown, [killed.clone(), next.clone()]);

    run(&governor, &format!("KILL QUERY {}", killed[0])).await;
    let shown = cells(&run(&governor, "SHOW QUERIES").await, &columns);
    assert_eq!(shown, std::slice::from_ref(next));
    assert!(matches!(first.await, Err(AdmissionError::Killed { .. })));
    let query = second.await.unwrap();
    assert_eq!(query.id().to_string(), next[0]);
    assert_eq!(
        cells(&run(&governor, "SHOW QUERIES").await, &columns),
        [[next[0].clone(), "running".to_owned()]]
    );
    drop(query);
    assert_eq!(governor.metrics().by_name()["bi"].queries_running, 0);
}
