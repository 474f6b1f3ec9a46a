//! The future that async-task polls: the user's future, guarded.
//!
//! Mechanism; polls and drops happen on workers only.

use super::cell::{Cell, Outcome, contain};
use crate::event::span::Span;
use crate::exec::context::{self, Scope};
use crate::exec::hooks;
use crate::exec::join::JoinError;
use crate::exec::waiting::Ticket;
use crate::exec::worker::Worker;
use crate::mem;
use crate::unit::Nanos;
use pin_project::{pin_project, pinned_drop};
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};
use tokio::task::coop;

/// The future that async-task polls.
#[pin_project(PinnedDrop)]
pub(super) struct Harness<F: Future>
where
    F::Output: Send,
{
    #[pin]
    future: Option<F>,
    scope: Scope,
    cell: Arc<Cell<Outcome<F::Output>>>,
    span: Span,
    ticket: Option<Ticket>,
}

impl<F: Future> Harness<F>
where
    F::Output: Send,
{
    pub(super) fn new(
        future: F,
        scope: Scope,
        cell: Arc<Cell<Outcome<F::Output>>>,
        span: Span,
    ) -> Harness<F> {
        Harness {
            future: Some(future),
            scope,
            cell,
            span,
            ticket: None,
        }
    }
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
        let hooks = worker.core().hooks();
        if let Some(hooks) = hooks {
            hooks::call(hooks.before_poll.as_ref(), &self.cell.meta());
        }
        let started = worker.now();
        worker.polls_task(self.cell.id.number(), self.cell.origin.place);
        let delay = started.since(self.cell.no_longer_queued());
        let mut step = if self.cell.must_end(worker) {
            Step::End(self.as_mut().cancel())
        } else {
            self.as_mut().poll_future(worker, cx)
        };
        if mem::take_doom() {
            step = self.as_mut().short_of_memory(step);
        }
        let mut took = self.charge(worker, started, delay);
        if matches!(step, Step::Wait) && self.cell.is_killed() {
            // During that poll, or by what it cost: here is the next poll boundary.
            step = Step::End(self.as_mut().cancel());
            took = self.charge(worker, worker.now(), Nanos::ZERO);
        }
        let polled = match step {
            Step::Wait => Poll::Pending,
            Step::End(output) => {
                if let Err(error) = &output {
                    self.cell.account.task_failed(error);
                    if error.is_cancelled() {
                        worker.dropped(took);
                    }
                }
                self.as_mut().finish(output);
                worker.finished(&self.cell.account.home);
                Poll::Ready(())
            }
        };
        if let Some(hooks) = hooks {
            hooks::call(hooks.after_poll.as_ref(), &self.cell.meta());
        }
        polled
    }

    /// The poll that began at `started` is over: it is charged, and its length returned.
    #[inline]
    fn charge(&self, worker: &Worker, started: Nanos, delay: Nanos) -> Nanos {
        let (took, held) = worker.polled(started, delay);
        let cpu = self.cell.charge(took, held);
        self.cell
            .account
            .group()
            .desk()
            .look_at_pressure(worker.now());
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
        let polled = context::in_task(this.scope, || {
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

    /// The poll asked for more memory than there was, and somebody has been chosen to end: perhaps this task's own
    /// query. An output that is there already stays.
    #[cold]
    fn short_of_memory(mut self: Pin<&mut Self>, step: Step<F::Output>) -> Step<F::Output> {
        let account = &self.cell.account;
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
                    None => JoinError::cancelled(self.cell.id, Some(cause)),
                    Some(payload) => JoinError::panic(self.cell.id, payload),
                };
                Step::End(Err(error))
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
        let ticket = this.cell.account.waiting.enter(
            worker.index(),
            cx.waker().clone(),
            Some(this.scope.task.clone()),
        );
        *this.ticket = Some(ticket);
        this.span.waits();
        let aborted = this.cell.flags.waits(ticket);
        let core = this.cell.account.core();
        if aborted || this.cell.account.killed().is_some() || core.cancelled().is_some() {
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

    /// Drops the future inside its context; the payload if its destructor panicked. Destructors get the memory that
    /// they ask for.
    fn drop_future(self: Pin<&mut Self>) -> Option<Box<dyn Any + Send>> {
        let this = self.project();
        let (mut future, span) = (this.future, &*this.span);
        context::in_task(this.scope, || {
            mem::lifted(|| {
                catch_unwind(AssertUnwindSafe(|| span.within(|| future.set(None)))).err()
            })
        })
    }

    /// The future is gone: gives back what the task held and publishes how it ended.
    fn finish(self: Pin<&mut Self>, output: Result<F::Output, JoinError>) {
        let this = self.project();
        if let Some(ticket) = this.ticket.take() {
            drop(this.cell.account.waiting.leave(ticket));
        }
        let lease = this.scope.lease.take();
        this.cell.account.task_gone(this.cell.id.number());
        contain(|| drop(lease));
        this.span.end();
        this.cell.complete(output);
        if let Some(hooks) = this.cell.account.core().hooks() {
            hooks::call(hooks.terminate.as_ref(), &this.cell.meta());
        }
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
            self.as_mut().finish(output);
            let home = &self.cell.account.home;
            home.counters.finished.fetch_add(1, SeqCst);
            home.core.look_whether_over();
        }
    }
}
