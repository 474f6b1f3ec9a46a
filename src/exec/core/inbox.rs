//! A worker's inbox: wake-ups that arrive on the thread of its host while it is not running.
//!
//! Mechanism; any thread. I/O, timers and tokio's deferred yields wake tasks on the very thread that the
//! worker's driver will run on in a moment. Left here, those of the stream that it served last are taken up by the worker
//! that polled them last, with warm caches, and the others go to their groups, a whole run of one group under one lock,
//! but for a single task of another group, which makes the worker that group's;
//! one by one through the groups' queues, they would move between workers (measured: twice the CPU per yield).
//! Invariants:
//! 1. The inbox is closed while its worker is aside, and once it is given up.
//! 2. Who puts the first task in and finds the worker asleep wakes *it*, whoever else is searching; the worker enters
//!    the list of sleepers, then looks into its inbox. One sees the other, so mail is always read: the level-1
//!    queue need not know of it before. Who puts in another relies on the first.
//! 3. While the worker is in a poll, its host's thread cannot be this one, and nothing is put in. Should one
//!    begin at that very moment and go on, or the host be kept from driving the worker by a task of its own,
//!    the watchdog, or a worker that would sleep otherwise, forwards the mail to its groups.

use crate::clock::Clock;
use crate::exec::incoming::BURST;
use crate::exec::task::Runnable;
use crate::unit::Nanos;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// No stream: the inbox is closed.
pub(in crate::exec) const NOBODY: u64 = u64::MAX;

/// A host that drives its worker at all gets around to it sooner, unless a task of its own keeps the thread.
const OVERDUE: Nanos = Nanos::from_millis(2);

pub(in crate::exec) struct Inbox {
    clock: Clock,
    tasks: Mutex<Tasks>,
    /// Whether there are any; changed under the lock.
    some: AtomicBool,
    /// When the first of the tasks in it was put in.
    since: AtomicU64,
    /// The stream that its worker served last; [`NOBODY`] if it is closed.
    stream: AtomicU64,
}

#[derive(Default)]
struct Tasks {
    list: Vec<Runnable>,
    stamp: Nanos,
}

impl Inbox {
    pub(super) fn new(clock: Clock) -> Inbox {
        Inbox {
            clock,
            tasks: Mutex::default(),
            some: AtomicBool::new(false),
            since: AtomicU64::new(0),
            stream: AtomicU64::new(NOBODY),
        }
    }

    /// The worker serves this stream from now on, and reads its mail. Only the worker itself calls it.
    pub(in crate::exec) fn open_for(&self, stream: u64) {
        if self.stream.load(Relaxed) != stream {
            self.stream.store(stream, Relaxed);
        }
    }

    /// Whether tasks may come in.
    #[inline]
    pub(in crate::exec) fn is_open(&self) -> bool {
        self.stream.load(Relaxed) != NOBODY
    }

    /// The stream that its worker served last.
    pub(in crate::exec) fn stream(&self) -> u64 {
        self.stream.load(Relaxed)
    }

    #[inline]
    pub(in crate::exec) fn is_empty(&self) -> bool {
        !self.some.load(SeqCst)
    }

    /// How many tasks of the group with this uid are in it.
    pub(super) fn count_of(&self, uid: u64) -> usize {
        if self.is_empty() {
            return 0;
        }
        let tasks = self.tasks.lock();
        let of_group = |task: &&Runnable| task.metadata().task.group().uid == uid;
        tasks.list.iter().filter(of_group).count()
    }

    /// Puts a task in. True for the first one: the caller then looks whether the worker sleeps.
    ///
    /// # Errors
    ///
    /// The task, if the inbox was closed meanwhile.
    pub(in crate::exec) fn put(&self, task: Runnable) -> Result<bool, Runnable> {
        let mut tasks = self.tasks.lock();
        if !self.is_open() {
            return Err(task);
        }
        if tasks.list.len().is_multiple_of(BURST) {
            tasks.stamp = self.clock.now();
        }
        task.metadata().task.queued(tasks.stamp);
        tasks.list.push(task);
        let first = tasks.list.len() == 1;
        if first {
            self.since.store(tasks.stamp.0, Relaxed);
            self.some.store(true, SeqCst);
        }
        Ok(first)
    }

    /// Whether its worker was kept from reading it: others should not wait for that.
    pub(in crate::exec) fn is_overdue(&self, now: Nanos) -> bool {
        !self.is_empty() && now.since(Nanos(self.since.load(Relaxed))) > OVERDUE
    }

    /// Takes everything out.
    pub(in crate::exec) fn empty_into(&self, list: &mut Vec<Runnable>) {
        if !self.is_empty() {
            let mut tasks = self.tasks.lock();
            if list.is_empty() {
                std::mem::swap(list, &mut tasks.list);
            } else {
                list.append(&mut tasks.list);
            }
            // What this hides, if anything, is in the list that was taken under the lock.
            self.some.store(false, Relaxed);
        }
    }

    /// Takes everything out and lets nothing in any more.
    pub(in crate::exec) fn close_into(&self, list: &mut Vec<Runnable>) {
        let mut tasks = self.tasks.lock();
        self.stream.store(NOBODY, Relaxed);
        list.append(&mut tasks.list);
        self.some.store(false, SeqCst);
    }
}

#[cfg(all(test, quotient_loom))]
mod loom {
    //! Invariant 2 over stand-ins: what is in the inbox, and the sleepers as they are.
    //!
    //! The fences stand for the total order of SeqCst operations, which loom takes for acquire and release only.

    use crate::exec::sleepers::Sleepers;
    use crate::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
    use crate::sync::{Arc, Mutex};
    use ::loom::sync::Notify;

    struct Model {
        inbox: Mutex<usize>,
        some: AtomicBool,
        sleepers: Sleepers,
        bell: Notify,
    }

    impl Model {
        /// `deliver`.
        fn put(&self) {
            {
                let mut inbox = self.inbox.lock();
                *inbox += 1;
                if *inbox > 1 {
                    return;
                }
                self.some.store(true, SeqCst);
            }
            fence(SeqCst);
            if self.sleepers.may_miss(0) && self.sleepers.claim_one(0) {
                self.bell.notify();
            }
        }

        /// A worker that reads its mail and sleeps until `total` letters have come.
        fn work(&self, total: usize) {
            let mut read = 0;
            while read < total {
                {
                    let mut inbox = self.inbox.lock();
                    read += std::mem::take(&mut *inbox);
                    self.some.store(false, Relaxed);
                }
                if read == total {
                    return;
                }
                self.sleepers.enter(0);
                fence(SeqCst);
                if !self.some.load(SeqCst) {
                    self.bell.wait();
                }
                self.sleepers.leave(0);
            }
        }
    }

    #[test]
    fn mail_is_always_read() {
        ::loom::model(|| {
            let model = Arc::new(Model {
                inbox: Mutex::new(0),
                some: AtomicBool::new(false),
                sleepers: Sleepers::new(1),
                bell: Notify::new(),
            });
            let worker = {
                let model = model.clone();
                ::loom::thread::spawn(move || model.work(2))
            };
            let other = {
                let model = model.clone();
                ::loom::thread::spawn(move || model.put())
            };
            model.put();
            other.join().unwrap();
            worker.join().unwrap();
        });
    }
}
