//! The shapes of load by which async schedulers are compared: spawns, yields, messages, chains.
//!
//! Each takes a side and a number of groups, does a fixed number of operations, and returns that number once
//! all are done. Shapes that live inside tasks have one root per group and spawn as a program does, by the
//! drop-in `spawn`; shapes that come from outside name the group.

use super::side::Side;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::{Context, Poll};

const SPAWNS: usize = 10_000;
const YIELDERS: usize = 200;
const YIELDS: usize = 1_000;
const PINGS: usize = 4_000;
const CHAIN: usize = 16_000;

/// Counts down; the last one tells the waiting thread.
#[derive(Clone)]
pub(crate) struct Latch(Arc<(AtomicUsize, SyncSender<()>)>);

impl Latch {
    pub(crate) fn new(count: usize) -> (Latch, Receiver<()>) {
        let (done, wait) = sync_channel(1);
        (Latch(Arc::new((AtomicUsize::new(count), done))), wait)
    }

    pub(crate) fn arrive(&self) {
        if self.0.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.0.1.send(());
        }
    }
}

/// Blocks until the latch is down.
pub(crate) fn wait(receiver: &Receiver<()>) {
    receiver.recv().expect("all tasks arrive");
}

/// Spawns a root in each group, and blocks until so many have arrived.
fn one_root_per_group<S, F>(side: &S, groups: usize, arrivals: usize, root: impl Fn(Latch) -> F)
where
    S: Side,
    F: Future<Output = ()> + Send + 'static,
{
    let (latch, done) = Latch::new(arrivals);
    for group in 0..groups {
        side.remote(group, root(latch.clone()));
    }
    wait(&done);
}

/// Pending once, after having woken itself: the plainest way to yield.
#[derive(Default)]
pub(crate) struct SelfWake(bool);

impl Future for SelfWake {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// 10 000 tasks spawned from a thread outside, handles dropped.
pub(crate) fn spawn_remote<S: Side>(side: &S, groups: usize) -> usize {
    let (latch, done) = Latch::new(SPAWNS);
    for i in 0..SPAWNS {
        let latch = latch.clone();
        side.remote(i % groups, async move { latch.arrive() });
    }
    wait(&done);
    SPAWNS
}

/// 10 000 tasks spawned from a thread outside, which then awaits every handle.
pub(crate) fn spawn_join<S: Side>(side: &S, groups: usize) -> usize {
    let joins: Vec<S::Join> = (0..SPAWNS)
        .map(|i| side.remote_join(i % groups, async {}))
        .collect();
    side.handle().block_on(async {
        for join in joins {
            S::joined(join).await;
        }
    });
    SPAWNS
}

/// 10 000 tasks spawned by one task per group.
pub(crate) fn spawn_local<S: Side>(side: &S, groups: usize) -> usize {
    let each = SPAWNS / groups;
    let root = move |latch: Latch| async move {
        for _ in 0..each {
            let latch = latch.clone();
            S::child(async move { latch.arrive() });
        }
    };
    one_root_per_group(side, groups, each * groups, root);
    each * groups
}

fn yields<S, Y, F>(side: &S, groups: usize, give_way: Y) -> usize
where
    S: Side,
    Y: Fn() -> F + Send + Copy + 'static,
    F: Future<Output = ()> + Send,
{
    let (latch, done) = Latch::new(YIELDERS);
    for i in 0..YIELDERS {
        let latch = latch.clone();
        side.remote(i % groups, async move {
            for _ in 0..YIELDS {
                give_way().await;
            }
            latch.arrive();
        });
    }
    wait(&done);
    YIELDERS * YIELDS
}

/// 200 tasks that wake themselves 1 000 times.
pub(crate) fn yield_self<S: Side>(side: &S, groups: usize) -> usize {
    yields(side, groups, SelfWake::default)
}

/// 200 tasks that yield 1 000 times, each side by its own `yield_now`.
pub(crate) fn yield_own<S: Side>(side: &S, groups: usize) -> usize {
    yields(side, groups, S::yield_now)
}

/// 200 tasks that yield 1 000 times by tokio's `yield_now`, on both sides.
pub(crate) fn yield_tokio<S: Side>(side: &S, groups: usize) -> usize {
    yields(side, groups, tokio::task::yield_now)
}

/// 4 000 pairs of tasks that send each other one message.
pub(crate) fn ping_pong<S: Side>(side: &S, groups: usize) -> usize {
    let each = PINGS / groups;
    let root = move |latch: Latch| async move {
        for _ in 0..each {
            let latch = latch.clone();
            S::child(async move {
                let (ping, pinged) = tokio::sync::oneshot::channel();
                let (pong, ponged) = tokio::sync::oneshot::channel();
                S::child(async move {
                    pinged.await.expect("the ping comes");
                    pong.send(()).expect("the other side waits");
                });
                ping.send(()).expect("the other side waits");
                ponged.await.expect("the pong comes");
                latch.arrive();
            });
        }
    };
    one_root_per_group(side, groups, each * groups, root);
    each * groups
}

/// 16 000 tasks in one chain per group, each spawned by the one before it.
pub(crate) fn chained_spawn<S: Side>(side: &S, groups: usize) -> usize {
    fn link<S: Side>(latch: Latch, left: usize) {
        if left == 0 {
            latch.arrive();
        } else {
            S::child(async move { link::<S>(latch, left - 1) });
        }
    }
    let each = CHAIN / groups;
    let root = move |latch| async move { link::<S>(latch, each - 1) };
    one_root_per_group(side, groups, groups, root);
    each * groups
}
