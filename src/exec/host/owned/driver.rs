//! Who looks after I/O and timers: at most one thread at a time, and always one when all workers sleep.
//!
//! Mechanism; any thread. Invariants (model-checked below):
//! 1. A worker that is awake is responsible: it looks at the end of every quantum, unless somebody else is at it, and
//!    before it sleeps. So a worker may let go without handing over, as long as it goes on to run.
//! 2. A worker that cannot have the driver says that it rests, *then* looks whether the driver is free after
//!    all. Who lets go for good lets go first, *then* looks for one that rests. One sees the other.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Debug)]
pub(super) struct Driver {
    held: AtomicBool,
    /// Workers that sleep without the driver.
    resting: Mutex<Vec<usize>>,
}

impl Driver {
    pub(super) fn new() -> Driver {
        Driver {
            held: AtomicBool::new(false),
            resting: Mutex::new(Vec::new()),
        }
    }

    /// Takes the driver; false if somebody has it.
    pub(super) fn take(&self) -> bool {
        // Who is refused writes nothing.
        self.held
            .compare_exchange(false, true, SeqCst, SeqCst)
            .is_ok()
    }

    pub(super) fn let_go(&self) {
        self.held.store(false, SeqCst);
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.load(SeqCst)
    }

    /// `worker` is about to sleep without the driver. It must look once more whether that is held.
    pub(super) fn rest(&self, worker: usize) {
        let mut resting = self.resting.lock();
        if !resting.contains(&worker) {
            resting.push(worker);
        }
    }

    pub(super) fn rise(&self, worker: usize) {
        self.resting.lock().retain(|&w| w != worker);
    }

    /// A worker to be woken so that it takes the driver; none if it is held or nobody rests.
    pub(super) fn heir(&self) -> Option<usize> {
        let mut resting = self.resting.lock();
        if self.is_held() { None } else { resting.pop() }
    }
}

#[cfg(all(test, quotient_loom))]
mod loom {
    use super::*;
    use crate::sync::Arc;
    use ::loom::sync::Notify;

    struct Model {
        driver: Driver,
        bells: Vec<Notify>,
    }

    impl Model {
        fn new(workers: usize) -> Arc<Model> {
            Arc::new(Model {
                driver: Driver::new(),
                bells: (0..workers).map(|_| Notify::new()).collect(),
            })
        }

        /// A worker that has nothing to do: returns when it has the driver.
        fn sleep(&self, me: usize) {
            while !self.driver.take() {
                self.driver.rest(me);
                if self.driver.is_held() {
                    self.bells[me].wait();
                }
                self.driver.rise(me);
            }
        }

        /// Whoever has the driver gives it up for good.
        fn leave(&self) {
            self.driver.let_go();
            if let Some(heir) = self.driver.heir() {
                self.bells[heir].notify();
            }
        }
    }

    #[test]
    fn a_driver_given_up_is_taken_by_the_worker_that_falls_asleep() {
        ::loom::model(|| {
            let model = Model::new(1);
            assert!(model.driver.take());
            let worker = {
                let m = model.clone();
                ::loom::thread::spawn(move || m.sleep(0))
            };
            model.leave();
            worker.join().unwrap();
            assert!(model.driver.is_held());
        });
    }

    /// Both workers sleep, one with the driver; that one leaves for good in the end, and the other one follows.
    #[test]
    fn of_two_workers_that_fall_asleep_each_has_it_in_turn() {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let model = Model::new(2);
            assert!(model.driver.take());
            let workers: Vec<_> = (0..2)
                .map(|me| {
                    let m = model.clone();
                    ::loom::thread::spawn(move || {
                        m.sleep(me);
                        m.leave();
                    })
                })
                .collect();
            model.leave();
            workers.into_iter().for_each(|w| w.join().unwrap());
            assert!(!model.driver.is_held());
        });
    }
}
