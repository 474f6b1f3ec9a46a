//! tokio's own tools inside tasks.

use super::outcome::outcome;
use super::side::{consume_budget, spawn, yield_now};
use crate::scene::{LONG, Log, Transcript, caught, two_threads};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Notify, Semaphore, broadcast, mpsc, oneshot, watch};

tokio::task_local! {
    static NUMBER: u32;
}

pub async fn task_locals_are_not_inherited() -> Transcript {
    let log = Log::new();
    let seen = NUMBER
        .scope(5, async {
            yield_now().await;
            let inner = spawn(async { NUMBER.try_with(|n| *n).is_ok() });
            (NUMBER.get(), inner.await.unwrap())
        })
        .await;
    log.exactly(format!("{seen:?}"));
    let scoped = spawn(NUMBER.scope(6, async {
        yield_now().await;
        NUMBER.get()
    }));
    log.exactly(outcome(scoped.await));
    log.end()
}

pub async fn a_timeout_fires_and_does_not() -> Transcript {
    let log = Log::new();
    let short = Duration::from_millis(5);
    let handle = spawn(async move {
        let fires = tokio::time::timeout(short, std::future::pending::<()>()).await;
        let does_not = tokio::time::timeout(LONG, async { 1 }).await;
        (fires.is_err(), does_not.is_ok())
    });
    log.say(outcome(handle.await));
    let slow = spawn(tokio::time::sleep(LONG));
    let abort = slow.abort_handle();
    log.say(format!(
        "{}",
        tokio::time::timeout(short, slow).await.is_err()
    ));
    abort.abort();
    log.end()
}

pub async fn select_takes_what_is_ready() -> Transcript {
    let log = Log::new();
    let handle = spawn(async {
        let mut sleep = std::pin::pin!(tokio::time::sleep(LONG));
        let mut sum = 0;
        for _ in 0..100 {
            tokio::select! {
                () = &mut sleep => sum += 1000,
                () = yield_now() => sum += 1,
            }
        }
        let (a, b) = tokio::join!(async { 1 }, yield_now());
        let c = tokio::try_join!(async { Ok::<_, ()>(2) }, async { Err::<(), _>(()) });
        (sum, a, b, c)
    });
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn an_interval_ticks() -> Transcript {
    let log = Log::new();
    let handle = spawn(async {
        let mut interval = tokio::time::interval(Duration::from_millis(2));
        let start = tokio::time::Instant::now();
        for _ in 0..4 {
            interval.tick().await;
        }
        start.elapsed() >= Duration::from_millis(6)
    });
    log.say(outcome(handle.await));
    log.end()
}

pub async fn channels_carry_everything_in_order() -> Transcript {
    let log = Log::new();
    let (send, mut receive) = mpsc::channel(3);
    let (publish, mut subscribed) = broadcast::channel(4096);
    let sender = spawn(async move {
        for i in 0..2000_u32 {
            send.send(i).await.unwrap();
            publish.send(i).unwrap();
        }
    });
    let receiver = spawn(async move {
        let mut in_order = true;
        let mut count = 0;
        while let Some(i) = receive.recv().await {
            in_order &= i == count;
            count += 1;
        }
        (in_order, count)
    });
    log.say(outcome(sender.await));
    log.exactly(outcome(receiver.await));
    let mut heard = 0;
    while subscribed.recv().await.is_ok() {
        heard += 1;
    }
    log.exactly(heard.to_string());
    let (reply, answer) = oneshot::channel();
    drop(spawn(async move { reply.send("reply") }));
    log.say(format!("{:?}", answer.await));
    log.end()
}

pub async fn a_semaphore_is_fair() -> Transcript {
    let log = Log::new();
    let semaphore = Arc::new(Semaphore::new(0));
    let (order, mut ordered) = mpsc::unbounded_channel();
    for i in 0..20 {
        let (permits, order) = (semaphore.clone(), order.clone());
        let (queued, is_queued) = oneshot::channel();
        drop(spawn(async move {
            let mut acquire = std::pin::pin!(permits.acquire());
            let now = futures::poll!(acquire.as_mut());
            assert!(now.is_pending());
            queued.send(()).unwrap();
            acquire.await.unwrap().forget();
            order.send(i).unwrap();
        }));
        is_queued.await.unwrap();
    }
    drop(order);
    let mut seen = Vec::new();
    for _ in 0..20 {
        semaphore.add_permits(1);
        seen.push(ordered.recv().await.unwrap());
    }
    log.exactly(format!("{seen:?}"));
    log.end()
}

pub async fn a_notify_and_a_watch_wake() -> Transcript {
    let log = Log::new();
    let notify = Arc::new(Notify::new());
    let (set, mut get) = watch::channel(0);
    let notified = notify.clone();
    let handle = spawn(async move {
        notified.notified().await;
        get.wait_for(|&n| n == 3).await.map(|n| *n).unwrap()
    });
    notify.notify_one();
    for n in 1..=3 {
        set.send(n).unwrap();
        yield_now().await;
    }
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn a_mutex_is_handed_on() -> Transcript {
    let log = Log::new();
    let counter = Arc::new(Mutex::new(0));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let counter = counter.clone();
            spawn(async move {
                for _ in 0..20 {
                    let mut held = counter.lock().await;
                    let before = *held;
                    yield_now().await;
                    *held = before + 1;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    log.exactly(format!("{}", counter.lock().await));
    log.end()
}

pub async fn tcp_works() -> Transcript {
    let log = Log::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        stream
            .write_all(text.to_uppercase().as_bytes())
            .await
            .unwrap();
    });
    let client = spawn(async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&b"echo ".repeat(10_000)).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        (text.len(), text.starts_with("ECHO ECHO"))
    });
    log.exactly(outcome(client.await));
    log.say(outcome(server.await));
    log.end()
}

pub async fn blocking_closures_run() -> Transcript {
    let log = Log::new();
    let handle = spawn(async {
        let closures: Vec<_> = (0..20)
            .map(|i| tokio::task::spawn_blocking(move || i * 2))
            .collect();
        let mut sum = 0;
        for closure in closures {
            sum += closure.await.unwrap();
        }
        sum
    });
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn block_in_place_runs() -> Transcript {
    let log = Log::new();
    if !two_threads() {
        log.say("needs two threads");
        return log.end();
    }
    let handle = spawn(async {
        let inline = tokio::task::block_in_place(|| 1);
        let nested = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                yield_now().await;
                // The time-out turns a deadlock into a difference.
                let child = spawn(async { 2 });
                let joined = tokio::time::timeout(Duration::from_secs(20), child).await;
                joined.map_or(0, |joined| joined.unwrap())
            })
        });
        yield_now().await;
        (inline, nested)
    });
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn tokios_own_tasks_and_sets_run() -> Transcript {
    let log = Log::new();
    let handle = spawn(async {
        let plain = tokio::spawn(async {
            yield_now().await;
            1
        });
        let mut set = tokio::task::JoinSet::new();
        for i in 0..10 {
            set.spawn(async move { i });
        }
        let mut sum = 0;
        while let Some(joined) = set.join_next().await {
            sum += joined.unwrap();
        }
        (plain.await.unwrap(), sum)
    });
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn a_task_tracker_tracks() -> Transcript {
    let log = Log::new();
    let tracker = tokio_util::task::TaskTracker::new();
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let done = done.clone();
        drop(spawn(tracker.track_future(async move {
            yield_now().await;
            done.fetch_add(1, Ordering::SeqCst);
        })));
    }
    let aborted = spawn(tracker.track_future(tokio::time::sleep(LONG)));
    aborted.abort();
    tracker.close();
    tracker.wait().await;
    log.exactly(format!("{} {}", done.load(Ordering::SeqCst), tracker.len()));
    log.end()
}

