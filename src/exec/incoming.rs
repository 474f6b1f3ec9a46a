//! What was pushed to a group and whether the level-1 queue knows of it: one lock's worth of state.
//!
//! Mechanism; any thread. Invariant: whenever something is ready and no worker holds it,
//! the group is in the level-1 queue, or whoever saw [`Incoming::activate`] return true is on the way to put it
//! there (model-checked below).

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::unit::Nanos;

pub(super) struct Incoming<T> {
    state: Mutex<State<T>>,
    /// How many tasks are ready, as of the last change under the lock.
    ready: AtomicUsize,
}

struct State<T> {
    tasks: Vec<T>,
    /// When the running burst of pushes began.
    stamp: Nanos,
    /// Tasks in the ordered queue, counted here so that one lock tells whether the group is empty.
    queued: usize,
    active: bool,
}

/// Pushes that share one reading of the clock, at most.
pub(super) const BURST: usize = 16;

impl<T> Default for Incoming<T> {
    fn default() -> Incoming<T> {
        let state = State {
            tasks: Vec::new(),
            stamp: Nanos::ZERO,
            queued: 0,
            active: false,
        };
        Incoming {
            state: Mutex::new(state),
            ready: AtomicUsize::new(0),
        }
    }
}

impl<T> Incoming<T> {
    /// `note` is told when each of the tasks was pushed. A clock read costs as much as the rest of it. Pushes of one burst
    /// share one: at most 16, and none from before the buffer was emptied last.
    ///
    /// True if the level-1 queue does not know of the group: the caller must tell it.
    #[inline]
    pub(super) fn push(
        &self,
        tasks: impl Iterator<Item = T>,
        now: impl Fn() -> Nanos,
        mut note: impl FnMut(&T, Nanos),
    ) -> bool {
        self.change(|state| {
            for task in tasks {
                if state.tasks.len().is_multiple_of(BURST) {
                    state.stamp = now();
                }
                note(&task, state.stamp);
                state.tasks.push(task);
            }
            state.activate()
        })
    }

    /// True if the level-1 queue does not know of the group: the caller must tell it.
    #[inline]
    pub(super) fn activate(&self) -> bool {
        self.state.lock().activate()
    }

    /// Under the level-1 queue's lock too: true if nothing is ready, and the group leaves that queue.
    pub(super) fn deactivate_if_empty(&self) -> bool {
        let mut state = self.state.lock();
        let empty = state.ready() == 0;
        if empty {
            state.active = false;
        }
        empty
    }

    /// How many tasks are ready, as of a moment ago. Whoever must not be wrong asks whether it was
    /// [empty](Incoming::deactivate_if_empty).
    #[inline]
    pub(super) fn ready(&self) -> usize {
        self.ready.load(Relaxed)
    }

    /// Swaps what was pushed with `spare`, which is empty and on its way into the ordered queue.
    pub(super) fn absorb(&self, spare: &mut Vec<T>) {
        let mut state = self.state.lock();
        if !state.tasks.is_empty() {
            std::mem::swap(&mut state.tasks, spare);
            state.queued += spare.len();
        }
    }

    /// So many were put into and taken out of the ordered queue.
    pub(super) fn requeued(&self, put: usize, taken: usize) {
        self.change(|state| state.queued = (state.queued + put).saturating_sub(taken));
    }

    fn change<R>(&self, change: impl FnOnce(&mut State<T>) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.ready.store(state.ready(), Relaxed);
        result
    }
}

impl<T> State<T> {
    fn activate(&mut self) -> bool {
        !std::mem::replace(&mut self.active, true)
    }

    fn ready(&self) -> usize {
        self.tasks.len() + self.queued
    }
}

#[cfg(all(test, quotient_loom))]
mod loom {
    use super::*;
    use crate::sync::Mutex;
    use std::sync::Arc;

    /// One group under the level-1 queue's lock, which only knows whether it is queued.
    struct Model {
        sched: Mutex<bool>,
        queue: Mutex<Vec<u32>>,
        incoming: Incoming<u32>,
    }

    impl Model {
        fn new() -> Arc<Model> {
            Arc::new(Model {
                sched: Mutex::new(false),
                queue: Mutex::new(Vec::new()),
                incoming: Incoming::default(),
            })
        }

