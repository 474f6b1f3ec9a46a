//! Which workers sleep, and whom to wake: the protocol that must never lose a wake-up.
//!
//! Mechanism; any thread. The sleeping itself is the host's business. Invariants:
//! 1. At most one awake worker *searches* for work on behalf of all wakers; while one does, nobody else is
//!    woken, but a worker for its own mail ([`Sleepers::claim_one`]). A woken worker is the searcher.
//! 2. A searcher that finds work stops searching and wakes one more if work is left (chain wake).
//! 3. A worker that finds nothing stops searching, *then* enters the list, *then* looks once more. A waker
//!    publishes its task under the queue's lock, *then* looks at the list. Both orders are total (SeqCst,
//!    and the queue's lock), so either the worker sees the task or the waker sees the worker.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

#[derive(Debug)]
pub(crate) struct Sleepers {
    /// How many are in `list`; read without the lock on every wake.
    asleep: AtomicUsize,
    searching: AtomicBool,
    list: Mutex<Vec<usize>>,
}

impl Sleepers {
    pub(crate) fn new() -> Sleepers {
        Sleepers {
            asleep: AtomicUsize::new(0),
            searching: AtomicBool::new(false),
            list: Mutex::new(Vec::new()),
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
        if claimed.is_none() {
            // Under the lock: a worker that enters the list after this is not passed over by a waker who
            // still sees a searcher and relies on it.
            self.searching.store(false, SeqCst);
        }
        claimed
    }

    /// Takes this worker out of the list; the caller must wake it. False if it is not asleep, or somebody
    /// else is about to wake it. Independent of the search: it is woken for what is its own.
    pub(crate) fn claim_one(&self, worker: usize) -> bool {
        let mut list = self.list.lock();
        let place = list.iter().position(|&w| w == worker);
        if let Some(at) = place {
            list.swap_remove(at);
            self.asleep.store(list.len(), SeqCst);
        }
        place.is_some()
    }

    /// Whether this worker sleeps and nobody is about to wake it.
    pub(crate) fn has(&self, worker: usize) -> bool {
        self.list.lock().contains(&worker)
    }

    /// The searcher found work or gave up.
    pub(crate) fn stop_searching(&self) {
        self.searching.store(false, SeqCst);
    }

    /// `worker` goes to sleep. It must look for work once more afterwards.
    pub(crate) fn enter(&self, worker: usize) {
        let mut list = self.list.lock();
        list.push(worker);
        self.asleep.store(list.len(), SeqCst);
    }

    /// `worker` is awake. True if it had been claimed: it is the searcher then.
    pub(crate) fn leave(&self, worker: usize) -> bool {
        let mut list = self.list.lock();
        let place = list.iter().position(|&w| w == worker);
        if let Some(at) = place {
            list.remove(at);
            self.asleep.store(list.len(), SeqCst);
        }
        place.is_none()
    }

    /// Takes everybody out, to be woken by the caller.
    pub(crate) fn take_all(&self) -> Vec<usize> {
        let mut list = self.list.lock();
        self.asleep.store(0, SeqCst);
        std::mem::take(&mut *list)
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
                sleepers: Sleepers::new(),
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
