//! A stream whose every byte is on somebody's account, and within somebody's limits.
//!
//! Mechanism; whichever thread polls the stream.

mod meter;
mod read;
mod write;

use super::resource::IoResource;
use crate::exec::account::Account;
use crate::unit::QueryId;
use meter::Meter;
use pin_project::pin_project;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
#[cfg(feature = "tower")]
use {
    crate::exec::stats::Direction,
    std::io,
    std::task::{Context, Poll, ready},
};

/// An [`AsyncRead`](tokio::io::AsyncRead) or [`AsyncWrite`](tokio::io::AsyncWrite), a socket or a pipe for instance,
/// whose bytes count for a query and its group.
///
/// Each operation is counted when it has happened: into `io_bytes` of [`Query::usage`](crate::Query::usage) and of the
/// group. If the group has `max_io_bytes_per_second`, or the stream takes part in an [`IoResource`], an operation
/// waits before it begins until it is its turn, without holding a worker, and may be shorter than was asked for: a read
/// fills less of the buffer, a write takes less of the data, as the traits allow. It is at most what comes in at the
/// rate within 20 ms, and 1 MiB. The wait counts into `io_throttled`. Without limits an operation costs some
/// nanoseconds more than that of the inner stream.
///
/// [`tokio::io::split`] works on it. Halves that the inner type has of its own are wrapped one by one:
/// `Metered::new(read_half)`, `Metered::new(write_half)`.
///
/// A stream belongs to the query or group that it was made in, wherever it is used. When that query has ended its bytes
/// still count for its group; when it moves to another group, so does the stream. A group that was dropped binds its
/// streams as it did last. A connection that serves one query after the other is put on each one's account with
/// [`charge_to`](Metered::charge_to).
///
/// # Errors
///
/// Those of the inner stream; and if an operation would have to wait though the runtime under the governor has no
/// timers (`enable_time`).
///
/// # Cancel safety
///
/// That of the inner stream: an operation that is dropped while it waits has passed nothing. Its place in the line
/// stays the stream's, for the next operation in that direction, until the stream is dropped; what it is granted
/// meanwhile is the most that an abandoned stream costs others.
///
/// # Metrics
///
/// `quotient_group_io_bytes_total`, `quotient_group_io_throttled_seconds_total`.
///
/// # Examples
///
/// ```
/// use quotient::{Attributes, Governor, io::Metered};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::{TcpListener, TcpStream};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let governor = Governor::builder()
///     .init_sql("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('max_io_bytes_per_second'='100MB')")
///     .build()?;
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// let (socket, _) = listener.accept().await?;
///
/// let query = governor.admit(&Attributes::new().user("bi")).await?;
/// let echo = query.spawn(async move {
///     let mut stream = Metered::new(socket);
///     let mut word = [0; 5];
///     stream.read_exact(&mut word).await?;
///     stream.write_all(&word).await
/// });
/// client.write_all(b"hello").await?;
/// let mut word = [0; 5];
/// client.read_exact(&mut word).await?;
/// echo.await??;
///
/// assert_eq!(&word, b"hello");
/// assert_eq!((query.usage().io_read_bytes, query.usage().io_written_bytes), (5, 5));
/// # Ok(()) }
/// ```
#[pin_project]
pub struct Metered<T> {
    #[pin]
    inner: T,
    meter: Meter,
}

impl<T> Metered<T> {
    /// On this account.
    pub(crate) fn of(account: Arc<Account>, inner: T) -> Metered<T> {
        Metered {
            inner,
            meter: Meter::new(account),
        }
    }

    /// Puts what comes on another account.
    pub(crate) fn move_to(&mut self, account: Arc<Account>) {
        self.meter.move_to(account);
    }

    /// Passes some of `bytes` that no operation of the stream carries: as many as it is granted, at least one.
    #[cfg(feature = "tower")]
    pub(crate) fn poll_pass(
        &mut self,
        direction: Direction,
        bytes: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        let granted = ready!(self.meter.poll_turn(direction, bytes, cx))?;
        self.meter.passed(direction, granted);
        Poll::Ready(Ok(granted))
    }

    /// Lets the stream take part in a shared capacity: it passes only what that grants, too. May be called several
    /// times, for several capacities; each operation asks them in this order.
    #[must_use]
    pub fn with_resource(mut self, resource: &IoResource) -> Metered<T> {
        self.meter.share(resource);
        self
    }

    /// The name of the group that pays for it now.
    pub fn group(&self) -> &str {
        self.meter.account().group().name()
    }

    /// The query that it belongs to, if any.
    pub fn query_id(&self) -> Option<QueryId> {
        self.meter.account().query()
    }

    /// The stream itself. What passes through it directly is not counted.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The stream itself, to be changed. What passes through it directly is not counted.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// The stream itself, pinned. What passes through it directly is not counted.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut T> {
        self.project().inner
    }

    /// The stream, metered no more.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: fmt::Debug> fmt::Debug for Metered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metered")
            .field("inner", &self.inner)
            .field("group", &self.group())
            .field("query", &self.query_id())
            .finish_non_exhaustive()
    }
}
