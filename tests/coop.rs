//! tokio's cooperative budget inside our tasks: one for each poll, never shared, never lost.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{Ground, current_thread, governor, multi_thread, watched};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::{Semaphore, mpsc};

const MESSAGES: usize = 100_000;

/// tokio grants 128 operations a poll, of which our guard may take one: 782 or 788 polls.
const POLLS: std::ops::RangeInclusive<usize> = 700..=900;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='1');";

/// Counts the polls of a future.
struct Polls<F>(Pin<Box<F>>, Arc<AtomicUsize>);

fn counted<F: Future>(future: F) -> (Polls<F>, Arc<AtomicUsize>) {
    let polls = Arc::new(AtomicUsize::new(0));
    (Polls(Box::pin(future), polls.clone()), polls)
}

impl<F: Future> Future for Polls<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.as_mut().poll(cx)
    }
}

/// A channel that is full of ready messages and closed.
fn ready(messages: usize) -> mpsc::UnboundedReceiver<usize> {
    let (send, receive) = mpsc::unbounded_channel();
    (0..messages).for_each(|i| send.send(i).unwrap());
    receive
}

async fn drain(mut receiver: mpsc::UnboundedReceiver<usize>) -> usize {
    let mut count = 0;
    while receiver.recv().await.is_some() {
        count += 1;
    }
    count
}

fn on_every_host(test: impl Fn(Ground, &str)) {
    test(Ground::Tokio(multi_thread(2)), "multi-thread");
    test(
        Ground::Tokio(multi_thread(1)),
        "multi-thread with one worker",
    );
    test(Ground::Tokio(current_thread()), "current-thread");
    test(Ground::owned(), "owned");
}

#[test]
fn draining_100_000_ready_messages_takes_as_many_polls_as_on_tokio() {
    let _watched = watched("draining");
    on_every_host(|runtime, flavour| {
        let governor = governor(&runtime, 2, SQL);
        runtime.block_on(async {
            let (future, plain) = counted(drain(ready(MESSAGES)));
            assert_eq!(tokio::spawn(future).await.unwrap(), MESSAGES);
            let (future, ours) = counted(drain(ready(MESSAGES)));
            let handle = governor.spawn_in("g", future).unwrap();
            assert_eq!(handle.await.unwrap(), MESSAGES);
            let [plain, ours] = [plain, ours].map(|polls| polls.load(Ordering::SeqCst));
            assert!(
                POLLS.contains(&plain),
                "{flavour}: tokio itself: {plain} polls"
            );
            assert!(
                POLLS.contains(&ours),
                "{flavour}: {ours} polls, tokio: {plain}"
            );
        });
    });
}

#[test]
fn each_of_many_tasks_in_one_slice_has_a_whole_budget() {
    const TASKS: usize = 8;
    let _watched = watched("whole budget");
    on_every_host(|runtime, flavour| {
        let governor = governor(&runtime, 2, SQL);
        runtime.block_on(async {
            let tasks: Vec<_> = (0..TASKS)
                .map(|i| {
                    let (future, polls) = counted(drain(ready(MESSAGES / TASKS)));
                    let group = if i % 2 == 0 { "g" } else { "other" };
                    (governor.spawn_in(group, future).unwrap(), polls)
                })
                .collect();
            for (handle, polls) in tasks {
                assert_eq!(handle.await.unwrap(), MESSAGES / TASKS);
                let polls = polls.load(Ordering::SeqCst) * TASKS;
                assert!(POLLS.contains(&polls), "{flavour}: {polls} polls for all");
            }
        });
    });
}

/// Takes ready permits without end until the neighbour has had its turn; returns its own polls until then.
async fn hog(met: Arc<AtomicBool>) {
    let permits = Semaphore::new(1);
    while !met.load(Ordering::SeqCst) {
        drop(permits.acquire().await.unwrap());
    }
}

