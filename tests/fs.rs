//! Files are their query's and group's: counted, bounded, in slices between which others have their turn.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
#[path = "fs/room.rs"]
mod room;
mod support;

use live::{Build, eventually, governor, multi_thread, named, watched};
use quotient::alloc::GroupAlloc;
use quotient::fs::{self, File};
use quotient::{Governor, Query};
use room::{Room, pattern};
use std::error::Error;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOC: GroupAlloc = GroupAlloc::new();

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('io_weight'='1');
    CREATE RESOURCE GROUP other WITH ('io_weight'='1')";
const MIB: usize = 1 << 20;

/// A pool of one thread, on which one closure waits for another.
fn one_thread() -> (Runtime, Governor) {
    let runtime = multi_thread(2);
    let builder = Governor::builder().workers(2).init_sql(SQL);
    let governor = runtime.build(builder.max_blocking_threads(1));
    (runtime, governor)
}

fn pipe(room: &Room) -> PathBuf {
    let path = room.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    path
}

/// Opens the writing end of a pipe, once somebody opens the other one.
fn writer(path: &Path) -> std::fs::File {
    std::fs::OpenOptions::new().write(true).open(path).unwrap()
}

async fn admitted(governor: &Governor, group: &str) -> Query {
    governor.admit(&named(group)).await.unwrap()
}

#[test]
fn bytes_are_counted_to_query_and_group_in_both_directions() {
    let _watched = watched("bytes");
    for ground in live::grounds(2) {
        let governor = governor(&ground, 2, SQL);
        let room = Room::new();
        ground.block_on(async {
            let query = admitted(&governor, "g").await;
            let (from, to) = (room.path().join("from"), room.path().join("to"));
            query.run(moved(from, to)).await.unwrap();
            let usage = query.usage();
            // Whole files: 3 MiB + 1 written and read, and copied. Open ones: 10 bytes written, 4 of them read.
            let whole = 3 * MIB as u64 + 1;
            assert_eq!(usage.io_written_bytes, 2 * whole + 10);
            assert_eq!(usage.io_read_bytes, 2 * whole + 4);
            assert_eq!(usage.io_bytes, 4 * whole + 14);
            assert_eq!(query.usage().scan_bytes, 0);
            let group = governor.classify(&named("g")).unwrap();
            assert_eq!(group.usage().io_bytes, usage.io_bytes);
            assert_eq!(group.stats().io.read, usage.io_read_bytes);
            let page = governor.render_metrics();
            for (direction, bytes) in [("read", 2 * whole + 4), ("write", 2 * whole + 10)] {
                let labels = format!("{{group=\"g\",direction=\"{direction}\"}}");
                let line = format!("quotient_group_io_bytes_total{labels} {bytes}\n");
                assert!(page.contains(&line), "{line}");
            }
            let shown = governor
                .execute("SELECT io_bytes FROM groups WHERE name = 'g'")
                .await;
            let shown = shown.unwrap()[0].to_string();
            assert!(shown.contains(&usage.io_bytes.to_string()), "{shown}");
            // Outside of tasks it is default_wg's.
            let _entered = governor.enter();
            fs::write(room.path().join("f"), "12345").await.unwrap();
        });
        let default = governor.classify(&named("default_wg")).unwrap();
        assert_eq!(default.usage().io_written_bytes, 5);
    }
}

async fn moved(from: PathBuf, to: PathBuf) {
    let bytes = pattern(3 * MIB + 1);
    fs::write(&from, &bytes).await.unwrap();
    assert_eq!(fs::read(&from).await.unwrap(), bytes);
    assert_eq!(fs::copy(&from, &to).await.unwrap(), bytes.len() as u64);
    let mut file = File::create(&to).await.unwrap();
    file.write_all(b"0123456789").await.unwrap();
    file.flush().await.unwrap();
    let mut file = File::open(&to).await.unwrap();
    file.read_exact(&mut [0; 4]).await.unwrap();
}

