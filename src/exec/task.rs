//! A task: the user's future in a harness that contains its panics, charges its polls and ends it on demand.
//!
//! Mechanism. The cell that may be polled is `async-task`'s; the cell that may be awaited is our own, so that
//! a join waker or a destructor that panics cannot abort the process (async-task's would), and an abort
//! handle needs no type. Invariants:
//! 1. The future is polled and dropped only by a worker, inside [`context::in_task`]; never in `wake`, never
//!    under a lock of ours. (Exception: a spawn after shutdown drops the future where it is.)
//! 2. The order at the end of a task is tokio's: drop the future, give the lease back, publish the output,
//!    wake the joiner. Whoever sees the output can count on the lease being free.
//! 3. `ABORT` is set before the task is looked for in [`Waiting`](super::account::Waiting); the task enters
//!    `Waiting` before it looks at `ABORT`. One of the two sees the other.

use super::account::{Account, Ticket};
use super::context::{self, Scope};
use super::group::Group;
use super::join::{Cause, JoinError, JoinHandle};
use super::worker::Worker;
use crate::sched::feedback::Stream;
use crate::unit::Nanos;
use async_task::{Builder, ScheduleInfo, WithInfo};
use parking_lot::Mutex;
use pin_project::{pin_project, pinned_drop};
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use tokio::task::coop;

/// Something that a task holds until its future is gone: a query's slot, for instance. Children inherit it.
pub type Lease = Arc<dyn Any + Send + Sync>;

pub(super) type Runnable = async_task::Runnable<Meta>;

