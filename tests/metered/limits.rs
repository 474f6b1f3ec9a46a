//! `max_io_bytes_per_second`.

use super::{alter, assert_within, governor, group, pipe, read_to_end, timed_write};
use quotient::io::Metered;
use quotient::{Attributes, Governor};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_rate_holds_to_the_millisecond_however_long() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1000000")]);
    let g = group(&governor, "g");
    let (mut stream, _far) = pipe(&g);
    // 20 ms of it are there, and the last 20 ms may be owed.
    assert_within(timed_write(&mut stream, 1_000_000).await, 960, 981);
    let (before, begun) = (stream.group().to_owned(), Instant::now());
    timed_write(&mut stream, 59_000_000).await;
    assert_within(begun.elapsed(), 58_980, 59_001);
    assert_eq!(
        (before.as_str(), g.usage().io_written_bytes),
        ("g", 60_000_000)
    );
    // All of the time was waiting, and it is known.
    let waited = g.usage().io_throttled;
    assert_within(waited, 59_940, 59_981);
}

#[tokio::test(start_paused = true)]
async fn reads_and_writes_of_all_streams_of_the_group_share_it() {
    let governor = governor(&[
        ("g", "max_io_bytes_per_second=1MB"),
        ("free", "cpu_core_limit=1"),
    ]);
    let g = group(&governor, "g");
    let begun = Instant::now();
    let (mut tasks, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let ((mut writer, far), (reader, mut other)) = (pipe(&g), pipe(&g));
        ends.push(far);
        tasks.push(tokio::spawn(async move {
            timed_write(&mut writer, 500_000).await;
        }));
        tasks.push(tokio::spawn(async move {
            other.write_all(&vec![1; 500_000]).await.unwrap();
            drop(other);
            assert_eq!(read_to_end(reader).await.len(), 500_000);
        }));
    }
    // Another group is not bound by it.
    let (mut free, _far) = pipe(&group(&governor, "free"));
    assert_eq!(timed_write(&mut free, 10_000_000).await, Duration::ZERO);
    for task in tasks {
        task.await.unwrap();
    }
    assert_within(begun.elapsed(), 9_960, 9_990);
    let usage = g.usage();
    assert_eq!(
        (usage.io_read_bytes, usage.io_written_bytes),
        (5_000_000, 5_000_000)
    );
}

#[tokio::test(start_paused = true)]
async fn an_alter_binds_at_once_who_waits() {
    let governor = governor(&[("g", "max_io_bytes_per_second=100")]);
    let (mut stream, _far) = pipe(&group(&governor, "g"));
    let begun = Instant::now();
    let write = tokio::spawn(async move {
        timed_write(&mut stream, 1_000_000).await;
        stream
    });
    sleep(Duration::from_secs(1)).await;
    assert!(!write.is_finished());
    alter(&governor, "g", "1000000").await;
    let mut stream = write.await.unwrap();
    assert_within(begun.elapsed(), 1_960, 2_001);

    // Off, and nobody waits; on again, and the next operation does.
    let write = tokio::spawn(async move {
        timed_write(&mut stream, 20_000_000).await;
        stream
    });
    sleep(Duration::from_secs(1)).await;
    alter(&governor, "g", "0").await;
    let begun = Instant::now();
    let mut stream = write.await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    alter(&governor, "g", "1MB").await;
    assert_within(timed_write(&mut stream, 1_000_000).await, 960, 981);

    // Lowered a thousandfold: what is owed at the old rate does not shut it out.
    alter(&governor, "g", "100MB").await;
    timed_write(&mut stream, 10_000_000).await;
    alter(&governor, "g", "1000").await;
    assert_within(timed_write(&mut stream, 20).await, 0, 41);
}

