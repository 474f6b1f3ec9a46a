//! The blocking pool is shared by `io_weight`: a free thread goes to the group that had the least of them.
//!
//! What is exact is shown in virtual time, in `sched::pool`. Here closures sleep, so that a busy machine takes nothing
//! from anybody, and ratios are compared generously.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{Build, Ground, current_thread, eventually_blocking, multi_thread, named, watched};
use quotient::task::{self, spawn_blocking};
use quotient::{Governor, KillReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const MS: Duration = Duration::from_millis(1);

fn sql(a: u64, b: u64) -> String {
    format!(
        "CREATE RESOURCE GROUP a WITH ('io_weight'='{a}'); CREATE RESOURCE GROUP b WITH ('io_weight'='{b}');"
    )
}

/// A governor with so many blocking threads.
fn threads(ground: &impl Build, threads: usize, sql: &str) -> Governor {
    let builder = Governor::builder().workers(2);
    ground.build(builder.max_blocking_threads(threads).init_sql(sql))
}

/// Runs `closure` in `group`.
fn run<R: Send + 'static>(
    governor: &Governor,
    group: &str,
    closure: impl FnOnce() -> R + Send + 'static,
) -> quotient::JoinHandle<R> {
    let _entered = governor.enter();
    let builder = task::Builder::new().group(group);
    builder.spawn_blocking(closure).unwrap()
}

/// Keeps `queued` closures of the group in line or running, each of that length, until `stop`.
fn flood(
    governor: &Governor,
    group: &'static str,
    queued: usize,
    length: Duration,
    stop: &Arc<AtomicBool>,
) {
    for _ in 0..queued {
        again(governor.clone(), group, length, stop.clone());
    }
}

fn again(governor: Governor, group: &'static str, length: Duration, stop: Arc<AtomicBool>) {
    let next = governor.clone();
    drop(run(&governor, group, move || {
        sleep(length);
        if !stop.load(SeqCst) {
            again(next, group, length, stop);
        }
    }));
}

fn io(governor: &Governor, group: &str) -> f64 {
    let stats = governor.classify(&named(group)).unwrap().stats();
    stats.io_blocking.as_secs_f64()
}

/// What `a` had of the pool for each that `b` had, after a while.
fn ratio(governor: &Governor, stop: &Arc<AtomicBool>) -> f64 {
    sleep(Duration::from_millis(300));
    let before = ["a", "b"].map(|group| io(governor, group));
    sleep(Duration::from_millis(1_500));
    let after = ["a", "b"].map(|group| io(governor, group));
    stop.store(true, SeqCst);
    (after[0] - before[0]) / (after[1] - before[1])
}

#[test]
fn two_groups_have_two_and_one_of_the_threads_by_their_io_weights() {
    let _watched = watched("2:1");
    for ground in [Ground::Tokio(multi_thread(2)), Ground::owned()] {
        let governor = threads(&ground, 6, &sql(2, 1));
        let stop = Arc::new(AtomicBool::new(false));
        flood(&governor, "a", 50, 2 * MS, &stop);
        flood(&governor, "b", 50, 2 * MS, &stop);
        let ratio = ratio(&governor, &stop);
        assert!((1.8..2.2).contains(&ratio), "{ratio}");
    }
}

#[test]
fn a_hundred_times_as_many_closures_or_fifty_times_as_long_ones_get_no_more() {
    let _watched = watched("1:1");
    for (queued, length) in [(4_000, 2 * MS), (40, 50 * MS)] {
        let runtime = multi_thread(2);
        let governor = threads(&runtime, 6, &sql(1, 1));
        let stop = Arc::new(AtomicBool::new(false));
        flood(&governor, "a", queued, length, &stop);
        flood(&governor, "b", 40, MS, &stop);
        let ratio = ratio(&governor, &stop);
        assert!(
            (0.85..1.15).contains(&ratio),
            "{queued} of {length:?}: {ratio}"
        );
        // What still waits would be waited for.
        governor.block_on(governor.shutdown(Duration::ZERO));
    }
}

#[test]
fn an_altered_io_weight_binds_at_once() {
    let _watched = watched("alter");
    let runtime = multi_thread(2);
    let governor = threads(&runtime, 4, &sql(1, 1));
    let stop = Arc::new(AtomicBool::new(false));
    flood(&governor, "a", 40, 2 * MS, &stop);
    flood(&governor, "b", 40, 2 * MS, &stop);
    sleep(100 * MS);
    let alter = governor.execute("ALTER RESOURCE GROUP a WITH ('io_weight'='3')");
    runtime.block_on(alter).unwrap();
    let ratio = ratio(&governor, &stop);
    assert!((2.7..3.3).contains(&ratio), "{ratio}");
}

