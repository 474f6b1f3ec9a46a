//! What the workers of one executor share: the scheduler's state, the sleepers, a seat per worker.
//!
//! Mechanism; any thread. The scheduler's lock is taken once per slice (100 µs of work) and when an idle
//! group gets its first task; nothing global is touched per poll.

mod around;
mod end;
mod groups;
mod inbox;
mod late;
mod memory;
mod report;
mod seat;
mod sight;
mod stuck;
mod tasks;
mod wake;

use around::Around;
pub(super) use inbox::NOBODY;
pub(super) use late::Outlook;
pub(super) use seat::Seat;
pub(super) use sight::Sight;
pub(super) use stuck::Marks;

use crate::clock::Clock;
use crate::exec::account::Account;
use crate::exec::alarm::Alarm;
use crate::exec::blame::Blames;
use crate::exec::blocking;
use crate::exec::ending::Ending;
use crate::exec::group::Group;
use crate::exec::hooks::Hooks;
use crate::exec::join::Cause;
use crate::exec::latency::KillLatency;
use crate::exec::moving::Moves;
use crate::exec::sleepers::Sleepers;
use crate::exec::spares::{Caps, Spares};
use crate::exec::watchdog::Watchdog;
use crate::exec::worker::Worker;
use crate::mem::{self, OwnerHandle, Shortfall};
use crate::sched;
use crate::sched::entitle::{Demand, Ledger};
use crate::sched::fair::Slot;
use crate::sched::trace::{Recorder, Trace};
use crate::unit::Nanos;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use slab::Slab;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// How the executor is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Workers, at least 1.
    pub workers: usize,
    /// The scheduling policy's constants.
    pub policy: sched::Config,
    /// How long a worker runs before it lets the host look after I/O and timers, while that is of use.
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
    /// Whose the memory of all its groups is.
    pub memory: Arc<OwnerHandle>,
    /// Why an account is killed that a request for memory has doomed.
    pub shortage: fn(&Account, Shortfall) -> Cause,
    /// How a thread is taken out of the host's hands inside a poll that must never go on, if it can be.
    pub park: Option<fn()>,
    /// Threads that may stand in for workers in long polls. They, and those that stand in for workers in
    /// `block_in_place`, need [`Core::stand_in_on`] too.
    pub spares: usize,
    /// Whether `tokio::task::block_in_place` is how a worker's thread leaves its runtime.
    pub hands_over: bool,
    /// The blocking pool.
    pub blocking: blocking::Setup,
}

/// Workers that are in `block_in_place` at once and have a stand-in: as many as tokio has blocking threads for.
const ASIDE_MAX: usize = 512;

/// The shared state of one executor.
pub struct Core {
    config: Config,
    pub(super) sched: CachePadded<Mutex<Sched>>,
    /// Groups in the level-1 queue; a mirror of what the lock protects.
    queued_groups: CachePadded<AtomicUsize>,
    pub(super) sleepers: Arc<CachePadded<Sleepers>>,
    seats: Box<[Arc<CachePadded<Seat>>]>,
    accounts: Mutex<Slab<Weak<Account>>>,
    /// Accounts of queries that moved to another group.
    pub(super) moves: Mutex<Moves>,
    pub(super) kills: KillLatency,
    /// Slots whose groups are gone, to be freed when the lock is taken next.
    graves: Mutex<Vec<Slot>>,
    ending: Ending,
    watchdog: Arc<Watchdog>,
    around: Around,
    blocking: Arc<blocking::Pool>,
    pub(super) spares: Spares,
    pub(super) blames: Blames,
    /// A poll longer than this, in ns, is long.
    long_poll: AtomicU64,
    this: Weak<Core>,
    alarm: Alarm,
    /// When the next quota opens; a mirror of what the lock protects.
    next_refill: AtomicU64,
    /// Workers whose host still drives them.
    manned: AtomicUsize,
    /// Workers whose thread is parked for good, and how many of them have been attended to.
    pub(super) lost: AtomicUsize,
    attended: AtomicUsize,
    /// For those who wait for the end: a thread is lost, or everything is over.
    news: Notify,
    /// Queries doomed in the process, as far as they have been looked for.
    dooms: AtomicU64,
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
        let sleepers = Arc::new(CachePadded::new(Sleepers::new(workers)));
        let watchdog = Arc::new(Watchdog::default());
        let seat = |(index, ring): (usize, &crossbeam_deque::Worker<_>)| {
            let (clock, sleepers) = (config.clock.clone(), sleepers.clone());
            let seat = Seat::new(index, ring.stealer(), clock, sleepers, watchdog.clone());
            Arc::new(CachePadded::new(seat))
        };
        let caps = Caps {
            spares: config.spares,
            aside: ASIDE_MAX,
            lost: workers,
        };
        let seats = rings.iter().enumerate().map(seat).collect();
        let blocking = Arc::new(blocking::Pool::new(
            config.blocking,
            config.policy,
            config.clock.clone(),
        ));
        let core = Arc::new_cyclic(|this| Core {
            spares: Spares::new(caps),
            blames: Blames::default(),
            long_poll: AtomicU64::new(config.long_poll.0),
            this: this.clone(),
            config: Config { workers, ..config },
            sched: CachePadded::new(Mutex::new(sched)),
            queued_groups: CachePadded::default(),
            sleepers,
            seats,
            accounts: Mutex::default(),
            moves: Mutex::default(),
            kills: KillLatency::default(),
            graves: Mutex::default(),
            ending: Ending::new(),
            watchdog,
            around: Around::default(),
            blocking,
            alarm: Alarm::default(),
            next_refill: AtomicU64::new(u64::MAX),
            manned: AtomicUsize::new(workers),
            lost: AtomicUsize::new(0),
            attended: AtomicUsize::new(0),
            news: Notify::new(),
            dooms: AtomicU64::new(0),
        });
        core.alarm.attach(Arc::downgrade(&core));
        // A single worker has nobody who could help, but for spares; and it can be lost.
        let helped = workers > 1 || core.config.spares > 0 || core.config.park.is_some();
        if core.config.watchdog && helped {
            core.watchdog.start(Arc::downgrade(&core));
        }
        let workers = rings
            .into_iter()
            .enumerate()
            .map(|(i, ring)| Worker::new(core.clone(), i, core.seats[i].clone(), ring))
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