        fn tell(&self, inactive: bool) {
            if inactive {
                *self.sched.lock() = true;
            }
        }

        fn push(&self, task: u32) {
            let now = || Nanos::ZERO;
            let inactive = self.incoming.push(std::iter::once(task), now, |_, _| {});
            self.tell(inactive);
        }

        /// A worker's look: the group is served, or leaves the level-1 queue.
        fn pick(&self) -> bool {
            let mut queued = self.sched.lock();
            while *queued {
                if self.incoming.ready() > 0 {
                    return true;
                }
                if self.incoming.deactivate_if_empty() {
                    *queued = false;
                }
            }
            false
        }

        fn fetch(&self, most: usize) -> Vec<u32> {
            let mut queue = self.queue.lock();
            let mut spare = Vec::new();
            self.incoming.absorb(&mut spare);
            queue.append(&mut spare);
            let at = queue.len().saturating_sub(most);
            let held = queue.split_off(at);
            self.incoming.requeued(0, held.len());
            held
        }

        /// What is left of a slice goes back, as `give_back` and `expose` do.
        fn give_back(&self, mut held: Vec<u32>) {
            let mut queue = self.queue.lock();
            let put = held.len();
            self.incoming.requeued(put, 0);
            queue.append(&mut held);
            drop(queue);
            if put > 0 {
                let inactive = self.incoming.activate();
                self.tell(inactive);
            }
        }

        /// One slice: of two tasks fetched, one is run.
        fn slice(&self) -> usize {
            if !self.pick() {
                return 0;
            }
            let mut held = self.fetch(2);
            let ran = usize::from(held.pop().is_some());
            self.give_back(held);
            ran
        }
    }

    /// All tasks are found through the level-1 queue in the end: none is stranded behind an inactive flag.
    fn nothing_is_stranded(pushers: u32, workers: usize) {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let model = Model::new();
            let pushing = (0..pushers).map(|task| {
                let m = model.clone();
                ::loom::thread::spawn(move || {
                    m.push(task);
                    0
                })
            });
            let working = (0..workers).map(|_| {
                let m = model.clone();
                ::loom::thread::spawn(move || m.slice())
            });
            let threads: Vec<_> = pushing.chain(working).collect();
            model.push(pushers);
            let mut ran: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
            while model.pick() {
                ran += model.slice();
            }
            assert_eq!(ran, pushers as usize + 1);
            assert!(!*model.sched.lock());
        });
    }

    /// A task that a worker has kept in its ring, where others see it, goes back to the queue while another worker looks
    /// for work. The group is queued, and would be taken for idle if the task was seen nowhere.
    #[test]
    fn a_task_that_goes_back_is_seen_all_the_time() {
        ::loom::model(|| {
            let model = Model::new();
            model.incoming.activate();
            *model.sched.lock() = true;
            let ring = Arc::new(Mutex::new(vec![7]));
            let looking = {
                let (model, ring) = (model.clone(), ring.clone());
                // `Worker::pick`.
                ::loom::thread::spawn(move || {
                    let sched = model.sched.lock();
                    let ready = model.incoming.ready() > 0;
                    let found = ready || !ring.lock().is_empty();
                    let idle = !found && model.incoming.deactivate_if_empty();
                    drop(sched);
                    assert!(!idle);
                    // `Worker::fetch`, else `Worker::steal`.
                    if found {
                        model.fetch(1).pop().or_else(|| ring.lock().pop())
                    } else {
                        None
                    }
                })
            };
            // `Worker::give_back`.
            {
                let mut queue = model.queue.lock();
                let held = ring.lock().len();
                model.incoming.requeued(held, 0);
                let mut put = 0;
                while let Some(task) = { ring.lock().pop() } {
                    queue.push(task);
                    put += 1;
                }
                if put != held {
                    model.incoming.requeued(put, held);
                }
            }
            let taken = looking.join().unwrap();
            let left = model.queue.lock().len();
            assert_eq!(left + usize::from(taken.is_some()), 1);
            assert_eq!(model.incoming.ready(), left);
        });
    }

    #[test]
    fn two_pushers_beside_a_worker_that_finds_the_group_empty() {
        nothing_is_stranded(1, 1);
    }

    #[test]
    fn two_pushers_beside_two_workers_that_give_back() {
        nothing_is_stranded(1, 2);
    }
}
