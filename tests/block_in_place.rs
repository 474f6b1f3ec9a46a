//! `task::block_in_place`: other tasks run meanwhile, and only what it computes is charged.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{eventually, eventually_blocking, governor, multi_thread, named, watched};
use quotient::task::{block_in_place, current};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::runtime::Handle;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='1');";

#[test]
fn all_workers_may_wait_in_it_for_tasks_that_they_spawn() {
    const TASKS: usize = 40;
    let _watched = watched("block_in_place and block_on everywhere");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let parents: Vec<_> = (0..TASKS)
        .map(|i| {
            let task = async move {
                block_in_place(|| {
                    let child = quotient::spawn(async move {
                        quotient::task::yield_now().await;
                        // The children do the same.
                        block_in_place(|| {
                            let grandchild = quotient::spawn(async { 1 });
                            Handle::current().block_on(grandchild).unwrap()
                        })
                    });
                    Handle::current().block_on(child).unwrap() + i
                })
            };
            let group = if i % 2 == 0 { "g" } else { "other" };
            governor.spawn_in(group, task).unwrap()
        })
        .collect();
    for (i, parent) in parents.into_iter().enumerate() {
        assert_eq!(runtime.block_on(parent).unwrap(), i + 1);
    }
    eventually_blocking("all that stood in are gone", || {
        governor.metrics().spares.serving == 0
    });
}

#[test]
fn a_section_that_waits_for_a_timer_and_a_message_gets_them() {
    let _watched = watched("timers in block_in_place");
    let runtime = multi_thread(1);
    let governor = governor(&runtime, 1, SQL);
    let (tell, told) = tokio::sync::oneshot::channel();
    let waits = governor.spawn_in("g", async move {
        block_in_place(|| {
            Handle::current().block_on(async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                told.await.unwrap()
            })
        })
    });
    let tells = governor.spawn_in("g", async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        tell.send(3).unwrap();
    });
    assert_eq!(runtime.block_on(waits.unwrap()).unwrap(), 3);
    runtime.block_on(tells.unwrap()).unwrap();
}

/// Uses so much of the thread's CPU, however long that takes on a busy machine.
fn use_cpu(time: Duration) {
    let used = || {
        let clock = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(clock.tv_sec as u64, clock.tv_nsec as u32)
    };
    let begin = used();
    while used() - begin < time {}
}

#[test]
fn what_it_computes_is_charged_and_what_it_waits_is_not() {
    const SPELL: Duration = Duration::from_millis(60);
    let _watched = watched("charges of block_in_place");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let charged = || governor.classify(&named("g")).unwrap().usage();
    let run = |section: fn()| {
        let query = governor.try_admit(&named("g")).unwrap();
        let before = charged();
        let task = query.spawn(async move { block_in_place(section) });
        runtime.block_on(task).unwrap();
        eventually_blocking("the slice is over", || charged().polls > before.polls);
        (query.usage(), charged().cpu - before.cpu)
    };
    let (waits, waited) = run(|| std::thread::sleep(4 * SPELL));
    let (computes, computed) = run(|| use_cpu(SPELL));
    // The query's account and the group's agree, and the two kinds of section differ.
    assert!(
        computes.cpu >= SPELL && computed >= SPELL,
        "{computes:?} {computed:?}"
    );
    assert!(
        waits.cpu < 4 * SPELL && waited < 4 * SPELL,
        "{waits:?} {waited:?}"
    );
    // It kept nobody.
    assert!(waits.longest_poll < 4 * SPELL, "{waits:?}");
    let stats = governor.classify(&named("g")).unwrap().stats();
    assert!(stats.long_polls < 2, "a section is no long poll");
}

#[test]
fn it_is_still_inside_the_task() {
    let _watched = watched("context in block_in_place");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let query = governor.try_admit(&named("g")).unwrap();
    let id = query.id();
    let task = query.spawn(async move {
        let own = quotient::task::id();
        let inside = block_in_place(|| {
            let nested = block_in_place(|| current().unwrap().group().to_owned());
            let of_tokio = tokio::task::block_in_place(|| current().unwrap().query_id());
            (
                nested,
                of_tokio,
                quotient::task::id(),
                current().unwrap().query_id(),
            )
        });
        let after = quotient::spawn(async { current().unwrap().query_id() });
        assert_eq!(after.await.unwrap(), Some(id));
        assert_eq!(inside, ("g".to_owned(), Some(id), own, Some(id)));
        // In tokio's section, ours still lets others run.
        tokio::task::block_in_place(|| {
            block_in_place(|| {
                Handle::current()
                    .block_on(quotient::spawn(async { 5 }))
                    .unwrap()
            })
        })
    });
    assert_eq!(runtime.block_on(task).unwrap(), 5);
}

