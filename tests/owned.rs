//! The owned host: a governor in plain `fn main`, on threads of its own that also look after I/O and timers.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{compute, multi_thread, named, watched};
use quotient::{Governor, Host};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='1');";

/// Held by tests that measure: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn owned(workers: usize) -> Governor {
    let builder = Governor::builder().host(Host::Owned).init_sql(SQL);
    builder.workers(workers).build().unwrap()
}

fn end(governor: &Governor) {
    governor.block_on(governor.shutdown(Duration::ZERO));
}

#[test]
fn a_program_without_a_runtime_runs_tasks_timers_and_the_root_future() {
    let _watched = watched("plain main");
    for workers in [1, 2, 5] {
        let governor = owned(workers);
        // Not `Send`, as the root of a program may be.
        let kept = std::rc::Rc::new(6);
        let answer = governor.block_on(async {
            let child = quotient::spawn(async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                let (send, receive) = tokio::sync::oneshot::channel();
                drop(quotient::spawn(async { send.send(7).unwrap() }));
                receive.await.unwrap()
            });
            tokio::time::sleep(Duration::from_millis(1)).await;
            *kept * child.await.unwrap()
        });
        assert_eq!(answer, 42);
        end(&governor);
    }
}

#[test]
fn tasks_run_on_the_governors_own_threads_and_inside_its_runtime() {
    let _watched = watched("own threads");
    let governor = owned(2);
    let names: HashSet<String> = governor.block_on(async {
        let mut handles = Vec::new();
        for _ in 0..64 {
            handles.push(quotient::spawn(async {
                let _ = tokio::runtime::Handle::current();
                tokio::task::yield_now().await;
                std::thread::current().name().unwrap().to_owned()
            }));
        }
        let mut names = HashSet::new();
        for handle in handles {
            names.insert(handle.await.unwrap());
        }
        names
    });
    let expected = ["quotient-0", "quotient-1"].map(str::to_owned);
    assert!(
        names.is_subset(&HashSet::from(expected)) && !names.is_empty(),
        "{names:?}"
    );
    end(&governor);
}

#[test]
fn sockets_blocking_closures_and_raw_tasks_work_inside_tasks() {
    let _watched = watched("echo");
    for workers in [1, 2] {
        let governor = owned(workers);
        governor.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            drop(governor.spawn_in("g", async move {
                loop {
                    let (mut socket, _) = listener.accept().await.unwrap();
                    drop(quotient::spawn(async move {
                        let mut buffer = [0; 64];
                        while let Ok(n @ 1..) = socket.read(&mut buffer).await {
                            socket.write_all(&buffer[..n]).await.unwrap();
                        }
                    }));
                }
            }));
            let clients: Vec<_> = (0..8)
                .map(|client: u8| {
                    let run = async move {
                        let mut socket = TcpStream::connect(address).await.unwrap();
                        for round in 0..50 {
                            let word = [client, round, 7];
                            socket.write_all(&word).await.unwrap();
                            let mut answer = [0; 3];
                            socket.read_exact(&mut answer).await.unwrap();
                            assert_eq!(answer, word);
                        }
                        let sum = tokio::task::spawn_blocking(|| (1..=4).sum::<i32>());
                        let raw = tokio::spawn(async {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                            tokio::task::yield_now().await;
                            quotient::task::current().is_none()
                        });
                        assert_eq!(sum.await.unwrap(), 10);
                        assert!(raw.await.unwrap(), "a raw task is in no group");
                    };
                    governor.spawn_in("other", run).unwrap()
                })
                .collect();
            for client in clients {
                client.await.unwrap();
            }
        });
        end(&governor);
    }
}

/// Seconds of worker time after which shares are looked at, and how long to wait for them.
const ENOUGH: f64 = 0.8;
const PATIENCE: Duration = Duration::from_secs(15);

