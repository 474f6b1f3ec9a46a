//! The governor from outside: DDL, classification, admission, slots, inheritance, views.

use quotient::task::current;
use quotient::{AdmissionError, Attributes, Governor, KillReason, QueryType};
use std::pin::Pin;
use std::time::Duration;

async fn governor(sql: &str) -> Governor {
    let governor = Governor::builder().workers(2).build().unwrap();
    governor.execute(sql).await.unwrap();
    governor
}

fn bi() -> Attributes {
    Attributes::new().user("bi")
}

const ONE: &str =
    "CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='2', 'concurrency_limit'='1')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_makes_a_group_that_requests_are_classified_into() {
    let governor = governor(ONE).await;
    assert_eq!(governor.classify(&bi()).unwrap().name(), "bi");
    assert_eq!(
        governor
            .classify(&Attributes::new().user("x"))
            .unwrap()
            .name(),
        "default_wg"
    );
    let forced = Attributes::new().resource_group("bi");
    assert_eq!(governor.classify(&forced).unwrap().name(), "bi");
    assert!(
        governor
            .classify(&Attributes::new().resource_group("nope"))
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slot_comes_back_however_the_query_ends() {
    let governor = governor(ONE).await;
    let busy = |governor: &Governor| {
        matches!(
            governor.try_admit(&bi()),
            Err(AdmissionError::Rejected {
                limit: 1,
                running: 1,
                ..
            })
        )
    };

    // Held by the value alone.
    let query = governor.admit(&bi()).await.unwrap();
    assert!(busy(&governor));
    drop(query);

    // Held by a task after the value is gone; free when its future is dropped, handle kept or not.
    let query = governor.admit(&bi()).await.unwrap();
    let handle = query.spawn(std::future::pending::<()>());
    drop(query);
    assert!(busy(&governor));
    handle.abort();
    let mut handle = handle;
    assert!((&mut handle).await.unwrap_err().is_cancelled());
    drop(governor.try_admit(&bi()).unwrap());

    // A panic.
    let query = governor.admit(&bi()).await.unwrap();
    let handle = query.spawn(async { panic!("on purpose") });
    drop(query);
    assert!(handle.await.unwrap_err().is_panic());
    drop(governor.try_admit(&bi()).unwrap());

    // A kill.
    let query = governor.admit(&bi()).await.unwrap();
    let handle = query.spawn(std::future::pending::<()>());
    assert!(query.kill("enough"));
    assert!(!query.kill("again"));
    let error = handle.await.unwrap_err();
    assert!(matches!(error.reason(), Some(KillReason::Killed { why, .. }) if &**why == "enough"));
    assert!(busy(&governor), "the value still holds it");
    drop(query);
    drop(governor.try_admit(&bi()).unwrap());

    let metrics = governor.render_metrics();
    for line in [
        "quotient_group_queries_total{group=\"bi\",outcome=\"failed\"} 1",
        "quotient_group_queries_total{group=\"bi\",outcome=\"killed\"} 1",
        "quotient_group_queries_total{group=\"bi\",outcome=\"cancelled\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_inherit_group_and_query() {
    let governor = governor(ONE).await;
    let query = governor.admit(&bi()).await.unwrap();
    let id = query.id();
    let (outer, inner) = query
        .run(async {
            let outer = quotient::task::current().unwrap();
            let inner = quotient::spawn(async { quotient::task::current().unwrap().query_id() });
            quotient::record_scan_rows(5);
            assert_eq!(outer.usage().scan_rows, 5, "seen from inside");
            (
                (outer.group().to_owned(), outer.query_id()),
                inner.await.unwrap(),
            )
        })
        .await
        .unwrap();
    assert_eq!(outer, ("bi".to_owned(), Some(id)));
    assert_eq!(inner, Some(id));
    let usage = query.usage();
    assert_eq!(usage.scan_rows, 5);
    assert!(usage.polls >= 3 && usage.cpu > Duration::ZERO);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nested_query_of_the_same_group_shares_its_parents_slot() {
    let governor = governor(ONE).await;
    let inside = governor.clone();
    let query = governor.admit(&bi()).await.unwrap();
    let (nested, excess) = query
        .run(async move {
            let nested = inside.try_admit(&bi()).unwrap();
            (
                nested.id(),
                inside.try_admit(&Attributes::new().user("other")).is_ok(),
            )
        })
        .await
        .unwrap();
    assert_ne!(nested, query.id());
    assert!(excess);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_leads_back_to_a_group_further_up_does_not_wait_for_itself() {
    let governor = governor(ONE).await;
    let add = "CREATE RESOURCE GROUP etl TO (user='etl') WITH ('concurrency_limit'='1')";
    governor.execute(add).await.unwrap();
    let etl = || Attributes::new().user("etl");
    let (query, inside) = (governor.admit(&bi()).await.unwrap(), governor.clone());
    let places = query.run(async move {
        let below = inside.try_admit(&etl()).unwrap();
        let deeper = inside.clone();
        let kept = below.run(async move {
            // In a third and a fourth level, by each way of asking.
            let third = deeper.admit(&bi()).await.unwrap();
            assert!(deeper.try_admit(&bi()).is_ok());
            let deepest = deeper.clone();
            let fourth = third.run(async move {
                let group = async { current().map(|task| task.group().to_owned()) };
                deepest.spawn(&etl(), group).await.unwrap().unwrap()
            });
            fourth.await.unwrap()
        });
        let group = kept.await.unwrap();
        drop(below);
        (group, inside.try_admit(&etl()).is_ok())
    });
    assert_eq!(places.await.unwrap(), ("etl".to_owned(), true));
    // Everything has come back, once.
    let busy = governor.try_admit(&bi());
    assert!(
        matches!(busy, Err(AdmissionError::Rejected { running: 1, .. })),
        "{busy:?}"
    );
    drop(query);
    let _query = governor.try_admit(&bi()).unwrap();
}

/// Whether a query of `bi` is admitted below so many of `etl`, each inside of the one before.
fn below(governor: Governor, levels: u32) -> Pin<Box<dyn Future<Output = bool> + Send>> {
    Box::pin(async move {
        if levels == 0 {
            return governor.try_admit(&bi()).is_ok();
        }
        let query = governor.try_admit(&Attributes::new().user("etl")).unwrap();
        query.run(below(governor, levels - 1)).await.unwrap()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_queries_above_are_asked_for_their_place() {
    let governor = governor(ONE).await;
    let add = "CREATE RESOURCE GROUP etl TO (user='etl') WITH ('cpu_core_limit'='1')";
    governor.execute(add).await.unwrap();
    let query = governor.admit(&bi()).await.unwrap();
    for (levels, admitted) in [(0, true), (1, true), (15, true), (16, false)] {
        let inside = below(governor.clone(), levels);
        assert_eq!(query.run(inside).await.unwrap(), admitted, "{levels}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ancestor_that_was_admitted_late_shares_its_place() {
    let sql = "CREATE RESOURCE GROUP bi TO (user='bi')
                   WITH ('concurrency_limit'='1', 'max_queued_queries'='1', 'queue_timeout'='1m');
               CREATE RESOURCE GROUP etl TO (user='etl') WITH ('cpu_core_limit'='1')";
    let governor = governor(sql).await;
    let held = governor.admit(&bi()).await.unwrap();
    let inside = governor.clone();
    let late = governor.spawn(&bi(), async move {
        let below = inside.try_admit(&Attributes::new().user("etl")).unwrap();
        let deeper = inside.clone();
        let bottom = below.run(async move { deeper.try_admit(&bi()).map(drop) });
        bottom.await.unwrap()
    });
    assert!(!late.is_finished());
    drop(held);
    late.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ancestor_that_has_ended_has_no_place_to_share() {
    let governor = governor(ONE).await;
    let add = "CREATE RESOURCE GROUP etl TO (user='etl') WITH ('cpu_core_limit'='1')";
    governor.execute(add).await.unwrap();
    let query = governor.admit(&bi()).await.unwrap();
    let inside = governor.clone();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let below = query.run(async move { inside.try_admit(&Attributes::new().user("etl")) });
    let below = below.await.unwrap().unwrap();
    let inside = governor.clone();
    let late = below.spawn(async move {
        gone.await.unwrap();
        inside.try_admit(&bi()).map(drop)
    });
    drop(query);
    let _other = governor.admit(&bi()).await.unwrap();
    go.send(()).unwrap();
    let refused = late.await.unwrap();
    assert!(
        matches!(refused, Err(AdmissionError::Rejected { .. })),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_of_another_governor_lends_no_place() {
    // The same script: the groups of both have the same numbers.
    let (one, other) = (governor(ONE).await, governor(ONE).await);
    let _busy = other.admit(&bi()).await.unwrap();
    let query = one.admit(&bi()).await.unwrap();
    let (inside, own) = (other.clone(), one.clone());
    let admitted = query.run(async move {
        let refused = inside.try_admit(&bi()).map(drop);
        // What one's governor lends, it lends through another's query too.
        let through = inside.try_admit(&Attributes::new()).unwrap();
        let lent = through.run(async move { own.try_admit(&bi()).map(drop) });
        (refused, lent.await.unwrap())
    });
    let (refused, lent) = admitted.await.unwrap();
    assert!(
        matches!(refused, Err(AdmissionError::Rejected { .. })),
        "{refused:?}"
    );
    lent.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_spawn_says_why() {
    let governor = governor(ONE).await;
    let _held = governor.admit(&bi()).await.unwrap();
    let error = governor.spawn(&bi(), async {}).await.unwrap_err();
    assert!(error.is_cancelled());
    let reason = error.reason().unwrap();
    assert!(
        matches!(
            reason,
            KillReason::NotAdmitted(AdmissionError::Rejected { .. })
        ),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spawn_in_leaves_the_query_and_knows_the_names() {
    let governor = governor(ONE).await;
    let group = governor.spawn_in("bi", async {
        quotient::task::current().unwrap().group().to_owned()
    });
    assert_eq!(group.unwrap().await.unwrap(), "bi");
    let error = governor.spawn_in("default_wq", async {}).unwrap_err();
    assert!(
        error.to_string().contains("did you mean 'default_wg'"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alter_and_drop_take_effect_at_once_and_hurt_nobody() {
    let governor = governor(ONE).await;
    let query = governor.admit(&bi()).await.unwrap();
    governor
        .execute("ALTER RESOURCE GROUP bi WITH ('concurrency_limit'='2')")
        .await
        .unwrap();
    let second = governor.try_admit(&bi()).unwrap();
    governor
        .execute("ALTER RESOURCE GROUP bi WITH ('concurrency_limit'='1')")
        .await
        .unwrap();
    assert!(governor.try_admit(&bi()).is_err());
    drop(second);
    governor.execute("DROP RESOURCE GROUP bi").await.unwrap();
    assert_eq!(governor.classify(&bi()).unwrap().name(), "default_wg");
    let by_name = governor.try_admit(&Attributes::new().resource_group("bi"));
    let unknown = AdmissionError::UnknownGroup { group: "bi".into() };
    assert_eq!(by_name.unwrap_err(), unknown);
    assert_eq!(query.run(async { 1 }).await.unwrap(), 1);
    assert!(
        governor.render_metrics().contains("group=\"bi\""),
        "it still drains"
    );
    drop(query);
    // The worker counts the end of the task when its slice ends, a moment after it told it.
    let gone = async {
        while governor.render_metrics().contains("group=\"bi\"") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(60), gone).await;
    assert!(gone.is_ok(), "it is not gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn show_usage_lists_every_group() {
    let governor = governor(ONE).await;
    let outputs = governor
        .execute("SHOW USAGE RESOURCE GROUPS; SHOW USAGE RESOURCE GROUP bi")
        .await
        .unwrap();
    let names = |output: &quotient::sql::Output| -> Vec<String> {
        output.rows().iter().map(|row| row[0].to_string()).collect()
    };
    assert_eq!(names(&outputs[0]), ["bi", "default_wg"]);
    assert_eq!(names(&outputs[1]), ["bi"]);
    assert!(
        governor
            .execute("SHOW USAGE RESOURCE GROUP nope")
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_script_says_how_far_it_came() {
    let governor = governor(ONE).await;
    let script = "CREATE RESOURCE GROUP x TO (user='x') WITH ('cpu_core_limit'='1'); DROP RESOURCE GROUP nope; DROP RESOURCE GROUP x";
    let quotient::Error::Sql(error) = governor.execute(script).await.unwrap_err() else {
        panic!()
    };
    assert_eq!((error.statement, error.applied), (2, 1), "{error:?}");
    assert!(
        governor
            .classify(&Attributes::new().user("x"))
            .unwrap()
            .name()
            == "x"
    );
}

#[tokio::test]
async fn a_current_thread_runtime_will_do() {
    let governor = Governor::builder().build().unwrap();
    let query = governor
        .admit(&Attributes::new().query_type(QueryType::Select))
        .await
        .unwrap();
    assert_eq!(
        query
            .run(async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                3
            })
            .await
            .unwrap(),
        3
    );
    governor.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_moves_on_by_itself() {
    let governor = Governor::builder().build().unwrap();
    let begin = tokio::time::Instant::now();
    governor
        .spawn_in("default_wg", tokio::time::sleep(Duration::from_secs(3600)))
        .unwrap()
        .await
        .unwrap();
    assert!(begin.elapsed() >= Duration::from_secs(3600));
}

#[test]
fn outside_of_a_runtime_there_is_an_error() {
    assert!(matches!(
        Governor::builder().build(),
        Err(quotient::Error::NoRuntime)
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_ends_what_is_left_and_spawns_are_cancelled_from_then_on() {
    let governor = governor(ONE).await;
    let query = governor.admit(&bi()).await.unwrap();
    let waiting = query.spawn(std::future::pending::<()>());
    governor.shutdown(Duration::from_millis(20)).await;
    assert_eq!(
        waiting.await.unwrap_err().reason(),
        Some(&KillReason::Shutdown)
    );
    assert!(query.spawn(async {}).await.unwrap_err().is_cancelled());
    assert_eq!(
        governor.try_admit(&bi()).unwrap_err(),
        AdmissionError::ShuttingDown
    );
    governor.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_shows_what_a_group_runs_and_what_it_was_charged() {
    let governor = governor(ONE).await;
    let query = governor.admit(&bi()).await.unwrap();
    let work = async { std::thread::sleep(Duration::from_millis(20)) };
    query.run(work).await.unwrap();
    let _waits = query.spawn(std::future::pending::<()>());
    // Counters are poured out at the end of a slice, which may be a moment after the task's.
    let begin = std::time::Instant::now();
    let output = loop {
        let output = governor
            .execute("SHOW USAGE RESOURCE GROUP bi")
            .await
            .unwrap();
        let done = output[0].get(0, "tasks").unwrap().to_string() == "1";
        if done || begin.elapsed() > Duration::from_secs(20) {
            break output;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let cell = |column: &str| output[0].get(0, column).unwrap().to_string();
    assert_eq!((cell("running"), cell("tasks")), ("1".into(), "1".into()));
    // A blocking call inside a poll keeps the worker, and is charged.
    let cpu: f64 = cell("cpu_seconds").parse().unwrap();
    assert!(cpu >= 0.02, "{cpu}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_query_begins_no_task_any_more() {
    let governor = governor(ONE).await;
    let query = governor.admit(&bi()).await.unwrap();
    let found = governor.query(query.id()).unwrap();
    assert!(found.kill("enough"));
    let polled = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = polled.clone();
    let late = query.spawn(async move { flag.store(true, std::sync::atomic::Ordering::SeqCst) });
    let error = late.await.unwrap_err();
    assert!(matches!(error.reason(), Some(KillReason::Killed { why, .. }) if &**why == "enough"));
    assert!(!polled.load(std::sync::atomic::Ordering::SeqCst));
    let id = query.id();
    drop((query, found));
    assert!(governor.query(id).is_none(), "it has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_given_up_leaves_its_task_running() {
    let governor = governor(ONE).await;
    let query = governor.admit(&bi()).await.unwrap();
    let (go, may_go) = tokio::sync::oneshot::channel::<()>();
    let (tell, told) = tokio::sync::oneshot::channel();
    let run = query.run(async move {
        may_go.await.unwrap();
        tell.send("it went on").unwrap();
    });
    assert!(
        tokio::time::timeout(Duration::from_millis(5), run)
            .await
            .is_err()
    );
    go.send(()).unwrap();
    assert_eq!(told.await.unwrap(), "it went on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn or_replace_keeps_the_id_the_counters_and_the_running_queries() {
    let governor = governor(ONE).await;
    let query = governor.admit(&bi()).await.unwrap();
    query.run(async {}).await.unwrap();
    let before = governor.classify(&bi()).unwrap();
    let replace = "CREATE RESOURCE GROUP OR REPLACE bi TO (user='bi') WITH ('cpu_core_limit'='7', 'concurrency_limit'='1')";
    governor.execute(replace).await.unwrap();
    let after = governor.classify(&bi()).unwrap();
    assert_eq!(after.id(), before.id());
    assert_eq!(after.stats().tasks_total, 1);
    assert!(
        governor.try_admit(&bi()).is_err(),
        "the query still holds the place"
    );
    query.run(async {}).await.unwrap();
    assert_eq!(after.stats().tasks_total, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_counted_where_they_went_and_drops_where_they_were_charged() {
    struct SlowToDrop;
    impl Drop for SlowToDrop {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let governor = governor(ONE).await;
    for user in ["bi", "bi", "nobody"] {
        drop(governor.try_admit(&Attributes::new().user(user)).unwrap());
    }
    let by_name = Attributes::new().user("nobody").resource_group("bi");
    drop(governor.try_admit(&by_name).unwrap());
    let page = governor.render_metrics();
    for line in [
        "quotient_group_classified_total{group=\"bi\"} 3",
        "quotient_unclassified_total 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }

    let query = governor.admit(&bi()).await.unwrap();
    let value = SlowToDrop;
    let waits = query.spawn(async move {
        let _kept = value;
        std::future::pending::<()>().await
    });
    while query.usage().polls == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    query.record_scan_bytes(4096);
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    let dropped = || governor.classify(&bi()).unwrap().stats().cpu_drop;
    while dropped().0 == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(Duration::from(dropped()) >= Duration::from_millis(10));
    assert_eq!(query.usage().scan_bytes, 4096);
}

#[test]
fn errors_travel_and_handles_go_anywhere() {
    fn travels<E: std::error::Error + Send + Sync + 'static>() {}
    fn anywhere<T: Send + Sync + 'static>() {}
    travels::<quotient::Error>();
    travels::<quotient::sql::SqlError>();
    travels::<AdmissionError>();
    travels::<quotient::JoinError>();
    travels::<KillReason>();
    anywhere::<Governor>();
    anywhere::<quotient::Query>();
    anywhere::<quotient::GroupHandle>();
    anywhere::<quotient::JoinHandle<()>>();
    anywhere::<quotient::AbortHandle>();
    anywhere::<Attributes>();
}
