//! After a thread was parked inside a poll for good: the governor costs nothing while it has nothing to do, a frozen
//! group admits nobody, and shutdown ends. On both hosts; each in a process of its own, since threads of it are lost.

#![allow(clippy::unwrap_used)]

mod live;
mod support;

use live::{eventually_blocking, multi_thread};
use quotient::alloc::GroupAlloc;
use quotient::{AdmissionError, Attributes, Governor, Host, JoinError, KillReason};
use std::future::Future;
use std::hint::black_box;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOC: GroupAlloc = GroupAlloc::new();

const HUGE: usize = 8 << 30;
const SQL: &str = "CREATE RESOURCE GROUP small TO (user='small') WITH ('mem_limit'='100MiB');
                   CREATE RESOURCE GROUP other TO (user='other') WITH ('cpu_core_limit'='1')";

fn user() -> Attributes {
    Attributes::new().user("small")
}

/// Loses a thread.
fn lose(governor: &Governor, runtime: &tokio::runtime::Runtime) -> bool {
    let Ok(query) = governor.try_admit(&user()) else {
        return false;
    };
    let ended = query.spawn(async { black_box(Vec::<u8>::with_capacity(HUGE)).capacity() });
    let ended = runtime.block_on(ended);
    let reason = ended.as_ref().err().and_then(JoinError::reason);
    assert!(
        matches!(reason, Some(KillReason::MemoryLimit { .. })),
        "{ended:?}"
    );
    true
}

fn cpu() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// CPU time per time that passes: the least of some windows.
fn load() -> f64 {
    let window = || {
        let (before, since) = (cpu(), Instant::now());
        std::thread::sleep(Duration::from_millis(300));
        (cpu() - before).as_secs_f64() / since.elapsed().as_secs_f64()
    };
    (0..5).map(|_| window()).fold(f64::INFINITY, f64::min)
}

/// CPU time per turn, in seconds: the least of some windows.
fn price(turns: &AtomicU64) -> f64 {
    let window = || {
        let (before, turned) = (cpu(), turns.load(Relaxed));
        eventually_blocking("the others work on", || {
            turns.load(Relaxed) > turned + 2_000
        });
        (cpu() - before).as_secs_f64() / (turns.load(Relaxed) - turned) as f64
    };
    (0..5).map(|_| window()).fold(f64::INFINITY, f64::min)
}

/// This many tasks of the other group that are always ready; their turns.
fn busy(governor: &Governor, tasks: usize) -> Arc<AtomicU64> {
    let turns = Arc::new(AtomicU64::new(0));
    for _ in 0..tasks {
        let turns = turns.clone();
        let ticker = governor.spawn_in("other", async move {
            loop {
                black_box((0..1_000u64).map(black_box).sum::<u64>());
                turns.fetch_add(1, Relaxed);
                quotient::task::yield_now().await;
            }
        });
        drop(ticker.unwrap());
    }
    turns
}