/// What the groups with these weights are charged while each has `tasks` tasks that give way like this.
fn charged<F>(workers: usize, weights: &[u64], tasks: usize, give_way: fn() -> F) -> Vec<f64>
where
    F: Future<Output = ()> + Send + 'static,
{
    let groups: Vec<String> = (0..weights.len()).map(|i| format!("w{i}")).collect();
    let create = |(group, weight): (&String, &u64)| {
        format!("CREATE RESOURCE GROUP {group} WITH ('cpu_core_limit'='{weight}');")
    };
    let sql: String = groups.iter().zip(weights).map(create).collect();
    let builder = Governor::builder().host(Host::Owned).workers(workers);
    let governor = builder.init_sql(&sql).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    for group in &groups {
        for _ in 0..tasks {
            let stop = stop.clone();
            drop(governor.spawn_in(group, async move {
                while !stop.load(Ordering::Relaxed) {
                    compute(Duration::from_micros(20));
                    give_way().await;
                }
            }));
        }
    }
    let charged = |group: &String| {
        let usage = governor.classify(&named(group)).unwrap().stats();
        usage.cpu_poll.as_secs_f64()
    };
    // A busy system gives little at a time, and what it takes inside of a short poll is charged: let that even out.
    let start = Instant::now();
    while groups.iter().map(charged).sum::<f64>() < ENOUGH && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    stop.store(true, Ordering::Relaxed);
    for group in &groups {
        governor.block_on(live::settled(&governor, group));
    }
    let charged = groups.iter().map(charged).collect();
    end(&governor);
    charged
}

async fn spend_the_budget() {
    while tokio::task::coop::has_budget_remaining() {
        tokio::task::consume_budget().await;
    }
    tokio::task::consume_budget().await;
}

#[test]
fn shares_are_exact_with_tokios_own_yield_now() {
    let (_alone, _watched) = (alone(), watched("shares"));
    let mut report = String::new();
    for workers in [1, 2] {
        for (weights, tasks) in [(vec![2, 1], 4), (vec![2, 1], 32), (vec![1, 3, 4], 4)] {
            let charged = charged(workers, &weights, tasks, tokio::task::yield_now);
            report += &judge(workers, &weights, &charged);
        }
    }
    let charged = charged(2, &[2, 1], 4, spend_the_budget);
    report += &judge(2, &[2, 1], &charged);
    println!("{report}");
    assert!(!report.contains("WRONG"), "\n{report}");
}

fn judge(workers: usize, weights: &[u64], charged: &[f64]) -> String {
    let (sum, weight): (f64, u64) = (charged.iter().sum(), weights.iter().sum());
    let mut line = format!("{workers} workers, weights {weights:?}:");
    for (charged, of) in charged.iter().zip(weights) {
        let ratio = (charged / sum) / (*of as f64 / weight as f64);
        let verdict = if (0.75..1.35).contains(&ratio) {
            ""
        } else {
            " WRONG"
        };
        line += &format!(" {ratio:.3}{verdict}");
    }
    line + "\n"
}

#[test]
fn timers_and_io_go_on_while_every_worker_is_in_a_long_poll() {
    const LONG: Duration = Duration::from_millis(100);
    let (_alone, _watched) = (alone(), watched("long polls"));
    for workers in [1, 2] {
        let governor = owned(workers);
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..workers * 2 {
            let stop = stop.clone();
            drop(governor.spawn_in("g", async move {
                while !stop.load(Ordering::Relaxed) {
                    compute(LONG);
                    quotient::task::yield_now().await;
                }
            }));
        }
        let mut late = governor.block_on(async {
            let mut late = Vec::new();
            for _ in 0..60 {
                let due = Instant::now() + Duration::from_millis(10);
                tokio::time::sleep_until(due.into()).await;
                late.push(due.elapsed());
            }
            late
        });
        stop.store(true, Ordering::Relaxed);
        late.sort();
        let [p50, p90] = [late[29], late[53]];
        println!(
            "{workers} workers: timers late by p50 {p50:?}, p90 {p90:?}, max {:?}",
            late[59]
        );
        // Undriven, all but the first wait for the end of the poll that they were set in: 90 ms of 100.
        assert!(p50 < LONG / 2, "{workers} workers: {late:?}");
        end(&governor);
    }
}

#[test]
fn raw_tokio_tasks_have_their_turns_beside_busy_groups() {
    let (_alone, _watched) = (alone(), watched("raw tasks"));
    for workers in [1, 2] {
        let governor = owned(workers);
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..32 {
            let stop = stop.clone();
            drop(governor.spawn_in("g", async move {
                while !stop.load(Ordering::Relaxed) {
                    compute(Duration::from_micros(500));
                    quotient::task::yield_now().await;
                }
            }));
        }
        let mut waits: Vec<Duration> = governor.block_on(async {
            let mut waits = Vec::new();
            for _ in 0..200 {
                let spawned = Instant::now();
                waits.push(
                    tokio::spawn(async move { spawned.elapsed() })
                        .await
                        .unwrap(),
                );
            }
            waits
        });
        stop.store(true, Ordering::Relaxed);
        waits.sort();
        let [p50, p99] = [waits[100], waits[197]];
        println!("{workers} workers: raw tasks wait p50 {p50:?}, p99 {p99:?}");
        assert!(p50 < Duration::from_millis(50), "{workers}: {waits:?}");
        end(&governor);
    }
}

