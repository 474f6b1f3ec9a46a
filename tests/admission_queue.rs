//! Waiting at the gate: in order, for no longer than allowed, and leaving at any instant without a trace.

#![allow(clippy::unwrap_used)]

use futures::FutureExt;
use quotient::admission::{
    Arrived, Gate, GovernorLimits, GroupLimits, Order, WaitReason, Waiting, Who,
};
use quotient::unit::{GroupId, Nanos, QueryId};
use quotient::{AdmissionError, Attributes, Governor, JoinError, KillReason};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const A: GroupId = GroupId(10_001);

fn limits(concurrency_limit: u64, max_queued_queries: u64, queue_timeout: Duration) -> GroupLimits {
    GroupLimits {
        concurrency_limit: Some(concurrency_limit),
        max_queued_queries,
        queue_timeout: queue_timeout.into(),
    }
}

fn gate(concurrency_limit: u64) -> Gate {
    let gate = Gate::new();
    gate.register(
        A,
        "a",
        limits(concurrency_limit, 1_000_000, Duration::from_secs(300)),
    );
    gate
}

fn line_up(gate: &Gate, id: u64) -> Waiting {
    match gate.arrive(A, QueryId(id), Who::default).unwrap() {
        Arrived::Waits(waiting) => waiting,
        Arrived::In(_) => panic!("there was a place"),
    }
}

fn state(gate: &Gate) -> (u64, u64) {
    let group = gate.group(A).unwrap();
    (group.running, group.queued)
}

/// A governor with one group for user `u`.
fn governed(properties: &str) -> (Governor, Attributes) {
    let governor = Governor::builder()
        .init_sql(&format!(
            "CREATE RESOURCE GROUP g TO (user='u') WITH ({properties})"
        ))
        .build()
        .unwrap();
    (governor, Attributes::new().user("u"))
}

fn seen(governor: &Governor) -> (u64, u64) {
    let metrics = governor.metrics();
    let row = metrics.groups.iter().find(|row| row.name == "g").unwrap();
    (row.queries_running, row.queries_queued)
}

