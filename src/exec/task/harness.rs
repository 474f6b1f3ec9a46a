//! The future that async-task polls: the user's future, guarded.
//!
//! Mechanism; polls and drops happen on workers only.

use super::cell::{Task, contain};
use crate::event::span::Span;
use crate::exec::context::{self, Scope};
use crate::exec::hooks;
use crate::exec::join::JoinError;
use crate::exec::worker::Worker;
use crate::mem;
use crate::unit::Nanos;
use pin_project::{pin_project, pinned_drop};
use std::any::Any;
use std::future::Future;
use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};
use tokio::task::coop;

/// The future that async-task polls.
#[pin_project(PinnedDrop)]
pub(super) struct Harness<F: Future>
where
    F::Output: Send + 'static,
{
    scope: Scope,
    span: Span,
    #[pin]
    future: Option<F>,
}

impl<F: Future> Harness<F>
where
    F::Output: Send + 'static,
{
    /// `scope` is of a task that was made for this output.
    pub(super) fn new(future: F, scope: Scope, span: Span) -> Harness<F> {
        Harness {
            scope,
            span,
            future: Some(future),
        }
    }

    #[inline]
    fn task(&self) -> &Task {
        &self.scope.task
    }
}

type Payload = Box<dyn Any + Send>;

enum Step<T> {
    Wait,
    End(Result<T, JoinError>),
}