fn judge(governor: &Governor, runtime: &tokio::runtime::Runtime, situation: &str, workers: usize) {
    match situation {
        "idle" => {
            lose(governor, runtime);
            let load = load();
            println!("idle: {load:.4} cores, {:?}", governor.metrics().spares);
            assert!(load < 0.05, "{load} cores with nothing to do");
        }
        "sparse" => {
            // A task that wakes every now and then must not make those who stand in run all the time.
            lose(governor, runtime);
            let ticker = governor
                .spawn_in("other", async {
                    loop {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                })
                .unwrap();
            let load = load();
            println!("sparse: {load:.4} cores, {:?}", governor.metrics().spares);
            assert!(load < 0.2, "{load} cores for next to nothing");
            ticker.abort();
        }
        "busy" | "busier" => {
            // Whoever stands in does the work, and little else.
            let turns = busy(governor, if situation == "busy" { 1 } else { 3 });
            let before = price(&turns);
            let lost = if situation == "busy" { 1 } else { workers };
            (0..lost).for_each(|_| {
                lose(governor, runtime);
            });
            let after = price(&turns);
            println!(
                "{situation}: {:.1} us per turn before, {:.1} after, {:?}",
                before * 1e6,
                after * 1e6,
                governor.metrics().spares
            );
            assert!(after < 2.0 * before, "{before} s per turn, then {after}");
        }
        "frozen" => {
            for _ in 0..workers {
                if !lose(governor, runtime) {
                    break;
                }
            }
            eventually_blocking("the group is frozen and refuses", || {
                matches!(
                    governor.try_admit(&user()),
                    Err(AdmissionError::Frozen { .. })
                )
            });
            let asked = runtime.block_on(governor.admit(&user()));
            assert!(
                matches!(asked, Err(AdmissionError::Frozen { .. })),
                "{asked:?}"
            );
            let spawned = runtime.block_on(governor.spawn(&user(), async { 1 }));
            let error = spawned.unwrap_err();
            assert!(
                matches!(
                    error.reason(),
                    Some(KillReason::NotAdmitted(AdmissionError::Frozen { .. }))
                ),
                "{error:?}"
            );
            // The others are not.
            let other = Attributes::new().user("other");
            let query = governor.try_admit(&other).unwrap();
            assert_eq!(runtime.block_on(query.run(async { 2 })).unwrap(), 2);
        }
        "reserving" | "waking" | "aborting" | "leaving" | "killing" => {
            hold_no_lock(governor, runtime, situation);
        }
        "shutdown" | "shutdown-all" => {
            let lost = if situation == "shutdown" { 1 } else { workers };
            (0..lost).for_each(|_| {
                lose(governor, runtime);
            });
            let dropped = live_guard();
            let waiting = {
                let guard = dropped.0;
                governor
                    .spawn_in("other", async move {
                        let _guard = guard;
                        std::future::pending::<()>().await;
                    })
                    .unwrap()
            };
            runtime.block_on(async {
                let end = governor.shutdown(Duration::from_millis(10));
                let ended = tokio::time::timeout(Duration::from_secs(30), end).await;
                ended.expect("shutdown ends");
            });
            assert!(
                dropped
                    .1
                    .try_recv()
                    .is_err_and(|error| error == std::sync::mpsc::TryRecvError::Disconnected),
                "the future is gone when it returns"
            );
            assert!(runtime.block_on(waiting).is_err());
            // Once more returns at once.
            runtime.block_on(governor.shutdown(Duration::ZERO));
        }
        other => panic!("no situation is called {other}"),
    }
}

/// In a poll that has used up its limit and the grace, to the last bytes: whatever it asks of us takes nothing of its
/// own any more, so that it is never parked with a lock of ours.
fn hold_no_lock(governor: &Governor, runtime: &tokio::runtime::Runtime, what: &str) {
    const MANY: usize = 3_000;
    let done = Arc::new(AtomicU64::new(0));
    let (governor, finished) = (governor.clone(), done.clone());
    let what = what.to_owned();
    let witness = governor.try_admit(&user()).unwrap();
    let query = governor.try_admit(&user()).unwrap();
    let handle = query.spawn({
        let (governor, what) = (governor.clone(), what.clone());
        async move {
            let small = governor.classify(&user()).unwrap();
            let bell = Arc::new(tokio::sync::Notify::new());
            let waiting: Vec<_> = (0..MANY)
                .map(|_| {
                    let bell = bell.clone();
                    let waits = async move { bell.notified().await };
                    governor.spawn_in("small", waits).unwrap()
                })
                .collect();
            let mut reserving: Vec<_> = (0..MANY)
                .map(|_| Box::pin(quotient::memory::reserve(4096)))
                .collect();
            let queries: Vec<_> = (0..MANY)
                .map(|_| governor.try_admit(&user()).unwrap())
                .collect();
            // All of them wait.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let mut blocks: Vec<Box<[u8]>> = Vec::with_capacity(32 << 10);
            for (size, most) in [
                (16 << 10, 106 << 20),
                (1 << 10, (108 << 20) - 2_048),
                (32, (108 << 20) - 40),
            ] {
                while small.usage().memory < most {
                    blocks.push(vec![1; size].into());
                }
            }
            match what.as_str() {
                "reserving" => {
                    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                    // The first of a queue has a timer, which is the query's own.
                    for waits in reserving.iter_mut() {
                        assert!(waits.as_mut().poll(&mut context).is_pending());
                        finished.fetch_add(1, Relaxed);
                    }
                    drop(reserving);
                }
                "waking" => bell.notify_waiters(),
                "aborting" => waiting.iter().for_each(|task| task.abort()),
                "leaving" => drop(queries),
                _ => queries.iter().for_each(|query| {
                    query.kill("");
                }),
            }
            finished.store(u64::MAX, Relaxed);
            drop(blocks);
            std::future::pending::<()>().await;
        }
    });
    let ended =
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), handle).await });
    let ended = ended.expect("its handle was told");
    assert!(ended.is_err(), "it was doomed");
    // What these do takes nothing of the query's own.
    if ["waking", "aborting", "leaving"].contains(&what.as_str()) {
        assert_eq!(done.load(Relaxed), u64::MAX, "it was parked");
    }
    // Wherever it was parked, the others go on.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let reserved = witness.try_reserve(1);
        drop(reserved);
        witness.kill("planned");
        drop(witness);
        drop(governor.render_metrics());
        let _ = tell.send(());
    });
    let told = told.recv_timeout(Duration::from_secs(20));
    told.expect("a lock is held by the poll that was parked");
}

