//! Handles that end their task when they are dropped.

use super::outcome::outcome;
use super::side::{AbortOnDrop, AbortOnDropHandle, spawn};
use crate::scene::{LONG, Log, Noted, Transcript};
use tokio::sync::oneshot;

fn noted(log: &Log) -> impl Future<Output = ()> + Send + use<> {
    let noted = Noted("future", log.clone());
    async move {
        let _kept = noted;
        tokio::time::sleep(LONG).await;
    }
}

pub async fn end_their_task() -> Transcript {
    let log = Log::new();
    let guard = AbortOnDropHandle::new(spawn(noted(&log)));
    log.say(format!(
        "{guard:?} {} {:?}",
        guard.is_finished(),
        guard.as_ref()
    ));
    drop(guard);
    log.until("future dropped").await;
    let log_2 = Log::new();
    let guard = AbortOnDrop::new(spawn(noted(&log_2)).abort_handle());
    log.say(format!("{guard:?} {}", guard.is_finished()));
    drop(guard);
    log_2.until("future dropped").await;
    log.end()
}

pub async fn can_be_awaited() -> Transcript {
    let log = Log::new();
    log.exactly(outcome(AbortOnDropHandle::new(spawn(async { 1 })).await));
    let guard = AbortOnDropHandle::new(spawn(noted(&log)));
    guard.abort_handle().abort();
    guard.abort();
    log.say(outcome(guard.await));
    log.end()
}

pub async fn let_go_of_their_task() -> Transcript {
    let log = Log::new();
    let (open, gate) = oneshot::channel();
    let handle = AbortOnDropHandle::new(spawn(async move { gate.await.unwrap() })).detach();
    let abort = AbortOnDrop::new(handle.abort_handle()).detach();
    open.send(9).unwrap();
    log.exactly(outcome(handle.await));
    abort.abort();
    log.exactly(format!("{}", abort.is_finished()));
    log.end()
}
