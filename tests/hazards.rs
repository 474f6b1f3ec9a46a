//! What goes wrong with tasks on executors, and must not here: wakes, aborts, destructors.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{current_thread, eventually, governor, grounds, multi_thread, named, watched};
use std::collections::HashSet;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;
use std::time::Duration;
use tokio::sync::oneshot;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='1');";

#[test]
fn a_wake_while_the_task_runs_is_one_more_poll() {
    const ROUNDS: usize = 10_000;
    let _watched = watched("wake while running");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let (send, receive) = mpsc::channel::<(Waker, Arc<AtomicBool>)>();
    let waking = std::thread::spawn(move || {
        for (waker, woken) in receive {
            waker.wake();
            woken.store(true, Ordering::SeqCst);
        }
    });
    let mut polls = 0;
    let future = poll_fn(move |cx| {
        polls += 1;
        if polls > ROUNDS {
            return Poll::Ready(polls);
        }
        let woken = Arc::new(AtomicBool::new(false));
        send.send((cx.waker().clone(), woken.clone())).unwrap();
        while !woken.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        Poll::Pending
    });
    let handle = governor.spawn_in("g", future).unwrap();
    assert_eq!(runtime.block_on(handle).unwrap(), ROUNDS + 1);
    waking.join().unwrap();
}

#[test]
fn many_wakes_before_a_poll_are_one_poll() {
    let _watched = watched("many wakes");
    let runtime = current_thread();
    let governor = governor(&runtime, 1, SQL);
    let polls = Arc::new(AtomicUsize::new(0));
    let seen = polls.clone();
    let handle = governor
        .spawn_in(
            "g",
            poll_fn(move |cx| {
                let n = seen.fetch_add(1, Ordering::SeqCst);
                (0..100).for_each(|_| cx.waker().wake_by_ref());
                if n == 9 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }),
        )
        .unwrap();
    runtime.block_on(handle).unwrap();
    assert_eq!(polls.load(Ordering::SeqCst), 10);
}