#[test]
fn another_has_its_turn_between_two_slices_of_a_read() {
    let _watched = watched("turns");
    let (runtime, governor) = one_thread();
    let room = Room::new();
    let path = pipe(&room);
    runtime.block_on(async {
        let reader = admitted(&governor, "g").await;
        let reading = reader.spawn(fs::read(path.clone()));
        let mut writer = writer(&path);
        // The pool's one thread is in the first slice, and this stands behind it.
        let other = admitted(&governor, "other").await;
        let closure = other.spawn_blocking(|| ());
        writer.write_all(&vec![7; 2 * MIB - 1]).unwrap();
        // Nobody ends the read before the closure has run.
        closure.await.unwrap();
        assert!(!reading.is_finished());
        drop(writer);
        let read = reading.await.unwrap().unwrap();
        assert_eq!(read.len(), 2 * MIB - 1);
    });
}

#[test]
fn a_read_that_nobody_waits_for_ends_with_its_slice() {
    let _watched = watched("nobody waits");
    let (runtime, governor) = one_thread();
    let room = Room::new();
    let path = pipe(&room);
    runtime.block_on(async {
        let query = admitted(&governor, "g").await;
        let reading = query.spawn(fs::read(path.clone()));
        let mut writer = writer(&path);
        reading.abort();
        assert!(reading.await.unwrap_err().is_cancelled());
        let writing = std::thread::spawn(move || {
            // More than a slice and a pipe hold: the end of the reader is what ends it.
            let written = writer.write_all(&vec![7; 4 * MIB]);
            written.unwrap_err().kind()
        });
        let ended = || writing.is_finished();
        eventually("the reader is gone", ended).await;
        assert_eq!(writing.join().unwrap(), ErrorKind::BrokenPipe);
        let read = query.usage().io_read_bytes;
        assert!(read <= MIB as u64, "{read}");
    });
}

#[test]
fn a_killed_query_reads_no_further() {
    let _watched = watched("killed");
    let (runtime, governor) = one_thread();
    let room = Room::new();
    let path = pipe(&room);
    runtime.block_on(async {
        let query = admitted(&governor, "g").await;
        // Of the query, but awaited from outside of it.
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let reading = path.clone();
        drop(query.spawn(async move {
            let mut read = Box::pin(fs::read(reading));
            assert!(futures::poll!(&mut read).is_pending());
            sender.send(read).map_err(drop).unwrap();
        }));
        let read = receiver.await.unwrap();
        let mut writer = writer(&path);
        writer.write_all(&vec![7; MIB / 2]).unwrap();
        query.kill("enough");
        let writing = std::thread::spawn(move || writer.write_all(&vec![7; 4 * MIB]).is_err());
        let error = read.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert_eq!(error.to_string(), "background task failed");
        let ended = || writing.is_finished();
        eventually("the reader is gone", ended).await;
        assert!(writing.join().unwrap());
    });
}