#[test]
fn a_governor_is_built_used_and_dropped_inside_another_runtime() {
    let _watched = watched("inside a runtime");
    for runtime in [multi_thread(2), live::current_thread()] {
        let inside = |give_up: bool| {
            runtime.block_on(async {
                let governor = owned(2);
                let handle = governor.spawn_in("g", async {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    7
                });
                assert_eq!(handle.unwrap().await.unwrap(), 7);
                let waits = governor
                    .spawn_in("g", std::future::pending::<()>())
                    .unwrap();
                if give_up {
                    drop(governor);
                } else {
                    governor.shutdown(Duration::ZERO).await;
                }
                assert!(waits.await.unwrap_err().is_cancelled());
            });
        };
        inside(true);
        inside(false);
        runtime.block_on(async {
            let governor = owned(1);
            let block = || governor.block_on(async {});
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(block));
            assert!(caught.is_err(), "as tokio: no block_on inside a runtime");
            // Neither its own threads nor the runtime were harmed.
            governor.spawn_in("g", async {}).unwrap().await.unwrap();
        });
    }
}

#[test]
fn a_script_that_is_refused_leaves_no_thread_behind() {
    let _watched = watched("refused");
    let builder = Governor::builder().host(Host::Owned).workers(2);
    assert!(builder.init_sql("CREATE RESOURCE GROUP").build().is_err());
    let builder = Governor::builder().host(Host::Owned);
    assert!(builder.workers(0).build().is_err());
}

#[test]
fn two_owned_governors_live_side_by_side() {
    let _watched = watched("two");
    let (one, two) = (owned(2), owned(1));
    let far = two.spawn_in("g", async {
        tokio::time::sleep(Duration::from_millis(3)).await;
        1
    });
    let sum = one.block_on(async {
        let near = quotient::spawn(async {
            let _ = tokio::runtime::Handle::current();
            2
        });
        far.unwrap().await.unwrap() + near.await.unwrap()
    });
    assert_eq!(sum, 3);
    end(&one);
    // The other one goes on.
    assert_eq!(
        two.block_on(two.spawn_in("g", async { 5 }).unwrap())
            .unwrap(),
        5
    );
    end(&two);
}

#[test]
fn the_root_future_outlives_a_shutdown_inside_of_it() {
    let _watched = watched("root");
    let governor = owned(2);
    let raw = governor.block_on(async {
        let raw = tokio::spawn(async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            "raw"
        });
        governor.shutdown(Duration::ZERO).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        assert!(dialled.is_ok() && accepted.is_ok());
        raw.await.unwrap()
    });
    assert_eq!(raw, "raw");
    // The runtime is gone now; what needs neither timers nor I/O still runs.
    assert_eq!(governor.block_on(async { 3 }), 3);
    let late = governor.spawn_in("g", async {}).unwrap();
    assert!(governor.block_on(late).unwrap_err().is_cancelled());
}

#[test]
fn after_a_shutdown_its_threads_are_gone() {
    let _watched = watched("joined");
    let governor = owned(1);
    let here = || std::fs::read_link("/proc/thread-self").ok();
    let thread = governor.spawn_in("g", async move { here() });
    let thread = governor.block_on(thread.unwrap()).unwrap();
    let Some(thread) = thread.map(|thread| std::path::Path::new("/proc").join(thread)) else {
        return; // Only Linux shows them.
    };
    assert!(thread.exists());
    end(&governor);
    // The system may list it for an instant after it was joined.
    live::eventually_blocking("it is gone", || !thread.exists());
}