/// Identity of a task, unique in the process while the task lives, as `tokio::task::Id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Id {
    pub(crate) fn next() -> Id {
        Id(NEXT_ID.fetch_add(1, Relaxed))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What a queue needs to know of a task.
pub(super) struct Meta {
    /// The stream that it belongs to, as a number that compares in one step.
    pub(super) stream: u64,
    pub(super) cell: Arc<Task>,
}

impl Meta {
    /// Where it belongs in its group's queue.
    pub(super) fn place(&self) -> (Stream, Nanos) {
        let account = &self.cell.account;
        match account.stream() {
            (stream @ Stream::Query(_), _) => (stream, account.cpu()),
            (Stream::Loose, _) => (Stream::Loose, Nanos(self.cell.cpu.load(Relaxed))),
        }
    }
}

const ABORT: u8 = 1;
const WAITING: u8 = 2;
const DONE: u8 = 4;

/// A task without its type: what aborting, queueing and charging need.
pub(super) type Task = Cell<dyn Slot>;

/// The shared part of a task: its identity and account, and the place of its output.
pub(super) struct Cell<S: ?Sized> {
    id: Id,
    account: Arc<Account>,
    state: AtomicU8,
    ticket: AtomicU64,
    /// When it became ready last.
    queued_at: AtomicU64,
    /// Whether it belongs to a query: known here to spare the way to the account on every poll.
    in_query: bool,
    /// Its own CPU time; only kept for tasks without a query.
    cpu: AtomicU64,
    slot: S,
}

/// Marks what may be the untyped end of a cell.
pub(super) trait Slot: Send + Sync {}

impl<S: ?Sized> Cell<S> {
    pub(super) fn id(&self) -> Id {
        self.id
    }

    pub(super) fn group(&self) -> &Arc<Group> {
        &self.account.group
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state.load(SeqCst) & DONE != 0
    }

    pub(super) fn abort(&self) {
        let before = self.state.fetch_or(ABORT, SeqCst);
        if before & (WAITING | DONE) == WAITING {
            self.account
                .waiting
                .wake(Ticket::unpack(self.ticket.load(SeqCst)));
        }
    }

    #[inline]
    pub(super) fn queued(&self, now: Nanos) {
        self.queued_at.store(now.0, Relaxed);
    }

    fn must_end(&self, worker: &Worker) -> bool {
        self.state.load(Relaxed) & ABORT != 0
            || worker.is_cancelling()
            || (self.in_query && self.account.is_killed())
    }

    /// Charges a poll to the account; the CPU time that counts for the task's level.
    fn charge(&self, took: Nanos) -> Nanos {
        if self.in_query {
            return self.account.charge(took);
        }
        // Only the worker that polls the task writes this.
        let cpu = self.cpu.load(Relaxed) + took.0;
        self.cpu.store(cpu, Relaxed);
        Nanos(cpu)
    }

    /// Why a task that is being cancelled is: the executor's reason, or none for a plain abort.
    fn cause(&self) -> Option<Cause> {
        if self.state.load(SeqCst) & ABORT != 0 {
            return None;
        }
        let killed = self.account.killed().cloned();
        killed.or_else(|| self.account.group.core.cancelled().cloned())
    }
}

/// The typed end of a cell: the output on its way from the worker to the handle.
pub(super) struct Outcome<T>(Mutex<Join<T>>);

impl<T: Send> Slot for Outcome<T> {}

struct Join<T> {
    output: Option<Result<T, JoinError>>,
    waker: Option<Waker>,
    detached: bool,
    taken: bool,
}

impl<T> Cell<Outcome<T>> {
    fn new(account: Arc<Account>) -> Cell<Outcome<T>> {
        Cell {
            id: Id::next(),
            in_query: account.query().is_some(),
            account,
            state: AtomicU8::new(0),
            ticket: AtomicU64::new(0),
            queued_at: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            slot: Outcome(Mutex::new(Join {
                output: None,
                waker: None,
                detached: false,
                taken: false,
            })),
        }
    }

    fn complete(&self, output: Result<T, JoinError>) {
        let (unwanted, waker) = {
            let mut join = self.slot.0.lock();
            let unwanted = if join.detached {
                Some(output)
            } else {
                join.output.replace(output)
            };
            self.state.fetch_or(DONE, SeqCst);
            (unwanted, join.waker.take())
        };
        contain(|| drop(unwanted));
        if let Some(waker) = waker {
            contain(|| waker.wake());
        }
    }

    pub(super) fn poll_join(&self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
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
                drop(old);
                return Poll::Pending;
            }
            // Cloning a waker is foreign code: not under the lock.
            drop(join);
            fresh = Some(cx.waker().clone());
        }
    }

    /// Nobody will ask for the output. What is there already is dropped here, its panics swallowed.
    pub(super) fn detach(&self) {
        let (output, waker) = {
            let mut join = self.slot.0.lock();
            join.detached = true;
            (join.output.take(), join.waker.take())
        };
        contain(|| drop(output));
        contain(|| drop(waker));
    }
}

/// Runs foreign code whose panic nobody can be told of.
fn contain(f: impl FnOnce()) {
    // Dropping the payload of the panic may panic as well; that one is leaked.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
    }
}

/// The future that async-task polls.
#[pin_project(PinnedDrop)]
struct Harness<F: Future>
where
    F::Output: Send,
{
    #[pin]
    future: Option<F>,
    scope: Scope,
    cell: Arc<Cell<Outcome<F::Output>>>,
    ticket: Option<Ticket>,
}

enum Step<T> {
    Wait,
    End(Result<T, JoinError>),
}

impl<F: Future> Future for Harness<F>
where
    F::Output: Send,
{
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        context::worker(|worker| match worker {
            Some(worker) => self.as_mut().step(worker, cx),
            // Only workers run tasks. Should that ever change, the task waits instead of running uncharged.
            None => Poll::Pending,
        })
    }
}