impl<F: Future> Future for Harness<F>
where
    F::Output: Send + 'static,
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
    F::Output: Send + 'static,
{
    fn step(mut self: Pin<&mut Self>, worker: &Worker, cx: &mut Context<'_>) -> Poll<()> {
        let hooks = worker.core().hooks();
        if let Some(hooks) = hooks {
            hooks::call(hooks.before_poll.as_ref(), &self.task().meta());
        }
        let started = worker.now();
        let task = self.task();
        worker.polls_task(task.id.number(), task.spawned_at());
        let delay = started.since(task.no_longer_queued());
        let mut step = if task.must_end(worker) {
            Step::End(self.as_mut().cancel())
        } else {
            self.as_mut().poll_future(worker, cx)
        };
        if mem::take_doom() {
            step = self.as_mut().short_of_memory(step);
        }
        let mut took = self.charge(worker, started, delay);
        if matches!(step, Step::Wait) && self.task().is_killed() {
            // During that poll, or by what it cost: here is the next poll boundary.
            step = Step::End(self.as_mut().cancel());
            took = self.charge(worker, worker.now(), Nanos::ZERO);
        }
        let polled = match step {
            Step::Wait => Poll::Pending,
            Step::End(output) => {
                if let Err(error) = &output {
                    self.task().account.task_failed(error);
                    if error.is_cancelled() {
                        worker.dropped(took);
                    }
                }
                self.as_mut().finish(output);
                worker.finished(&self.task().account.home);
                Poll::Ready(())
            }
        };
        if let Some(hooks) = hooks {
            hooks::call(hooks.after_poll.as_ref(), &self.task().meta());
        }
        polled
    }

    /// The poll that began at `started` is over: it is charged, and its length returned.
    #[inline]
    fn charge(&self, worker: &Worker, started: Nanos, delay: Nanos) -> Nanos {
        let (took, held) = worker.polled(started, delay);
        let task = self.task();
        let cpu = task.charge(took, held);
        task.group().desk().look_at_pressure(worker.now());
        worker.aged(cpu);
        took
    }

    #[inline]
    fn poll_future(
        mut self: Pin<&mut Self>,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Step<F::Output> {
        let this = self.as_mut().project();
        let (mut future, span) = (this.future, &*this.span);
        let (polled, dropped) = context::in_task(this.scope, || {
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
            match polled {
                Ok(Poll::Pending) => (polled, None),
                _ => (polled, discard(future, span)),
            }
        });
        match polled {
            Ok(Poll::Pending) => self.wait(worker, cx),
            Ok(Poll::Ready(output)) => {
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
    fn short_of_memory(mut self: Pin<&mut Self>, step: Step<F::Output>) -> Step<F::Output> {
        let account = &self.task().account;
        account.core().kill_doomed();
        let refused = mem::take_refusal();
        match (&step, refused) {
            (Step::End(_), _) => step,
            (Step::Wait, _) if account.killed().is_some() => Step::End(self.as_mut().cancel()),
            (Step::Wait, None) => step,
            // Of no query: this task alone is to blame.
            (Step::Wait, Some(shortfall)) => {
                let cause = account.core().shortage(account, shortfall);
                let error = match self.as_mut().drop_future() {
                    None => JoinError::cancelled(self.task().id, Some(cause)),
                    Some(payload) => JoinError::panic(self.task().id, payload),
                };
                Step::End(Err(error))
            }
        }
    }

    /// The task waits. The first time, it is entered where abort, kill and shutdown can find it.
    #[inline]
    fn wait(self: Pin<&mut Self>, worker: &Worker, cx: &mut Context<'_>) -> Step<F::Output> {
        if self.task().flags.ticket().is_some() {
            return Step::Wait;
        }
        self.begin_to_wait(worker, cx)
    }

    fn begin_to_wait(
        self: Pin<&mut Self>,
        worker: &Worker,
        cx: &mut Context<'_>,
    ) -> Step<F::Output> {
        let task = &self.scope.task;
        let ticket =
            task.account
                .waiting
                .enter(worker.index(), cx.waker().clone(), Some(task.clone()));
        self.span.waits();
        let aborted = task.flags.waits(ticket);
        let core = task.account.core();
        if aborted || task.account.killed().is_some() || core.cancelled().is_some() {
            return Step::End(self.cancel());
        }
        Step::Wait
    }

    fn cancel(mut self: Pin<&mut Self>) -> Result<F::Output, JoinError> {
        let cause = self.task().cause();
        match self.as_mut().drop_future() {
            None => Err(JoinError::cancelled(self.task().id, cause)),
            Some(payload) => Err(JoinError::panic(self.task().id, payload)),
        }
    }

    /// Drops the future inside its context; the payload if its destructor panicked.
    fn drop_future(self: Pin<&mut Self>) -> Option<Payload> {
        let this = self.project();
        let (future, span) = (this.future, &*this.span);
        context::in_task(this.scope, || discard(future, span))
    }

    /// The future is gone: gives back what the task held and publishes how it ended.
    fn finish(self: Pin<&mut Self>, output: Result<F::Output, JoinError>) {
        let this = self.project();
        let lease = this.scope.lease.take();
        let task = &this.scope.task;
        if let Some(ticket) = task.flags.ticket() {
            drop(task.account.waiting.leave(ticket));
        }
        task.account.task_gone(task.id.number());
        if lease.is_some() {
            contain(|| drop(lease));
        }
        this.span.end();
        task.complete(output);
        if let Some(hooks) = task.account.core().hooks() {
            hooks::call(hooks.terminate.as_ref(), &task.meta());
        }
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
impl<F: Future> PinnedDrop for Harness<F>
where
    F::Output: Send + 'static,
{
    fn drop(mut self: Pin<&mut Self>) {
        // Reached with the future still there only if a runnable was dropped instead of run.
        if self.future.is_some() {
            let output = self.as_mut().cancel();
            self.as_mut().finish(output);
            let home = &self.task().account.home;
            home.counters.finished.fetch_add(1, SeqCst);
            home.core.look_whether_over();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::task::{Cell, Meta, Outcome};
    use std::sync::Arc;

    /// What `async-task` puts before the metadata and, padded, after it.
    const HEADER: usize = 40;
    /// Before what an `Arc` points to.
    const COUNTS: usize = 16;
    /// Up to here glibc's malloc frees a block of another thread without that thread's lock.
    const FAST: usize = 120;

    fn block<F: Future>(_: &F) -> usize
    where
        F::Output: Send + 'static,
    {
        HEADER + size_of::<Meta>() + size_of::<Harness<F>>()
    }

    #[test]
    fn a_small_task_is_two_small_blocks() {
        let latch = Arc::new(());
        let future = async move { drop(latch) };
        let cell = COUNTS + size_of::<Cell<Outcome<()>>>();
        let block = block(&future);
        println!(
            "cell {cell}, block {block}, future {}",
            size_of_val(&future)
        );
        assert!(cell <= FAST, "{cell}");
        // With the feature `tracing` there is room for a span.
        assert!(block - size_of::<Span>() <= FAST, "{block}");
        let with_output = COUNTS + size_of::<Cell<Outcome<String>>>();
        assert!(with_output <= FAST, "{with_output}");
    }
}
