//! Sets of tasks: in which order they are joined, what ends with them, what their members leave behind.

use super::outcome::outcome;
use super::side::{JoinError, JoinSet, spawn, spawn_blocking, yield_now};
use crate::live::eventually;
use crate::scene::{LONG, Log, Noted, Transcript, caught};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tokio::sync::oneshot;

fn next<T: std::fmt::Debug>(next: Option<Result<T, JoinError>>) -> String {
    next.map_or_else(|| "none".into(), outcome)
}

pub async fn are_joined_in_the_order_in_which_members_end() -> Transcript {
    let log = Log::new();
    let mut set = JoinSet::new();
    let mut gates = Vec::new();
    for i in 0..5 {
        let (open, gate) = oneshot::channel::<()>();
        let abort = set.spawn(async move {
            gate.await.unwrap();
            i
        });
        gates.push(Some((open, abort)));
    }
    log.exactly(format!("{} {}", set.len(), set.is_empty()));
    for i in [3, 0, 4] {
        let (open, abort) = gates[i].take().unwrap();
        open.send(()).unwrap();
        eventually("it ends", || abort.is_finished()).await;
    }
    for _ in 0..3 {
        log.exactly(next(set.join_next().await));
    }
    log.exactly(format!("{} left", set.len()));
    for i in [2, 1] {
        gates[i].take().unwrap().0.send(()).unwrap();
        log.exactly(next(set.join_next().await));
    }
    log.exactly(next(set.join_next().await));
    log.end()
}

pub async fn without_members_have_nothing() -> Transcript {
    let log = Log::new();
    let mut set: JoinSet<u8> = JoinSet::default();
    log.exactly(next(set.join_next().await));
    log.exactly(next(set.try_join_next()));
    log.exactly(format!("{:?}", set.join_next_with_id().await));
    set.shutdown().await;
    set.abort_all();
    set.detach_all();
    log.exactly(format!("{set:?}"));
    log.exactly(format!("{:?}", set.join_all().await));
    log.end()
}

pub async fn can_be_asked_without_waiting() -> Transcript {
    let log = Log::new();
    let mut set = JoinSet::new();
    let (open, gate) = oneshot::channel::<()>();
    let abort = set.spawn(async move {
        gate.await.unwrap();
        7
    });
    log.exactly(next(set.try_join_next()));
    open.send(()).unwrap();
    eventually("it ends", || abort.is_finished()).await;
    let joined = set.try_join_next_with_id();
    log.exactly(format!(
        "{:?}",
        joined.map(|result| result.map(|(id, output)| (id == abort.id(), output)))
    ));
    log.exactly(next(set.try_join_next()));
    log.end()
}

pub async fn tell_which_member_it_was() -> Transcript {
    let log = Log::new();
    let mut set = JoinSet::new();
    let (fine, bad) = (set.spawn(async { 1 }), set.spawn(std::future::pending()));
    let joined = set.join_next_with_id().await.unwrap();
    log.exactly(format!("{:?}", joined.map(|(id, n)| (id == fine.id(), n))));
    bad.abort();
    let error = set.join_next_with_id().await.unwrap().unwrap_err();
    log.exactly(format!(
        "{} {}",
        error.id() == bad.id(),
        error.is_cancelled()
    ));
    log.end()
}

async fn sleepers(log: &Log, members: usize) -> JoinSet<&'static str> {
    let started = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    for _ in 0..members {
        let (noted, started) = (Noted("member", log.clone()), started.clone());
        set.spawn(async move {
            let _kept = noted;
            started.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(LONG).await;
            "woken"
        });
    }
    eventually("they wait", || started.load(Ordering::SeqCst) == members).await;
    set
}

pub async fn abort_their_members_when_they_are_dropped() -> Transcript {
    let log = Log::new();
    drop(sleepers(&log, 3).await);
    eventually("all are gone", || log.end().len() == 3).await;
    log.end()
}

pub async fn abort_their_members_and_keep_them() -> Transcript {
    let log = Log::new();
    let mut set = sleepers(&log, 2).await;
    set.abort_all();
    eventually("both are gone", || log.end().len() == 2).await;
    log.exactly(format!("{} members", set.len()));
    for _ in 0..3 {
        log.say(next(set.join_next().await));
    }
    log.end()
}

pub async fn wait_for_the_last_one_when_they_shut_down() -> Transcript {
    let log = Log::new();
    let mut set = sleepers(&log, 3).await;
    set.shutdown().await;
    log.exactly(format!("{} members", set.len()));
    log.end()
}

pub async fn let_their_members_go() -> Transcript {
    let log = Log::new();
    let (mut set, mut opens) = (JoinSet::new(), Vec::new());
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (open, gate) = oneshot::channel::<()>();
        let done = done.clone();
        set.spawn(async move {
            gate.await.unwrap();
            done.fetch_add(1, Ordering::SeqCst);
        });
        opens.push(open);
    }
    set.detach_all();
    log.exactly(format!("{} members", set.len()));
    log.exactly(next(set.join_next().await));
    drop(set);
    opens.into_iter().for_each(|open| open.send(()).unwrap());
    eventually("they go on", || done.load(Ordering::SeqCst) == 3).await;
    log.say("went on");
    log.end()
}