#[test]
fn what_never_began_says_why() {
    let _watched = watched("why");
    let (runtime, governor) = one_thread();
    let room = Room::new();
    let path = room.path().join("f");
    std::fs::write(&path, "x").unwrap();
    runtime.block_on(async {
        let query = admitted(&governor, "g").await;
        let (go, gone) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (may_go, is_busy) = (go.clone(), gone.clone());
        let busy = admitted(&governor, "other").await.spawn_blocking(move || {
            is_busy.store(true, Ordering::SeqCst);
            while !may_go.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        eventually("the pool is busy", || gone.load(Ordering::SeqCst)).await;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        drop(query.spawn(async move {
            let mut calls: [futures::future::BoxFuture<'static, std::io::Result<()>>; 3] = [
                Box::pin({
                    let path = path.clone();
                    async move { fs::read(path).await.map(drop) }
                }),
                Box::pin({
                    let path = path.clone();
                    async move { fs::write(path, "y").await }
                }),
                Box::pin({
                    let path = path.clone();
                    async move { fs::metadata(path).await.map(drop) }
                }),
            ];
            for call in &mut calls {
                assert!(futures::poll!(call).is_pending());
            }
            sender.send(calls).map_err(drop).unwrap();
        }));
        let calls = receiver.await.unwrap();
        query.kill("enough");
        go.store(true, Ordering::SeqCst);
        busy.await.unwrap();
        for call in calls {
            let error = call.await.unwrap_err();
            assert_eq!(error.to_string(), "background task failed");
            let why = error.source().unwrap().to_string();
            assert!(why.contains("enough"), "{why}");
        }
        assert_eq!(std::fs::read(room.path().join("f")).unwrap(), b"x");
    });
}

#[test]
fn what_was_accepted_is_written_though_the_query_is_killed() {
    let _watched = watched("accepted");
    let (runtime, governor) = one_thread();
    let room = Room::new();
    runtime.block_on(async {
        let (query, path) = (admitted(&governor, "g").await, room.path().join("f"));
        accept_behind_a_busy_pool(&governor, &query, &path, || {
            query.kill("enough");
        })
        .await;
        let written = || std::fs::read(&path).unwrap() == pattern(1_000);
        eventually("it is written", written).await;
    });
}

#[test]
fn what_was_accepted_is_written_though_the_governor_or_the_runtime_is_gone() {
    let _watched = watched("shut down");
    for whole_runtime in [false, true] {
        let (runtime, governor) = one_thread();
        let room = Room::new();
        let path = room.path().join("f");
        runtime.block_on(async {
            let query = admitted(&governor, "g").await;
            accept_behind_a_busy_pool(&governor, &query, &path, || {}).await;
            drop(query);
            if !whole_runtime {
                governor.shutdown(Duration::ZERO).await;
            }
        });
        drop(runtime);
        drop(governor);
        assert_eq!(std::fs::read(&path).unwrap(), pattern(1_000));
    }
}

/// A task of the query has a write accepted that cannot begin; then something happens, and it could.
async fn accept_behind_a_busy_pool(
    governor: &Governor,
    query: &Query,
    path: &Path,
    meanwhile: impl FnOnce(),
) {
    let path = path.to_owned();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let opening = query.run(async move { File::create(&path).await.unwrap() });
    let mut file = opening.await.unwrap();
    let (go, began) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (may_go, has_begun) = (go.clone(), began.clone());
    let busy = admitted(governor, "other").await.spawn_blocking(move || {
        has_begun.store(true, Ordering::SeqCst);
        while !may_go.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    eventually("the pool is busy", || began.load(Ordering::SeqCst)).await;
    drop(query.spawn(async move {
        file.write_all(&pattern(1_000)).await.unwrap();
        sender.send(()).unwrap();
    }));
    receiver.await.unwrap();
    meanwhile();
    go.store(true, Ordering::SeqCst);
    drop(busy);
}

#[test]
fn after_the_end_everything_is_an_error_and_nothing_panics() {
    let _watched = watched("after the end");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, SQL);
    let room = Room::new();
    let path = room.path().join("f");
    std::fs::write(&path, "x").unwrap();
    runtime.block_on(async {
        let _entered = governor.enter();
        let mut file = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .await
            .unwrap();
        governor.shutdown(Duration::ZERO).await;
        let failed = |error: std::io::Error| (error.kind(), error.to_string());
        let lost = (ErrorKind::Other, "background task failed".to_owned());
        assert_eq!(failed(fs::read(&path).await.unwrap_err()), lost);
        assert_eq!(failed(fs::write(&path, "y").await.unwrap_err()), lost);
        assert_eq!(failed(fs::metadata(&path).await.unwrap_err()), lost);
        assert_eq!(failed(fs::read_dir(room.path()).await.unwrap_err()), lost);
        assert_eq!(failed(file.write(b"y").await.unwrap_err()), lost);
        assert!(file.read(&mut [0; 1]).await.is_err());
        assert!(file.set_len(0).await.is_err());
        assert!(file.sync_all().await.is_err());
        assert!(file.flush().await.is_ok());
    });
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
}

#[test]
fn a_file_larger_than_the_groups_memory_is_an_error_and_ends_nobody() {
    let _watched = watched("too large");
    let runtime = multi_thread(2);
    let sql = "CREATE RESOURCE GROUP small WITH ('mem_limit'='64MB')";
    let governor = governor(&runtime, 2, sql);
    let room = Room::new();
    let path = room.path().join("large");
    std::fs::File::create(&path)
        .unwrap()
        .set_len(96 * MIB as u64)
        .unwrap();
    runtime.block_on(async {
        let query = admitted(&governor, "small").await;
        let read = query.run(async move {
            let error = fs::read(&path).await.unwrap_err();
            // It can go on, in parts.
            let mut file = File::open(&path).await.unwrap();
            let mut part = vec![0; 4 * MIB];
            file.read_exact(&mut part).await.unwrap();
            error.kind()
        });
        assert_eq!(read.await.unwrap(), ErrorKind::OutOfMemory);
    });
}

#[test]
fn a_file_in_the_hands_of_another_query_is_charged_to_that() {
    let _watched = watched("hands");
    let (runtime, governor) = one_thread();
    let room = Room::new();
    let path = room.path().join("f");
    std::fs::write(&path, pattern(100)).unwrap();
    runtime.block_on(async {
        let (one, other) = (
            admitted(&governor, "g").await,
            admitted(&governor, "other").await,
        );
        let file = one
            .run(async move { File::open(&path).await.unwrap() })
            .await;
        let mut file = file.unwrap();
        let read = other.run(async move { file.read(&mut [0; 40]).await.unwrap() });
        assert_eq!(read.await.unwrap(), 40);
        assert_eq!((one.usage().io_bytes, other.usage().io_bytes), (0, 40));
    });
}

#[test]
fn a_write_goes_on_to_its_end_though_its_task_is_aborted() {
    let _watched = watched("goes on");
    let (runtime, governor) = one_thread();
    let room = Room::new();
    let path = pipe(&room);
    runtime.block_on(async {
        let query = admitted(&governor, "g").await;
        let writing = query.spawn(fs::write(path.clone(), pattern(3 * MIB)));
        let mut reader = std::fs::File::open(&path).unwrap();
        writing.abort();
        assert!(writing.await.unwrap_err().is_cancelled());
        let running = || governor.classify(&named("g")).unwrap().stats().blocking;
        assert_eq!(running(), 1);
        let read = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
            bytes
        });
        let ended = || read.is_finished();
        eventually("it is written to its end", ended).await;
        assert!(read.join().unwrap() == pattern(3 * MIB));
        eventually("nothing runs", || running() == 0).await;
        assert_eq!(query.usage().io_written_bytes, 3 * MIB as u64);
    });
}

/// A pool of one thread, for which one closure of each group may wait.
fn a_short_line() -> (Runtime, Governor) {
    let runtime = multi_thread(2);
    let builder = Governor::builder().workers(2).init_sql(SQL);
    let builder = builder.max_blocking_threads(1).max_queued_blocking(1);
    let governor = runtime.build(builder);
    (runtime, governor)
}

#[test]
fn a_full_line_ends_nothing_that_has_begun() {
    let _watched = watched("begun");
    let (runtime, governor) = a_short_line();
    runtime.block_on(async {
        let query = admitted(&governor, "g").await;
        let room = Room::new();
        let path = pipe(&room);
        let reading = query.spawn(fs::read(path.clone()));
        let mut near = writer(&path);
        // The thread waits for bytes: this one takes the only place in the line, and somebody waits after each slice.
        let mut next = query.spawn_blocking(|| ());
        let written = std::thread::spawn(move || near.write_all(&pattern(3 * MIB)));
        assert!(reading.await.unwrap().unwrap() == pattern(3 * MIB));
        written.join().unwrap().unwrap();
        next.await.unwrap();

        // And the same with what nobody waits for any more.
        let writing = query.spawn(fs::write(path.clone(), pattern(3 * MIB)));
        let mut far = std::fs::File::open(&path).unwrap();
        writing.abort();
        assert!(writing.await.unwrap_err().is_cancelled());
        next = query.spawn_blocking(|| ());
        let read = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut far, &mut bytes).unwrap();
            bytes
        });
        eventually("it is written to its end", || read.is_finished()).await;
        assert!(read.join().unwrap() == pattern(3 * MIB));
        next.await.unwrap();
    });
}

