//! The future that async-task polls: the user's future, guarded.
//!
//! Mechanism; polls and drops happen on workers only.

use super::cell::Task;
use crate::event::span::Span;
use crate::exec::context::{self, Lendable, Scope};
use crate::exec::hooks;
use crate::exec::join::{JoinError, Output};
use crate::exec::worker::Worker;
use crate::foreign::contain;
use crate::mem;
use crate::unit::Nanos;
use pin_project::{pin_project, pinned_drop};
use std::any::Any;
use std::future::Future;
use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};
use tokio::task::coop;

/// The future that async-task polls. In this order: what every poll looks at lies beside async-task's own words, however
/// large the user's future is.
#[pin_project(PinnedDrop)]
#[repr(C)]
pub(super) struct Harness<F: Future> {
    /// Until the end; then the worker has it.
    scope: Lendable,
    span: Span,
    #[pin]
    future: Option<F>,
}

impl<F: Future> Harness<F> {
    pub(super) fn new(future: F, scope: Scope, span: Span) -> Harness<F> {
        Harness {
            scope: Lendable::new(scope),
            span,
            future: Some(future),
        }
    }
}

type Payload = Box<dyn Any + Send>;

enum Step<T> {
    Wait,
    End(Result<T, JoinError>),
}

impl<F: Future> Future for Harness<F> {
    type Output = Output<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Output<F::Output>> {
        let this = self.project();
        let (future, span, whose) = (this.future, this.span, this.scope);
        context::own_worker(|worker| {
            let body = Body {
                future,
                span,
                scope: whose,
            };
            let polled = body.step(worker, cx);
            if polled.is_ready() {
                worker.ended(whose.take().map(|scope| scope.task));
            }
            polled
        })
    }
}

/// The block has its output, or has dropped it: the last that is to be done for a task, after its last poll.
pub(in crate::exec) fn conclude(worker: &Worker, task: &Arc<Task>) {
    // The block holds it as long as there is a handle.
    let has_handle = Arc::strong_count(task) > 1;
    if has_handle {
        task.publish();
    }
    if has_handle || task.flags.is_in_query() {
        // Somebody may wait for it, or for the place that its query leaves.
        worker.is_awaited();
    }
    let hooks = worker.core().hooks();
    if let Some(hooks) = hooks {
        hooks::call(hooks.terminate.as_ref(), &task.meta());
    }
    worker.finished(&task.account.home);
    if let Some(hooks) = hooks {
        hooks::call(hooks.after_poll.as_ref(), &task.meta());
    }
}

/// A harness that has not come to its end.
struct Body<'a, F> {
    future: Pin<&'a mut Option<F>>,
    span: &'a mut Span,
    scope: &'a mut Lendable,
}