pub async fn join_all_of_them() -> Transcript {
    let log = Log::new();
    let mut all = (0..20).map(|i| async move { i }).collect::<JoinSet<i32>>();
    all.extend((20..30).map(|i| async move { i }));
    let mut outputs = all.join_all().await;
    outputs.sort_unstable();
    log.exactly(format!("{outputs:?}"));
    log.end()
}

pub async fn pass_a_panic_on_when_all_are_joined() -> Transcript {
    let log = Log::new();
    for cancelled in [false, true] {
        let theirs = Log::new();
        let noted = Noted("other", theirs.clone());
        let joins = spawn(async move {
            let mut set = JoinSet::new();
            set.spawn(async move {
                let _kept = noted;
                std::future::pending::<()>().await;
            });
            let bad = set.spawn(async move {
                assert!(cancelled, "planned: a member");
                std::future::pending().await
            });
            if cancelled {
                bad.abort();
            }
            set.join_all().await
        });
        log.say(outcome(joins.await));
        theirs.until("other dropped").await;
    }
    log.end()
}

pub async fn mix_tasks_and_closures() -> Transcript {
    let log = Log::new();
    let mut set = JoinSet::new();
    set.spawn(async { 1 });
    set.spawn_blocking(|| 2);
    set.spawn_blocking(|| panic!("planned: a closure"));
    let mut lines = Vec::new();
    while let Some(result) = set.join_next().await {
        lines.push(outcome(result));
    }
    lines.sort();
    lines.into_iter().for_each(|line| log.say(line));
    drop(spawn_blocking(|| ()).await);
    log.end()
}

pub async fn lose_nothing_when_the_wait_is_given_up() -> Transcript {
    let log = Log::new();
    let mut set = JoinSet::new();
    let (open, gate) = oneshot::channel::<()>();
    set.spawn(async move {
        gate.await.unwrap();
        1
    });
    for _ in 0..3 {
        let given_up = tokio::select! {
            biased;
            _ = set.join_next() => false,
            () = yield_now() => true,
        };
        log.exactly(format!("given up {given_up}, {} members", set.len()));
    }
    open.send(()).unwrap();
    log.exactly(next(set.join_next().await));
    log.end()
}

#[derive(Default)]
struct Rings(AtomicUsize);

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub async fn wake_the_last_waker_only() -> Transcript {
    let log = Log::new();
    let mut set = JoinSet::new();
    let (open, gate) = oneshot::channel::<()>();
    let abort = set.spawn(async move { gate.await.unwrap() });
    let (first, last) = (Arc::new(Rings::default()), Arc::new(Rings::default()));
    for rings in [&first, &first, &last] {
        let waker = Waker::from(rings.clone());
        let polled = set.poll_join_next(&mut Context::from_waker(&waker));
        log.exactly(format!("{}", polled.is_pending()));
    }
    open.send(()).unwrap();
    eventually("it ends", || abort.is_finished()).await;
    eventually("it rings", || last.0.load(Ordering::SeqCst) == 1).await;
    log.exactly(format!("{}", first.0.load(Ordering::SeqCst)));
    let waker = Waker::from(last.clone());
    let polled = set.poll_join_next_with_id(&mut Context::from_waker(&waker));
    log.exactly(format!("{}", polled.is_ready()));
    log.end()
}

pub async fn give_way_when_the_budget_is_spent() -> Transcript {
    const MEMBERS: usize = 1_000;
    let log = Log::new();
    let (ready, drains) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (is_ready, polls) = (ready.clone(), drains.clone());
    let handle = spawn(async move {
        let mut set = JoinSet::new();
        let aborts: Vec<_> = (0..MEMBERS).map(|i| set.spawn(async move { i })).collect();
        eventually("all have ended", || aborts.iter().all(|a| a.is_finished())).await;
        is_ready.store(true, Ordering::SeqCst);
        let mut drain = pin!(async {
            let mut sum = 0;
            while let Some(i) = set.join_next().await {
                sum += i.unwrap();
            }
            sum
        });
        std::future::poll_fn(|cx| {
            polls.fetch_add(1, Ordering::SeqCst);
            drain.as_mut().poll(cx)
        })
        .await
    });
    log.exactly(outcome(handle.await));
    // 128 operations per poll; a task of ours has one less.
    let polls = drains.load(Ordering::SeqCst);
    log.exactly(format!("a few polls: {}", (7..=10).contains(&polls)));
    log.end()
}

/// A member whose output panics when it is dropped, in a set that is dropped.
pub async fn swallow_what_the_drop_of_an_output_panics_with() -> Transcript {
    let log = Log::new();
    let mut set = JoinSet::new();
    let abort = set.spawn(async { crate::scene::Bomb(true) });
    eventually("it ends", || abort.is_finished()).await;
    log.say(caught(move || drop(set)));
    log.end()
}

/// A poll of an empty set is ready, also after members were joined.
pub async fn end_once_for_all() -> Transcript {
    let log = Log::new();
    let mut set = JoinSet::new();
    set.spawn(async {});
    log.exactly(next(set.join_next().await));
    let polled = set.poll_join_next(&mut Context::from_waker(Waker::noop()));
    log.exactly(match polled {
        Poll::Ready(joined) => next(joined),
        Poll::Pending => "pending".into(),
    });
    log.end()
}
