//! Our workers beside what else lives on the runtime: idle workers, timers, blocking sections, a paused clock.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{
    Ground, compute, eventually, governor, grounds_with_threads, multi_thread, spawned, watched,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='1');";

#[test]
fn an_idle_worker_takes_what_a_busy_one_has_woken() {
    let _watched = watched("work-conserving");
    for runtime in grounds_with_threads(2) {
        idle_takes_what_busy_has_woken(&runtime);
    }
}

fn idle_takes_what_busy_has_woken(runtime: &Ground) {
    const ROUNDS: usize = 5;
    // Far longer than a busy system lets a woken thread wait.
    const LONG_POLL: Duration = Duration::from_millis(400);
    let governor = governor(runtime, 2, SQL);
    let mut late = String::new();
    // Over groups and within one; a wake from inside a poll, and a spawn.
    for (group, spawns) in [("g", false), ("other", false), ("g", true)] {
        let mut waits: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                runtime.block_on(async {
                    let (wake, woken) = oneshot::channel::<Instant>();
                    let (tell, told) = oneshot::channel::<Duration>();
                    let b = async move { tell.send(woken.await.unwrap().elapsed()).unwrap() };
                    let mut b = Some(b);
                    if !spawns {
                        let begun = governor.spawn_in(group, b.take().unwrap()).unwrap();
                        drop(begun);
                    }
                    let a = governor.spawn_in("g", async move {
                        // By now the other worker sleeps.
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        wake.send(Instant::now()).unwrap();
                        if let Some(b) = b {
                            drop(quotient::spawn(b));
                        }
                        compute(LONG_POLL);
                    });
                    let waited = told.await.unwrap();
                    a.unwrap().await.unwrap();
                    waited
                })
            })
            .collect();
        waits.sort();
        let median = waits[ROUNDS / 2];
        if median > LONG_POLL / 2 {
            late += &format!("{group}, spawned: {spawns}: B waited {median:?}; all: {waits:?}\n");
        }
    }
    assert!(
        late.is_empty(),
        "beside an idle worker, A in {LONG_POLL:?} polls of g:\n{late}"
    );
}

#[test]
fn plain_timers_are_not_later_beside_our_tasks_than_beside_tokios() {
    const TASKS: usize = 64;
    const POLL: Duration = Duration::from_millis(1);
    let _watched = watched("timers");
    let lateness = |runtime: Ground, ours: bool| {
        let governor = governor(&runtime, 2, SQL);
        runtime.block_on(async {
            let stop = Arc::new(AtomicBool::new(false));
            let alive = Arc::new(AtomicUsize::new(TASKS));
            for _ in 0..TASKS {
                let (stop, alive) = (stop.clone(), alive.clone());
                let busy = async move {
                    while !stop.load(Ordering::SeqCst) {
                        compute(POLL);
                        quotient::task::yield_now().await;
                    }
                    alive.fetch_sub(1, Ordering::SeqCst);
                };
                if ours {
                    drop(governor.spawn_in("g", busy));
                } else {
                    drop(tokio::spawn(busy));
                }
            }
            let ticker = tokio::spawn(async {
                let mut late = Vec::new();
                for _ in 0..30 {
                    let due = Instant::now() + Duration::from_millis(5);
                    tokio::time::sleep_until(due.into()).await;
                    late.push(due.elapsed());
                }
                late.sort();
                late[late.len() / 2]
            });
            let late = ticker.await.unwrap();
            stop.store(true, Ordering::SeqCst);
            eventually("all stop", || alive.load(Ordering::SeqCst) == 0).await;
            late
        })
    };
    let plain = lateness(Ground::Tokio(multi_thread(2)), false);
    for runtime in grounds_with_threads(2) {
        let ours = lateness(runtime, true);
        assert!(
            ours <= plain,
            "beside ours {ours:?}, beside tokio's {plain:?}"
        );
    }
}

#[test]
fn many_blocking_sections_at_once_all_end() {
    const TASKS: usize = 40;
    let _watched = watched("block_in_place");
    for runtime in grounds_with_threads(2) {
        let governor = governor(&runtime, 2, SQL);
        let handles: Vec<_> = (0..TASKS)
            .map(|i| {
                let group = if i % 2 == 0 { "g" } else { "other" };
                let task = async move {
                    for _ in 0..5 {
                        tokio::task::block_in_place(|| {
                            std::thread::sleep(Duration::from_micros(300))
                        });
                        quotient::task::yield_now().await;
                        quotient::spawn(async {}).await.unwrap();
                    }
                };
                governor.spawn_in(group, task).unwrap()
            })
            .collect();
        for handle in handles {
            runtime.block_on(handle).unwrap();
        }
        for group in ["g", "other"] {
            runtime.block_on(live::settled(&governor, group));
            assert_eq!(spawned(&governor, group) as usize, TASKS / 2 * 6);
        }
    }
}

#[test]
fn a_blocking_section_may_wait_for_a_task_that_it_spawned() {
    let _watched = watched("block_in_place and block_on");
    for runtime in grounds_with_threads(2) {
        let governor = governor(&runtime, 2, SQL);
        for group in ["g", "other"] {
            let inner = governor.clone();
            let handle = governor.spawn_in("g", async move {
                // By now the other worker sleeps.
                tokio::time::sleep(Duration::from_millis(20)).await;
                tokio::task::block_in_place(|| {
                    let child = inner.spawn_in(group, async { 1 }).unwrap();
                    tokio::runtime::Handle::current().block_on(async {
                        let joined = tokio::time::timeout(Duration::from_secs(20), child).await;
                        joined
                            .expect("a child that nobody runs is a deadlock")
                            .unwrap()
                    })
                })
            });
            assert_eq!(runtime.block_on(handle.unwrap()).unwrap(), 1);
        }
    }
}

#[test]
fn a_paused_clock_moves_on_by_itself() {
    let _watched = watched("paused clock");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let governor = governor(&runtime, 1, SQL);
    let real = Instant::now();
    runtime.block_on(async {
        let start = tokio::time::Instant::now();
        let sleeps = governor
            .spawn_in("g", tokio::time::sleep(Duration::from_secs(7200)))
            .unwrap();
        // A deadline must not fire while one of our tasks still has work.
        let works = governor.spawn_in("g", async {
            for _ in 0..100 {
                compute(Duration::from_micros(100));
                quotient::task::yield_now().await;
            }
        });
        let in_time = tokio::time::timeout(Duration::from_secs(3600), works.unwrap()).await;
        assert!(in_time.is_ok());
        assert_eq!(start.elapsed(), Duration::ZERO, "nobody slept yet");
        sleeps.await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(7200));
    });
    assert!(real.elapsed() < Duration::from_secs(3600));
}