impl<F: Future> Body<'_, F> {
    #[inline]
    fn task(&self) -> &Arc<Task> {
        match self.scope.get() {
            Some(scope) => &scope.task,
            None => unreachable!("the thread has given it back"),
        }
    }

    #[inline]
    fn step(mut self, worker: &Worker, cx: &mut Context<'_>) -> Poll<Output<F::Output>> {
        let hooks = worker.core().hooks();
        if let Some(hooks) = hooks {
            hooks::call(hooks.before_poll.as_ref(), &self.task().meta());
        }
        let started = worker.now();
        let task = self.task();
        worker.polls_task(task.id.number(), task.spawned_at());
        let delay = started.since(task.no_longer_queued());
        let mut step = if task.must_end(worker) {
            Step::End(Err(self.cancel()))
        } else {
            self.poll_future(worker, cx)
        };
        if mem::take_doom() {
            step = self.short_of_memory(step);
        }
        let mut took = self.charge(worker, started, delay);
        if matches!(step, Step::Wait) && self.task().is_killed() {
            (step, took) = self.end_killed(worker);
        }
        match step {
            Step::Wait => {
                if let Some(hooks) = hooks {
                    hooks::call(hooks.after_poll.as_ref(), &self.task().meta());
                }
                Poll::Pending
            }
            Step::End(output) => {
                if let Err(error) = &output {
                    self.task().account.task_failed(error);
                    if error.is_cancelled() {
                        worker.dropped(took);
                    }
                }
                self.let_go();
                Poll::Ready(Output::new(self.task().unless_detached(output)))
            }
        }
    }

    /// The poll that began at `started` is over: it is charged, and its length returned. Called in two places, of which one
    /// is the end of every poll.
    #[inline(always)]
    fn charge(&self, worker: &Worker, started: Nanos, delay: Nanos) -> Nanos {
        let (took, held) = worker.polled(started, delay);
        let task = self.task();
        let cpu = task.charge(took, held);
        worker.aged(cpu);
        took
    }

    /// It was killed during that poll, or by what it cost: here is the next poll boundary. How long dropping it took.
    #[cold]
    fn end_killed(&mut self, worker: &Worker) -> (Step<F::Output>, Nanos) {
        let step = Step::End(Err(self.cancel()));
        (step, self.charge(worker, worker.now(), Nanos::ZERO))
    }

    #[inline]
    fn poll_future(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Step<F::Output> {
        let (mut future, span) = (self.future.as_mut(), &*self.span);
        let ended = context::in_task(self.scope, || {
            let polled = catch_unwind(AssertUnwindSafe(|| match future.as_mut().as_pin_mut() {
                Some(future) => span.within(|| future.poll(cx)),
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
            let output = match polled {
                Ok(Poll::Pending) => return None,
                Ok(Poll::Ready(output)) => Ok(output),
                Err(payload) => Err(payload),
            };
            Some((output, discard(future, span)))
        });
        let Some((output, dropped)) = ended else {
            return self.wait(worker, cx);
        };
        match output {
            Ok(output) => {
                // As tokio: a destructor that panics costs the task its output.
                Step::End(match dropped {
                    None => Ok(output),
                    Some(payload) => {
                        contain(|| drop(output));
                        Err(JoinError::panic(self.task().id, payload))
                    }
                })
            }
            Err(payload) => {
                contain(|| drop(dropped));
                Step::End(Err(JoinError::panic(self.task().id, payload)))
            }
        }
    }

    /// The poll asked for more memory than there was, and somebody has been chosen to end: perhaps this task's own
    /// query. An output that is there already stays.
    #[cold]
    fn short_of_memory(&mut self, step: Step<F::Output>) -> Step<F::Output> {
        let account = &self.task().account;
        account.core().kill_doomed();
        let refused = mem::take_refusal();
        match (&step, refused) {
            (Step::End(_), _) => step,
            (Step::Wait, _) if account.killed().is_some() => Step::End(Err(self.cancel())),
            (Step::Wait, None) => step,
            // Of no query: this task alone is to blame.
            (Step::Wait, Some(shortfall)) => {
                let cause = account.core().shortage(account, shortfall);
                let error = match self.drop_future() {
                    None => JoinError::cancelled(self.task().id, Some(cause)),
                    Some(payload) => JoinError::panic(self.task().id, payload),
                };
                Step::End(Err(error))
            }
        }
    }

    /// The task waits. The first time, it is entered where abort, kill and shutdown can find it.
    #[inline]
    fn wait(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Step<F::Output> {
        if self.task().flags.ticket().is_some() {
            return Step::Wait;
        }
        self.begin_to_wait(worker, cx)
    }

    fn begin_to_wait(&mut self, worker: &Worker, cx: &mut Context<'_>) -> Step<F::Output> {
        let task = self.task();
        let ticket =
            task.account
                .waiting
                .enter(worker.index(), cx.waker().clone(), Some(task.clone()));
        self.span.waits();
        let aborted = task.flags.waits(ticket);
        let core = task.account.core();
        if aborted || task.account.killed().is_some() || core.cancelled().is_some() {
            return Step::End(Err(self.cancel()));
        }
        Step::Wait
    }

    fn cancel(&mut self) -> JoinError {
        let cause = self.task().cause();
        match self.drop_future() {
            None => JoinError::cancelled(self.task().id, cause),
            Some(payload) => JoinError::panic(self.task().id, payload),
        }
    }

    /// Drops the future inside its context; the payload if its destructor panicked.
    fn drop_future(&mut self) -> Option<Payload> {
        let (future, span) = (self.future.as_mut(), &*self.span);
        context::in_task(self.scope, || discard(future, span))
    }

    /// The future is gone: gives back what the task held.
    fn let_go(&mut self) {
        let lease = self.scope.get_mut().and_then(|scope| scope.lease.take());
        let task = self.task();
        if let Some(ticket) = task.flags.ticket() {
            drop(task.account.waiting.leave(ticket));
        }
        task.account.task_gone(task.id.number());
        if lease.is_some() {
            contain(|| drop(lease));
        }
        self.span.end();
    }
}

/// Drops a future; the payload if its destructor panicked. Destructors get the memory that they ask for.
#[inline]
fn discard<F>(mut future: Pin<&mut Option<F>>, span: &Span) -> Option<Payload> {
    if !needs_drop::<F>() {
        future.set(None);
        return None;
    }
    mem::lifted(|| catch_unwind(AssertUnwindSafe(|| span.within(|| future.set(None)))).err())
}

#[pinned_drop]
impl<F: Future> PinnedDrop for Harness<F> {
    fn drop(self: Pin<&mut Self>) {
        let this = self.project();
        // Reached with the future still there only if a runnable was dropped instead of run.
        if this.scope.get().is_some() && this.future.is_some() {
            let mut body = Body {
                future: this.future,
                span: this.span,
                scope: this.scope,
            };
            let error = body.cancel();
            body.let_go();
            let task = body.task();
            task.fail(error);
            let home = &task.account.home;
            if let Some(hooks) = home.core.hooks() {
                hooks::call(hooks.terminate.as_ref(), &task.meta());
            }
            home.counters.finished.fetch_add(1, SeqCst);
            home.core.look_whether_over();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::task::Meta;

    /// What `async-task` puts before the metadata and, padded, after it.
    const HEADER: usize = 40;
    /// Before what an `Arc` points to.
    const COUNTS: usize = 16;
    /// Up to here glibc's malloc frees a block of another thread without that thread's lock.
    const FAST: usize = 120;

    fn block<F: Future>(_: &F) -> usize {
        HEADER + size_of::<Meta>() + size_of::<Harness<F>>()
    }

    #[test]
    fn a_small_task_is_two_small_blocks() {
        let latch = Arc::new(());
        let future = async move { drop(latch) };
        let cell = COUNTS + size_of::<Task>();
        let block = block(&future);
        println!(
            "cell {cell}, block {block}, future {}",
            size_of_val(&future)
        );
        assert!(cell <= FAST, "{cell}");
        assert!(block <= FAST, "{block}");
    }
}
