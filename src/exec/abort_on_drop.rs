//! Handles that end their task when they are dropped, as tokio-util's.
//!
//! Mechanism; any thread.

use super::join::{AbortHandle, JoinError, JoinHandle};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A [`JoinHandle`] that aborts its task when it is dropped, as `tokio_util::task::AbortOnDropHandle`.
///
/// # Cancel safety
///
/// Awaiting `&mut handle` is cancel safe, as with a [`JoinHandle`]; dropping the handle aborts the task.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quotient::task::AbortOnDropHandle;
///
/// let governor = quotient::Governor::builder().build()?;
/// let forever = governor.spawn_in("default_wg", std::future::pending::<()>())?;
/// let ended = forever.abort_handle();
/// drop(AbortOnDropHandle::new(forever));
/// while !ended.is_finished() {
///     tokio::task::yield_now().await;
/// }
/// # Ok(()) }
/// ```
#[must_use = "Dropping the handle aborts the task immediately"]
pub struct AbortOnDropHandle<T> {
    abort: AbortOnDrop,
    handle: JoinHandle<T>,
}

impl<T> AbortOnDropHandle<T> {
    /// Takes over the handle of a task.
    pub fn new(handle: JoinHandle<T>) -> AbortOnDropHandle<T> {
        AbortOnDropHandle {
            abort: AbortOnDrop::new(handle.abort_handle()),
            handle,
        }
    }

    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// As [`JoinHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// As [`JoinHandle::abort_handle`].
    pub fn abort_handle(&self) -> AbortHandle {
        self.handle.abort_handle()
    }

    /// Gives the plain handle back; nothing is aborted.
    pub fn detach(self) -> JoinHandle<T> {
        let AbortOnDropHandle { abort, handle } = self;
        drop(abort.detach());
        handle
    }
}

impl<T> Future for AbortOnDropHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.handle).poll(cx)
    }
}

impl<T> AsRef<JoinHandle<T>> for AbortOnDropHandle<T> {
    fn as_ref(&self) -> &JoinHandle<T> {
        &self.handle
    }
}

impl<T> fmt::Debug for AbortOnDropHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortOnDropHandle")
            .field("id", &self.handle.id())
            .finish()
    }
}

/// An [`AbortHandle`] that aborts its task when it is dropped, as `tokio_util::task::AbortOnDrop`.
#[must_use = "Dropping the handle aborts the task immediately"]
pub struct AbortOnDrop {
    handle: AbortHandle,
    armed: bool,
}

impl AbortOnDrop {
    /// Takes over an abort handle.
    pub fn new(handle: AbortHandle) -> AbortOnDrop {
        AbortOnDrop {
            handle,
            armed: true,
        }
    }

    /// As [`AbortHandle::abort`].
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// As [`AbortHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Gives the plain handle back; nothing is aborted.
    pub fn detach(mut self) -> AbortHandle {
        self.armed = false;
        self.handle.clone()
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.handle.abort();
        }
    }
}

impl fmt::Debug for AbortOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortOnDrop")
            .field("id", &self.handle.id())
            .finish()
    }
}
