//! Attacks, most of which once succeeded: each is the smallest program that hung, lost a task or miscounted.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{Build, compute, current_thread, governor, grounds, multi_thread, named, watched};
use quotient::clock::Clock;
use quotient::unit::Nanos;
use quotient::{Governor, JoinHandle};
use std::future::{Future, pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='2');";
const NO_GRACE: Duration = Duration::ZERO;
/// Only a bug waits this long.
const HANG: Duration = Duration::from_secs(30);

/// Waits for `future` in its runtime, and fails instead of hanging.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"))
}

/// A task is in the middle of a poll when everything is ended, is polled once more in the same slice, and
/// waits again.
#[test]
fn a_shutdown_in_the_middle_of_a_short_poll_ends_the_task_all_the_same() {
    let _watched = watched("shutdown in a poll");
    for _ in 0..100 {
        let runtime = multi_thread(2);
        let governor = governor(&runtime, 2, SQL);
        let (running, is_running) = mpsc::channel::<Waker>();
        let polled = Arc::new(AtomicUsize::new(0));
        let seen = polled.clone();
        let task = governor
            .spawn_in(
                "g",
                poll_fn(move |cx| {
                    if seen.fetch_add(1, Ordering::SeqCst) == 0 {
                        running.send(cx.waker().clone()).unwrap();
                    } else {
                        compute(Duration::from_micros(60));
                    }
                    Poll::<()>::Pending
                }),
            )
            .unwrap();
        let waker = is_running.recv_timeout(HANG).unwrap();
        live::eventually_blocking("it waits", || {
            governor.classify(&named("g")).unwrap().stats().polls == 1
        });
        let before = polled.load(Ordering::SeqCst);
        waker.wake();
        while polled.load(Ordering::SeqCst) == before {
            std::hint::spin_loop();
        }
        runtime.block_on(async {
            soon("the workers leave", governor.shutdown(NO_GRACE)).await;
            assert!(task.await.unwrap_err().is_cancelled());
        });
    }
}

#[test]
fn threads_that_go_on_spawning_do_not_hold_up_a_shutdown() {
    let _watched = watched("spawning threads");
    for workers in [1, 2, 8].repeat(5) {
        let runtime = multi_thread(2);
        let governor = governor(&runtime, workers, SQL);
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (governor, stop) = (governor.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut last: Option<JoinHandle<()>> = None;
                    while !stop.load(Ordering::Relaxed) {
                        last = governor.spawn_in("g", async {}).ok();
                    }
                    last
                })
            })
            .collect();
        runtime.block_on(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            soon("the workers leave", governor.shutdown(NO_GRACE)).await;
        });
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            if let Some(last) = thread.join().unwrap() {
                // It may have run before the end, if its thread was held up since.
                let ended = runtime.block_on(last);
                assert!(ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()));
            }
        }
    }
}

#[test]
fn a_second_shutdown_waits_for_the_end_as_the_first_does() {
    let _watched = watched("second shutdown");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let over = Arc::new(AtomicBool::new(false));
    let (flag, (begun, has_begun)) = (over.clone(), mpsc::channel());
    let long = governor
        .spawn_in("g", async move {
            begun.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            flag.store(true, Ordering::SeqCst);
            pending::<()>().await;
        })
        .unwrap();
    has_begun.recv_timeout(HANG).unwrap();
    runtime.block_on(async {
        // The first is given up half-way; the others come to the end of the last poll.
        let first = tokio::time::timeout(Duration::from_millis(20), governor.shutdown(NO_GRACE));
        assert!(first.await.is_err());
        let both = async { tokio::join!(governor.shutdown(NO_GRACE), governor.shutdown(NO_GRACE)) };
        soon("both end", both).await;
        assert!(over.load(Ordering::SeqCst), "a worker still runs");
        assert!(long.await.unwrap_err().is_cancelled());
    });
}

#[test]
fn a_task_that_shuts_its_own_governor_down_does_not_wait_for_itself() {
    let _watched = watched("own shutdown");
    for runtime in grounds(2) {
        let governor = governor(&runtime, 2, SQL);
        let own = governor.clone();
        let task = governor
            .spawn_in(
                "g",
                async move { own.shutdown(Duration::from_secs(3600)).await },
            )
            .unwrap();
        let error = runtime.block_on(soon("the task ends", task)).unwrap_err();
        assert!(error.is_cancelled());
        runtime.block_on(soon("the workers leave", governor.shutdown(NO_GRACE)));
    }
}

