//! The layer for HTTP: what it is told once, for all requests.
//!
//! Mechanism; any thread.

use super::{Answers, ResourceGroup};
use crate::classify::Attributes;
use crate::governor::Governor;
use http::request::Parts;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use tower_layer::Layer;

/// Runs each request of an HTTP service as a query of the group that its attributes lead to.
///
/// The governor must be the one of the runtime that the service runs on, or one with threads of its own.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use axum::{Router, routing::get};
/// use quotient::{Attributes, Governor, tower::ResourceGroupLayer};
/// use tower::ServiceExt;
///
/// let governor = Governor::builder()
///     .init_sql("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('concurrency_limit'='20')")
///     .build()?;
/// let layer = ResourceGroupLayer::new(&governor, |parts: &http::request::Parts| {
///     match parts.headers.get("x-user").and_then(|user| user.to_str().ok()) {
///         Some(user) => Attributes::new().user(user),
///         None => Attributes::new(),
///     }
/// });
/// let group = || async { quotient::task::current().map_or(String::new(), |it| it.group().to_owned()) };
/// let app: Router = Router::new().route("/group", get(group)).layer(layer);
///
/// let request = http::Request::get("/group").header("x-user", "bi").body(axum::body::Body::empty())?;
/// let response = app.oneshot(request).await?;
/// let body = axum::body::to_bytes(response.into_body(), 64).await?;
/// assert_eq!(body, "bi");
/// # Ok(()) }
/// ```
pub struct ResourceGroupLayer<F, H = Answers> {
    pub(super) shared: Arc<Shared<F, H>>,
}

/// What every clone of a layer and every service of it knows.
pub(super) struct Shared<F, H> {
    pub(super) governor: Governor,
    pub(super) attributes: Arc<F>,
    pub(super) on_reject: H,
    pub(super) meters_bodies: bool,
    /// The line that made the layer: long polls are put down with it.
    pub(super) place: &'static Location<'static>,
}

impl<F> ResourceGroupLayer<F>
where
    F: Fn(&Parts) -> Attributes,
{
    /// A layer that takes the attributes of a request from its head: headers, URI, extensions.
    ///
    /// `attributes` is called once per request, by whoever calls the service. Where the address of the client is
    /// depends on the server: axum's `ConnectInfo`, tonic's `TcpConnectInfo` and
    /// [`hyper::Peer`](https://docs.rs/quotient/latest/quotient/hyper/struct.Peer.html) are extensions.
    #[track_caller]
    pub fn new(governor: &Governor, attributes: F) -> ResourceGroupLayer<F> {
        ResourceGroupLayer {
            shared: Arc::new(Shared {
                governor: governor.clone(),
                attributes: Arc::new(attributes),
                on_reject: Answers,
                meters_bodies: false,
                place: Location::caller(),
            }),
        }
    }
}

impl<F, H> ResourceGroupLayer<F, H> {
    /// Answers refusals by `hook`, for instance with a body that explains: a closure of the
    /// [`AdmissionError`](crate::AdmissionError) and the request's head, which gives a response as the inner service
    /// does. It is called in place of the answers of the table in [`tower`](crate::tower), for gRPC too.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use axum::{Router, body::Body, response::{IntoResponse, Response}, routing::get};
    /// use quotient::{AdmissionError, Attributes, Governor, tower::ResourceGroupLayer};
    /// use tower::ServiceExt;
    ///
    /// let governor = Governor::builder()
    ///     .init_sql("CREATE RESOURCE GROUP closed TO (query_type IN ('other')) WITH ('concurrency_limit'='1')")
    ///     .build()?;
    /// let taken = governor.try_admit(&Attributes::new().query_type(quotient::QueryType::Other))?;
    /// let layer = ResourceGroupLayer::new(&governor, |_: &http::request::Parts| {
    ///     Attributes::new().query_type(quotient::QueryType::Other)
    /// })
    /// .on_reject(|why: &AdmissionError, _: &http::request::Parts| -> Response {
    ///     (http::StatusCode::TOO_MANY_REQUESTS, format!("{:?} is busy", why.group())).into_response()
    /// });
    /// let app: Router = Router::new().route("/", get(|| async { "done" })).layer(layer);
    /// let response = app.oneshot(http::Request::new(Body::empty())).await?;
    /// assert_eq!(axum::body::to_bytes(response.into_body(), 64).await?, "Some(\"closed\") is busy");
    /// # drop(taken); Ok(()) }
    /// ```
    #[must_use]
    pub fn on_reject<T>(self, hook: T) -> ResourceGroupLayer<F, T> {
        self.changed(hook, self.shared.meters_bodies)
    }

    /// Makes the bytes of response bodies IO of their queries, as if they were written to a
    /// [`Metered`](crate::io::Metered) stream: they count for `io_written_bytes`, and within the group's
    /// `max_io_bytes_per_second`, at which bodies then wait. Without it they are nobody's.
    ///
    /// # Metrics
    ///
    /// `quotient_group_io_bytes_total`, `quotient_group_io_throttled_seconds_total`.
    #[must_use]
    pub fn meter_bodies(self) -> ResourceGroupLayer<F, H>
    where
        H: Clone,
    {
        self.changed(self.shared.on_reject.clone(), true)
    }

    /// The same layer, but for what may be changed of it.
    fn changed<T>(&self, on_reject: T, meters_bodies: bool) -> ResourceGroupLayer<F, T> {
        ResourceGroupLayer {
            shared: Arc::new(Shared {
                governor: self.shared.governor.clone(),
                attributes: self.shared.attributes.clone(),
                on_reject,
                meters_bodies,
                place: self.shared.place,
            }),
        }
    }
}

impl<S, F, H> Layer<S> for ResourceGroupLayer<F, H> {
    type Service = ResourceGroup<S, F, H>;

    fn layer(&self, inner: S) -> ResourceGroup<S, F, H> {
        ResourceGroup::new(inner, self.shared.clone())
    }
}

impl<F, H> Clone for ResourceGroupLayer<F, H> {
    fn clone(&self) -> Self {
        ResourceGroupLayer {
            shared: self.shared.clone(),
        }
    }
}

impl<F, H> fmt::Debug for ResourceGroupLayer<F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceGroupLayer").finish_non_exhaustive()
    }
}
