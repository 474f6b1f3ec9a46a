//! A query that goes on elsewhere, cooled down or in another group: its memory stays with the group that it began in, and so
//! does everything about it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod live;
mod support;

use live::named;
use quotient::memory::MemoryError;
use quotient::metrics::snapshot::GroupRow;
use quotient::{Governor, Query};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const MIB: u64 = 1 << 20;

fn governor(action: &str) -> Governor {
    let sql = format!(
        "CREATE RESOURCE GROUP slow WITH ('queue_timeout'='7s');
         CREATE RESOURCE GROUP bi WITH ('mem_limit'='100MiB', 'queue_timeout'='2s',
           'spill_mem_limit_threshold'='50%', 'big_query_scan_rows_limit'='1', 'big_query_action'='{action}')"
    );
    let builder = Governor::builder().memory_limit(1 << 30).init_sql(&sql);
    builder.build().unwrap()
}

fn query(governor: &Governor, group: &str) -> Query {
    governor.try_admit(&named(group)).unwrap()
}

/// It goes over its limit of rows.
fn trip(query: &Query) {
    query.record_scan_rows(5);
    assert!(query.usage().scan_rows > 1);
}

fn row(governor: &Governor, group: &str) -> Option<GroupRow> {
    governor.metrics().by_name().remove(group)
}

fn reserved(governor: &Governor, group: &str) -> u64 {
    row(governor, group).unwrap().memory.reserved
}

#[tokio::test(start_paused = true)]
async fn who_moved_waits_in_the_line_that_it_came_from() {
    for action in ["switch_group(slow)", "cooldown"] {
        let governor = governor(action);
        let (first, moved) = (query(&governor, "bi"), query(&governor, "bi"));
        let beside = query(&governor, "slow");
        let held = first.try_reserve(100 * MIB).unwrap();
        trip(&moved);
        let began = Instant::now();
        let waiter = moved.clone();
        let waiting = tokio::spawn(async move { waiter.reserve(10 * MIB).await.map(|r| r.size()) });
        sleep(Duration::from_millis(10)).await;
        // Nobody of the other group stands behind it.
        assert_eq!(beside.try_reserve(MIB).unwrap().size(), MIB, "{action}");
        assert_eq!(beside.reserve(MIB).await.unwrap().size(), MIB, "{action}");
        let refused = timeout(Duration::from_secs(60), waiting).await;
        let refused = refused.expect("it waits for ever").unwrap().unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 2, "{action}: bi's queue_timeout");
        let MemoryError::TimedOut { group, limit, .. } = refused else {
            panic!("{action}: {refused}");
        };
        assert_eq!((&*group, limit), ("bi", 100 * MIB), "{action}");
        drop(held);
        let taken = moved.try_reserve(10 * MIB).unwrap();
        assert_eq!(
            (reserved(&governor, "bi"), reserved(&governor, "slow")),
            (10 * MIB, 0),
            "{action}"
        );
        drop(taken);
    }
}

#[tokio::test(start_paused = true)]
async fn who_moved_overtakes_nobody_and_is_asked_to_spill() {
    for action in ["switch_group(slow)", "cooldown"] {
        let governor = governor(action);
        let [first, moved, waiter] = [(); 3].map(|()| query(&governor, "bi"));
        let held = first.try_reserve(40 * MIB).unwrap();
        trip(&moved);
        let asked = Arc::new(AtomicU64::new(0));
        let told = asked.clone();
        let _asked = moved.on_pressure(0, move |bytes| {
            told.fetch_add(bytes, SeqCst);
        });
        let taken = moved.try_reserve(20 * MIB).unwrap();
        assert!(taken.should_spill(), "{action}: 60 of 100 MiB");
        let waiting = tokio::spawn(async move { waiter.reserve(50 * MIB).await.map(|r| r.size()) });
        sleep(Duration::from_millis(10)).await;
        let full = moved.try_reserve(MIB).unwrap_err();
        assert!(
            matches!(full, MemoryError::Full { waiting: 1, .. }),
            "{action}: {full}"
        );
        assert!(asked.load(SeqCst) > 0, "{action}");
        drop((held, taken));
        assert_eq!(waiting.await.unwrap().unwrap(), 50 * MIB, "{action}");
    }
}

/// The group is dropped while a query of it works elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_group_shows_what_is_its_own_until_its_last_query_ends() {
    let _watched = support::watch("a dropped group whose query moved", String::new);
    let governor = governor("switch_group(slow)");
    let moved = query(&governor, "bi");
    trip(&moved);
    let held = moved.try_reserve(10 * MIB).unwrap();
    governor.execute("DROP RESOURCE GROUP bi").await.unwrap();
    for _ in 0..3 {
        assert_eq!(reserved(&governor, "bi"), 10 * MIB);
    }
    let closure = moved.spawn_blocking(|| {
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(20) {}
    });
    closure.await.unwrap();
    // As its polls: the group that serves it pays.
    assert!(row(&governor, "slow").unwrap().usage.cpu_blocking.0 > 0);
    drop(held);
    drop(moved);
    live::eventually("it is gone", || row(&governor, "bi").is_none()).await;
}

#[tokio::test]
async fn a_group_has_used_what_its_queries_have() {
    let governor = governor("dry_run");
    let query = query(&governor, "bi");
    let closure = query.spawn_blocking(|| {
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(20) {}
    });
    closure.await.unwrap();
    let group = governor.classify(&named("bi")).unwrap();
    let (used, of_group) = (query.usage().cpu, group.usage().cpu);
    assert!(
        !used.is_zero() && of_group >= used,
        "{of_group:?} of {used:?}"
    );
    let shown = governor
        .execute("SELECT cpu_seconds FROM groups WHERE name = 'bi'")
        .await
        .unwrap();
    let shown: f64 = shown[0].rows()[0][0].to_string().parse().unwrap();
    assert!(shown >= used.as_secs_f64(), "{shown} of {used:?}");
}
