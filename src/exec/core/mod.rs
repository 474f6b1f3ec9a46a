//! What the workers of one executor share: the scheduler's state, the sleepers, a seat per worker.
//!
//! Mechanism; any thread. The scheduler's lock is taken once per slice (100 µs of work) and when an idle
//! group gets its first task; nothing global is touched per poll.

mod around;
mod end;
mod groups;
mod inbox;
mod report;
mod seat;

use around::Around;
pub(super) use inbox::NOBODY;
pub(super) use seat::Seat;

use crate::clock::Clock;
use crate::exec::account::Account;
use crate::exec::alarm::Alarm;
use crate::exec::context;
use crate::exec::ending::Ending;
use crate::exec::group::Group;
use crate::exec::hooks::Hooks;
use crate::exec::sleepers::Sleepers;
use crate::exec::watchdog::Watchdog;
use crate::exec::worker::Worker;
use crate::sched;
use crate::sched::entitle::{Demand, Ledger};
use crate::sched::fair::Slot;
use crate::sched::trace::{Recorder, Trace};
use crate::unit::Nanos;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use slab::Slab;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// How the executor is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Workers, at least 1.
    pub workers: usize,
    /// The scheduling policy's constants.
    pub policy: sched::Config,
    /// How long a worker runs before it lets the host look after I/O and timers.
    pub quantum: Nanos,
    /// A poll longer than this is counted as long.
    pub long_poll: Nanos,
    /// The clock that charges are measured with.
    pub clock: Clock,
    /// Whether a worker woken from inside a task could get stuck behind it (tokio's multi-thread scheduler).
    pub displace: bool,
    /// Whether every call of the level-1 scheduler is recorded.
    pub record: bool,
    /// Whether a thread watches for tasks that wait behind long polls.
    pub watchdog: bool,
    /// Who is told of each task's life; none costs nothing.
    pub hooks: Option<Arc<Hooks>>,
}

/// The shared state of one executor.
pub struct Core {
    config: Config,
    pub(super) sched: CachePadded<Mutex<Sched>>,
    /// Groups in the level-1 queue; a mirror of what the lock protects.
    queued_groups: CachePadded<AtomicUsize>,
    pub(super) sleepers: Arc<CachePadded<Sleepers>>,
    seats: Box<[Arc<CachePadded<Seat>>]>,
    accounts: Mutex<Slab<Weak<Account>>>,
    /// Slots whose groups are gone, to be freed when the lock is taken next.
    graves: Mutex<Vec<Slot>>,
    ending: Ending,
    watchdog: Arc<Watchdog>,
    around: Around,
    alarm: Alarm,
    /// When the next quota opens; a mirror of what the lock protects.
    next_refill: AtomicU64,
    /// Workers whose host still drives them.
    manned: AtomicUsize,
}

/// What the scheduler's lock protects.
pub(super) struct Sched {
    pub(super) fair: Recorder,
    pub(super) ledger: Ledger,
    groups: Vec<Weak<Group>>,
    demands: Vec<(Slot, Demand)>,
}

impl Core {
    /// A new executor and its workers, which wait for a host to drive them.
    pub fn new(config: Config) -> (Arc<Core>, Vec<Worker>) {
        let workers = config.workers.max(1);
        let rings: Vec<_> = (0..workers)
            .map(|_| crossbeam_deque::Worker::new_fifo())
            .collect();
        let sched = Sched {
            fair: if config.record {
                Recorder::recording(config.policy, workers)
            } else {
                Recorder::silent(config.policy, workers)
            },
            ledger: Ledger::new(workers, Nanos::from_secs(1)),
            groups: Vec::new(),
            demands: Vec::new(),
        };
        let sleepers = Arc::new(CachePadded::new(Sleepers::new()));
        let watchdog = Arc::new(Watchdog::default());
        let seat = |(index, ring): (usize, &crossbeam_deque::Worker<_>)| {
            let (clock, sleepers) = (config.clock.clone(), sleepers.clone());
            let seat = Seat::new(index, ring.stealer(), clock, sleepers, watchdog.clone());
            Arc::new(CachePadded::new(seat))
        };
        let seats = rings.iter().enumerate().map(seat).collect();
        let core = Arc::new(Core {
            config: Config { workers, ..config },
            sched: CachePadded::new(Mutex::new(sched)),
            queued_groups: CachePadded::default(),
            sleepers,
            seats,
            accounts: Mutex::default(),
            graves: Mutex::default(),
            ending: Ending::new(),
            watchdog,
            around: Around::default(),
            alarm: Alarm::default(),
            next_refill: AtomicU64::new(u64::MAX),
            manned: AtomicUsize::new(workers),
        });
        core.alarm.attach(Arc::downgrade(&core));
        if core.config.watchdog && workers > 1 {
            core.watchdog.start(Arc::downgrade(&core));
        }
        let workers = rings
            .into_iter()
            .enumerate()
            .map(|(i, ring)| Worker::new(core.clone(), i, ring))
            .collect();
        (core, workers)
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.seats.len()
    }

    /// The clock that charges are measured with.
    pub fn clock(&self) -> &Clock {
        &self.config.clock
    }

    pub(super) fn config(&self) -> &sched::Config {
        &self.config.policy
    }

    pub(super) fn setup(&self) -> &Config {
        &self.config
    }

    pub(super) fn seat(&self, worker: usize) -> &Arc<CachePadded<Seat>> {
        &self.seats[worker]
    }

    pub(super) fn list(&self, account: &Arc<Account>) -> usize {
        self.accounts.lock().insert(Arc::downgrade(account))
    }

