//! A query that goes on in another group: its tasks move, with their account.
//!
//! Mechanism; any thread. It happens at most once to a query. Invariants:
//! 1. The move is one write, of [`Account::moved`]. Whoever makes a task ready afterwards pushes it to the new group.
//! 2. A task that is found where it was before the move is passed on by whoever takes it up: the one who moves
//!    empties the old group's queue, a worker looks before it polls. A task that was pushed to the old group
//!    meanwhile is found there by a worker, as the old group has work.
//! 3. Nobody polls a moved task for the old group, but for polls that had begun.
//! 4. A task is counted where its account began, for its whole life: the sums that decide whether an executor is
//!    over are exact without a look at moves. Figures for people are shifted when they are read.

use super::account::Account;
use super::core::Core;
use super::group::Group;
use crate::exec::task::Runnable;
use crate::mem::desk::Desk;
use crate::unit::QueryId;
use std::sync::{Arc, Weak};

/// Accounts of queries that moved to another group. Those that are gone are sorted out as the list doubles, so that it
/// never is much longer than the most that were alive at once, whether or not anybody looks.
#[derive(Default)]
pub(super) struct Moves {
    accounts: Vec<Weak<Account>>,
    /// How long the list may become before it is looked through.
    sort_out_at: usize,
}

/// A list this short is not worth looking through.
const SHORT: usize = 64;

impl Moves {
    fn add(&mut self, account: Weak<Account>) {
        if self.accounts.len() >= self.sort_out_at {
            self.accounts.retain(|it| it.strong_count() > 0);
            self.sort_out_at = 2 * self.accounts.len() + SHORT;
        }
        self.accounts.push(account);
    }

    /// Those that are alive.
    fn alive(&mut self) -> Vec<Arc<Account>> {
        let mut alive = Vec::new();
        self.accounts.retain(|account| {
            alive.extend(account.upgrade());
            account.strong_count() > 0
        });
        alive
    }
}

impl Account {
    /// Moves the tasks of a query to another group of the same executor, for good. False if they were moved before,
    /// are there already, or belong to no query.
    pub fn move_to(self: &Arc<Account>, group: &Arc<Group>) -> bool {
        let Some(query) = self.query() else {
            return false;
        };
        let fits = Arc::ptr_eq(group.core(), self.core()) && group.uid != self.home.uid;
        if !fits || self.moved.set(group.clone()).is_err() {
            return false;
        }
        self.core().moves.lock().add(Arc::downgrade(self));
        for task in self.home.take_query(query) {
            group.push(task);
        }
        true
    }

    /// As [`move_to`](Account::move_to), and the tasks are of the oldest level from then on.
    pub fn cool_in(self: &Arc<Account>, group: &Arc<Group>) -> bool {
        self.cool();
        self.move_to(group)
    }

    /// Where it reserves memory: with the group that it began in, whose its memory stays.
    #[inline]
    pub fn desk(&self) -> &Arc<Desk> {
        self.home.desk()
    }

    /// Whether its tasks are served by this group.
    #[inline]
    pub(super) fn is_served_by(&self, uid: u64) -> bool {
        self.group().uid == uid
    }
}

impl Group {
    /// Takes the waiting tasks of a query out of the group's queue.
    fn take_query(&self, query: QueryId) -> Vec<Runnable> {
        let mut queue = self.queue.lock();
        self.absorb(&mut queue, &mut Vec::new());
        let tasks = queue.take_query(query);
        self.requeued(0, tasks.len());
        tasks
    }

    /// Whether any query that began here is known to anybody: what it has and uses is partly this group's, wherever it goes
    /// on.
    pub fn has_queries(&self) -> bool {
        let accounts = self.core.accounts();
        let mut queries = accounts.iter().filter(|account| account.query().is_some());
        queries.any(|query| query.home.uid == self.uid)
    }
}

impl Core {
    /// How many more tasks a group has than were counted there: those that moved in, less those that moved out.
    pub(super) fn moved_tasks(&self, uid: u64) -> i64 {
        // The last reference to an account must not be dropped under the lock of the list.
        let seen = self.moves.lock().alive();
        let tasks = |account: &Arc<Account>| {
            let tasks = i64::try_from(account.usage().tasks).unwrap_or(i64::MAX);
            match (account.is_served_by(uid), account.home.uid == uid) {
                (true, false) => tasks,
                (false, true) => -tasks,
                _ => 0,
            }
        };
        seen.iter().map(tasks).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{Moves, SHORT};
    use std::sync::Weak;

    #[test]
    fn accounts_that_are_gone_are_sorted_out_though_nobody_looks() {
        let mut moves = Moves::default();
        for _ in 0..10_000 {
            moves.add(Weak::new());
            assert!(moves.accounts.len() <= SHORT + 1);
        }
        assert!(moves.alive().is_empty());
    }
}
