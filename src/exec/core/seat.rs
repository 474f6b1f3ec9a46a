//! A worker's seat: what the other workers see of it, and may take from it.
//!
//! Mechanism; any thread.

use super::inbox::Inbox;
use crate::clock::Clock;
use crate::exec::blame::Blame;
use crate::exec::sleepers::Sleepers;
use crate::exec::stats::WorkerUsage;
use crate::exec::task::{Runnable, Task};
use crate::exec::watchdog::Watchdog;
use crate::unit::Nanos;
use crossbeam_deque::Stealer;
use crossbeam_utils::CachePadded;
use crossbeam_utils::atomic::AtomicCell;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// What others see of a worker.
pub(in crate::exec) struct Seat {
    pub(in crate::exec) index: usize,
    pub(in crate::exec) ring: Stealer<Runnable>,
    pub(in crate::exec) inbox: Inbox,
    /// Its worker sleeps, or is about to, or is given up; as of a moment ago. Who must not be wrong asks the sleepers.
    pub(in crate::exec) asleep: AtomicBool,
    sleepers: Arc<CachePadded<Sleepers>>,
    watchdog: Arc<Watchdog>,
    /// The task woken last by the running one: it runs next, unless someone takes it.
    lifo: AtomicCell<Option<Runnable>>,
    lifo_full: AtomicBool,
    /// The group it serves, by uid + 1; 0 if none.
    pub(in crate::exec) serving: AtomicU64,
    /// When the running poll began; 0 if none runs.
    pub(in crate::exec) poll_start: AtomicU64,
    /// Give way at the next poll boundary.
    pub(in crate::exec) preempt: AtomicBool,
    /// Everything is being ended. Read at every poll, hence in the worker's own seat.
    pub(in crate::exec) ending: AtomicBool,
    /// Its worker has stepped aside: it runs something that may take long, and holds nothing.
    pub(in crate::exec) aside: AtomicBool,
    /// Its poll was found to be late, and its slice has not ended yet.
    pub(in crate::exec) late: AtomicBool,
    /// Its worker will never come back from its poll.
    pub(in crate::exec) lost: AtomicBool,
    /// Its host has not driven it for long: see `Core::expose_stuck`.
    pub(in crate::exec) held_up: AtomicBool,
    /// The number of the task that is polled, or was last.
    pub(in crate::exec) task: AtomicU64,
    /// Where the task was spawned that is polled, or was last.
    pub(in crate::exec) place: AtomicCell<Option<&'static Location<'static>>>,
    /// The record of the running poll, if it is a long one that others wait for.
    pub(in crate::exec) blame: Mutex<Option<Arc<Blame>>>,
    /// The thread that it ran on last, as the operating system knows it; 0 if it does not say.
    pub(in crate::exec) thread: AtomicI32,
    /// The task in whose poll its thread was parked for good: the worker is lost.
    pub(in crate::exec) lost_in: OnceLock<Arc<Task>>,
    pub(in crate::exec) waker: AtomicWaker,
    pub(in crate::exec) busy: AtomicU64,
    pub(in crate::exec) parks: AtomicU64,
    pub(in crate::exec) polls_fast: AtomicU64,
    pub(in crate::exec) polls_fair: AtomicU64,
}

/// A worker that has been in one poll for longer than this does not come back in a moment: its LIFO task may be
/// taken, and the watchdog speaks for what waits behind it.
const LIFO_STUCK: Nanos = Nanos::from_micros(50);

impl Seat {
    pub(in crate::exec) fn new(
        index: usize,
        ring: Stealer<Runnable>,
        clock: Clock,
        sleepers: Arc<CachePadded<Sleepers>>,
        watchdog: Arc<Watchdog>,
    ) -> Seat {
        Seat {
            index,
            ring,
            inbox: Inbox::new(clock),
            asleep: AtomicBool::new(false),
            sleepers,
            watchdog,
            lifo: AtomicCell::new(None),
            lifo_full: AtomicBool::new(false),
            serving: AtomicU64::new(0),
            poll_start: AtomicU64::new(0),
            preempt: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            aside: AtomicBool::new(false),
            late: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            held_up: AtomicBool::new(false),
            task: AtomicU64::new(0),
            place: AtomicCell::new(None),
            blame: Mutex::new(None),
            thread: AtomicI32::new(0),
            lost_in: OnceLock::new(),
            waker: AtomicWaker::new(),
            busy: AtomicU64::new(0),
            parks: AtomicU64::new(0),
            polls_fast: AtomicU64::new(0),
            polls_fair: AtomicU64::new(0),
        }
    }

