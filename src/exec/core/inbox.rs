//! A worker's inbox: wake-ups that arrive on the thread of its host while it is not running.
//!
//! Mechanism; any thread. I/O, timers and tokio's deferred yields wake tasks on the very thread that the
//! worker's driver will run on in a moment. Left here, they are taken up by the worker that polled them last,
//! with warm caches and a lock that nobody else wants; through the group's queue, they would move between
//! workers (measured: twice the CPU per yield). Invariants:
//! 1. The inbox takes tasks of one stream: the one that its worker served last.
//! 2. Who puts a task into an *empty* inbox exposes the group afterwards, so that the level-1 queue knows of
//!    it; whoever dequeues a group looks into the inboxes after marking it inactive. One sees the other.
//! 3. Who puts a task in and finds the worker asleep wakes somebody; the worker says that it sleeps, then
//!    looks into its inbox.

use crate::clock::Clock;
use crate::exec::group::{BURST, Group};
use crate::exec::task::Runnable;
use crate::unit::Nanos;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// No stream: the inbox is closed.
pub(in crate::exec) const NOBODY: u64 = u64::MAX;

pub(in crate::exec) struct Inbox {
    clock: Clock,
    tasks: Mutex<Tasks>,
    len: AtomicUsize,
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
            stream: AtomicU64::new(NOBODY),
            group: AtomicU64::new(0),
        }
    }

    /// From now on the inbox is for this stream. Only the worker itself calls it.
    pub(in crate::exec) fn open_for(&self, stream: u64, group: &Group) {
        if self.stream.load(Relaxed) != stream {
            self.group.store(group.uid + 1, Relaxed);
            self.stream.store(stream, Relaxed);
        }
    }

    /// Whether a task of this stream may come in.
    #[inline]
    pub(in crate::exec) fn is_for(&self, stream: u64) -> bool {
        self.stream.load(Relaxed) == stream
    }

    /// Whether it holds tasks of the group with this uid.
    pub(in crate::exec) fn has_of(&self, uid: u64) -> bool {
        self.len() > 0 && self.group.load(Relaxed) == uid + 1
    }

    #[inline]
    pub(in crate::exec) fn len(&self) -> usize {
        self.len.load(SeqCst)
    }

    /// Puts a task in. The group, if the inbox was empty: the caller must expose it.
    ///
    /// # Errors
    ///
    /// The task, if the inbox was closed or turned over to another stream meanwhile.
    pub(in crate::exec) fn put(&self, task: Runnable) -> Result<Option<Arc<Group>>, Runnable> {
        let mut tasks = self.tasks.lock();
        if !self.is_for(task.metadata().stream) {
            return Err(task);
        }
        if tasks.list.len().is_multiple_of(BURST) {
            tasks.stamp = self.clock.now();
        }
        let cell = &task.metadata().cell;
        cell.queued(tasks.stamp);
        let first = tasks.list.is_empty().then(|| cell.group().clone());
        tasks.list.push(task);
        self.len.store(tasks.list.len(), SeqCst);
        Ok(first)
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
    //! Invariant 2 over stand-ins: the inbox's length, the group's `active`, the level-1 queue.

    use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use crate::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Model {
        inbox: Mutex<usize>,
        len: AtomicUsize,
        active: Mutex<bool>,
        /// Whether the group is in the level-1 queue; stands for the scheduler's lock too.
        queued: Mutex<bool>,
    }

    impl Model {
        /// `Inbox::put`, then `Group::expose_inbox`.
        fn put(&self) {
            {
                let mut inbox = self.inbox.lock();
                *inbox += 1;
                self.len.store(*inbox, SeqCst);
            }
            let inactive = !std::mem::replace(&mut *self.active.lock(), true);
            if inactive {
                *self.queued.lock() = true;
            }
        }

        /// `Worker::pick` on a group of which nothing else is ready.
        fn pick(&self) {
            let mut queued = self.queued.lock();
            if *queued && self.len.load(SeqCst) == 0 {
                *self.active.lock() = false;
                if self.len.load(SeqCst) > 0 {
                    *self.active.lock() = true;
                } else {
                    *queued = false;
                }
            }
        }
    }

    #[test]
    fn a_group_with_mail_is_never_dequeued() {
        ::loom::model(|| {
            let model = Arc::new(Model::default());
            *model.active.lock() = true;
            *model.queued.lock() = true;
            let picker = {
                let model = model.clone();
                ::loom::thread::spawn(move || model.pick())
            };
            model.put();
            picker.join().unwrap();
            assert!(*model.queued.lock() && *model.active.lock());
        });
    }
}
