//! How an account is ended, and how long that takes.
//!
//! Mechanism; any thread. What is measured is the time from the first verdict to the end of the last task that it
//! found alive: one sample per query at most, and none of a query that was killed while it had no task. Whoever gives
//! the verdict looks for tasks afterwards; whoever ends the last task looks for the verdict afterwards. So one of them
//! sees the other, and no time is left behind for a task that comes later.

use super::Account;
use crate::exec::join::Cause;
use crate::mem;
use crate::unit::Nanos;
use std::sync::atomic::Ordering::SeqCst;

impl Account {
    /// Ends all tasks of the account: those that wait at once, those that run at the end of their poll. Every
    /// handle yields a cancelled `JoinError` with `cause`. The first call decides; later ones return false.
    pub fn kill(&self, cause: Cause) -> bool {
        let _ours = mem::enter_process();
        let measured = self.measure();
        let first = self.killed.give(cause);
        if measured && self.live.load(SeqCst) == 0 {
            self.killed_at.store(0, SeqCst);
        }
        self.waiting.wake_all();
        if let Some(query) = self.query {
            self.home.hurry_query(query);
            if let Some(group) = self.moved.get() {
                group.hurry_query(query);
            }
        }
        self.core().pool().end_all_of(self);
        first
    }

    /// As [`kill`](Account::kill), for a query that was never admitted: nobody measures how fast it ends.
    pub fn refuse(&self, cause: Cause) {
        self.killed.give(cause);
        self.waiting.wake_all();
    }

    /// Why it was killed, if it was.
    pub fn killed(&self) -> Option<&Cause> {
        self.killed.get()
    }

    #[inline]
    pub(in crate::exec) fn is_killed(&self) -> bool {
        self.killed.is_given()
    }

    /// Begins to measure, before the first verdict is seen by anybody. False if there is nothing to measure, or if
    /// somebody else does.
    fn measure(&self) -> bool {
        if self.killed().is_some() || self.live.load(SeqCst) == 0 {
            return false;
        }
        let now = self.core().clock().now().0.max(1);
        let begun = self.killed_at.compare_exchange(0, now, SeqCst, SeqCst);
        begun.is_ok()
    }

    #[cold]
    pub(super) fn last_task_gone(&self) {
        let killed = self.killed_at.swap(0, SeqCst);
        if killed != 0 {
            let core = self.core();
            core.kills
                .kill_to_drop
                .record(core.clock().now().since(Nanos(killed)));
        }
    }
}
