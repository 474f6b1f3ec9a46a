//! Hooks are told of each task's life, in order, by name, place and group; and a builder names and places tasks.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{Build, current_thread, grounds, multi_thread, named, watched};
use quotient::{Governor, JoinSet, TaskMeta, task};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP upkeep WITH ('cpu_core_limit'='1')";

type Log = Arc<Mutex<Vec<(String, task::Id)>>>;

fn told(ground: &impl Build) -> (Governor, Log) {
    let log = Log::default();
    let say = |what: &'static str| {
        let log = log.clone();
        move |meta: &TaskMeta<'_>| {
            let name = meta.name().unwrap_or("nameless");
            let line = format!("{name} in {}: {what}", meta.group());
            log.lock().unwrap().push((line, meta.id()));
        }
    };
    let builder = Governor::builder()
        .init_sql(SQL)
        .on_task_spawn(say("spawned"))
        .on_before_task_poll(say("before"))
        .on_after_task_poll(say("after"))
        .on_task_terminate(say("gone"));
    let governor = ground.build(builder);
    (governor, log)
}

fn of(log: &Log, id: task::Id) -> Vec<String> {
    let log = log.lock().unwrap();
    log.iter()
        .filter(|(_, told)| *told == id)
        .map(|(line, _)| line.clone())
        .collect()
}

#[test]
fn a_tasks_life_is_told_in_order() {
    let _watched = watched("hooks");
    for runtime in grounds(2) {
        let (governor, log) = told(&runtime);
        runtime.block_on(async {
            let query = governor.admit(&named("g")).await.unwrap();
            let polled_twice = task::Builder::new()
                .name("twice")
                .spawn_on(task::yield_now(), &query)
                .unwrap();
            let id = polled_twice.id();
            polled_twice.await.unwrap();
            governor.shutdown(Duration::ZERO).await;
            assert_eq!(
                of(&log, id),
                [
                    "twice in g: spawned",
                    "twice in g: before",
                    "twice in g: after",
                    "twice in g: before",
                    "twice in g: gone",
                    "twice in g: after",
                ]
            );
        });
    }
}

#[test]
fn an_aborted_and_a_panicking_task_are_told_of_too() {
    let _watched = watched("hooks of failures");
    let runtime = multi_thread(2);
    let (governor, log) = told(&runtime);
    runtime.block_on(async {
        let aborted = governor
            .spawn_in("g", std::future::pending::<()>())
            .unwrap();
        aborted.abort();
        let panics = governor
            .spawn_in("g", async { panic!("planned: told of") })
            .unwrap();
        let ids = [aborted.id(), panics.id()];
        drop((aborted.await, panics.await));
        governor.shutdown(Duration::ZERO).await;
        for id in ids {
            let told = of(&log, id);
            assert_eq!(
                told.first().map(String::as_str),
                Some("nameless in g: spawned")
            );
            let gone = told.iter().filter(|line| line.ends_with("gone")).count();
            assert_eq!(gone, 1, "{told:?}");
        }
        // Refused: nobody is told of a task that never was.
        let refused = governor.spawn_in("g", async {}).unwrap();
        assert_eq!(of(&log, refused.id()), [""; 0]);
    });
}

#[test]
fn a_hook_that_panics_harms_no_task() {
    let _watched = watched("panicking hooks");
    let runtime = multi_thread(2);
    let governor = runtime.block_on(async {
        Governor::builder()
            .init_sql(SQL)
            .on_task_spawn(|_| panic!("planned: spawn"))
            .on_before_task_poll(|_| panic!("planned: before"))
            .on_after_task_poll(|_| panic!("planned: after"))
            .on_task_terminate(|_| panic!("planned: gone"))
            .build()
            .unwrap()
    });
    runtime.block_on(async {
        for i in 0..100 {
            let handle = governor.spawn_in("g", async move {
                task::yield_now().await;
                i
            });
            assert_eq!(handle.unwrap().await.unwrap(), i);
        }
        live::settled(&governor, "g").await;
    });
}