    /// Mail has come: wakes the worker if it sleeps, whoever else may be searching.
    pub(in crate::exec) fn wake_for_mail(&self) {
        if self.sleepers.may_miss(self.index) && self.sleepers.claim_one(self.index) {
            self.rise();
        }
    }

    /// Wakes the worker, which the caller has taken out of the list of sleepers.
    pub(super) fn rise(&self) {
        self.waker.wake();
        // Its host may be kept from driving it: from now on somebody must watch.
        self.watchdog.rouse();
    }

    /// Whether its host should be driving it, and has not since its progress was `mark`. Sets the mark.
    pub(super) fn is_held_up(&self, mark: &mut Option<u64>) -> bool {
        let awake = self.poll_start.load(Relaxed) == 0
            && !self.aside.load(SeqCst)
            && !self.sleepers.has(self.index);
        let now = awake.then(|| self.progress());
        std::mem::replace(mark, now) == now && awake
    }

    /// Changes whenever the worker has run a slice or goes to sleep.
    fn progress(&self) -> u64 {
        let polls = self.polls_fast.load(Relaxed) + self.polls_fair.load(Relaxed);
        polls + self.parks.load(Relaxed)
    }

    /// Whether its worker will not look for work by itself in a moment: it sleeps, or is in a poll.
    pub(in crate::exec) fn is_away(&self) -> bool {
        self.sleepers.may_miss(self.index)
            || self.asleep.load(Relaxed)
            || self.poll_start.load(Relaxed) != 0
            || self.aside.load(SeqCst)
    }

    #[inline]
    pub(in crate::exec) fn has_lifo(&self) -> bool {
        self.lifo_full.load(Relaxed)
    }

    #[inline]
    pub(in crate::exec) fn swap_lifo(&self, task: Runnable) -> Option<Runnable> {
        let old = self.lifo.swap(Some(task));
        self.lifo_full.store(true, Relaxed);
        old
    }

    #[inline]
    pub(in crate::exec) fn take_lifo(&self) -> Option<Runnable> {
        if !self.has_lifo() {
            return None;
        }
        self.lifo_full.store(false, Relaxed);
        self.lifo.take()
    }

    /// Whether another worker may take the LIFO task: its owner has been in one poll for long.
    pub(in crate::exec) fn lifo_is_stuck(&self, now: Nanos) -> bool {
        self.has_lifo() && self.is_in_a_long_poll(now)
    }

    /// Whether its poll has gone on for so long that others should not wait for its end.
    pub(in crate::exec) fn is_in_a_long_poll(&self, now: Nanos) -> bool {
        self.polls_since(now) > LIFO_STUCK
    }

    /// How long the running poll has gone on; zero if none runs.
    pub(in crate::exec) fn polls_since(&self, now: Nanos) -> Nanos {
        match self.poll_start.load(Relaxed) {
            0 => Nanos::ZERO,
            start => now.since(Nanos(start)),
        }
    }

    /// Whether its mail waits for a poll that has gone on for long, or for a host that is kept from driving it.
    pub(in crate::exec) fn leaves_mail(&self, now: Nanos) -> bool {
        !self.inbox.is_empty() && (self.is_in_a_long_poll(now) || self.inbox.is_overdue(now))
    }

    /// Whether ready tasks wait in its hands for a poll that has gone on for long.
    pub(in crate::exec) fn is_stuck(&self, now: Nanos) -> bool {
        let holds = self.has_lifo() || !self.ring.is_empty();
        holds && self.is_in_a_long_poll(now)
    }

    pub(in crate::exec) fn usage(&self) -> WorkerUsage {
        WorkerUsage {
            busy: Nanos(self.busy.load(Relaxed)),
            parks: self.parks.load(Relaxed),
            polls_fast: self.polls_fast.load(Relaxed),
            polls_fair: self.polls_fair.load(Relaxed),
        }
    }
}