#[test]
fn a_hog_of_ready_operations_does_not_stop_its_neighbour() {
    let _watched = watched("hog");
    on_every_host(|runtime, flavour| {
        for group in ["g", "other"] {
            let governor = governor(&runtime, 1, SQL);
            runtime.block_on(async {
                let met = Arc::new(AtomicBool::new(false));
                let (future, polls) = counted(hog(met.clone()));
                let running = governor.spawn_in("g", future).unwrap();
                live::eventually("the hog runs", || polls.load(Ordering::SeqCst) > 0).await;
                let neighbour = governor
                    .spawn_in(group, async move {
                        quotient::task::yield_now().await;
                        met.store(true, Ordering::SeqCst);
                    })
                    .unwrap();
                neighbour.await.unwrap();
                running.await.unwrap();
            });
            runtime.block_on(governor.shutdown(std::time::Duration::ZERO));
        }
        println!("{flavour}: the neighbour ran");
    });
}

#[test]
fn a_neighbour_in_the_same_group_runs_within_a_few_polls_of_the_hog() {
    let _watched = watched("same slice");
    // One worker, both queued before either runs: what the neighbour waits for is the hog's polls alone.
    let runtime = current_thread();
    let governor = governor(&runtime, 1, SQL);
    runtime.block_on(async {
        let met = Arc::new(AtomicBool::new(false));
        let (future, polls) = counted(hog(met.clone()));
        let running = governor.spawn_in("g", future).unwrap();
        let seen = polls.clone();
        let neighbour = governor
            .spawn_in("g", async move {
                met.store(true, Ordering::SeqCst);
                seen.load(Ordering::SeqCst)
            })
            .unwrap();
        let before = neighbour.await.unwrap();
        running.await.unwrap();
        assert!(
            before <= 3,
            "the hog was polled {before} times before its neighbour"
        );
    });
}

#[test]
fn an_exhausted_budget_in_one_task_leaves_plain_tokio_tasks_running() {
    let _watched = watched("plain tasks");
    on_every_host(|runtime, _| {
        let governor = governor(&runtime, 2, SQL);
        runtime.block_on(async {
            let met = Arc::new(AtomicBool::new(false));
            let hogs: Vec<_> = (0..4)
                .map(|_| governor.spawn_in("g", hog(met.clone())).unwrap())
                .collect();
            let plain = tokio::spawn(async {
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            });
            plain.await.unwrap();
            met.store(true, Ordering::SeqCst);
            for hog in hogs {
                hog.await.unwrap();
            }
        });
    });
}

/// Tasks that all give way by tokio's own `yield_now` come back by the host's next turn: their worker is not put to sleep
/// and woken again for every round of them.
#[test]
fn a_worker_does_not_sleep_for_every_round_of_tokios_yield_now() {
    const TASKS: usize = 100;
    const ROUNDS: usize = 500;
    for groups in [1, 2] {
        let runtime = multi_thread(1);
        let governor = governor(&runtime, 1, SQL);
        // By a task of the one worker's: none of them begins, and sleeps alone, before all are there.
        let spawner = governor.clone();
        let spawns = async move {
            let spawn = |i| {
                let group = ["g", "other"][i % groups];
                let task = async {
                    for _ in 0..ROUNDS {
                        tokio::task::yield_now().await;
                    }
                };
                spawner.spawn_in(group, task).unwrap()
            };
            (0..TASKS).map(spawn).collect::<Vec<_>>()
        };
        let tasks = runtime.block_on(governor.spawn_in("g", spawns).unwrap());
        for task in tasks.unwrap() {
            runtime.block_on(task).unwrap();
        }
        let workers = governor.metrics().workers;
        let parks: u64 = workers.iter().map(|worker| worker.parks).sum();
        // Some: where the worker's thread is kept from running for long, others take up what waits for it.
        assert!(parks < ROUNDS as u64 / 5, "{groups} groups: {parks} sleeps");
    }
}
