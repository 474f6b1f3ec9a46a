//! On real sockets, in real time: bounds from above are hard, those from below leave room for a busy machine.

use super::{governor, group};
use quotient::io::{IoResource, Metered};
use quotient::{Governor, GroupHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A connection over the loopback interface.
async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (near, far) = tokio::join!(
        TcpStream::connect(listener.local_addr().unwrap()),
        listener.accept()
    );
    (near.unwrap(), far.unwrap().0)
}

/// A far end that sends without end, or swallows everything.
fn peer(far: TcpStream, sends: bool) {
    tokio::spawn(async move {
        let (mut far, mut buf) = (far, vec![1; 64 << 10]);
        loop {
            let done = if sends {
                far.write(&buf).await
            } else {
                far.read(&mut buf).await
            };
            if !matches!(done, Ok(1..)) {
                return;
            }
        }
    });
}

/// Tasks of the group that read, or write, on a connection each until it is over.
async fn transfer(
    governor: &Governor,
    name: &str,
    resource: Option<&IoResource>,
    (streams, size, reads): (usize, usize, bool),
    over: &Arc<AtomicBool>,
) -> GroupHandle {
    for _ in 0..streams {
        let (near, far) = connection().await;
        peer(far, reads);
        let (over, resource) = (over.clone(), resource.cloned());
        let task = async move {
            let mut stream = Metered::new(near);
            if let Some(resource) = &resource {
                stream = stream.with_resource(resource);
            }
            let mut buf = vec![2; size];
            while !over.load(Relaxed) {
                let passed = if reads {
                    stream.read(&mut buf).await
                } else {
                    stream.write(&buf).await
                };
                assert!((1..=size).contains(&passed.unwrap()));
            }
        };
        drop(governor.spawn_in(name, task).unwrap());
    }
    group(governor, name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_holds_on_sockets_over_two_seconds() {
    const RATE: f64 = 20e6;
    let governor = governor(&[("g", "max_io_bytes_per_second=20000000")]);
    let over = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let g = transfer(&governor, "g", None, (4, 64 << 10, true), &over).await;
    transfer(&governor, "g", None, (4, 16 << 10, false), &over).await;
    let (before, connected) = (g.usage().io_bytes as f64, Instant::now());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let passed = g.usage().io_bytes as f64;
    let (time, window) = (
        begun.elapsed().as_secs_f64(),
        connected.elapsed().as_secs_f64(),
    );
    over.store(true, Relaxed);
    // 20 ms were there before, and 20 ms may be owed.
    assert!(passed <= RATE * (time + 0.04), "{passed} in {time} s");
    // Where the machine keeps the timer's thread waiting for longer than 100 ms, what comes in meanwhile is lost.
    let share = (passed - before) / (RATE * window);
    println!("{share:.4} of the rate");
    assert!(share >= 0.7, "{passed} less {before} in {window} s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_groups_share_an_uplink_two_to_one_over_sockets() {
    let governor = governor(&[("a", "io_weight=2"), ("b", "io_weight=1")]);
    let uplink = IoResource::new("uplink", 20_000_000);
    let over = Arc::new(AtomicBool::new(false));
    // Twenty times as many streams, and larger operations.
    let a = transfer(&governor, "a", Some(&uplink), (1, 8 << 10, true), &over).await;
    let b = transfer(&governor, "b", Some(&uplink), (20, 64 << 10, true), &over).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let had = || (a.usage().io_bytes, b.usage().io_bytes);
    let (before, begun) = (had(), Instant::now());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (after, time) = (had(), begun.elapsed().as_secs_f64());
    over.store(true, Relaxed);
    let (x, y) = ((after.0 - before.0) as f64, (after.1 - before.1) as f64);
    assert!(x + y <= 20e6 * (time + 0.12), "{x} {y} in {time} s");
    assert!((1.8..2.2).contains(&(x / y)), "{x} : {y} = {}", x / y);
}
