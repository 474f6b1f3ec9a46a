//! Queries that are moved, cooled down and killed while their tasks run, wait, are spawned and end on all workers: every
//! task ends exactly once, every place comes back, and the sums are right.

mod live;
mod support;

use live::{alive, multi_thread, named, settled};
use quotient::{Attributes, Governor, JoinHandle, Query};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const GROUPS: [&str; 3] = ["a", "b", "c"];

/// Groups that name each other in a circle, and limits that every query passes.
fn sql(action: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for (group, name) in GROUPS.iter().enumerate() {
        text += &format!(
            "CREATE RESOURCE GROUP {name} WITH ('cpu_core_limit'='{}');",
            group * 3 + 1
        );
    }
    for (group, name) in GROUPS.iter().enumerate() {
        text += &format!(
            "ALTER RESOURCE GROUP {name} WITH ('big_query_scan_rows_limit'='40', 'big_query_action'='{}');",
            action(group)
        );
    }
    text
}

/// A task that does a bit of everything, and reports rows until its query is dealt with.
async fn work(seed: u64, ran: Arc<AtomicU64>) -> u64 {
    let (tell, told) = tokio::sync::oneshot::channel();
    let child = quotient::spawn(async move {
        for _ in 0..seed % 7 {
            quotient::task::yield_now().await;
        }
        let _ = tell.send(seed);
    });
    for step in 0..20 {
        quotient::record_scan_rows(1);
        match (seed + step) % 4 {
            0 => quotient::task::yield_now().await,
            1 => tokio::task::yield_now().await,
            2 => tokio::time::sleep(Duration::from_micros(50)).await,
            _ => live::compute(Duration::from_micros(5)),
        }
    }
    let got = told.await.unwrap_or(0);
    let _ = child.await;
    ran.fetch_add(1, Relaxed);
    got
}

fn tasks(query: &Query, first: u64, ran: &Arc<AtomicU64>) -> Vec<JoinHandle<u64>> {
    (first..first + 8)
        .map(|seed| query.spawn(work(seed, ran.clone())))
        .collect()
}

async fn nothing_is_left(governor: &Governor) {
    for group in GROUPS {
        settled(governor, group).await;
        let rows = governor.metrics();
        let row = &rows.by_name()[group];
        assert_eq!(row.queries_running, 0, "{group}");
        assert_eq!(
            row.usage.tasks_queued + row.usage.tasks_running,
            0,
            "{group}"
        );
    }
    let rows = governor.metrics();
    let spawned: u64 = rows.groups.iter().map(|row| row.usage.tasks_total).sum();
    assert!(spawned > 0);
    assert!(GROUPS.iter().all(|group| alive(governor, group) == 0));
}

