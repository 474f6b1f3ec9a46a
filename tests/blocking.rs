//! Closures on the blocking pool belong to the group and query that spawned them: charged, counted, ended with them.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{Build, compute, eventually, governor, multi_thread, named, watched};
use quotient::task::{self, spawn_blocking};
use quotient::{Governor, KillReason};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Runtime;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('concurrency_limit'='1');";

/// A governor whose pool has one thread, and a closure that keeps it until the flag is set.
fn one_thread() -> (Runtime, Governor, Arc<AtomicBool>) {
    let runtime = multi_thread(2);
    let builder = Governor::builder().max_blocking_threads(1).init_sql(SQL);
    let governor = runtime.build(builder);
    let (go, running) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (may_go, is_running) = (go.clone(), running.clone());
    let entered = governor.enter();
    drop(spawn_blocking(move || {
        is_running.store(true, Ordering::SeqCst);
        while !may_go.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }));
    drop(entered);
    live::eventually_blocking("the pool is busy", || running.load(Ordering::SeqCst));
    (runtime, governor, go)
}

#[test]
fn a_closure_is_in_the_group_and_query_that_spawned_it_and_is_charged_to_them() {
    let _watched = watched("charged");
    for ground in live::grounds(2) {
        let governor = governor(&ground, 2, SQL);
        ground.block_on(charged(&governor));
    }
}

async fn charged(governor: &Governor) {
    let query = governor.admit(&named("g")).await.unwrap();
    let id = query.id();
    let inside = || task::current().map(|it| (it.group().to_owned(), it.query_id()));
    let seen = query
        .run(async move {
            spawn_blocking(move || {
                compute(Duration::from_millis(20));
                let child = quotient::spawn(async move { inside() });
                (inside(), tokio::runtime::Handle::current().block_on(child))
            })
            .await
        })
        .await
        .unwrap()
        .unwrap();
    let expected = Some(("g".to_owned(), Some(id)));
    assert_eq!(seen.0, expected);
    assert_eq!(seen.1.unwrap(), expected);
    // Thread time: at most what passed, and most of what was computed even on a busy machine.
    let cpu = query.usage().cpu;
    assert!(cpu >= Duration::from_millis(1), "{cpu:?}");
    drop(query);
    live::settled(governor, "g").await;
    let stats = governor.classify(&named("g")).unwrap().stats();
    assert_eq!(stats.blocking, 0);
    assert!(stats.cpu_blocking.0 > 1_000_000, "{stats:?}");
    assert!(Duration::from(stats.cpu_blocking) <= cpu);
    assert!(governor.render_metrics().contains("kind=\"blocking\""));
}

#[test]
fn a_closure_holds_its_querys_place_until_it_is_gone() {
    let _watched = watched("place");
    let (runtime, governor, go) = one_thread();
    runtime.block_on(async {
        let query = governor.admit(&named("g")).await.unwrap();
        let closure = query.spawn_blocking(|| 1);
        drop(query);
        assert!(
            governor.try_admit(&named("g")).is_err(),
            "it waits for a thread"
        );
        go.store(true, Ordering::SeqCst);
        assert_eq!(closure.await.unwrap(), 1);
        assert!(governor.try_admit(&named("g")).is_ok());
    });
}

