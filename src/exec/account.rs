//! Whom a task is charged to: a query, or a group directly; and how it is ended.
//!
//! Mechanism; any thread.

mod killing;
mod spending;

use super::context;
use super::core::Core;
use super::ending::Verdict;
use super::group::Group;
use super::join::JoinError;
use super::limits::Limits;
use super::stats::IoBytes;
use super::tally::Traffic;
use super::waiting::Waiting;
use crate::mem::{self, OwnerHandle};
use crate::sched::feedback::{LEVELS, Stream, level_end};
use crate::sync::Mutex;
use crate::unit::{Nanos, QueryId};
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use Ordering::{Relaxed, SeqCst};

/// What one query, or all tasks of a group that belong to no query, have used. Its references are counted on a cache line of
/// their own: other threads' spawns should not take the rest from those who poll.
#[repr(align(64))]
pub struct Account {
    /// Where its tasks are counted, from their beginning to their end: the group that it began in.
    pub(super) home: Arc<Group>,
    /// The group that serves them and pays, if it is another one: see [`moving`](super::moving).
    pub(super) moved: OnceLock<Arc<Group>>,
    query: Option<QueryId>,
    /// The level-2 stream of its tasks, as a number that compares in one step.
    stream: u64,
    /// Whose the memory of its tasks is: the query's, or the group's.
    memory: Arc<OwnerHandle>,
    cpu: AtomicU64,
    polls: AtomicU64,
    /// A mirror of what is in `longest`, to be compared with at each poll.
    longest_poll: AtomicU64,
    longest: Mutex<(Nanos, Option<&'static Location<'static>>)>,
    scan_rows: AtomicU64,
    scan_bytes: AtomicU64,
    traffic: Traffic,
    /// Tasks of a query that are alive; not kept for a group.
    live: AtomicU64,
    /// The number of a query's first task; the largest number once that is gone.
    root: AtomicU64,
    limits: Arc<Limits>,
    /// It went over one of its limits; that happens once.
    tripped: AtomicBool,
    /// Its tasks are old, whatever they have used.
    cooled: AtomicBool,
    killed: Verdict,
    /// When it was killed, until its last task is gone: see [`killing`].
    killed_at: AtomicU64,
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
    /// Rows that it reported as scanned.
    pub scan_rows: u64,
    /// Bytes that it reported as scanned.
    pub scan_bytes: u64,
    /// Bytes that its tasks read and wrote through metered files and streams.
    pub io: IoBytes,
    /// How long operations on files and metered streams waited for limits.
    pub io_throttled: Nanos,
    /// Tasks of the query that are alive; zero for a group.
    pub tasks: u64,
}

impl Account {
    /// The account of a query, which may use as much as `limits` say.
    pub fn for_query(group: Arc<Group>, query: QueryId, limits: Arc<Limits>) -> Arc<Account> {
        Account::listed(group, Some(query), 1, limits)
    }

    /// The account of a group's tasks that belong to no query.
    pub fn for_group(group: Arc<Group>) -> Arc<Account> {
        let shards = group.core().workers();
        Account::listed(group, None, shards, Arc::new(Limits::none()))
    }

    fn listed(
        group: Arc<Group>,
        query: Option<QueryId>,
        shards: usize,
        limits: Arc<Limits>,
    ) -> Arc<Account> {
        let account = Arc::new(Account::new(group, query, shards, limits));
        // The cell is empty until here, so this cannot fail.
        let _ = account.listed.set(account.core().list(&account));
        // After it is listed: a group that is frozen meanwhile kills it, or it sees that the group is.
        if let Some(cause) = account.home.frozen() {
            account.kill(cause.clone());
        }
        account
    }

    fn new(
        group: Arc<Group>,
        query: Option<QueryId>,
        shards: usize,
        limits: Arc<Limits>,
    ) -> Account {
        let memory = match query {
            Some(_) => OwnerHandle::open_query(group.memory()),
            None => group.memory().clone(),
        };
        let stream = match query {
            Some(id) => (id.0 << 1) | 1,
            None => group.uid << 1,
        };
        Account {
            home: group,
            moved: OnceLock::new(),
            query,
            stream,
            memory,
            cpu: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            longest_poll: AtomicU64::new(0),
            longest: Mutex::default(),
            scan_rows: AtomicU64::new(0),
            scan_bytes: AtomicU64::new(0),
            traffic: Traffic::default(),
            live: AtomicU64::new(0),
            root: AtomicU64::new(0),
            limits,
            tripped: AtomicBool::new(false),
            cooled: AtomicBool::new(false),
            killed: Verdict::new(),
            killed_at: AtomicU64::new(0),
            panicked: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            waiting: Waiting::new(shards),
            listed: OnceLock::new(),
        }
    }

