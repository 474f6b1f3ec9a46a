//! What a worker keeps while its host has its turn.

use super::{Exit, Worker};
use crate::clock::{Clock, ManualClock};
use crate::exec::account::Account;
use crate::exec::blocking;
use crate::exec::core::{Config, Core};
use crate::exec::group::Group;
use crate::exec::task;
use crate::mem::OwnerHandle;
use crate::sched::{self, Limits};
use crate::unit::{Cores, Nanos, Weight};
use std::sync::Arc;
use std::time::Duration;

const POLL: Nanos = Nanos::from_micros(150);

fn two_workers() -> (Arc<Core>, Vec<Worker>, ManualClock) {
    let (clock, hand) = Clock::manual();
    hand.advance(Nanos::from_millis(1));
    let (core, workers) = Core::new(Config {
        workers: 2,
        policy: sched::Config::default(),
        quantum: Nanos::from_micros(100),
        long_poll: Nanos::from_secs(3_600),
        clock,
        displace: false,
        record: false,
        watchdog: false,
        spares: 0,
        hands_over: false,
        memory: OwnerHandle::open_governor(),
        shortage: |_, _| Arc::new(std::fmt::Error),
        park: None,
        hooks: None,
        blocking: blocking::Setup {
            threads: 1,
            queue: 1,
            keep_alive: Duration::from_secs(1),
            source: blocking::Source::Own,
            refusal: |_, _| Arc::new(std::fmt::Error),
        },
    });
    (core, workers, hand)
}

#[test]
fn a_turn_that_was_kept_ends_though_others_took_its_tasks() {
    let (core, workers, hand) = two_workers();
    let group = Group::new(&core, "g", Weight::new(1));
    let (here, there) = (&workers[0], &workers[1]);
    let clock = hand.clone();
    let polls = 6;
    let account = Account::for_group(group.clone());
    drop(task::spawn(account.clone(), None, async move {
        for _ in 0..polls {
            clock.advance(POLL);
            task::yield_now().await;
        }
    }));
    assert_eq!(here.run(), Exit::Yield);
    assert!(here.turn.get().is_some(), "it is kept");
    while there.run() != Exit::Idle {}
    hand.advance(Nanos::from_secs(10));
    assert_eq!(here.run(), Exit::Idle);
    assert!(here.turn.get().is_none());
    let queue = group.queue.lock();
    assert_eq!(queue.turns(), 0);
    // Not for the ten seconds; each charge is rounded down.
    let given = Nanos(POLL.0 * polls);
    let charged = queue.charged(0);
    assert!(charged <= given, "{charged:?}");
    assert!(given.since(charged) < Nanos(100), "{charged:?}");
}

#[test]
fn what_a_cap_holds_back_is_not_kept() {
    let (core, workers, hand) = two_workers();
    let group = Group::new(&core, "g", Weight::new(1));
    let limits = Limits {
        weight: Weight::new(1),
        reserved: 0,
        cap: Some(Cores::MIN),
    };
    core.set_limits(&group, limits);
    let account = Account::for_group(group.clone());
    drop(task::spawn(account.clone(), None, async move {
        loop {
            hand.advance(POLL);
            task::yield_now().await;
        }
    }));
    assert_eq!(workers[0].run(), Exit::Yield);
    assert!(group.is_held_back());
    // From the queue, and only from there, it can be had if it only has to be dropped.
    assert!(!workers[0].holds_tasks());
    assert_eq!(group.ready(), 1);
}

#[test]
fn what_was_woken_last_is_there_for_others_while_the_host_has_its_turn() {
    let (core, workers, hand) = two_workers();
    let account = Account::for_group(Group::new(&core, "g", Weight::new(1)));
    let (here, there) = (&workers[0], &workers[1]);
    let (tell, told) = tokio::sync::oneshot::channel();
    let waiting = task::spawn(account.clone(), None, async { told.await.is_ok() });
    drop(task::spawn(account.clone(), None, async move {
        hand.advance(POLL);
        let _ = tell.send(());
    }));
    assert_eq!(here.run(), Exit::Yield);
    assert!(here.holds_tasks() && !waiting.is_finished());
    // The host's own task takes for ever.
    while there.run() != Exit::Idle {}
    assert!(waiting.is_finished());
}