#[tokio::test(start_paused = true)]
async fn operations_have_their_turns_in_the_order_in_which_they_came() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1000")]);
    let g = group(&governor, "g");
    let (mut first, _far) = pipe(&g);
    timed_write(&mut first, 40).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut pipes = Vec::new();
    for number in 0..20 {
        let ((mut stream, far), tell) = (pipe(&g), tell.clone());
        pipes.push(far);
        tokio::spawn(async move {
            assert_eq!(
                stream.write(&[0; 64]).await.unwrap(),
                20,
                "20 ms of the rate"
            );
            tell.send(number).unwrap();
        });
        tokio::task::yield_now().await;
    }
    drop(tell);
    let mut order = Vec::new();
    while let Some(number) = told.recv().await {
        order.push(number);
    }
    assert_eq!(order, (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn who_leaves_the_line_makes_room_for_the_next() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1000")]);
    let g = group(&governor, "g");
    let (mut first, _far) = pipe(&g);
    timed_write(&mut first, 40).await;
    // A hundred wait for two seconds together, and all but the last leave: some before, some after they were granted.
    let mut tasks: Vec<_> = (0..100)
        .map(|_| {
            let (mut stream, far) = pipe(&g);
            tokio::spawn(async move {
                let far = far;
                stream.write_all(&[0; 20]).await.unwrap();
                drop(far);
            })
        })
        .collect();
    tokio::task::yield_now().await;
    let last = tasks.pop().unwrap();
    let begun = Instant::now();
    tasks.iter().for_each(|task| task.abort());
    for task in tasks {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    last.await.unwrap();
    assert_within(begun.elapsed(), 0, 41);
    // What they were granted went back: nothing is owed for it.
    assert_eq!(g.usage().io_written_bytes, 60);
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_neither_keeps_the_others_asleep_nor_lifts_the_limit() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of a foreign executor");
        }
    }
    let governor = governor(&[("g", "max_io_bytes_per_second=1000")]);
    let g = group(&governor, "g");
    let (mut first, _far) = pipe(&g);
    timed_write(&mut first, 40).await;
    let waker = Waker::from(Arc::new(Panics));
    let mut cx = Context::from_waker(&waker);
    let (mut foreign, _its_far) = pipe(&g);
    let polled = Pin::new(&mut foreign).poll_write(&mut cx, &[0; 20]);
    assert!(polled.is_pending());
    assert_within(timed_write(&mut first, 1_000).await, 960, 1_081);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_for_its_peer_keeps_nothing_from_others() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1000")]);
    let g = group(&governor, "g");
    let mut silent = Vec::new();
    for _ in 0..50 {
        let (mut stream, far) = pipe(&g);
        silent.push(far);
        tokio::spawn(async move {
            let _ = stream.read(&mut [0; 1024]).await;
        });
    }
    tokio::task::yield_now().await;
    let (mut stream, _far) = pipe(&g);
    assert_within(timed_write(&mut stream, 1_000).await, 960, 981);
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_killed_while_it_waits_leaves_at_once() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1")]);
    let query = governor.admit(&Attributes::new().user("g")).await.unwrap();
    let (near, _far) = tokio::io::duplex(1024);
    let begun = Instant::now();
    let handle = query.spawn(async move {
        let mut stream = Metered::new(near);
        assert_eq!(stream.group(), "g");
        assert!(stream.query_id().is_some());
        stream.write_all(&[0; 1000]).await
    });
    sleep(Duration::from_secs(5)).await;
    query.kill("enough");
    assert!(handle.await.unwrap_err().is_cancelled());
    assert_within(begun.elapsed(), 5_000, 5_001);
    let usage = query.usage();
    assert!((5..=7).contains(&usage.io_written_bytes), "{usage:?}");
    assert_within(usage.io_throttled, 4_998, 5_001);
}

