//! How often a worker that sleeps is woken for what another one holds, in a script: the woken worker runs at once, until
//! it has nothing left, while the other one waits. That is what becomes of two workers on one core. And what groups are
//! entitled to that only mail makes ready.

#![allow(clippy::unwrap_used, reason = "a test")]

mod live;
mod support;

use live::{bare, watched};
use quotient::clock::{Clock, ManualClock};
use quotient::exec::account::Account;
use quotient::exec::core::Core;
use quotient::exec::group::Group;
use quotient::exec::task;
use quotient::exec::worker::{Exit, Worker};
use quotient::unit::{Nanos, Weight};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Wake, Waker};

fn executor(workers: usize, clock: Clock) -> (Arc<Core>, Vec<Worker>) {
    Core::new(bare(workers, clock))
}

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A worker on a thread of its own, which goes on when it is told that its bell rang, and says when it sleeps again.
struct Other {
    bell: Arc<Bell>,
    go: Option<Sender<()>>,
    asleep: Receiver<()>,
    thread: Option<std::thread::JoinHandle<()>>,
    wakes: u64,
}

impl Other {
    fn new(worker: Worker) -> Other {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let (go, told) = channel::<()>();
        let (tell, asleep) = channel();
        let thread = std::thread::spawn(move || {
            loop {
                while worker.run() != Exit::Idle || {
                    worker.register(&waker);
                    !worker.prepare_to_sleep()
                } {}
                tell.send(()).unwrap();
                if told.recv().is_err() {
                    return;
                }
                worker.awake();
            }
        });
        let other = Other {
            bell,
            go: Some(go),
            asleep,
            thread: Some(thread),
            wakes: 0,
        };
        other.asleep.recv().unwrap();
        other
    }

