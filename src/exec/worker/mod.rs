//! A worker: picks a group, runs its tasks for a slice, charges it, picks again.
//!
//! Mechanism; each worker is driven by one thread at a time (its host moves it between threads only while it
//! is not running). Invariants:
//! 1. The ring and the LIFO slot hold tasks of one stream of one group: the one being served. What is made
//!    ready elsewhere goes to the group's queue, or to the inbox if it happens on the host's own thread.
//! 2. One clock read per poll: the end of a poll is the beginning of the next. What lies between two polls
//!    (queues, wake-ups) is thereby charged to the group that caused it. What the operating system took
//!    from the thread meanwhile is not: see `stolen.rs`.
//! 3. A group whose tasks this worker holds re-enters the level-1 queue *before* its slice is stopped, so
//!    that it is never taken for idle in between. One task that came by mail while nobody is queued is held without
//!    that, until its slice ends.
//! 4. Whatever is given back or left behind is followed by a notify if anybody sleeps.

mod aside;
mod budget;
mod hands;
mod quantum;
mod rest;
mod slices;
mod stand_in;
mod stolen;
mod tasks;
#[cfg(test)]
mod tests;

use crate::exec::context;
use crate::exec::core::{Core, NOBODY, Seat};
use crate::exec::group::Group;
use crate::exec::spares::Role;
use crate::exec::tally::Tally;
use crate::exec::task::{Runnable, Task};
use crate::mem;
use crate::sched::fair::Slice;
use crate::sched::feedback::Turn;
use crate::unit::Nanos;
pub use aside::block_in_place;

use aside::Away;
use budget::Budget;
use crossbeam_deque::Worker as Ring;
use crossbeam_utils::CachePadded;
use quantum::Quantum;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stolen::Stolen;

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
/// Polls in a slice at most, and in a quantum about: ends them even if a manual clock stands still.
const POLLS_MAX: u64 = 16_384;

/// One worker's private state.
pub struct Worker {
    core: Arc<Core>,
    index: usize,
    seat: Arc<CachePadded<Seat>>,
    /// What it may serve, if it stands in for others.
    role: Cell<Option<Role>>,
    /// How much of the running poll it was aside.
    away: Cell<Away>,
    ring: Ring<Runnable>,
    /// How many tasks at the front of the ring have not been polled since they were fetched.
    fresh: Cell<usize>,
    lifo_streak: Cell<u32>,
    /// So many tasks in the ring are offered to workers that sleep.
    offer_at: Cell<usize>,
    /// The group served now, or the one served last, kept to spare its reference count.
    group: RefCell<Option<Arc<Group>>>,
    /// The number of the one that a slice was begun for last, at hand for a look on every poll.
    uid: Cell<u64>,
    serving: Cell<bool>,
    turn: Cell<Option<Turn>>,
    turn_began: Cell<Nanos>,
    stream: Cell<u64>,
    /// CPU time at which a task of the turn outgrows its level.
    level_end: Cell<u64>,
    /// The turn must end: its level is used up.
    outgrown: Cell<bool>,
    solo: Cell<bool>,
    /// The group was not in the level-1 queue when its slice began.
    lone: Cell<bool>,
    /// Tasks went back to the group's queue when the last slice ended.
    left: Cell<bool>,
    /// A slice ended by time, with tasks left.
    outlasted: Cell<bool>,
    /// The group ran dry in this slice.
    dry: Cell<bool>,
    /// The host has had its look since a group last ran dry while behind.
    looked: Cell<bool>,
    /// All work had run dry when the host got its turn.
    ran_dry: Cell<bool>,
    /// Tasks that came by mail, when it was read last.
    mailed: Cell<usize>,
    /// Most of what ran before the host's last turns was back after it: kept back by tokio, as its own `yield_now` does.
    deferring: Cell<bool>,
    /// Whether tokio may keep wake-ups back until the host has had its turn.
    defers: Cell<bool>,
    searching: Cell<bool>,
    /// The last poll used up tokio's cooperative budget.
    spent: Cell<bool>,
    /// The task whose last poll that was.
    ended: Cell<Option<Arc<Task>>>,
    now: Cell<Nanos>,
    quantum: Quantum,
    slice_began: Cell<Nanos>,
    /// From here on a poll of the slice is long, or the system may have taken time from it.
    suspect: Cell<Nanos>,
    stolen: Stolen,
    /// What was stolen of the running slice.
    lost: Cell<Nanos>,
    /// Polls of the slice that is being ended.
    polls: Cell<u64>,
    tally: Tally,
    batch: RefCell<Vec<Runnable>>,
    /// References dropped outside of the scheduler's lock.
    discard: RefCell<Vec<Arc<Group>>>,
}

