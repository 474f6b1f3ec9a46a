//! Which workers sleep, and whom to wake: the protocol that must never lose a wake-up.
//!
//! Mechanism; any thread. The sleeping itself is the host's business. Invariants:
//! 1. At most one awake worker *searches* for work on behalf of all wakers; while one does, nobody else is
//!    woken, but a worker for its own mail ([`Sleepers::claim_one`]), which is no searcher. Who is claimed for any other
//!    work is the searcher.
//! 2. A searcher that finds work stops searching and wakes one more if work is left (chain wake).
//! 3. A worker that finds nothing stops searching, *then* enters the list, *then* looks once more. A waker
//!    publishes its task under the queue's lock, *then* looks at the list. Both orders are total (SeqCst,
//!    and the queue's lock), so either the worker sees the task or the waker sees the worker.
//! 4. A worker's place says that it is in the list from before it is counted until somebody takes it out. Others change
//!    it under the list's lock, and only while it says so; so a worker that was taken out needs no lock to know.

use crate::sync::Mutex;
use crate::sync::atomic::{
    AtomicBool, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

#[derive(Debug)]
pub(crate) struct Sleepers {
    /// How many are in `list`; read without the lock on every wake.
    asleep: AtomicUsize,
    searching: AtomicBool,
    list: Mutex<Vec<usize>>,
    /// By the worker's number.
    places: Box<[AtomicU8]>,
}

/// What a place says of its worker: it is not in the list, and nobody is about to wake it for others' work.
const AWAKE: u8 = 0;
/// It is in the list.
const LISTED: u8 = 1;
/// It was taken out to be the searcher.
const SEARCHER: u8 = 2;

impl Sleepers {
    /// For workers numbered from 0.
    pub(crate) fn new(workers: usize) -> Sleepers {
        Sleepers {
            asleep: AtomicUsize::new(0),
            searching: AtomicBool::new(false),
            list: Mutex::new(Vec::new()),
            places: (0..workers).map(|_| AtomicU8::new(AWAKE)).collect(),
        }
    }

    /// Whether somebody could be woken.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.asleep.load(SeqCst) > 0
    }

    /// How many sleep.
    pub(crate) fn len(&self) -> usize {
        self.asleep.load(SeqCst)
    }

    /// Whether a new piece of work needs a wake-up: somebody sleeps and nobody searches.
    #[inline]
    pub(crate) fn wanted(&self) -> bool {
        self.any() && !self.searching.load(SeqCst)
    }

    /// Claims one sleeper as the searcher, `prefer` if it sleeps. The caller must wake it. None if none is
    /// needed.
    #[inline]
    pub(crate) fn claim(&self, prefer: Option<usize>) -> Option<usize> {
        if self.wanted() {
            self.claim_slow(prefer)
        } else {
            None
        }
    }

    #[cold]
    fn claim_slow(&self, prefer: Option<usize>) -> Option<usize> {
        if self
            .searching
            .compare_exchange(false, true, SeqCst, SeqCst)
            .is_err()
        {
            return None;
        }
        let mut list = self.list.lock();
        let preferred = prefer.and_then(|worker| list.iter().position(|&w| w == worker));
        let claimed = match preferred {
            Some(at) => Some(list.swap_remove(at)),
            None => list.pop(),
        };
        self.asleep.store(list.len(), SeqCst);
        match claimed {
            Some(worker) => self.mark(worker, SEARCHER),
            // Under the lock: a worker that enters the list after this is not passed over by a waker who
            // still sees a searcher and relies on it.
            None => self.searching.store(false, SeqCst),
        }
        claimed
    }

    /// Takes this worker out of the list; the caller must wake it. False if it is not asleep, or somebody
    /// else is about to wake it. Independent of the search: it is woken for what is its own.
    pub(crate) fn claim_one(&self, worker: usize) -> bool {
        self.take_out(&mut self.list.lock(), worker)
    }

    /// With the list's lock: whether the worker was in it.
    fn take_out(&self, list: &mut Vec<usize>, worker: usize) -> bool {
        let place = list.iter().position(|&w| w == worker);
        if let Some(at) = place {
            list.swap_remove(at);
            self.asleep.store(list.len(), SeqCst);
            self.mark(worker, AWAKE);
        }
        place.is_some()
    }

    /// Whether this worker sleeps and nobody is about to wake it.
    #[inline]
    pub(crate) fn has(&self, worker: usize) -> bool {
        let place = self.places.get(worker);
        place.is_some_and(|place| place.load(Acquire) == LISTED)
    }

    /// The same in the total order of invariant 3: who has published something for this worker alone, and learns that it
    /// does not sleep, is seen by it before it does. A worker is counted after its place says that it is in the list.
    #[inline]
    pub(crate) fn may_miss(&self, worker: usize) -> bool {
        self.any() && self.has(worker)
    }

    /// The searcher found work or gave up.
    pub(crate) fn stop_searching(&self) {
        self.searching.store(false, SeqCst);
    }

    /// `worker` goes to sleep. It must look for work once more afterwards.
    pub(crate) fn enter(&self, worker: usize) {
        let mut list = self.list.lock();
        list.push(worker);
        self.mark(worker, LISTED);
        self.asleep.store(list.len(), SeqCst);
    }

    /// `worker` is awake. True if it had been claimed as the searcher.
    pub(crate) fn leave(&self, worker: usize) -> bool {
        let Some(place) = self.places.get(worker) else {
            return false;
        };
        if place.load(Acquire) == LISTED && self.claim_one(worker) {
            return false;
        }
        // It is out of the list, and nobody else touches its place.
        let searches = place.load(Acquire) == SEARCHER;
        if searches {
            place.store(AWAKE, Relaxed);
        }
        searches
    }

    /// Takes everybody out, to be woken by the caller. They all look for work, and none on behalf of the others.
    pub(crate) fn take_all(&self) -> Vec<usize> {
        let mut list = self.list.lock();
        self.asleep.store(0, SeqCst);
        list.iter().for_each(|&worker| self.mark(worker, AWAKE));
        std::mem::take(&mut *list)
    }

    fn mark(&self, worker: usize, says: u8) {
        if let Some(place) = self.places.get(worker) {
            place.store(says, Release);
        }
    }
}

