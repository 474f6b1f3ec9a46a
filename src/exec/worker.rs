//! A worker: picks a group, runs its tasks for a slice, charges it, picks again.
//!
//! Mechanism; each worker is driven by one thread at a time (its host moves it between threads only while it
//! is not running). Invariants:
//! 1. The ring and the LIFO slot hold tasks of one stream of one group: the one being served. What other
//!    threads make ready goes to the group's queue.
//! 2. One clock read per poll: the end of a poll is the beginning of the next. What lies between two polls
//!    (queues, wake-ups) is thereby charged to the group that caused it.
//! 3. A group whose tasks this worker holds re-enters the level-1 queue *before* its slice is stopped, so
//!    that it is never taken for idle in between.
//! 4. Whatever is given back or left behind is followed by a notify if anybody sleeps.

use super::context;
use super::core::{Core, Sched, Seat};
use super::group::Group;
use super::tally::Tally;
use super::task::Runnable;
use crate::sched::fair::{Slice, Slot};
use crate::sched::feedback::{LEVELS, Turn, level_end, level_of};
use crate::sched::{MAX_BATCH, batch};
use crate::unit::Nanos;
use crossbeam_deque::{Steal, Worker as Ring};
use crossbeam_utils::CachePadded;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use tokio::task::coop::{self, RestoreOnPending};

/// Why a worker returned to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Nothing is ready: sleep.
    Idle,
    /// Work is left, but I/O and timers deserve a look.
    Yield,
    /// The executor is over.
    Stop,
}

/// Wakes that run at once, before older tasks, in a row at most.
const LIFO_MAX: u32 = 3;
/// Polls in a slice at most: ends it even if a manual clock stands still.
const POLLS_MAX: u64 = 16_384;
/// No stream: nothing may be pushed to the ring.
const NOBODY: u64 = u64::MAX;

/// One worker's private state.
pub struct Worker {
    core: Arc<Core>,
    index: usize,
    seat: Arc<CachePadded<Seat>>,
    ring: Ring<Runnable>,
    /// How many tasks at the front of the ring have not been polled since they were fetched.
    fresh: Cell<usize>,
    lifo_streak: Cell<u32>,
    /// The group served now, or the one served last, kept to spare its reference count.
    group: RefCell<Option<Arc<Group>>>,
    serving: Cell<bool>,
    turn: Cell<Option<Turn>>,
    turn_began: Cell<Nanos>,
    stream: Cell<u64>,
    /// CPU time at which a task of the turn outgrows its level.
    level_end: Cell<u64>,
    /// The turn must end: its level is used up.
    outgrown: Cell<bool>,
    solo: Cell<bool>,
    /// The group ran dry in this slice.
    dry: Cell<bool>,
    /// The host has had its look since a group last ran dry while behind.
    looked: Cell<bool>,
    searching: Cell<bool>,
    /// The last poll used up tokio's cooperative budget.
    spent: Cell<bool>,
    cancelling: Cell<bool>,
    now: Cell<Nanos>,
    slice_began: Cell<Nanos>,
    /// Polls of the slice that is being ended.
    polls: Cell<u64>,
    tally: Tally,
    batch: RefCell<Vec<Runnable>>,
    /// References dropped outside of the scheduler's lock.
    discard: RefCell<Vec<Arc<Group>>>,
}

/// tokio's cooperative budget, which its driver task has once and our tasks need again and again.
///
/// The guard of `poll_proceed` restores on drop what the budget was when it was made. Held across polls and
/// renewed when the budget is spent, it lets every task use up a whole one, at a price of nothing per poll.
struct Budget(Option<RestoreOnPending>);

impl Budget {
    fn new() -> Budget {
        let mut nobody = Context::from_waker(Waker::noop());
        match coop::poll_proceed(&mut nobody) {
            Poll::Ready(guard) => Budget(Some(guard)),
            // Spent before we came; the host gives the driver a new one when it returns.
            Poll::Pending => Budget(None),
        }
    }

    fn renew(&mut self) {
        self.0 = None;
        *self = Budget::new();
    }
}