fn refusal(error: &JoinError) -> &AdmissionError {
    match error.reason() {
        Some(KillReason::NotAdmitted(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

// ---- in order ---------------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn those_that_wait_start_in_order_as_soon_as_there_is_a_place() {
    let (governor, user) = governed("'concurrency_limit'='2', 'max_queued_queries'='10'");
    let order = Arc::new(Mutex::new(Vec::new()));
    let handles: Vec<_> = (0..8)
        .map(|number| {
            let order = order.clone();
            governor.spawn(&user, async move {
                order.lock().unwrap().push(number);
                sleep(Duration::from_millis(10)).await;
            })
        })
        .collect();
    assert_eq!(seen(&governor), (2, 6));
    let begun = Instant::now();
    for handle in handles {
        handle.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
    assert_eq!(begun.elapsed().as_millis() / 10, 4, "two at a time");
    settle().await;
    assert_eq!(seen(&governor), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_query_that_waited_is_a_query_like_any_other() {
    let (governor, user) = governed("'concurrency_limit'='1', 'max_queued_queries'='10'");
    let first = governor.admit(&user).await.unwrap();
    let inside = governor.clone();
    let attributes = user.clone();
    let late = governor.spawn(&user, async move {
        let query = quotient::Query::current().unwrap();
        // Nested in it, one of the same group shares its place; its children are its own.
        let nested = inside.admit(&attributes).await.unwrap();
        let child = quotient::spawn(async { quotient::Query::current().map(|query| query.id()) });
        assert_eq!(child.await.unwrap(), Some(query.id()));
        assert_ne!(nested.id(), query.id());
        quotient::record_scan_rows(7);
        (query.id(), query.usage().scan_rows, query.usage().elapsed)
    });
    sleep(Duration::from_secs(1)).await;
    assert!(governor.query(first.id()).is_some());
    drop(first);
    let (id, rows, elapsed) = late.await.unwrap();
    assert_eq!(
        (rows, elapsed),
        (7, Duration::ZERO),
        "elapsed counts from admission"
    );
    settle().await;
    assert!(governor.query(id).is_none());
    assert_eq!(seen(&governor), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_held_for_as_long_as_the_query_runs_not_for_the_time_it_could_have_waited() {
    let (governor, user) =
        governed("'concurrency_limit'='1', 'max_queued_queries'='10', 'queue_timeout'='1s'");
    let long = governor.spawn(&user, sleep(Duration::from_secs(3)));
    sleep(Duration::from_millis(2_500)).await;
    let next = governor.spawn(&user, async { Instant::now() });
    let begun = Instant::now();
    long.await.unwrap();
    assert!(next.await.unwrap() - begun >= Duration::from_millis(500));
}

// ---- time ---------------------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn the_wait_ends_at_queue_timeout_with_its_numbers() {
    let (governor, user) =
        governed("'concurrency_limit'='1', 'max_queued_queries'='1', 'queue_timeout'='250ms'");
    let _held = governor.admit(&user).await.unwrap();
    // The clock of the wait begins at enqueue, not when the request was thought of.
    sleep(Duration::from_secs(2)).await;
    let begun = Instant::now();
    let error = governor.admit(&user).await.unwrap_err();
    let AdmissionError::Timeout {
        group,
        waited,
        reason,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((&**group, *reason), ("g", WaitReason::GroupLimit));
    assert!(
        *waited >= Duration::from_millis(250) && *waited < Duration::from_millis(260),
        "{waited:?}"
    );
    assert!(begun.elapsed() < Duration::from_millis(260));
    assert!(error.is_transient());
    assert_eq!(seen(&governor), (1, 0));
    let page = governor.render_metrics();
    let line =
        "quotient_group_admission_total{group=\"g\",outcome=\"timed_out\",reason=\"queue\"} 1";
    assert!(page.contains(line), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_spawn_is_the_handles_error() {
    let (governor, user) =
        governed("'concurrency_limit'='1', 'max_queued_queries'='2', 'queue_timeout'='1s'");
    let _held = governor.admit(&user).await.unwrap();
    let late = governor.spawn(&user, async { unreachable!("it was never admitted") });
    let error = late.await.map(|(): ()| ()).unwrap_err();
    assert!(error.is_cancelled());
    assert!(
        matches!(refusal(&error), AdmissionError::Timeout { .. }),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn alter_of_queue_timeout_binds_those_that_wait() {
    let (governor, user) =
        governed("'concurrency_limit'='1', 'max_queued_queries'='9', 'queue_timeout'='60s'");
    let _held = governor.admit(&user).await.unwrap();
    let begun = Instant::now();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let (governor, user) = (governor.clone(), user.clone());
            tokio::spawn(async move { governor.admit(&user).await.map(drop) })
        })
        .collect();
    sleep(Duration::from_secs(1)).await;
    governor
        .execute("ALTER RESOURCE GROUP g WITH ('queue_timeout'='2s')")
        .await
        .unwrap();
    for waiting in waiting {
        let error = waiting.await.unwrap().unwrap_err();
        assert!(matches!(error, AdmissionError::Timeout { .. }), "{error}");
    }
    assert!(
        begun.elapsed() < Duration::from_millis(2_100),
        "{:?}",
        begun.elapsed()
    );
    // Longer again, it lets them wait longer than they were told at first.
    let (other, attributes) = (governor.clone(), user.clone());
    let patient = tokio::spawn(async move { other.admit(&attributes).await.map(drop) });
    sleep(Duration::from_secs(1)).await;
    governor
        .execute("ALTER RESOURCE GROUP g WITH ('queue_timeout'='10s')")
        .await
        .unwrap();
    sleep(Duration::from_secs(5)).await;
    assert!(!patient.is_finished());
    sleep(Duration::from_secs(5)).await;
    assert!(patient.is_finished());
}

#[test]
fn without_timers_those_that_wait_are_served_and_have_no_deadline() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (governor, user) =
            governed("'concurrency_limit'='1', 'max_queued_queries'='9', 'queue_timeout'='1ms'");
        let held = governor.admit(&user).await.unwrap();
        let waiting = governor.spawn(&user, async { 7 });
        settle().await;
        drop(held);
        assert_eq!(waiting.await.unwrap(), 7);
    });
}

#[test]
fn a_request_may_wait_outside_of_any_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let gate = runtime.block_on(async { gate(1) });
    gate.set_limits(A, limits(1, 9, Duration::from_millis(20)));
    let held = gate.try_admit(A).unwrap();
    let error = futures::executor::block_on(line_up(&gate, 1)).unwrap_err();
    assert!(matches!(error, AdmissionError::Timeout { .. }), "{error}");
    drop(held);
}

// ---- leaving --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn whoever_is_dropped_leaves_the_line_and_the_next_one_starts() {
    let gate = gate(1);
    let held = gate.try_admit(A).unwrap();
    let (first, mut second, third) = (line_up(&gate, 1), line_up(&gate, 2), line_up(&gate, 3));
    drop(first);
    drop(third);
    assert_eq!(state(&gate), (1, 1));
    assert!((&mut second).now_or_never().is_none());
    drop(held);
    let permit = second.now_or_never().unwrap().unwrap();
    assert_eq!(state(&gate), (1, 0));
    drop(permit);
    assert_eq!(gate.group(A).unwrap().counts.cancelled.place, 2);
}

#[tokio::test]
async fn a_place_given_to_one_that_goes_before_it_looks_passes_on() {
    let gate = gate(1);
    let held = gate.try_admit(A).unwrap();
    let waiting: Vec<_> = (1..=5).map(|id| line_up(&gate, id)).collect();
    drop(held);
    assert_eq!(state(&gate), (1, 4), "the first has it, and has not looked");
    for (gone, waiting) in (1..).zip(waiting) {
        drop(waiting);
        assert_eq!(
            state(&gate),
            (u64::from(gone < 5), 4_u64.saturating_sub(gone))
        );
    }
}

#[tokio::test]
async fn a_hundred_thousand_that_all_go_leave_nothing_and_overflow_no_stack() {
    let gate = gate(1);
    let held = gate.try_admit(A).unwrap();
    let waiting: Vec<_> = (1..=100_000).map(|id| line_up(&gate, id)).collect();
    drop(held);
    drop(waiting);
    assert_eq!(state(&gate), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_drops_at_any_instant_lose_no_place() {
    let (governor, user) =
        governed("'concurrency_limit'='3', 'max_queued_queries'='2000', 'queue_timeout'='3ms'");
    let mut random = 1_u64;
    let mut tasks = Vec::new();
    for _ in 0..1_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (governor, user, patience) = (governor.clone(), user.clone(), (random >> 33) % 5_000);
        tasks.push(tokio::spawn(async move {
            let work = async {
                let query = governor.admit(&user).await?;
                tokio::task::yield_now().await;
                drop(query);
                Ok::<_, AdmissionError>(())
            };
            let _ = timeout(Duration::from_micros(patience), work).await;
        }));
        if random.is_multiple_of(7) {
            tokio::task::yield_now().await;
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(seen(&governor), (0, 0));
    assert!(governor.try_admit(&user).is_ok());
}

#[tokio::test(start_paused = true)]
async fn aborting_the_handle_of_a_spawn_that_waits_leaves_the_line_at_once() {
    let (governor, user) = governed("'concurrency_limit'='1', 'max_queued_queries'='9'");
    let held = governor.admit(&user).await.unwrap();
    let first = governor.spawn(&user, async {});
    let second = governor.spawn(&user, async { 2 });
    settle().await;
    assert_eq!(seen(&governor), (1, 2));
    first.abort();
    let error = first.await.unwrap_err();
    assert!(error.is_cancelled() && error.reason().is_none());
    assert_eq!(seen(&governor), (1, 1));
    drop(held);
    assert_eq!(second.await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_is_dropped_detaches_and_the_query_still_waits_and_runs() {
    let (governor, user) = governed("'concurrency_limit'='1', 'max_queued_queries'='9'");
    let held = governor.admit(&user).await.unwrap();
    let (tell, told) = tokio::sync::oneshot::channel();
    drop(governor.spawn(&user, async move { tell.send(5) }));
    settle().await;
    assert_eq!(seen(&governor), (1, 1));
    drop(held);
    assert_eq!(told.await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn panics_of_queries_that_waited_free_their_places() {
    let (governor, user) = governed("'concurrency_limit'='2', 'max_queued_queries'='100'");
    let handles: Vec<_> = (0..50)
        .map(|number| {
            governor.spawn(&user, async move {
                sleep(Duration::from_millis(1)).await;
                if number % 2 == 0 {
                    std::panic::resume_unwind(Box::new("the query failed"));
                }
            })
        })
        .collect();
    let mut failed = 0;
    for handle in handles {
        failed += u64::from(handle.await.is_err_and(|error| error.is_panic()));
    }
    settle().await;
    assert_eq!((failed, seen(&governor)), (25, (0, 0)));
}

// ---- wakers ----------------------------------------------------------------------------------------------------------

/// A waker that uses the gate from inside: a deadlock if it is called or dropped under the gate's lock.
struct Nosy {
    gate: Gate,
    woken: AtomicU64,
    panics: bool,
}

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        let list = self.gate.waiting();
        let in_line = list.iter().filter(|it| it.reason.is_some()).count();
        assert_eq!(in_line as u64, state(&self.gate).1);
        if self.panics {
            std::panic::resume_unwind(Box::new("a waker that panics"));
        }
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        let _ = self.gate.groups();
    }
}

#[tokio::test]
async fn no_foreign_waker_is_called_or_dropped_under_the_gates_lock() {
    let gate = gate(1);
    let held = gate.try_admit(A).unwrap();
    let mut waiting: Vec<_> = (1..=4).map(|id| line_up(&gate, id)).collect();
    let mut polled = |at: usize, panics| {
        let nosy = Arc::new(Nosy {
            gate: gate.clone(),
            woken: AtomicU64::new(0),
            panics,
        });
        let waker = Waker::from(nosy.clone());
        let poll = pin!(&mut waiting[at]).poll(&mut Context::from_waker(&waker));
        assert!(poll.is_pending());
        nosy
    };
    let replaced = polled(0, false);
    let first = polled(0, true);
    let (second, third, fourth) = (polled(1, false), polled(2, false), polled(3, false));
    assert!(gate.kill_waiting(QueryId(3), "why not"));
    assert_eq!(third.woken.load(Ordering::SeqCst), 1);
    // The first waker panics; the place is the first request's all the same, and nobody is forgotten.
    assert!(catch_unwind(AssertUnwindSafe(|| drop(held))).is_ok());
    assert_eq!(first.woken.load(Ordering::SeqCst), 1);
    assert_eq!(replaced.woken.load(Ordering::SeqCst), 0);
    gate.set_limits(A, limits(9, 9, Duration::from_secs(9)));
    for one in [&second, &fourth] {
        assert_eq!(one.woken.load(Ordering::SeqCst), 1);
    }
    drop(waiting);
    assert_eq!(state(&gate), (0, 0));
}

// ---- what happens meanwhile ------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_raised_limit_starts_as_many_as_fit_and_a_lowered_one_ends_nobody() {
    let (governor, user) = governed("'concurrency_limit'='1', 'max_queued_queries'='100'");
    let held = governor.admit(&user).await.unwrap();
    let (go, gone) = tokio::sync::watch::channel(false);
    let handles: Vec<_> = (0..10)
        .map(|_| {
            let mut gone = gone.clone();
            governor.spawn(
                &user,
                async move { gone.wait_for(|go| *go).await.map(drop) },
            )
        })
        .collect();
    settle().await;
    let alter = |limit: u64| {
        let governor = governor.clone();
        async move {
            let text = format!("ALTER RESOURCE GROUP g WITH ('concurrency_limit'='{limit}')");
            governor.execute(&text).await.unwrap();
        }
    };
    alter(5).await;
    assert_eq!(seen(&governor), (5, 6));
    alter(2).await;
    assert_eq!(seen(&governor), (5, 6));
    drop(held);
    assert_eq!(seen(&governor), (4, 6), "none starts until below the limit");
    go.send(true).unwrap();
    for handle in handles {
        handle.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_in_a_dropped_group_start_in_it_and_later_ones_go_elsewhere() {
    let (governor, user) = governed("'concurrency_limit'='1', 'max_queued_queries'='9'");
    let held = governor.admit(&user).await.unwrap();
    let waiting = governor.spawn(&user, async {
        quotient::Query::current().map(|query| query.group().to_owned())
    });
    settle().await;
    governor.execute("DROP RESOURCE GROUP g").await.unwrap();
    let elsewhere = governor.admit(&user).await.unwrap();
    assert_eq!(elsewhere.group(), "default_wg");
    assert_eq!(seen(&governor), (1, 1));
    drop(held);
    assert_eq!(waiting.await.unwrap().as_deref(), Some("g"));
    settle().await;
    assert!(governor.metrics().groups.iter().all(|row| row.name != "g"));
}

#[tokio::test(start_paused = true)]
async fn killing_a_query_that_waits_ends_its_wait_with_the_reason() {
    let gate = gate(1);
    let held = gate.try_admit(A).unwrap();
    let who = || Who {
        user: Some("ann".into()),
        dbs: vec!["sales".into()],
    };
    let Ok(Arrived::Waits(first)) = gate.arrive(A, QueryId(8), who) else {
        panic!("it has a place")
    };
    let second = line_up(&gate, 9);
    let list = gate.waiting();
    assert_eq!(list.len(), 2);
    assert_eq!((list[0].id, list[0].who.clone()), (QueryId(8), who()));
    assert_eq!(&*list[0].group_name, "a");
    assert_eq!((list[1].position, list[1].queued), (2, 2));
    assert_eq!(list[1].reason, Some(WaitReason::GroupLimit));
    assert!(gate.kill_waiting(QueryId(8), "by ops"));
    assert!(!gate.kill_waiting(QueryId(8), "again"));
    let killed = AdmissionError::Killed {
        why: "by ops".into(),
    };
    assert_eq!(first.await.unwrap_err(), killed);
    drop(held);
    assert_eq!(state(&gate), (1, 0));
    let given = gate.waiting();
    assert_eq!((given.len(), given[0].id), (1, QueryId(9)));
    assert_eq!((given[0].reason, given[0].position), (None, 0));
    let place = second.await.unwrap();
    assert!(gate.waiting().is_empty());
    assert!(!gate.kill_waiting(QueryId(9), "too late"));
    drop(place);
    assert_eq!(state(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_given_and_not_taken_passes_on_when_its_query_is_killed() {
    let gate = gate(1);
    let held = gate.try_admit(A).unwrap();
    let (first, second) = (line_up(&gate, 8), line_up(&gate, 9));
    drop(held);
    assert!(gate.kill_waiting(QueryId(8), "by ops"));
    assert!(!gate.kill_waiting(QueryId(8), "again"));
    let list = gate.waiting();
    let list: Vec<_> = list.iter().map(|it| (it.id, it.reason)).collect();
    assert_eq!(list, [(QueryId(9), None)], "the place is the next one's");
    assert!(matches!(
        first.await.unwrap_err(),
        AdmissionError::Killed { .. }
    ));
    drop(second.await.unwrap());
    assert!(gate.waiting().is_empty());
    assert_eq!(state(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn shutdown_tells_those_that_wait_at_once() {
    let (governor, user) = governed("'concurrency_limit'='1', 'max_queued_queries'='9'");
    let held = governor.admit(&user).await.unwrap();
    let spawned = governor.spawn(&user, async {});
    let (other, attributes) = (governor.clone(), user.clone());
    let admitting = tokio::spawn(async move { other.admit(&attributes).await.map(drop) });
    settle().await;
    let begun = Instant::now();
    let stopping = governor.clone();
    let stop = tokio::spawn(async move { stopping.shutdown(Duration::from_secs(60)).await });
    assert_eq!(admitting.await.unwrap(), Err(AdmissionError::ShuttingDown));
    let error = spawned.await.unwrap_err();
    assert_eq!(*refusal(&error), AdmissionError::ShuttingDown);
    assert!(begun.elapsed() < Duration::from_secs(1));
    drop(held);
    stop.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_governor_ends_what_it_spawned_and_was_waiting() {
    let (governor, user) = governed("'concurrency_limit'='1', 'max_queued_queries'='9'");
    let held = governor.admit(&user).await.unwrap();
    let spawned = governor.spawn(&user, async {});
    settle().await;
    drop(governor);
    assert!(spawned.await.unwrap_err().is_cancelled());
    drop(held);
}

#[tokio::test]
async fn try_admit_never_waits_and_says_why() {
    let (governor, user) = governed("'concurrency_limit'='1', 'max_queued_queries'='9'");
    let _held = governor.try_admit(&user).unwrap();
    let waiting = pin!(governor.admit(&user));
    assert!(matches!(futures::poll!(waiting), Poll::Pending));
    let refused = governor.try_admit(&user).unwrap_err();
    assert!(
        matches!(
            refused,
            AdmissionError::Rejected {
                limit: 1,
                running: 1,
                ..
            }
        ),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_full_refuses_with_its_capacity() {
    let (governor, user) = governed("'concurrency_limit'='1', 'max_queued_queries'='2'");
    let handles: Vec<_> = (0..4)
        .map(|_| governor.spawn(&user, sleep(Duration::from_millis(5))))
        .collect();
    let mut results = Vec::new();
    for handle in handles {
        results.push(handle.await);
    }
    let error = results.pop().unwrap().unwrap_err();
    assert!(
        matches!(
            refusal(&error),
            AdmissionError::QueueFull {
                limit: 2,
                queued: 2,
                ..
            }
        ),
        "{error}"
    );
    assert!(results.iter().all(Result::is_ok));
}

// ---- over all groups -----------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn one_busy_group_does_not_hold_the_governors_queue() {
    const B: GroupId = GroupId(10_002);
    let gate = Gate::new();
    gate.register(A, "a", None);
    gate.register(B, "b", None);
    gate.set_governor(GovernorLimits {
        runner_threads: Some(2),
        order: Order::RoundRobin,
        throttle: None,
    });
    let held = [gate.try_admit(A).unwrap(), gate.try_admit(A).unwrap()];
    let busy: Vec<_> = (0..100).map(|id| line_up(&gate, id)).collect();
    let Ok(Arrived::Waits(lone)) = gate.arrive(B, QueryId(1_000), Who::default) else {
        panic!("it has a place")
    };
    drop(held);
    let permit = lone
        .now_or_never()
        .expect("served by the second turn")
        .unwrap();
    assert_eq!(state(&gate), (1, 99));
    drop((permit, busy));
}

#[tokio::test]
async fn time_that_nobody_reaches_is_no_deadline() {
    let gate = gate(1);
    gate.set_limits(
        A,
        GroupLimits {
            queue_timeout: Nanos::MAX,
            ..limits(1, 9, Duration::ZERO)
        },
    );
    let held = gate.try_admit(A).unwrap();
    let mut waiting = line_up(&gate, 1);
    assert!((&mut waiting).now_or_never().is_none());
    drop(held);
    assert!(waiting.await.is_ok());
}
