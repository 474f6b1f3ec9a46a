//! What the workers of one executor share: the scheduler's state, the sleepers, a seat per worker.
//!
//! Mechanism; any thread. The scheduler's lock is taken once per slice (100 µs of work) and when an idle
//! group gets its first task; nothing global is touched per poll.

use super::account::Account;
use super::context;
use super::group::Group;
use super::join::Cause;
use super::sleepers::Sleepers;
use super::stats::WorkerUsage;
use super::task::Runnable;
use super::worker::Worker;
use crate::clock::Clock;
use crate::sched::entitle::{Demand, Fairness, Ledger};
use crate::sched::fair::{Fair, Slot};
use crate::sched::{self};
use crate::unit::{Nanos, Weight};
use crossbeam_deque::Stealer;
use crossbeam_utils::CachePadded;
use crossbeam_utils::atomic::AtomicCell;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use slab::Slab;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};

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
}

/// The shared state of one executor.
pub struct Core {
    config: Config,
    pub(super) sched: CachePadded<Mutex<Sched>>,
    /// Groups in the level-1 queue; a mirror of what the lock protects.
    queued_groups: CachePadded<AtomicUsize>,
    pub(super) sleepers: CachePadded<Sleepers>,
    seats: Box<[Arc<CachePadded<Seat>>]>,
    accounts: Mutex<Slab<Weak<Account>>>,
    /// Slots whose groups are gone, to be freed when the lock is taken next.
    graves: Mutex<Vec<Slot>>,
    cancelled: OnceLock<Cause>,
    stopped: AtomicBool,
    /// Workers whose host still drives them.
    manned: AtomicUsize,
}

/// What the scheduler's lock protects.
pub(super) struct Sched {
    pub(super) fair: Fair,
    pub(super) ledger: Ledger,
    groups: Vec<Weak<Group>>,
    demands: Vec<(Slot, Demand)>,
}

/// What others see of a worker.
pub(super) struct Seat {
    pub(super) ring: Stealer<Runnable>,
    /// The task woken last by the running one: it runs next, unless someone takes it.
    lifo: AtomicCell<Option<Runnable>>,
    lifo_full: AtomicBool,
    /// The group it serves, by uid + 1; 0 if none.
    pub(super) serving: AtomicU64,
    /// When the running poll began; 0 if none runs.
    pub(super) poll_start: AtomicU64,
    /// Give way at the next poll boundary.
    pub(super) preempt: AtomicBool,
    pub(super) waker: AtomicWaker,
    pub(super) busy: AtomicU64,
    pub(super) parks: AtomicU64,
    pub(super) polls_fast: AtomicU64,
    pub(super) polls_fair: AtomicU64,
}

/// A LIFO task may be taken from a worker that has been in one poll for longer than this.
const LIFO_STUCK: Nanos = Nanos::from_micros(50);

