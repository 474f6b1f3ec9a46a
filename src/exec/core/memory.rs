//! Ending those who asked for memory that was not there: what the allocator, which may only mark, leaves to others.
//!
//! Mechanism; workers at the end of a poll, and the watchdog.

use super::Core;
use crate::exec::account::Account;
use crate::exec::group::Group;
use crate::exec::join::Cause;
use crate::mem::{self, OwnerHandle, Shortfall};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::futures::Notified;

impl Core {
    /// Whose the memory of all its groups is.
    pub fn memory(&self) -> &Arc<OwnerHandle> {
        &self.config.memory
    }

    /// Kills the accounts that requests for memory have doomed.
    #[cold]
    pub(in crate::exec) fn kill_doomed(&self) {
        for account in self.accounts() {
            if account.killed().is_none()
                && let Some(shortfall) = account.memory().doom()
            {
                account.kill(self.shortage(&account, shortfall));
            }
        }
    }

    /// What a task is told that ends for want of memory.
    pub(in crate::exec) fn shortage(&self, account: &Account, shortfall: Shortfall) -> Cause {
        (self.config.shortage)(account, shortfall)
    }

    /// The watchdog's part: kills those that were doomed where no end of a poll is near, and attends to threads that
    /// were parked for good inside a poll. The task's handle learns why it ends, its query is killed, and another
    /// thread takes the worker's place. Once as many threads are lost as there were workers, the groups that lost them
    /// are frozen.
    pub(in crate::exec) fn attend_memory(&self) {
        let dooms = mem::dooms();
        if self.dooms.swap(dooms, SeqCst) != dooms {
            self.kill_doomed();
        }
        let lost = self.lost.load(SeqCst);
        if self.attended.swap(lost, SeqCst) == lost {
            return;
        }
        self.kill_doomed();
        for seat in self.all_seats() {
            let Some(task) = seat.lost_in.get().filter(|task| !task.is_finished()) else {
                continue;
            };
            let replaced = self.replace_worker(seat.index);
            let account = task.account();
            let cause = account.killed().cloned();
            // A task of no query: what was refused is known to the parked thread alone.
            let cause =
                cause.unwrap_or_else(|| self.shortage(account, account.home.memory().state()));
            // Counted anew: a thread may have been lost since, which is seen here before it has counted itself.
            let all_seats = self.all_seats();
            let lost = all_seats.filter(|seat| seat.lost_in.get().is_some());
            if !replaced || lost.count() >= self.workers() {
                account.home.freeze(&cause);
            }
            task.fail_for(cause);
            // Nobody waits for its end.
            account.home.counters.finished.fetch_add(1, SeqCst);
        }
        self.look_whether_over();
        self.news.notify_waiters();
    }

    /// Whether the thread of this worker is parked for good.
    pub(in crate::exec) fn is_lost(&self, worker: usize) -> bool {
        let seat = self.seats.get(worker);
        seat.is_some_and(|seat| seat.lost_in.get().is_some())
    }

    /// How many workers' threads are parked for good. Those of stand-ins do not count.
    pub(in crate::exec) fn lost_workers(&self) -> usize {
        if self.lost.load(SeqCst) == 0 {
            return 0;
        }
        let lost = self
            .seats
            .iter()
            .filter(|seat| seat.lost_in.get().is_some());
        lost.count()
    }

    /// Whether those who are parked for good have left nothing behind that others must end.
    pub(in crate::exec) fn is_settled(&self) -> bool {
        self.lost.load(SeqCst) == 0 || self.is_over()
    }

    /// Resolves when a thread was lost, or everything has ended, after it was polled first.
    pub(in crate::exec) fn news(&self) -> Notified<'_> {
        self.news.notified()
    }

    pub(in crate::exec) fn kill_all_of(&self, group: &Group, cause: &Cause) {
        let accounts = self.accounts();
        let of_it = accounts
            .iter()
            .filter(|account| account.home.uid == group.uid);
        of_it.for_each(|account| {
            account.kill(cause.clone());
        });
    }
}
