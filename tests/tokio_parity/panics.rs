//! A panic at every place of a task's life, with the handle kept or dropped, aborted or not.

use super::outcome::outcome;
use super::side::{AbortHandle, JoinHandle, spawn, yield_now};
use crate::live::eventually;
use crate::scene::{Bomb, Log, Transcript, caught};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tokio::sync::{mpsc, oneshot};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Nowhere,
    Poll,
    FutureDrop,
    OutputDrop,
    JoinWaker,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Handle {
    Awaited,
    DroppedAtOnce,
    DroppedAfterTheEnd,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Abort {
    No,
    BeforeFirstPoll,
    WhileWaiting,
    /// By itself, in the poll that ends it.
    WhileRunning,
}

/// Waits at a gate, then ends; panics where it was told to.
struct Trap {
    place: Place,
    gate: oneshot::Receiver<()>,
    abort: Option<oneshot::Receiver<AbortHandle>>,
    started: Option<oneshot::Sender<()>>,
    dropped: Arc<AtomicBool>,
}

struct Output(#[expect(dead_code, reason = "it explodes")] Bomb);

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("output")
    }
}

impl Future for Trap {
    type Output = Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Output> {
        if let Some(started) = self.started.take() {
            let _ = started.send(());
        }
        match Pin::new(&mut self.gate).poll(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(_) => {}
        }
        if let Some(abort) = &mut self.abort
            && let Ok(abort) = abort.try_recv()
        {
            abort.abort();
        }
        match self.place {
            Place::Poll => panic!("planned: in poll"),
            place => Poll::Ready(Output(Bomb(place == Place::OutputDrop))),
        }
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::SeqCst);
        if self.place == Place::FutureDrop && !std::thread::panicking() {
            panic!("planned: drop of the future");
        }
    }
}

#[derive(Default)]
struct Explosive(AtomicUsize);

impl Wake for Explosive {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("planned: in wake");
    }
}

async fn cell(log: &Log, place: Place, keep: Handle, abort: Abort) {
    log.say(format!("{keep:?}, abort: {abort:?}"));
    let (open, gate) = oneshot::channel();
    let (started, has_started) = oneshot::channel();
    let dropped = Arc::new(AtomicBool::new(false));
    let (give, abort_itself) = oneshot::channel();
    let mut handle = spawn(Trap {
        place,
        gate,
        abort: (abort == Abort::WhileRunning).then_some(abort_itself),
        started: Some(started),
        dropped: dropped.clone(),
    });
    let explosive = Arc::new(Explosive::default());
    if place == Place::JoinWaker {
        let waker = Waker::from(explosive.clone());
        let poll = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
        log.say(format!("pending {}", poll.is_pending()));
    }
    let aborts = handle.abort_handle();
    if abort == Abort::BeforeFirstPoll {
        aborts.abort();
    } else {
        has_started.await.unwrap();
    }
    let handle = match keep {
        Handle::DroppedAtOnce => {
            log.say(format!("drop of the handle: {}", caught(|| drop(handle))));
            None
        }
        _ => Some(handle),
    };
    match abort {
        Abort::No => drop(open.send(())),
        Abort::WhileRunning => {
            let _ = give.send(aborts.clone());
            let _ = open.send(());
        }
        Abort::BeforeFirstPoll => {}
        Abort::WhileWaiting => aborts.abort(),
    }
    eventually("the future is dropped", || dropped.load(Ordering::SeqCst)).await;
    eventually("the task has ended", || aborts.is_finished()).await;
    if place == Place::JoinWaker && handle.is_some() {
        eventually("the join waker is woken", || {
            explosive.0.load(Ordering::SeqCst) == 1
        })
        .await;
    }
    end(log, keep, handle).await;
}

async fn end(log: &Log, keep: Handle, handle: Option<JoinHandle<Output>>) {
    match (keep, handle) {
        (Handle::Awaited, Some(handle)) => match handle.await {
            Ok(output) => log.say(format!("ok; its drop: {}", caught(|| drop(output)))),
            Err(error) => log.say(outcome::<()>(Err(error))),
        },
        (_, handle) => log.say(format!("drop of the handle: {}", caught(|| drop(handle)))),
    }
}

/// Every combination of handle and abort; beside them a task that must go on.
async fn matrix(place: Place) -> Transcript {
    let log = Log::new();
    let (ask, mut asked) = mpsc::channel::<oneshot::Sender<usize>>(1);
    let other = spawn(async move {
        let mut answers = 0;
        while let Some(reply) = asked.recv().await {
            answers += 1;
            yield_now().await;
            let _ = reply.send(answers);
        }
    });
    for keep in [
        Handle::Awaited,
        Handle::DroppedAtOnce,
        Handle::DroppedAfterTheEnd,
    ] {
        for abort in [
            Abort::No,
            Abort::BeforeFirstPoll,
            Abort::WhileWaiting,
            Abort::WhileRunning,
        ] {
            cell(&log, place, keep, abort).await;
            let (reply, answer) = oneshot::channel();
            ask.send(reply).await.unwrap();
            log.exactly(format!("the other task: {:?}", answer.await));
        }
    }
    drop(ask);
    log.say(outcome(other.await));
    log.end()
}

pub async fn nowhere() -> Transcript {
    matrix(Place::Nowhere).await
}

pub async fn in_poll() -> Transcript {
    matrix(Place::Poll).await
}

pub async fn in_the_drop_of_the_future() -> Transcript {
    matrix(Place::FutureDrop).await
}

pub async fn in_the_drop_of_the_output() -> Transcript {
    matrix(Place::OutputDrop).await
}

pub async fn in_the_wake_of_the_join_waker() -> Transcript {
    matrix(Place::JoinWaker).await
}

pub async fn of_many_tasks_at_once() -> Transcript {
    let log = Log::new();
    let handles: Vec<_> = (0..200)
        .map(|i| {
            spawn(async move {
                yield_now().await;
                assert!(i % 2 == 0, "planned: {i}");
                i
            })
        })
        .collect();
    let mut panics = 0;
    let mut sum = 0;
    for handle in handles {
        match handle.await {
            Ok(n) => sum += n,
            Err(error) => panics += usize::from(error.is_panic()),
        }
    }
    log.exactly(format!("{panics} panics, sum {sum}"));
    log.end()
}