#[tokio::test(start_paused = true)]
async fn streams_move_with_their_query_and_go_on_without_it() {
    let governor = governor(&[
        ("small", "max_io_bytes_per_second=1000"),
        (
            "g",
            "big_query_scan_rows_limit=10 big_query_action=switch_group(small)",
        ),
    ]);
    let user = Attributes::new().user("g");
    let query = governor.admit(&user).await.unwrap();
    let (near, _far) = tokio::io::duplex(1 << 20);
    let mut stream = Metered::in_query(&query, near);
    assert_eq!(timed_write(&mut stream, 10_000).await, Duration::ZERO);
    query.record_scan_rows(11);
    assert_eq!(stream.group(), "small");
    assert_within(timed_write(&mut stream, 1_000).await, 960, 981);
    let usage = query.usage();
    assert_eq!(usage.io_written_bytes, 11_000);
    assert_eq!(group(&governor, "small").usage().io_written_bytes, 1_000);

    // The query ends, the connection stays, and serves the next one.
    drop(query);
    timed_write(&mut stream, 100).await;
    assert_eq!(group(&governor, "small").usage().io_written_bytes, 1_100);
    let next = governor.admit(&user).await.unwrap();
    stream.charge_to(&next);
    assert_eq!((stream.group(), stream.query_id()), ("g", Some(next.id())));
    assert_eq!(timed_write(&mut stream, 10_000).await, Duration::ZERO);
    assert_eq!(next.usage().io_written_bytes, 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_cooled_query_stays_within_its_groups_rate() {
    let governor = governor(&[(
        "g",
        "max_io_bytes_per_second=1000 big_query_scan_rows_limit=10 big_query_action=cooldown",
    )]);
    let query = governor.admit(&Attributes::new().user("g")).await.unwrap();
    let (near, _far) = tokio::io::duplex(1 << 20);
    let mut stream = Metered::in_query(&query, near);
    query.record_scan_rows(11);
    assert_within(timed_write(&mut stream, 1_000).await, 960, 981);
    assert_eq!(group(&governor, "g").usage().io_written_bytes, 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_group_binds_its_streams_as_it_did_last() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1000")]);
    let (mut stream, _far) = pipe(&group(&governor, "g"));
    governor.execute("DROP RESOURCE GROUP g").await.unwrap();
    assert_within(timed_write(&mut stream, 1_000).await, 960, 981);
}

#[test]
fn without_timers_an_operation_that_would_wait_says_what_is_missing() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let governor = governor(&[("g", "max_io_bytes_per_second=1000")]);
        let (mut stream, _far) = pipe(&group(&governor, "g"));
        let error = stream.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("'g'") && error.to_string().contains("enable_time"));
        alter(&governor, "g", "0").await;
        stream.write_all(&[0; 1000]).await.unwrap();
    });
}

/// The line's driver runs on the governor's runtime; who waits elsewhere is not forgotten when that is gone.
#[test]
fn a_stream_outlives_the_runtime_under_its_governor() {
    let _watch = super::support::watch("a stream without a runtime", String::new);
    let other = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let inside = runtime.enter();
    let governor = governor(&[("g", "max_io_bytes_per_second=10")]);
    drop(inside);
    let (mut stream, _far) = pipe(&group(&governor, "g"));
    let written = other.block_on(async move {
        let write = tokio::spawn(async move {
            stream.write_all(&[0; 1000]).await.unwrap();
            stream
        });
        let waits = timeout(Duration::from_millis(50), std::future::pending::<()>()).await;
        assert!(waits.is_err() && !write.is_finished());
        runtime.shutdown_background();
        let mut stream = write.await.unwrap();
        stream.write_all(&[0; 1000]).await.unwrap();
        stream.into_inner();
        true
    });
    assert!(written);
}

#[test]
fn on_the_governors_own_threads_too() {
    let _watch = super::support::watch("metered streams under Host::Owned", String::new);
    let governor = Governor::builder()
        .host(quotient::Host::Owned)
        .workers(2)
        .init_sql("CREATE RESOURCE GROUP g TO (user='g') WITH ('max_io_bytes_per_second'='10MB')")
        .build()
        .unwrap();
    let (near, far) = tokio::io::duplex(64 << 10);
    let begun = std::time::Instant::now();
    let written = governor.block_on(async {
        let write = governor.spawn_in("g", async move {
            let mut stream = Metered::new(near);
            stream.write_all(&vec![0; 3_000_000]).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let read = tokio::spawn(read_to_end(far));
        write.unwrap().await.unwrap();
        read.await.unwrap().len()
    });
    assert_eq!(written, 3_000_000);
    assert!(
        begun.elapsed() >= Duration::from_millis(260),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn small_operations_pass_at_the_rate_and_reads_that_find_nothing_are_free() {
    let governor = governor(&[("g", "max_io_bytes_per_second=1MB")]);
    let g = group(&governor, "g");
    let (mut writer, _far) = pipe(&g);
    let (mut reader, mut peer) = pipe(&g);
    let begun = Instant::now();
    let mut room = vec![0; 64 << 10];
    for round in 0..6_000 {
        writer.write_all(&[1; 10]).await.unwrap();
        // It has its turn for as much as it has room for, and passes nothing.
        let found = futures::poll!(Box::pin(reader.read(&mut room)));
        assert!(found.is_pending());
        if round % 2 == 1 {
            peer.write_all(&[2; 20]).await.unwrap();
            reader.read_exact(&mut room[..20]).await.unwrap();
        }
    }
    // 120 000 bytes, of which 20 ms' worth was there.
    assert_within(begun.elapsed(), 98, 102);
    let usage = g.usage();
    let bytes = (usage.io_read_bytes, usage.io_written_bytes);
    assert_eq!(bytes, (60_000, 60_000));
}