/// Says that it was dropped.
struct Gone(Arc<AtomicUsize>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_closure_that_has_not_begun_is_aborted_killed_and_shut_down_without_running() {
    let _watched = watched("not begun");
    let (runtime, governor, go) = one_thread();
    let (ran, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let closure = || {
        let (ran, gone) = (ran.clone(), Gone(gone.clone()));
        move || {
            ran.fetch_add(1, Ordering::SeqCst);
            drop(gone);
        }
    };
    runtime.block_on(async {
        let query = governor.admit(&named("g")).await.unwrap();
        let killed = query.spawn_blocking(closure());
        let entered = governor.enter();
        let (aborted, shut_down) = (spawn_blocking(closure()), spawn_blocking(closure()));
        drop(entered);
        query.kill("for a test");
        aborted.abort();
        // At once, though what runs goes on.
        eventually("they are dropped", || {
            killed.is_finished() && aborted.is_finished()
        })
        .await;
        assert!(!shut_down.is_finished());
        let after_kill = query.spawn_blocking(closure());
        let error = after_kill.await.unwrap_err();
        assert!(matches!(error.reason(), Some(KillReason::Killed { .. })));
        governor.shutdown(Duration::ZERO).await;
        go.store(true, Ordering::SeqCst);
        let killed = killed.await.unwrap_err();
        assert!(matches!(killed.reason(), Some(KillReason::Killed { .. })));
        let aborted = aborted.await.unwrap_err();
        assert!(aborted.is_cancelled() && aborted.reason().is_none());
        let shut_down = shut_down.await.unwrap_err();
        assert_eq!(shut_down.reason(), Some(&KillReason::Shutdown));
    });
    assert_eq!(
        (ran.load(Ordering::SeqCst), gone.load(Ordering::SeqCst)),
        (0, 4)
    );
}

#[test]
fn a_shutdown_waits_for_closures_within_its_grace_only() {
    let _watched = watched("grace");
    let (runtime, governor, go) = one_thread();
    runtime.block_on(async {
        let entered = governor.enter();
        let queued = spawn_blocking(|| 1);
        drop(entered);
        let (ending, freeing) = (governor.shutdown(Duration::from_secs(20)), async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            go.store(true, Ordering::SeqCst);
        });
        tokio::join!(ending, freeing);
        assert!(queued.is_finished());
        assert_eq!(queued.await.unwrap(), 1);
    });
    // And one that does not end by itself is left to the runtime.
    let (runtime, governor) = {
        let runtime = multi_thread(2);
        let governor = live::governor(&runtime, 2, SQL);
        (runtime, governor)
    };
    let go = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let may_go = go.clone();
        let entered = governor.enter();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let endless = spawn_blocking(move || {
            let _ = begin.send(());
            while !may_go.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        drop(entered);
        begun.await.unwrap();
        governor.shutdown(Duration::from_millis(1)).await;
        assert!(!endless.is_finished());
        go.store(true, Ordering::SeqCst);
        endless.await.unwrap();
    });
}

#[test]
fn a_runtime_that_is_gone_cancels_what_it_did_not_begin() {
    let _watched = watched("runtime gone");
    let (runtime, governor, go) = one_thread();
    let (ran, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (has_run, held) = (ran.clone(), Gone(gone.clone()));
    let _entered = governor.enter();
    let mut handle = spawn_blocking(move || {
        has_run.fetch_add(1, Ordering::SeqCst);
        drop(held);
    });
    runtime.shutdown_background();
    // Its workers leave when they come to it; the one thread of the pool is busy until then and after.
    live::eventually_blocking("the pool refuses at once", || {
        spawn_blocking(|| ()).is_finished()
    });
    live::eventually_blocking("the closure is dropped", || handle.is_finished());
    go.store(true, Ordering::SeqCst);
    let ended = Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(ended, Poll::Ready(Err(error)) if error.is_cancelled()));
    assert_eq!(
        (ran.load(Ordering::SeqCst), gone.load(Ordering::SeqCst)),
        (0, 1)
    );
}

#[test]
fn closures_of_a_dropped_group_stay_its_own() {
    let _watched = watched("dropped group");
    let (runtime, governor, go) = one_thread();
    runtime.block_on(async {
        let query = governor.admit(&named("g")).await.unwrap();
        let closure = query.spawn_blocking(|| {
            compute(Duration::from_millis(2));
            task::current().map(|it| it.group().to_owned())
        });
        drop(query);
        governor.execute("DROP RESOURCE GROUP g").await.unwrap();
        let _ = governor.metrics();
        go.store(true, Ordering::SeqCst);
        assert_eq!(closure.await.unwrap().as_deref(), Some("g"));
        eventually("the group is let go", || {
            governor.metrics().groups.iter().all(|row| row.name != "g")
        })
        .await;
    });
}

#[test]
fn what_closures_spend_on_the_cpu_trips_the_breaker_and_ends_those_that_wait() {
    let _watched = watched("breaker");
    let runtime = multi_thread(2);
    let sql = "CREATE RESOURCE GROUP g WITH ('big_query_cpu_second_limit'='0.02')";
    let builder = Governor::builder().max_blocking_threads(1).init_sql(sql);
    let governor = runtime.build(builder);
    let query = governor.try_admit(&named("g")).unwrap();
    let burn = || {
        let cpu = || quotient::clock::cpu_of_this_thread().map_or(Duration::MAX, Duration::from);
        let begun = cpu();
        while cpu() < begun.saturating_add(Duration::from_millis(40)) {
            std::hint::spin_loop();
        }
        1
    };
    let (burning, waiting) = (query.spawn_blocking(burn), query.spawn_blocking(|| 2));
    let burnt = runtime.block_on(burning);
    assert_eq!(burnt.unwrap(), 1, "what runs is not interrupted");
    let error = runtime.block_on(waiting).unwrap_err();
    let expected = "40 ms of CPU time in a closure are over a limit of 20";
    assert!(
        matches!(error.reason(), Some(KillReason::BigQuery { .. })),
        "{expected}: {error}"
    );
}
