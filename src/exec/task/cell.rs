//! The shared part of a task: identity, account and state, and the output on its way to the handle.
//!
//! Mechanism; any thread. Foreign wakers and outputs are cloned, woken and dropped outside of the lock.
//!
//! Its size is part of what a spawn costs, and of what a poll does: see the test that bounds it.

use super::flags::Flags;
use super::{Id, Origin, Runnable};
use crate::event::span::{Shape, Span, SpanId};
use crate::exec::account::Account;
use crate::exec::group::Group;
use crate::exec::hooks::TaskMeta;
use crate::exec::join::{Cause, JoinError};
use crate::exec::worker::Worker;
use crate::mem;
use crate::sched::feedback::{Place, Stream};
use crate::unit::Nanos;
use parking_lot::Mutex;
use std::any::Any;
use std::mem::{needs_drop, replace};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

impl Task {
    /// Its future is gone, and this is its output. `T` is what the cell was made for.
    pub(super) fn complete<T: Send + 'static>(&self, output: Result<T, JoinError>) {
        match self.slot.typed().downcast_ref::<Outcome<T>>() {
            Some(slot) => slot.put(&self.flags, &self.account, output),
            None => debug_assert!(false, "the cell is of another type"),
        }
    }

    /// Its future will never be polled or dropped any more: the handle is told why.
    pub(in crate::exec) fn fail(&self, cause: Cause) {
        let error = JoinError::cancelled(self.id, Some(cause));
        self.slot.fail(&self.flags, &self.account, error);
    }
}

/// What a queue needs to know of a task.
pub(in crate::exec) struct Meta {
    /// The stream that it belongs to, as a number that compares in one step.
    pub(in crate::exec) stream: u64,
    pub(in crate::exec) cell: Arc<Task>,
}

impl Meta {
    /// Where it belongs in its group's queue.
    pub(in crate::exec) fn place(&self) -> (Stream, Nanos) {
        let account = &self.cell.account;
        match account.stream() {
            (stream @ Stream::Query(_), _) => (stream, account.age()),
            (Stream::Loose, _) => (Stream::Loose, Nanos(self.cell.cpu.load(Relaxed))),
        }
    }
}

impl Meta {
    /// Whether its query belongs to the group with this number. A task without a query is always its group's.
    #[inline]
    pub(in crate::exec) fn is_served_by(&self, uid: u64) -> bool {
        !self.cell.flags.is_in_query() || self.cell.account.is_served_by(uid)
    }
}

/// A task without its type: what aborting, queueing and charging need.
pub(in crate::exec) type Task = Cell<dyn Slot>;

/// The shared part of a task: its identity and account, and the place of its output. In this order: what every poll
/// looks at lies together.
#[repr(C)]
pub(in crate::exec) struct Cell<S: ?Sized> {
    pub(super) flags: Flags,
    /// When it became ready; 0 from the beginning of its poll until that is so again.
    queued_at: AtomicU64,
    pub(super) account: Arc<Account>,
    /// Its own CPU time; only kept for tasks without a query.
    cpu: AtomicU64,
    pub(super) id: Id,
    /// The line that spawned it.
    spawned_at: &'static Location<'static>,
    /// Where it waits in its group's queue, if it does; the number of a closure in the blocking pool.
    place: AtomicU64,
    known_as: Option<Box<KnownAs>>,
    slot: S,
}

/// What few tasks have.
struct KnownAs {
    name: Option<Box<str>>,
    /// The span's, for events about its wakers.
    span: SpanId,
}

/// The untyped end of a cell.
pub(in crate::exec) trait Slot: Send + Sync {
    /// The task's future will never be polled or dropped any more: its handle is told why.
    fn fail(&self, flags: &Flags, account: &Account, error: JoinError);

    /// The typed end.
    fn typed(&self) -> &dyn Any;
}

impl<S: ?Sized> Cell<S> {
    pub(in crate::exec) fn id(&self) -> Id {
        self.id
    }

    pub(in crate::exec) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(in crate::exec) fn group(&self) -> &Arc<Group> {
        self.account.group()
    }

    pub(in crate::exec) fn is_finished(&self) -> bool {
        self.flags.is_done()
    }

    pub(in crate::exec) fn is_aborted(&self) -> bool {
        self.flags.is_aborted()
    }

    /// It was woken, and becomes ready.
    #[inline]
    pub(super) fn woken(&self) {
        if let Some(known_as) = &self.known_as {
            known_as.span.woken();
        }
    }

