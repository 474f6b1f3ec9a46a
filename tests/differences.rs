//! Where Quotient's tasks differ from tokio's on purpose: the lines of docs/guide/tokio.md that no other test holds.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{current_thread, governor, grounds, multi_thread, watched};
use quotient::task::current;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')";

#[test]
fn a_raw_tokio_task_is_in_no_group() {
    let _watched = watched("raw task");
    for runtime in grounds(2) {
        let governor = governor(&runtime, 2, SQL);
        let task = async {
            assert!(current().is_some());
            tokio::spawn(async { current().is_none() }).await.unwrap()
        };
        let query = governor.try_admit(&live::named("g")).unwrap();
        assert!(runtime.block_on(query.run(task)).unwrap());

        // Nor does it end with the query that spawned it.
        let (tell, told) = tokio::sync::oneshot::channel();
        let parent = query.spawn(async move {
            let (send, receive) = tokio::sync::oneshot::channel::<()>();
            let raw = tokio::spawn(async move { receive.await.is_ok() });
            tell.send((send, raw)).unwrap();
            std::future::pending::<()>().await
        });
        runtime.block_on(async {
            let (send, raw) = told.await.unwrap();
            assert!(query.kill("over"));
            assert!(parent.await.unwrap_err().is_cancelled());
            send.send(()).unwrap();
            assert!(raw.await.unwrap(), "it lived on");
        });
    }
}

#[test]
fn a_blocking_closure_is_in_no_group() {
    let _watched = watched("blocking closure");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let task = async { tokio::task::spawn_blocking(|| current().is_none()).await };
    let outside = runtime.block_on(governor.spawn_in("g", task).unwrap());
    assert!(outside.unwrap().unwrap());
}

#[test]
fn a_runtime_alone_is_not_enough_to_spawn() {
    let runtime = current_thread();
    let _entered = runtime.enter();
    drop(tokio::spawn(async {}));
    let refused = std::panic::catch_unwind(|| drop(quotient::spawn(async {})));
    let text = *refused.unwrap_err().downcast::<&str>().unwrap();
    assert!(text.starts_with("no governor is running"), "{text}");
}

/// How many turns a neighbour has, at the median, while a task yields once.
fn turns_during_a_yield<F: Future<Output = ()> + Send + 'static>(give_way: fn() -> F) -> usize {
    let runtime = current_thread();
    let governor = governor(&runtime, 1, SQL);
    let turns = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let neighbour = {
        let (turns, stop) = (turns.clone(), stop.clone());
        governor.spawn_in("g", async move {
            while !stop.load(SeqCst) {
                turns.fetch_add(1, SeqCst);
                quotient::task::yield_now().await;
            }
        })
    };
    let yields = governor.spawn_in("g", async move {
        let mut waits = Vec::new();
        for _ in 0..101 {
            let before = turns.load(SeqCst);
            give_way().await;
            waits.push(turns.load(SeqCst) - before);
        }
        stop.store(true, SeqCst);
        waits.sort();
        waits[waits.len() / 2]
    });
    let waits = runtime.block_on(yields.unwrap()).unwrap();
    runtime.block_on(neighbour.unwrap()).unwrap();
    waits
}

#[test]
fn tokios_own_yield_waits_for_the_driver() {
    let _watched = watched("yields");
    assert_eq!(turns_during_a_yield(quotient::task::yield_now), 1);
    let turns = turns_during_a_yield(tokio::task::yield_now);
    assert!(turns > 10, "the neighbour had only {turns} turns");
}

#[test]
fn tokios_id_is_the_drivers() {
    let _watched = watched("ids");
    let runtime = current_thread();
    let governor = governor(&runtime, 1, SQL);
    let ids = || async { (tokio::task::id(), quotient::task::id()) };
    let (first, second) = runtime.block_on(async {
        let first = governor.spawn_in("g", ids()).unwrap().await.unwrap();
        (first, governor.spawn_in("g", ids()).unwrap().await.unwrap())
    });
    assert_eq!(first.0, second.0, "one worker, one driver");
    assert_ne!(first.1, second.1);
}

#[test]
fn tokio_counts_drivers_not_tasks() {
    let _watched = watched("tasks counted");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            governor
                .spawn_in("g", std::future::pending::<()>())
                .unwrap()
        })
        .collect();
    live::eventually_blocking("all tasks wait", || {
        let usage = governor.classify(&live::named("g")).unwrap().stats();
        usage.tasks_waiting == 100
    });
    // Two drivers and the governor's own housekeeping; the empty tasks that displace a woken driver come and go.
    live::eventually_blocking("tokio sees the drivers, not the tasks", || {
        runtime.metrics().num_alive_tasks() < 10
    });
    drop(waiting);
    runtime.block_on(governor.shutdown(Duration::ZERO));
}
