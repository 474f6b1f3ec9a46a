//! The order to end: of one account's tasks ([`Verdict`]), and of everything in an executor ([`Ending`]).
//!
//! Mechanism; any thread. Invariants:
//! 1. The first verdict decides, and its cause is there before anybody sees that there is a verdict.
//! 2. A task is counted *before* it looks whether everything is being ended; whoever ends everything says so
//!    *before* it counts. Either the task is refused or it is waited for (model-checked below).
//! 3. Whoever makes the last task vanish after the order to end looks whether all is over: workers may have
//!    gone to sleep because of that task.

use super::join::Cause;
use super::tally::Counters;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use crate::sync::total_order;
use std::sync::OnceLock;

/// Whether, and why, something must end. Given once.
#[derive(Debug)]
pub(super) struct Verdict {
    given: AtomicBool,
    cause: OnceLock<Cause>,
}

impl Verdict {
    pub(super) fn new() -> Verdict {
        Verdict {
            given: AtomicBool::new(false),
            cause: OnceLock::new(),
        }
    }

    /// False if there is one already.
    pub(super) fn give(&self, cause: Cause) -> bool {
        let first = self.cause.set(cause).is_ok();
        self.given.store(true, SeqCst);
        first
    }

    #[inline]
    pub(super) fn get(&self) -> Option<&Cause> {
        self.given.load(SeqCst).then(|| self.cause.get()).flatten()
    }

    /// For whoever was woken because of the verdict: the wake-up orders the two.
    #[inline]
    pub(super) fn is_given(&self) -> bool {
        self.given.load(Relaxed)
    }
}

/// The end of an executor.
#[derive(Debug)]
pub(super) struct Ending {
    verdict: Verdict,
    /// Everything was ended and is gone.
    over: AtomicBool,
}

impl Ending {
    pub(super) fn new() -> Ending {
        Ending {
            verdict: Verdict::new(),
            over: AtomicBool::new(false),
        }
    }

    /// False if it has begun already.
    pub(super) fn begin(&self, cause: Cause) -> bool {
        self.verdict.give(cause)
    }

    #[inline]
    pub(super) fn cause(&self) -> Option<&Cause> {
        self.verdict.get()
    }

    /// Counts a task that is about to be; or why it must not be. `look`: calls [`Ending::is_over`].
    #[inline]
    pub(super) fn count<'a>(
        &'a self,
        counters: &Counters,
        look: impl FnOnce(),
    ) -> Result<(), &'a Cause> {
        // Not counted: threads that go on spawning must not make the executor look alive for ever.
        if let Some(cause) = self.cause() {
            return Err(cause);
        }
        counters.spawned.fetch_add(1, SeqCst);
        total_order();
        if let Some(cause) = self.cause() {
            counters.finished.fetch_add(1, SeqCst);
            look();
            return Err(cause);
        }
        Ok(())
    }

    /// Whether everything was ended and is gone. `live` counts tasks, `wake_all` wakes those who sleep: the
    /// first to find out tells them.
    pub(super) fn is_over(&self, live: impl FnOnce() -> u64, wake_all: impl FnOnce()) -> bool {
        if self.over.load(SeqCst) {
            return true;
        }
        if self.cause().is_none() {
            return false;
        }
        total_order();
        let over = live() == 0;
        if over && !self.over.swap(true, SeqCst) {
            wake_all();
        }
        over
    }
}

#[cfg(all(test, quotient_loom))]
mod loom {
    use super::*;
    use crate::exec::sleepers::Sleepers;
    use crate::sync::Mutex;
    use ::loom::sync::Notify;
    use std::sync::Arc;

    /// An executor reduced to what decides its end: one worker, one group, tasks that are numbers.
    struct Model {
        ending: Ending,
        counters: Counters,
        queue: Mutex<Vec<u32>>,
        sleepers: Sleepers,
        bell: Notify,
    }

    impl Model {
        fn new() -> Arc<Model> {
            Arc::new(Model {
                ending: Ending::new(),
                counters: Counters::default(),
                queue: Mutex::new(Vec::new()),
                sleepers: Sleepers::new(1),
                bell: Notify::new(),
            })
        }

        fn is_over(&self) -> bool {
            self.ending.is_over(
                || self.counters.live(),
                || {
                    for _ in self.sleepers.take_all() {
                        self.bell.notify();
                    }
                },
            )
        }

        fn spawn(&self) {
            let counted = self.ending.count(&self.counters, || {
                let _ = self.is_over();
            });
            if counted.is_ok() {
                self.queue.lock().push(1);
                if self.sleepers.claim(None).is_some() {
                    self.bell.notify();
                }
            }
        }

        fn cancel(&self) {
            self.ending.begin(Arc::new(std::fmt::Error));
            for _ in self.sleepers.take_all() {
                self.bell.notify();
            }
        }

        fn work(&self) {
            loop {
                let task = self.queue.lock().pop();
                if task.is_some() {
                    self.counters.finished.fetch_add(1, SeqCst);
                    continue;
                }
                if self.is_over() {
                    return;
                }
                self.sleepers.stop_searching();
                self.sleepers.enter(0);
                if self.queue.lock().is_empty() && !self.is_over() {
                    self.bell.wait();
                }
                self.sleepers.leave(0);
            }
        }
    }

    fn ends(spawners: usize, preemptions: usize) {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let model = Model::new();
            let spawners: Vec<_> = (0..spawners)
                .map(|_| {
                    let m = model.clone();
                    ::loom::thread::spawn(move || m.spawn())
                })
                .collect();
            let worker = {
                let m = model.clone();
                ::loom::thread::spawn(move || m.work())
            };
            model.cancel();
            worker.join().unwrap();
            spawners.into_iter().for_each(|s| s.join().unwrap());
            assert!(model.queue.lock().is_empty(), "a task was left behind");
            assert_eq!(model.counters.live(), 0);
        });
    }

    #[test]
    fn a_spawn_beside_the_end_is_refused_or_waited_for() {
        ends(1, 3);
    }

    #[test]
    fn two_spawns_beside_the_end_are_refused_or_waited_for() {
        ends(2, 2);
    }

    #[test]
    fn a_verdict_comes_with_its_cause_and_the_first_decides() {
        ::loom::model(|| {
            let verdict = Arc::new(Verdict::new());
            let other = verdict.clone();
            let thread = ::loom::thread::spawn(move || other.give(Arc::new(std::fmt::Error)));
            let first = verdict.give(Arc::new(std::io::Error::other("mine")));
            let seen = verdict.get().map(ToString::to_string);
            let theirs = thread.join().unwrap();
            assert!(first != theirs);
            assert_eq!(seen, verdict.get().map(ToString::to_string));
            assert_eq!(first, seen.is_some_and(|cause| cause == "mine"));
        });
    }
}
