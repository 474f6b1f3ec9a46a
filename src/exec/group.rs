//! A resource group as the executor knows it: a name, a weight, and the queue of its ready tasks.
//!
//! Mechanism; any thread. Invariants:
//! 1. A ready task is in exactly one place: `incoming` (pushed from anywhere), `queue` (ordered by level
//!    and query), or one worker's hands or inbox.
//! 2. `active` says that the level-1 queue knows of the group, or is about to. It lives under the same lock
//!    as `incoming`, so that "push, see inactive, activate" and "see empty, deactivate" cannot overlap.
//! 3. Lock order: the scheduler's lock, then `queue`, then `incoming`. No user code runs under any of them.

mod looks;

use super::core::Core;
use super::ending::Verdict;
use super::incoming::Incoming;
use super::join::Cause;
use super::stats::GroupUsage;
use super::tally::Counters;
use super::task::{Lease, Runnable};
use crate::mem::OwnerHandle;
use crate::mem::desk::Desk;
use crate::sched::fair::{Fair, Slot};
use crate::sched::feedback::{Feedback, Place, Stream};
use crate::sched::pool::Share;
use crate::sched::{self, Limits};
use crate::sync::Mutex;
use crate::unit::{QueryId, Weight};
use crossbeam_utils::CachePadded;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// A resource group's tasks and account in the executor. Lives until its last task and account are gone.
pub struct Group {
    name: Box<str>,
    /// Unique in the process, over all governors.
    pub(super) uid: u64,
    pub(super) core: Arc<Core>,
    pub(super) slot: Slot,
    /// Its place in the blocking pool.
    pub(super) io: Slot,
    /// Whose the memory of its tasks is.
    memory: Arc<OwnerHandle>,
    /// Where its queries reserve memory.
    desk: Arc<Desk>,
    /// What is kept with it for those who know it by its accounts.
    kept: OnceLock<Lease>,
    /// Nothing of it runs any more.
    frozen: Verdict,
    incoming: CachePadded<Incoming<Runnable>>,
    pub(super) queue: CachePadded<Mutex<Feedback<Runnable>>>,
    /// Looks at the host that found nothing, in a row, and how many the group goes without.
    fruitless_looks: AtomicU8,
    skip_looks: AtomicU8,
    /// Its cap holds it back; a mirror of what the policy says.
    held_back: AtomicBool,
    /// Moving average of poll lengths in ns; racy on purpose.
    average_poll: AtomicU64,
    pub(super) counters: CachePadded<Counters>,
}

static NEXT_UID: AtomicU64 = AtomicU64::new(0);

impl Group {
    /// A new group in `core`. It gets its place in the scheduler at once, and work when it is given some.
    pub fn new(core: &Arc<Core>, name: &str, weight: Weight) -> Arc<Group> {
        Group::open(core, name, weight, None)
    }

    /// A new group of the same name, in which some of its queries go on. Their memory stays with this one: it has no desk
    /// of its own.
    pub fn beside(&self, weight: Weight) -> Arc<Group> {
        Group::open(&self.core, &self.name, weight, Some(self.desk.clone()))
    }