#[test]
fn a_clock_that_stands_still_does_not_keep_the_runtime_from_everything_else() {
    let _watched = watched("standing clock");
    let runtime = current_thread();
    runtime.block_on(async {
        let (clock, _hand) = Clock::manual();
        let governor = Governor::builder().clock(clock).build().unwrap();
        let _endless: JoinHandle<()> = governor
            .spawn_in("default_wg", async {
                loop {
                    quotient::task::yield_now().await;
                }
            })
            .unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        governor.shutdown(NO_GRACE).await;
    });
}

#[test]
fn a_clock_that_jumps_to_its_end_and_back_breaks_no_task() {
    let _watched = watched("jumping clock");
    for runtime in [multi_thread(2), current_thread()] {
        runtime.block_on(async {
            let (clock, hand) = Clock::manual();
            let governor = Governor::builder().clock(clock).workers(2).build().unwrap();
            governor
                .execute("CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='10000')")
                .await
                .unwrap();
            for by in [u64::MAX, u64::MAX / 2, 1, u64::MAX, u64::MAX - 7, 1 << 63] {
                let tasks: Vec<_> = (0..20)
                    .map(|i| {
                        let (hand, group) = (hand.clone(), ["g", "default_wg"][i % 2]);
                        governor.spawn_in(group, async move {
                            hand.advance(Nanos(by));
                            quotient::task::yield_now().await;
                            hand.advance(Nanos(by));
                        })
                    })
                    .collect();
                for task in tasks {
                    soon("it ends", task.unwrap()).await.unwrap();
                }
                let query = governor.try_admit(&named("g")).unwrap();
                let hand = hand.clone();
                soon("it ends", query.run(async move { hand.advance(Nanos(by)) }))
                    .await
                    .unwrap();
                let _ = governor.render_metrics();
                governor
                    .execute("SHOW USAGE RESOURCE GROUPS")
                    .await
                    .unwrap();
            }
            soon("the workers leave", governor.shutdown(NO_GRACE)).await;
        });
    }
}

fn sample(governor: &Governor, series: &str) -> f64 {
    let page = governor.render_metrics();
    let line = page.lines().find(|line| line.starts_with(series));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or(f64::NAN)
}

#[test]
fn no_counter_goes_back_when_a_drained_namesake_leaves() {
    const SERIES: [&str; 5] = [
        "quotient_group_polls_total{group=\"a\"}",
        "quotient_group_tasks_total{group=\"a\"}",
        "quotient_group_queries_total{group=\"a\",outcome=\"completed\"}",
        "quotient_group_admission_total{group=\"a\",outcome=\"admitted\"",
        "quotient_group_queue_delay_seconds_count{group=\"a\"}",
    ];
    let _watched = watched("namesake");
    let runtime = multi_thread(2);
    let governor = governor(
        &runtime,
        2,
        "CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1')",
    );
    runtime.block_on(async {
        for generation in 1..4 {
            let query = governor.try_admit(&named("a")).unwrap();
            for _ in 0..10 {
                query.run(async {}).await.unwrap();
            }
            governor
                .execute(
                    "DROP RESOURCE GROUP a; CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1')",
                )
                .await
                .unwrap();
            let beside = SERIES.map(|series| sample(&governor, series));
            drop(query);
            live::settled(&governor, "a").await;
            // Twice: whatever is handed over must be handed over once.
            for _ in 0..2 {
                let after = SERIES.map(|series| sample(&governor, series));
                for ((series, before), after) in SERIES.iter().zip(beside).zip(after) {
                    assert!(
                        after >= before,
                        "{generation}: {series} {before} -> {after}"
                    );
                }
                // One poll per task, of all generations so far: handed over twice, ten of them would be too many.
                let most = 10.0 * f64::from(generation) + 5.0;
                assert!(after[0] <= most, "{generation}: counted twice");
            }
        }
    });
}

#[test]
fn no_counter_goes_back_while_a_dropped_group_has_tasks() {
    const SERIES: [&str; 4] = [
        "quotient_group_polls_total{group=\"a\"}",
        "quotient_group_admission_total{group=\"a\",outcome=\"admitted\"",
        "quotient_group_admission_wait_seconds_count{group=\"a\"}",
        "quotient_group_queries_total{group=\"a\",outcome=\"completed\"}",
    ];
    const CREATE: &str = "CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1')";
    let _watched = watched("tasks of a dropped group");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, CREATE);
    runtime.block_on(async {
        let (let_go, wait) = tokio::sync::oneshot::channel::<()>();
        let task = governor.spawn_in("a", wait).unwrap();
        let run = async |count: usize| {
            for _ in 0..count {
                let query = governor.try_admit(&named("a")).unwrap();
                query.run(async {}).await.unwrap();
            }
        };
        let read = || SERIES.map(|series| sample(&governor, series));
        run(100).await;
        let before = read();
        let last = governor.try_admit(&named("a")).unwrap();
        governor.execute("DROP RESOURCE GROUP a").await.unwrap();
        let draining = read();
        drop(last);
        let dropped = read();
        governor.execute(CREATE).await.unwrap();
        let again = read();
        run(1).await;
        let beside = read();
        let_go.send(()).unwrap();
        let _ = task.await;
        live::settled(&governor, "a").await;
        let after = read();
        let pages = [before, draining, dropped, again, beside, after, read()];
        for pair in pages.windows(2) {
            let back = pair[0]
                .iter()
                .zip(pair[1])
                .any(|(before, after)| after < *before);
            assert!(!back, "{pages:?}");
        }
        assert_eq!(after[1..3], [102.0, 102.0], "{pages:?}");
    });
}

