//! A closure on its way through the pool.
//!
//! Mechanism; run and dropped by a thread of the pool, but for one that is refused. However it is dropped, its handle
//! learns how it ended.

use super::meter::Meter;
use crate::event::span::Span;
use crate::exec::account::Account;
use crate::exec::context::{self, Lendable, Scope};
use crate::exec::join::{Cause, JoinError, Output};
use crate::exec::task::Task;
use crate::foreign::contain;
use crate::mem;
use parking_lot::Mutex;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Waker;

/// A job without its types. Dropping it publishes how it ended, if that was not done.
pub(super) trait Closure: Send {
    /// Runs it, unless it must end: all that is left is to publish how it ended. Does not panic.
    fn run(&mut self, meter: &mut Meter);

    /// Whether it has ended, and somebody may ask how: then publishing it is short work, which is to wake.
    fn is_awaited(&self) -> bool;

    /// Publishes how it ended, if it has ended: whom to wake afterwards.
    fn publish(&mut self) -> Option<Waker>;

    /// Whether it was published, and the handle was gone: its destructor drops an output that has one too.
    fn is_left_with_output(&self) -> bool;

    /// Drops it: for `cause`, unless it must end anyway.
    fn refuse(self: Box<Self>, cause: &dyn Fn(&Account) -> Cause);

    /// Whether it must end before it begins.
    fn must_end(&self) -> bool;
}

pub(super) struct Job<F, R: Send + 'static> {
    closure: Option<F>,
    scope: Lendable,
    /// Shared with the handle; none once it is published.
    place: Option<Arc<Mutex<Output<R>>>>,
    span: Span,
    /// How it ended, until that is published.
    output: Option<Result<R, JoinError>>,
    /// It was published, and nobody is there to take it.
    unwanted: Option<Output<R>>,
    refused: Option<Cause>,
}

impl<F, R: Send + 'static> Job<F, R> {
    pub(super) fn new(
        closure: F,
        scope: Scope,
        place: Arc<Mutex<Output<R>>>,
        span: Span,
    ) -> Job<F, R> {
        Job {
            closure: Some(closure),
            scope: Lendable::new(scope),
            place: Some(place),
            span,
            output: None,
            unwanted: None,
            refused: None,
        }
    }

    fn task(&self) -> &Arc<Task> {
        match self.scope.get() {
            Some(scope) => &scope.task,
            None => unreachable!("the thread has given it back"),
        }
    }

    /// Drops a closure that was not begun, in its context; the payload if its destructor panicked.
    fn drop_closure(&mut self) -> Option<Box<dyn Any + Send>> {
        let closure = self.closure.take();
        let span = &self.span;
        context::in_task(&mut self.scope, || {
            catch_unwind(AssertUnwindSafe(|| span.within(|| drop(closure)))).err()
        })
    }

    /// It has ended: all that comes before the output.
    fn finish(&mut self, output: Result<R, JoinError>) {
        let lease = self.scope.get_mut().and_then(|scope| scope.lease.take());
        let task = self.task().clone();
        let account = task.account();
        if let Err(error) = &output {
            account.task_failed(error);
        }
        account.task_gone(task.id().number());
        contain(|| drop(lease));
        self.span.end();
        account.home.counters.blocking.fetch_sub(1, SeqCst);
        self.output = Some(output);
    }
}

impl<F, R> Closure for Job<F, R>
where
    F: FnOnce() -> R + Send,
    R: Send + 'static,
{
    fn is_awaited(&self) -> bool {
        let place = self.place.as_ref().filter(|_| self.output.is_some());
        place.is_some_and(|place| Arc::strong_count(place) > 1)
    }

    fn publish(&mut self) -> Option<Waker> {
        let (output, place) = (self.output.take()?, self.place.take()?);
        *place.lock() = Output::new(Some(output));
        let waker = self.task().publish_quietly();
        // Either the handle drops it, or this does: whoever lets go of the place last.
        let unwanted = Arc::into_inner(place).map(Mutex::into_inner);
        self.unwanted = unwanted.filter(Output::has_destructor);
        waker
    }

    fn is_left_with_output(&self) -> bool {
        self.unwanted.is_some()
    }

    fn run(&mut self, meter: &mut Meter) {
        if self.must_end() {
            return;
        }
        let Some(closure) = self.closure.take() else {
            return;
        };
        meter.begin();
        let span = &self.span;
        let result = context::in_task(&mut self.scope, || {
            catch_unwind(AssertUnwindSafe(|| span.within(closure)))
        });
        if mem::take_doom() {
            // It has run to its end all the same; what else is its query's ends.
            self.task().account().core().kill_doomed();
            let _ = mem::take_refusal();
        }
        self.task().account().charge_blocking(meter.end());
        self.finish(result.map_err(|payload| JoinError::panic(self.task().id(), payload)));
    }

    fn refuse(mut self: Box<Self>, cause: &dyn Fn(&Account) -> Cause) {
        if !self.must_end() {
            self.refused = Some(cause(self.task().account()));
        }
    }

    fn must_end(&self) -> bool {
        let account = self.task().account();
        self.task().is_aborted()
            || account.killed().is_some()
            || account.core().cancelled().is_some()
    }
}

impl<F, R: Send + 'static> Drop for Job<F, R> {
    fn drop(&mut self) {
        if self.task().is_finished() {
            if let Some(unwanted) = self.unwanted.take() {
                let _owner = mem::enter(self.task().account().memory());
                // As every destructor it gets the memory that it asks for.
                mem::lifted(|| drop(unwanted));
            }
            return;
        }
        if self.output.is_none() {
            // Aborted, killed, shut down or refused: it never began.
            let cause = self.refused.take().or_else(|| self.task().cause());
            let output = match self.drop_closure() {
                None => JoinError::cancelled(self.task().id(), cause),
                Some(payload) => JoinError::panic(self.task().id(), payload),
            };
            self.finish(Err(output));
        }
        if let Some(output) = self.output.take()
            && let Some(output) = self.task().unless_detached(output)
            && let Some(place) = &self.place
        {
            *place.lock() = Output::new(Some(output));
        }
        self.task().publish();
    }
}