    fn open(core: &Arc<Core>, name: &str, weight: Weight, desk: Option<Arc<Desk>>) -> Arc<Group> {
        let memory = OwnerHandle::open_group(core.memory());
        memory.set_weight(weight.get());
        Arc::new_cyclic(|this| Group {
            name: name.into(),
            uid: NEXT_UID.fetch_add(1, Relaxed),
            core: core.clone(),
            desk: desk.unwrap_or_else(|| Desk::new(name.into(), memory.clone())),
            memory,
            kept: OnceLock::new(),
            frozen: Verdict::new(),
            slot: core.add_group(this.clone(), weight),
            io: core.pool().add_group(weight),
            incoming: CachePadded::default(),
            queue: CachePadded::new(Mutex::new(Feedback::new(core.config().level_base))),
            fruitless_looks: AtomicU8::new(0),
            skip_looks: AtomicU8::new(0),
            held_back: AtomicBool::new(false),
            average_poll: AtomicU64::new(sched::FIRST_AVERAGE.0),
            counters: CachePadded::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The executor that it belongs to.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Whose the memory of its tasks is.
    pub fn memory(&self) -> &Arc<OwnerHandle> {
        &self.memory
    }

    /// Where its queries reserve memory.
    pub fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Keeps something with it that the executor does not know: what its streams are limited to. The first one stays.
    pub fn keep(&self, it: Lease) {
        let _ = self.kept.set(it);
    }

    /// What is kept with it.
    #[inline]
    pub fn kept(&self) -> Option<&Lease> {
        self.kept.get()
    }

    /// Ends all its work, and whatever comes: it has cost as many threads as there were workers.
    pub(super) fn freeze(&self, cause: &Cause) {
        if self.frozen.give(cause.clone()) {
            self.core.kill_all_of(self, cause);
        }
    }

    /// Why nothing of it runs any more.
    pub fn frozen(&self) -> Option<&Cause> {
        self.frozen.get()
    }

    /// Changes what it may have of the workers, in place and at once.
    pub fn set_limits(&self, limits: Limits) {
        self.memory.set_weight(limits.weight.get());
        self.core.set_limits(self, limits);
    }

    /// Changes what it may have of the blocking pool, in place and at once.
    pub fn set_io_share(&self, share: Share) {
        self.core.pool().set_share(self.io, share);
    }

    /// Nobody finds it any more: threads of the blocking pool are kept free for it no longer.
    pub fn reserve_no_threads(&self) {
        self.core.pool().reserve_nothing(self.io);
    }

    /// What it has used, and what its tasks do now.
    pub fn usage(&self) -> GroupUsage {
        let now = self.core.look_at(self);
        let counted = self.counters.read();
        let ready = now.tasks_running + now.tasks_queued;
        let live = self.counters.live();
        let (io_blocking, blocking_queued, blocking_running) = self.core.pool().look_at(self.io);
        let live = live.saturating_add_signed(self.core.moved_tasks(self.uid));
        GroupUsage {
            tasks_running: now.tasks_running,
            tasks_queued: now.tasks_queued,
            tasks_waiting: live.saturating_sub(ready),
            throttled: now.throttled,
            reserved: now.reserved,
            lag_ns: now.lag_ns,
            share: now.share,
            entitled: now.entitled,
            io_blocking,
            blocking_queued: blocking_queued as u64,
            blocking_running: blocking_running as u64,
            ..counted
        }
    }

    /// Makes a task ready. Any thread; never blocks on anything but short critical sections of our own.
    pub(super) fn push(&self, task: Runnable) {
        self.push_quietly(task);
        self.call_a_worker();
    }

    /// There is work in the level-1 queue: somebody must be awake, unless the group's cap holds it back anyway.
    pub(super) fn call_a_worker(&self) {
        if !self.is_held_back() {
            self.core.notify();
        }
    }

    /// Whether its cap holds its ready tasks back. When it no longer does, a worker is woken, or awake.
    #[inline]
    pub(super) fn is_held_back(&self) -> bool {
        self.held_back.load(SeqCst)
    }

    /// Under the scheduler's lock: takes over what the policy says.
    pub(super) fn mirror(&self, fair: &Fair) {
        let held_back = fair.is_throttled(self.slot);
        if self.held_back.load(Relaxed) != held_back {
            self.held_back.store(held_back, SeqCst);
        }
    }

    /// As [`Group::push`], when a worker will come by in a moment without being woken.
    pub(super) fn push_quietly(&self, task: Runnable) {
        self.tell(self.take_in(std::iter::once(task)));
    }

    /// As [`Group::push_quietly`] for tasks of any groups of one executor, each run of one group under one lock. Whether there
    /// was any. `woken` is empty before and after.
    pub(super) fn push_each(
        tasks: impl Iterator<Item = Runnable>,
        woken: &mut Vec<Arc<Group>>,
    ) -> bool {
        let mut tasks = tasks.peekable();
        let any = tasks.peek().is_some();
        while let Some(task) = tasks.next() {
            let group = task.metadata().task.group().clone();
            let next = || tasks.next_if(|next| Arc::ptr_eq(next.metadata().task.group(), &group));
            let pushed = group.take_in(std::iter::once(task).chain(std::iter::from_fn(next)));
            if pushed.inactive {
                woken.push(group);
            } else {
                group.tell(pushed);
            }
        }
        if let Some(first) = woken.first() {
            first.core.activate(woken.iter().map(|group| &**group));
        }
        woken.clear();
        any
    }

    /// As [`Group::push_quietly`] for tasks that are all its own. The level-1 queue has to be [told](Group::tell).
    fn take_in(&self, tasks: impl Iterator<Item = Runnable>) -> Pushed {
        let mut doomed = false;
        let note = |task: &Runnable, stamp| {
            doomed |= task.metadata().task.is_doomed();
            task.metadata().task.queued(stamp);
        };
        let inactive = self.incoming.push(tasks, || self.core.clock().now(), note);
        Pushed { inactive, doomed }
    }

    fn tell(&self, pushed: Pushed) {
        if pushed.inactive {
            self.core.activate(std::iter::once(self));
        } else if pushed.doomed && self.is_held_back() {
            self.core.excuse(self);
        }
    }

    /// Lets the level-1 queue know of the group because a worker holds tasks that others could take.
    pub(super) fn expose(&self) {
        self.expose_quietly();
        self.call_a_worker();
    }

    /// As [`Group::expose`], when the caller itself looks for work next.
    pub(super) fn expose_quietly(&self) {
        let inactive = self.incoming.activate();
        if inactive {
            self.core.activate(std::iter::once(self));
        }
    }

    /// Ready tasks that no worker holds, as of a moment ago.
    #[inline]
    pub(super) fn ready(&self) -> usize {
        self.incoming.ready()
    }

    /// Under the scheduler's lock: the group is about to enter the level-1 queue.
    pub(super) fn set_active(&self) {
        self.incoming.activate();
    }

    /// Under the scheduler's lock: true if nothing is ready; the group leaves the level-1 queue then.
    pub(super) fn deactivate_if_empty(&self) -> bool {
        self.incoming.deactivate_if_empty()
    }

    /// Takes out what was pushed, to go into the ordered queue, whose lock the caller holds, and counts as if it was there
    /// already. `spare` is empty.
    pub(super) fn take_pushed(&self, spare: &mut Vec<Runnable>) {
        self.incoming.absorb(spare);
    }

    /// Moves what was pushed into the ordered queue, whose lock the caller holds.
    pub(super) fn absorb(&self, queue: &mut Feedback<Runnable>, spare: &mut Vec<Runnable>) {
        self.take_pushed(spare);
        for task in spare.drain(..) {
            enqueue(queue, task, End::Back);
        }
    }

    /// A waiting task has to be dropped: it goes before all others. Where it is not in the queue it is on its way to
    /// it, or to be polled.
    pub(super) fn hurry(&self, stream: Stream, place: Place, is: impl FnOnce(&Runnable) -> bool) {
        self.queue.lock().hurry(stream, place, is);
        // It may have been pushed and not queued yet.
        if self.is_held_back() {
            self.core.excuse(self);
        }
    }

    /// All tasks of a query have to be dropped.
    pub(super) fn hurry_query(&self, id: QueryId) {
        self.queue.lock().hurry_query(id);
        if self.is_held_back() {
            self.core.excuse(self);
        }
    }

    /// Whether tasks wait here that only have to be dropped.
    pub(super) fn has_urgent(&self) -> bool {
        let mut queue = self.queue.lock();
        self.absorb(&mut queue, &mut Vec::new());
        queue.has_urgent()
    }

    /// Accounts for tasks put into (positive) or taken out of the ordered queue, whose lock the caller holds.
    pub(super) fn requeued(&self, put: usize, taken: usize) {
        self.incoming.requeued(put, taken);
    }
}

/// What has to be said of tasks that were pushed.
#[derive(Clone, Copy)]
struct Pushed {
    /// The level-1 queue does not know of the group.
    inactive: bool,
    /// Some of them only have to be dropped.
    doomed: bool,
}

/// Where a task joins its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Front,
    Back,
}

/// Queues a ready task; one that only has to be dropped goes before all others.
pub(super) fn enqueue(queue: &mut Feedback<Runnable>, task: Runnable, end: End) {
    let (stream, cpu) = task.metadata().place();
    let note = |task: &Runnable, place| task.metadata().task.placed(place);
    // Whoever dooms it from now on waits for the queue's lock, and finds it there.
    if task.metadata().task.is_doomed() {
        queue.push_urgent(stream, task);
    } else if end == End::Front {
        queue.push_front_noted(stream, cpu, task, note);
    } else {
        queue.push_noted(stream, cpu, task, note);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.core.bury(self.slot);
        self.core.pool().bury(self.io);
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("name", &self.name)
            .field("live", &self.counters.live())
            .finish_non_exhaustive()
    }
}