    /// What hooks are told of the task.
    pub(super) fn meta(&self) -> TaskMeta<'_> {
        TaskMeta::new(self.id, self.spawned_at, self.name(), &self.account)
    }

    /// Ends the task: its future is dropped before anything else of its group is polled, wherever it waits.
    pub(in crate::exec) fn abort(&self) {
        let _ours = mem::enter_process();
        self.flags.abort(&self.account.waiting);
        if self.flags.is_closure() {
            let number = self.place.load(Relaxed);
            self.account.core().pool().end(&self.account, number);
        } else if !self.is_finished() {
            let place = Place::unpack(self.place.load(Relaxed));
            let stream = self.account.stream().0;
            self.group().hurry(stream, place, |task| self.is(task));
        }
    }

    fn is(&self, task: &Runnable) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&task.metadata().cell), self)
    }

    /// It waits in its group's queue, whose lock the caller holds.
    pub(in crate::exec) fn placed(&self, place: Place) {
        self.place.store(place.pack(), Relaxed);
    }

    /// Whether it has to be dropped, by an abort or a kill.
    pub(in crate::exec) fn is_doomed(&self) -> bool {
        self.flags.is_aborted() || self.is_killed()
    }

    #[inline]
    pub(in crate::exec) fn queued(&self, now: Nanos) {
        self.queued_at.store(now.0, Relaxed);
    }

    /// It is polled now. Since when it was ready.
    #[inline]
    pub(super) fn no_longer_queued(&self) -> Nanos {
        let since = self.queued_at.load(Relaxed);
        self.queued_at.store(0, Relaxed);
        Nanos(since)
    }

    /// Since when it is ready to be polled, if it is.
    pub(in crate::exec) fn ready_since(&self) -> Option<Nanos> {
        let since = self.queued_at.load(Relaxed);
        (since > 0).then_some(Nanos(since))
    }

    /// The line that spawned it.
    #[inline]
    pub(in crate::exec) fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// The name that it was given, if any.
    pub(in crate::exec) fn name(&self) -> Option<&str> {
        self.known_as.as_ref()?.name.as_deref()
    }

    /// Its own CPU time, which is kept for tasks without a query.
    pub(in crate::exec) fn own_cpu(&self) -> Option<Nanos> {
        (!self.flags.is_in_query()).then(|| Nanos(self.cpu.load(Relaxed)))
    }

    pub(super) fn must_end(&self, worker: &Worker) -> bool {
        self.is_doomed() || worker.is_cancelling()
    }

    /// Whether its query was killed.
    #[inline]
    pub(super) fn is_killed(&self) -> bool {
        self.flags.is_in_query() && self.account.is_killed()
    }

    /// Whether the task should not go on, as far as can be seen from inside of it.
    pub(super) fn must_stop(&self) -> bool {
        self.is_doomed()
            || mem::is_doomed_here()
            || (self.flags.is_in_query() && self.account.memory().is_doomed())
    }

    /// Charges a poll to the account; the CPU time that counts for the task's level.
    /// `held`: how long it kept its worker.
    pub(super) fn charge(&self, took: Nanos, held: Nanos) -> Nanos {
        if self.flags.is_in_query() {
            return self.account.charge(took, held, self.spawned_at);
        }
        // Only the worker that polls the task writes this.
        let cpu = self.cpu.load(Relaxed).saturating_add(took.0);
        self.cpu.store(cpu, Relaxed);
        Nanos(cpu)
    }

    /// Why a task that is being cancelled is: the executor's reason, or none for a plain abort.
    pub(in crate::exec) fn cause(&self) -> Option<Cause> {
        if self.flags.is_aborted() {
            return None;
        }
        let killed = self.account.killed().cloned();
        killed.or_else(|| self.account.core().cancelled().cloned())
    }
}

/// The typed end of a cell: the output on its way from the worker to the handle.
pub(in crate::exec) struct Outcome<T>(Mutex<Join<T>>);

impl<T: Send + 'static> Slot for Outcome<T> {
    fn fail(&self, flags: &Flags, account: &Account, error: JoinError) {
        self.put(flags, account, Err(error));
    }

    fn typed(&self) -> &dyn Any {
        self
    }
}

/// What lies in the place of the output.
enum Join<T> {
    Nothing,
    /// The handle waits.
    Waker(Waker),
    Output(Result<T, JoinError>),
    /// The handle has had it.
    Taken,
}

impl<T> Join<T> {
    fn into_output(self) -> Option<Result<T, JoinError>> {
        match self {
            Join::Output(output) => Some(output),
            Join::Nothing | Join::Waker(_) | Join::Taken => None,
        }
    }
}

