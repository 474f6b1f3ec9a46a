//! What stands around the executor works on the owned host as on the other one: caps, waiting places, housekeeping.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{compute, eventually_blocking, named, watched};
use quotient::{AdmissionError, Governor, Host, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const THROTTLE: &str = "pinot.query.scheduler.name=MemoryThrottledFCFS
pinot.query.scheduler.throttle.maxRunningQueriesUpdateFrequencyMs=5
";

fn owned(workers: usize, sql: &str) -> Governor {
    let builder = Governor::builder().host(Host::Owned).workers(workers);
    builder.init_sql(sql).build().unwrap()
}

fn end(governor: &Governor) {
    governor.block_on(governor.shutdown(Duration::ZERO));
}

#[test]
fn a_capped_group_is_held_back_and_woken_again() {
    let _watched = watched("cap");
    for workers in [1, 2] {
        let sql = "CREATE RESOURCE GROUP g WITH ('max_cpu_cores'='0.2')";
        let governor = owned(workers, sql);
        let start = Instant::now();
        let task = governor.spawn_in("g", async {
            for _ in 0..60 {
                compute(Duration::from_millis(1));
                tokio::task::yield_now().await;
            }
        });
        governor.block_on(task.unwrap()).unwrap();
        let used = governor.classify(&named("g")).unwrap().usage().cpu;
        // 60 ms of work, of which a fifth of half a period may go at once.
        let allowed = 0.2 * (start.elapsed().as_secs_f64() + 0.05) + 0.002;
        assert!(used.as_secs_f64() <= allowed * 1.1, "{used:?} of {allowed}");
        end(&governor);
    }
}

#[test]
fn a_query_waits_for_its_place_and_gives_up_in_time() {
    let _watched = watched("places");
    let sql = "CREATE RESOURCE GROUP g WITH ('concurrency_limit'='1', 'max_queued_queries'='2', 'queue_timeout'='30ms')";
    let governor = owned(2, sql);
    governor.block_on(async {
        let first = governor.admit(&named("g")).await.unwrap();
        let attributes = named("g");
        let waits = governor.admit(&attributes);
        let leaves = async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(waits, leaves);
        let second = second.unwrap();
        // A spawn waits in a task of its own.
        let refused = governor.spawn(&named("g"), async {});
        assert!(refused.await.unwrap_err().is_cancelled());
        let late = governor.admit(&named("g")).await;
        assert!(
            matches!(late, Err(AdmissionError::Timeout { .. })),
            "{late:?}"
        );
        drop(second);
    });
    end(&governor);
}

#[test]
fn housekeeping_runs_on_the_governors_own_runtime_and_ends_with_it() {
    let _watched = watched("housekeeping");
    let looks = Arc::new(AtomicU64::new(0));
    let counted = looks.clone();
    let builder = Governor::builder().host(Host::Owned).workers(1);
    let governor = builder
        .memory_probe(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            1
        })
        .settings(Settings::from_properties(THROTTLE).unwrap())
        .build()
        .unwrap();
    eventually_blocking("the throttle looks", || looks.load(Ordering::SeqCst) > 1);
    end(&governor);
    let last = looks.load(Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(looks.load(Ordering::SeqCst), last);
}