#[test]
fn a_wake_after_completion_or_abort_is_nothing() {
    const TASKS: usize = 200;
    let _watched = watched("wake after the end");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
    let polls_after = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        for i in 0..TASKS {
            let (kept, after) = (wakers.clone(), polls_after.clone());
            let mut ended = false;
            let handle = governor
                .spawn_in(
                    "g",
                    poll_fn(move |cx| {
                        if ended {
                            after.fetch_add(1, Ordering::SeqCst);
                        }
                        kept.lock().unwrap().push(cx.waker().clone());
                        ended = i % 2 == 0;
                        if ended {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    }),
                )
                .unwrap();
            if i % 2 == 1 {
                eventually("it waits", || wakers.lock().unwrap().len() > i).await;
                handle.abort();
            }
            let _ = handle.await;
        }
    });
    let wakers = Arc::new(std::mem::take(&mut *wakers.lock().unwrap()));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let wakers = wakers.clone();
            std::thread::spawn(move || {
                for waker in wakers.iter() {
                    let clone = waker.clone();
                    waker.wake_by_ref();
                    clone.wake();
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    runtime.block_on(live::settled(&governor, "g"));
    assert_eq!(polls_after.load(Ordering::SeqCst), 0);
}

/// Notes the thread on which it dies.
struct DiesOn(Arc<Mutex<Vec<ThreadId>>>);

impl Drop for DiesOn {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(std::thread::current().id());
    }
}

/// Waits for ever and gives its waker away.
struct GivesWaker(Arc<Mutex<Option<Waker>>>);

impl Future for GivesWaker {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        *self.0.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[test]
fn a_future_is_dropped_by_the_executor_whoever_lets_go_of_the_task() {
    let _watched = watched("dropped by the executor");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let deaths: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    let mut expected = 0;
    for polled in [false, true] {
        for way in [
            "abort",
            "abort and drop",
            "drop handle and waker",
            "drop waker, then abort",
        ] {
            let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
            let (dies, gives) = (DiesOn(deaths.clone()), GivesWaker(waker.clone()));
            let handle = governor
                .spawn_in("g", async move {
                    let _kept = dies;
                    gives.await;
                })
                .unwrap();
            if polled || way.contains("waker") {
                live::eventually_blocking("it is polled", || waker.lock().unwrap().is_some());
            }
            match way {
                "abort" => {
                    handle.abort();
                    drop(runtime.block_on(handle));
                }
                "abort and drop" => {
                    handle.abort();
                    drop(handle);
                }
                "drop handle and waker" => {
                    let abort = handle.abort_handle();
                    drop(handle);
                    drop(waker.lock().unwrap().take());
                    abort.abort();
                }
                _ => {
                    drop(waker.lock().unwrap().take());
                    handle.abort();
                }
            }
            expected += 1;
            live::eventually_blocking(way, || deaths.lock().unwrap().len() == expected);
        }
    }
    // Nobody but this thread and the executor's ever had the task.
    let here = std::thread::current().id();
    assert!(!deaths.lock().unwrap().contains(&here), "dropped here");
}

#[test]
fn a_task_that_nobody_can_wake_is_kept_for_its_handle() {
    let _watched = watched("kept for its handle");
    for runtime in grounds(2) {
        let governor = governor(&runtime, 2, SQL);
        runtime.block_on(async {
            let handle = governor.spawn_in("g", pending::<()>()).unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!handle.is_finished());
            handle.abort();
            assert!(handle.await.unwrap_err().is_cancelled());
        });
    }
}

#[test]
fn detached_tasks_that_nobody_can_wake_die_once_and_at_the_latest_with_the_governor() {
    const TASKS: usize = 10_000;
    let _watched = watched("detached pending");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let deaths: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    for _ in 0..TASKS {
        let dies = DiesOn(deaths.clone());
        drop(governor.spawn_in("g", async move {
            let _kept = dies;
            pending::<()>().await;
        }));
    }
    runtime.block_on(governor.shutdown(Duration::ZERO));
    assert_eq!(deaths.lock().unwrap().len(), TASKS);
    let here = std::thread::current().id();
    assert!(!deaths.lock().unwrap().contains(&here));
}

/// Spawns in its `wake`, as a join waker.
struct SpawnsOnWake(quotient::Governor, Mutex<Option<oneshot::Sender<()>>>);

impl Wake for SpawnsOnWake {
    fn wake(self: Arc<Self>) {
        let sender = self.1.lock().unwrap().take();
        drop(
            self.0
                .spawn_in("other", async move { sender.map(|s| s.send(())) }),
        );
    }
}

#[test]
fn a_join_waker_may_spawn() {
    let _watched = watched("spawn in wake");
    for runtime in grounds(2) {
        let governor = governor(&runtime, 2, SQL);
        runtime.block_on(async {
            for _ in 0..100 {
                let (go, may_go) = oneshot::channel::<()>();
                let (send, spawned) = oneshot::channel();
                let mut handle = governor.spawn_in("g", may_go).unwrap();
                let waker = Waker::from(Arc::new(SpawnsOnWake(
                    governor.clone(),
                    Mutex::new(Some(send)),
                )));
                let poll = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
                assert!(poll.is_pending());
                go.send(()).unwrap();
                spawned.await.unwrap();
            }
        });
    }
}

/// Does in its destructor whatever takes a lock.
struct Meddles(quotient::Governor, quotient::AbortHandle);

impl Drop for Meddles {
    fn drop(&mut self) {
        self.1.abort();
        drop(self.0.spawn_in("g", async {}));
        drop(quotient::spawn(async {}));
        let _ = self.0.classify(&named("other")).map(|group| group.stats());
        let _ = self.0.render_metrics();
    }
}

#[test]
fn a_destructor_may_use_everything() {
    let _watched = watched("destructor");
    for runtime in grounds(2) {
        let governor = governor(&runtime, 2, SQL);
        runtime.block_on(async {
            for i in 0..200 {
                let victim = governor.spawn_in("other", pending::<()>()).unwrap();
                let meddles = Meddles(governor.clone(), victim.abort_handle());
                let handle = governor.spawn_in("g", async move {
                    let _kept = meddles;
                    if i % 2 == 0 {
                        pending::<()>().await;
                    }
                });
                let handle = handle.unwrap();
                if i % 2 == 0 {
                    handle.abort();
                }
                drop(handle.await);
                assert!(victim.await.unwrap_err().is_cancelled());
            }
            live::settled(&governor, "g").await;
            live::settled(&governor, "other").await;
        });
    }
}

/// Everything of the user's that a task holds says on which thread it ran.
#[test]
fn no_code_of_the_users_runs_inside_a_wake() {
    const TASKS: usize = 300;
    let _watched = watched("user code in wake");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let polls: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
    let deaths: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
    let (send, receive) = mpsc::channel::<Waker>();
    for i in 0..TASKS {
        let (polled, dies, send) = (polls.clone(), DiesOn(deaths.clone()), send.clone());
        let mut times = 0;
        let future = poll_fn(move |cx| {
            let _kept = &dies;
            polled.lock().unwrap().insert(std::thread::current().id());
            let _ = send.send(cx.waker().clone());
            times += 1;
            match (times, i % 3) {
                (3, 0) => Poll::Ready(()),
                (3, 1) => panic!("planned: in a poll that a wake began"),
                _ => Poll::Pending,
            }
        });
        let handle = governor.spawn_in("g", future).unwrap();
        if i % 3 == 2 {
            handle.abort();
        }
        drop(handle);
    }
    drop(send);
    // Woken here, as the only one who does: by value, by reference, and as the last who has the waker.
    for (i, waker) in receive.iter().enumerate() {
        if i % 2 == 0 {
            waker.wake_by_ref();
        } else {
            waker.wake();
        }
    }
    live::eventually_blocking("all die", || deaths.lock().unwrap().len() == TASKS);
    let here = std::thread::current().id();
    assert!(
        !polls.lock().unwrap().contains(&here),
        "polled inside a wake"
    );
    assert!(
        !deaths.lock().unwrap().contains(&here),
        "dropped inside a wake"
    );
}