#[test]
fn a_scrape_beside_a_drop_counts_each_group_once() {
    const CREATE: &str = "CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1')";
    let _watched = watched("scrape beside drop");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, CREATE);
    let (stop, spawned) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (scraped, flag, most) = (governor.clone(), stop.clone(), spawned.clone());
    let scraping = std::thread::spawn(move || {
        let mut last = [0, 0];
        while !flag.load(Ordering::SeqCst) {
            let page = scraped.metrics();
            let most = most.load(Ordering::SeqCst) as u64;
            let row = page.by_name().remove("a").unwrap();
            let now = [row.usage.tasks_total, row.admission.values().sum()];
            assert!(
                now[0] >= last[0] && now[1] >= last[1],
                "back from {last:?} to {now:?}"
            );
            assert!(now[0] <= most && now[1] <= most, "{now:?} of {most}");
            last = now;
        }
    });
    runtime.block_on(async {
        for _ in 0..1000 {
            spawned.fetch_add(1, Ordering::SeqCst);
            let query = governor.try_admit(&named("a")).unwrap();
            let waits = query.spawn(pending::<()>());
            drop(query);
            let again = format!("DROP RESOURCE GROUP a; {CREATE}");
            governor.execute(&again).await.unwrap();
            waits.abort();
            assert!(waits.await.unwrap_err().is_cancelled());
        }
    });
    stop.store(true, Ordering::SeqCst);
    scraping.join().unwrap();
}

#[test]
fn governors_left_out_of_order_leave_the_others_entered() {
    let _watched = watched("left out of order");
    let runtime = current_thread();
    let [a, b, c] = [(); 3].map(|()| governor(&runtime, 1, ""));
    let total = |governor: &Governor| live::spawned(governor, "default_wg");
    let in_a = a.enter();
    let in_b = b.enter();
    drop(in_a);
    drop(quotient::spawn(async {}));
    assert_eq!([total(&a), total(&b)], [0, 1], "b is still entered");
    let in_c = c.enter();
    drop(in_b);
    drop(quotient::spawn(async {}));
    assert_eq!([total(&b), total(&c)], [1, 1], "c is still entered");
    drop(in_c);
    assert!(std::panic::catch_unwind(|| drop(quotient::spawn(async { "planned" }))).is_err());
}

/// Threads of this process by that name.
#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names
        .filter(|comm| name.starts_with(comm.trim()) && !comm.trim().is_empty())
        .count()
}

/// Other tests of this binary have watchdogs too, so many governors are compared with what is there anyway.
#[test]
#[cfg(target_os = "linux")]
fn a_governor_that_was_shut_down_keeps_no_thread() {
    const GOVERNORS: usize = 60;
    let _watched = watched("threads");
    let runtime = multi_thread(2);
    let kept: Vec<_> = (0..GOVERNORS).map(|_| governor(&runtime, 2, "")).collect();
    for governor in &kept {
        runtime.block_on(governor.shutdown(NO_GRACE));
    }
    live::eventually_blocking("the watchdogs are gone", || {
        threads_named("quotient-watchdog") < GOVERNORS / 2
    });
    drop(kept);
}

