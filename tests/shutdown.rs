//! The end of a governor or of its runtime, with tasks in every state.
//!
//! Every future is dropped once, on a thread of the runtime and inside its context, so that a destructor may
//! use timers and sockets; every handle resolves; nothing hangs and nothing panics.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::mortal::{STATES, State, TASKS, tasks_in};
use live::{
    current_thread, eventually_blocking, governor, grounds, multi_thread, multi_thread_noted,
    watched,
};
use quotient::{Governor, JoinHandle};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='2');";
const NO_GRACE: Duration = Duration::ZERO;

fn in_every_state(test: impl Fn(Runtime, State)) {
    for state in STATES {
        test(multi_thread(2), state);
        test(current_thread(), state);
    }
}

#[test]
fn shutdown_drops_every_future_on_a_thread_of_the_runtime() {
    let _watched = watched("shutdown");
    for state in STATES {
        let (runtime, threads) = multi_thread_noted(2);
        let governor = governor(&runtime, 2, SQL);
        let mut tasks = runtime.block_on(async {
            let mut tasks = tasks_in(state, &governor).await;
            governor.shutdown(NO_GRACE).await;
            tasks.all_cancelled(state).await;
            tasks
        });
        tasks.all_died(state);
        runtime.block_on(tasks.all_cancelled(state));
        let dropped_on = tasks.deaths.threads.lock().unwrap().clone();
        assert!(
            dropped_on.is_subset(&threads.lock().unwrap()),
            "{state:?}: dropped on a foreign thread"
        );
    }
}

#[test]
fn shutdown_on_a_current_thread_runtime_drops_every_future() {
    let _watched = watched("shutdown, current-thread");
    for state in STATES {
        let runtime = current_thread();
        let governor = governor(&runtime, 1, SQL);
        let tasks = runtime.block_on(async {
            let mut tasks = tasks_in(state, &governor).await;
            governor.shutdown(NO_GRACE).await;
            tasks.all_cancelled(state).await;
            tasks
        });
        tasks.all_died(state);
    }
}

#[test]
fn shutdown_lets_tasks_end_by_themselves_within_the_grace() {
    let _watched = watched("grace");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    runtime.block_on(async {
        let ends = governor
            .spawn_in("g", async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                "ended"
            })
            .unwrap();
        let start = Instant::now();
        governor.shutdown(Duration::from_secs(3600)).await;
        assert_eq!(ends.await.unwrap(), "ended");
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "shutdown does not wait out its grace when nothing is left"
        );
    });
}

#[test]
fn shutdown_twice_and_at_once_from_two_sides_is_one_shutdown() {
    let _watched = watched("twice");
    in_every_state(|runtime, state| {
        let governor = governor(&runtime, 2, SQL);
        let tasks = runtime.block_on(async {
            let mut tasks = tasks_in(state, &governor).await;
            let clone = governor.clone();
            tokio::join!(governor.shutdown(NO_GRACE), clone.shutdown(NO_GRACE));
            governor.shutdown(NO_GRACE).await;
            tasks.all_cancelled(state).await;
            tasks
        });
        tasks.all_died(state);
    });
}

#[test]
fn a_task_spawned_during_or_after_shutdown_is_cancelled_without_a_panic() {
    let _watched = watched("spawn after shutdown");
    for runtime in grounds(2) {
        let governor = governor(&runtime, 2, SQL);
        runtime.block_on(async {
            let (give, take) = std::sync::mpsc::channel();
            let endless = governor
                .spawn_in("g", async move {
                    loop {
                        give.send(quotient::spawn(std::future::pending::<()>()))
                            .unwrap();
                        tokio::time::sleep(Duration::from_micros(200)).await;
                    }
                })
                .map(|handle: JoinHandle<()>| handle)
                .unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
            governor.shutdown(NO_GRACE).await;
            assert!(endless.await.unwrap_err().is_cancelled());
            for inner in take.iter() {
                assert!(inner.await.unwrap_err().is_cancelled());
            }
            // An error is as good an answer as a cancelled handle, as long as it is one of the two.
            let polled = Arc::new(AtomicBool::new(false));
            let flag = polled.clone();
            if let Ok(late) = governor.spawn_in("g", async move {
                flag.store(true, Ordering::SeqCst);
            }) {
                assert!(late.await.unwrap_err().is_cancelled());
            }
            let _entered = governor.enter();
            let late = quotient::spawn(std::future::pending::<()>());
            assert!(late.await.unwrap_err().is_cancelled());
            assert!(
                !polled.load(Ordering::SeqCst),
                "a late task is never polled"
            );
        });
    }
}

#[test]
fn a_destructor_may_spawn_while_everything_shuts_down() {
    struct Spawns(Arc<Mutex<Vec<JoinHandle<()>>>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let handle = quotient::spawn(std::future::pending());
            self.0.lock().unwrap().push(handle);
        }
    }
    let _watched = watched("destructor spawns");
    for runtime in grounds(2) {
        let governor = governor(&runtime, 2, SQL);
        let spawned: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
        runtime.block_on(async {
            for _ in 0..TASKS {
                let spawns = Spawns(spawned.clone());
                drop(governor.spawn_in("g", async move {
                    let _kept = spawns;
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                }));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            governor.shutdown(NO_GRACE).await;
            let handles = std::mem::take(&mut *spawned.lock().unwrap());
            assert_eq!(handles.len(), TASKS);
            for handle in handles {
                assert!(handle.await.unwrap_err().is_cancelled());
            }
        });
    }
}

