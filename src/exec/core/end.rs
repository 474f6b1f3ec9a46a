//! The end of an executor: every task is cancelled, and the workers leave when nothing is left.
//!
//! Mechanism; any thread. The order of things is that of [`Ending`].

use super::Core;
use crate::exec::ending::Ending;
use crate::exec::join::Cause;
use std::sync::atomic::Ordering::SeqCst;

impl Core {
    /// Ends every task, now and from now on, for `cause`: those that wait and those that are ready are
    /// dropped by a worker, those that run at the end of their poll, and new ones before they begin.
    /// Workers stop when nothing is left. The first call decides.
    pub fn cancel(&self, cause: Cause) {
        if self.ending.begin(cause) {
            // Before any task is woken: one that is woken in vain, because it is ready or running already, is
            // polled once more, and must see this then. Nobody wakes it again.
            for seat in self.all_seats() {
                seat.ending.store(true, SeqCst);
            }
            self.accounts()
                .iter()
                .for_each(|account| account.waiting.wake_all());
            self.groups().iter().for_each(|group| self.excuse(group));
            self.pool().end_all();
        }
        self.wake_all();
    }

    /// A host gave up a worker, and everything was ended if it was the last one: closures that run are on their own.
    pub(in crate::exec) fn see_to_closures(&self) {
        if self.is_unmanned() {
            self.pool().close();
            if self.setup().hands_over {
                self.pool().outlast();
            }
        }
    }

    /// The order to end everything, and whether it was carried out.
    #[inline]
    pub(in crate::exec) fn ending(&self) -> &Ending {
        &self.ending
    }

    /// Why everything is being ended, if it is.
    #[inline]
    pub fn cancelled(&self) -> Option<&Cause> {
        self.ending.cause()
    }

    /// Whether the workers may leave: everything was ended and is gone.
    pub(in crate::exec) fn is_over(&self) -> bool {
        let tell = || {
            self.wake_all();
            self.news.notify_waiters();
        };
        self.ending.is_over(|| self.live(), tell)
    }

    /// A task is gone that no worker ran: it may have been the last one, and the workers sleep.
    #[cold]
    pub(in crate::exec) fn look_whether_over(&self) {
        let _ = self.is_over();
    }
}
