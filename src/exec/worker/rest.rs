//! Waking others, going to sleep, and being given up.
//!
//! Mechanism; the thread of the host that drives the worker. The protocol is that of
//! [`Sleepers`](crate::exec::sleepers::Sleepers).

use super::{Exit, Worker};
use crate::exec::group::Group;
use crate::exec::join::Cause;
use crate::exec::task::Task;
use crate::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::task::Waker;

impl Worker {
    /// A searcher that found work stops searching; if anything is left for others, one more is woken. `own`: how many of
    /// the queued groups are its own, one or none.
    pub(super) fn wake_others(&self, own: usize) {
        if self.searching.take() {
            self.core.sleepers.stop_searching();
        }
        if self.core.sleepers.wanted() {
            let ready = self
                .group
                .borrow()
                .as_ref()
                .map_or(0, |group| group.ready());
            let groups = self.core.queued_groups();
            // Another group counts as one task: if it is more, this worker will find out when it serves it.
            let others = groups.saturating_sub(own);
            // What outlasted a slice is more than a burst, whatever the average says.
            let enough = if self.outlasted.take() {
                2
            } else {
                self.offer_at.get()
            };
            if groups > 0 && ready + self.ring.len() + others >= enough {
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
        seat.asleep.store(true, Relaxed);
        self.core.sleepers.enter(self.index);
        let work = self.core.queued_groups() > 0 || !seat.inbox.is_empty();
        let work = work || self.core.forward_mail(self.now.get());
        if work || self.core.is_refill_due() || self.core.is_over() {
            self.awake();
            return false;
        }
        mem::flush();
        seat.parks.store(seat.parks.load(Relaxed) + 1, Relaxed);
        true
    }

    /// The worker is awake again, claimed for something or by chance.
    pub fn awake(&self) {
        self.seat.asleep.store(false, Relaxed);
        self.searching.set(self.core.sleepers.leave(self.index));
        self.core.watchdog().rouse();
        self.stolen.awake();
    }

    /// Whether somebody is about to wake the worker, or it sleeps no more.
    pub fn is_called(&self) -> bool {
        !self.core.sleepers.has(self.index)
    }

    /// The host runs tasks outside of tokio's scheduler, so that no wake-up waits for the host's turn.
    pub fn never_defers(&self) {
        self.defers.set(false);
    }

    /// The thread is about to be parked for good, inside a poll of `task`. No allocation, and no lock.
    pub(in crate::exec) fn is_lost_in(&self, task: Option<Arc<Task>>) {
        if let Some(task) = task
            && self.seat.lost_in.set(task).is_ok()
        {
            self.core.lost.fetch_add(1, SeqCst);
            self.core.watchdog().rouse();
        }
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
        // It comes back to this thread no more: whatever is woken here must wake another worker.
        self.seat.asleep.store(true, SeqCst);
        self.give_back_all();
        if !self.core.unman() {
            self.core.notify();
            return;
        }
        self.core.cancel(cause.clone());
        self.run_out();
        self.core.see_to_closures();
    }

    fn run_out(&self) {
        // A spawn that is under way on another thread may need a moment to show its task.
        for _ in 0..100_000 {
            match self.run() {
                Exit::Stop => return,
                Exit::Yield => {}
                Exit::Idle => std::thread::yield_now(),
            }
        }
    }

    /// The host drives the worker no more, after [`Exit::Stop`].
    pub fn retire(&self) {
        self.core.unman();
        self.core.see_to_closures();
    }

    pub(super) fn give_back_all(&self) {
        let mut mail = Vec::new();
        self.seat.inbox.close_into(&mut mail);
        if Group::push_each(mail.into_iter(), &mut Vec::new()) {
            self.core.notify();
        }
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
