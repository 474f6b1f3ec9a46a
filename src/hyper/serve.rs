//! The serve loop: accepts, and makes each connection a task of a group.
//!
//! Mechanism; the loop is polled by its caller, the connections by workers. Invariants:
//! 1. Nothing that one connection does ends the loop or another connection.
//! 2. Each connection's task holds a receiver of `alive` until its future is gone, however it ends.
//! 3. After the deadline of a shutdown nothing is waited for: what a client does not read, or a handler does not end,
//!    keeps the program no longer.

use super::connection::{self, Boxed};
use super::listener::BackOff;
use super::{Executor, Listener};
use crate::event;
use crate::governor::{Error, Governor};
use futures::future::{BoxFuture, Either, FutureExt, pending, select};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tower_service::Service;

/// A client may take as long to send the head of a request, as hyper's own default is.
pub(super) const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves connections of `listener` by `service`: an axum `Router`, or any other tower service of HTTP requests. Each
/// connection is a task of `default_wg` or of the group that [`Serve::group`] names, and so are the streams of HTTP/2;
/// requests are where a [`ResourceGroupLayer`](crate::tower::ResourceGroupLayer) puts them.
///
/// Awaited, it serves until [`Serve::with_graceful_shutdown`]'s signal, or until the governor's own
/// [`shutdown`](Governor::shutdown) begins; then it accepts nothing more, lets running requests finish and returns. A
/// client that does not read its answer keeps its request running: [`Serve::shutdown_timeout`] ends that wait.
///
/// # Errors
///
/// [`Error::UnknownGroup`], at once. Errors of the listener and of connections end nothing.
///
/// # Cancel safety
///
/// Dropped, it accepts nothing more; connections go on, and are asked to end when they are next idle.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use axum::{Router, routing::get};
/// use quotient::{Governor, hyper::serve};
///
/// let governor = Governor::builder()
///     .init_sql("CREATE RESOURCE GROUP edge WITH ('cpu_core_limit'='2')")
///     .build()?;
/// let app: Router = Router::new().route("/", get(|| async { "hello" }));
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
/// serve(&governor, listener, app).group("edge").await?;
/// # Ok(()) }
/// ```
#[track_caller]
pub fn serve<L, S>(governor: &Governor, listener: L, service: S) -> Serve<L, S>
where
    L: Listener,
{
    // Streams are in their connection's group; upgrades too.
    let mut builder = auto::Builder::new(Executor::inherit());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT);
    builder.http2().timer(TokioTimer::new());
    Serve {
        governor: governor.clone(),
        listener,
        service,
        builder,
        group: None,
        signal: pending().boxed(),
        patience: None,
    }
}

/// A server in the making; see [`serve`].
#[must_use = "it serves when it is awaited"]
pub struct Serve<L, S> {
    governor: Governor,
    listener: L,
    service: S,
    builder: auto::Builder<Executor>,
    group: Option<Arc<str>>,
    signal: BoxFuture<'static, ()>,
    /// How long running requests are waited for at the end.
    patience: Option<Duration>,
}

impl<L, S> Serve<L, S> {
    /// The group that the connections are tasks of, in place of `default_wg`.
    pub fn group(self, name: &str) -> Serve<L, S> {
        Serve {
            group: Some(name.into()),
            ..self
        }
    }

    /// What ends it in order.
    pub fn with_graceful_shutdown<F>(self, signal: F) -> Serve<L, S>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Serve {
            signal: signal.boxed(),
            ..self
        }
    }

    /// How long running requests may go on after the signal, or after the beginning of the governor's shutdown.
    /// Connections that are still there are cut then, handlers and bodies with them, each at its task's next poll, and
    /// [`serve`] returns. Default: for as long as they want, which for a client that does not read is for ever.
    ///
    /// Connections that were upgraded are not waited for in any case: they are whoever's that took them.
    pub fn shutdown_timeout(self, longest: Duration) -> Serve<L, S> {
        Serve {
            patience: Some(longest),
            ..self
        }
    }

    /// Changes hyper's settings: keep-alive, windows, sizes. Timers are set, and a client has 30 s to send the head of
    /// a request.
    pub fn configure(mut self, change: impl FnOnce(&mut auto::Builder<Executor>)) -> Serve<L, S> {
        change(&mut self.builder);
        self
    }
}

impl<L, S, B> IntoFuture for Serve<L, S>
where
    L: Listener,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Boxed>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Boxed>,
{
    type Output = Result<(), Error>;
    type IntoFuture = ServeFuture;

    fn into_future(self) -> ServeFuture {
        ServeFuture(self.run().boxed())
    }
}

impl<L, S> Serve<L, S>
where
    L: Listener,
{
    async fn run<B>(self) -> Result<(), Error>
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Boxed>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Boxed>,
    {
        let Serve {
            governor,
            mut listener,
            service,
            builder,
            group,
            signal,
            patience,
        } = self;
        let connections = match &group {
            Some(name) => Executor::in_group(&governor, name)?,
            None => Executor::in_group(&governor, "default_wg")?,
        };
        let builder = Arc::new(builder);
        let mut stop = select(signal, governor.closing().boxed());
        // Dropped when it is time to end: receivers see it.
        let (open, closing) = watch::channel(());
        // Dropped when there was time enough.
        let (patient, cut) = watch::channel(());
        let (last, alive) = watch::channel(());
        let mut back_off = BackOff::default();
        loop {
            let accepted = {
                let accept = std::pin::pin!(listener.accept());
                match select(&mut stop, accept).await {
                    Either::Left(_) => break,
                    Either::Right((accepted, _)) => accepted,
                }
            };
            match accepted {
                Ok((io, peer)) => {
                    back_off.accepted();
                    let (service, builder) = (service.clone(), builder.clone());
                    let (closing, cut) = (dropped(&closing), dropped(&cut));
                    let alive = alive.clone();
                    connections.spawn(async move {
                        connection::serve(io, peer, service, builder, closing, cut).await;
                        drop(alive);
                    });
                }
                Err(error) => {
                    event::accept_failed(&error);
                    let Some(wait) = back_off.failed(&error) else {
                        // A listener that only fails must not keep its thread.
                        tokio::task::consume_budget().await;
                        continue;
                    };
                    let sleep = std::pin::pin!(tokio::time::sleep(wait));
                    if let Either::Left(_) = select(&mut stop, sleep).await {
                        break;
                    }
                }
            }
        }
        drop((listener, service, open, closing, alive));
        let gone = last.closed();
        match patience {
            None => gone.await,
            Some(longest) => {
                // An error is the end of patience: what is left sees it.
                let _ = tokio::time::timeout(longest, gone).await;
                drop(patient);
            }
        }
        Ok(())
    }
}

/// Waits until the other end is dropped.
fn dropped(end: &watch::Receiver<()>) -> impl Future<Output = ()> + Send + 'static + use<> {
    let mut end = end.clone();
    async move { drop(end.changed().await) }
}

/// The future of [`Serve`].
#[must_use = "futures do nothing unless polled"]
pub struct ServeFuture(BoxFuture<'static, Result<(), Error>>);

impl Future for ServeFuture {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for ServeFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeFuture").finish_non_exhaustive()
    }
}

impl<L, S> fmt::Debug for Serve<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}