impl<F: Future> Harness<F>
where
    F::Output: Send,
{
    fn step(mut self: Pin<&mut Self>, worker: &Worker, cx: &mut Context<'_>) -> Poll<()> {
        let started = worker.now();
        let delay = started.since(Nanos(self.cell.queued_at.load(Relaxed)));
        let step = if self.cell.must_end(worker) {
            Step::End(self.as_mut().cancel())
        } else {
            self.as_mut().poll_future(worker, cx)
        };
        let took = worker.polled(started, delay);
        let cpu = self.cell.charge(took);
        worker.aged(cpu);
        match step {
            Step::Wait => Poll::Pending,
            Step::End(output) => {
                if let Err(error) = &output {
                    self.cell.account.task_failed(error);
                    if error.is_cancelled() {
                        worker.dropped(took);
                    }
                }
                self.finish(output);
                worker.finished();
                Poll::Ready(())
            }
        }
    }

    #[inline]
    fn poll_future(
        mut self: Pin<&mut Self>,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Step<F::Output> {
        let this = self.as_mut().project();
        let mut future = this.future;
        let polled = context::in_task(this.scope, || {
            let polled = catch_unwind(AssertUnwindSafe(|| match future.as_mut().as_pin_mut() {
                Some(future) => future.poll(cx),
                None => Poll::Pending,
            }));
            if !coop::has_budget_remaining() {
                // A spent budget defers the wake-up until the driver has returned to tokio; the group would
                // look idle meanwhile. The task is ready: queue it now.
                if matches!(polled, Ok(Poll::Pending)) {
                    cx.waker().wake_by_ref();
                }
                worker.spent();
            }
            polled
        });
        match polled {
            Ok(Poll::Pending) => self.wait(worker, cx),
            Ok(Poll::Ready(output)) => {
                // As tokio: a destructor that panics costs the task its output.
                Step::End(match self.as_mut().drop_future() {
                    None => Ok(output),
                    Some(payload) => {
                        contain(|| drop(output));
                        Err(JoinError::panic(self.cell.id, payload))
                    }
                })
            }
            Err(payload) => {
                let swallowed = self.as_mut().drop_future();
                contain(|| drop(swallowed));
                Step::End(Err(JoinError::panic(self.cell.id, payload)))
            }
        }
    }

    /// The task waits. The first time, it is entered where abort, kill and shutdown can find it.
    #[inline]
    fn wait(mut self: Pin<&mut Self>, worker: &Worker, cx: &mut Context<'_>) -> Step<F::Output> {
        if self.ticket.is_some() {
            return Step::Wait;
        }
        let this = self.as_mut().project();
        let ticket = this
            .scope
            .account
            .waiting
            .enter(worker.index(), cx.waker().clone());
        *this.ticket = Some(ticket);
        this.cell.ticket.store(ticket.pack(), SeqCst);
        let before = this.cell.state.fetch_or(WAITING, SeqCst);
        let core = &this.scope.account.group.core;
        if before & ABORT != 0
            || this.scope.account.killed().is_some()
            || core.cancelled().is_some()
        {
            return Step::End(self.cancel());
        }
        Step::Wait
    }

    fn cancel(mut self: Pin<&mut Self>) -> Result<F::Output, JoinError> {
        let cause = self.cell.cause();
        match self.as_mut().drop_future() {
            None => Err(JoinError::cancelled(self.cell.id, cause)),
            Some(payload) => Err(JoinError::panic(self.cell.id, payload)),
        }
    }

    /// Drops the future inside its context; the payload if its destructor panicked.
    fn drop_future(self: Pin<&mut Self>) -> Option<Box<dyn Any + Send>> {
        let this = self.project();
        let mut future = this.future;
        context::in_task(this.scope, || {
            catch_unwind(AssertUnwindSafe(|| future.set(None))).err()
        })
    }

    /// The future is gone: gives back what the task held and publishes how it ended.
    fn finish(self: Pin<&mut Self>, output: Result<F::Output, JoinError>) {
        let this = self.project();
        if let Some(ticket) = this.ticket.take() {
            let waker = this.scope.account.waiting.leave(ticket);
            drop(waker);
        }
        let lease = this.scope.lease.take();
        contain(|| drop(lease));
        this.cell.complete(output);
    }
}

#[pinned_drop]
impl<F: Future> PinnedDrop for Harness<F>
where
    F::Output: Send,
{
    fn drop(mut self: Pin<&mut Self>) {
        // Reached with the future still there only if a runnable was dropped instead of run.
        if self.future.is_some() {
            let output = self.as_mut().cancel();
            let group = self.scope.account.group.clone();
            self.finish(output);
            group.counters.finished.fetch_add(1, SeqCst);
        }
    }
}

/// The handle of a task that was refused before it existed: cancelled, for `cause`.
pub fn refused<T: Send + 'static>(account: &Arc<Account>, cause: Cause) -> JoinHandle<T> {
    let cell = Arc::new(Cell::<Outcome<T>>::new(account.clone()));
    cell.complete(Err(JoinError::cancelled(cell.id, Some(cause))));
    JoinHandle::new(cell)
}

