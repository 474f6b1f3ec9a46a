//! The service that the layer makes: admission in `call`, nothing in `poll_ready`.
//!
//! Mechanism; any thread.

use super::ResponseFuture;
use super::layer::Shared;
use crate::classify::Attributes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_service::Service;

use super::{OnReject, ResponseBody};

/// An HTTP service whose requests are queries. Made by [`ResourceGroupLayer`](super::ResourceGroupLayer).
pub struct ResourceGroup<S, F, H> {
    inner: S,
    shared: Arc<Shared<F, H>>,
}

impl<S, F, H> ResourceGroup<S, F, H> {
    pub(super) fn new(inner: S, shared: Arc<Shared<F, H>>) -> ResourceGroup<S, F, H> {
        ResourceGroup { inner, shared }
    }
}

impl<S, F, H, A, B> Service<Request<A>> for ResourceGroup<S, F, H>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    A: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    F: Fn(&Parts) -> Attributes,
    H: OnReject<B>,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, F, H, A, B>;

    /// The inner service's readiness; no place is taken.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    /// Takes a place, or one in the line.
    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let attributes = (self.shared.attributes)(&parts);
        let request = Request::from_parts(parts, body);
        ResponseFuture::begin(self.shared.clone(), attributes, &mut self.inner, request)
    }
}

impl<S: Clone, F, H> Clone for ResourceGroup<S, F, H> {
    fn clone(&self) -> Self {
        ResourceGroup {
            inner: self.inner.clone(),
            shared: self.shared.clone(),
        }
    }
}

impl<S: fmt::Debug, F, H> fmt::Debug for ResourceGroup<S, F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceGroup")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
