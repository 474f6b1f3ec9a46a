//! TCP echo on loopback: 64 connections or one, 1 KiB to and fro, client and server both on the side under test.

use super::shapes::{Latch, wait};
use super::side::Side;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

const BYTES: usize = 1024;

/// 6 400 round trips.
pub(crate) fn echo<S: Side>(side: &S, groups: usize) -> usize {
    round_trips(side, groups, 64, 100)
}

/// 1 000 round trips, one after the other: workers fall asleep and wake all the time.
pub(crate) fn echo_one<S: Side>(side: &S, groups: usize) -> usize {
    round_trips(side, groups, 1, 1000)
}

fn round_trips<S: Side>(side: &S, groups: usize, connections: usize, each: usize) -> usize {
    let listener = side
        .handle()
        .block_on(TcpListener::bind("127.0.0.1:0"))
        .expect("loopback has a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    let stop = Arc::new(Notify::new());
    side.remote(0, serve(side.clone(), groups, listener, stop.clone()));

    let (latch, done) = Latch::new(connections);
    for i in 0..connections {
        let latch = latch.clone();
        side.remote(i % groups, async move {
            let mut stream = TcpStream::connect(address)
                .await
                .expect("the server listens");
            stream.set_nodelay(true).expect("a TCP socket");
            let mut buffer = [1u8; BYTES];
            for _ in 0..each {
                stream.write_all(&buffer).await.expect("the server reads");
                stream
                    .read_exact(&mut buffer)
                    .await
                    .expect("the server answers");
            }
            latch.arrive();
        });
    }
    wait(&done);
    stop.notify_one();
    connections * each
}

async fn serve<S: Side>(side: S, groups: usize, listener: TcpListener, stop: Arc<Notify>) {
    for i in 0.. {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.notified() => return,
        };
        let (mut stream, _) = accepted.expect("a connection is accepted");
        stream.set_nodelay(true).expect("a TCP socket");
        side.remote(i % groups, async move {
            let mut buffer = [0u8; BYTES];
            while stream.read_exact(&mut buffer).await.is_ok()
                && stream.write_all(&buffer).await.is_ok()
            {}
        });
    }
}
