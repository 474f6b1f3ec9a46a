//! The serve loop and the executor: connections in groups, their end, and what does not end the loop.

use crate::scene::{Ask, Door, Held, get, governor, here, http1, http2, layer, request, whole};
use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::routing::get as route;
use quotient::hyper::{Executor, Listener, Peer, into_tokio, serve};
use quotient::{Error, Governor, Host};
use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const EDGE: &str = "
    CREATE RESOURCE GROUP edge WITH ('cpu_core_limit'='1');
    CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='1')";

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_streams_are_tasks_of_the_group_and_requests_of_theirs() {
    let (governor, _watch) = governor(EDGE);
    let app = Router::new()
        .route("/layered", route(|| async { here() }))
        .layer(layer(&governor))
        .route("/bare", route(|| async { here() }))
        .route(
            "/peer",
            route(|Extension(peer): Extension<Peer>| async move { peer.0.to_string() }),
        );
    let (listener, address) = listen().await;
    tokio::spawn(serve(&governor, listener, app).group("edge").into_future());

    let mut one = http1(address).await;
    let answer = one.ask(request("bi", "/bare")).await;
    assert_eq!(answer.text(), "edge false");
    let answer = one.ask(request("bi", "/layered")).await;
    assert_eq!(answer.text(), "bi true");
    let answer = one.ask(request("bi", "/peer")).await;
    assert!(answer.text().starts_with("127.0.0.1:"));

    let mut two = http2(address).await;
    for (path, group) in [("/bare", "edge false"), ("/layered", "bi true")] {
        let answer = two.ask(request("bi", path)).await;
        assert_eq!(answer.text(), group);
    }
}

