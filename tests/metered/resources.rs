//! Shared capacities: by weight, whoever has more streams, larger operations, or comes first.

use super::{assert_within, governor, group, pipe, timed_write};
use quotient::io::{IoResource, Metered};
use quotient::{Governor, GroupHandle};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

/// Streams that write for ever, so many bytes at a time.
fn busy(group: &GroupHandle, resource: &IoResource, streams: usize, size: usize) {
    for _ in 0..streams {
        let mut stream = Metered::in_group(group, tokio::io::sink()).with_resource(resource);
        let group = group.clone();
        tokio::spawn(async move {
            let buf = vec![0; size];
            while stream.write(&buf).await.is_ok() {
                // A moment's work, in which the group has no request.
                tokio::task::yield_now().await;
            }
            drop(group);
        });
    }
}

async fn measure(groups: &[&GroupHandle], time: Duration) -> Vec<u64> {
    let now = || groups.iter().map(|group| group.usage().io_bytes);
    let before: Vec<u64> = now().collect();
    sleep(time).await;
    now()
        .zip(before)
        .map(|(now, before)| now - before)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn two_to_one_whoever_has_more_streams_and_larger_operations() {
    for (a, b) in [
        ((1, 64 << 10), (1, 64 << 10)),
        ((1, 8 << 10), (100, 8 << 10)),
        ((100, 1 << 10), (1, 1 << 20)),
        ((3, 1 << 20), (30, 1 << 10)),
    ] {
        let governor = governor(&[("a", "io_weight=2"), ("b", "cpu_core_limit=1")]);
        let (first, second) = (group(&governor, "a"), group(&governor, "b"));
        let disk = IoResource::new("disk", 20_000_000);
        busy(&first, &disk, a.0, a.1);
        busy(&second, &disk, b.0, b.1);
        sleep(Duration::from_secs(1)).await;
        let had = measure(&[&first, &second], Duration::from_secs(10)).await;
        let (x, y) = (had[0], had[1]);
        // An operation is 400 KB at most, and a millisecond is 20 KB.
        assert!(
            (x + y).abs_diff(200_000_000) <= 420_000,
            "{a:?} {b:?}: {x} {y}"
        );
        assert!(x.abs_diff(2 * y) <= 3 * 420_000, "{a:?} {b:?}: {x} {y}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_leaves_the_others_have_and_an_alter_counts_at_once() {
    let governor = governor(&[("a", "io_weight=1"), ("b", "io_weight=1")]);
    let (a, b) = (group(&governor, "a"), group(&governor, "b"));
    let disk = IoResource::new("disk", 10_000_000);
    busy(&a, &disk, 5, 8 << 10);
    let lent = measure(&[&a], Duration::from_secs(2)).await;
    assert!(lent[0].abs_diff(20_000_000) <= 400_000, "{lent:?}");
    busy(&b, &disk, 5, 8 << 10);
    sleep(Duration::from_secs(1)).await;
    let had = measure(&[&a, &b], Duration::from_secs(2)).await;
    assert!(had[0].abs_diff(had[1]) <= 100_000, "{had:?}");
    governor
        .execute("ALTER RESOURCE GROUP b WITH ('io_weight'='9')")
        .await
        .unwrap();
    let had = measure(&[&a, &b], Duration::from_secs(2)).await;
    assert!(had[1].abs_diff(9 * had[0]) <= 500_000, "{had:?}");
    let usage = disk.usage();
    let weights: Vec<_> = usage.iter().map(|one| (&*one.group, one.weight)).collect();
    assert_eq!(weights, [("a", 1), ("b", 9)]);
    assert!(usage.iter().all(|one| one.waiting > 0 && one.bytes > 0));

    disk.set_bytes_per_second(1_000_000);
    sleep(Duration::from_secs(1)).await;
    let had = measure(&[&a, &b], Duration::from_secs(5)).await;
    assert!((had[0] + had[1]).abs_diff(5_000_000) <= 50_000, "{had:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_queries_go_first_and_leave_half() {
    let governor = Governor::builder()
        .workers(2)
        .init_sql(
            "CREATE RESOURCE GROUP short TO (user='short') WITH ('type'='short_query', 'io_weight'='1');
             CREATE RESOURCE GROUP big TO (user='big') WITH ('io_weight'='99')",
        )
        .build()
        .unwrap();
    let (short, big) = (group(&governor, "short"), group(&governor, "big"));
    let disk = IoResource::new("disk", 2_000_000);
    busy(&big, &disk, 50, 64 << 10);
    busy(&short, &disk, 2, 8 << 10);
    sleep(Duration::from_millis(200)).await;
    let had = measure(&[&short, &big], Duration::from_secs(2)).await;
    let share = had[0] as f64 / (had[0] + had[1]) as f64;
    assert!((0.42..0.58).contains(&share), "{had:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_waits_for_its_group_and_for_each_capacity() {
    let governor = governor(&[("g", "max_io_bytes_per_second=3MB")]);
    let g = group(&governor, "g");
    let (disk, link) = (
        IoResource::new("disk", 1_000_000),
        IoResource::new("link", 2_000_000),
    );
    let (stream, _far) = pipe(&g);
    let mut both = stream
        .with_resource(&disk)
        .with_resource(&link)
        .with_resource(&disk);
    assert_within(timed_write(&mut both, 1_000_000).await, 960, 981);
    let (stream, _far) = pipe(&g);
    let mut one = stream.with_resource(&link);
    assert_within(timed_write(&mut one, 2_000_000).await, 960, 981);
    // What the one grants and the other does not is not lost.
    assert_eq!((disk.bytes(), link.bytes()), (1_000_000, 3_000_000));
    drop((both, one));
    assert_eq!((disk.bytes(), link.bytes()), (1_000_000, 3_000_000));
    assert!(disk.usage().is_empty());

    disk.set_bytes_per_second(0);
    link.set_bytes_per_second(0);
    assert_eq!(disk.bytes_per_second(), 0);
    let (stream, _far) = pipe(&g);
    let mut free = stream.with_resource(&disk).with_resource(&link);
    assert_within(timed_write(&mut free, 3_000_000).await, 960, 981);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_or_moves_leaves_its_place_at_each_capacity() {
    let governor = governor(&[
        ("b", "io_weight=3"),
        (
            "a",
            "io_weight=1 big_query_scan_rows_limit=1 big_query_action=switch_group(b)",
        ),
    ]);
    let attributes = quotient::Attributes::new().user("a");
    let query = governor.admit(&attributes).await.unwrap();
    let disk = IoResource::new("disk", 1_000);
    let (near, _far) = tokio::io::duplex(1 << 20);
    let mut stream = Metered::in_query(&query, near).with_resource(&disk);
    timed_write(&mut stream, 100).await;
    query.record_scan_rows(2);
    timed_write(&mut stream, 100).await;
    let usage = disk.usage();
    assert_eq!(
        (usage.len(), &*usage[0].group, usage[0].weight),
        (1, "b", 3)
    );
    assert_eq!(disk.bytes(), 200);

    let waits = tokio::spawn(async move { stream.write_all(&[0; 10_000]).await });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(disk.usage()[0].waiting, 1);
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    assert!(disk.usage().is_empty());
    let (other, _far) = pipe(&group(&governor, "a"));
    let begun = Instant::now();
    let mut other = other.with_resource(&disk);
    timed_write(&mut other, 20).await;
    assert_within(begun.elapsed(), 0, 41);
}

#[tokio::test(start_paused = true)]
async fn a_capacity_is_seen_while_somebody_has_it() {
    let governor = governor(&[("a", "io_weight=3")]);
    let a = group(&governor, "a");
    assert!(governor.io_resources().is_empty());
    let disk = IoResource::new("disk", 1_000_000);
    let (stream, _far) = pipe(&a);
    let mut stream = stream.with_resource(&disk);
    timed_write(&mut stream, 500).await;
    assert_eq!(governor.io_resources(), std::slice::from_ref(&disk));
    let output = &governor
        .execute("SELECT resource, bytes_per_second, group_name, io_weight, bytes, waiting FROM io_resources")
        .await
        .unwrap()[0];
    assert_eq!(
        output
            .to_string()
            .lines()
            .nth(2)
            .unwrap()
            .split_whitespace()
            .collect::<String>(),
        "disk|1000000|a|3|500|0"
    );
    drop(stream);
    assert_eq!(governor.io_resources().len(), 1, "somebody has it still");
    drop(disk);
    assert!(governor.io_resources().is_empty());
}

/// Two governors in one process, over one disk.
#[tokio::test(start_paused = true)]
async fn groups_of_several_governors_share_one_capacity() {
    let (one, two) = (
        governor(&[("a", "io_weight=1")]),
        governor(&[("b", "io_weight=3")]),
    );
    let (a, b) = (group(&one, "a"), group(&two, "b"));
    let disk = IoResource::new("disk", 10_000_000);
    busy(&a, &disk, 10, 8 << 10);
    busy(&b, &disk, 2, 8 << 10);
    sleep(Duration::from_secs(1)).await;
    let had = measure(&[&a, &b], Duration::from_secs(4)).await;
    assert!(had[1].abs_diff(3 * had[0]) <= 400_000, "{had:?}");
}

/// A runtime that nobody drives any more, and that is not gone either, holds up nobody but its own.
#[test]
fn of_two_governors_at_one_capacity_neither_waits_for_the_runtime_of_the_other() {
    let _watch = super::support::watch("two governors at one capacity", String::new);
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (first, second) = (runtime(), runtime());
    let disk = IoResource::new("disk", 100_000);
    let governed = |runtime: &tokio::runtime::Runtime| {
        let _inside = runtime.enter();
        governor(&[("g", "io_weight=1")])
    };
    let (one, other) = (governed(&first), governed(&second));
    let write = |governor: &Governor, bytes: usize| {
        let group = group(governor, "g");
        let mut stream = Metered::in_group(&group, tokio::io::sink()).with_resource(&disk);
        async move { stream.write_all(&vec![0; bytes]).await.unwrap() }
    };
    let long = first.spawn(write(&one, 40_000));
    first.block_on(async { sleep(Duration::from_millis(50)).await });
    assert_eq!(disk.usage().iter().map(|it| it.waiting).sum::<u64>(), 1);
    let short = write(&other, 20_000);
    second
        .block_on(async { tokio::time::timeout(Duration::from_secs(30), short).await })
        .expect("it waits for a runtime that nobody drives");
    assert!(!long.is_finished());
    // Whoever is driven again goes on, whatever becomes of the other.
    drop((other, second));
    first.block_on(long).unwrap();
    assert_eq!(disk.bytes(), 60_000);
}
