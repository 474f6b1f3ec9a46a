//! Cancelled work does not stand in line: its drop comes before what waits, however deep the queue is.

#![allow(clippy::unwrap_used, reason = "a test")]

mod live;
mod support;

use live::{alive, compute, eventually_blocking, multi_thread, named, watched};
use quotient::task::yield_now;
use quotient::{Governor, JoinError, JoinHandle};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

const DEPTH: usize = 5_000;
/// So many polls of others may come before the drop: what the worker holds already, amply.
const AHEAD: usize = 256;

/// One worker that is kept by a poll until the value is dropped, and a count of the polls of others.
struct Queue {
    governor: Governor,
    runtime: tokio::runtime::Runtime,
    polls: Arc<AtomicUsize>,
    release: mpsc::Sender<()>,
}

/// Notes how many polls of others had come before when it is dropped.
struct Noted(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.store(self.0.load(SeqCst) + 1, SeqCst);
    }
}

impl Queue {
    fn kept() -> Queue {
        let runtime = multi_thread(1);
        // Nobody stands in for the one that is kept, however long that takes.
        let builder = Governor::builder().workers(1).spares(0);
        let builder = builder.init_sql("CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')");
        let governor = runtime.block_on(async { builder.build() }).unwrap();
        let (release, wait) = mpsc::channel();
        let kept = Arc::new(AtomicBool::new(false));
        let keeping = kept.clone();
        let keeper = async move {
            keeping.store(true, SeqCst);
            wait.recv().unwrap();
        };
        governor.spawn_in("g", keeper).unwrap();
        eventually_blocking("the worker is kept", || kept.load(SeqCst));
        Queue {
            governor,
            runtime,
            polls: Arc::default(),
            release,
        }
    }

    /// So many tasks of three polls each.
    fn fill(&self) {
        for _ in 0..DEPTH {
            let polls = self.polls.clone();
            let task = async move {
                for _ in 0..3 {
                    polls.fetch_add(1, SeqCst);
                    compute(Duration::from_micros(10));
                    yield_now().await;
                }
            };
            self.governor.spawn_in("g", task).unwrap();
        }
    }

    fn noted(&self) -> (Noted, Arc<AtomicUsize>) {
        let at = Arc::new(AtomicUsize::new(0));
        (Noted(self.polls.clone(), at.clone()), at)
    }

    /// A task at the end of the queue, and when it was dropped.
    fn noted_task(&self) -> (JoinHandle<()>, Arc<AtomicUsize>) {
        let (noted, at) = self.noted();
        let task = async move { drop(noted) };
        (self.governor.spawn_in("g", task).unwrap(), at)
    }

    /// Lets the worker go, and checks that the task is dropped before most of what was ahead of it.
    fn check(self, task: JoinHandle<()>, dropped_at: &AtomicUsize, what: &str) -> JoinError {
        self.release.send(()).unwrap();
        let error = self.runtime.block_on(task).unwrap_err();
        assert!(error.is_cancelled(), "{what}: {error}");
        let polls = dropped_at.load(SeqCst) - 1;
        // What the worker holds already is polled first.
        assert!(polls <= AHEAD, "{what}: after {polls} polls of others");
        eventually_blocking("the others end", || alive(&self.governor, "g") == 0);
        assert_eq!(
            self.polls.load(SeqCst),
            3 * DEPTH,
            "{what}: nothing else is lost"
        );
        error
    }
}

#[test]
fn a_task_that_was_never_polled_is_dropped_before_what_is_queued_ahead_of_it() {
    let _watch = watched("never polled");
    let queue = Queue::kept();
    queue.fill();
    let (task, at) = queue.noted_task();
    task.abort();
    queue.check(task, &at, "never polled");
}

#[test]
fn a_task_in_the_middle_of_the_ordered_queue_is_drawn_out_of_it() {
    let _watch = watched("in the ordered queue");
    let queue = Queue::kept();
    queue.fill();
    let (task, at) = queue.noted_task();
    queue.fill();
    // Once the worker has begun, all of it is in the order in which it will be served.
    queue.release.send(()).unwrap();
    eventually_blocking("the queue moves", || queue.polls.load(SeqCst) > 0);
    task.abort();
    let before = queue.polls.load(SeqCst);
    let error = queue.runtime.block_on(task).unwrap_err();
    assert!(error.is_cancelled());
    let polls = at.load(SeqCst) - 1;
    // Between the abort and the look at the count the queue may move on a little.
    assert!(
        polls <= before + AHEAD,
        "{polls}, {before} when it was aborted"
    );
    assert!(polls < DEPTH, "its own turn was {DEPTH} polls away");
}

#[test]
fn a_task_that_waits_is_dropped_before_what_is_queued() {
    let _watch = watched("a task that waits");
    let queue = Queue::kept();
    let (noted, at) = queue.noted();
    let task = queue
        .governor
        .spawn_in("g", async move {
            let _noted = noted;
            pending::<()>().await;
        })
        .unwrap();
    // Let it begin to wait, then keep the worker again.
    queue.release.send(()).unwrap();
    eventually_blocking("it waits", || {
        let stats = queue.governor.classify(&named("g")).unwrap().stats();
        stats.tasks_waiting == 1 && stats.tasks_queued + stats.tasks_running == 0
    });
    let (release, wait) = mpsc::channel::<()>();
    queue
        .governor
        .spawn_in("g", async move { wait.recv().unwrap() })
        .unwrap();
    let queue = Queue { release, ..queue };
    queue.fill();
    task.abort();
    queue.check(task, &at, "waiting");
}

#[test]
fn all_tasks_of_a_killed_query_are_dropped_before_what_is_queued() {
    let _watch = watched("a killed query");
    let queue = Queue::kept();
    queue.fill();
    let query = queue.governor.try_admit(&named("g")).unwrap();
    let (noted, at) = queue.noted();
    let _first = query.spawn(async {});
    let task = query.spawn(async move { drop(noted) });
    query.kill("planned");
    let error = queue.check(task, &at, "killed");
    assert!(error.reason().is_some());
}
