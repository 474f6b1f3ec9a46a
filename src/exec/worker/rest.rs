//! Waking others, going to sleep, and being given up.
//!
//! Mechanism; the thread of the host that drives the worker. The protocol is that of
//! [`Sleepers`](crate::exec::sleepers::Sleepers).

use super::{Exit, Worker};
use crate::exec::join::Cause;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

impl Worker {
    /// A searcher that found work stops searching; if anything is left for others, one more is woken.
    pub(super) fn wake_others(&self) {
        if self.searching.take() {
            self.core.sleepers.stop_searching();
        }
        if self.core.sleepers.wanted() {
            let ready = self
                .group
                .borrow()
                .as_ref()
                .is_some_and(|group| group.ready() > 0);
            let groups = self.core.queued_groups();
            if groups > 1 || ready || (groups > 0 && self.ring.len() > 1) {
                self.core.notify();
            }
        }
    }

    /// The host is about to let the worker sleep. True: sleep until its waker is woken, then call
    /// [`Worker::awake`]. False: there is work after all.
    pub fn prepare_to_sleep(&self) -> bool {
        if self.searching.take() {
            self.core.sleepers.stop_searching();
        }
        let seat = &**self.seat;
        seat.serving.store(0, Relaxed);
        self.core.sleepers.enter(self.index);
        if self.core.queued_groups() > 0 || self.core.is_over() {
            self.awake();
            return false;
        }
        seat.parks.store(seat.parks.load(Relaxed) + 1, Relaxed);
        true
    }

    /// The worker is awake again, claimed or by chance.
    pub fn awake(&self) {
        self.searching.set(self.core.sleepers.leave(self.index));
        self.core.watchdog().rouse();
        self.stolen.awake(self.core.clock().now());
    }

    /// Registers how to wake the worker.
    pub fn register(&self, waker: &Waker) {
        self.seat.waker.register(waker);
    }

    /// The host gives the worker up without [`Exit::Stop`]: the runtime under it is being dropped. Its tasks
    /// go back for the others. The last worker to be given up ends all tasks, here and now, for `cause`.
    pub fn abandon(&self, cause: &Cause) {
        self.end_slice();
        if self.core.sleepers.leave(self.index) || self.searching.take() {
            self.core.sleepers.stop_searching();
        }
        self.give_back_all();
        if !self.core.unman() {
            self.core.notify();
            return;
        }
        self.core.cancel(cause.clone());
        // A spawn that is under way on another thread may need a moment to show its task.
        for _ in 0..100_000 {
            match self.run() {
                Exit::Stop => return,
                Exit::Yield => {}
                Exit::Idle => std::thread::yield_now(),
            }
        }
    }

    pub(super) fn give_back_all(&self) {
        let group = self.group.borrow();
        if let Some(group) = group.as_deref() {
            self.give_back(group, self.now.get());
            self.seat.serving.store(0, Relaxed);
            if group.ready() > 0 {
                group.expose();
            }
        }
    }
}
