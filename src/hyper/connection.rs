//! One connection, from its first byte to its last.
//!
//! Mechanism; on workers, as a task of the connections' group.

use super::Executor;
use super::prompt::Prompt;
use futures::future::{Either, select};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service;

/// Whatever error a service or a body has.
pub(super) type Boxed = Box<dyn Error + Send + Sync>;

/// Who is at the other end: an extension of each request of [`serve`](super::serve).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer<A = std::net::SocketAddr>(pub A);

/// Serves one connection until its end. `closing` asks it to end when it is next idle; `cut` ends it after that.
pub(super) async fn serve<I, S, A, B>(
    io: I,
    peer: A,
    service: S,
    builder: Arc<auto::Builder<Executor>>,
    closing: impl Future<Output = ()>,
    cut: impl Future<Output = ()>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Clone + Send + Sync + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Boxed>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Boxed>,
{
    let service = TowerToHyperService::new(Introduced { service, peer });
    let io = TokioIo::new(Prompt::new(io));
    let connection = builder.serve_connection_with_upgrades(io, service);
    let mut connection = pin!(connection);
    let over = match select(connection.as_mut(), pin!(closing)).await {
        Either::Left((over, _)) => over,
        Either::Right(((), _)) => {
            connection.as_mut().graceful_shutdown();
            match select(connection, pin!(cut)).await {
                Either::Left((over, _)) => over,
                Either::Right(((), _)) => return,
            }
        }
    };
    // A client that broke off or sent nonsense was told so, where that was possible; it concerns nobody else.
    drop(over);
}

/// Tells each request who its client is.
#[derive(Clone)]
struct Introduced<S, A> {
    service: S,
    peer: A,
}

impl<S, A> Service<Request<Incoming>> for Introduced<S, A>
where
    S: Service<Request<Incoming>>,
    A: Clone + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> S::Future {
        request.extensions_mut().insert(Peer(self.peer.clone()));
        self.service.call(request)
    }
}
