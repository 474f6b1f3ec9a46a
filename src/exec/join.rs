//! The other end of a task: awaiting its output, aborting it, and the error that says how it ended.
//!
//! Mechanism; any thread. Semantics and texts are tokio's; what a handle adds is [`JoinError::cause`].

use super::task::{Id, Meta, Task};
use crate::foreign::contain;
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem::needs_drop;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

/// Why the executor ended a task: an error of the layer above, which gets it back by downcasting.
pub type Cause = Arc<dyn std::error::Error + Send + Sync + 'static>;

/// An owned permission to await a task's output, as `tokio::task::JoinHandle`.
///
/// The task runs whether or not the handle is awaited; dropping the handle detaches it.
///
/// # Cancel safety
///
/// Awaiting `&mut handle` is cancel safe: if something else in a `select!` completes first, the output is
/// still there for the next await.
pub struct JoinHandle<T> {
    /// Only a drop takes it.
    place: Option<Place<T>>,
    /// The output is had.
    taken: bool,
}

/// Where the output will be.
enum Place<T> {
    /// In the task's own block.
    Block(async_task::Task<Output<T>, Meta>),
    /// Apart: it is no future that it comes from.
    Apart(Arc<Task>, Arc<Mutex<Output<T>>>),
}

/// An output on its way to the handle. Dropped on that way, it does not panic.
pub(super) struct Output<T>(Option<Result<T, JoinError>>);

impl<T> Output<T> {
    pub(super) fn new(output: Option<Result<T, JoinError>>) -> Output<T> {
        Output(output)
    }

    /// Whether dropping it runs code of the user's.
    pub(super) fn has_destructor(&self) -> bool {
        let output = self.0.as_ref();
        output.is_some_and(|output| needs_drop::<T>() || output.is_err())
    }
}

impl<T> Default for Output<T> {
    fn default() -> Output<T> {
        Output(None)
    }
}

impl<T> Drop for Output<T> {
    #[inline]
    fn drop(&mut self) {
        if self.has_destructor() {
            contain(|| drop(self.0.take()));
        }
    }
}

impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

impl<T: Send + 'static> JoinHandle<T> {
    pub(super) fn of(block: async_task::Task<Output<T>, Meta>) -> JoinHandle<T> {
        JoinHandle {
            place: Some(Place::Block(block)),
            taken: false,
        }
    }

    pub(super) fn apart(task: Arc<Task>, output: Arc<Mutex<Output<T>>>) -> JoinHandle<T> {
        JoinHandle {
            place: Some(Place::Apart(task, output)),
            taken: false,
        }
    }
}

impl<T> JoinHandle<T> {
    #[inline]
    pub(super) fn task(&self) -> &Arc<Task> {
        match &self.place {
            Some(Place::Block(block)) => &block.metadata().task,
            Some(Place::Apart(task, _)) => task,
            None => unreachable!("only a drop takes it"),
        }
    }

    fn poll_join(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        assert!(!self.taken, "JoinHandle polled after completion");
        let task = self.task();
        if !task.is_finished() && !task.leave(cx.waker()) {
            return Poll::Pending;
        }
        let output = match (task.take_error(), &mut self.place) {
            (Some(error), _) => Some(Err(error)),
            // It is there: the waker is not kept.
            (None, Some(Place::Block(block))) => {
                let mut nobody = Context::from_waker(Waker::noop());
                ready!(Pin::new(block).poll(&mut nobody)).0.take()
            }
            (None, Some(Place::Apart(_, output))) => output.lock().0.take(),
            (None, None) => None,
        };
        self.taken = output.is_some();
        output.map_or(Poll::Pending, Poll::Ready)
    }

    /// Asks the task to end at its next await point. A task that has completed keeps its result; a task that
    /// was never polled never will be. Idempotent; any thread; takes effect even if the handle is dropped
    /// right after.
    pub fn abort(&self) {
        self.task().abort();
    }

    /// Whether the task is over: its future has been dropped and its result is ready.
    pub fn is_finished(&self) -> bool {
        self.task().is_finished()
    }

    /// The task's id.
    pub fn id(&self) -> Id {
        self.task().id()
    }