/// Keeps the only thread busy, and the line of `g` full, until told.
async fn fill(governor: &Governor, query: &Query) -> impl FnOnce() + use<> {
    let (go, began) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (may_go, has_begun) = (go.clone(), began.clone());
    drop(admitted(governor, "other").await.spawn_blocking(move || {
        has_begun.store(true, Ordering::SeqCst);
        while !may_go.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }));
    eventually("the pool is busy", || began.load(Ordering::SeqCst)).await;
    drop(query.spawn_blocking(|| ()));
    move || go.store(true, Ordering::SeqCst)
}

#[test]
fn what_was_refused_has_not_moved_the_position() {
    let _watched = watched("refused");
    let (runtime, governor) = a_short_line();
    let room = Room::new();
    let path = room.path().join("f");
    std::fs::write(&path, "0123456789").unwrap();
    runtime.block_on(async {
        let _entered = governor.enter();
        for seeks in [false, true] {
            let query = admitted(&governor, "g").await;
            let mut options = File::options();
            let mut file = options.read(true).write(true).open(&path).await.unwrap();
            // Six bytes are read ahead.
            while futures::poll!(Box::pin(file.read(&mut [0; 6]))).is_ready() {
                file.rewind().await.unwrap();
            }
            file.sync_all().await.unwrap();
            let empty = fill(&governor, &query).await;
            let told = query.run(async move {
                let refused = if seeks {
                    file.stream_position().await.map(drop)
                } else {
                    file.write(b"X").await.map(drop)
                };
                assert!(refused.is_err());
                empty();
                loop {
                    // The line is full for some time still.
                    let mut bytes = [0; 3];
                    match file.read(&mut bytes).await {
                        Ok(many) => return bytes[..many].to_vec(),
                        Err(_) => tokio::task::yield_now().await,
                    }
                }
            });
            assert_eq!(told.await.unwrap(), b"012", "{seeks}");
        }
    });
    assert_eq!(std::fs::read(&path).unwrap(), b"0123456789");
}

