//! Shares follow the weights whatever way tasks give way, on one worker and two, with few tasks and many.
//!
//! Live, and therefore generous; exact shares are tested in virtual time on the policy itself. tokio's own
//! `yield_now` is among the ways on the owned host only: under the attached one it hides the task until the driver
//! returned.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{Ground, compute, governor, multi_thread, named, watched};
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

const POLL: Duration = Duration::from_micros(20);
const WINDOW: Duration = Duration::from_millis(600);
/// What a weight of 3 against 1 may come to on a disturbed machine.
/// A scheduler that loses sight of tasks comes to 1 or less, or to 16.
const ACCEPTED: std::ops::Range<f64> = 2.0..4.5;
const GROUPS: [&str; 2] = ["three", "one"];
const SQL: &str = "CREATE RESOURCE GROUP three WITH ('cpu_core_limit'='3');
                   CREATE RESOURCE GROUP one WITH ('cpu_core_limit'='1');";

async fn self_wake() {
    let mut woken = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut woken, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn spend_the_budget() {
    // Ends with the first operation after the forced yield.
    while tokio::task::coop::has_budget_remaining() {
        tokio::task::consume_budget().await;
    }
    tokio::task::consume_budget().await;
}

/// The ratio of what the groups `three` and `one` are charged, with so many tasks in each.
///
/// Charged time, not what the tasks measure: a worker that the system preempts between two polls is charged
/// to a group as well, and tests run on busy machines.
fn ratio<F>(runtime: &Ground, workers: usize, tasks: [usize; 2], give_way: fn() -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let governor = governor(runtime, workers, SQL);
    let stop = Arc::new(AtomicBool::new(false));
    let alive = Arc::new(AtomicUsize::new(tasks.iter().sum()));
    for (group, tasks) in GROUPS.into_iter().zip(tasks) {
        for _ in 0..tasks {
            let (stop, alive) = (stop.clone(), alive.clone());
            drop(governor.spawn_in(group, async move {
                while !stop.load(Ordering::Relaxed) {
                    compute(POLL);
                    give_way().await;
                }
                alive.fetch_sub(1, Ordering::SeqCst);
            }));
        }
    }
    std::thread::sleep(WINDOW);
    stop.store(true, Ordering::Relaxed);
    live::eventually_blocking("all stop", || alive.load(Ordering::SeqCst) == 0);
    // Read when nothing runs any more: a slice is charged when it ends, and the system may hold it up.
    let [three, one] = GROUPS.map(|group| {
        runtime.block_on(live::settled(&governor, group));
        let usage = governor.classify(&named(group)).unwrap().stats();
        usage.cpu_poll.as_secs_f64()
    });
    three / one
}

fn shares_hold<F>(name: &str, ground: fn(usize) -> Ground, give_way: fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut report = String::new();
    let mut all_hold = true;
    for workers in [1, 2] {
        for tasks in [[4, 4], [2, 32], [32, 2]] {
            // Two tasks cannot use three quarters of two workers, but no more than one and a half of them.
            let ratio = ratio(&ground(workers), workers, tasks, give_way);
            all_hold &= ACCEPTED.contains(&ratio);
            report += &format!("{workers} workers, {tasks:?} tasks: {ratio:.2}\n");
        }
    }
    assert!(all_hold, "{name}, wanted 3:\n{report}");
}

#[test]
fn shares_follow_the_weights_however_tasks_give_way() {
    let _watched = watched("shares");
    let attached = |workers| Ground::Tokio(multi_thread(workers));
    shares_hold("self-wake", attached, self_wake);
    shares_hold("our yield_now", attached, quotient::task::yield_now);
    shares_hold("spent budget", attached, spend_the_budget);

    let owned = |_| Ground::owned();
    shares_hold("self-wake, owned", owned, self_wake);
    shares_hold("tokio's yield_now, owned", owned, tokio::task::yield_now);
    shares_hold("spent budget, owned", owned, spend_the_budget);
}
