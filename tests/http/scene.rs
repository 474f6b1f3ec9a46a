//! What the tests of web services share: a governor, sockets, clients, and waiting for something to become true.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use quotient::tower::ResourceGroupLayer;
use quotient::{Attributes, Governor};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::support;

pub(crate) fn governor(sql: &str) -> (Governor, support::Watch) {
    let governor = Governor::builder().init_sql(sql).build().unwrap();
    let dump = governor.clone();
    let watch = support::watch("a web service", move || dump.dump());
    (governor, watch)
}

/// The user is in a header.
pub(crate) fn by_user(parts: &http::request::Parts) -> Attributes {
    match parts.headers.get("x-user") {
        Some(user) => Attributes::new().user(user.to_str().unwrap()),
        None => Attributes::new(),
    }
}

pub(crate) type Layer = ResourceGroupLayer<fn(&http::request::Parts) -> Attributes>;

pub(crate) fn layer(governor: &Governor) -> Layer {
    ResourceGroupLayer::new(governor, by_user as fn(&http::request::Parts) -> Attributes)
}

/// Waits until it is true; the watchdog waits for this.
pub(crate) async fn until(mut it_is: impl FnMut() -> bool) {
    while !it_is() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) async fn running(governor: &Governor) -> usize {
    let answer = governor.execute("SHOW RUNNING QUERIES").await.unwrap();
    answer[0].rows().len()
}

pub(crate) async fn until_running(governor: &Governor, queries: usize) {
    while running(governor).await != queries {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The group and query that this runs in.
pub(crate) fn here() -> String {
    match quotient::task::current() {
        Some(it) => format!("{} {}", it.group(), it.query_id().is_some()),
        None => "nowhere".to_owned(),
    }
}

/// Counts its live values: what a handler holds, and whether it was dropped.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<AtomicU32>);

impl Held {
    pub(crate) fn hold(&self) -> Holding {
        self.0.fetch_add(1, Ordering::SeqCst);
        Holding(self.clone())
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct Holding(Held);

impl Drop for Holding {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A door that handlers wait at.
#[derive(Clone)]
pub(crate) struct Door(Arc<Semaphore>, Arc<AtomicBool>);

impl Door {
    pub(crate) fn closed() -> Door {
        Door(Arc::new(Semaphore::new(0)), Arc::default())
    }

    pub(crate) async fn pass(&self) {
        self.1.store(true, Ordering::SeqCst);
        self.0.acquire().await.unwrap().forget();
    }

    pub(crate) fn let_pass(&self, n: usize) {
        self.0.add_permits(n);
    }
}

/// `app` under `axum::serve`, on a port of its own.
pub(crate) async fn under_axum(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Result<Bytes, hyper::Error>,
}

impl Answered {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.body.as_ref().unwrap()).unwrap()
    }
}

pub(crate) async fn whole(response: http::Response<Incoming>) -> Answered {
    let (parts, body) = response.into_parts();
    Answered {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: body.collect().await.map(|body| body.to_bytes()),
    }
}

pub(crate) fn request(user: &str, path: &str) -> http::Request<Body> {
    http::Request::get(format!("http://localhost{path}"))
        .header("host", "localhost")
        .header("x-user", user)
        .body(Body::empty())
        .unwrap()
}

/// A connection of HTTP/1.
pub(crate) async fn http1(address: SocketAddr) -> hyper::client::conn::http1::SendRequest<Body> {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// A connection of HTTP/2.
pub(crate) async fn http2(address: SocketAddr) -> hyper::client::conn::http2::SendRequest<Body> {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// One request after the other on a connection.
pub(crate) trait Ask {
    async fn ask(&mut self, request: http::Request<Body>) -> Answered;
}

impl Ask for hyper::client::conn::http1::SendRequest<Body> {
    async fn ask(&mut self, request: http::Request<Body>) -> Answered {
        self.ready().await.unwrap();
        whole(self.send_request(request).await.unwrap()).await
    }
}

impl Ask for hyper::client::conn::http2::SendRequest<Body> {
    async fn ask(&mut self, request: http::Request<Body>) -> Answered {
        self.ready().await.unwrap();
        whole(self.send_request(request).await.unwrap()).await
    }
}

/// One request on a connection of its own.
pub(crate) async fn get(address: SocketAddr, user: &str, path: &str) -> Answered {
    let mut client = http1(address).await;
    client.ask(request(user, path)).await
}
