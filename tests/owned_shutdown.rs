//! The end of an owned governor, with tasks in every state, ordered from everywhere.
//!
//! Every future is dropped once, on one of the governor's own threads and inside its runtime's context; every handle
//! resolves; its threads leave; nothing hangs and nothing panics.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]
#![allow(
    clippy::async_yields_async,
    reason = "handles are taken out on purpose"
)]

mod live;
mod support;

use live::mortal::{STATES, State, TASKS, Tasks, tasks_in};
use live::{current_thread, eventually_blocking, multi_thread, watched};
use quotient::{Governor, Host};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;
use tokio::sync::oneshot;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='2');";
const NO_GRACE: Duration = Duration::ZERO;

fn owned(workers: usize) -> Governor {
    let builder = Governor::builder().host(Host::Owned).init_sql(SQL);
    builder.workers(workers).build().unwrap()
}

/// With one worker and two, for tasks in every state.
fn in_every_state(test: impl Fn(Governor, Tasks, State)) {
    for workers in [1, 2] {
        for state in STATES {
            let governor = owned(workers);
            let tasks = governor.block_on(tasks_in(state, &governor));
            test(governor, tasks, state);
        }
    }
}

/// All that must hold after the end, whatever ordered it.
fn judge(mut tasks: Tasks, state: State) {
    tasks.all_died(state);
    current_thread().block_on(tasks.all_cancelled(state));
}

#[test]
fn ordered_by_the_root_future() {
    let _watched = watched("root");
    in_every_state(|governor, tasks, state| {
        governor.block_on(governor.shutdown(NO_GRACE));
        // Everything is gone when it returns, not some time later.
        assert_eq!(tasks.deaths.count(), TASKS, "{state:?}");
        judge(tasks, state);
    });
}

#[test]
fn futures_are_dropped_on_threads_of_the_governor() {
    let _watched = watched("own threads");
    for state in STATES {
        let governor = owned(2);
        let tasks = governor.block_on(tasks_in(state, &governor));
        governor.block_on(governor.shutdown(NO_GRACE));
        let died_on = tasks.deaths.threads.lock().unwrap().clone();
        assert!(!died_on.contains(&std::thread::current().id()), "{state:?}");
        assert!(died_on.len() <= 2, "{state:?}: {died_on:?}");
    }
}

#[test]
fn ordered_from_another_runtime_twice_at_once() {
    let _watched = watched("another runtime");
    for runtime in [multi_thread(2), current_thread()] {
        in_every_state(|governor, tasks, state| {
            runtime.block_on(async {
                let clone = governor.clone();
                tokio::join!(governor.shutdown(NO_GRACE), clone.shutdown(NO_GRACE));
                // Nor does the last value, dropped in an async context, panic.
                drop((governor, clone));
            });
            judge(tasks, state);
        });
    }
}

#[test]
fn ordered_by_a_task_a_raw_task_and_a_blocking_closure_of_its_own() {
    let _watched = watched("from inside");
    in_every_state(|governor, tasks, state| {
        let own = governor.clone();
        let task = governor.spawn_in("g", async move { own.shutdown(NO_GRACE).await });
        let error = current_thread().block_on(task.unwrap()).unwrap_err();
        assert!(error.is_cancelled());
        judge(tasks, state);
    });
    in_every_state(|governor, tasks, state| {
        let own = governor.clone();
        // It waits for the threads, of which one is its own: it ends with the runtime instead.
        let raw =
            governor.block_on(async { tokio::spawn(async move { own.shutdown(NO_GRACE).await }) });
        assert!(current_thread().block_on(raw).unwrap_err().is_cancelled());
        judge(tasks, state);
    });
    in_every_state(|governor, tasks, state| {
        let own = governor.clone();
        let closure = governor.block_on(async {
            tokio::task::spawn_blocking(move || current_thread().block_on(own.shutdown(NO_GRACE)))
        });
        current_thread().block_on(closure).unwrap();
        judge(tasks, state);
    });
}

#[test]
fn by_dropping_the_last_governor_outside() {
    let _watched = watched("drop");
    in_every_state(|governor, tasks, state| {
        drop(governor);
        judge(tasks, state);
    });
}

#[test]
fn by_dropping_the_last_governor_inside_a_task_or_a_raw_task() {
    let _watched = watched("drop inside");
    for workers in [1, 2] {
        for raw in [false, true] {
            let governor = owned(workers);
            let (go, may_go) = oneshot::channel::<Governor>();
            let (end, ended) = oneshot::channel::<()>();
            let last = async move {
                drop(may_go.await);
                tokio::time::sleep(Duration::from_secs(3600)).await;
                drop(end);
            };
            if raw {
                drop(governor.block_on(async { tokio::spawn(last) }));
            } else {
                drop(governor.spawn_in("g", last));
            }
            assert!(go.send(governor).is_ok());
            assert!(current_thread().block_on(ended).is_err(), "it was dropped");
        }
    }
}

#[test]
fn tasks_may_end_by_themselves_within_the_grace() {
    let _watched = watched("grace");
    for workers in [1, 2] {
        let governor = owned(workers);
        governor.block_on(async {
            let ends = governor.spawn_in("g", async {
                tokio::time::sleep(Duration::from_millis(30)).await;
                "ended"
            });
            governor.shutdown(Duration::from_secs(3600)).await;
            assert_eq!(ends.unwrap().await.unwrap(), "ended");
        });
    }
}

#[test]
fn a_shutdown_that_is_dropped_can_be_gone_on_with() {
    let _watched = watched("dropped shutdown");
    let governor = owned(2);
    governor.block_on(async {
        let waits = governor
            .spawn_in("g", std::future::pending::<()>())
            .unwrap();
        let long = governor.shutdown(Duration::from_secs(3600));
        let early = tokio::time::timeout(Duration::from_millis(5), long).await;
        assert!(early.is_err());
        governor.shutdown(NO_GRACE).await;
        assert!(waits.await.unwrap_err().is_cancelled());
    });
}

struct PanicsOnWake(AtomicUsize);

impl Wake for PanicsOnWake {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("planned: a waker");
    }
}

/// A waker that panics is called by whoever polls I/O and timers: a worker, here. tokio's driver does not survive
/// that, so nothing can wait for a timer any more; what must not be is that anything hangs.
#[test]
fn a_waker_that_breaks_the_driver_ends_the_governor_and_hangs_nobody() {
    let _watched = watched("broken driver");
    for workers in [1, 2] {
        let governor = owned(workers);
        let waits = governor
            .spawn_in("g", std::future::pending::<()>())
            .unwrap();
        let sleeps = governor.spawn_in("other", async {
            tokio::time::sleep(Duration::from_secs(3600)).await
        });
        let broken = Arc::new(PanicsOnWake(AtomicUsize::new(0)));
        governor.block_on(async {
            let mut sleep = Box::pin(tokio::time::sleep(Duration::from_millis(2)));
            let waker = Waker::from(broken.clone());
            let polled = sleep
                .as_mut()
                .poll(&mut std::task::Context::from_waker(&waker));
            assert!(polled.is_pending());
            std::mem::forget(sleep);
        });
        eventually_blocking("the waker is called", || {
            broken.0.load(Ordering::SeqCst) > 0
        });
        // Each worker that comes to drive finds out; the last one ends what is left.
        let other = current_thread();
        let kick = governor.spawn_in("g", async {}).unwrap();
        let _ = other.block_on(kick);
        other.block_on(governor.shutdown(NO_GRACE));
        assert!(other.block_on(waits).unwrap_err().is_cancelled());
        assert!(other.block_on(sleeps.unwrap()).is_err());
    }
}
