//! The layer for services of anything: no status codes, but an error that says which.
//!
//! Mechanism; any thread.

use super::course::Course;
use super::future::origin;
use crate::admission::AdmissionError;
use crate::classify::Attributes;
use crate::exec::join::JoinError;
use crate::governor::Governor;
use std::fmt;
use std::future::Future;
use std::panic::{Location, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tower_layer::Layer;
use tower_service::Service;

/// Runs each request of a service as a query of the group that its attributes lead to. For HTTP, see
/// [`ResourceGroupLayer`](super::ResourceGroupLayer), which promises the same.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quotient::{AdmissionError, Attributes, Governor, tower::{QueryError, QueryLayer}};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// let governor = Governor::builder()
///     .init_sql("CREATE RESOURCE GROUP reports TO (db='sales') WITH ('concurrency_limit'='1')")
///     .build()?;
/// let layer = QueryLayer::new(&governor, |database: &&str| Attributes::new().db(*database));
/// let service = layer.layer(service_fn(|database: &'static str| async move {
///     Ok::<_, std::io::Error>(format!("{database}: 42"))
/// }));
/// assert_eq!(service.clone().oneshot("sales").await?, "sales: 42");
///
/// let taken = governor.try_admit(&Attributes::new().db("sales"))?;
/// let refused = service.oneshot("sales").await;
/// assert!(matches!(refused, Err(QueryError::NotAdmitted(AdmissionError::Rejected { limit: 1, .. }))));
/// # drop(taken); Ok(()) }
/// ```
pub struct QueryLayer<F> {
    shared: Arc<Shared<F>>,
}

struct Shared<F> {
    governor: Governor,
    attributes: F,
    place: &'static Location<'static>,
}

impl<F> QueryLayer<F> {
    /// A layer that takes the attributes from the request. The closure is called once per request.
    #[track_caller]
    pub fn new<R>(governor: &Governor, attributes: F) -> QueryLayer<F>
    where
        F: Fn(&R) -> Attributes,
    {
        QueryLayer {
            shared: Arc::new(Shared {
                governor: governor.clone(),
                attributes,
                place: Location::caller(),
            }),
        }
    }
}

impl<S, F> Layer<S> for QueryLayer<F> {
    type Service = QueryService<S, F>;

    fn layer(&self, inner: S) -> QueryService<S, F> {
        QueryService {
            inner,
            shared: self.shared.clone(),
        }
    }
}

/// A service whose requests are queries. Made by [`QueryLayer`].
pub struct QueryService<S, F> {
    inner: S,
    shared: Arc<Shared<F>>,
}

impl<S, F, R> Service<R> for QueryService<S, F>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    R: Send + 'static,
    F: Fn(&R) -> Attributes,
{
    type Response = S::Response;
    type Error = QueryError<S::Error>;
    type Future = QueryFuture<S, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(QueryError::Service)
    }

    fn call(&mut self, request: R) -> QueryFuture<S, R> {
        let Shared {
            governor,
            attributes,
            place,
        } = &*self.shared;
        QueryFuture {
            course: Course::begin(governor, attributes(&request), &mut self.inner, request),
            place,
        }
    }
}

/// The future of [`QueryService`].
///
/// # Cancel safety
///
/// As [`ResponseFuture`](super::ResponseFuture).
#[must_use = "futures do nothing unless polled"]
pub struct QueryFuture<S: Service<R>, R> {
    course: Course<S, R, Result<S::Response, S::Error>>,
    place: &'static Location<'static>,
}

// Nothing of it is pinned.
impl<S: Service<R>, R> Unpin for QueryFuture<S, R> {}

impl<S, R> Future for QueryFuture<S, R>
where
    S: Service<R> + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    R: Send + 'static,
{
    type Output = Result<S::Response, QueryError<S::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let place = this.place;
        let course = this.course.poll(cx, |query, turn, request| {
            query.spawn_as(origin(place), turn.call(request))
        });
        Poll::Ready(match ready!(course) {
            Ok(Ok(given)) => given.map_err(QueryError::Service),
            Ok(Err(error)) => match error.try_into_panic() {
                Ok(payload) => resume_unwind(payload),
                Err(error) => Err(QueryError::Ended(error)),
            },
            Err((refusal, _)) => Err(QueryError::NotAdmitted(refusal)),
        })
    }
}

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError<E> {
    /// It was refused, and nothing of it ran.
    #[error("not admitted: {0}")]
    NotAdmitted(#[source] AdmissionError),
    /// Its query was ended; [`JoinError::reason`] says why.
    #[error(transparent)]
    Ended(JoinError),
    /// The inner service's own error.
    #[error("{0}")]
    Service(E),
}

impl<F> Clone for QueryLayer<F> {
    fn clone(&self) -> Self {
        QueryLayer {
            shared: self.shared.clone(),
        }
    }
}

impl<S: Clone, F> Clone for QueryService<S, F> {
    fn clone(&self) -> Self {
        QueryService {
            inner: self.inner.clone(),
            shared: self.shared.clone(),
        }
    }
}

impl<F> fmt::Debug for QueryLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryLayer").finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, F> fmt::Debug for QueryService<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<S: Service<R>, R> fmt::Debug for QueryFuture<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryFuture").finish_non_exhaustive()
    }
}