enum Next {
    /// A slice to run, and the group that was served before.
    Slice(Slice, Option<Arc<Group>>),
    /// The group that ran dry is behind, or all is dry and tokio keeps wake-ups back: let these come through first.
    Look,
    Nothing,
}

impl Worker {
    pub(super) fn new(
        core: Arc<Core>,
        index: usize,
        seat: Arc<CachePadded<Seat>>,
        ring: Ring<Runnable>,
    ) -> Worker {
        Worker {
            seat,
            role: Cell::new(None),
            away: Cell::new(Away::default()),
            stolen: Stolen::new(core.clock().is_live()),
            quantum: Quantum::new(core.setup().quantum),
            core,
            index,
            ring,
            fresh: Cell::new(0),
            lifo_streak: Cell::new(0),
            offer_at: Cell::new(2),
            group: RefCell::new(None),
            uid: Cell::new(NOBODY),
            serving: Cell::new(false),
            turn: Cell::new(None),
            turn_began: Cell::new(Nanos::ZERO),
            stream: Cell::new(NOBODY),
            level_end: Cell::new(u64::MAX),
            outgrown: Cell::new(false),
            solo: Cell::new(false),
            lone: Cell::new(false),
            left: Cell::new(false),
            outlasted: Cell::new(false),
            dry: Cell::new(false),
            looked: Cell::new(false),
            ran_dry: Cell::new(false),
            mailed: Cell::new(0),
            deferring: Cell::new(false),
            defers: Cell::new(true),
            searching: Cell::new(false),
            spent: Cell::new(false),
            ended: Cell::new(None),
            now: Cell::new(Nanos::ZERO),
            slice_began: Cell::new(Nanos::ZERO),
            suspect: Cell::new(Nanos::ZERO),
            lost: Cell::new(Nanos::ZERO),
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
        let _serving = mem::serve(self.core.setup().park);
        // Whoever calls may do so inside of a task, of another governor perhaps.
        let _ours = mem::enter_process();
        context::in_worker(self, || self.run_slices())
    }

    fn run_slices(&self) -> Exit {
        self.arrive();
        let now = self.core.clock().now();
        self.now.set(now);
        self.stolen.go_on(now);
        // A turn that was kept had nothing of the time since.
        self.turn_began.set(now);
        // A stand-in's host looks whether it is still needed.
        let of_use = !self.seat.inbox.is_empty() || self.role.get().is_some();
        self.quantum.begin(now, of_use);
        let mut polls = 0;
        loop {
            match self.next_slice() {
                Next::Slice(slice, _) => polls += self.run_slice(slice),
                Next::Look => return Exit::Yield,
                Next::Nothing if self.core.is_over() => return Exit::Stop,
                Next::Nothing => return Exit::Idle,
            }
            if self.quantum.is_over(self.now.get()) || polls >= POLLS_MAX {
                self.end_slice();
                self.quantum.leave(self.now.get());
                return Exit::Yield;
            }
        }
    }

    /// How many polls it was.
    fn run_slice(&self, slice: Slice) -> u64 {
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
            self.see_off();
            polls += 1;
            if self.spent.take() {
                budget.renew();
            }
            let time = self.now.get() >= slice.end;
            self.outlasted.set(time);
            let over = time || seat.preempt.load(Relaxed);
            if over || self.outgrown.get() || polls >= POLLS_MAX {
                break;
            }
        }
        drop(budget);
        self.ask_spillers();
        seat.poll_start.store(0, Relaxed);
        let path = if slice.solo {
            &seat.polls_fast
        } else {
            &seat.polls_fair
        };
        path.store(path.load(Relaxed) + polls, Relaxed);
        polls
    }
}

impl Worker {
    /// The end of a slice: memory grows in polls, and whoever is to give some back is asked on the account of its group.
    fn ask_spillers(&self) {
        let group = self.group.borrow();
        let Some(desk) = group
            .as_deref()
            .map(Group::desk)
            .filter(|desk| desk.has_spillers())
        else {
            return;
        };
        desk.look_at_pressure(self.now.get());
        self.now.set(self.core.clock().now());
        if self.holds_tasks() {
            // Those that were asked are tasks.
            self.dry.set(false);
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