#[test]
fn a_panic_inside_is_the_tasks_and_its_worker_is_back() {
    let _watched = watched("panics in block_in_place");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    for i in 0..20 {
        let caught = i % 2 == 0;
        let task = async move {
            if caught {
                let swallowed = catch_unwind(AssertUnwindSafe(|| {
                    block_in_place(|| panic!("planned: caught"));
                }));
                assert!(swallowed.is_err());
            } else {
                block_in_place(|| panic!("planned: not caught"));
            }
        };
        let end = runtime.block_on(governor.spawn_in("g", task).unwrap());
        assert_eq!(end.is_ok(), caught);
    }
    let job = governor.spawn_in("other", async { 4 }).unwrap();
    assert_eq!(runtime.block_on(job).unwrap(), 4);
    eventually_blocking("nobody stands in", || {
        governor.metrics().spares.serving == 0
    });
}

#[test]
fn an_abort_or_a_kill_meanwhile_takes_effect_after_the_poll() {
    let _watched = watched("abort in block_in_place");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    for kill in [false, true] {
        let query = governor.try_admit(&named("g")).unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        let task = query.spawn(async move {
            block_in_place(|| {
                begun.send(()).unwrap();
                let _ = ends.recv();
            });
            count.fetch_add(1, SeqCst);
            std::future::pending::<()>().await;
        });
        begins.recv().unwrap();
        if kill {
            assert!(query.kill("meanwhile"));
        } else {
            task.abort();
        }
        assert!(!task.is_finished());
        end.send(()).unwrap();
        let error = runtime.block_on(task).unwrap_err();
        assert!(error.is_cancelled() && error.reason().is_some() == kill);
        assert_eq!(ended.load(SeqCst), 1, "its poll ran to its end");
    }
}

#[test]
fn a_shutdown_waits_for_it_and_drops_the_rest_meanwhile() {
    let _watched = watched("shutdown in block_in_place");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let (begun, begins) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let blocks = governor.spawn_in("g", async move {
        block_in_place(|| {
            begun.send(()).unwrap();
            let _ = ends.recv();
        });
    });
    begins.recv().unwrap();
    let waits = governor
        .spawn_in("g", std::future::pending::<()>())
        .unwrap();
    runtime.block_on(async {
        let closing = governor.clone();
        let shutdown = tokio::spawn(async move { closing.shutdown(Duration::ZERO).await });
        assert!(waits.await.unwrap_err().is_cancelled());
        assert!(!shutdown.is_finished());
        end.send(()).unwrap();
        shutdown.await.unwrap();
    });
    assert!(runtime.block_on(blocks.unwrap()).is_ok());
}

#[test]
fn outside_of_a_task_and_on_a_current_thread_runtime_it_is_tokios() {
    let _watched = watched("block_in_place elsewhere");
    assert_eq!(block_in_place(|| 1), 1, "no runtime at all");
    let runtime = multi_thread(1);
    let plain = runtime.spawn(async { block_in_place(|| Handle::current().block_on(async { 2 })) });
    assert_eq!(runtime.block_on(plain).unwrap(), 2);
    let runtime = live::current_thread();
    let governor = governor(&runtime, 1, SQL);
    let text = |ours: bool| {
        let task = async move {
            let section = || -> () { unreachable!() };
            if ours {
                block_in_place(section)
            } else {
                tokio::task::block_in_place(section)
            }
        };
        let error = runtime
            .block_on(governor.spawn_in("g", task).unwrap())
            .unwrap_err();
        let payload = error.into_panic();
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap()
    };
    std::panic::set_hook(Box::new(|_| {}));
    let (ours, tokios) = (text(true), text(false));
    drop(std::panic::take_hook());
    assert_eq!(ours, tokios);
    assert!(ours.contains("multi-threaded"), "{ours}");
    // And nothing is broken by it.
    let job = governor.spawn_in("g", async { 6 }).unwrap();
    assert_eq!(runtime.block_on(job).unwrap(), 6);
}

#[test]
fn many_short_sections_change_no_account() {
    const TASKS: usize = 30;
    let _watched = watched("many sections");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let done = Arc::new(AtomicUsize::new(0));
    for i in 0..TASKS {
        let done = done.clone();
        let task = async move {
            for _ in 0..30 {
                block_in_place(|| std::thread::sleep(Duration::from_micros(50)));
                quotient::task::yield_now().await;
                quotient::spawn(async {}).await.unwrap();
            }
            done.fetch_add(1, SeqCst);
        };
        let group = if i % 2 == 0 { "g" } else { "other" };
        drop(governor.spawn_in(group, task).unwrap());
    }
    runtime.block_on(async {
        eventually("all end", || done.load(SeqCst) == TASKS).await;
        for group in ["g", "other"] {
            live::settled(&governor, group).await;
            assert_eq!(live::spawned(&governor, group) as usize, TASKS / 2 * 31);
        }
    });
    eventually_blocking("nobody stands in", || {
        governor.metrics().spares.serving == 0
    });
}