    /// A remote control for the task that cannot await it.
    #[must_use = "an abort handle does nothing unless `.abort` is called"]
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle {
            task: self.task().clone(),
        }
    }

    /// Has `waker` woken when the task has ended, which may be now.
    pub(super) fn watch(&self, waker: Waker) {
        self.task().watch(waker);
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // One unit of the caller's cooperative budget per output, as tokio's handle takes.
        let restore = ready!(tokio::task::coop::poll_proceed(cx));
        let output = self.poll_join(cx);
        if output.is_ready() {
            restore.made_progress();
        }
        output
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        match self.place.take() {
            Some(Place::Block(block)) => {
                block.metadata().task.detach(needs_drop::<T>());
                block.detach();
            }
            Some(Place::Apart(task, _)) => task.detach(needs_drop::<T>()),
            None => {}
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("id", &self.id())
            .finish()
    }
}

/// A permission to abort a task without the ability to await it, as `tokio::task::AbortHandle`.
#[derive(Clone)]
pub struct AbortHandle {
    task: Arc<Task>,
}

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl AbortHandle {
    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.task.abort();
    }

    /// As [`JoinHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// The task's id.
    pub fn id(&self) -> Id {
        self.task.id()
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle")
            .field("id", &self.id())
            .finish()
    }
}

/// How a task ended without an output: it was cancelled, or it panicked.
pub struct JoinError(Box<Why>);

/// Behind a pointer: an error is rare, and its size would be part of every task's.
struct Why {
    id: Id,
    repr: Repr,
}

enum Repr {
    Cancelled(Option<Cause>),
    // The mutex only makes the payload shareable; it is never contended.
    Panic(parking_lot::Mutex<Box<dyn Any + Send + 'static>>),
}

impl JoinError {
    /// A task that was cancelled, for `cause` if the executor ended it.
    pub(crate) fn cancelled(id: Id, cause: Option<Cause>) -> JoinError {
        let repr = Repr::Cancelled(cause);
        JoinError(Box::new(Why { id, repr }))
    }

    pub(super) fn panic(id: Id, payload: Box<dyn Any + Send + 'static>) -> JoinError {
        let repr = Repr::Panic(parking_lot::Mutex::new(payload));
        JoinError(Box::new(Why { id, repr }))
    }

    /// Whether the task was cancelled, by abort, kill or shutdown.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.repr, Repr::Cancelled(_))
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.0.repr, Repr::Panic(_))
    }

    /// The id of the task.
    pub fn id(&self) -> Id {
        self.0.id
    }

    /// The payload of the panic.
    ///
    /// # Panics
    ///
    /// If the task did not panic; see [`JoinError::try_into_panic`].
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("`JoinError` reason is not a panic.: {error:?}"),
        }
    }

    /// The payload of the panic.
    ///
    /// # Errors
    ///
    /// The error itself, if the task did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self.0.repr {
            Repr::Panic(payload) => Ok(payload.into_inner()),
            Repr::Cancelled(cause) => Err(JoinError::cancelled(self.0.id, cause)),
        }
    }

    /// Why the executor ended the task. None for a plain abort and for a panic.
    pub fn cause(&self) -> Option<&Cause> {
        match &self.0.repr {
            Repr::Cancelled(cause) => cause.as_ref(),
            Repr::Panic(_) => None,
        }
    }
}

fn text(payload: &(dyn Any + Send)) -> Option<String> {
    payload.downcast_ref::<String>().cloned().or_else(|| {
        payload
            .downcast_ref::<&'static str>()
            .map(|s| s.to_string())
    })
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.repr {
            Repr::Cancelled(None) => write!(f, "task {} was cancelled", self.0.id),
            Repr::Cancelled(Some(cause)) => write!(f, "task {} was cancelled: {cause}", self.0.id),
            Repr::Panic(payload) => match text(&**payload.lock()) {
                Some(text) => write!(f, "task {} panicked with message {text:?}", self.0.id),
                None => write!(f, "task {} panicked", self.0.id),
            },
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.repr {
            Repr::Cancelled(None) => write!(f, "JoinError::Cancelled({:?})", self.0.id),
            Repr::Cancelled(Some(cause)) => {
                write!(f, "JoinError::Cancelled({:?}, {cause:?})", self.0.id)
            }
            Repr::Panic(payload) => match text(&**payload.lock()) {
                Some(text) => write!(f, "JoinError::Panic({:?}, {text:?}, ...)", self.0.id),
                None => write!(f, "JoinError::Panic({:?}, ...)", self.0.id),
            },
        }
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().map(|cause| &**cause as _)
    }
}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> io::Error {
        io::Error::other(match error.0.repr {
            Repr::Cancelled(_) => "task was cancelled",
            Repr::Panic(_) => "task panicked",
        })
    }
}