pub async fn unconstrained_and_consume_budget_work() -> Transcript {
    let log = Log::new();
    let handle = spawn(async {
        let (send, mut receive) = mpsc::unbounded_channel();
        (0..1000).for_each(|i| send.send(i).unwrap());
        drop(send);
        let mut all = std::pin::pin!(tokio::task::unconstrained(async {
            let mut count = 0;
            while receive.recv().await.is_some() {
                count += 1;
            }
            count
        }));
        let at_once = futures::poll!(all.as_mut());
        for _ in 0..1000 {
            consume_budget().await;
        }
        format!("{at_once:?}")
    });
    log.exactly(outcome(handle.await));
    log.end()
}

pub async fn the_runtime_is_the_current_one() -> Transcript {
    let log = Log::new();
    let here = tokio::runtime::Handle::current().id();
    let handle = spawn(async move {
        yield_now().await;
        tokio::runtime::Handle::current().id() == here
    });
    log.say(outcome(handle.await));
    log.end()
}

pub async fn block_on_inside_a_task_panics() -> Transcript {
    let log = Log::new();
    let handle = spawn(async {
        let nested = caught(|| tokio::runtime::Handle::current().block_on(async {}));
        let (send, mut receive) = mpsc::channel::<u8>(1);
        let receiving = caught(|| assert!(receive.blocking_recv().is_none()));
        drop(send);
        let runtime = caught(|| {
            let inner = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            drop(inner);
        });
        yield_now().await;
        format!("{nested}; {receiving}; {runtime}")
    });
    log.say(outcome(handle.await));
    log.end()
}

/// Tasks move between threads; what must stay on one has no place in them, on either side.
pub async fn spawn_local_inside_a_task_panics() -> Transcript {
    let log = Log::new();
    let handle = spawn(async {
        let local = caught(|| drop(tokio::task::spawn_local(async {})));
        yield_now().await;
        local
    });
    log.say(outcome(handle.await));
    log.end()
}
