//! Closures on the blocking pool.

use super::outcome::outcome;
use super::side::{spawn, spawn_blocking, try_id};
use crate::live::eventually;
use crate::scene::{Bomb, Log, Noted, Transcript, caught};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub async fn closures_run_on_another_thread() -> Transcript {
    let log = Log::new();
    let here = std::thread::current().id();
    let there = spawn_blocking(move || std::thread::current().id() != here);
    log.exactly(outcome(there.await));
    log.end()
}

pub async fn a_panic_is_delivered() -> Transcript {
    let log = Log::new();
    let handle = spawn_blocking(|| panic!("planned: in a closure"));
    log.say(outcome::<()>(handle.await));
    log.end()
}

pub async fn an_abort_of_a_running_closure_does_nothing() -> Transcript {
    let log = Log::new();
    let (running, go) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (is_running, may_go) = (running.clone(), go.clone());
    let handle = spawn_blocking(move || {
        is_running.store(true, Ordering::SeqCst);
        while !may_go.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        3
    });
    eventually("it runs", || running.load(Ordering::SeqCst)).await;
    handle.abort();
    handle.abort_handle().abort();
    log.say(format!("finished {} {handle:?}", handle.is_finished()));
    go.store(true, Ordering::SeqCst);
    log.say(outcome(handle.await));
    log.end()
}

pub async fn a_closure_goes_on_when_its_handle_is_dropped() -> Transcript {
    let log = Log::new();
    let said = log.clone();
    drop(spawn_blocking(move || said.say("done")));
    log.until("done").await;
    log.end()
}

pub async fn a_closure_has_an_id() -> Transcript {
    let log = Log::new();
    let handle = spawn_blocking(try_id);
    let id = handle.id();
    log.exactly(format!("{}", handle.await.unwrap() == Some(id)));
    log.end()
}

pub async fn a_closure_may_spawn_and_wait() -> Transcript {
    let log = Log::new();
    let handle = spawn_blocking(|| {
        let task = spawn(async { 4 });
        let closure = spawn_blocking(|| 5);
        tokio::runtime::Handle::current().block_on(async {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            task.await.unwrap() + closure.await.unwrap()
        })
    });
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn what_a_closure_holds_is_dropped_there() -> Transcript {
    let log = Log::new();
    let noted = Noted("held", log.clone());
    let bomb = Bomb(true);
    let handle = spawn_blocking(move || {
        let _held = noted;
        let _bomb = bomb;
    });
    log.say(outcome(handle.await));
    let finished = spawn_blocking(|| Bomb(true));
    eventually("it ends", || finished.is_finished()).await;
    log.say(caught(move || drop(finished)));
    log.end()
}