#[test]
fn wakers_kept_elsewhere_are_woken_from_all_sides_while_workers_come_and_go() {
    const TASKS: usize = 16;
    const ROUNDS: usize = 300;
    let _watched = watched("stress");
    for workers in [1, 2, 4] {
        let governor = owned(workers);
        let polls = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..TASKS)
            .map(|i| {
                let polls = polls.clone();
                let group = if i % 2 == 0 { "g" } else { "other" };
                let run = async move {
                    for round in 0..ROUNDS {
                        let (send, receive) = tokio::sync::oneshot::channel();
                        match round % 4 {
                            0 => drop(tokio::spawn(async { send.send(()) })),
                            1 => drop(quotient::spawn(async { send.send(()) })),
                            2 => drop(tokio::task::spawn_blocking(|| send.send(()))),
                            _ => {
                                tokio::time::sleep(Duration::from_micros(50)).await;
                                send.send(()).unwrap();
                            }
                        }
                        receive.await.unwrap();
                        polls.fetch_add(1, Ordering::Relaxed);
                        if round % 16 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                };
                governor.spawn_in(group, run).unwrap()
            })
            .collect();
        governor.block_on(async {
            for handle in handles {
                handle.await.unwrap();
            }
        });
        assert_eq!(polls.load(Ordering::SeqCst), TASKS * ROUNDS);
        end(&governor);
    }
}

#[test]
fn what_differs_from_the_attached_host_is_as_documented() {
    let _watched = watched("differences");
    let governor = owned(2);
    governor.block_on(async {
        let task = governor.spawn_in("g", async {
            let flavour = tokio::runtime::Handle::current().runtime_flavor();
            assert_eq!(flavour, tokio::runtime::RuntimeFlavor::CurrentThread);
            assert!(tokio::task::try_id().is_none() && quotient::task::try_id().is_some());
            // Allowed, and inline: the worker is kept from others meanwhile.
            let here = std::thread::current().id();
            let there = tokio::task::block_in_place(|| std::thread::current().id());
            assert_eq!(here, there);
            let nested = || {
                let inside = async { tokio::time::sleep(Duration::from_millis(1)).await };
                tokio::runtime::Handle::current().block_on(inside);
            };
            tokio::task::block_in_place(nested);
            assert!(std::panic::catch_unwind(nested).is_err(), "as tokio");
        });
        task.unwrap().await.unwrap();
        let local = governor.spawn_in("g", async {
            drop(tokio::task::spawn_local(async {}));
        });
        assert!(local.unwrap().await.unwrap_err().is_panic(), "no LocalSet");
        // The root future may be one.
        let set = tokio::task::LocalSet::new();
        let kept = std::rc::Rc::new(3);
        let inside = set.run_until(async { tokio::task::spawn_local(async move { *kept }).await });
        assert_eq!(inside.await.unwrap(), 3);
    });
    end(&governor);
}

#[test]
fn an_attached_governor_can_be_entered_from_outside_its_runtime_too() {
    let _watched = watched("attached");
    let runtime = multi_thread(2);
    let governor = live::governor(&runtime, 2, SQL);
    let answer = governor.block_on(async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        quotient::spawn(async { 9 }).await.unwrap()
    });
    assert_eq!(answer, 9);
    // On a current-thread runtime somebody else must drive.
    let runtime = live::current_thread();
    let governor = live::governor(&runtime, 1, SQL);
    let outside = std::thread::spawn({
        let governor = governor.clone();
        move || governor.block_on(async { quotient::spawn(async { 4 }).await.unwrap() })
    });
    while !outside.is_finished() {
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }
    assert_eq!(outside.join().unwrap(), 4);
}

#[test]
fn pinned_workers_keep_to_one_cpu_each_and_the_builder_to_its_own() {
    let _watched = watched("pinned");
    let allowed = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list"))?;
        Some(line.split_whitespace().nth(1)?.to_owned())
    };
    let before = allowed();
    let builder = Governor::builder().host(Host::Owned).workers(3);
    let governor = builder.init_sql(SQL).pin_workers(true).build().unwrap();
    assert_eq!(allowed(), before, "the builder's thread is not pinned");
    let seen = governor.block_on(governor.spawn_in("g", async move { allowed() }).unwrap());
    if let Some(cpus) = seen.unwrap() {
        assert!(cpus.parse::<usize>().is_ok(), "one CPU, not {cpus}");
    }
    let closure = governor.spawn_in("g", async move {
        tokio::task::spawn_blocking(allowed).await.unwrap()
    });
    let blocking = governor.block_on(closure.unwrap()).unwrap();
    assert_eq!(blocking, before, "nor is a blocking closure");
    end(&governor);
}
