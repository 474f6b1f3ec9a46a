//! A worker's inbox: wake-ups that arrive on the thread of its host while it is not running.
//!
//! Mechanism; any thread. I/O, timers and tokio's deferred yields wake tasks on the very thread that the
//! worker's driver will run on in a moment. Left here, they are taken up by the worker that polled them last,
//! with warm caches and a lock that nobody else wants; through the group's queue, they would move between
//! workers (measured: twice the CPU per yield). Invariants:
//! 1. The inbox takes tasks of one stream: the one that its worker served last.
//! 2. Who puts a task in and finds the worker asleep wakes *it*, whoever else is searching; the worker says
//!    that it sleeps, then looks into its inbox. One sees the other, so mail is always read: the level-1
//!    queue need not know of it before.
//! 3. While the worker is in a poll, its host's thread cannot be this one, and nothing is put in. Should one
//!    begin at that very moment and go on, or the host be kept from driving the worker by a task of its own,
//!    the watchdog lets others take the mail.

use crate::clock::Clock;
use crate::exec::group::Group;
use crate::exec::incoming::BURST;
use crate::exec::task::Runnable;
use crate::unit::Nanos;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// No stream: the inbox is closed.
pub(in crate::exec) const NOBODY: u64 = u64::MAX;

/// A host that drives its worker at all gets around to it sooner, unless a task of its own keeps the thread.
const OVERDUE: Nanos = Nanos::from_millis(2);

pub(in crate::exec) struct Inbox {
    clock: Clock,
    tasks: Mutex<Tasks>,
    len: AtomicUsize,
    /// When the first of the tasks in it was put in.
    since: AtomicU64,
    /// The stream that is let in, and the group it is of (uid + 1).
    stream: AtomicU64,
    group: AtomicU64,
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
            len: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            stream: AtomicU64::new(NOBODY),
            group: AtomicU64::new(0),
        }
    }

    /// From now on the inbox is for this stream. Only the worker itself calls it.
    pub(in crate::exec) fn open_for(&self, stream: u64, group: &Group) {
        if self.stream.load(Relaxed) != stream || self.group.load(Relaxed) != group.uid + 1 {
            self.group.store(group.uid + 1, Relaxed);
            self.stream.store(stream, Relaxed);
        }
    }

    /// Whether a task of this stream may come in.
    #[inline]
    pub(in crate::exec) fn is_for(&self, stream: u64) -> bool {
        self.stream.load(Relaxed) == stream
    }

    /// The stream that its worker served last.
    pub(in crate::exec) fn stream(&self) -> u64 {
        self.stream.load(Relaxed)
    }

    /// Whether it holds tasks of the group with this uid.
    pub(in crate::exec) fn has_of(&self, uid: u64) -> bool {
        self.holds_of() == uid + 1
    }

    #[inline]
    pub(in crate::exec) fn len(&self) -> usize {
        self.len.load(SeqCst)
    }

    /// Puts a task in. The caller then looks whether the worker sleeps.
    ///
    /// # Errors
    ///
    /// The task, if the inbox was closed or turned over to another stream meanwhile.
    pub(in crate::exec) fn put(&self, task: Runnable) -> Result<(), Runnable> {
        let mut tasks = self.tasks.lock();
        if !self.is_for(task.metadata().stream) {
            return Err(task);
        }
        if tasks.list.len().is_multiple_of(BURST) {
            tasks.stamp = self.clock.now();
        }
        if tasks.list.is_empty() {
            self.since.store(tasks.stamp.0, Relaxed);
        }
        task.metadata().cell.queued(tasks.stamp);
        tasks.list.push(task);
        self.len.store(tasks.list.len(), SeqCst);
        Ok(())
    }

    /// The group (uid + 1) whose tasks it holds; 0 if it is empty.
    pub(in crate::exec) fn holds_of(&self) -> u64 {
        if self.len() > 0 {
            self.group.load(Relaxed)
        } else {
            0
        }
    }

    /// Whether its worker was kept from reading it: others should not wait for that.
    pub(in crate::exec) fn is_overdue(&self, now: Nanos) -> bool {
        self.len() > 0 && now.since(Nanos(self.since.load(Relaxed))) > OVERDUE
    }

    /// Takes everything out.
    pub(in crate::exec) fn empty_into(&self, list: &mut Vec<Runnable>) {
        if self.len() > 0 {
            let mut tasks = self.tasks.lock();
            list.append(&mut tasks.list);
            self.len.store(0, SeqCst);
        }
    }

    /// Takes everything out and lets nothing in any more.
    pub(in crate::exec) fn close_into(&self, list: &mut Vec<Runnable>) {
        let mut tasks = self.tasks.lock();
        self.stream.store(NOBODY, Relaxed);
        list.append(&mut tasks.list);
        self.len.store(0, SeqCst);
    }
}

#[cfg(all(test, quotient_loom))]
mod loom {
    //! Invariant 2 over stand-ins: the length of the inbox, and the sleepers as they are.
    //!
    //! The fences stand for the total order of SeqCst operations, which loom takes for acquire and release only.

    use crate::exec::sleepers::Sleepers;
    use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst, fence};
    use crate::sync::{Arc, Mutex};
    use ::loom::sync::Notify;

    struct Model {
        inbox: Mutex<usize>,
        len: AtomicUsize,
        asleep: AtomicBool,
        sleepers: Sleepers,
        bell: Notify,
    }

    impl Model {
        /// `deliver`.
        fn put(&self) {
            {
                let mut inbox = self.inbox.lock();
                *inbox += 1;
                self.len.store(*inbox, SeqCst);
            }
            fence(SeqCst);
            if self.asleep.load(SeqCst) && self.sleepers.claim_one(0) {
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
                    self.len.store(0, SeqCst);
                }
                if read == total {
                    return;
                }
                self.asleep.store(true, SeqCst);
                self.sleepers.enter(0);
                fence(SeqCst);
                if self.len.load(SeqCst) == 0 {
                    self.bell.wait();
                }
                self.asleep.store(false, SeqCst);
                self.sleepers.leave(0);
            }
        }
    }

    #[test]
    fn mail_is_always_read() {
        ::loom::model(|| {
            let model = Arc::new(Model {
                inbox: Mutex::new(0),
                len: AtomicUsize::new(0),
                asleep: AtomicBool::new(false),
                sleepers: Sleepers::new(),
                bell: Notify::new(),
            });
            let worker = {
                let model = model.clone();
                ::loom::thread::spawn(move || model.work(2))
            };
            model.put();
            model.put();
            worker.join().unwrap();
        });
    }
}
