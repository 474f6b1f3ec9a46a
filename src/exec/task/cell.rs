//! The shared part of a task: identity, account and state, and the output on its way to the handle.
//!
//! Mechanism; any thread. Foreign wakers and outputs are cloned, woken and dropped outside of the lock.

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
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

impl Task {
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
        !self.cell.in_query || self.cell.account.is_served_by(uid)
    }
}

/// A task without its type: what aborting, queueing and charging need.
pub(in crate::exec) type Task = Cell<dyn Slot>;

/// The shared part of a task: its identity and account, and the place of its output.
pub(in crate::exec) struct Cell<S: ?Sized> {
    pub(super) id: Id,
    pub(super) account: Arc<Account>,
    pub(super) flags: Flags,
    pub(super) origin: Origin,
    /// When it became ready; 0 from the beginning of its poll until that is so again.
    queued_at: AtomicU64,
    /// Where it waits in its group's queue, if it does.
    place: AtomicU64,
    /// Whether it belongs to a query: known here to spare the way to the account on every poll.
    in_query: bool,
    /// Whether it is a closure of the blocking pool, and `place` its number there.
    closure: bool,
    /// Its own CPU time; only kept for tasks without a query.
    cpu: AtomicU64,
    /// The span's, for events about its wakers.
    seen_as: SpanId,
    slot: S,
}

/// The untyped end of a cell.
pub(in crate::exec) trait Slot: Send + Sync {
    /// The task's future will never be polled or dropped any more: its handle is told why.
    fn fail(&self, flags: &Flags, account: &Account, error: JoinError);
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

    /// Whether nobody will ask for its output.
    pub(in crate::exec) fn is_unwanted(&self) -> bool {
        self.flags.is_detached()
    }

    pub(in crate::exec) fn is_aborted(&self) -> bool {
        self.flags.is_aborted()
    }

    /// It was woken, and becomes ready.
    #[inline]
    pub(super) fn woken(&self) {
        self.seen_as.woken();
    }

    /// What hooks are told of the task.
    pub(super) fn meta(&self) -> TaskMeta<'_> {
        TaskMeta::new(self.id, &self.origin, &self.account)
    }

    /// Ends the task: its future is dropped before anything else of its group is polled, wherever it waits.
    pub(in crate::exec) fn abort(&self) {
        let _ours = mem::enter_process();
        self.flags.abort(&self.account.waiting);
        if self.closure {
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

    pub(in crate::exec) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Its own CPU time, which is kept for tasks without a query.
    pub(in crate::exec) fn own_cpu(&self) -> Option<Nanos> {
        (!self.in_query).then(|| Nanos(self.cpu.load(Relaxed)))
    }

    pub(super) fn must_end(&self, worker: &Worker) -> bool {
        self.is_doomed() || worker.is_cancelling()
    }

    /// Whether its query was killed.
    #[inline]
    pub(super) fn is_killed(&self) -> bool {
        self.in_query && self.account.is_killed()
    }

    /// Whether the task should not go on, as far as can be seen from inside of it.
    pub(super) fn must_stop(&self) -> bool {
        self.is_doomed()
            || mem::is_doomed_here()
            || (self.in_query && self.account.memory().is_doomed())
    }

    /// Charges a poll to the account; the CPU time that counts for the task's level.
    /// `held`: how long it kept its worker.
    pub(super) fn charge(&self, took: Nanos, held: Nanos) -> Nanos {
        if self.in_query {
            return self.account.charge(took, held, self.origin.place);
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

impl<T: Send> Slot for Outcome<T> {
    fn fail(&self, flags: &Flags, account: &Account, error: JoinError) {
        self.put(flags, account, Err(error));
    }
}

/// What is left to do once an output is in its place: drop it, if nobody wants it any more, and wake.
type Rest<T> = (Option<Result<T, JoinError>>, Option<Waker>);

impl<T> Outcome<T> {
    fn put(&self, flags: &Flags, account: &Account, output: Result<T, JoinError>) {
        let (unwanted, waker) = self.place(flags, output);
        if unwanted.is_some() {
            let _owner = mem::enter(account.memory());
            contain(|| drop(unwanted));
        }
        if let Some(waker) = waker {
            contain(|| waker.wake());
        }
    }

    fn place(&self, flags: &Flags, output: Result<T, JoinError>) -> Rest<T> {
        if flags.is_detached() {
            // Nobody looks into the place any more: its lock is spared.
            flags.done();
            return (Some(output), None);
        }
        let mut join = self.0.lock();
        join.output = Some(output);
        let unwanted = flags.done().then(|| join.output.take()).flatten();
        (unwanted, join.waker.take())
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

struct Join<T> {
    output: Option<Result<T, JoinError>>,
    waker: Option<Waker>,
    taken: bool,
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
        let cell = Cell {
            id,
            in_query: query.is_some(),
            closure: matches!(kind, Kind::Closure),
            seen_as: span.id(),
            account,
            origin,
            flags: Flags::new(),
            queued_at: AtomicU64::new(0),
            place: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            slot: Outcome(Mutex::new(Join {
                output: None,
                waker: None,
                taken: false,
            })),
        };
        (Arc::new(cell), span)
    }

    pub(in crate::exec) fn complete(&self, output: Result<T, JoinError>) {
        self.slot.put(&self.flags, &self.account, output);
    }

    /// As [`complete`](Cell::complete), but for the rest.
    pub(in crate::exec) fn place_output(&self, output: Result<T, JoinError>) -> Rest<T> {
        self.slot.place(&self.flags, output)
    }

    pub(in crate::exec) fn poll_join(&self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        let mut fresh: Option<Waker> = None;
        loop {
            let mut join = self.slot.0.lock();
            if let Some(output) = join.output.take() {
                join.taken = true;
                return Poll::Ready(output);
            }
            if join.taken {
                drop(join);
                panic!("JoinHandle polled after completion");
            }
            if join
                .waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
            {
                return Poll::Pending;
            }
            if let Some(waker) = fresh.take() {
                let old = join.waker.replace(waker);
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
            if join.output.is_some() {
                Some(waker)
            } else {
                join.waker.replace(waker)
            }
        };
        if let Some(waker) = old {
            // One that was there before is woken in vain, which harms nobody.
            waker.wake();
        }
    }

    /// Nobody will ask for the output. What is there already is dropped here, its panics swallowed.
    pub(in crate::exec) fn detach(&self) {
        if !self.flags.detach() {
            return;
        }
        let (output, waker) = {
            let mut join = self.slot.0.lock();
            (join.output.take(), join.waker.take())
        };
        contain(|| drop(output));
        contain(|| drop(waker));
    }
}

/// Runs foreign code whose panic nobody can be told of.
pub(crate) fn contain(f: impl FnOnce()) {
    // Dropping the payload of the panic may panic as well; that one is leaked.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
    }
}