#[test]
fn many_threads_may_poll_one_handle_in_turn_while_others_abort_it() {
    let _watched = watched("handle passed around");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    for round in 0..200 {
        let handle = governor
            .spawn_in("g", async move {
                for _ in 0..round % 7 {
                    quotient::task::yield_now().await;
                }
                round
            })
            .unwrap();
        let abort = handle.abort_handle();
        let shared = Arc::new(std::sync::Mutex::new(Some(Box::pin(handle))));
        let outputs = Arc::new(AtomicUsize::new(0));
        let start = Arc::new(Barrier::new(5));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (shared, outputs, start) = (shared.clone(), outputs.clone(), start.clone());
                std::thread::spawn(move || {
                    start.wait();
                    let begun = Instant::now();
                    while outputs.load(Ordering::SeqCst) == 0 {
                        assert!(begun.elapsed() < HANG);
                        let mut handle = shared.lock().unwrap();
                        let mut cx = std::task::Context::from_waker(Waker::noop());
                        if handle
                            .as_mut()
                            .is_some_and(|h| h.as_mut().poll(&mut cx).is_ready())
                        {
                            *handle = None;
                            outputs.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                })
            })
            .collect();
        start.wait();
        if round % 3 == 0 {
            abort.abort();
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(outputs.load(Ordering::SeqCst), 1);
    }
}

/// A small generator of random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

const NAMES: u64 = 12;

fn ddl(random: &mut Random) -> String {
    let (name, weight) = (random.below(NAMES), 1 + random.below(10_000));
    let with = format!(
        "WITH ('cpu_core_limit'='{weight}', 'concurrency_limit'='{}')",
        random.below(40)
    );
    match random.below(6) {
        0 => format!("DROP RESOURCE GROUP IF EXISTS n{name}"),
        1 => format!("CREATE RESOURCE GROUP IF NOT EXISTS n{name} {with}"),
        2 => format!("CREATE RESOURCE GROUP OR REPLACE n{name} TO (user='u{name}') {with}"),
        3 => format!("ALTER RESOURCE GROUP n{name} {with}"),
        4 => format!(
            "ALTER RESOURCE GROUP n{name} DROP ALL; ALTER RESOURCE GROUP n{name} ADD (user='u{name}')"
        ),
        _ => format!(
            "DROP RESOURCE GROUP IF EXISTS n{name}; CREATE RESOURCE GROUP n{name} TO (user='u{name}') {with}"
        ),
    }
}

/// A query of random shape; every handle of it.
fn any_query(governor: &Governor, random: &mut Random) -> Vec<JoinHandle<()>> {
    let name = random.below(NAMES);
    let attributes = match random.below(3) {
        0 => quotient::Attributes::new().user(format!("u{name}")),
        1 => named(&format!("n{name}")),
        _ => quotient::Attributes::new(),
    };
    let Ok(query) = governor.try_admit(&attributes) else {
        return Vec::new();
    };
    let (inner, nested) = (query.clone(), governor.clone());
    let mut handles = vec![query.spawn(async move {
        for _ in 0..3 {
            drop(inner.spawn(quotient::task::yield_now()));
            drop(nested.try_admit(&attributes));
            tokio::task::yield_now().await;
        }
    })];
    for _ in 0..random.below(5) {
        let (sleep, big) = (random.below(300), [7u8; 3000]);
        handles.push(match random.below(4) {
            0 => query.spawn(pending()),
            1 => query.spawn(async move { tokio::time::sleep(Duration::from_micros(sleep)).await }),
            2 => query.spawn(async move {
                let _child = quotient::spawn(pending::<()>());
                quotient::task::yield_now().await;
                assert_eq!(big[sleep as usize], 7);
            }),
            _ => query.spawn(async {}),
        });
    }
    // Whatever waits for ever, detached children included, ends here or at the shutdown.
    if random.below(4) > 0 {
        query.kill("enough");
    } else {
        handles.iter().for_each(JoinHandle::abort);
    }
    handles
}

#[test]
fn groups_are_made_altered_and_dropped_under_queries_that_are_killed() {
    const ROUNDS: u64 = 1500;
    let _watched = watched("churn");
    for (threads, workers) in [(2, 2), (2, 8), (3, 1)] {
        let runtime = multi_thread(threads);
        let governor = governor(&runtime, workers, "");
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let governor = &governor;
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..ROUNDS {
                        // Many are refused, for their group is not there or there already.
                        let _ = futures::executor::block_on(governor.execute(&ddl(&mut random)));
                        if random.below(8) == 0 {
                            let _ = governor.render_metrics();
                        }
                    }
                });
            }
            for seed in 10..13 {
                let (governor, runtime) = (&governor, &runtime);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    for _ in 0..ROUNDS / 2 {
                        let handles = any_query(governor, &mut random);
                        for handle in handles {
                            let _ = runtime.block_on(soon("a handle resolves", handle));
                        }
                    }
                });
            }
        });
        runtime.block_on(soon("the workers leave", governor.shutdown(NO_GRACE)));
        for row in governor.metrics().groups {
            let usage = row.usage;
            let tasks = [usage.tasks_running, usage.tasks_queued, usage.tasks_waiting];
            assert_eq!((tasks, row.queries_running), ([0; 3], 0), "{}", row.name);
        }
    }
}

