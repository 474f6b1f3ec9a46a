//! The circuit breaker from outside: which limit trips, what comes of it, how often, how fast, and who is told.
//!
//! CPU time is on a clock that only the test's tasks move, elapsed time on tokio's paused one: the numbers are exact.

mod live;
mod support;

use live::named;
use quotient::clock::{Clock, ManualClock};
use quotient::query::Runaway;
use quotient::unit::Nanos;
use quotient::{Attributes, BigQueryKind, Governor, JoinError, JoinHandle, KillReason, Query};
use std::sync::Arc;
use std::time::Duration;

const MS: u64 = 1_000_000;
const LIMIT: u64 = 100 * MS;

/// A governor whose clock stands still but when a task moves it.
fn governor(sql: &str) -> (Governor, ManualClock) {
    let (clock, hand) = Clock::manual();
    let built = Governor::builder().workers(1).clock(clock).init_sql(sql);
    (built.build().unwrap(), hand)
}

/// Uses `time` of a worker, one millisecond per poll, then waits for ever.
async fn use_cpu(hand: ManualClock, time: u64) {
    for _ in 0..time / MS {
        hand.advance(Nanos(MS));
        quotient::task::yield_now().await;
    }
    std::future::pending().await
}

fn big_query(error: &JoinError) -> (BigQueryKind, u64, u64, Arc<Runaway>) {
    match error.reason() {
        Some(KillReason::BigQuery {
            kind,
            used,
            limit,
            report,
            ..
        }) => (*kind, *used, *limit, report.clone()),
        other => panic!("not a big query: {other:?}"),
    }
}

/// Lets everything that can run without the clock run.
async fn settle() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

fn counted(governor: &Governor, group: &str, kind: &str, action: &str) -> u64 {
    let groups = governor.metrics().by_name().remove(group);
    let row = groups.unwrap_or_default();
    let known = row.big_queries.iter();
    let found = known.filter(|((k, a), _)| *k == kind && *a == action);
    found.map(|(_, count)| count).sum()
}

const KINDS: [(BigQueryKind, &str); 3] = [
    (BigQueryKind::Cpu, "'big_query_cpu_second_limit'='0.1'"),
    (BigQueryKind::ScanRows, "'big_query_scan_rows_limit'='1000'"),
    (
        BigQueryKind::Elapsed,
        "'big_query_elapsed_second_limit'='0.1'",
    ),
];

/// A query uses exactly what it may, and then a little more. The handle of a task that waits, and one of its own.
async fn exceed(kind: BigQueryKind, query: &Query, hand: &ManualClock) -> JoinHandle<()> {
    let hand = hand.clone();
    let user = query.clone();
    match kind {
        BigQueryKind::Cpu => {
            query.spawn(use_cpu(hand.clone(), LIMIT));
            settle().await;
            assert_eq!(query.usage().cpu, Duration::from_nanos(LIMIT));
            assert!(user.usage().tasks > 0, "exactly the limit is allowed");
            query.spawn(use_cpu(hand, MS))
        }
        BigQueryKind::ScanRows => query.spawn(async move {
            quotient::record_scan_rows(600);
            quotient::record_scan_rows(400);
            assert_eq!(user.usage().scan_rows, 1_000);
            quotient::task::yield_now().await;
            quotient::record_scan_rows(1);
            std::future::pending().await
        }),
        _ => {
            let handle = query.spawn(std::future::pending());
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(!handle.is_finished(), "exactly the limit is allowed");
            tokio::time::sleep(Duration::from_millis(2)).await;
            handle
        }
    }
}

