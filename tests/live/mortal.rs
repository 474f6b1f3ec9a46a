//! Tasks in every state in which the end can find them, and what their destructors see.

use super::{eventually, eventually_blocking};
use quotient::{Governor, JoinHandle};
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::Duration;
use tokio::runtime::Handle;

/// How many tasks are made, half of them in the group `g` and half in `other`, half of them with a handle.
pub const TASKS: usize = 40;

/// What the destructors of futures saw.
#[derive(Default)]
pub struct Deaths {
    count: AtomicUsize,
    without_runtime: AtomicUsize,
    pub threads: Mutex<HashSet<ThreadId>>,
    polled_after: AtomicUsize,
    over: AtomicBool,
}

impl Deaths {
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// Dies in the runtime's context or complains.
struct Mortal(Arc<Deaths>);

impl Drop for Mortal {
    fn drop(&mut self) {
        let deaths = &self.0;
        match Handle::try_current() {
            Err(_) => drop(deaths.without_runtime.fetch_add(1, Ordering::SeqCst)),
            // Both panic where there is no timer driver.
            Ok(_) => {
                let mut sleep = Box::pin(tokio::time::sleep(Duration::from_secs(1)));
                let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
        }
        let here = std::thread::current();
        // A spare that stands in for a worker is the executor's too.
        if here.name() != Some("quotient-spare") {
            deaths.threads.lock().unwrap().insert(here.id());
        }
        deaths.count.fetch_add(1, Ordering::SeqCst);
    }
}

/// The states in which a task can be caught.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// Has never been polled: the worker is kept busy by another.
    Queued,
    /// Waits for a timer.
    Waiting,
    /// Yields all the time.
    Running,
    /// Waits for something that has dropped all its wakers.
    NeverWoken,
    /// Waits for a waker that somebody else keeps.
    WakerKept,
}

/// All of them.
pub const STATES: [State; 5] = [
    State::Queued,
    State::Waiting,
    State::Running,
    State::NeverWoken,
    State::WakerKept,
];

/// Waits for ever; its waker stays with the test.
struct KeepsWaker(Arc<Mutex<Vec<Waker>>>, bool);

impl Future for KeepsWaker {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.1, true) {
            self.0.lock().unwrap().push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// The tasks, seen from outside.
pub struct Tasks {
    pub handles: Vec<JoinHandle<()>>,
    pub deaths: Arc<Deaths>,
    pub wakers: Arc<Mutex<Vec<Waker>>>,
}

/// Spawns tasks in this state, with the handle of every second one dropped, and waits until they are in it.
pub async fn tasks_in(state: State, governor: &Governor) -> Tasks {
    let deaths = Arc::new(Deaths::default());
    let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
    let started = Arc::new(AtomicUsize::new(0));
    let mut handles = Vec::new();
    for i in 0..TASKS {
        let (mortal, wakers) = (Mortal(deaths.clone()), wakers.clone());
        let begun = started.clone();
        let future = async move {
            let mortal = mortal;
            begun.fetch_add(1, Ordering::SeqCst);
            match state {
                State::Queued | State::Running => loop {
                    if mortal.0.over.load(Ordering::SeqCst) {
                        mortal.0.polled_after.fetch_add(1, Ordering::SeqCst);
                    }
                    quotient::task::yield_now().await;
                },
                State::Waiting => tokio::time::sleep(Duration::from_secs(3600)).await,
                State::NeverWoken => std::future::pending().await,
                State::WakerKept => KeepsWaker(wakers, false).await,
            }
        };
        let group = if i % 2 == 0 { "g" } else { "other" };
        let handle = governor.spawn_in(group, future).unwrap();
        if i % 4 < 2 {
            handles.push(handle);
        }
    }
    // A detached task without any waker may be dropped early, so it is not waited for by its state.
    if !matches!(state, State::Queued) {
        eventually("all have begun", || started.load(Ordering::SeqCst) == TASKS).await;
    }
    Tasks {
        handles,
        deaths,
        wakers,
    }
}

impl Tasks {
    /// Every future has died once, where it should, and nothing is polled any more.
    pub fn all_died(&self, state: State) {
        let deaths = &self.deaths;
        eventually_blocking(&format!("{state:?}: all futures are dropped"), || {
            deaths.count() == TASKS
        });
        deaths.over.store(true, Ordering::SeqCst);
        let without = deaths.without_runtime.load(Ordering::SeqCst);
        assert_eq!(without, 0, "{state:?}: destructors without a runtime");
        for waker in self.wakers.lock().unwrap().drain(..) {
            waker.wake_by_ref();
            waker.wake();
        }
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(deaths.count(), TASKS, "{state:?}: dropped once");
        assert_eq!(deaths.polled_after.load(Ordering::SeqCst), 0, "{state:?}");
    }

    pub async fn all_cancelled(&mut self, state: State) {
        for handle in self.handles.drain(..) {
            let result = tokio::time::timeout(Duration::from_secs(20), handle).await;
            let error = result.unwrap_or_else(|_| panic!("{state:?}: a handle hangs"));
            assert!(error.unwrap_err().is_cancelled(), "{state:?}");
        }
    }
}