#[test]
fn what_cannot_go_back_does_not_read_what_it_was_to_write() {
    let _watched = watched("no way back");
    let (runtime, governor) = one_thread();
    runtime.block_on(async {
        let _entered = governor.enter();
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut file = File::from(std::os::fd::OwnedFd::from(near));
        // Read ahead, where there is no position.
        assert!(futures::poll!(Box::pin(file.read(&mut [0; 6]))).is_pending());
        far.write_all(b"abcdef").unwrap();
        assert_eq!(file.write(b"to write").await.unwrap(), 8);
        assert!(file.flush().await.is_err());
        far.write_all(b"ghi").unwrap();
        let mut bytes = [0; 8];
        let many = file.read(&mut bytes).await.unwrap();
        assert_eq!(&bytes[..many], b"ghi");
    });
}

#[test]
fn a_length_is_set_after_a_read_also_if_an_error_was_not_told_yet() {
    let _watched = watched("not told");
    let (runtime, governor) = one_thread();
    let room = Room::new();
    let path = room.path().join("f");
    std::fs::write(&path, "0123456789").unwrap();
    runtime.block_on(async {
        let _entered = governor.enter();
        let mut file = File::open(&path).await.unwrap();
        file.write_all(b"X").await.unwrap();
        // It keeps the error of the write.
        file.sync_all().await.unwrap();
        let query = admitted(&governor, "g").await;
        let empty = fill(&governor, &query).await;
        assert!(futures::poll!(Box::pin(file.read(&mut [0; 6]))).is_pending());
        let mut setting = Box::pin(file.set_len(3));
        assert!(futures::poll!(&mut setting).is_pending());
        empty();
        assert!(setting.await.is_err(), "it is open for reading only");
        let mut bytes = [0; 3];
        file.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"012");
    });
}

#[test]
fn groups_share_the_threads_by_weight_whatever_the_size_of_their_reads() {
    let _watched = watched("shares");
    let runtime = multi_thread(2);
    let sql = "CREATE RESOURCE GROUP g WITH ('io_weight'='2');
        CREATE RESOURCE GROUP other WITH ('io_weight'='1')";
    let builder = Governor::builder().workers(2).init_sql(sql);
    let governor = runtime.build(builder.max_blocking_threads(1));
    let room = Room::new();
    let stop = Arc::new(AtomicBool::new(false));
    // Many small ones, so that some wait at any time, beside a few large ones.
    for (group, readers, length) in [("g", 200, MIB / 4), ("other", 8, 8 * MIB)] {
        let path = room.path().join(group);
        std::fs::write(&path, pattern(length)).unwrap();
        for _ in 0..readers {
            let (stop, path) = (stop.clone(), path.clone());
            let reader = async move {
                while !stop.load(Ordering::SeqCst) {
                    assert_eq!(fs::read(&path).await.unwrap().len(), length);
                }
            };
            drop(governor.spawn_in(group, reader).unwrap());
        }
    }
    let used = |group: &str| {
        let used = governor
            .classify(&named(group))
            .unwrap()
            .stats()
            .io_blocking;
        Duration::from(used)
    };
    let (mut before, mut after) = ([Duration::ZERO; 2], [Duration::ZERO; 2]);
    runtime.block_on(async {
        let both = || [used("g"), used("other")];
        let since = |before: [Duration; 2]| both()[0] + both()[1] - before[0] - before[1];
        eventually("both are at work", || {
            both().iter().all(|it| it.as_millis() > 50)
        })
        .await;
        before = both();
        eventually("half a second of the thread is gone", || {
            since(before) > Duration::from_millis(500)
        })
        .await;
        after = both();
        stop.store(true, Ordering::SeqCst);
        governor.shutdown(Duration::from_secs(20)).await;
    });
    let ratio = (after[0] - before[0]).as_secs_f64() / (after[1] - before[1]).as_secs_f64();
    // By the number of bytes asked for it would be less than one, by that of calls more than six.
    assert!((1.3..3.0).contains(&ratio), "{ratio}");
}