fn live_guard() -> (std::sync::mpsc::Sender<()>, std::sync::mpsc::Receiver<()>) {
    std::sync::mpsc::channel()
}

/// What the other tests start, as a process; by itself it has nothing to do.
#[test]
fn child() {
    let Some(situation) = support::told_to_child() else {
        return;
    };
    let parts: Vec<&str> = situation.split(' ').collect();
    let workers = parts[2].parse().unwrap();
    let runtime = multi_thread(workers);
    let host = match parts[1] {
        "owned" => Host::Owned,
        _ => Host::Attached,
    };
    let builder = Governor::builder()
        .host(host)
        .workers(workers)
        .init_sql(SQL);
    let governor = runtime.block_on(async { builder.build() }).unwrap();
    let judged = std::panic::catch_unwind(AssertUnwindSafe(|| {
        judge(&governor, &runtime, parts[0], workers);
    }));
    println!("alive");
    // Dropping the runtime would wait for the poll that is parked.
    std::process::exit(i32::from(judged.is_err()));
}

fn in_a_process(situation: &str) {
    for host in ["attached", "owned"] {
        for workers in [1, 2, 4] {
            let out = support::in_child(&format!("{situation} {host} {workers}"));
            println!("{host}, {workers} workers: {out}");
        }
    }
}

#[test]
fn whoever_is_out_of_memory_holds_no_lock_of_ours() {
    for what in ["reserving", "waking", "aborting", "leaving", "killing"] {
        in_a_process(what);
    }
}

#[test]
fn nothing_to_do_costs_nothing() {
    in_a_process("idle");
}

#[test]
fn now_and_then_something_to_do_costs_little() {
    in_a_process("sparse");
}

#[test]
fn a_turn_costs_as_much_as_before() {
    in_a_process("busy");
}

#[test]
fn a_turn_costs_as_much_as_before_though_all_workers_are_lost() {
    in_a_process("busier");
}

#[test]
fn a_frozen_group_admits_nobody() {
    in_a_process("frozen");
}

#[test]
fn shutdown_ends_though_a_thread_is_lost() {
    in_a_process("shutdown");
}

#[test]
fn shutdown_ends_though_all_threads_are_lost() {
    in_a_process("shutdown-all");
}