    /// If it was woken, it runs until it sleeps.
    fn run_if_woken(&mut self) {
        if self.bell.0.swap(false, SeqCst) {
            self.wakes += 1;
            self.go.as_ref().unwrap().send(()).unwrap();
            self.asleep.recv().unwrap();
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.go = None;
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// A task spawns so many others in one poll, one per `pace`, each of which takes `length`. How often the other worker
/// was woken meanwhile, and how many tasks were left when the last was spawned.
fn spawns(clock: &ManualClock, other: &mut Other, tasks: u64, times: (Nanos, Nanos)) -> (u64, u64) {
    let (pace, length) = times;
    let left = Arc::new(AtomicU64::new(tasks));
    // Whatever it was woken for before.
    other.run_if_woken();
    let before = other.wakes;
    for _ in 0..tasks {
        let (hand, left) = (clock.clone(), left.clone());
        drop(quotient::spawn(async move {
            hand.advance(length);
            left.fetch_sub(1, SeqCst);
        }));
        clock.advance(pace);
        other.run_if_woken();
    }
    (other.wakes - before, left.load(SeqCst))
}

/// Does so three times in a row on one of two workers.
fn three_times(tasks: u64, times: (Nanos, Nanos)) -> Vec<(u64, u64)> {
    let (clock, hand) = Clock::manual();
    hand.advance(Nanos::from_millis(1));
    let (core, mut workers) = executor(2, clock);
    let account = Account::for_group(Group::new(&core, "g", Weight::new(1)));
    let (other, worker) = (workers.remove(1), workers.remove(0));
    let (report, seen) = channel();
    drop(task::spawn(account.clone(), None, async move {
        let mut other = Other::new(other);
        for _ in 0..3 {
            report
                .send(spawns(&hand, &mut other, tasks, times))
                .unwrap();
            quotient::task::yield_now().await;
        }
    }));
    while worker.run() != Exit::Idle {}
    let all: Vec<_> = seen.iter().collect();
    assert_eq!(all.len(), 3, "the task has panicked");
    all
}

#[test]
fn tiny_tasks_of_one_poll_wake_a_worker_as_often_as_is_worth_it() {
    let _watch = watched("tiny tasks of one poll wake a worker as often as is worth it");
    for (wakes, left) in three_times(10_000, (Nanos(200), Nanos(100))) {
        // Ten thousand of them are a millisecond of work, and 50 µs of work are worth a wake-up.
        assert!(wakes <= 40, "woken {wakes} times");
        assert!(left < 1_000, "{left} left, while a worker slept");
    }
}

#[test]
fn tasks_that_are_worth_a_wake_up_wait_for_no_long_poll() {
    let _watch = watched("tasks that are worth a wake up wait for no long poll");
    let times = (Nanos::from_micros(30), Nanos::from_micros(60));
    // The first time nobody knows how long they take.
    for (wakes, left) in three_times(100, times).split_off(1) {
        assert!(wakes >= 25, "woken {wakes} times only");
        assert!(left <= 3, "{left} left, while a worker slept");
    }
}

/// A worker that is served by mail alone, in a group without a place in the queue, runs longer than a slice. What another
/// worker's long poll has spawned meanwhile is there for it, though nobody was asked while nobody slept.
#[test]
fn what_a_long_poll_holds_is_taken_after_a_slice_of_mail_alone() {
    let _watch = watched("what a long poll holds is taken after a slice of mail alone");
    let (clock, hand) = Clock::manual();
    hand.advance(Nanos::from_millis(1));
    let (core, mut workers) = executor(2, clock);
    let account = Account::for_group(Group::new(&core, "g", Weight::new(1)));
    let (other, worker) = (workers.remove(1), workers.remove(0));
    let run = || while worker.run() != Exit::Idle {};
    let ((go, told), (spawned, said)) = (channel::<()>(), channel());
    let mail = Arc::new(tokio::sync::Notify::new());
    let (answer, notified) = (hand.clone(), mail.clone());
    drop(task::spawn(account.clone(), None, async move {
        notified.notified().await;
        go.send(()).unwrap();
        said.recv().unwrap();
        answer.advance(Nanos::from_millis(1));
    }));
    run();
    let other = Other::new(other);
    let ((begun, begins), (end, ends)) = (channel(), channel::<()>());
    let (ran, all_ran) = channel();
    drop(task::spawn(account.clone(), None, async move {
        begun.send(()).unwrap();
        told.recv().unwrap();
        for _ in 0..10 {
            let ran = ran.clone();
            drop(quotient::spawn(async move {
                ran.send(std::thread::current().id()).unwrap();
            }));
        }
        spawned.send(()).unwrap();
        let _ = ends.recv();
    }));
    assert!(
        other.bell.0.swap(false, SeqCst),
        "the one that sleeps is woken"
    );
    other.go.as_ref().unwrap().send(()).unwrap();
    begins.recv().unwrap();
    // It finds nothing that it could take, and the group leaves the queue.
    run();
    mail.notify_one();
    run();
    let here = all_ran.try_iter().count();
    drop(end);
    other.asleep.recv().unwrap();
    // The one spawned last is the other worker's own.
    assert!(here >= 9, "{here} of 10 ran while the long poll went on");
}

/// A task that came by mail on an idle machine is served without its group being queued. What it spawns is seen all the
/// same by a worker that looks for work while that poll goes on.
#[test]
fn what_a_task_spawns_that_was_served_alone_is_taken_by_a_worker_that_looks() {
    let _watch =
        watched("what a task spawns that was served alone is taken by a worker that looks");
    let (clock, hand) = Clock::manual();
    hand.advance(Nanos::from_millis(1));
    let (core, mut workers) = executor(2, clock);
    let account = Account::for_group(Group::new(&core, "g", Weight::new(1)));
    let (other, worker) = (workers.remove(1), workers.remove(0));
    let (send, mut comes) = tokio::sync::mpsc::channel(1);
    let done = Arc::new(AtomicU64::new(0));
    let seen = done.clone();
    let (report, taken) = channel();
    drop(task::spawn(account.clone(), None, async move {
        comes.recv().await.unwrap();
        for _ in 0..8 {
            let done = seen.clone();
            drop(quotient::spawn(async move {
                done.fetch_add(1, SeqCst);
            }));
        }
        // It runs until it sleeps, while this poll goes on.
        drop(Other::new(other));
        report.send(seen.load(SeqCst)).unwrap();
    }));
    while worker.run() != Exit::Idle {}
    // On the worker's thread while it does not run: by mail.
    send.try_send(()).unwrap();
    while worker.run() != Exit::Idle {}
    assert_eq!(taken.recv(), Ok(7), "all but the one that is warm here");
    assert_eq!(done.load(SeqCst), 8);
}

#[test]
fn groups_that_mail_makes_ready_by_turns_are_entitled_to_no_idle_time() {
    let _watch = watched("groups that mail makes ready by turns");
    let (clock, hand) = Clock::manual();
    hand.advance(Nanos::from_millis(1));
    let (core, mut workers) = executor(1, clock);
    let worker = workers.remove(0);
    let run = || while worker.run() != Exit::Idle {};
    let groups = [("often", 10), ("seldom", 900)].map(|(name, micros)| {
        let group = Group::new(&core, name, Weight::new(1));
        let mail = Arc::new(tokio::sync::Notify::new());
        let (notified, hand) = (mail.clone(), hand.clone());
        drop(task::spawn(
            Account::for_group(group.clone()),
            None,
            async move {
                loop {
                    notified.notified().await;
                    hand.advance(Nanos::from_micros(micros));
                }
            },
        ));
        (group, mail)
    });
    run();
    for round in 0..30_000 {
        groups[usize::from(round % 10 == 9)].1.notify_one();
        run();
        hand.advance(Nanos::from_micros(500));
    }
    // Nobody ever waited for anybody.
    for (group, _) in groups {
        let usage = group.usage();
        assert!(usage.share > 0.0, "{usage:?}");
        assert!(usage.entitled <= usage.share + 0.01, "{usage:?}");
        assert_eq!(usage.lag_ns, 0);
    }
}
