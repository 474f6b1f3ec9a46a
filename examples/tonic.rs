//! A gRPC service whose calls and streams are queries of their tenants' groups:
//! `cargo run --features tower --example tonic`
//!
//! With the code that tonic generates from a .proto file the layer is used in the same way; here messages are plain
//! bytes, so that no protobuf compiler is needed. It is its own client, and ends.

use bytes::{Buf, BufMut, Bytes};
use futures::future::BoxFuture;
use futures::stream;
use http::request::Parts;
use quotient::{Attributes, Governor, tower::ResourceGroupLayer};
use std::convert::Infallible;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic::{Code, Request, Response, Status};
use tower::{Service, service_fn};

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let governor = Governor::builder()
        .init_sql("CREATE RESOURCE GROUP acme TO (user='acme') WITH ('concurrency_limit'='1')")
        .build()?;
    let groups = ResourceGroupLayer::new(&governor, |parts: &Parts| {
        match parts
            .headers
            .get("x-tenant")
            .and_then(|tenant| tenant.to_str().ok())
        {
            Some(tenant) => Attributes::new().user(tenant),
            None => Attributes::new(),
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Server::builder()
        .layer(groups)
        .add_service(Rows)
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(server);

    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .connect()
        .await?;
    let mut client = tonic::client::Grpc::new(channel);
    let path = http::uri::PathAndQuery::from_static("/example.Rows/Select");
    let ask = || {
        let mut request = Request::new(Bytes::from_static(b"select"));
        request.metadata_mut().insert(
            "x-tenant",
            tonic::metadata::MetadataValue::from_static("acme"),
        );
        request
    };

    client.ready().await?;
    let mut rows = client
        .server_streaming(ask(), path.clone(), Bare)
        .await?
        .into_inner();
    println!("{:?}", rows.message().await?);

    // While it streams it holds the one place of its group.
    client.ready().await?;
    let refused = match client.server_streaming(ask(), path.clone(), Bare).await {
        Err(status) => status,
        Ok(_) => return Err("two at once".into()),
    };
    println!("{:?}: {}", refused.code(), refused.message());
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.metadata().contains_key("grpc-retry-pushback-ms"));

    // A client that has seen enough ends the query by dropping the stream; or it reads to the end, as here.
    let mut count = 1;
    while rows.message().await?.is_some() {
        count += 1;
    }
    println!("{count} rows");
    client.ready().await?;
    client.server_streaming(ask(), path, Bare).await?;
    Ok(())
}

/// What a generated server is: a service by name.
#[derive(Clone)]
struct Rows;

impl tonic::server::NamedService for Rows {
    const NAME: &'static str = "example.Rows";
}

impl Service<http::Request<Body>> for Rows {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let select = service_fn(|_: Request<Bytes>| async {
                // Rows are made in the group, as fast as the client takes them.
                let rows = stream::unfold(0, |row| async move {
                    quotient::record_scan_rows(1);
                    (row < 50_000)
                        .then(|| (Ok::<_, Status>(Bytes::from(format!("row {row}"))), row + 1))
                });
                Ok::<_, Status>(Response::new(rows))
            });
            Ok(tonic::server::Grpc::new(Bare)
                .server_streaming(select, request)
                .await)
        })
    }
}

/// Messages as they are.
#[derive(Clone, Copy, Default)]
struct Bare;

impl Codec for Bare {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Bare;
    type Decoder = Bare;

    fn encoder(&mut self) -> Bare {
        Bare
    }

    fn decoder(&mut self) -> Bare {
        Bare
    }
}

impl Encoder for Bare {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Bare {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