enum Next {
    /// A slice to run, and the group that was served before.
    Slice(Slice, Option<Arc<Group>>),
    /// The group that ran dry is behind: let deferred wake-ups come through first.
    Look,
    Nothing,
}

impl Worker {
    pub(super) fn new(core: Arc<Core>, index: usize, ring: Ring<Runnable>) -> Worker {
        Worker {
            seat: core.seat(index).clone(),
            core,
            index,
            ring,
            fresh: Cell::new(0),
            lifo_streak: Cell::new(0),
            group: RefCell::new(None),
            serving: Cell::new(false),
            turn: Cell::new(None),
            turn_began: Cell::new(Nanos::ZERO),
            stream: Cell::new(NOBODY),
            level_end: Cell::new(u64::MAX),
            outgrown: Cell::new(false),
            solo: Cell::new(false),
            dry: Cell::new(false),
            looked: Cell::new(false),
            searching: Cell::new(false),
            spent: Cell::new(false),
            cancelling: Cell::new(false),
            now: Cell::new(Nanos::ZERO),
            slice_began: Cell::new(Nanos::ZERO),
            polls: Cell::new(0),
            tally: Tally::default(),
            batch: RefCell::default(),
            discard: RefCell::default(),
        }
    }

    /// The executor that it works for.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Its number, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Runs slices until nothing is ready or the quantum is over. Never blocks but in the tasks' own polls.
    pub fn run(&self) -> Exit {
        context::in_worker(self, || self.run_slices())
    }

    fn run_slices(&self) -> Exit {
        self.now.set(self.core.clock().now());
        let quantum_ends = self.now.get().plus(self.core.setup().quantum);
        loop {
            match self.next_slice() {
                Next::Slice(slice, _) => self.run_slice(slice),
                Next::Look => return Exit::Yield,
                Next::Nothing if self.core.is_over() => return Exit::Stop,
                Next::Nothing => return Exit::Idle,
            }
            if self.now.get() >= quantum_ends {
                self.end_slice();
                return Exit::Yield;
            }
        }
    }

    fn run_slice(&self, slice: Slice) {
        let seat = &**self.seat;
        let mut polls = 0;
        let mut budget = Budget::new();
        loop {
            let Some(task) = self.next_task() else {
                self.dry.set(true);
                break;
            };
            seat.poll_start.store(self.now.get().0.max(1), Relaxed);
            task.run();
            polls += 1;
            if self.spent.take() {
                budget.renew();
            }
            let over = self.now.get() >= slice.end || seat.preempt.load(Relaxed);
            if over || self.outgrown.get() || polls >= POLLS_MAX {
                break;
            }
        }
        drop(budget);
        seat.poll_start.store(0, Relaxed);
        let path = if slice.solo {
            &seat.polls_fast
        } else {
            &seat.polls_fair
        };
        path.store(path.load(Relaxed) + polls, Relaxed);
    }

    /// The next task of the served group: the one woken last, then the ring, then the group's queue, then
    /// what other workers hold.
    fn next_task(&self) -> Option<Runnable> {
        let seat = &**self.seat;
        if seat.has_lifo()
            && self.lifo_streak.get() < LIFO_MAX
            && let Some(task) = seat.take_lifo()
        {
            self.lifo_streak.set(self.lifo_streak.get() + 1);
            return Some(task);
        }
        self.lifo_streak.set(0);
        loop {
            match self.ring.pop() {
                Some(task) if task.metadata().stream == self.stream.get() => {
                    self.fresh.set(self.fresh.get().saturating_sub(1));
                    return Some(task);
                }
                // Taken from a worker that was just turning to another stream.
                Some(stray) => self.return_stray(stray),
                None => {
                    if let Some(task) = seat.take_lifo() {
                        return Some(task);
                    }
                    if !self.fetch() && !self.steal() {
                        return None;
                    }
                }
            }
        }
    }

    #[cold]
    fn return_stray(&self, task: Runnable) {
        let group = task.metadata().cell.group().clone();
        group.push(task);
    }