impl<T> Outcome<T> {
    fn put(&self, flags: &Flags, account: &Account, output: Result<T, JoinError>) {
        let (unwanted, before) = if flags.is_detached() {
            // Nobody looks into the place any more: its lock is spared.
            flags.done();
            (Some(output), Join::Nothing)
        } else {
            let mut join = self.0.lock();
            let before = replace(&mut *join, Join::Output(output));
            let unwanted = flags
                .done()
                .then(|| replace(&mut *join, Join::Taken).into_output());
            (unwanted.flatten(), before)
        };
        if let Some(output) = unwanted
            && (needs_drop::<T>() || output.is_err())
        {
            let _owner = mem::enter(account.memory());
            contain(|| drop(output));
        }
        if let Join::Waker(waker) = before {
            contain(|| waker.wake());
        }
    }
}

/// What a cell is of.
#[derive(Clone, Copy)]
pub(in crate::exec) enum Kind {
    /// A future.
    Task,
    /// A closure of the blocking pool.
    Closure,
}

impl Kind {
    /// By what tokio's tools know it.
    fn name(self) -> &'static str {
        match self {
            Kind::Task => "task",
            Kind::Closure => "blocking",
        }
    }
}

impl<T> Cell<Outcome<T>> {
    /// The cell, and the task's span, which says that it is of this kind and ends with its future.
    pub(in crate::exec) fn new(
        account: Arc<Account>,
        origin: Origin,
        kind: Kind,
    ) -> (Arc<Cell<Outcome<T>>>, Span) {
        let (id, query) = (Id::next(), account.query());
        let span = if Span::is_wanted() {
            // A subscriber's memory is nobody's.
            let _ours = mem::enter_process();
            Span::begin(Shape {
                kind: kind.name(),
                id: id.number(),
                name: origin.name.as_deref(),
                group: account.group().name(),
                query,
                place: origin.place,
            })
        } else {
            Span::none()
        };
        let Origin { place, name } = origin;
        let known_as = (name.is_some() || span.is_some()).then(|| {
            let span = span.id();
            Box::new(KnownAs { name, span })
        });
        let cell = Cell {
            flags: Flags::new(query.is_some(), matches!(kind, Kind::Closure)),
            queued_at: AtomicU64::new(0),
            account,
            cpu: AtomicU64::new(0),
            id,
            spawned_at: place,
            place: AtomicU64::new(0),
            known_as,
            slot: Outcome(Mutex::new(Join::Nothing)),
        };
        (Arc::new(cell), span)
    }

    pub(in crate::exec) fn complete(&self, output: Result<T, JoinError>) {
        self.slot.put(&self.flags, &self.account, output);
    }

    pub(in crate::exec) fn poll_join(&self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        let mut fresh: Option<Waker> = None;
        loop {
            let mut join = self.slot.0.lock();
            match &mut *join {
                Join::Output(_) => {
                    if let Some(output) = replace(&mut *join, Join::Taken).into_output() {
                        return Poll::Ready(output);
                    }
                }
                Join::Taken => {
                    drop(join);
                    panic!("JoinHandle polled after completion");
                }
                Join::Waker(waker) if waker.will_wake(cx.waker()) => return Poll::Pending,
                Join::Waker(_) | Join::Nothing => {}
            }
            if let Some(waker) = fresh.take() {
                let old = replace(&mut *join, Join::Waker(waker));
                drop(join);
                self.flags.awaited();
                drop(old);
                return Poll::Pending;
            }
            // Cloning a waker is foreign code: not under the lock.
            drop(join);
            fresh = Some(cx.waker().clone());
        }
    }

    /// Has `waker` woken when the output is there, which may be now.
    pub(in crate::exec) fn watch(&self, waker: Waker) {
        self.flags.awaited();
        let old = {
            let mut join = self.slot.0.lock();
            match &*join {
                Join::Nothing | Join::Waker(_) => replace(&mut *join, Join::Waker(waker)),
                Join::Output(_) | Join::Taken => Join::Waker(waker),
            }
        };
        if let Join::Waker(waker) = old {
            // One that was there before is woken in vain, which harms nobody.
            waker.wake();
        }
    }

    /// Nobody will ask for the output. What is there already is dropped here, its panics swallowed.
    pub(in crate::exec) fn detach(&self) {
        if !self.flags.detach() {
            return;
        }
        let left = replace(&mut *self.slot.0.lock(), Join::Taken);
        contain(|| drop(left));
    }
}

/// Runs foreign code whose panic nobody can be told of.
pub(crate) fn contain(f: impl FnOnce()) {
    // Dropping the payload of the panic may panic as well; that one is leaked.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
    }
}
