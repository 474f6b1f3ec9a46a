//! Connections in a group too: a serve loop on threads of the governor's own, without axum and without
//! `#[tokio::main]`: `cargo run --features hyper --example hyper`
//!
//! Reading, parsing and writing for all sockets is the work of `edge`, which has its share of the workers and no more;
//! what a request asks for is the work of its tenant's group. It is its own client, and ends.

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use quotient::hyper::{Executor, Peer, serve};
use quotient::{Attributes, Governor, Host, tower::ResourceGroupLayer};
use std::convert::Infallible;
use std::future::IntoFuture;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, service_fn};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let governor = Governor::builder()
        .host(Host::Owned)
        .workers(2)
        .init_sql(
            "CREATE RESOURCE GROUP edge  WITH ('cpu_core_limit'='2');
             CREATE RESOURCE GROUP local TO (source_ip='127.0.0.0/8') WITH ('cpu_core_limit'='1')",
        )
        .build()?;
    governor.block_on(run(&governor))
}

async fn run(governor: &Governor) -> Result<(), Box<dyn std::error::Error>> {
    // The serve loop says who the client is.
    let groups = ResourceGroupLayer::new(governor, |parts: &Parts| {
        match parts.extensions.get::<Peer>() {
            Some(Peer(address)) => Attributes::new().source_ip(address.ip()),
            None => Attributes::new(),
        }
    });
    let service = groups.layer(service_fn(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = quotient::spawn(
        serve(governor, listener, service)
            .group("edge")
            .into_future(),
    );

    // HTTP/2 over the same port; its tasks are ours as well.
    let io = TokioIo::new(TcpStream::connect(address).await?);
    let executor = Executor::in_group(governor, "edge")?;
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(executor.clone(), io).await?;
    executor.spawn(connection);
    for path in ["/one", "/two"] {
        let request = Request::get(format!("http://{address}{path}")).body(Empty::<Bytes>::new())?;
        let response = client.send_request(request).await?;
        let body = response.into_body().collect().await?.to_bytes();
        println!("{}", String::from_utf8_lossy(&body));
        assert_eq!(body, format!("{path} for group local"));
    }
    drop(client);

    // New requests are refused, running ones finish, idle connections are closed, the loop ends.
    governor.shutdown(Duration::from_secs(5)).await;
    server.await??;
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let group = quotient::task::current().map_or_else(String::new, |it| it.group().to_owned());
    let text = format!("{} for group {group}", request.uri().path());
    Ok(Response::new(Full::from(text)))
}