impl Seat {
    fn new(ring: Stealer<Runnable>) -> Seat {
        Seat {
            ring,
            lifo: AtomicCell::new(None),
            lifo_full: AtomicBool::new(false),
            serving: AtomicU64::new(0),
            poll_start: AtomicU64::new(0),
            preempt: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            busy: AtomicU64::new(0),
            parks: AtomicU64::new(0),
            polls_fast: AtomicU64::new(0),
            polls_fair: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn has_lifo(&self) -> bool {
        self.lifo_full.load(Relaxed)
    }

    #[inline]
    pub(super) fn swap_lifo(&self, task: Runnable) -> Option<Runnable> {
        let old = self.lifo.swap(Some(task));
        self.lifo_full.store(true, Relaxed);
        old
    }

    #[inline]
    pub(super) fn take_lifo(&self) -> Option<Runnable> {
        if !self.has_lifo() {
            return None;
        }
        self.lifo_full.store(false, Relaxed);
        self.lifo.take()
    }

    /// Whether another worker may take the LIFO task: its owner is stuck in a poll.
    pub(super) fn lifo_is_stuck(&self, now: Nanos) -> bool {
        let start = self.poll_start.load(Relaxed);
        self.has_lifo() && start != 0 && now.since(Nanos(start)) > LIFO_STUCK
    }

    pub(super) fn usage(&self) -> WorkerUsage {
        WorkerUsage {
            busy: Nanos(self.busy.load(Relaxed)),
            parks: self.parks.load(Relaxed),
            polls_fast: self.polls_fast.load(Relaxed),
            polls_fair: self.polls_fair.load(Relaxed),
        }
    }
}

impl Core {
    /// A new executor and its workers, which wait for a host to drive them.
    pub fn new(config: Config) -> (Arc<Core>, Vec<Worker>) {
        let workers = config.workers.max(1);
        let rings: Vec<_> = (0..workers)
            .map(|_| crossbeam_deque::Worker::new_fifo())
            .collect();
        let sched = Sched {
            fair: Fair::new(config.policy, workers),
            ledger: Ledger::new(workers, Nanos::from_secs(1)),
            groups: Vec::new(),
            demands: Vec::new(),
        };
        let core = Arc::new(Core {
            config: Config { workers, ..config },
            sched: CachePadded::new(Mutex::new(sched)),
            queued_groups: CachePadded::default(),
            sleepers: CachePadded::new(Sleepers::new()),
            seats: rings
                .iter()
                .map(|ring| Arc::new(CachePadded::new(Seat::new(ring.stealer()))))
                .collect(),
            accounts: Mutex::default(),
            graves: Mutex::default(),
            cancelled: OnceLock::new(),
            stopped: AtomicBool::new(false),
            manned: AtomicUsize::new(workers),
        });
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

    /// Counters of each worker.
    pub fn worker_usage(&self) -> Vec<WorkerUsage> {
        self.seats.iter().map(|seat| seat.usage()).collect()
    }

    pub(super) fn add_group(&self, group: Weak<Group>, weight: Weight) -> Slot {
        let mut sched = self.sched.lock();
        for slot in self.graves.lock().drain(..) {
            sched.fair.dequeue(slot);
            sched.fair.remove(slot);
        }
        let slot = sched.fair.add(weight);
        sched.ledger.open(slot);
        let index = slot.0 as usize;
        if index >= sched.groups.len() {
            sched.groups.resize_with(index + 1, Weak::new);
        }
        sched.groups[index] = group;
        slot
    }

    /// A group is gone. May be called with any lock of ours held but this one's own.
    pub(super) fn bury(&self, slot: Slot) {
        self.graves.lock().push(slot);
    }

    pub(super) fn set_weight(&self, slot: Slot, weight: Weight) {
        self.sched.lock().fair.set_weight(slot, weight);
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

    /// A group got its first ready task: it enters the level-1 queue, and may make a worker give way.
    pub(super) fn activate(&self, slot: Slot) {
        let now = self.clock().now();
        let mut sched = self.sched.lock();
        if sched.fair.working_groups().next().is_none() {
            sched.ledger.skip(now);
        }
        let all_busy = !self.sleepers.any();
        let victim = sched.fair.wake(slot, now, all_busy);
        self.publish(&sched);
        drop(sched);
        if let Some(worker) = victim {
            self.seats[worker].preempt.store(true, Relaxed);
        }
    }

    /// Mirrors the length of the level-1 queue; the caller holds the lock.
    pub(super) fn publish(&self, sched: &Sched) {
        self.queued_groups.store(sched.fair.queued_groups(), SeqCst);
    }

    pub(super) fn queued_groups(&self) -> usize {
        self.queued_groups.load(SeqCst)
    }

    /// Wakes a sleeping worker, unless one is on its way already.
    #[inline]
    pub(super) fn notify(&self) {
        if let Some(worker) = self.sleepers.claim() {
            self.wake(worker);
        }
    }

    #[cold]
    fn wake(&self, worker: usize) {
        self.seats[worker].waker.wake();
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

    /// Whether another worker holds tasks of this group that may be taken from it.
    pub(super) fn stealable(&self, uid: u64, me: usize, now: Nanos) -> bool {
        let others = self
            .seats
            .iter()
            .enumerate()
            .filter(|&(i, seat)| i != me && seat.serving.load(Relaxed) == uid + 1);
        others
            .into_iter()
            .any(|(_, seat)| !seat.ring.is_empty() || seat.lifo_is_stuck(now))
    }

    /// The ready groups' demands, for the ledger. At most once a millisecond, and never more than about a
    /// hundredth of the time however many groups there are.
    pub(super) fn sample(&self, sched: &mut Sched, now: Nanos, discard: &mut Vec<Arc<Group>>) {
        let groups = sched.fair.queued_groups() as u64;
        if sched.ledger.age(now).0 < 1_000_000.max(groups * 20_000) {
            return;
        }
        let mut demands = std::mem::take(&mut sched.demands);
        demands.clear();
        for slot in sched.fair.working_groups() {
            let Some(group) = sched.groups.get(slot.0 as usize).and_then(Weak::upgrade) else {
                continue;
            };
            let (running, held) = self.hands(group.uid);
            let cores = (running + held + group.ready()).clamp(1, self.workers()) as f64;
            demands.push((
                slot,
                Demand {
                    weight: sched.fair.weight(slot).get(),
                    cores,
                },
            ));
            discard.push(group);
        }
        sched.ledger.sample(now, &demands);
        sched.demands = demands;
    }

    /// Tasks of a group that are being polled, and ready ones that workers hold.
    fn hands(&self, uid: u64) -> (usize, usize) {
        let seats = self
            .seats
            .iter()
            .filter(|seat| seat.serving.load(Relaxed) == uid + 1);
        seats.fold((0, 0), |(running, held), seat| {
            let polling = usize::from(seat.poll_start.load(Relaxed) != 0);
            (
                running + polling,
                held + seat.ring.len() + usize::from(seat.has_lifo()),
            )
        })
    }

    pub(super) fn look_at(&self, group: &Group) -> (usize, usize, Fairness) {
        let (running, held) = self.hands(group.uid);
        let fairness = self
            .sched
            .lock()
            .ledger
            .fairness(group.slot, self.clock().now());
        (running, held, fairness)
    }

    pub(super) fn group_at(sched: &Sched, slot: Slot) -> Option<Arc<Group>> {
        sched.groups.get(slot.0 as usize).and_then(Weak::upgrade)
    }

    /// Ends every task, now and from now on, for `cause`: those that wait and those that are ready are
    /// dropped by a worker, those that run at the end of their poll, and new ones before they begin.
    /// Workers stop when nothing is left. The first call decides.
    pub fn cancel(&self, cause: Cause) {
        if self.cancelled.set(cause).is_ok() {
            self.accounts()
                .iter()
                .for_each(|account| account.waiting.wake_all());
        }
        self.wake_all();
    }

    /// Why everything is being ended, if it is.
    #[inline]
    pub fn cancelled(&self) -> Option<&Cause> {
        self.cancelled.get()
    }

    /// Tasks that are alive in all groups. Never too few while a spawn is under way.
    pub fn live(&self) -> u64 {
        let groups: Vec<Arc<Group>> = {
            let sched = self.sched.lock();
            sched.groups.iter().filter_map(Weak::upgrade).collect()
        };
        groups.iter().map(|group| group.counters.live()).sum()
    }

    /// Whether the workers may leave: everything was ended and is gone.
    pub(super) fn is_over(&self) -> bool {
        if self.stopped.load(SeqCst) {
            return true;
        }
        let over = self.cancelled().is_some() && self.live() == 0;
        if over && !self.stopped.swap(true, SeqCst) {
            self.wake_all();
        }
        over
    }

    /// A host gives up a worker; true for the last one.
    pub(super) fn unman(&self) -> bool {
        self.manned.fetch_sub(1, SeqCst) == 1
    }

    /// A picture of the state, for a watchdog's report.
    pub fn dump(&self) -> String {
        use fmt::Write;
        let mut out = String::new();
        let _ = writeln!(
            out,
            "sleepers {:?}, queued groups {}, cancelled {}",
            *self.sleepers,
            self.queued_groups(),
            self.cancelled().is_some()
        );
        match self.sched.try_lock() {
            Some(sched) => {
                let _ = writeln!(out, "{:?}", sched.fair);
            }
            None => out.push_str("the scheduler's lock is held\n"),
        }
        for (i, seat) in self.seats.iter().enumerate() {
            let _ = writeln!(
                out,
                "worker {i}: serving {}, ring {}, lifo {}, poll since {}, preempt {}, {:?}",
                seat.serving.load(Relaxed),
                seat.ring.len(),
                seat.has_lifo(),
                seat.poll_start.load(Relaxed),
                seat.preempt.load(Relaxed),
                seat.usage(),
            );
        }
        for account in self.accounts() {
            let _ = writeln!(
                out,
                "{account:?}: {} waiting, {} ready",
                account.waiting.len(),
                account.group.ready()
            );
        }
        out
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("workers", &self.workers())
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}