/// Queries whose tasks run when they move finish as if nothing had happened.
fn go_on(action: impl Fn(usize) -> String, queries: u64) {
    let runtime = multi_thread(4);
    let governor = live::governor(&runtime, 4, &sql(action));
    let _watch = support::watch("queries on the move", {
        let governor = governor.clone();
        move || governor.dump()
    });
    let ran = Arc::new(AtomicU64::new(0));
    runtime.block_on(async {
        let mut all = Vec::new();
        for number in 0..queries {
            let group = GROUPS[(number % 3) as usize];
            let query = governor.admit(&named(group)).await.unwrap();
            all.extend(tasks(&query, number * 8, &ran));
            // Some queries are gone before their tasks, some are in the hand of many.
            if number % 5 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let total = all.len() as u64;
        for (seed, handle) in all.into_iter().enumerate() {
            assert_eq!(handle.await.unwrap(), seed as u64);
        }
        assert_eq!(ran.load(Relaxed), total);
        assert_eq!(
            governor.runaway_events().len() as u64,
            queries.min(1_000),
            "each once"
        );
        nothing_is_left(&governor).await;
        governor.shutdown(Duration::from_secs(10)).await;
    });
}

#[test]
fn queries_that_switch_groups_under_load_lose_nothing() {
    go_on(
        |group| format!("switch_group({})", GROUPS[(group + 1) % 3]),
        300,
    );
}

#[test]
fn queries_that_are_cooled_down_under_load_lose_nothing() {
    go_on(|_| "cooldown".to_owned(), 300);
}

/// Switches, cooldowns and kills by limits, kills by hand, and DDL that changes the actions, all at once.
#[test]
fn moves_kills_and_ddl_at_once_leave_nothing_behind() {
    let runtime = multi_thread(4);
    let governor = live::governor(&runtime, 4, &sql(|_| "kill".to_owned()));
    let _watch = support::watch("moves, kills and DDL", {
        let governor = governor.clone();
        move || governor.dump()
    });
    runtime.block_on(async {
        let (ran, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (altering, stopped) = (governor.clone(), stop.clone());
        let ddl = tokio::spawn(async move {
            let mut round = 0;
            while stopped.load(Relaxed) == 0 {
                let group = round % 3;
                let actions = [
                    format!("switch_group({})", GROUPS[(group + 1) % 3]),
                    "cooldown".to_owned(),
                    "kill".to_owned(),
                    format!("switch_group({})", GROUPS[(group + 2) % 3]),
                    "dry_run".to_owned(),
                ];
                let text = format!(
                    "ALTER RESOURCE GROUP {} WITH ('big_query_action'='{}', 'cpu_core_limit'='{}')",
                    GROUPS[group],
                    actions[round / 3 % 5],
                    round % 9 + 1
                );
                altering.execute(&text).await.unwrap();
                round += 1;
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        });
        let mut all = Vec::new();
        for number in 0..400_u64 {
            let group = GROUPS[(number % 3) as usize];
            let attributes: Attributes = named(group).fingerprint(number % 10);
            let query = governor.admit(&attributes).await.unwrap();
            all.extend(tasks(&query, number * 8, &ran));
            if number % 7 == 0 {
                query.kill("by hand");
            }
            if number % 3 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let mut ended = 0;
        for handle in all {
            match handle.await {
                Ok(_) => {}
                Err(error) => {
                    assert!(error.is_cancelled(), "{error}");
                    assert!(error.reason().is_some(), "{error}");
                }
            }
            ended += 1;
        }
        assert_eq!(ended, 400 * 8);
        stop.store(1, Relaxed);
        ddl.await.unwrap();
        nothing_is_left(&governor).await;
        let kills = governor.metrics().kills;
        let count = |histogram: &quotient::exec::stats::TimeHistogram| {
            histogram.buckets.iter().sum::<u64>()
        };
        let killed: u64 = governor
            .metrics()
            .groups
            .iter()
            .map(|row| row.queries_ended.killed)
            .sum();
        assert!((1..=killed).contains(&count(&kills.kill_to_drop)));
        assert!(count(&kills.crossing_to_kill) <= killed);
        governor.shutdown(Duration::from_secs(10)).await;
    });
}

/// Readers of every view and killers of every query, while groups are dropped with whoever runs and waits in them,
/// created anew and rolled back.
#[test]
fn every_view_answers_while_groups_come_and_go() {
    const VIEWS: [&str; 11] = [
        "admission",
        "catalog_history",
        "classifiers",
        "groups",
        "long_polls",
        "queries",
        "rejections",
        "runaway_events",
        "scheduler",
        "watches",
        "workers",
    ];
    let runtime = multi_thread(4);
    let create = "CREATE RESOURCE GROUP come TO (user='u') WITH ('concurrency_limit'='2', 'max_queued_queries'='50', \
         'queue_timeout'='1m', 'big_query_scan_rows_limit'='15', 'quarantine_after'='3', 'quarantine_window'='5ms')";
    let governor = live::governor(&runtime, 4, create);
    let _watch = support::watch("views, kills and DDL", {
        let governor = governor.clone();
        move || governor.dump()
    });
    runtime.block_on(async {
        let stop = Arc::new(AtomicU64::new(0));
        let (altering, stopped) = (governor.clone(), stop.clone());
        let ddl = tokio::spawn(async move {
            while stopped.load(Relaxed) == 0 {
                for text in [
                    "DROP RESOURCE GROUP come",
                    create,
                    "ALTER RESOURCE GROUP come WITH ('concurrency_limit'='3')",
                    "SET GLOBAL query_runner_threads = 3",
                    "DROP RESOURCE GROUP come",
                ] {
                    altering.execute(text).await.unwrap();
                    tokio::time::sleep(Duration::from_micros(300)).await;
                }
                let versions = altering
                    .execute("SELECT version FROM catalog_history ORDER BY version DESC LIMIT 1 OFFSET 1")
                    .await
                    .unwrap();
                let back = format!(
                    "ROLLBACK CATALOG TO VERSION {}; SET GLOBAL query_runner_threads = 0",
                    versions[0].rows()[0][0]
                );
                altering.execute(&back).await.unwrap();
            }
        });
        let (reading, stopped) = (governor.clone(), stop.clone());
        let views = tokio::spawn(async move {
            let mut asked = 0;
            while stopped.load(Relaxed) == 0 {
                for view in VIEWS {
                    let text = format!("SELECT count(*) FROM {view}; SELECT * FROM {view} ORDER BY 1, 2 DESC");
                    reading.execute(&text).await.unwrap();
                    asked += 1;
                    tokio::task::yield_now().await;
                }
                reading.execute("SHOW QUERIES; SHOW WATCHES; SHOW RUNAWAY EVENTS; SHOW USAGE RESOURCE GROUPS").await.unwrap();
                drop(reading.render_metrics());
            }
            asked
        });
        let (killing, stopped) = (governor.clone(), stop.clone());
        let killer = tokio::spawn(async move {
            while stopped.load(Relaxed) == 0 {
                let found = killing.execute("SELECT id FROM queries").await.unwrap();
                for row in found[0].rows().iter().step_by(3) {
                    // It may have ended.
                    let _ = killing.execute(&format!("KILL {}", row[0])).await;
                }
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
        });
        let ran = Arc::new(AtomicU64::new(0));
        let mut all = Vec::new();
        for number in 0..600_u64 {
            let attributes = Attributes::new().user("u").fingerprint(number % 10);
            let governor = governor.clone();
            if number % 4 == 0 {
                let asked = governor.admit(&attributes);
                drop(tokio::time::timeout(Duration::from_micros(number), asked).await);
            }
            all.push(governor.spawn(&attributes, work(number, ran.clone())));
            if number % 9 == 0 {
                all[number as usize / 2].abort();
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
        let total = all.len();
        let mut ended = 0;
        for handle in all {
            let _ = handle.await;
            ended += 1;
        }
        stop.store(1, Relaxed);
        assert_eq!(ended, total);
        assert!(views.await.unwrap() > 0);
        ddl.await.unwrap();
        killer.await.unwrap();
        // Children that were spawned in queries may outlive them by a moment.
        live::eventually("no query runs", || governor.metrics().groups.iter().all(|row| row.queries_running == 0)).await;
        let left = governor.execute("SELECT count(*) FROM queries").await.unwrap();
        assert_eq!(left[0].rows()[0][0].to_string(), "0");
        governor.shutdown(Duration::from_secs(10)).await;
    });
}