    /// The group that serves its tasks and pays.
    #[inline]
    pub fn group(&self) -> &Arc<Group> {
        self.moved.get().unwrap_or(&self.home)
    }

    /// The executor that it belongs to.
    #[inline]
    pub(super) fn core(&self) -> &Arc<Core> {
        &self.home.core
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
            self.core().kill_doomed();
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
            scan_rows: self.scan_rows.load(Relaxed),
            scan_bytes: self.scan_bytes.load(Relaxed),
            io: self.traffic.counted(),
            io_throttled: self.traffic.waited(),
            tasks: self.live.load(Relaxed),
        }
    }

    /// Whether one of its tasks has panicked.
    pub fn has_panicked(&self) -> bool {
        self.panicked.load(Relaxed)
    }

    /// Whether one of its tasks was aborted, or ended by a shutdown.
    pub fn was_aborted(&self) -> bool {
        self.aborted.load(Relaxed)
    }

    /// A task of the query begins to live.
    #[inline]
    pub(super) fn task_began(&self, id: u64) {
        if self.query.is_some() {
            self.live.fetch_add(1, Relaxed);
            if self.root.load(Relaxed) == 0 {
                let _ = self.root.compare_exchange(0, id, Relaxed, Relaxed);
            }
        }
    }

    /// A task's future is gone.
    #[inline]
    pub(super) fn task_gone(&self, id: u64) {
        if self.query.is_none() {
            return;
        }
        if self.root.load(Relaxed) == id {
            self.root.store(u64::MAX, Relaxed);
        }
        let last = self.live.fetch_sub(1, SeqCst) == 1;
        if last && self.killed().is_some() {
            self.last_task_gone();
        }
    }

    /// Tasks of the query that have outlived its first one.
    pub fn outliving(&self) -> u64 {
        match self.root.load(Relaxed) {
            u64::MAX => self.live.load(Relaxed),
            _ => 0,
        }
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

    pub(super) fn cpu(&self) -> Nanos {
        Nanos(self.cpu.load(Relaxed))
    }

    /// Charges one poll of a task that was spawned at `place`, which kept its worker for `held`, and looks whether that
    /// was too much; the account's CPU time with it.
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
        let cpu = Nanos(self.cpu.fetch_add(took.0, Relaxed)).plus(took);
        if self.limits.are_near(cpu) {
            self.check(cpu, took);
        }
        cpu
    }

    /// Charges CPU time that was spent outside of any poll.
    pub(super) fn charge_blocking(&self, took: Nanos) {
        self.group().counters.blocked(took);
        let cpu = Nanos(self.cpu.fetch_add(took.0, Relaxed)).plus(took);
        if self.limits.are_near(cpu) {
            self.check(cpu, took);
        }
    }

    #[cold]
    fn outlast(&self, held: Nanos, place: &'static Location<'static>) {
        let mut longest = self.longest.lock();
        if held > longest.0 {
            *longest = (held, Some(place));
            self.longest_poll.store(held.0, Relaxed);
        }
    }

    /// The level-2 stream of its tasks.
    pub(super) fn stream(&self) -> Stream {
        match self.query {
            Some(id) => Stream::Query(id),
            None => Stream::Loose,
        }
    }

    /// That stream, as a number that compares in one step.
    #[inline]
    pub(super) fn stream_number(&self) -> u64 {
        self.stream
    }

    /// The CPU time that decides on the level of its tasks.
    pub(super) fn age(&self) -> Nanos {
        if self.cooled.load(Relaxed) {
            let oldest = level_end(LEVELS - 2, self.core().config().level_base);
            return self.cpu().max(Nanos(oldest));
        }
        self.cpu()
    }

    /// From now on its tasks are of the oldest level.
    pub(super) fn cool(&self) {
        self.cooled.store(true, Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(&place) = self.listed.get() {
            self.core().unlist(place);
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = self.usage();
        f.debug_struct("Account")
            .field("group", &self.group().name())
            .field("query", &self.query)
            .field("usage", &usage)
            .finish()
    }
}