/// The rate of a limited group: 20 ms of it pass at once, and in operations of 20 ms.
const RATE: u64 = 1_000_000;

fn limited(rate: u64) -> (Runtime, Governor) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let sql = format!("CREATE RESOURCE GROUP g WITH ('max_io_bytes_per_second'='{rate}')");
    let governor = governor(&runtime, 1, &sql);
    (runtime, governor)
}

#[test]
fn what_a_limited_group_reads_and_writes_passes_at_its_rate() {
    let _watched = watched("rate");
    let (runtime, governor) = limited(RATE);
    let room = Room::new();
    let (one, other) = (room.path().join("one"), room.path().join("other"));
    runtime.block_on(async {
        let query = admitted(&governor, "g").await;
        let taken = query.run(async move {
            let mut taken = Vec::new();
            let mut since = tokio::time::Instant::now();
            let mut lap = |bytes: usize| {
                taken.push((bytes, since.elapsed()));
                since = tokio::time::Instant::now();
            };
            fs::write(&one, pattern(3_000_000)).await.unwrap();
            lap(3_000_000);
            assert_eq!(fs::read(&one).await.unwrap(), pattern(3_000_000));
            lap(3_000_000);
            fs::copy(&one, &other).await.unwrap();
            lap(6_000_000);
            let mut file = File::create(&other).await.unwrap();
            file.write_all(&pattern(500_000)).await.unwrap();
            file.flush().await.unwrap();
            lap(500_000);
            let mut file = File::open(&other).await.unwrap();
            let mut read = Vec::new();
            file.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, pattern(500_000));
            lap(500_000);
            taken
        });
        let taken = taken.await.unwrap();
        for (bytes, time) in taken {
            let due = bytes as f64 / RATE as f64;
            // An operation and what had come in before are 20 ms each; the timers beat by the millisecond.
            let off = (time.as_secs_f64() - due).abs();
            assert!(off <= 0.05, "{bytes} bytes took {time:?}");
        }
        assert_eq!(query.usage().io_bytes, 13_000_000);
        assert!(query.usage().io_throttled > Duration::from_secs(12));
    });
}

#[test]
fn a_limit_that_is_lifted_holds_nobody_back() {
    let _watched = watched("lifted");
    let (runtime, governor) = limited(100);
    let room = Room::new();
    let path = room.path().join("f");
    std::fs::write(&path, pattern(3 * MIB)).unwrap();
    runtime.block_on(async {
        let since = tokio::time::Instant::now();
        let reading = admitted(&governor, "g").await.spawn(fs::read(path));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!reading.is_finished());
        let lift = "ALTER RESOURCE GROUP g WITH ('max_io_bytes_per_second'='0')";
        governor.execute(lift).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap().len(), 3 * MIB);
        assert!(
            since.elapsed() < Duration::from_secs(2),
            "{:?}",
            since.elapsed()
        );
    });
}

#[test]
fn a_copy_that_waits_for_its_rate_goes_on_when_nobody_waits_for_it() {
    let _watched = watched("copy");
    let (runtime, governor) = limited(RATE);
    let room = Room::new();
    let (one, other) = (room.path().join("one"), room.path().join("other"));
    std::fs::write(&one, pattern(3 * MIB)).unwrap();
    runtime.block_on(async {
        let query = admitted(&governor, "g").await;
        let copying = query.spawn(fs::copy(one, other.clone()));
        tokio::time::sleep(Duration::from_millis(500)).await;
        copying.abort();
        assert!(copying.await.unwrap_err().is_cancelled());
        let copied = || std::fs::read(&other).unwrap() == pattern(3 * MIB);
        eventually("all of it is copied", copied).await;
    });
}