#[test]
fn a_runtime_dropped_with_live_tasks_drops_them_inside_its_context() {
    let _watched = watched("runtime dropped");
    in_every_state(|runtime, state| {
        let governor = governor(&runtime, 2, SQL);
        let mut tasks = runtime.block_on(tasks_in(state, &governor));
        drop(runtime);
        tasks.all_died(state);
        let other = current_thread();
        other.block_on(tasks.all_cancelled(state));
        drop(governor);
    });
}

#[test]
fn a_runtime_shut_down_in_the_background_lets_go_of_the_tasks() {
    let _watched = watched("background");
    for state in STATES {
        let runtime = multi_thread(2);
        let governor = governor(&runtime, 2, SQL);
        let tasks = runtime.block_on(tasks_in(state, &governor));
        runtime.shutdown_background();
        eventually_blocking("all are dropped", || tasks.deaths.count() == TASKS);
        drop(governor);
        eventually_blocking("still once", || tasks.deaths.count() == TASKS);
    }
}

#[test]
fn spawning_after_the_runtime_is_gone_gives_a_cancelled_handle() {
    let _watched = watched("runtime gone");
    for runtime in [multi_thread(2), current_thread()] {
        let governor = governor(&runtime, 2, SQL);
        drop(runtime);
        let deaths = Arc::new(AtomicUsize::new(0));
        struct Counts(Arc<AtomicUsize>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let counts = Counts(deaths.clone());
        let late = governor.spawn_in("g", async move {
            let _kept = counts;
        });
        if let Ok(late) = late {
            let result = current_thread().block_on(late);
            assert!(result.unwrap_err().is_cancelled());
        }
        assert_eq!(deaths.load(Ordering::SeqCst), 1, "the future does not leak");
    }
}

#[test]
fn dropping_the_last_governor_shuts_down() {
    let _watched = watched("last governor");
    in_every_state(|runtime, state| {
        let governor = governor(&runtime, 2, SQL);
        let mut tasks = runtime.block_on(tasks_in(state, &governor));
        let clone = governor.clone();
        drop(governor);
        assert!(tasks.deaths.count() < TASKS || matches!(state, State::NeverWoken));
        drop(clone);
        runtime.block_on(tasks.all_cancelled(state));
        runtime.block_on(live::eventually("all are dropped", || {
            tasks.deaths.count() == TASKS
        }));
        tasks.all_died(state);
    });
}

#[test]
fn the_last_governor_may_be_dropped_by_one_of_its_own_tasks() {
    let _watched = watched("own task");
    for runtime in [multi_thread(2), current_thread()] {
        let governor = governor(&runtime, 2, SQL);
        let (go, may_go) = tokio::sync::oneshot::channel::<Governor>();
        let handle = governor
            .spawn_in("g", async move {
                drop(may_go.await);
                tokio::time::sleep(Duration::from_secs(3600)).await;
            })
            .unwrap();
        let _ = go.send(governor);
        let result = runtime.block_on(handle);
        assert!(result.unwrap_err().is_cancelled());
    }
}

#[test]
fn wakers_may_be_woken_and_dropped_after_everything_is_gone() {
    let _watched = watched("late wakers");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let tasks = runtime.block_on(tasks_in(State::WakerKept, &governor));
    let wakers = std::mem::take(&mut *tasks.wakers.lock().unwrap());
    assert_eq!(wakers.len(), TASKS);
    runtime.block_on(governor.shutdown(NO_GRACE));
    drop(governor);
    drop(runtime);
    let threads: Vec<_> = wakers
        .into_iter()
        .map(|waker| {
            std::thread::spawn(move || {
                let clone = waker.clone();
                waker.wake();
                clone.wake_by_ref();
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(tasks.deaths.count(), TASKS);
}

#[test]
fn a_runtime_without_timers_is_given_its_grace_all_the_same() {
    let _watched = watched("no timers");
    let kinds = [
        tokio::runtime::Builder::new_multi_thread(),
        tokio::runtime::Builder::new_current_thread(),
    ];
    for mut kind in kinds {
        let runtime = kind.worker_threads(2).build().unwrap();
        let governor = governor(&runtime, 2, SQL);
        let (open, opened) = tokio::sync::oneshot::channel();
        let ends = governor.spawn_in("g", opened).unwrap();
        let never = governor
            .spawn_in("g", std::future::pending::<()>())
            .unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            let _ = open.send("in time");
        });
        let begun = Instant::now();
        let grace = Duration::from_millis(300);
        runtime.block_on(async {
            governor.shutdown(grace).await;
            assert_eq!(ends.await.unwrap(), Ok("in time"));
            assert!(never.await.unwrap_err().is_cancelled());
        });
        assert!(begun.elapsed() >= grace);
    }
}
