//! Whom a task is charged to: a query, or a group directly; and where its waiting tasks can be found.
//!
//! Mechanism; any thread. A task is entered in `Waiting` at its first `Pending`, not when it is spawned:
//! until then it sits in a queue that shutdown and kill empty anyway, and most short tasks never wait.

use super::context;
use super::ending::Verdict;
use super::group::Group;
use super::join::{Cause, JoinError};
use crate::mem::{self, OwnerHandle};
use crate::sched::feedback::Stream;
use crate::sync::Mutex;
use crate::unit::{Nanos, QueryId};
use slab::Slab;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use Ordering::Relaxed;

/// What one query, or all tasks of a group that belong to no query, have used.
pub struct Account {
    pub(super) group: Arc<Group>,
    query: Option<QueryId>,
    /// Whose the memory of its tasks is: the query's, or the group's.
    memory: Arc<OwnerHandle>,
    cpu: AtomicU64,
    polls: AtomicU64,
    /// A mirror of what is in `longest`, to be compared with at each poll.
    longest_poll: AtomicU64,
    longest: Mutex<(Nanos, Option<&'static Location<'static>>)>,
    killed: Verdict,
    panicked: AtomicBool,
    aborted: AtomicBool,
    pub(super) waiting: Waiting,
    /// Its place in the executor's list of accounts.
    listed: OnceLock<usize>,
}

/// What an account has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountUsage {
    /// Worker time of its polls.
    pub cpu: Nanos,
    /// Polls.
    pub polls: u64,
    /// Its longest poll.
    pub longest_poll: Nanos,
    /// Where the task of that poll was spawned.
    pub longest_poll_at: Option<&'static Location<'static>>,
}

impl Account {
    /// The account of a query.
    pub fn for_query(group: Arc<Group>, query: QueryId) -> Arc<Account> {
        Account::listed(group, Some(query), 1)
    }

    /// The account of a group's tasks that belong to no query.
    pub fn for_group(group: Arc<Group>) -> Arc<Account> {
        let shards = group.core().workers();
        Account::listed(group, None, shards)
    }

    fn listed(group: Arc<Group>, query: Option<QueryId>, shards: usize) -> Arc<Account> {
        let account = Arc::new(Account::new(group, query, shards));
        // The cell is empty until here, so this cannot fail.
        let _ = account.listed.set(account.group.core.list(&account));
        // After it is listed: a group that is frozen meanwhile kills it, or it sees that the group is.
        if let Some(cause) = account.group.frozen() {
            account.kill(cause.clone());
        }
        account
    }

    fn new(group: Arc<Group>, query: Option<QueryId>, shards: usize) -> Account {
        let memory = match query {
            Some(_) => OwnerHandle::open_query(group.memory()),
            None => group.memory().clone(),
        };
        Account {
            group,
            query,
            memory,
            cpu: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            longest_poll: AtomicU64::new(0),
            longest: Mutex::default(),
            killed: Verdict::new(),
            panicked: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            waiting: Waiting::new(shards),
            listed: OnceLock::new(),
        }
    }

    /// The group that pays.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The query, if it is one's account.
    pub fn query(&self) -> Option<QueryId> {
        self.query
    }

    /// Whose the memory of its tasks is.
    pub fn memory(&self) -> &Arc<OwnerHandle> {
        &self.memory
    }

    /// Bytes that it uses now: its tasks' blocks, reservations, and what other threads keep in their credits. For
    /// an account without a query, its whole group's. Two loads.
    #[inline]
    pub fn memory_used(&self) -> u64 {
        self.memory.used()
    }

    /// Outside of a poll: kills whoever was doomed by what this thread has just allocated for the account.
    #[inline]
    pub(super) fn look_at_memory(&self) {
        if !context::on_task() && mem::take_doom() {
            let _ = mem::take_refusal();
            self.group.core.kill_doomed();
        }
    }

    /// What it has used, as far as charged: complete up to the last poll that ended.
    pub fn usage(&self) -> AccountUsage {
        let (longest_poll, longest_poll_at) = *self.longest.lock();
        AccountUsage {
            cpu: self.cpu(),
            polls: self.polls.load(Relaxed),
            longest_poll,
            longest_poll_at,
        }
    }

    /// Ends all tasks of the account: those that wait at once, those that run at the end of their poll. Every
    /// handle yields a cancelled `JoinError` with `cause`. The first call decides; later ones return false.
    pub fn kill(&self, cause: Cause) -> bool {
        let first = self.killed.give(cause);
        self.waiting.wake_all();
        if let Some(query) = self.query {
            self.group.hurry_query(query);
        }
        first
    }

