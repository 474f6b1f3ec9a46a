//! Metered streams: what passes is counted, never lost, and bound by the group's rate, exactly in tokio's paused time.

#![allow(clippy::unwrap_used)]

#[path = "metered/limits.rs"]
mod limits;
#[path = "metered/live.rs"]
mod live;
#[path = "metered/resources.rs"]
mod resources;
#[path = "metered/streams.rs"]
mod streams;
#[path = "metered/stress.rs"]
mod stress;
mod support;

use quotient::io::Metered;
use quotient::{Attributes, Governor, GroupHandle};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

/// A governor on the runtime that the test runs on, with these groups.
fn governor(groups: &[(&str, &str)]) -> Governor {
    let create = |(name, with): &(&str, &str)| {
        let with = with.split_whitespace().map(|one| {
            let (key, value) = one.split_once('=').unwrap();
            format!("'{key}'='{value}'")
        });
        let with: Vec<String> = with.collect();
        format!(
            "CREATE RESOURCE GROUP {name} TO (user='{name}') WITH ({});",
            with.join(", ")
        )
    };
    let script: String = groups.iter().map(create).collect();
    Governor::builder().init_sql(&script).build().unwrap()
}

fn group(governor: &Governor, name: &str) -> GroupHandle {
    governor.classify(&Attributes::new().user(name)).unwrap()
}

async fn alter(governor: &Governor, group: &str, rate: &str) {
    let alter = format!("ALTER RESOURCE GROUP {group} WITH ('max_io_bytes_per_second'='{rate}')");
    governor.execute(&alter).await.unwrap();
}

/// A metered end of a pipe that holds as much as anybody writes, and the other end.
fn pipe(group: &GroupHandle) -> (Metered<DuplexStream>, DuplexStream) {
    let (near, far) = tokio::io::duplex(64 << 20);
    (Metered::in_group(group, near), far)
}

/// Writes so much, and says how long it took.
async fn timed_write(stream: &mut (impl AsyncWriteExt + Unpin), bytes: usize) -> Duration {
    let begun = Instant::now();
    stream.write_all(&vec![7; bytes]).await.unwrap();
    begun.elapsed()
}

async fn read_to_end(mut stream: impl AsyncReadExt + Unpin) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    all
}

/// Between the two, bounds included.
#[track_caller]
fn assert_within(time: Duration, least_ms: u64, most_ms: u64) {
    let (least, most) = (
        Duration::from_millis(least_ms),
        Duration::from_millis(most_ms),
    );
    assert!(
        least <= time && time <= most,
        "{time:?} is not within {least:?} to {most:?}"
    );
}
