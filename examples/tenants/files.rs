//! A tenant that scans large files beside one that reads small ones, on a blocking pool of four threads.
//!
//! Closed loops on files that the kernel has in memory. In tokio's pool a small read waits for every scan that was asked
//! for before it, and for all of each. In ours the groups take turns, and a scan gives way after each MiB.

use crate::scene::{Scene, percentile};
use quotient::{Attributes, Governor};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Threads of either pool: as many as the storage under it would serve at once.
const THREADS: usize = 4;
/// Scans at once, and the length of what they read.
const SCANS: usize = 32;
const LARGE: usize = 8 << 20;
/// Readers of small files, how many of those there are, and how long they are.
const READERS: usize = 2;
const FILES: usize = 64;
const SMALL: usize = 4 << 10;

/// What came of the small reads, and how many bytes were scanned meanwhile.
#[derive(Default)]
struct Outcome {
    /// Sorted.
    latencies: Vec<Duration>,
    seconds: f64,
    scanned: u64,
}

impl Outcome {
    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    fn scan_rate(&self) -> f64 {
        self.scanned as f64 / f64::from(1 << 20) / self.seconds
    }
}

/// Where the tenants' tasks run, and how they read files.
trait Side: Clone + Send + Sync + 'static {
    fn spawn(&self, user: &str, task: impl Future<Output = ()> + Send + 'static);
    fn read(path: PathBuf) -> impl Future<Output = std::io::Result<Vec<u8>>> + Send;
}

#[derive(Clone)]
struct Plain;

impl Side for Plain {
    fn spawn(&self, _user: &str, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(task));
    }

    fn read(path: PathBuf) -> impl Future<Output = std::io::Result<Vec<u8>>> + Send {
        tokio::fs::read(path)
    }
}

#[derive(Clone)]
struct Governed(Governor);

impl Side for Governed {
    fn spawn(&self, user: &str, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(&Attributes::new().user(user), task));
    }

    fn read(path: PathBuf) -> impl Future<Output = std::io::Result<Vec<u8>>> + Send {
        quotient::fs::read(path)
    }
}

/// The files; removed in the end.
struct Files(PathBuf);

impl Files {
    fn make() -> std::io::Result<Files> {
        let name = format!("quotient-tenants-{}", std::process::id());
        let files = Files(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&files.0)?;
        std::fs::write(files.large(), vec![7; LARGE])?;
        for number in 0..FILES {
            std::fs::write(small(&files.0, number), vec![7; SMALL])?;
        }
        Ok(files)
    }

    fn large(&self) -> PathBuf {
        self.0.join("large")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn small(room: &Path, number: usize) -> PathBuf {
    room.join(format!("{number}"))
}

/// Runs both, alone and beside, and says what came of it. Starts runtimes: not to be called inside of one.
///
/// # Errors
/// When a file cannot be written, or a runtime or the governor cannot be built.
pub(crate) fn run(length: Duration) -> Result<Scene, String> {
    let text = |error: std::io::Error| error.to_string();
    let files = Files::make().map_err(text)?;
    let plain = runtime().map_err(text)?;
    let plain = plain.block_on(async {
        let alone = read(&Plain, &files, 0, length / 2).await;
        (alone, read(&Plain, &files, SCANS, length).await)
    });
    let governed = runtime().map_err(text)?;
    let governed = governed.block_on(async {
        let governor = Governor::builder()
            .max_blocking_threads(THREADS)
            .init_sql(
                "CREATE RESOURCE GROUP points TO (user='points') WITH ('io_weight'='1');
                 CREATE RESOURCE GROUP scans TO (user='scans') WITH ('io_weight'='1')",
            )
            .build()
            .map_err(|error| error.to_string())?;
        let side = Governed(governor.clone());
        let alone = read(&side, &files, 0, length / 2).await;
        let beside = read(&side, &files, SCANS, length).await;
        governor.shutdown(Duration::from_secs(1)).await;
        Ok::<_, String>((alone, beside))
    })?;
    Ok(judge(&plain, &governed))
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(THREADS)
        .enable_all()
        .build()
}

async fn read<S: Side>(side: &S, files: &Files, scans: usize, length: Duration) -> Outcome {
    let (stop, scanned) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..scans {
        let (stop, scanned, path) = (stop.clone(), scanned.clone(), files.large());
        let tell = tell.clone();
        side.spawn("scans", async move {
            while !stop.load(Relaxed) {
                let bytes = S::read(path.clone()).await.map_or(0, |bytes| bytes.len());
                scanned.fetch_add(bytes as u64, Relaxed);
            }
            drop(tell);
        });
    }
    let begun = Instant::now();
    for reader in 0..READERS {
        let (stop, room, tell) = (stop.clone(), files.0.clone(), tell.clone());
        side.spawn("points", async move {
            let mut latencies = Vec::new();
            while !stop.load(Relaxed) {
                let number = (latencies.len() * READERS + reader) % FILES;
                let asked = Instant::now();
                if S::read(small(&room, number)).await.is_ok() {
                    latencies.push(asked.elapsed());
                }
            }
            let _ = tell.send(latencies);
        });
    }
    drop(tell);
    tokio::time::sleep(length).await;
    let (seconds, scanned) = (begun.elapsed().as_secs_f64(), scanned.load(Relaxed));
    stop.store(true, Relaxed);
    let mut outcome = Outcome {
        latencies: Vec::new(),
        seconds,
        scanned,
    };
    // Until the last of them is gone.
    while let Some(latencies) = told.recv().await {
        outcome.latencies.extend(latencies);
    }
    outcome.latencies.sort_unstable();
    outcome
}

fn judge(plain: &(Outcome, Outcome), governed: &(Outcome, Outcome)) -> Scene {
    let mut scene = Scene::new("a tenant that scans large files beside one that reads small ones");
    for (name, (alone, beside)) in [("tokio", plain), ("quotient", governed)] {
        for (company, it) in [("alone", alone), ("beside scans", beside)] {
            scene.say(format!(
                "{name:<8} {company:<12} {:>8.0} small reads/s, p50 {:>7.2} ms, p99 {:>7.2} ms; {:>5.0} MiB/s scanned",
                it.rate(),
                percentile(&it.latencies, 50),
                percentile(&it.latencies, 99),
                it.scan_rate(),
            ));
        }
    }
    let (tokio, ours) = (&plain.1, &governed.1);
    scene.promise(
        "beside scans, five times as many small reads as on tokio at least",
        ours.rate() >= 5.0 * tokio.rate(),
    );
    scene.promise(
        "their p99 is a third of tokio's at most",
        percentile(&ours.latencies, 99) * 3.0 <= percentile(&tokio.latencies, 99),
    );
    scene.promise(
        "scans have a third of what they have on tokio at least",
        ours.scan_rate() * 3.0 >= tokio.scan_rate(),
    );
    scene
}
