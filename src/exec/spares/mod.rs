//! The spares: threads that stand in for workers that are stuck in a poll or have stepped aside.
//!
//! Mechanism. A stand-in is a [`Worker`] of its own on a thread of its own, inside the runtime's context, so that
//! timers and I/O work in what it polls. It never sleeps as a worker does: with nothing to do it leaves, and
//! whoever makes a group ready while a place is open calls for one ([`Core::summon`]). The runtime's drivers stay
//! where they are; a stand-in does not drive I/O.

mod bench;
mod places;
mod pool;

pub(super) use bench::Bench;
pub(super) use places::{Absence, Caps, Role};

use super::core::Core;
use super::stats::{SpareUsage, WorkerUsage};
use super::worker::Worker;
use crossbeam_deque::Worker as Ring;
use places::Places;
use pool::Pool;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;
use tokio::runtime::Handle;

/// What the executor knows of its spares.
pub(super) struct Spares {
    pub(super) places: Places,
    pub(super) bench: Bench,
    pool: Arc<Pool>,
    /// Where stand-ins run; without it there are none.
    runtime: OnceLock<Handle>,
    started: AtomicU64,
    lates: AtomicU64,
}

impl Spares {
    pub(super) fn new(caps: Caps) -> Spares {
        Spares {
            places: Places::new(caps),
            bench: Bench::new(caps.sum()),
            pool: Arc::default(),
            runtime: OnceLock::new(),
            started: AtomicU64::new(0),
            lates: AtomicU64::new(0),
        }
    }

    /// Whether work that no worker takes should call for a stand-in.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        self.places.is_open()
    }

    pub(super) fn count_late(&self) {
        self.lates.fetch_add(1, Relaxed);
    }

    /// The executor is over: threads that wait end at once.
    pub(super) fn dismiss(&self) {
        self.pool.close();
    }
}

impl Core {
    /// Counters of those that stand in.
    pub fn spare_usage(&self) -> SpareUsage {
        SpareUsage {
            serving: self.spares.places.serving() as u64,
            started: self.spares.started.load(Relaxed),
            late_polls: self.spares.lates.load(Relaxed),
            work: self
                .spares
                .bench
                .ever()
                .fold(WorkerUsage::default(), |sum, seat| sum.plus(seat.usage())),
        }
    }

    /// From now on threads that stand in for stuck workers run in the context of this runtime.
    pub fn stand_in_on(&self, runtime: &Handle) {
        // A second host would be a mistake of ours; the first stays.
        let _ = self.spares.runtime.set(runtime.clone());
    }

    /// Fills an open place, if there is work for whoever fills it.
    #[cold]
    pub(super) fn summon(&self) {
        if self.spares.runtime.get().is_none() {
            return;
        }
        if let Some(role) = self.enlist() {
            let core = self.weak();
            if !self.spares.pool.call(role, move |pool| live(&core, pool)) {
                self.spares.places.leave(role);
            }
        }
    }

    /// A thread that waits, for the next call.
    pub(super) fn warm_up(&self) {
        if self.spares.runtime.get().is_some() {
            let core = self.weak();
            self.spares.pool.warm(move |pool| live(&core, pool));
        }
    }

    fn take_seat(&self) -> Option<(usize, SeatRing)> {
        self.spares
            .bench
            .take(|place, ring| self.new_seat(self.workers() + place, ring))
    }

    /// Claims an open place, if there is work for whoever fills it.
    fn enlist(&self) -> Option<Role> {
        let now = self.clock().now();
        let mut sched = self.sched.lock();
        self.spares.places.claim(|role| {
            let first = match role {
                Role::Spare if self.cancelled().is_none() => sched.fair.first_in_time(now),
                _ => sched.fair.first(),
            };
            first.is_some()
        })
    }
}

/// The life of a spare thread: it takes a seat, serves when it is called, and returns the seat at the end.
fn live(core: &Weak<Core>, pool: &Pool) {
    let mut seat = None;
    while let Some(role) = pool.next() {
        let Some(core) = core.upgrade() else { break };
        let taken = seat.take().or_else(|| core.take_seat());
        match taken {
            Some((place, ring)) => seat = Some((place, serve(&core, place, ring, role))),
            // More threads than places: another one is about to return its seat.
            None => core.spares.places.leave(role),
        }
    }
    if let (Some(core), Some((place, ring))) = (core.upgrade(), seat) {
        core.spares.bench.give(place, ring);
    }
}

type SeatRing = Ring<super::task::Runnable>;

fn serve(core: &Arc<Core>, place: usize, ring: SeatRing, role: Role) -> SeatRing {
    let index = core.workers() + place;
    let (Some(runtime), Some(seat)) = (core.spares.runtime.get(), core.seat(index)) else {
        core.spares.places.leave(role);
        return ring;
    };
    let worker = Worker::new(core.clone(), index, seat.clone(), ring);
    // It is here because somebody waits.
    core.blame_for_waiting();
    core.spares.started.fetch_add(1, Relaxed);
    worker.stand_in(role);
    // Every poll of this future has tokio's cooperative budget anew.
    runtime.block_on(poll_fn(|cx| {
        if stay(core, &worker) {
            cx.waker().wake_by_ref();
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }));
    worker.into_ring()
}

/// One quantum. False: the stand-in has left.
fn stay(core: &Core, worker: &Worker) -> bool {
    use super::worker::Exit;
    let Some(role) = worker
        .role()
        .and_then(|role| core.spares.places.review(role))
    else {
        leave(core, worker);
        return false;
    };
    worker.stand_in(role);
    let exit = worker.run();
    if exit == Exit::Yield {
        return true;
    }
    leave(core, worker);
    core.spares.places.leave(role);
    // Whoever made a group ready before the place was open again saw it filled.
    match core.enlist() {
        Some(role) if exit == Exit::Idle => {
            worker.stand_in(role);
            true
        }
        Some(role) => {
            core.spares.places.leave(role);
            false
        }
        None => false,
    }
}

/// Gives back what it holds. It may have run the last task of all in the quantum before, and looks at nothing after.
fn leave(core: &Core, worker: &Worker) {
    worker.stand_down();
    core.look_whether_over();
}