#[test]
fn what_a_hook_runs_on_its_thread_is_not_the_task_that_spawns() {
    let _watched = watched("a runtime in a hook");
    let other = current_thread();
    let theirs = other.block_on(async { Governor::builder().init_sql(SQL).build().unwrap() });
    let seen: Arc<Mutex<Vec<_>>> = Arc::default();
    let log = seen.clone();
    let armed = Arc::new(AtomicBool::new(false));
    let due = armed.clone();
    let run_another = move |_: &TaskMeta<'_>| {
        if !due.swap(false, SeqCst) {
            return;
        }
        let inside = || {
            other.block_on(async {
                let spawned = theirs.spawn_in("upkeep", async {
                    let child = quotient::spawn(async { task::id() });
                    (task::id(), child.await.is_ok())
                });
                let spawned = spawned.unwrap();
                let id = spawned.id();
                (id, spawned.await.unwrap())
            })
        };
        let (id, (own, has_child)) = task::block_in_place(inside);
        let mut log = log.lock().unwrap();
        log.push((id == own && has_child, task::try_id()));
    };
    let runtime = multi_thread(2);
    let builder = Governor::builder().init_sql(SQL);
    let governor = runtime.build(builder.on_task_spawn(run_another));
    let (parent, after) = runtime.block_on(async {
        let parent = governor.spawn_in("g", async move {
            armed.store(true, SeqCst);
            quotient::spawn(async {}).await.unwrap();
            (task::id(), task::current().map(|it| it.group().to_owned()))
        });
        parent.unwrap().await.unwrap()
    });
    assert_eq!(after.as_deref(), Some("g"));
    assert_eq!(*seen.lock().unwrap(), [(true, Some(parent))]);
}

#[test]
fn a_task_is_known_by_the_line_that_spawned_it() {
    let _watched = watched("places");
    let runtime = current_thread();
    let lines: Arc<Mutex<Vec<u32>>> = Arc::default();
    let seen = lines.clone();
    let governor = runtime.block_on(async {
        Governor::builder()
            .init_sql(SQL)
            .on_task_spawn(move |meta| {
                assert_eq!(meta.spawned_at().file(), file!());
                seen.lock().unwrap().push(meta.spawned_at().line());
            })
            .build()
            .unwrap()
    });
    let mut expected = Vec::new();
    runtime.block_on(async {
        let query = governor.admit(&named("g")).await.unwrap();
        let _entered = governor.enter();
        let mut set = JoinSet::new();
        macro_rules! here {
            ($spawn:expr) => {{
                expected.push(line!());
                drop($spawn);
            }};
        }
        here!(quotient::spawn(async {}));
        here!(query.spawn(async {}));
        here!(query.run(async {}).await);
        here!(governor.spawn(&named("g"), async {}));
        here!(governor.spawn_in("g", async {}));
        here!(set.spawn(async {}));
        here!(set.spawn_on(async {}, &query));
        here!(set.build_task().name("x").spawn(async {}));
        here!(task::Builder::new().spawn(async {}));
        here!(task::Builder::new().spawn_on(async {}, &query));
        set.shutdown().await;
    });
    assert_eq!(*lines.lock().unwrap(), expected);
}

#[test]
fn a_builder_places_a_task_in_a_group_and_says_which_one_it_does_not_know() {
    let _watched = watched("builder");
    let runtime = multi_thread(2);
    let governor = live::governor(&runtime, 2, SQL);
    let group = || task::current().map(|it| (it.group().to_owned(), it.query_id()));
    let upkeep = Some(("upkeep".to_owned(), None));
    runtime.block_on(async {
        let query = governor.admit(&named("g")).await.unwrap();
        let inside = query.run(async move {
            let mut set = JoinSet::new();
            let builder = task::Builder::new().group("upkeep");
            set.insert(builder.spawn(async move { group() }).unwrap());
            set.insert(builder.spawn_blocking(group).unwrap());
            set.build_task().group("upkeep").spawn(async move { group() }).unwrap();
            set.build_task().group("upkeep").spawn_blocking(group).unwrap();
            set.join_all().await
        });
        assert_eq!(inside.await.unwrap(), vec![upkeep; 4]);

        let _entered = governor.enter();
        let unknown = task::Builder::new().group("upkep").spawn(async {}).unwrap_err();
        assert_eq!(unknown.kind(), std::io::ErrorKind::NotFound);
        let inner = unknown.get_ref().unwrap().downcast_ref::<quotient::Error>();
        assert!(
            matches!(inner, Some(quotient::Error::UnknownGroup { similar: Some(similar), .. }) if similar == "upkeep"),
            "{inner:?}"
        );
        let both = task::Builder::new().group("upkeep").spawn_on(async {}, &query);
        assert_eq!(both.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    });
}
