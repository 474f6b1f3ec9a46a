//! A response on its way: what the caller of the service polls.
//!
//! Mechanism; whichever task polls it. The handler is not polled here but by a worker: see `course`.

use super::answer::{Answer, is_grpc};
use super::body::{Making, begin};
use super::course::{Course, Turn};
use super::layer::Shared;
use super::{OnReject, ResponseBody};
use crate::classify::Attributes;
use crate::exec::join::JoinError;
use crate::exec::task::Origin;
use http::{Request, Response};
use http_body::Body;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::panic::{Location, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_service::Service;

type Given<S, A, B> = Result<Response<ResponseBody<B>>, <S as Service<Request<A>>>::Error>;

/// The future of [`ResourceGroup`](super::ResourceGroup).
///
/// # Cancel safety
///
/// Dropped while the request waits, it leaves the line; later it ends the handler, whose future is dropped by a
/// worker, and the place is free.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<S, F, H, A, B>
where
    S: Service<Request<A>>,
    B: Body,
{
    course: Course<S, Request<A>, Given<S, A, B>>,
    shared: Arc<Shared<F, H>>,
    is_grpc: bool,
}

// Nothing of it is pinned.
impl<S, F, H, A, B> Unpin for ResponseFuture<S, F, H, A, B>
where
    S: Service<Request<A>>,
    B: Body,
{
}

impl<S, F, H, A, B> ResponseFuture<S, F, H, A, B>
where
    S: Service<Request<A>> + Clone,
    B: Body,
{
    pub(super) fn begin(
        shared: Arc<Shared<F, H>>,
        attributes: Attributes,
        service: &mut S,
        request: Request<A>,
    ) -> Self {
        ResponseFuture {
            is_grpc: is_grpc(request.headers()),
            course: Course::begin(&shared.governor, attributes, service, request),
            shared,
        }
    }
}

impl<S, F, H, A, B> Future for ResponseFuture<S, F, H, A, B>
where
    S: Service<Request<A>, Response = Response<B>> + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    A: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    H: OnReject<B>,
{
    type Output = Given<S, A, B>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let making = Making {
            place: this.shared.place,
            is_grpc: this.is_grpc,
            is_metered: this.shared.meters_bodies,
        };
        let course = this.course.poll(cx, |query, turn, request| {
            query.spawn_as(origin(making.place), respond(turn, request, making))
        });
        Poll::Ready(match ready!(course) {
            Ok(Ok(given)) => given,
            Ok(Err(error)) => Ok(ended(error, making.is_grpc)),
            Err((refusal, request)) => {
                let (parts, _) = request.into_parts();
                Ok(this.shared.on_reject.reject(&refusal, &parts))
            }
        })
    }
}

pub(super) fn origin(place: &'static Location<'static>) -> Origin {
    Origin { place, name: None }
}

/// The task: the handler, and the beginning of its body.
async fn respond<S, A, B>(turn: Turn<S>, request: Request<A>, making: Making) -> Given<S, A, B>
where
    S: Service<Request<A>, Response = Response<B>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (head, body) = turn.call(request).await?.into_parts();
    let body = begin(body, making).await;
    Ok(Response::from_parts(head, body))
}

/// The handler gave no response. Its panic goes on here, in whoever would have polled it without us.
fn ended<B: Body>(error: JoinError, is_grpc: bool) -> Response<ResponseBody<B>> {
    let error = match error.try_into_panic() {
        Ok(payload) => resume_unwind(payload),
        Err(error) => error,
    };
    let mut response = Answer::to_end(error.reason()).response(is_grpc);
    if let Some(reason) = error.reason() {
        response.extensions_mut().insert(reason.clone());
    }
    response
}

impl<S, F, H, A, B> fmt::Debug for ResponseFuture<S, F, H, A, B>
where
    S: Service<Request<A>>,
    B: Body,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
