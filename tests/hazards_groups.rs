//! Which group a task is in: inherited, left, lost in a panic, altered and dropped under it.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{governor, grounds, named, spawned, watched};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='1');";

#[test]
fn a_panic_in_poll_leaves_no_context_behind() {
    let _watched = watched("context after a panic");
    for runtime in grounds(1) {
        let governor = governor(&runtime, 1, SQL);
        runtime.block_on(async {
            for _ in 0..50 {
                let boom = governor.spawn_in("g", async {
                    quotient::task::yield_now().await;
                    panic!("planned: in poll");
                });
                let child = governor.spawn_in("other", async {
                    quotient::spawn(async {}).await.unwrap();
                });
                assert!(
                    boom.map(|h: quotient::JoinHandle<()>| h)
                        .unwrap()
                        .await
                        .unwrap_err()
                        .is_panic()
                );
                child.unwrap().await.unwrap();
                let plain = tokio::spawn(async { quotient::task::try_id() });
                assert_eq!(plain.await.unwrap(), None, "a plain task has no id of ours");
            }
            let total = |group| spawned(&governor, group);
            assert_eq!((total("g"), total("other")), (50, 100));
        });
    }
}

#[test]
fn a_child_inherits_its_group_and_spawn_in_leaves_it() {
    let _watched = watched("inheritance");
    for runtime in grounds(2) {
        let governor = governor(&runtime, 2, SQL);
        let inner = governor.clone();
        runtime.block_on(async {
            let handle = governor.spawn_in("g", async move {
                let child = quotient::spawn(async { quotient::spawn(async {}).await.unwrap() });
                let leaves =
                    inner.spawn_in("other", async { quotient::spawn(async {}).await.unwrap() });
                child.await.unwrap();
                leaves.unwrap().await.unwrap();
            });
            handle.unwrap().await.unwrap();
            let total = |group| spawned(&governor, group);
            assert_eq!((total("g"), total("other"), total("default_wg")), (3, 2, 0));
            let _entered = governor.enter();
            quotient::spawn(async {}).await.unwrap();
            assert_eq!(total("default_wg"), 1);
        });
    }
}

#[test]
fn spawn_outside_everything_panics() {
    let _watched = watched("outside");
    let outside = std::panic::catch_unwind(|| drop(quotient::spawn(async {})));
    assert!(outside.is_err());
}

#[test]
fn a_group_may_be_altered_and_dropped_under_its_tasks() {
    let _watched = watched("group dropped");
    for runtime in grounds(2) {
        let governor = governor(&runtime, 2, SQL);
        runtime.block_on(async {
            let stop = Arc::new(AtomicBool::new(false));
            let mut running = Vec::new();
            let mut senders = Vec::new();
            let mut waiting = Vec::new();
            for _ in 0..20 {
                let stop = stop.clone();
                running.push(governor.spawn_in("g", async move {
                    while !stop.load(Ordering::SeqCst) {
                        quotient::task::yield_now().await;
                    }
                    quotient::spawn(async { "child of a dropped group" })
                        .await
                        .unwrap()
                }));
                let (send, receive) = oneshot::channel::<()>();
                senders.push(send);
                waiting.push(governor.spawn_in("g", receive).unwrap());
            }
            let aborted = governor.spawn_in("g", pending::<()>()).unwrap();
            for weight in [10_000, 1, 7] {
                let sql = format!("ALTER RESOURCE GROUP g WITH ('cpu_core_limit'='{weight}')");
                governor.execute(&sql).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            governor.execute("DROP RESOURCE GROUP g").await.unwrap();
            assert!(
                governor.spawn_in("g", async {}).is_err(),
                "the name is gone"
            );
            assert!(governor.classify(&named("g")).is_err());
            tokio::time::sleep(Duration::from_millis(2)).await;
            aborted.abort();
            assert!(aborted.await.unwrap_err().is_cancelled());
            // A namesake is another group; the old tasks are none of its business.
            governor
                .execute("CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='2')")
                .await
                .unwrap();
            governor.spawn_in("g", async {}).unwrap().await.unwrap();
            assert_eq!(
                governor.classify(&named("g")).unwrap().stats().tasks_total,
                1
            );
            stop.store(true, Ordering::SeqCst);
            for send in senders {
                send.send(()).unwrap();
            }
            for handle in running {
                assert_eq!(handle.unwrap().await.unwrap(), "child of a dropped group");
            }
            for handle in waiting {
                handle.await.unwrap().unwrap();
            }
            live::settled(&governor, "g").await;
        });
    }
}

/// Nothing lends the light group the heavy one's weight; but its share is enough to let go in the end.
#[test]
fn a_lock_held_by_a_light_group_comes_back_beside_a_busy_heavy_one() {
    const SQL: &str = "CREATE RESOURCE GROUP heavy WITH ('cpu_core_limit'='100');
                       CREATE RESOURCE GROUP light WITH ('cpu_core_limit'='1');";
    let _watched = watched("priority inversion");
    for runtime in grounds(1) {
        let governor = governor(&runtime, 1, SQL);
        let stop = Arc::new(AtomicBool::new(false));
        let lock = Arc::new(tokio::sync::Mutex::new(0));
        let (held, is_held) = oneshot::channel();
        let (theirs, ours) = (lock.clone(), lock.clone());
        let light = governor.spawn_in("light", async move {
            let mut guard = theirs.lock().await;
            held.send(()).unwrap();
            // Work that takes several turns while the lock is held.
            for _ in 0..20 {
                live::compute(Duration::from_micros(50));
                quotient::task::yield_now().await;
            }
            *guard += 1;
        });
        runtime.block_on(is_held).unwrap();
        for _ in 0..4 {
            let stop = stop.clone();
            let busy = async move {
                while !stop.load(Ordering::SeqCst) {
                    live::compute(Duration::from_micros(50));
                    quotient::task::yield_now().await;
                }
            };
            drop(governor.spawn_in("heavy", busy));
        }
        let heavy = governor.spawn_in("heavy", async move { *ours.lock().await });
        assert_eq!(runtime.block_on(heavy.unwrap()).unwrap(), 1);
        runtime.block_on(light.unwrap()).unwrap();
        stop.store(true, Ordering::SeqCst);
    }
}