#[cfg(all(test, quotient_loom))]
mod loom {
    use super::*;
    use crate::sync::Arc;
    use ::loom::sync::Notify;

    /// The queue of the real executor, reduced: tasks and the flag under one lock.
    struct Model {
        sleepers: Sleepers,
        queue: Mutex<usize>,
        bells: Vec<Notify>,
        done: AtomicUsize,
    }

    impl Model {
        fn new(workers: usize) -> Arc<Model> {
            Arc::new(Model {
                sleepers: Sleepers::new(workers),
                queue: Mutex::new(0),
                bells: (0..workers).map(|_| Notify::new()).collect(),
                done: AtomicUsize::new(0),
            })
        }

        fn push(&self) {
            *self.queue.lock() += 1;
            self.wake_one();
        }

        fn wake_one(&self) {
            if let Some(worker) = self.sleepers.claim(None) {
                self.bells[worker].notify();
            }
        }

        /// Runs until all of `total` tasks are done, as a worker does.
        fn work(&self, me: usize, total: usize) {
            let mut searching = false;
            loop {
                let (found, left) = {
                    let mut queue = self.queue.lock();
                    let found = *queue > 0;
                    *queue -= usize::from(found);
                    (found, *queue)
                };
                if found {
                    if std::mem::take(&mut searching) {
                        self.sleepers.stop_searching();
                        if left > 0 || *self.queue.lock() > 0 {
                            self.wake_one();
                        }
                    }
                    if self.done.fetch_add(1, SeqCst) + 1 == total {
                        for worker in self.sleepers.take_all() {
                            self.bells[worker].notify();
                        }
                    }
                    continue;
                }
                if std::mem::take(&mut searching) {
                    self.sleepers.stop_searching();
                }
                self.sleepers.enter(me);
                if *self.queue.lock() > 0 || self.done.load(SeqCst) == total {
                    searching = self.sleepers.leave(me);
                    if self.done.load(SeqCst) == total && *self.queue.lock() == 0 {
                        return;
                    }
                    continue;
                }
                self.bells[me].wait();
                searching = self.sleepers.leave(me);
            }
        }
    }

    #[test]
    fn one_worker_never_misses_a_task() {
        ::loom::model(|| {
            let model = Model::new(1);
            let worker = {
                let m = model.clone();
                ::loom::thread::spawn(move || m.work(0, 2))
            };
            model.push();
            model.push();
            worker.join().unwrap();
        });
    }

    #[test]
    fn two_wakers_and_one_worker() {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(4);
        builder.check(|| {
            let model = Model::new(1);
            let worker = {
                let m = model.clone();
                ::loom::thread::spawn(move || m.work(0, 2))
            };
            let other = {
                let m = model.clone();
                ::loom::thread::spawn(move || m.push())
            };
            model.push();
            other.join().unwrap();
            worker.join().unwrap();
        });
    }

    #[test]
    fn two_workers_and_a_chain_of_wakes() {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let model = Model::new(2);
            let workers: Vec<_> = (0..2)
                .map(|me| {
                    let m = model.clone();
                    ::loom::thread::spawn(move || m.work(me, 2))
                })
                .collect();
            model.push();
            model.push();
            workers.into_iter().for_each(|w| w.join().unwrap());
        });
    }
}
