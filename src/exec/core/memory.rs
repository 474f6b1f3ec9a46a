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
            let cause = cause.unwrap_or_else(|| {
                let memory = account.group().memory();
                self.shortage(account, memory.state())
            });
            if !replaced || lost >= self.workers() {
                account.group().freeze(&cause);
            }
            task.fail(cause);
        }
    }

    pub(in crate::exec) fn kill_all_of(&self, group: &Group, cause: &Cause) {
        let accounts = self.accounts();
        let of_it = accounts
            .iter()
            .filter(|account| account.group().uid == group.uid);
        of_it.for_each(|account| {
            account.kill(cause.clone());
        });
    }
}