    /// Fills the ring from the group's queue: the running turn's tasks if it has any left, else those of the
    /// turn that is due. False if the queue is empty.
    fn fetch(&self) -> bool {
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return false;
        };
        let mut queue = group.queue.lock();
        group.absorb(&mut queue, &mut self.batch.borrow_mut());
        let now = self.now.get();
        let over = |turn: &Turn| self.outgrown.get() || queue.waiting(*turn) == 0;
        if let Some(done) = self.turn.get().filter(over) {
            queue.charge(done, now.since(self.turn_began.get()));
            self.set_turn(None, now);
        }
        if self.turn.get().is_none() {
            self.set_turn(queue.begin(), now);
        }
        let Some(turn) = self.turn.get() else {
            return false;
        };
        let most = batch(
            self.core.config(),
            group.average_poll(),
            queue.waiting(turn),
            self.core.workers(),
        );
        let mut taken = 0;
        while taken < most.min(MAX_BATCH)
            && let Some(task) = queue.take(turn)
        {
            if taken == 0 {
                self.stream.set(task.metadata().stream);
            }
            self.ring.push(task);
            taken += 1;
        }
        group.requeued(0, taken);
        self.fresh.set(self.fresh.get() + taken);
        taken > 0
    }

    fn set_turn(&self, turn: Option<Turn>, now: Nanos) {
        self.turn.set(turn);
        self.turn_began.set(now);
        self.outgrown.set(false);
        self.level_end.set(match turn {
            Some(turn) if turn.level + 1 < LEVELS => {
                level_end(turn.level, self.core.config().level_base)
            }
            _ => u64::MAX,
        });
        if turn.is_none() {
            self.stream.set(NOBODY);
        }
    }

    /// Takes half of what another worker holds of the served group.
    #[cold]
    fn steal(&self) -> bool {
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return false;
        };
        let workers = self.core.workers();
        for step in 1..workers {
            let seat = self.core.seat((self.index + step) % workers);
            if seat.serving.load(Relaxed) != group.uid + 1 {
                continue;
            }
            let task = loop {
                match seat
                    .ring
                    .steal_batch_with_limit_and_pop(&self.ring, MAX_BATCH)
                {
                    Steal::Success(task) => break Some(task),
                    Steal::Retry => {}
                    Steal::Empty => break None,
                }
            };
            let task = task.or_else(|| {
                let now = self.core.clock().now();
                seat.lifo_is_stuck(now).then(|| seat.take_lifo()).flatten()
            });
            if let Some(task) = task {
                if task.metadata().cell.group().uid != group.uid {
                    self.return_stray(task);
                    return !self.ring.is_empty();
                }
                self.adopt(group, &task);
                self.ring.push(task);
                return true;
            }
        }
        false
    }

    /// Makes the stream of a stolen task the one being served.
    fn adopt(&self, group: &Group, task: &Runnable) {
        let (stream, cpu) = task.metadata().place();
        let turn = Turn {
            stream,
            level: level_of(cpu, self.core.config().level_base),
        };
        let now = self.now.get();
        let mut queue = group.queue.lock();
        if let Some(done) = self.turn.get() {
            queue.charge(done, now.since(self.turn_began.get()));
        }
        queue.resume(turn);
        drop(queue);
        self.set_turn(Some(turn), now);
        self.stream.set(task.metadata().stream);
    }

    fn holds_tasks(&self) -> bool {
        !self.ring.is_empty() || self.seat.has_lifo()
    }

    /// Ends the running slice, if any, and begins the next one.
    fn next_slice(&self) -> Next {
        let now = self.now.get();
        self.settle(now);
        let mut discard = self.discard.take();
        let mut sched = self.core.sched.lock();
        self.stop(&mut sched, now);
        self.core.sample(&mut sched, now, &mut discard);
        let next = if self.must_look(&sched) {
            Next::Look
        } else {
            self.pick(&mut sched, now, &mut discard)
        };
        self.core.publish(&sched);
        drop(sched);
        discard.clear();
        self.discard.replace(discard);
        if let Next::Slice(slice, last) = &next {
            self.begin(*slice, last.as_deref(), now);
        }
        self.wake_others();
        next
    }

    /// Ends the running slice without beginning another: the host wants its turn.
    fn end_slice(&self) {
        let now = self.now.get();
        self.settle(now);
        let mut sched = self.core.sched.lock();
        self.stop(&mut sched, now);
        self.core.publish(&sched);
        drop(sched);
        self.wake_others();
    }

    /// The group's side of the end of a slice: level 2 is charged, counters are poured out, and the tasks
    /// go back, unless the group is alone and nothing of it waits.
    fn settle(&self, now: Nanos) {
        if !self.serving.get() {
            return;
        }
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return;
        };
        let given = now.since(self.slice_began.get());
        self.polls.set(self.tally.polls.get());
        group.learn(self.polls.get(), given);
        self.tally.pour(given, &group.counters);
        let seat = &**self.seat;
        seat.busy.store(seat.busy.load(Relaxed) + given.0, Relaxed);
        let keep = self.solo.get()
            && !self.outgrown.get()
            && !seat.preempt.load(Relaxed)
            && group.ready() == 0
            && self.holds_tasks();
        if keep && let Some(turn) = self.turn.get() {
            let mut queue = group.queue.lock();
            queue.charge(turn, now.since(self.turn_began.get()));
            queue.resume(turn);
            self.turn_began.set(now);
        } else {
            self.give_back(group, now);
        }
    }

    /// Everything held goes back to the group's queue: what was not polled yet to the front, in its order,
    /// what was to the back.
    fn give_back(&self, group: &Group, now: Nanos) {
        let mut batch = self.batch.borrow_mut();
        let mut queue = group.queue.lock();
        if let Some(turn) = self.turn.get() {
            queue.charge(turn, now.since(self.turn_began.get()));
        }
        self.set_turn(None, now);
        group.absorb(&mut queue, &mut batch);
        let mut put = 0;
        for _ in 0..self.fresh.take() {
            batch.extend(self.ring.pop());
        }
        while let Some(task) = self.ring.pop() {
            let (stream, cpu) = task.metadata().place();
            queue.push(stream, cpu, task);
            put += 1;
        }
        // The one woken last was to run next: before the others.
        while let Some(task) = batch.pop().or_else(|| self.seat.take_lifo()) {
            let (stream, cpu) = task.metadata().place();
            queue.push_front(stream, cpu, task);
            put += 1;
        }
        group.requeued(put, 0);
    }

    /// The scheduler's side of the end of a slice.
    fn stop(&self, sched: &mut Sched, now: Nanos) {
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return;
        };
        // Held tasks outlast the slice when the host has its turn; another worker may have found nothing
        // that it could take and have dequeued the group meanwhile.
        let ready = self.holds_tasks() || (self.serving.get() && group.ready() > 0);
        if ready && !sched.fair.is_queued(group.slot) {
            group.set_active();
            sched.fair.wake(group.slot, now, false);
        }
        if self.serving.replace(false)
            && let Some(charge) = sched.fair.stop(self.index, now, self.polls.get())
        {
            sched.ledger.give(charge.group, charge.given);
        }
    }

    /// tokio's own `yield_now` and a spent budget show up only after the host has had a look. A group that
    /// ran dry while it is behind gets that look before another one is served.
    fn must_look(&self, sched: &Sched) -> bool {
        let dry = self.dry.take() && !self.looked.get();
        let behind = dry
            && self
                .group
                .borrow()
                .as_ref()
                .is_some_and(|group| sched.fair.is_behind_next(group.slot));
        self.looked.set(behind);
        behind
    }

    fn pick(&self, sched: &mut Sched, now: Nanos, discard: &mut Vec<Arc<Group>>) -> Next {
        loop {
            let Some(slot) = sched.fair.first() else {
                return Next::Nothing;
            };
            let Some(group) = self.group_at(sched, slot) else {
                sched.fair.dequeue(slot);
                continue;
            };
            let held = self.holds_tasks()
                && self
                    .group
                    .borrow()
                    .as_ref()
                    .is_some_and(|g| g.uid == group.uid);
            if held || group.ready() > 0 || self.core.stealable(group.uid, self.index, now) {
                let slice = sched.fair.start(self.index, slot, now);
                return Next::Slice(slice, self.group.replace(Some(group)));
            }
            if group.deactivate_if_empty() {
                sched.fair.dequeue(slot);
            }
            discard.push(group);
        }
    }

    /// The group in a slot. The one served last is at hand.
    fn group_at(&self, sched: &Sched, slot: Slot) -> Option<Arc<Group>> {
        match &*self.group.borrow() {
            Some(group) if group.slot == slot => Some(group.clone()),
            _ => Core::group_at(sched, slot),
        }
    }

    fn begin(&self, slice: Slice, last: Option<&Group>, now: Nanos) {
        if let Some(last) = last.filter(|last| last.slot != slice.group && self.holds_tasks()) {
            // Kept while it was alone; another group came first after all.
            self.give_back(last, now);
            last.expose();
        }
        let seat = &**self.seat;
        seat.preempt.store(false, Relaxed);
        if let Some(group) = &*self.group.borrow() {
            seat.serving.store(group.uid + 1, Relaxed);
        }
        self.serving.set(true);
        self.solo.set(slice.solo);
        self.slice_began.set(now);
        self.cancelling.set(self.core.cancelled().is_some());
        if self.turn.get().is_none() {
            self.fetch();
        }
    }

    /// A searcher that found work stops searching; if anything is left for others, one more is woken.
    fn wake_others(&self) {
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
    }

    /// Registers how to wake the worker.
    pub fn register(&self, waker: &std::task::Waker) {
        self.seat.waker.register(waker);
    }

    /// The host gives the worker up without [`Exit::Stop`]: the runtime under it is being dropped. Its tasks
    /// go back for the others. The last worker to be given up ends all tasks, here and now, for `cause`.
    pub fn abandon(&self, cause: &super::join::Cause) {
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

    fn give_back_all(&self) {
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

/// What tasks and their harness ask of the worker that runs them.
impl Worker {
    #[inline]
    pub(super) fn now(&self) -> Nanos {
        self.now.get()
    }

    #[inline]
    pub(super) fn is_cancelling(&self) -> bool {
        self.cancelling.get()
    }

    /// A poll that began at `started` is over: reads the clock. How long it took.
    #[inline]
    pub(super) fn polled(&self, started: Nanos, delay: Nanos) -> Nanos {
        let now = self.core.clock().now();
        self.now.set(now);
        let took = now.since(started);
        self.tally.poll(delay, took, self.core.setup().long_poll);
        took
    }

    /// That poll used up the cooperative budget.
    pub(super) fn spent(&self) {
        self.spent.set(true);
    }

    /// That poll was the drop of a cancelled future.
    pub(super) fn dropped(&self, took: Nanos) {
        self.tally.dropped.set(self.tally.dropped.get() + took.0);
    }

    /// The task's query has used `cpu` so far.
    #[inline]
    pub(super) fn aged(&self, cpu: Nanos) {
        if cpu.0 >= self.level_end.get() {
            self.outgrown.set(true);
        }
    }

    pub(super) fn finished(&self) {
        self.tally.finished.set(self.tally.finished.get() + 1);
    }

    /// Whether a task of this stream may join the ring.
    #[inline]
    pub(super) fn serves(&self, stream: u64) -> bool {
        self.stream.get() == stream
    }

    /// A task of the served stream is ready. `yielded`: it woke itself while it ran, so it goes last;
    /// otherwise it is probably warm with what the running task just did, so it goes first.
    #[inline]
    pub(super) fn push(&self, task: Runnable, yielded: bool) {
        let seat = &**self.seat;
        task.metadata().cell.queued(self.now.get());
        if yielded {
            self.ring.push(task);
        } else if let Some(older) = seat.swap_lifo(task) {
            self.ring.push(older);
        }
        if self.core.sleepers.any() && self.ring.len() + usize::from(seat.has_lifo()) > 1 {
            self.offer();
        }
    }

    /// Others sleep while more than one task waits here.
    #[cold]
    fn offer(&self) {
        if self.core.sleepers.wanted()
            && let Some(group) = self.group.borrow().as_deref()
        {
            group.expose();
        }
    }
}
