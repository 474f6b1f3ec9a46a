//! A task is aborted: before, while and after it runs.

use super::outcome::outcome;
use super::side::{AbortHandle, JoinHandle, spawn, yield_now};
use crate::live::eventually;
use crate::scene::{LONG, Log, Noted, Transcript, two_threads};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// A task that has begun to wait for ever.
async fn waiting(log: &Log) -> JoinHandle<&'static str> {
    let (started, has_started) = oneshot::channel();
    let noted = Noted("future", log.clone());
    let handle = spawn(async move {
        let _kept = noted;
        started.send(()).unwrap();
        tokio::time::sleep(LONG).await;
        "woken"
    });
    has_started.await.unwrap();
    handle
}

pub async fn before_the_first_poll() -> Transcript {
    let log = Log::new();
    let (said, noted) = (log.clone(), Noted("future", log.clone()));
    let one_thread = !two_threads();
    let handle = spawn(async move {
        let _kept = noted;
        if one_thread {
            said.say("polled");
        }
        tokio::time::sleep(LONG).await;
    });
    handle.abort();
    log.say(outcome(handle.await));
    log.end()
}

pub async fn while_it_waits() -> Transcript {
    let log = Log::new();
    let handle = waiting(&log).await;
    log.say(format!("finished {}", handle.is_finished()));
    handle.abort();
    log.say(outcome(handle.await));
    log.end()
}

/// A task that spins inside one poll until told; then it waits, or returns.
async fn aborted_while_it_runs(then_wait: bool) -> Transcript {
    let log = Log::new();
    if !two_threads() {
        log.say("needs two threads");
        return log.end();
    }
    let release = Arc::new(AtomicBool::new(false));
    let running = Arc::new(AtomicBool::new(false));
    let (go, is_running) = (release.clone(), running.clone());
    let noted = Noted("future", log.clone());
    let handle = spawn(async move {
        let _kept = noted;
        is_running.store(true, Ordering::SeqCst);
        while !go.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
        if then_wait {
            tokio::time::sleep(LONG).await;
        }
        "returned"
    });
    eventually("it runs", || running.load(Ordering::SeqCst)).await;
    handle.abort();
    log.say(format!("finished {}", handle.is_finished()));
    release.store(true, Ordering::SeqCst);
    log.say(outcome(handle.await));
    log.end()
}

pub async fn while_it_runs_and_then_waits() -> Transcript {
    aborted_while_it_runs(true).await
}

pub async fn while_it_runs_and_then_returns() -> Transcript {
    aborted_while_it_runs(false).await
}

pub async fn after_it_has_completed() -> Transcript {
    let log = Log::new();
    let handle = spawn(async { 5 });
    eventually("it ends", || handle.is_finished()).await;
    handle.abort();
    handle.abort();
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn twice() -> Transcript {
    let log = Log::new();
    let handle = waiting(&log).await;
    handle.abort();
    handle.abort();
    handle.abort_handle().abort();
    log.say(outcome(handle.await));
    log.end()
}

pub async fn from_another_thread() -> Transcript {
    let log = Log::new();
    let handle = waiting(&log).await;
    let abort = handle.abort_handle();
    std::thread::spawn(move || abort.abort());
    log.say(outcome(handle.await));
    log.end()
}

pub async fn with_the_handle_dropped_at_once() -> Transcript {
    let log = Log::new();
    let handle = waiting(&log).await;
    handle.abort();
    drop(handle);
    log.until("future dropped").await;

    // And without having been polled: the future must go all the same.
    let log = Log::new();
    let noted = Noted("unpolled", log.clone());
    let handle = spawn(async move {
        let _kept = noted;
        tokio::time::sleep(LONG).await;
    });
    handle.abort();
    drop(handle);
    log.until("unpolled dropped").await;
    log.end()
}

async fn aborted_by_itself(then_wait: bool) -> Transcript {
    let log = Log::new();
    let (give, take) = oneshot::channel::<AbortHandle>();
    let noted = Noted("future", log.clone());
    let handle = spawn(async move {
        let _kept = noted;
        take.await.unwrap().abort();
        if then_wait {
            tokio::time::sleep(LONG).await;
        }
        "returned"
    });
    let _ = give.send(handle.abort_handle());
    log.say(outcome(handle.await));
    log.end()
}

pub async fn by_the_task_itself_before_it_waits() -> Transcript {
    aborted_by_itself(true).await
}

pub async fn by_the_task_itself_before_it_returns() -> Transcript {
    aborted_by_itself(false).await
}

pub async fn an_abort_handle_and_its_clones() -> Transcript {
    let log = Log::new();
    let handle = waiting(&log).await;
    let abort = handle.abort_handle();
    let clone = abort.clone();
    log.say(format!(
        "same id {}",
        abort.id() == handle.id() && clone.id() == handle.id()
    ));
    drop(abort);
    log.say(format!("finished {}", clone.is_finished()));
    clone.abort();
    log.say(outcome(handle.await));
    log.say(format!("finished {}", clone.is_finished()));
    clone.abort();
    log.say(format!("{clone:?}"));
    log.end()
}

pub async fn a_dropped_abort_handle_does_nothing() -> Transcript {
    let log = Log::new();
    let (go, may_go) = oneshot::channel::<u8>();
    let handle = spawn(may_go);
    drop(handle.abort_handle());
    yield_now().await;
    go.send(9).unwrap();
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn a_task_that_is_being_awaited() -> Transcript {
    let log = Log::new();
    let inner = waiting(&log).await;
    let abort = inner.abort_handle();
    let (awaiting, is_awaiting) = oneshot::channel();
    let outer = spawn(async move {
        awaiting.send(()).unwrap();
        outcome(inner.await)
    });
    is_awaiting.await.unwrap();
    yield_now().await;
    abort.abort();
    log.say(outer.await.unwrap());
    log.end()
}

/// Whatever wins: the handle resolves, the future is dropped once, the output exists or the task was cancelled.
pub async fn races_with_completion() -> Transcript {
    const ROUNDS: usize = 500;
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let log = Log::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    let (send, receive) = std::sync::mpsc::channel::<AbortHandle>();
    let aborter = std::thread::spawn(move || receive.iter().for_each(|abort| abort.abort()));
    let mut odd = 0;
    for round in 0..ROUNDS {
        let counted = Counted(dropped.clone());
        let handle = spawn(async move {
            for _ in 0..round % 7 {
                yield_now().await;
            }
            drop(counted);
            round
        });
        send.send(handle.abort_handle()).unwrap();
        match handle.await {
            Ok(n) if n == round => {}
            Err(error) if error.is_cancelled() => {}
            _ => odd += 1,
        }
    }
    drop(send);
    aborter.join().unwrap();
    eventually("all are dropped", || {
        dropped.load(Ordering::SeqCst) == ROUNDS
    })
    .await;
    log.exactly(format!("odd outcomes: {odd}"));
    log.end()
}