    /// Why it was killed, if it was.
    pub fn killed(&self) -> Option<&Cause> {
        self.killed.get()
    }

    /// Whether one of its tasks has panicked.
    pub fn has_panicked(&self) -> bool {
        self.panicked.load(Relaxed)
    }

    /// Whether one of its tasks was aborted, or ended by a shutdown.
    pub fn was_aborted(&self) -> bool {
        self.aborted.load(Relaxed)
    }

    /// A task of the account ended without an output.
    pub(super) fn task_failed(&self, error: &JoinError) {
        let what = if error.is_panic() {
            &self.panicked
        } else {
            &self.aborted
        };
        what.store(true, Relaxed);
    }

    #[inline]
    pub(super) fn is_killed(&self) -> bool {
        self.killed.is_given()
    }

    pub(super) fn cpu(&self) -> Nanos {
        Nanos(self.cpu.load(Relaxed))
    }

    /// Charges one poll of a task that was spawned at `place`, which kept its worker for `held`; the account's CPU
    /// time with it.
    #[inline]
    pub(super) fn charge(
        &self,
        took: Nanos,
        held: Nanos,
        place: &'static Location<'static>,
    ) -> Nanos {
        self.polls.fetch_add(1, Relaxed);
        if held.0 > self.longest_poll.load(Relaxed) {
            self.outlast(held, place);
        }
        Nanos(self.cpu.fetch_add(took.0, Relaxed)).plus(took)
    }

    /// Charges CPU time that was spent outside of any poll.
    pub(super) fn charge_blocking(&self, took: Nanos) {
        self.cpu.fetch_add(took.0, Relaxed);
        self.group.counters.blocked(took);
    }

    #[cold]
    fn outlast(&self, held: Nanos, place: &'static Location<'static>) {
        let mut longest = self.longest.lock();
        if held > longest.0 {
            *longest = (held, Some(place));
            self.longest_poll.store(held.0, Relaxed);
        }
    }

    /// The level-2 stream of its tasks, as decided on and as the number that tasks carry.
    pub(super) fn stream(&self) -> (Stream, u64) {
        match self.query {
            Some(id) => (Stream::Query(id), (id.0 << 1) | 1),
            None => (Stream::Loose, self.group.uid << 1),
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(&place) = self.listed.get() {
            self.group.core.unlist(place);
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = self.usage();
        f.debug_struct("Account")
            .field("group", &self.group.name())
            .field("query", &self.query)
            .field("usage", &usage)
            .finish()
    }
}

/// The wakers of tasks that wait for something, so that they can be found to be ended.
pub(super) struct Waiting {
    shards: Box<[Mutex<Slab<Waker>>]>,
}

/// Where a task is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    shard: u32,
    key: u32,
}

impl Ticket {
    pub(super) fn pack(self) -> u64 {
        (u64::from(self.shard) << 32) | u64::from(self.key)
    }

    pub(super) fn unpack(packed: u64) -> Ticket {
        Ticket {
            shard: (packed >> 32) as u32,
            key: packed as u32,
        }
    }
}

impl Waiting {
    pub(super) fn new(shards: usize) -> Waiting {
        Waiting {
            shards: (0..shards.max(1))
                .map(|_| Mutex::new(Slab::new()))
                .collect(),
        }
    }

    pub(super) fn enter(&self, worker: usize, waker: Waker) -> Ticket {
        let shard = worker % self.shards.len();
        let key = self.shards[shard].lock().insert(waker);
        Ticket {
            shard: shard as u32,
            key: key as u32,
        }
    }

    /// The waker goes to the caller, to be dropped outside of the lock.
    pub(super) fn leave(&self, ticket: Ticket) -> Option<Waker> {
        self.shards
            .get(ticket.shard as usize)?
            .lock()
            .try_remove(ticket.key as usize)
    }

    pub(super) fn wake(&self, ticket: Ticket) {
        let waker = self
            .shards
            .get(ticket.shard as usize)
            .and_then(|s| s.lock().get(ticket.key as usize).cloned());
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn wake_all(&self) {
        for shard in &self.shards {
            // Cloned out: waking pushes into queues, which must not happen under a lock that tasks take.
            let wakers: Vec<Waker> = shard
                .lock()
                .iter()
                .map(|(_, waker)| waker.clone())
                .collect();
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }
}