    pub(super) fn unlist(&self, place: usize) {
        let _ = self.accounts.lock().try_remove(place);
    }

    fn accounts(&self) -> Vec<Arc<Account>> {
        let accounts = self.accounts.lock();
        accounts
            .iter()
            .filter_map(|(_, account)| account.upgrade())
            .collect()
    }

    /// Wakes a sleeping worker, unless one is on its way already.
    #[inline]
    pub(super) fn notify(&self) {
        if self.sleepers.wanted() {
            // The worker whose host's thread this is starts at once and finds warm caches.
            let prefer = self.home_worker(|seat| seat.index);
            if let Some(worker) = self.sleepers.claim(prefer) {
                self.wake(worker);
            }
        }
    }

    /// Whether a worker of ours is about to run on this thread anyway.
    pub(super) fn expects_worker_here(&self) -> bool {
        self.home_worker(|seat| !seat.is_away()).unwrap_or(false)
    }

    fn home_worker<R>(&self, f: impl FnOnce(&Seat) -> R) -> Option<R> {
        let ours = |seat: &Arc<CachePadded<Seat>>| {
            self.seats
                .get(seat.index)
                .is_some_and(|own| Arc::ptr_eq(own, seat))
                .then(|| f(seat))
        };
        context::home(ours).flatten()
    }

    #[cold]
    fn wake(&self, worker: usize) {
        self.seats[worker].rise();
        // A driver woken from inside a poll of ours lands in tokio's LIFO slot, which no other thread may take
        // before that poll ends. An empty task displaces it into the queue that they do take from. Woken from
        // elsewhere it is in the right place already: it runs next on this very thread.
        if self.config.displace
            && context::on_worker()
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            drop(handle.spawn(async {}));
        }
    }

    fn wake_all(&self) {
        for worker in self.sleepers.take_all() {
            self.seats[worker].waker.wake();
        }
    }

    /// Ends the recording of the level-1 scheduler's calls; none if there was none.
    pub fn take_trace(&self) -> Option<Trace> {
        self.sched.lock().fair.finish()
    }

    pub(super) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// Whether every worker sleeps.
    pub(super) fn all_asleep(&self) -> bool {
        self.sleepers.len() == self.workers()
    }

    /// Lets the other workers take what waits behind polls that go on and on, or behind a host that is kept busy.
    /// True if there was something. `marks`: what the last call saw of each worker.
    pub(super) fn expose_stuck(&self, marks: &mut Vec<Option<u64>>) -> bool {
        marks.resize(self.workers(), None);
        let looks = self.seats.iter().zip(marks);
        let held_up = looks.fold(false, |any, (seat, mark)| seat.is_held_up(mark) || any);
        let mut found = held_up && self.queued_groups() > 0;
        if found {
            // Its thread is kept by a task of the host's own. If it is the searcher, or was relied on to come by
            // (see `expects_worker_here`), nobody else was woken.
            self.sleepers.stop_searching();
            self.notify();
        }
        let now = self.clock().now();
        // Mail that nobody reads is seen by nobody, even if no worker sleeps.
        if !self.sleepers.any() && !self.seats.iter().any(|seat| seat.leaves_mail(now)) {
            return found;
        }
        if self.queued_groups() > 0 && self.seats.iter().any(|seat| seat.is_in_a_long_poll(now)) {
            // Left alone as not worth a wake-up, at an average that this poll does not keep to.
            self.notify();
            found = true;
        }
        let stuck = self.seats.iter().filter(|seat| seat.is_stuck(now));
        let uids: Vec<u64> = stuck
            .flat_map(|seat| [seat.serving.load(Relaxed), seat.inbox.holds_of()])
            .filter(|&uid| uid != 0)
            .collect();
        if uids.is_empty() {
            return found;
        }
        for group in self.groups() {
            if uids.contains(&(group.uid + 1)) {
                group.expose();
            }
        }
        true
    }

    /// Whether another worker holds tasks of this group that may be taken from it.
    pub(super) fn stealable(&self, uid: u64, me: usize, now: Nanos) -> bool {
        let mut others = self.seats.iter().filter(|seat| seat.index != me);
        others.any(|seat| {
            let serves = seat.serving.load(Relaxed) == uid + 1;
            (serves && (!seat.ring.is_empty() || seat.lifo_is_stuck(now)))
                || (seat.inbox.has_of(uid) && seat.leaves_mail(now))
        })
    }

    pub(super) fn group_at(sched: &Sched, slot: Slot) -> Option<Arc<Group>> {
        sched.groups.get(slot.0 as usize).and_then(Weak::upgrade)
    }

    /// Tasks that are alive in all groups. Never too few while a spawn is under way.
    pub fn live(&self) -> u64 {
        let groups = self.groups();
        groups.iter().map(|group| group.counters.live()).sum()
    }

    /// All groups. The last reference to one must not be dropped under the scheduler's lock.
    fn groups(&self) -> Vec<Arc<Group>> {
        let sched = self.sched.lock();
        sched.groups.iter().filter_map(Weak::upgrade).collect()
    }

    /// A host gives up a worker; true for the last one.
    pub(super) fn unman(&self) -> bool {
        let last = self.manned.fetch_sub(1, SeqCst) == 1;
        if last {
            self.watchdog.dismiss();
            self.alarm.dismiss();
        }
        last
    }

    /// Whether no host drives a worker any more.
    pub(super) fn is_unmanned(&self) -> bool {
        self.manned.load(SeqCst) == 0
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.watchdog.dismiss();
        self.alarm.dismiss();
    }
}
