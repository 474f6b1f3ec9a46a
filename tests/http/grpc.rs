//! tonic under the layer, with its own client over real sockets: protobuf is not needed for that.

use crate::scene::{Door, governor, here, layer, until_running};
use bytes::{Buf, BufMut, Bytes};
use futures::future::BoxFuture;
use quotient::{Attributes, Governor, QueryId};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint, Server, server::TcpIncoming};
use tonic::{Code, Request, Response, Status};
use tower::{Layer, Service, service_fn};

/// Messages are bytes.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// `/test.Tenants/Where` answers with its group; `/test.Tenants/Rows` with three rows, then it waits at the door.
#[derive(Clone)]
struct Tenants(Door);

impl tonic::server::NamedService for Tenants {
    const NAME: &'static str = "test.Tenants";
}

impl Service<http::Request<Body>> for Tenants {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let door = self.0.clone();
        let mut grpc = tonic::server::Grpc::new(Raw);
        Box::pin(async move {
            Ok(if request.uri().path().ends_with("/Where") {
                let answer = service_fn(|_: Request<Bytes>| async {
                    Ok::<_, Status>(Response::new(Bytes::from(here())))
                });
                grpc.unary(answer, request).await
            } else {
                let answer = service_fn(move |_: Request<Bytes>| {
                    let door = door.clone();
                    async move {
                        let rows = futures::stream::unfold(0, move |row| {
                            let door = door.clone();
                            async move {
                                if row == 3 {
                                    door.pass().await;
                                    return None;
                                }
                                Some((Ok::<_, Status>(Bytes::from(here())), row + 1))
                            }
                        });
                        Ok::<_, Status>(Response::new(rows))
                    }
                });
                grpc.server_streaming(answer, request).await
            })
        })
    }
}

async fn serve(governor: &Governor, door: &Door) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .layer(layer(governor))
        .add_service(Tenants(door.clone()))
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(server);
    address
}

async fn client(address: SocketAddr) -> tonic::client::Grpc<Channel> {
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = tonic::client::Grpc::new(channel.connect().await.unwrap());
    client.ready().await.unwrap();
    client
}

fn ask(user: &'static str) -> Request<Bytes> {
    let mut request = Request::new(Bytes::from_static(b"?"));
    request
        .metadata_mut()
        .insert("x-user", user.parse().unwrap());
    request
}

async fn group_of(address: SocketAddr, user: &'static str) -> Result<Bytes, Status> {
    let path = http::uri::PathAndQuery::from_static("/test.Tenants/Where");
    let answer = client(address).await.unary(ask(user), path, Raw).await?;
    Ok(answer.into_inner())
}

async fn rows(address: SocketAddr, user: &'static str) -> Result<tonic::Streaming<Bytes>, Status> {
    let path = http::uri::PathAndQuery::from_static("/test.Tenants/Rows");
    let answer = client(address)
        .await
        .server_streaming(ask(user), path, Raw)
        .await?;
    Ok(answer.into_inner())
}

const GROUPS: &str = "CREATE RESOURCE GROUP bi TO (user='bi') WITH ('concurrency_limit'='1')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_streams_are_in_their_groups_under_tonics_server_and_under_ours() {
    let (governor, _watch) = governor(GROUPS);
    let door = Door::closed();
    let theirs = serve(&governor, &door).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ours = listener.local_addr().unwrap();
    let routes = tonic::service::Routes::new(Tenants(door.clone()));
    let served = quotient::hyper::serve(&governor, listener, layer(&governor).layer(routes));
    tokio::spawn(std::future::IntoFuture::into_future(served));
    for address in [theirs, ours] {
        assert_eq!(group_of(address, "bi").await.unwrap(), "bi true");
        let mut stream = rows(address, "bi").await.unwrap();
        for _ in 0..3 {
            assert_eq!(stream.message().await.unwrap().unwrap(), "bi true");
        }
        door.let_pass(1);
        assert!(stream.message().await.unwrap().is_none());
        until_running(&governor, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_resource_exhausted_and_says_when_to_come_again() {
    let (governor, _watch) = governor(GROUPS);
    let address = serve(&governor, &Door::closed()).await;
    let taken = governor.try_admit(&Attributes::new().user("bi")).unwrap();
    let refused = group_of(address, "bi").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "too many requests");
    let again = refused.metadata().get("grpc-retry-pushback-ms").unwrap();
    assert!(again.to_str().unwrap().parse::<u64>().unwrap() >= 1);
    drop(taken);
    assert_eq!(group_of(address, "bi").await.unwrap(), "bi true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_is_unavailable() {
    let (governor, _watch) = governor(GROUPS);
    let address = serve(&governor, &Door::closed()).await;
    governor.shutdown(std::time::Duration::ZERO).await;
    assert_eq!(
        group_of(address, "bi").await.unwrap_err().code(),
        Code::Unavailable
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_whose_query_is_killed_ends_as_aborted_and_is_not_retried() {
    let (governor, _watch) = governor(GROUPS);
    let address = serve(&governor, &Door::closed()).await;
    let mut stream = rows(address, "bi").await.unwrap();
    for _ in 0..3 {
        stream.message().await.unwrap().unwrap();
    }
    let running = governor.execute("SHOW RUNNING QUERIES").await.unwrap();
    let id = running[0].rows()[0][0].to_string().parse().unwrap();
    assert!(governor.query(QueryId(id)).unwrap().kill("enough"));
    let ended = stream.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Aborted);
    assert_eq!(
        ended.metadata().get("grpc-retry-pushback-ms").unwrap(),
        "-1"
    );
    until_running(&governor, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_drops_its_stream_ends_the_query() {
    let (governor, _watch) = governor(GROUPS);
    let address = serve(&governor, &Door::closed()).await;
    let mut stream = rows(address, "bi").await.unwrap();
    stream.message().await.unwrap().unwrap();
    drop(stream);
    until_running(&governor, 0).await;
}