    /// The seat of a worker, or of one that stands in.
    pub(super) fn seat(&self, index: usize) -> Option<&Arc<CachePadded<Seat>>> {
        match index.checked_sub(self.seats.len()) {
            None => self.seats.get(index),
            Some(place) => self.spares.bench.get(place),
        }
    }

    /// All seats: the workers', then those of the ones that stand in now.
    pub(super) fn all_seats(&self) -> impl Iterator<Item = &Arc<CachePadded<Seat>>> {
        self.seats.iter().chain(self.spares.bench.seats())
    }

    /// One more than the highest index of a seat in use.
    pub(super) fn seat_count(&self) -> usize {
        self.seats.len() + self.spares.bench.len()
    }

    pub(super) fn new_seat(
        &self,
        index: usize,
        ring: &crossbeam_deque::Worker<crate::exec::task::Runnable>,
    ) -> Seat {
        let (clock, sleepers) = (self.clock().clone(), self.sleepers.clone());
        Seat::new(
            index,
            ring.stealer(),
            clock,
            sleepers,
            self.watchdog.clone(),
        )
    }

    /// The pool that runs closures.
    pub(super) fn pool(&self) -> &Arc<blocking::Pool> {
        &self.blocking
    }

    pub(super) fn weak(&self) -> Weak<Core> {
        self.this.clone()
    }

    pub(super) fn list(&self, account: &Arc<Account>) -> usize {
        self.accounts.lock().insert(Arc::downgrade(account))
    }

    pub(super) fn unlist(&self, place: usize) {
        let _ = self.accounts.lock().try_remove(place);
    }

    pub(super) fn accounts(&self) -> Vec<Arc<Account>> {
        let _ours = mem::enter_process();
        let accounts = self.accounts.lock();
        accounts
            .iter()
            .filter_map(|(_, account)| account.upgrade())
            .collect()
    }

    /// Ends the recording of the level-1 scheduler's calls; none if there was none.
    pub fn take_trace(&self) -> Option<Trace> {
        self.sched.lock().fair.finish()
    }

    pub(super) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
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
        let _ours = mem::enter_process();
        let sched = self.sched.lock();
        sched.groups.iter().filter_map(Weak::upgrade).collect()
    }

    /// A host gives up a worker; true for the last one, but for those whose threads are parked for good.
    pub(super) fn unman(&self) -> bool {
        let last = self.manned.fetch_sub(1, SeqCst) - 1 <= self.lost_workers();
        if last {
            self.dismiss();
        }
        last
    }

    /// Whether no host drives a worker any more, or the last ones never come back and nothing is left to do.
    pub(super) fn is_unmanned(&self) -> bool {
        let manned = self.manned.load(SeqCst);
        manned == 0 || (manned <= self.lost_workers() && self.is_over())
    }

    /// All threads but the workers' end.
    pub(super) fn dismiss(&self) {
        self.watchdog.dismiss();
        self.spares.dismiss();
        self.alarm.dismiss();
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.dismiss();
        self.blocking.close();
    }
}