#[tokio::test(start_paused = true)]
async fn kind_by_action() {
    for (kind, property) in KINDS {
        for action in ["kill", "dry_run", "cooldown", "switch_group(slow)"] {
            let what = format!("{kind} {action}");
            let (governor, hand) = governor(&format!(
                "CREATE RESOURCE GROUP slow WITH ('concurrency_limit'='1');
                 CREATE RESOURCE GROUP bi WITH ('cpu_core_limit'='10', {property}, 'big_query_action'='{action}')"
            ));
            let query = governor
                .admit(&named("bi").user("ann").db("sales").fingerprint(7))
                .await
                .unwrap();
            let waits = query.spawn(std::future::pending::<()>());
            let last = exceed(kind, &query, &hand).await;
            settle().await;

            let label = action.split('(').next().unwrap();
            assert_eq!(counted(&governor, "bi", kind.label(), label), 1, "{what}");
            let events = governor.runaway_events();
            assert_eq!(events.len(), 1, "{what}");
            let event = &events[0];
            assert_eq!((event.kind, event.query), (kind, query.id()), "{what}");
            assert_eq!((&*event.group, event.user.as_deref()), ("bi", Some("ann")));
            assert_eq!((&*event.dbs[0], event.fingerprint), ("sales", Some(7)));
            assert_eq!(event.action.to_string(), action);
            assert!(event.used > event.limit, "{what}");
            match kind {
                BigQueryKind::Cpu => assert_eq!((event.used, event.limit), (LIMIT + MS, LIMIT)),
                BigQueryKind::ScanRows => assert_eq!((event.used, event.limit), (1_001, 1_000)),
                _ => assert_eq!((event.used, event.limit), (LIMIT + MS, LIMIT)),
            }
            if action == "kill" {
                for handle in [waits, last] {
                    assert!(handle.is_finished(), "{what}: ended at once");
                    let error = handle.await.unwrap_err();
                    assert!(error.is_cancelled());
                    let (told, used, limit, report) = big_query(&error);
                    assert_eq!(
                        (told, used, limit),
                        (kind, event.used, event.limit),
                        "{what}"
                    );
                    assert_eq!(report, *event);
                }
                assert_eq!(query.usage().tasks, 0);
            } else {
                assert!(!waits.is_finished() && !last.is_finished(), "{what}");
                let group = if label == "switch_group" {
                    "slow"
                } else {
                    "bi"
                };
                assert_eq!(query.group(), group, "{what}");
                // It works on where it is now.
                assert_eq!(query.run(async { 6 * 7 }).await.unwrap(), 42, "{what}");
                query.kill("the test is over");
                assert!(waits.await.unwrap_err().is_cancelled());
                assert!(last.await.unwrap_err().is_cancelled());
            }
            drop(query);
            live::settled(&governor, "bi").await;
            live::settled(&governor, "slow").await;
            governor.shutdown(Duration::ZERO).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_tasks_that_cross_at_once_are_one_count_and_one_event() {
    for _ in 0..50 {
        let governor = Governor::builder()
            .workers(4)
            .init_sql("CREATE RESOURCE GROUP bi WITH ('big_query_scan_rows_limit'='1000')")
            .build()
            .unwrap();
        let query = governor.admit(&named("bi")).await.unwrap();
        let task = |_| {
            query.spawn(async {
                loop {
                    quotient::record_scan_rows(100);
                    quotient::task::yield_now().await;
                }
            })
        };
        let handles: Vec<JoinHandle<()>> = (0..8).map(task).collect();
        let mut reports = Vec::new();
        for handle in handles {
            reports.push(big_query(&handle.await.unwrap_err()).3);
        }
        assert_eq!(counted(&governor, "bi", "scan_rows", "kill"), 1);
        let events = governor.runaway_events();
        assert_eq!(events.len(), 1);
        assert!(reports.iter().all(|report| *report == events[0]));
    }
}

#[tokio::test(start_paused = true)]
async fn an_alter_binds_queries_that_run() {
    let (governor, hand) = governor(
        "CREATE RESOURCE GROUP bi WITH ('big_query_cpu_second_limit'='100', 'big_query_elapsed_second_limit'='1000')",
    );
    let alter = async |with: &str| {
        let text = format!("ALTER RESOURCE GROUP bi WITH ({with})");
        governor.execute(&text).await.unwrap();
    };
    let cpu = governor.admit(&named("bi")).await.unwrap();
    let working = cpu.spawn(use_cpu(hand.clone(), 5 * MS));
    settle().await;
    alter("'big_query_cpu_second_limit'='0.001'").await;
    settle().await;
    assert!(!working.is_finished(), "nothing was polled since");
    let next = cpu.spawn(use_cpu(hand.clone(), MS));
    let (kind, used, limit, report) = big_query(&next.await.unwrap_err());
    assert_eq!((kind, used, limit), (BigQueryKind::Cpu, 6 * MS, MS));
    assert_eq!(report.catalog_version, 3, "that of the ALTER");
    assert!(working.await.is_err());

    // A deadline that comes nearer, goes away, and comes back while queries run.
    let elapsed = governor.admit(&named("bi")).await.unwrap();
    let waiting = elapsed.spawn(std::future::pending::<()>());
    tokio::time::sleep(Duration::from_secs(20)).await;
    alter("'big_query_elapsed_second_limit'='0'").await;
    tokio::time::sleep(Duration::from_secs(2_000)).await;
    assert!(!waiting.is_finished());
    alter("'big_query_elapsed_second_limit'='3000'").await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert!(!waiting.is_finished());
    tokio::time::sleep(Duration::from_secs(100)).await;
    let (kind, used, limit, _) = big_query(&waiting.await.unwrap_err());
    assert_eq!((kind, limit), (BigQueryKind::Elapsed, 3_000_000 * MS));
    assert!((limit + 1..=limit + 2 * MS).contains(&used), "{used}");

    // One whose time is up already is ended by the ALTER.
    let old = governor.admit(&named("bi")).await.unwrap();
    let handle = old.spawn(std::future::pending::<()>());
    tokio::time::sleep(Duration::from_secs(10)).await;
    alter("'big_query_elapsed_second_limit'='5'").await;
    assert_eq!(
        big_query(&handle.await.unwrap_err()).0,
        BigQueryKind::Elapsed
    );
}

#[tokio::test(start_paused = true)]
async fn a_query_that_moved_has_its_place_its_account_and_its_share_in_the_other_group() {
    let (governor, hand) = governor(
        "CREATE RESOURCE GROUP slow WITH ('concurrency_limit'='1', 'big_query_scan_rows_limit'='1');
         CREATE RESOURCE GROUP bi WITH ('concurrency_limit'='1', 'big_query_scan_rows_limit'='10',
             'big_query_action'='switch_group(slow)');
         ALTER RESOURCE GROUP slow WITH ('big_query_action'='switch_group(bi)')",
    );
    let holder = governor.admit(&named("slow")).await.unwrap();
    let query = governor.admit(&named("bi")).await.unwrap();
    let handles: Vec<JoinHandle<()>> = (0..3)
        .map(|_| query.spawn(std::future::pending()))
        .collect();
    query.spawn(use_cpu(hand.clone(), 5 * MS));
    settle().await;
    assert_eq!(live::alive(&governor, "bi"), 4);

    query.record_scan_rows(11);
    assert_eq!(query.group(), "slow");
    assert_eq!(live::alive(&governor, "bi"), 0);
    assert_eq!(live::alive(&governor, "slow"), 4);
    // Beyond the limit of the one, and the place in the other is free.
    let metrics = governor.metrics();
    let rows = metrics.by_name();
    assert_eq!(
        (rows["slow"].queries_running, rows["bi"].queries_running),
        (2, 0)
    );
    assert!(governor.try_admit(&named("slow")).is_err());
    drop(governor.try_admit(&named("bi")).unwrap());
    drop(holder);
    assert!(
        governor.try_admit(&named("slow")).is_err(),
        "the query that moved holds the one place"
    );

    // What it uses from now on, the other group pays; it takes its account along.
    let paid = |group: &str| governor.metrics().by_name()[group].usage.cpu_poll.0;
    let (before, moved) = (paid("bi"), paid("slow"));
    let more = query.spawn(use_cpu(hand, 7 * MS));
    settle().await;
    assert_eq!((paid("bi") - before, paid("slow") - moved), (0, 7 * MS));
    assert_eq!(query.usage().cpu, Duration::from_millis(12));

    // It is over the limit of that group too, which would send it back. Once is enough.
    query.record_scan_rows(100);
    assert_eq!(query.group(), "slow");
    assert_eq!(governor.runaway_events().len(), 1);

    // A query from inside it belongs to where it is.
    let (inner, named_slow) = (governor.clone(), named("slow"));
    let nested = query.run(async move {
        inner
            .try_admit(&named_slow)
            .map(|query| query.group().to_owned())
    });
    assert_eq!(nested.await.unwrap().unwrap(), "slow");

    query.kill("enough");
    for handle in handles.into_iter().chain([more]) {
        assert!(handle.await.unwrap_err().is_cancelled());
    }
    drop(query);
    let metrics = governor.metrics();
    let rows = metrics.by_name();
    assert_eq!(
        (rows["slow"].queries_running, rows["bi"].queries_running),
        (0, 0)
    );
    assert_eq!(
        (
            rows["slow"].queries_ended.killed,
            rows["bi"].queries_ended.killed
        ),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn the_target_of_a_switch_is_not_dropped_and_must_be_there() {
    let (governor, _) = governor("CREATE RESOURCE GROUP slow WITH ('cpu_core_limit'='1')");
    let missing = governor
        .execute("CREATE RESOURCE GROUP bi WITH ('big_query_action'='switch_group(slwo)')")
        .await
        .unwrap_err();
    assert!(
        missing.to_string().contains("did you mean slow?"),
        "{missing}"
    );
    governor
        .execute("CREATE RESOURCE GROUP bi WITH ('big_query_scan_rows_limit'='1', 'big_query_action'='switch_group(slow)')")
        .await
        .unwrap();
    assert!(governor.execute("DROP RESOURCE GROUP slow").await.is_err());
    let query = governor.admit(&named("bi")).await.unwrap();
    query.record_scan_rows(2);
    assert_eq!(query.group(), "slow");
    // Replaced, it is the same group; and once nobody names it, it may go while the query stays in it.
    governor
        .execute(
            "CREATE RESOURCE GROUP OR REPLACE slow WITH ('cpu_core_limit'='7');
             ALTER RESOURCE GROUP bi WITH ('big_query_action'='kill');
             DROP RESOURCE GROUP slow",
        )
        .await
        .unwrap();
    assert_eq!(query.run(async { 1 }).await.unwrap(), 1);
    assert_eq!(query.group(), "slow");
}

/// The cooled query competes as if its group's weight were 1; its siblings keep the weight that the group has.
#[tokio::test(start_paused = true)]
async fn a_cooled_query_weighs_one_and_its_siblings_what_the_group_does() {
    let (governor, hand) = governor(
        "CREATE RESOURCE GROUP bi WITH ('cpu_core_limit'='8', 'big_query_scan_rows_limit'='1',
             'big_query_action'='cooldown');
         CREATE RESOURCE GROUP etl WITH ('cpu_core_limit'='1')",
    );
    let query = async |group: &str| governor.admit(&named(group)).await.unwrap();
    let (cooled, sibling, other) = (query("bi").await, query("bi").await, query("etl").await);
    cooled.record_scan_rows(2);
    assert_eq!(cooled.group(), "bi");
    let all = [&cooled, &sibling, &other];
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    for query in all {
        let (hand, gate) = (hand.clone(), gate.clone());
        query.spawn(async move {
            let _ = gate.acquire().await.map(std::mem::forget);
            use_cpu(hand, 100_000 * MS).await;
        });
    }
    settle().await;
    gate.add_permits(3);
    while all.iter().map(|query| query.usage().cpu).sum::<Duration>() < Duration::from_secs(5) {
        tokio::task::yield_now().await;
    }
    let [cooled, sibling, other] = all.map(|query| query.usage().cpu.as_secs_f64());
    let total = cooled + sibling + other;
    let near = |share: f64, expected: f64| (share - expected).abs() < 0.01;
    assert!(near(cooled / total, 0.1), "{cooled} of {total}");
    assert!(near(other / total, 0.1), "{other} of {total}");
    assert!(near(sibling / total, 0.8), "{sibling} of {total}");
    // All of it is the group's.
    let paid = governor.metrics().by_name()["bi"]
        .usage
        .cpu_poll
        .as_secs_f64();
    assert!((paid - cooled - sibling).abs() < 0.002, "{paid}");
}

#[tokio::test(start_paused = true)]
async fn a_kill_takes_effect_within_the_poll_that_crossed() {
    let (governor, hand) =
        governor("CREATE RESOURCE GROUP bi WITH ('big_query_cpu_second_limit'='0.01')");
    let query = governor.admit(&named("bi")).await.unwrap();
    let waits = query.spawn(std::future::pending::<()>());
    // One poll of 7 ms after one of 9 ms: it crosses 6 ms before its end.
    let long = query.spawn(async move {
        for length in [9, 7, 1_000] {
            hand.advance(Nanos::from_millis(length));
            quotient::task::yield_now().await;
        }
    });
    let error = long.await.unwrap_err();
    let (_, used, _, report) = big_query(&error);
    assert_eq!(used, 16 * MS, "not polled once more");
    assert_eq!(report.late.0, 6 * MS);
    assert!(waits.await.is_err());
    let kills = governor.metrics().kills;
    assert_eq!(kills.crossing_to_kill.sum.0, 6 * MS);
    assert_eq!(kills.crossing_to_kill.buckets.iter().sum::<u64>(), 1);
    assert_eq!(
        kills.kill_to_drop.sum.0, 0,
        "no time passes between polls on this clock"
    );
    assert_eq!(kills.kill_to_drop.buckets.iter().sum::<u64>(), 1);
    let page = governor.render_metrics();
    assert!(
        page.contains("quotient_kill_latency_seconds_count{stage=\"kill_to_drop\"} 1\n"),
        "{page}"
    );
    assert!(
        page.contains(
            "quotient_group_big_query_total{group=\"bi\",kind=\"cpu\",action=\"kill\"} 1\n"
        )
    );
    let text = error.to_string();
    for part in [
        "16ms of CPU time",
        "allows 10ms",
        "resource group 'bi'",
        "ALTER RESOURCE GROUP bi WITH",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_without_tasks_one_that_is_dead_and_one_that_is_gone() {
    let (governor, _) = governor(
        "CREATE RESOURCE GROUP bi WITH ('big_query_scan_rows_limit'='1', 'big_query_elapsed_second_limit'='10')",
    );
    // Without tasks: later ones do not begin.
    let query = governor.admit(&named("bi")).await.unwrap();
    query.record_scan_rows(2);
    let late = query.spawn(async { panic!("planned: must not begin") });
    assert_eq!(
        big_query(&late.await.unwrap_err()).0,
        BigQueryKind::ScanRows
    );

    // Killed by hand before: the first reason stays, and no limit counts it again.
    let query = governor.admit(&named("bi")).await.unwrap();
    let handle = query.spawn(std::future::pending::<()>());
    assert!(query.kill("by hand"));
    query.record_scan_rows(2);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let reason = handle.await.unwrap_err().reason().cloned();
    assert!(
        matches!(reason, Some(KillReason::Killed { .. })),
        "{reason:?}"
    );
    assert_eq!(governor.runaway_events().len(), 1);

    // Gone: its deadline passes unnoticed.
    drop(query);
    drop(governor.admit(&named("bi")).await.unwrap());
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(governor.runaway_events().len(), 1);

    // While the governor shuts down, limits hold.
    let query = governor.admit(&named("bi")).await.unwrap();
    let handle = query.spawn(std::future::pending::<()>());
    let (closing, grace) = (governor.clone(), Duration::from_secs(3_600));
    let closed = tokio::spawn(async move { closing.shutdown(grace).await });
    settle().await;
    assert_eq!(
        big_query(&handle.await.unwrap_err()).0,
        BigQueryKind::Elapsed
    );
    closed.await.unwrap();
    // And afterwards nothing comes of it.
    query.record_scan_rows(2);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_was_killed_too_often_is_refused_for_a_while() {
    let (governor, _) = governor(
        "CREATE RESOURCE GROUP bi WITH ('big_query_scan_rows_limit'='1', 'quarantine_after'='2',
             'quarantine_window'='1m')",
    );
    let request = named("bi").fingerprint(0x2a);
    let run_away = || {
        let query = governor.try_admit(&request).unwrap();
        query.record_scan_rows(2);
    };
    run_away();
    tokio::time::sleep(Duration::from_secs(30)).await;
    run_away();
    let refused = governor.try_admit(&request).unwrap_err();
    let quotient::AdmissionError::Watched { report, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert!(report.contains("used 2 scanned rows"), "{report}");
    assert!(refused.is_transient());
    assert_eq!(refused.group(), Some("bi"));
    let after = refused.retry_after().unwrap();
    let window = Duration::from_secs(60);
    assert!(
        after <= window && after > window / 2,
        "not in {after:?}: the window is one minute"
    );
    // Others are let in, and so is the same text in another group.
    drop(governor.try_admit(&named("bi").fingerprint(0x2b)).unwrap());
    drop(governor.try_admit(&named("bi")).unwrap());
    drop(
        governor
            .try_admit(&Attributes::new().fingerprint(0x2a))
            .unwrap(),
    );
    let page = governor.render_metrics();
    let line =
        "quotient_group_admission_total{group=\"bi\",outcome=\"rejected\",reason=\"watch\"} 1\n";
    assert!(page.contains(line), "{page}");

    let shown = governor.execute("SHOW WATCHES").await.unwrap();
    let row: Vec<String> = shown[0].rows()[0].iter().map(ToString::to_string).collect();
    assert_eq!(row[..6], ["1", "bi", "0x2a", "2", "refused", "60"]);

    // It ends by itself.
    tokio::time::sleep(Duration::from_secs(61)).await;
    drop(governor.try_admit(&request).unwrap());

    // Or by a statement, or with the property.
    for end in [
        "DROP WATCH 2",
        "ALTER RESOURCE GROUP bi WITH ('quarantine_after'='0')",
    ] {
        governor
            .execute("ALTER RESOURCE GROUP bi WITH ('quarantine_after'='2')")
            .await
            .unwrap();
        run_away();
        run_away();
        assert!(governor.try_admit(&request).is_err());
        governor.execute(end).await.unwrap();
        drop(governor.try_admit(&request).unwrap());
    }
    let unknown = governor.execute("DROP WATCH 99").await.unwrap_err();
    assert!(
        unknown.to_string().starts_with("there is no watch 99"),
        "{unknown}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_thousand_events_are_remembered_the_last_ones() {
    let (governor, _) = governor(
        "CREATE RESOURCE GROUP bi WITH ('big_query_scan_rows_limit'='1', 'big_query_action'='dry_run')",
    );
    let mut ids = Vec::new();
    for _ in 0..1_005 {
        let query = governor.try_admit(&named("bi")).unwrap();
        query.record_scan_rows(2);
        ids.push(query.id());
    }
    let events = governor.runaway_events();
    let remembered: Vec<_> = events.iter().map(|event| event.query).collect();
    assert_eq!(remembered, ids[5..]);
    let shown = governor
        .execute("SHOW RUNAWAY EVENTS LIMIT 2")
        .await
        .unwrap();
    let first = &shown[0].rows()[0];
    assert_eq!(shown[0].rows().len(), 2);
    assert_eq!(
        first[1].to_string(),
        ids[1_004].to_string(),
        "the newest first"
    );
}

/// Deadlines need timers. Where the runtime has none, a thread keeps the time.
#[test]
fn elapsed_time_is_limited_on_a_runtime_without_timers_too() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let _watch = live::watched("elapsed time without timers");
    runtime.block_on(async {
        let built = Governor::builder()
            .init_sql("CREATE RESOURCE GROUP bi WITH ('big_query_elapsed_second_limit'='0.05')");
        let governor = built.build().unwrap();
        let query = governor.admit(&named("bi")).await.unwrap();
        let handle = query.spawn(std::future::pending::<()>());
        let (kind, used, limit, _) = big_query(&handle.await.unwrap_err());
        assert_eq!((kind, limit), (BigQueryKind::Elapsed, 50 * MS));
        assert!(used > limit);
    });
}
