//! How tasks begin and go on.

use super::outcome::outcome;
use super::side::{spawn, yield_now};
use crate::scene::{LONG, Log, Noted, Transcript, two_threads};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::oneshot;

pub async fn a_task_starts_without_being_awaited() -> Transcript {
    let log = Log::new();
    let (started, has_started) = oneshot::channel();
    let handle = spawn(async move {
        started.send(()).unwrap();
        7
    });
    log.say(format!("{:?}", has_started.await));
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn a_task_goes_on_when_its_handle_is_dropped() -> Transcript {
    let log = Log::new();
    let (go, may_go) = oneshot::channel::<()>();
    let (done, is_done) = oneshot::channel();
    drop(spawn(async move {
        may_go.await.unwrap();
        yield_now().await;
        done.send("done").unwrap();
    }));
    go.send(()).unwrap();
    log.say(format!("{:?}", is_done.await));
    log.end()
}

pub async fn a_task_is_not_polled_inside_spawn() -> Transcript {
    let log = Log::new();
    let here = std::thread::current().id();
    let spawning = Arc::new(AtomicBool::new(true));
    let (seen, is_spawning) = (log.clone(), spawning.clone());
    let handle = spawn(async move {
        let nested = is_spawning.load(Ordering::SeqCst) && std::thread::current().id() == here;
        seen.say(format!("polled inside spawn: {nested}"));
    });
    spawning.store(false, Ordering::SeqCst);
    log.say(outcome(handle.await));
    log.end()
}

pub async fn a_thousand_tasks_all_run() -> Transcript {
    let log = Log::new();
    let handles: Vec<_> = (0..1000)
        .map(|i| {
            spawn(async move {
                yield_now().await;
                i
            })
        })
        .collect();
    let mut sum = 0;
    for handle in handles {
        sum += handle.await.unwrap();
    }
    log.exactly(sum.to_string());
    log.end()
}

pub async fn tasks_spawn_tasks_that_spawn_tasks() -> Transcript {
    let log = Log::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let outer = ran.clone();
    let handle = spawn(async move {
        let middle = outer.clone();
        let handle = spawn(async move {
            let inner = middle.clone();
            let handle = spawn(async move { inner.fetch_add(1, Ordering::SeqCst) });
            middle.fetch_add(10, Ordering::SeqCst);
            handle.await.map(|_| "inner")
        });
        outer.fetch_add(100, Ordering::SeqCst);
        (handle.await.unwrap().unwrap(), "outer")
    });
    log.say(outcome(handle.await));
    log.exactly(ran.load(Ordering::SeqCst).to_string());
    log.end()
}

/// Spawns a task when it is dropped.
struct Spawns(Option<oneshot::Sender<&'static str>>);

impl Drop for Spawns {
    fn drop(&mut self) {
        let sender = self.0.take().unwrap();
        spawn(async move { sender.send("spawned in a destructor") });
    }
}

pub async fn a_destructor_spawns() -> Transcript {
    let log = Log::new();
    let (sender, receiver) = oneshot::channel();
    let spawns = Spawns(Some(sender));
    let handle = spawn(async move { drop(spawns) });
    log.say(outcome(handle.await));
    log.say(format!("{:?}", receiver.await));
    log.end()
}

pub async fn a_destructor_of_an_aborted_task_spawns() -> Transcript {
    let log = Log::new();
    let (sender, receiver) = oneshot::channel();
    let (started, has_started) = oneshot::channel();
    let spawns = Spawns(Some(sender));
    let handle = spawn(async move {
        let _kept = spawns;
        started.send(()).unwrap();
        tokio::time::sleep(LONG).await;
    });
    has_started.await.unwrap();
    handle.abort();
    log.say(outcome(handle.await));
    log.say(format!("{:?}", receiver.await));
    log.end()
}

pub async fn a_large_future_is_moved_whole() -> Transcript {
    let log = Log::new();
    let bytes = [3u8; 64 * 1024];
    let noted = Noted("large", log.clone());
    let handle = spawn(async move {
        let _kept = noted;
        yield_now().await;
        bytes.iter().map(|&b| u64::from(b)).sum::<u64>()
    });
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn yields_let_every_task_have_its_turn() -> Transcript {
    let log = Log::new();
    let turns = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let (yields, ended) = (turns.clone(), done.clone());
    let yielder = spawn(async move {
        while !ended.load(Ordering::SeqCst) {
            yields.fetch_add(1, Ordering::SeqCst);
            yield_now().await;
        }
    });
    let others: Vec<_> = (0..20)
        .map(|_| spawn(async { yield_now().await }))
        .collect();
    for other in others {
        other.await.unwrap();
    }
    crate::live::eventually("the yielder runs", || turns.load(Ordering::SeqCst) > 0).await;
    done.store(true, Ordering::SeqCst);
    log.say(outcome(yielder.await));
    log.say(format!("two threads {}", two_threads()));
    log.end()
}