/// Destructors, wakers and closures of the user that panic wherever they are called.
#[test]
fn panics_of_the_users_code_stay_with_their_task() {
    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("planned: drop");
            }
        }
    }
    struct PanicsOnWake;
    impl std::task::Wake for PanicsOnWake {
        fn wake(self: Arc<Self>) {
            panic!("planned: wake");
        }
    }
    let _watched = watched("panics");
    for runtime in grounds(2) {
        let builder = Governor::builder().workers(2).init_sql(SQL);
        let governor = runtime.build(builder.allow_override(|_, group| {
            if group == "other" {
                panic!("planned: closure")
            } else {
                true
            }
        }));
        for _ in 0..50 {
            let asked = std::panic::AssertUnwindSafe(|| drop(governor.try_admit(&named("other"))));
            assert!(std::panic::catch_unwind(asked).is_err());
            let kept = PanicsOnDrop;
            let waits = governor
                .spawn_in("g", async move {
                    let _kept = kept;
                    pending::<()>().await;
                })
                .unwrap();
            let mut ends = Box::pin(governor.spawn_in("g", quotient::task::yield_now()).unwrap());
            let waker = Arc::new(PanicsOnWake).into();
            let _ = ends
                .as_mut()
                .poll(&mut std::task::Context::from_waker(&waker));
            let output = governor.spawn_in("g", async { PanicsOnDrop }).unwrap();
            drop(output);
            runtime.block_on(async {
                waits.abort();
                assert!(soon("it ends", waits).await.unwrap_err().is_panic());
                live::eventually("it ends", || ends.is_finished()).await;
            });
        }
        runtime.block_on(async {
            live::settled(&governor, "g").await;
            assert_eq!(
                governor.spawn_in("g", async { 1 }).unwrap().await.unwrap(),
                1
            );
            governor.shutdown(NO_GRACE).await;
        });
    }
}

/// Two governors on one runtime and a third on another wait for each other's tasks.
#[test]
fn tasks_of_three_governors_wait_for_each_other() {
    let _watched = watched("three governors");
    let (here, there) = (multi_thread(2), current_thread());
    let a = governor(&here, 2, SQL);
    let b = governor(&here, 1, SQL);
    let c = there
        .block_on(async { Governor::builder().init_sql(SQL).build() })
        .unwrap();
    let stop = Arc::new(tokio::sync::Notify::new());
    let stopped = stop.clone();
    let driving = std::thread::spawn(move || there.block_on(stopped.notified()));
    let handles: Vec<_> = (0..200)
        .map(|i| {
            let (b, c) = (b.clone(), c.clone());
            let task = async move {
                let (again, query) = (b.clone(), c.try_admit(&named("g")).unwrap());
                let inner = b.spawn_in("g", async move {
                    let handle = query.spawn(async move {
                        let own = quotient::spawn(async move { i });
                        let other = again.spawn_in("other", async move { i }).unwrap();
                        own.await.unwrap() + other.await.unwrap()
                    });
                    drop(query);
                    handle.await.unwrap()
                });
                inner.unwrap().await.unwrap()
            };
            a.spawn_in("g", task).unwrap()
        })
        .collect();
    here.block_on(async {
        for (i, handle) in handles.into_iter().enumerate() {
            assert_eq!(soon("it comes back", handle).await.unwrap(), 2 * i);
        }
        soon("c ends", c.shutdown(NO_GRACE)).await;
        soon("both end", async {
            tokio::join!(a.shutdown(NO_GRACE), b.shutdown(NO_GRACE))
        })
        .await;
    });
    stop.notify_one();
    driving.join().unwrap();
}

#[test]
fn a_governor_may_be_built_used_and_shut_down_inside_a_task_of_another() {
    let _watched = watched("governor in a task");
    for runtime in grounds(2) {
        let outer = governor(&runtime, 2, SQL);
        let task = outer.spawn_in("g", async {
            for workers in 1..4 {
                let inner = Governor::builder()
                    .workers(workers)
                    .init_sql(SQL)
                    .build()
                    .unwrap();
                let waits = inner.spawn_in("g", pending::<()>()).unwrap();
                assert_eq!(
                    inner.spawn_in("other", async { 5 }).unwrap().await.unwrap(),
                    5
                );
                if workers % 2 == 0 {
                    inner.shutdown(NO_GRACE).await;
                }
                drop(inner);
                assert!(waits.await.unwrap_err().is_cancelled());
            }
        });
        runtime.block_on(soon("it ends", task.unwrap())).unwrap();
        runtime.block_on(soon("the workers leave", outer.shutdown(NO_GRACE)));
    }
}