#[test]
fn a_flood_is_ahead_of_anothers_first_closure_with_what_runs_and_no_more() {
    let _watched = watched("flood");
    let runtime = multi_thread(2);
    let governor = threads(&runtime, 2, &sql(1, 1));
    let (begun, at) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..2_000 {
        let begun = begun.clone();
        drop(run(&governor, "a", move || {
            begun.fetch_add(1, SeqCst);
            sleep(MS);
        }));
    }
    for _ in 0..20 {
        let (now, seen) = (begun.clone(), at.clone());
        let before = begun.load(SeqCst);
        let first = run(&governor, "b", move || seen.store(now.load(SeqCst), SeqCst));
        runtime.block_on(first).unwrap();
        // One that was taken while this one was on its way, and those that the other thread began meanwhile.
        let ahead = at.load(SeqCst) - before;
        assert!(ahead <= 3, "{ahead}");
        sleep(5 * MS);
    }
    runtime.block_on(governor.shutdown(Duration::ZERO));
}

/// Keeps a thread until told.
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn new() -> Gate {
        Gate(Arc::new(AtomicBool::new(false)))
    }

    fn wait(&self) -> impl FnOnce() + Send + 'static {
        let open = self.0.clone();
        move || {
            while !open.load(SeqCst) {
                sleep(Duration::from_micros(100));
            }
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn running(governor: &Governor, group: &str) -> u64 {
    let stats = governor.classify(&named(group)).unwrap().stats();
    stats.blocking_running
}

#[test]
fn a_full_line_refuses_with_a_reason_and_takes_nothing_from_the_others() {
    let _watched = watched("full");
    let runtime = multi_thread(2);
    let builder = Governor::builder()
        .max_blocking_threads(1)
        .max_queued_blocking(3);
    let governor = runtime.build(builder.init_sql(&sql(1, 1)));
    let gate = Gate::new();
    let kept = run(&governor, "a", gate.wait());
    eventually_blocking("it runs", || running(&governor, "a") == 1);
    let waiting: Vec<_> = (0..3).map(|i| run(&governor, "a", move || i)).collect();
    let refused = run(&governor, "a", || 9);
    assert!(refused.is_finished(), "at once");
    let error = runtime.block_on(refused).unwrap_err();
    let expected = KillReason::BlockingQueueFull {
        group: "a".into(),
        limit: 3,
    };
    assert_eq!(error.reason(), Some(&expected));
    assert!(
        error.is_cancelled() && error.to_string().contains("max_queued_blocking"),
        "{error}"
    );
    let other = run(&governor, "b", || 7);
    // An abort makes room.
    waiting[1].abort();
    let again = run(&governor, "a", || 3);
    drop(gate);
    let outputs: Vec<_> = waiting
        .into_iter()
        .chain([again])
        .map(|it| runtime.block_on(it).ok())
        .collect();
    assert_eq!(outputs, [Some(0), None, Some(2), Some(3)]);
    assert_eq!(runtime.block_on(other).unwrap(), 7);
    runtime.block_on(kept).unwrap();
}

/// Says when it was dropped, and whether on a thread of the pool.
struct Gone(Arc<AtomicUsize>);

impl Drop for Gone {
    fn drop(&mut self) {
        assert!(task::try_id().is_some(), "as its task");
        let there = thread::current().name() == Some("quotient-io");
        self.0.fetch_add(if there { 1 } else { 1_000 }, SeqCst);
    }
}

#[test]
fn what_is_ended_before_it_begins_is_gone_at_once_and_gives_its_querys_place_back() {
    let _watched = watched("ended");
    let runtime = multi_thread(2);
    let governor = threads(
        &runtime,
        1,
        "CREATE RESOURCE GROUP a WITH ('concurrency_limit'='1')",
    );
    let gate = Gate::new();
    let kept = run(&governor, "default_wg", gate.wait());
    eventually_blocking("it runs", || running(&governor, "default_wg") == 1);
    let gone = Arc::new(AtomicUsize::new(0));
    let query = governor.try_admit(&named("a")).unwrap();
    let held = Gone(gone.clone());
    let aborted = query.spawn_blocking(move || drop(held));
    drop(query);
    assert!(governor.try_admit(&named("a")).is_err());
    aborted.abort();
    eventually_blocking("it is dropped by the pool", || gone.load(SeqCst) == 1);
    assert!(runtime.block_on(aborted).unwrap_err().is_cancelled());
    let query = governor.try_admit(&named("a")).unwrap();
    let killed: Vec<_> = (0..100)
        .map(|_| {
            let held = Gone(gone.clone());
            query.spawn_blocking(move || drop(held))
        })
        .collect();
    query.kill("for a test");
    eventually_blocking("they are dropped", || gone.load(SeqCst) == 101);
    for handle in killed {
        let error = runtime.block_on(handle).unwrap_err();
        assert!(matches!(error.reason(), Some(KillReason::Killed { .. })));
    }
    assert!(!kept.is_finished());
    drop(gate);
    runtime.block_on(kept).unwrap();
}

#[test]
fn threads_are_started_when_needed_and_end_when_idle() {
    let _watched = watched("threads");
    let runtime = multi_thread(2);
    let builder = Governor::builder().blocking_keep_alive(20 * MS);
    let governor = runtime.build(builder);
    let pool = || governor.metrics().blocking_pool;
    assert_eq!((pool().threads, pool().busy), (0, 0));
    let gate = Gate::new();
    let waiting: Vec<_> = (0..40)
        .map(|_| run(&governor, "default_wg", gate.wait()))
        .collect();
    eventually_blocking("all run at once", || pool().busy == 40);
    assert_eq!(pool().threads, 40);
    assert!(
        governor
            .render_metrics()
            .contains("quotient_blocking_threads{state=\"busy\"} 40")
    );
    drop(gate);
    for handle in waiting {
        runtime.block_on(handle).unwrap();
    }
    eventually_blocking("all end", || pool().threads == 0);
    assert_eq!(
        runtime
            .block_on(run(&governor, "default_wg", || 5))
            .unwrap(),
        5,
        "and come again"
    );
}

#[test]
fn one_after_the_other_they_are_run_by_one_thread() {
    let _watched = watched("one thread");
    let runtime = multi_thread(2);
    let governor = threads(&runtime, 8, "");
    let mut ids = std::collections::HashSet::new();
    for _ in 0..200 {
        ids.insert(
            runtime
                .block_on(run(&governor, "default_wg", || thread::current().id()))
                .unwrap(),
        );
        // So that the thread is back.
        eventually_blocking("it waits", || governor.metrics().blocking_pool.busy == 0);
    }
    assert!(ids.len() <= 3, "{}", ids.len());
}

#[test]
fn a_short_query_group_finds_a_thread_however_many_are_kept() {
    let _watched = watched("reserved");
    let runtime = multi_thread(2);
    let governor = threads(
        &runtime,
        4,
        "CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1'); CREATE RESOURCE GROUP quick WITH ('type'='short_query', 'cpu_core_limit'='1')",
    );
    let gate = Gate::new();
    let kept: Vec<_> = (0..10).map(|_| run(&governor, "a", gate.wait())).collect();
    eventually_blocking("what may run does", || running(&governor, "a") == 3);
    for i in 0..50 {
        assert_eq!(
            runtime
                .block_on(run(&governor, "quick", move || i))
                .unwrap(),
            i
        );
    }
    assert_eq!(running(&governor, "a"), 3);
    runtime
        .block_on(governor.execute("DROP RESOURCE GROUP quick"))
        .unwrap();
    eventually_blocking("its thread is everybody's", || running(&governor, "a") == 4);
    drop(gate);
    for handle in kept {
        runtime.block_on(handle).unwrap();
    }
}

#[test]
fn closures_may_wait_for_each_other_as_long_as_there_are_threads() {
    let _watched = watched("barrier");
    for ground in live::grounds(2) {
        let governor = threads(&ground, 32, "");
        let barrier = Arc::new(std::sync::Barrier::new(32));
        let all: Vec<_> = (0..32)
            .map(|_| {
                let barrier = barrier.clone();
                run(&governor, "default_wg", move || barrier.wait().is_leader())
            })
            .collect();
        let leaders = ground.block_on(async {
            let mut leaders = 0;
            for handle in all {
                leaders += usize::from(handle.await.unwrap());
            }
            leaders
        });
        assert_eq!(leaders, 1);
    }
}

/// A closure that has begun, ends after a while, and says so.
fn slow(runtime: &Runtime) -> (Governor, Arc<AtomicBool>) {
    begun(runtime, || sleep(200 * MS))
}

/// A closure that has begun, does `work`, and says that it has ended.
fn begun(runtime: &Runtime, work: impl FnOnce() + Send + 'static) -> (Governor, Arc<AtomicBool>) {
    let governor = threads(runtime, 2, "");
    let (begun, ended) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (begins, ends) = (begun.clone(), ended.clone());
    drop(run(&governor, "default_wg", move || {
        begins.store(true, SeqCst);
        work();
        ends.store(true, SeqCst);
    }));
    eventually_blocking("it runs", || begun.load(SeqCst));
    (governor, ended)
}

#[test]
fn a_runtime_that_is_dropped_waits_for_closures_that_have_begun_as_tokio_does() {
    let _watched = watched("runtime drop");
    for make in [|| multi_thread(2), current_thread] {
        for governor_first in [false, true] {
            let runtime = make();
            let (governor, ended) = slow(&runtime);
            if governor_first {
                drop(governor);
                drop(runtime);
            } else {
                drop(runtime);
                drop(governor);
            }
            assert!(ended.load(SeqCst), "governor first: {governor_first}");
        }
        let runtime = make();
        let (_governor, ended) = slow(&runtime);
        runtime.shutdown_timeout(Duration::from_secs(20));
        assert!(ended.load(SeqCst), "within the time allowed");
        let runtime = make();
        let go = Arc::new(AtomicBool::new(false));
        let may_go = go.clone();
        let (_governor, ended) = begun(&runtime, move || {
            eventually_blocking("it may go", || may_go.load(SeqCst));
        });
        runtime.shutdown_background();
        assert!(!ended.load(SeqCst), "not waited for");
        go.store(true, SeqCst);
        eventually_blocking("it goes on", || ended.load(SeqCst));
    }
}

#[test]
fn a_paused_clock_stands_still_while_closures_run() {
    let _watched = watched("paused");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let governor = threads(&runtime, 2, "");
    runtime.block_on(async {
        let handle = run(&governor, "default_wg", || sleep(50 * MS));
        let waited = tokio::time::timeout(Duration::from_secs(3_600), handle);
        assert!(waited.await.is_ok(), "an hour has not passed");
    });
}

#[test]
fn what_tokio_offers_inside_works_inside() {
    let _watched = watched("inside");
    for ground in live::grounds(2) {
        let governor = threads(&ground, 2, "");
        let seen = ground.block_on(run(&governor, "default_wg", || {
            let handle = tokio::runtime::Handle::current();
            let inner = handle.spawn(async { 1 });
            let slept = async {
                tokio::time::sleep(MS).await;
                inner.await.unwrap() + tokio::task::spawn_blocking(|| 2).await.unwrap()
            };
            let in_place = quotient::task::block_in_place(|| 4);
            handle.block_on(slept) + in_place + handle.block_on(spawn_blocking(|| 8)).unwrap()
        }));
        assert_eq!(seen.unwrap(), 15);
    }
}

#[test]
fn whatever_ends_them_every_handle_is_told_and_nothing_is_left() {
    let _watched = watched("storm");
    for ground in live::grounds(2) {
        let builder = Governor::builder()
            .workers(2)
            .max_blocking_threads(3)
            .blocking_keep_alive(MS);
        let governor = ground.build(builder.max_queued_blocking(50).init_sql(&sql(2, 1)));
        let begun = Instant::now();
        let mut told = 0;
        for round in 0..200_usize {
            let query = governor.try_admit(&named("a")).unwrap();
            let handles: Vec<_> = (0..20)
                .map(|i| {
                    let handle = match i % 4 {
                        0 => query.spawn_blocking(|| {}),
                        1 => query.spawn_blocking(|| panic!("planned: in a closure")),
                        2 => run(&governor, "b", || sleep(Duration::from_micros(50))),
                        _ => run(&governor, "a", || drop(spawn_blocking(|| {}))),
                    };
                    if (i + round) % 3 == 0 {
                        handle.abort();
                    }
                    handle
                })
                .collect();
            if round % 7 == 0 {
                query.kill("for a test");
            }
            ground.block_on(async {
                for handle in handles {
                    told += usize::from(handle.await.is_ok());
                }
            });
            if begun.elapsed() > Duration::from_secs(5) {
                break;
            }
        }
        assert!(told > 0);
        for group in ["a", "b"] {
            eventually_blocking("nothing is left", || {
                let stats = governor.classify(&named(group)).unwrap().stats();
                stats.blocking + stats.blocking_queued + stats.blocking_running == 0
            });
        }
        ground.block_on(governor.shutdown(Duration::from_secs(1)));
        eventually_blocking("no thread is left", || {
            governor.metrics().blocking_pool.threads == 0
        });
    }
}