#[tokio::test]
async fn a_group_that_does_not_exist_is_an_error_at_once() {
    let (governor, _watch) = governor(EDGE);
    let (listener, _) = listen().await;
    let error = serve(&governor, listener, Router::new())
        .group("egde")
        .await
        .unwrap_err();
    assert!(matches!(error, Error::UnknownGroup { similar: Some(name), .. } if name == "edge"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_lets_requests_finish_closes_idle_connections_and_ends_the_loop() {
    let (governor, _watch) = governor(EDGE);
    let door = Door::closed();
    let app = {
        let door = door.clone();
        let waits = || async move {
            door.pass().await;
            "finished"
        };
        Router::new()
            .route("/", route(waits))
            .layer(layer(&governor))
    };
    let (listener, address) = listen().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = serve(&governor, listener, app)
        .group("edge")
        .with_graceful_shutdown(async move { drop(stopped.await) });
    let server = tokio::spawn(server.into_future());
    let silent = TcpStream::connect(address).await.unwrap();
    let mut idle = http1(address).await;
    let asks = tokio::spawn(get(address, "bi", "/"));
    crate::scene::until_running(&governor, 1).await;
    idle.ready().await.unwrap();

    stop.send(()).unwrap();
    crate::scene::until(|| idle.is_closed()).await;
    assert!(
        TcpStream::connect(address).await.is_err(),
        "nothing listens any more"
    );
    assert!(!server.is_finished() && !asks.is_finished());
    door.let_pass(1);
    assert_eq!(asks.await.unwrap().text(), "finished");
    server.await.unwrap().unwrap();
    drop(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_of_the_governor_does_not_wait_for_idle_connections() {
    let (governor, _watch) = governor(EDGE);
    let app = Router::new().route("/", route(|| async { here() }));
    let (listener, address) = listen().await;
    let server = tokio::spawn(serve(&governor, listener, app).into_future());
    let mut idle = http1(address).await;
    let answer = idle.ask(request("bi", "/")).await;
    assert_eq!(answer.text(), "default_wg false");
    let mut idle_2 = http2(address).await;
    idle_2.ask(request("bi", "/")).await;
    // Without end, if it waited for them.
    governor.shutdown(Duration::MAX).await;
    server.await.unwrap().unwrap();
}

/// Fails so many times, then gives one connection after the other.
struct Moody {
    errors: Vec<io::Error>,
    inner: TcpListener,
}

impl Listener for Moody {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        match self.errors.pop() {
            Some(error) => Err(error),
            None => Listener::accept(&mut self.inner).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_a_lack_of_descriptors_nor_a_broken_connection_ends_the_loop() {
    let (governor, _watch) = governor(EDGE);
    let (inner, address) = listen().await;
    let emfile = || io::Error::from_raw_os_error(24);
    let errors = vec![
        emfile(),
        emfile(),
        io::ErrorKind::ConnectionAborted.into(),
        emfile(),
    ];
    let app = Router::new().route("/", route(|| async { here() }));
    tokio::spawn(serve(&governor, Moody { errors, inner }, app).into_future());

    // Nonsense, and one that breaks off in the middle of its head.
    for bytes in [&b"\x16\x03\x01 this is not HTTP\r\n\r\n"[..], b"GET / HT"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
    }
    assert_eq!(get(address, "bi", "/").await.text(), "default_wg false");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_without_the_layer_ends_its_connection_only() {
    let (governor, _watch) = governor(EDGE);
    let panics = |Extension(peer): Extension<Peer>| async move {
        assert!(peer.0.port() == 0, "in the handler");
    };
    let app = Router::new()
        .route("/panics", route(panics))
        .route("/", route(|| async { here() }));
    let (listener, address) = listen().await;
    tokio::spawn(serve(&governor, listener, app).into_future());
    let mut client = http1(address).await;
    assert!(client.send_request(request("bi", "/panics")).await.is_err());
    assert_eq!(get(address, "bi", "/").await.text(), "default_wg false");
}

#[test]
fn a_governor_with_threads_of_its_own_serves_too() {
    let governor = Governor::builder()
        .host(Host::Owned)
        .workers(2)
        .init_sql(EDGE)
        .build()
        .unwrap();
    governor.block_on(async {
        let (listener, address) = listen().await;
        let app = Router::new()
            .route("/", route(|| async { here() }))
            .layer(layer(&governor));
        let server = serve(&governor, listener, app).group("edge").into_future();
        let server = quotient::spawn(server);
        for _ in 0..3 {
            let io = hyper_util::rt::TokioIo::new(TcpStream::connect(address).await.unwrap());
            let (mut client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            quotient::spawn(connection);
            let answer = client.send_request(request("bi", "/")).await.unwrap();
            assert_eq!(whole(answer).await.text(), "bi true");
        }
        server.abort();
    });
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_of_the_file_system_is_served_as_well() {
    let (governor, _watch) = governor(EDGE);
    let path = std::env::temp_dir().join(format!("quotient-http-{}", std::process::id()));
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let app = Router::new()
        .route("/", route(|| async { here() }))
        .layer(layer(&governor));
    tokio::spawn(serve(&governor, listener, app).into_future());
    let io = hyper_util::rt::TokioIo::new(tokio::net::UnixStream::connect(&path).await.unwrap());
    let (mut client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(client.ask(request("bi", "/")).await.text(), "bi true");
    std::fs::remove_file(path).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_spawns_for_an_upgraded_connection_is_its_query_until_that_ends() {
    let (governor, _watch) = governor(EDGE);
    let upgrade = |mut request: axum::extract::Request| async move {
        let upgraded = hyper::upgrade::on(&mut request);
        quotient::spawn(async move {
            let mut io = hyper_util::rt::TokioIo::new(upgraded.await.unwrap());
            io.write_all(format!("{};", here()).as_bytes())
                .await
                .unwrap();
            let mut rest = Vec::new();
            io.read_to_end(&mut rest).await.unwrap();
        });
        let headers = [("upgrade", "words"), ("connection", "upgrade")];
        (http::StatusCode::SWITCHING_PROTOCOLS, headers)
    };
    let app = Router::new()
        .route("/", route(upgrade))
        .layer(layer(&governor));
    let (listener, address) = listen().await;
    tokio::spawn(serve(&governor, listener, app).group("edge").into_future());
    let mut client = TcpStream::connect(address).await.unwrap();
    let ask =
        "GET / HTTP/1.1\r\nhost: x\r\nx-user: bi\r\nconnection: upgrade\r\nupgrade: words\r\n\r\n";
    client.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"bi true;") {
        answer.push(client.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"));
    crate::scene::until_running(&governor, 1).await;
    drop(client);
    crate::scene::until_running(&governor, 0).await;
}

#[tokio::test]
async fn an_executor_spawns_where_it_was_told() {
    let (governor, _watch) = governor(EDGE);
    let edge = Executor::in_group(&governor, "edge").unwrap();
    assert_eq!(edge.spawn(async { here() }).await.unwrap(), "edge false");
    assert!(Executor::in_group(&governor, "nobody").is_err());

    let query = governor
        .admit(&quotient::Attributes::new().user("bi"))
        .await
        .unwrap();
    let inherited = query.run(async { Executor::inherit().spawn(async { here() }).await });
    assert_eq!(inherited.await.unwrap().unwrap(), "bi true");
    let told = Executor::in_query(query).spawn(async { here() });
    assert_eq!(told.await.unwrap(), "bi true");

    governor.execute("DROP RESOURCE GROUP edge").await.unwrap();
    assert_eq!(
        edge.spawn(async { here() }).await.unwrap(),
        "default_wg false"
    );
}

#[tokio::test]
async fn a_handle_of_tokios_ends_as_the_task_does() {
    let (governor, _watch) = governor(EDGE);
    let spawn = |n: u32| {
        let task = governor.spawn_in("edge", async move {
            match n {
                0 => 7,
                1 => panic!("at one"),
                _ => std::future::pending().await,
            }
        });
        task.unwrap()
    };
    assert_eq!(into_tokio(spawn(0)).await.unwrap(), 7);
    let error = into_tokio(spawn(1)).await.unwrap_err();
    assert_eq!(error.into_panic().downcast_ref(), Some(&"at one"));

    // Ours is ended: theirs is cancelled.
    let ours = spawn(2);
    let end = ours.abort_handle();
    let theirs = into_tokio(ours);
    end.abort();
    assert!(theirs.await.unwrap_err().is_cancelled());

    // Theirs is aborted: ours ends.
    let ours = spawn(2);
    let watch = ours.abort_handle();
    let theirs = into_tokio(ours);
    theirs.abort();
    assert!(theirs.await.unwrap_err().is_cancelled());
    crate::scene::until(|| watch.is_finished()).await;

    // Theirs is detached: ours goes on.
    let done = Arc::new(AtomicU32::new(0));
    let tell = done.clone();
    let ours = governor.spawn_in("edge", async move { tell.store(1, Ordering::SeqCst) });
    drop(into_tokio(ours.unwrap()));
    crate::scene::until(|| done.load(Ordering::SeqCst) == 1).await;
}

/// Gives these connections, and then no more.
struct Given(Vec<tokio::io::DuplexStream>);

impl Listener for Given {
    type Io = tokio::io::DuplexStream;
    type Addr = ();

    async fn accept(&mut self) -> io::Result<(tokio::io::DuplexStream, ())> {
        match self.0.pop() {
            Some(io) => Ok((io, ())),
            None => std::future::pending().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_say_which_http_it_speaks_is_cut() {
    let governor = Governor::builder().init_sql(EDGE).build().unwrap();
    let begun = tokio::time::Instant::now();
    let beginnings: [&[u8]; 3] = [b"", b"PRI * HT", b"GET /ba"];
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for beginning in beginnings {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        client.write_all(beginning).await.unwrap();
        clients.push(client);
        servers.push(server);
    }
    let app = Router::new().route("/bare", route(|| async { here() }));
    tokio::spawn(serve(&governor, Given(servers), app).into_future());
    for (mut client, beginning) in clients.into_iter().zip(beginnings) {
        let mut said = Vec::new();
        let end = client.read_to_end(&mut said);
        let cut = tokio::time::timeout(Duration::from_secs(300), end).await;
        assert!(
            cut.is_ok(),
            "{:?} stays",
            String::from_utf8_lossy(beginning)
        );
    }
    let elapsed = begun.elapsed();
    assert!(elapsed >= Duration::from_secs(30), "{elapsed:?}");
}

/// Ends without end.
struct Endless;

impl futures::Stream for Endless {
    type Item = Result<Vec<u8>, std::convert::Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(Some(Ok(vec![b'x'; 1 << 10])))
    }
}

/// Of three clients one reads nothing of its answer, one waits for an answer that never comes, and one is well.
#[tokio::test(start_paused = true)]
async fn who_never_reads_and_who_never_answers_keep_a_shutdown_no_longer_than_its_timeout() {
    let governor = Governor::builder().init_sql(EDGE).build().unwrap();
    let held = Held::default();
    let hangs = {
        let held = held.clone();
        move || async move {
            let _held = held.hold();
            std::future::pending::<()>().await;
        }
    };
    let app = Router::new()
        .route("/endless", route(|| async { Body::from_stream(Endless) }))
        .route("/hangs", route(hangs))
        .layer(layer(&governor));
    let (mut reads_nothing, server_1) = tokio::io::duplex(1 << 10);
    let (mut well, server_2) = tokio::io::duplex(1 << 10);
    let (client, server_3) = tokio::io::duplex(1 << 16);
    let (stop, stopped) = oneshot::channel::<()>();
    let given = Given(vec![server_1, server_2, server_3]);
    let server = serve(&governor, given, app)
        .with_graceful_shutdown(async move { drop(stopped.await) })
        .shutdown_timeout(Duration::from_secs(10));
    let server = tokio::spawn(server.into_future());
    reads_nothing
        .write_all(b"GET /endless HTTP/1.1\r\nhost: x\r\nx-user: bi\r\n\r\n")
        .await
        .unwrap();
    let io = hyper_util::rt::TokioIo::new(client);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut asks, connection) = hyper::client::conn::http2::handshake(executor, io)
        .await
        .unwrap();
    tokio::spawn(connection);
    let waits = tokio::spawn(asks.send_request(request("bi", "/hangs")));
    crate::scene::until(|| held.count() == 1).await;
    crate::scene::until_running(&governor, 2).await;

    let begun = tokio::time::Instant::now();
    stop.send(()).unwrap();
    // An idle one is closed at once.
    well.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1) && !server.is_finished());
    let ended = tokio::time::timeout(Duration::from_secs(300), server).await;
    ended.expect("it waits for ever").unwrap().unwrap();
    let elapsed = begun.elapsed();
    assert!(
        (10..11).contains(&elapsed.as_secs()),
        "it ended after {elapsed:?}"
    );
    // They are cut, and their queries end.
    assert!(waits.await.unwrap().is_err());
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(5), reads_nothing.read_to_end(&mut rest));
    let _ = end.await.expect("it was not cut");
    crate::scene::until_running(&governor, 0).await;
    assert_eq!(held.count(), 0);
}

/// A library that spawns what runs after an upgrade by tokio, as axum's websockets do, takes it out of its group; a
/// query that the handler keeps puts it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_library_spawns_after_an_upgrade_is_put_into_its_query_by_one_that_was_kept() {
    let (governor, _watch) = governor(EDGE);
    let upgrade = |mut request: axum::extract::Request| async move {
        let upgraded = hyper::upgrade::on(&mut request);
        let query = quotient::Query::current().unwrap();
        tokio::spawn(async move {
            let mut io = hyper_util::rt::TokioIo::new(upgraded.await.unwrap());
            let outside = here();
            let inside = query.run(async move {
                let said = format!("{outside}; {}.", here());
                io.write_all(said.as_bytes()).await.unwrap();
                io.read_to_end(&mut Vec::new()).await.unwrap();
            });
            inside.await.unwrap();
        });
        let headers = [("upgrade", "words"), ("connection", "upgrade")];
        (http::StatusCode::SWITCHING_PROTOCOLS, headers)
    };
    let app = Router::new()
        .route("/", route(upgrade))
        .layer(layer(&governor));
    let address = crate::scene::under_axum(app).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let ask =
        "GET / HTTP/1.1\r\nhost: x\r\nx-user: bi\r\nconnection: upgrade\r\nupgrade: words\r\n\r\n";
    client.write_all(ask.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"nowhere; bi true.") {
        answer.push(client.read_u8().await.unwrap());
    }
    crate::scene::until_running(&governor, 1).await;
    drop(client);
    crate::scene::until_running(&governor, 0).await;
}
