//! What a handle is, knows and drops.

use super::outcome::outcome;
use super::side::{AbortHandle, Id, JoinError, JoinHandle, id, spawn, try_id};
use crate::live::eventually;
use crate::scene::{Bomb, LONG, Log, Transcript, caught};
use std::collections::HashSet;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread::ThreadId;
use tokio::sync::oneshot;

pub async fn know_when_the_task_has_ended() -> Transcript {
    let log = Log::new();
    let (go, may_go) = oneshot::channel::<u8>();
    let handle = spawn(may_go);
    let abort = handle.abort_handle();
    log.say(format!("{} {}", handle.is_finished(), abort.is_finished()));
    go.send(1).unwrap();
    eventually("it ends", || handle.is_finished()).await;
    log.say(format!("{} {}", handle.is_finished(), abort.is_finished()));
    log.exactly(outcome(handle.await));
    log.say(format!("{}", abort.is_finished()));
    log.end()
}

pub async fn have_the_id_that_the_task_sees() -> Transcript {
    let log = Log::new();
    let handle = spawn(async { (id(), try_id()) });
    let outside = handle.id();
    let (inside, tried) = handle.await.unwrap();
    log.say(format!("{} {}", inside == outside, tried == Some(outside)));
    log.say(format!("here: {}", try_id().is_some()));
    log.end()
}

pub async fn have_ids_of_their_own() -> Transcript {
    fn a_key<T: Copy + Eq + std::hash::Hash + std::fmt::Debug + Send + Sync + 'static>() {}
    a_key::<Id>();
    let log = Log::new();
    let handles: Vec<JoinHandle<()>> = (0..1000).map(|_| spawn(async {})).collect();
    let ids: HashSet<Id> = handles.iter().map(JoinHandle::id).collect();
    log.exactly(ids.len().to_string());
    let same = handles.iter().all(|h| h.abort_handle().id() == h.id());
    log.say(format!("{same}"));
    for handle in handles {
        handle.await.unwrap();
    }
    log.end()
}

pub async fn show_their_id() -> Transcript {
    let log = Log::new();
    let handle = spawn(async {});
    log.say(format!("{} {:?}", handle.id(), handle.id()));
    log.say(format!("{handle:?} {:?}", handle.abort_handle()));
    log.say(format!(
        "a number: {}",
        handle.id().to_string().parse::<u64>().is_ok()
    ));
    handle.await.unwrap();
    log.end()
}

pub async fn panic_when_polled_after_completion() -> Transcript {
    let log = Log::new();
    let mut handle = spawn(async { 3 });
    log.exactly(outcome((&mut handle).await));
    let mut context = Context::from_waker(Waker::noop());
    log.say(caught(|| {
        let _ = Pin::new(&mut handle).poll(&mut context);
    }));
    log.say(format!("finished {}", handle.is_finished()));
    log.end()
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub async fn wake_the_last_waker_only() -> Transcript {
    let log = Log::new();
    let (go, may_go) = oneshot::channel::<u8>();
    let mut handle = spawn(may_go);
    let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
    for count in [&first, &second, &second] {
        let waker = Waker::from(count.clone());
        let poll = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
        log.say(format!("pending {}", poll.is_pending()));
    }
    go.send(1).unwrap();
    eventually("it is woken", || second.0.load(Ordering::SeqCst) > 0).await;
    log.exactly(outcome(handle.await));
    let counts = [first, second].map(|count| count.0.load(Ordering::SeqCst));
    log.exactly(format!("{counts:?}"));
    log.end()
}

pub async fn can_be_awaited_by_reference() -> Transcript {
    let log = Log::new();
    let (go, may_go) = oneshot::channel::<u8>();
    let mut handle = spawn(may_go);
    tokio::select! {
        biased;
        _ = &mut handle => log.say("ended too early"),
        () = std::future::ready(()) => log.say("not yet"),
    }
    go.send(4).unwrap();
    log.exactly(outcome((&mut handle).await));
    log.end()
}

struct DroppedOn(Option<oneshot::Sender<ThreadId>>);

impl Drop for DroppedOn {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            let _ = sender.send(std::thread::current().id());
        }
    }
}

pub async fn drop_the_output_of_a_finished_task_here() -> Transcript {
    let log = Log::new();
    let (sender, dropped_on) = oneshot::channel();
    let handle = spawn(async { DroppedOn(Some(sender)) });
    eventually("it ends", || handle.is_finished()).await;
    let here = std::thread::current().id();
    drop(handle);
    log.say(format!("here: {}", dropped_on.await == Ok(here)));
    log.end()
}

pub async fn swallow_a_panic_of_a_dropped_output() -> Transcript {
    let log = Log::new();
    let handle = spawn(async { Bomb(true) });
    eventually("it ends", || handle.is_finished()).await;
    log.say(caught(|| drop(handle)));
    let handle = spawn(async { Bomb(true) });
    let bomb = handle.await.unwrap();
    log.say(caught(|| drop(bomb)));
    log.end()
}

pub async fn are_as_free_as_tokios() -> Transcript {
    fn free<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + 'static>() {}
    fn error<T: std::error::Error + Send + Sync + Unpin + 'static>() {}
    struct Pinned {
        _cell: std::cell::Cell<u8>,
        _pin: std::marker::PhantomPinned,
    }
    free::<JoinHandle<()>>();
    free::<JoinHandle<std::cell::Cell<u8>>>();
    free::<JoinHandle<Pinned>>();
    free::<JoinHandle<Box<dyn FnMut() + Send>>>();
    free::<AbortHandle>();
    free::<Id>();
    error::<JoinError>();
    let log = Log::new();
    let handle = spawn(tokio::time::sleep(LONG));
    let elsewhere = std::thread::spawn(move || {
        handle.abort();
        handle
    });
    log.say(outcome(elsewhere.join().unwrap().await));
    log.end()
}