/// What the running task belongs to.
#[derive(Debug)]
pub struct Current {
    /// The task.
    pub id: Id,
    /// Whom it is charged to.
    pub account: Arc<Account>,
    /// What it holds until its future is gone.
    pub lease: Option<Lease>,
}

/// The task that this thread polls or drops, if any.
pub fn current() -> Option<Current> {
    context::task(|scope| {
        scope.map(|scope| Current {
            id: scope.id,
            account: scope.account.clone(),
            lease: scope.lease.clone(),
        })
    })
}

/// The running task's id.
///
/// # Panics
///
/// Outside of a task, as `tokio::task::id` does.
#[track_caller]
pub fn id() -> Id {
    match try_id() {
        Some(id) => id,
        None => panic!("Can't get a task id when not inside a task"),
    }
}

/// The running task's id, if there is one.
pub fn try_id() -> Option<Id> {
    context::task(|scope| scope.map(|scope| scope.id))
}

/// Lets the other ready tasks of the group run before this one goes on.
///
/// Other than tokio's own `yield_now`, the task is queued again at once, so that its group's share does not
/// depend on when the runtime looks after I/O.
///
/// # Cancel safety
///
/// Cancel safe: it holds nothing.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Futures larger than this are boxed, so that a cell stays small; tokio's limits.
const BOX_ABOVE: usize = if cfg!(debug_assertions) {
    2_048
} else {
    16_384
};

/// Spawns a task on the executor of `account`'s group.
pub fn spawn<F>(account: &Arc<Account>, lease: Option<Lease>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    if size_of::<F>() > BOX_ABOVE {
        spawn_sized(account, lease, Box::pin(future))
    } else {
        spawn_sized(account, lease, future)
    }
}

fn spawn_sized<F>(account: &Arc<Account>, lease: Option<Lease>, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let cell = Arc::new(Cell::<Outcome<F::Output>>::new(account.clone()));
    let group = account.group();
    // Counted before the executor's state is read: the one who ends it either sees the task or is seen.
    group.counters.spawned.fetch_add(1, SeqCst);
    if let Some(cause) = group.core.cancelled() {
        group.counters.finished.fetch_add(1, SeqCst);
        contain(|| drop(future));
        contain(|| drop(lease));
        cell.complete(Err(JoinError::cancelled(cell.id, Some(cause.clone()))));
        return JoinHandle::new(cell);
    }
    let scope = Scope {
        id: cell.id,
        account: account.clone(),
        lease,
    };
    let harness = Harness {
        future: Some(future),
        scope,
        cell: cell.clone(),
        ticket: None,
    };
    let meta = Meta {
        stream: account.stream().1,
        cell: cell.clone(),
    };
    let (runnable, task) = Builder::new()
        .metadata(meta)
        .spawn(move |_| harness, WithInfo(schedule));
    task.detach();
    make_ready(runnable, false);
    JoinHandle::new(cell)
}

fn schedule(runnable: Runnable, info: ScheduleInfo) {
    make_ready(runnable, info.woken_while_running);
}

/// Puts a ready task where it belongs. Runs inside `wake`: no user code, no poll, no drop of a future.
fn make_ready(runnable: Runnable, yielded: bool) {
    context::worker(|worker| {
        let meta = runnable.metadata();
        match worker {
            Some(worker) if worker.serves(meta.stream) => worker.push(runnable, yielded),
            _ => {
                // Once pushed, the task may be run and gone before this returns: hold the group ourselves.
                let group = meta.cell.account.group.clone();
                group.push(runnable);
            }
        }
    })
}
