//! A page to look at: who uses what, live, as a router that any axum service mounts.
//!
//! Mechanism; the threads that serve the connections. It shows what was pulled and changes nothing. The page is one
//! document without anything from elsewhere; its figures come as server-sent events, once a second, from one picture that
//! all who look share.

mod feed;
mod picture;

use crate::governor::Governor;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{Html, IntoResponse, Response, Sse};
use axum::routing::get;
use feed::Feed;
use std::sync::Arc;

const PAGE: &str = include_str!("page.html");

/// Nothing from elsewhere, nothing to elsewhere, and in nobody else's frame.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// The dashboard of a governor: `/` is the page, `/events` its figures. Read-only; it does not keep the governor from
/// ending.
///
/// Mount it wherever it fits, behind whatever lets in those who may look: it shows users, databases and places in the
/// source. At most 64 pages are served at a time; a browser that hides the page lets go of its place.
///
/// A stream of figures ends when the governor is shut down, and by itself within 15 seconds, whereupon the page comes
/// back for the next: a graceful shutdown of the service waits for no longer than that.
///
/// # Examples
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use axum::Router;
///
/// let governor = quotient::Governor::builder().build()?;
/// let service = Router::new().nest("/dashboard", quotient::dashboard::router(&governor));
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// axum::serve(listener, service).await?;
/// # Ok(()) }
/// ```
pub fn router(governor: &Governor) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .with_state(Arc::new(Feed::of(governor)))
}

async fn page() -> impl IntoResponse {
    let heads = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (heads, Html(PAGE))
}

async fn events(State(feed): State<Arc<Feed>>) -> Response {
    let Some(stream) = feed.stream() else {
        let heads = [(header::RETRY_AFTER, "10")];
        return (StatusCode::SERVICE_UNAVAILABLE, heads, "too many look").into_response();
    };
    // A proxy that collects the answer before it passes it on would show nothing.
    let heads = [(HeaderName::from_static("x-accel-buffering"), "no")];
    (heads, Sse::new(stream)).into_response()
}
