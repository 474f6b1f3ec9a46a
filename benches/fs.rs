//! What files cost beside `tokio::fs`: small and large ones, read and written whole, and read through a buffer.
//!
//! `cargo bench --bench fs -- [--quick] [--only NAME] [--workers N] [--aa]`
//!
//! One task does one operation after the other, on files that the kernel has in memory. Both sides are interleaved
//! repetition by repetition; ratios are of CPU time per operation, medians of pairs with their quartiles. `--aa` runs
//! tokio on both sides. The first row is a closure that does nothing: what an operation costs without its bytes. Threads
//! are not pinned: tokio's blocking pool would be, and ours would not.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::measure::{Cost, cost, load, median, ratios};
use support::options::Options;
use support::shapes::{Latch, wait};
use support::side::{Attached, Plain, Side, runtime};
use support::watchdog::Watchdog;

const TIME: Duration = Duration::from_secs(20);
const LEAST_REPETITIONS: usize = 5;
/// CPU per operation ÷ tokio's.
const TARGET: f64 = 1.05;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A name, how often it is done in a repetition, and what it is.
type Row = (&'static str, usize, Operation);

#[derive(Clone, Copy)]
enum Operation {
    Nothing,
    Read(usize),
    Write(usize),
    /// A file of so many bytes, through a buffer of 64 KiB.
    Buffered(usize),
}

const ROWS: [Row; 7] = [
    ("no bytes", 1_000, Operation::Nothing),
    ("read 64 KiB", 400, Operation::Read(64 * KIB)),
    ("read 1 MiB", 100, Operation::Read(MIB)),
    ("read 64 MiB", 4, Operation::Read(64 * MIB)),
    ("write 64 KiB", 400, Operation::Write(64 * KIB)),
    ("write 8 MiB", 10, Operation::Write(8 * MIB)),
    ("buffered 8 MiB", 10, Operation::Buffered(8 * MIB)),
];

/// The same lines for both: only the names differ.
macro_rules! side {
    ($name:ident, $fs:path, $blocking:path) => {
        mod $name {
            use super::{KIB, Operation};
            use std::path::PathBuf;
            use std::sync::Arc;
            use tokio::io::AsyncReadExt;
            use $blocking as spawn_blocking;
            use $fs as fs;

            pub(super) async fn run(
                operation: Operation,
                path: PathBuf,
                bytes: Arc<[u8]>,
                times: usize,
            ) {
                for _ in 0..times {
                    match operation {
                        Operation::Nothing => spawn_blocking(|| ()).await.expect("it runs"),
                        Operation::Read(length) => {
                            let read = fs::read(&path).await.expect("it can be read");
                            assert_eq!(read.len(), length);
                        }
                        Operation::Write(length) => {
                            fs::write(&path, &bytes[..length])
                                .await
                                .expect("it can be written");
                        }
                        Operation::Buffered(length) => {
                            let mut file = fs::File::open(&path).await.expect("it can be read");
                            let mut buffer = vec![0; 64 * KIB];
                            let mut left = length;
                            while left > 0 {
                                left -= file.read(&mut buffer).await.expect("it can be read");
                            }
                        }
                    }
                }
            }
        }
    };
}

side!(on_tokio, tokio::fs, tokio::task::spawn_blocking);
side!(on_quotient, quotient::fs, quotient::task::spawn_blocking);

/// A directory in memory, if there is one; removed in the end.
struct Room(PathBuf);

impl Room {
    fn new() -> Room {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = place.join(format!("quotient-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory can be made");
        Room(path)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() {
    let options = Options::from_args();
    let runtimes = [(); 2].map(|()| runtime(options.workers, false));
    let plain = Plain::on(&runtimes[0]);
    let ours = Attached::on(&runtimes[1], &[1]);
    let again = Plain::on(&runtimes[1]);
    let dump = ours.clone();
    let watchdog = Watchdog::start(move || dump.dump());
    let room = Room::new();
    println!(
        "files, one operation at a time, {} workers, {}\n",
        options.workers,
        load()
    );
    println!(
        "{:<15} {:>10} {:>10} {:>10} {:>10} | cpu ÷ tokio's",
        "", "wall µs", "tokio's", "cpu µs", "tokio's"
    );
    for (name, times, operation) in ROWS.iter().filter(|row| options.wants(row.0)) {
        watchdog.enter(name);
        let length = match *operation {
            Operation::Nothing => 0,
            Operation::Read(length) | Operation::Write(length) | Operation::Buffered(length) => {
                length
            }
        };
        let path = room.0.join("file");
        let bytes: Arc<[u8]> = vec![7; length].into();
        std::fs::write(&path, &bytes).expect("it can be written");
        let work = || (*operation, path.clone(), bytes.clone(), *times);
        let on_tokio = |side: &Plain| {
            let (operation, path, bytes, times) = work();
            once(side, on_tokio::run(operation, path, bytes, times), times)
        };
        let second = || {
            if options.same {
                return on_tokio(&again);
            }
            let (operation, path, bytes, times) = work();
            once(
                &ours,
                on_quotient::run(operation, path, bytes, times),
                times,
            )
        };
        compare(&options, name, || on_tokio(&plain), second);
        let _ = std::fs::remove_file(&path);
    }
    println!("\n{}", load());
    drop(room);
    for runtime in runtimes {
        runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

fn once<S: Side>(side: &S, work: impl Future<Output = ()> + Send + 'static, times: usize) -> usize {
    let (latch, done) = Latch::new(1);
    side.remote(0, async move {
        work.await;
        latch.arrive();
    });
    wait(&done);
    times
}

fn compare(options: &Options, name: &str, first: impl Fn() -> usize, second: impl Fn() -> usize) {
    let (mut firsts, mut seconds): (Vec<Cost>, Vec<Cost>) = (Vec::new(), Vec::new());
    let (start, time) = (Instant::now(), options.time(TIME) / ROWS.len() as u32 * 2);
    let mut repetition = 0;
    while repetition <= LEAST_REPETITIONS || start.elapsed() < time {
        // Whoever is second finds the caches as the first left them: they take turns.
        let (a, b) = if repetition % 2 == 0 {
            let a = cost(&first);
            (a, cost(&second))
        } else {
            let b = cost(&second);
            (cost(&first), b)
        };
        if repetition > 0 {
            firsts.push(a);
            seconds.push(b);
        }
        repetition += 1;
    }
    let ratio = ratios(&firsts, &seconds, |cost| cost.cpu);
    let verdict = if ratio.median <= TARGET {
        "ok"
    } else {
        "MISSED"
    };
    let micros = |costs: &[Cost], of: fn(&Cost) -> f64| median(costs, of) / 1e3;
    println!(
        "{name:<15} {:>10.1} {:>10.1} {:>10.1} {:>10.1} | {ratio} | ≤ {TARGET} {verdict}, {repetition} repetitions",
        micros(&seconds, |c| c.wall),
        micros(&firsts, |c| c.wall),
        micros(&seconds, |c| c.cpu),
        micros(&firsts, |c| c.cpu),
    );
}
