//! A tenant that tries to take all memory, beside one that looks up orders.
//!
//! No HTTP here: its queries run on both hosts as the service's do, and what matters is memory. The hoarder's queries
//! fill blocks of 64 KiB until each has 64 MiB, several at once, over and over. On plain tokio they get it all. Under
//! Quotient the group has 96 MiB: whoever asks for more is ended, with the reason, and the neighbour does not notice.

use crate::host::{Arm, Meter, Pace};
use crate::progress::Progress;
use crate::query::Answer;
use crate::suites::Shape;
use crate::table::{Table, mix};
use quotient::{Attributes, Governor, KillReason};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The neighbour has nine tenths of the worker time, the hoarder a tenth, and its memory limit.
const GROUPS: &str = "
    CREATE RESOURCE GROUP IF NOT EXISTS neighbour TO (user = 'neighbour') WITH ('cpu_core_limit' = '9');
    CREATE RESOURCE GROUP IF NOT EXISTS hoarder TO (user = 'hoarder')
        WITH ('cpu_core_limit' = '1', 'mem_limit' = '96MiB')";
pub(crate) const LIMIT: u64 = 96 << 20;
/// What each of the hoarder's queries wants.
const WANTED: usize = 64 << 20;
const BLOCK: usize = 64 << 10;
/// What small requests may have above the limit until the end of their polls.
const GRACE: u64 = 8 << 20;
/// Queries of each tenant at once, per worker.
const CLIENTS: usize = 4;
const SAMPLE: Duration = Duration::from_millis(10);

/// What one window showed.
pub(crate) struct Window {
    pub(crate) arm: Arm,
    elapsed: Duration,
    /// Latencies of the neighbour's queries in microseconds, sorted.
    latencies: Vec<u64>,
    /// Hoarder's queries that got what they wanted, and that were ended at the limit.
    filled: u64,
    cut: u64,
    pub(crate) samples: Vec<Sample>,
}

/// Memory at one moment of a window.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    /// Of the whole process, beyond what it had before.
    pub(crate) process: u64,
    /// Of the hoarder's group; nobody knows it on plain tokio.
    pub(crate) hoarder: Option<u64>,
}

/// What came out: on each host the neighbour alone, and beside the hoarder.
pub(crate) struct Outcome {
    /// [host][alone, beside]
    windows: [[Window; 2]; 2],
    /// p99 beside ÷ alone that is still called unchanged.
    tolerated: f64,
    peak: u64,
}

/// Runs it.
///
/// # Errors
/// When a query of the neighbour fails, or one of the hoarder's for any other reason than its limit.
pub(crate) async fn run(
    governor: &Governor,
    table: &Arc<Table>,
    workers: usize,
    window: Duration,
    quick: bool,
    progress: &Progress,
) -> Result<Outcome, String> {
    governor
        .execute(GROUPS)
        .await
        .map_err(|error| error.to_string())?;
    let scene = Scene {
        governor: governor.clone(),
        table: table.clone(),
        workers,
        window,
    };
    progress.note("a tenant that tries to take all memory, on both hosts");
    let windows = [
        [
            scene.watch(Arm::Tokio, false).await?,
            scene.watch(Arm::Tokio, true).await?,
        ],
        [
            scene.watch(Arm::Quotient, false).await?,
            scene.watch(Arm::Quotient, true).await?,
        ],
    ];
    Ok(Outcome {
        windows,
        tolerated: if quick { 3.0 } else { 1.5 },
        peak: hoarder(governor)
            .and_then(|memory| memory.peak)
            .unwrap_or(0),
    })
}

struct Scene {
    governor: Governor,
    table: Arc<Table>,
    workers: usize,
    window: Duration,
}

/// How a query ended that is not answered.
enum Ended {
    AtItsLimit,
    Otherwise(String),
}

impl Scene {
    async fn watch(&self, arm: Arm, beside: bool) -> Result<Window, String> {
        let base = tracked(&self.governor);
        let stop = Arc::new(AtomicBool::new(false));
        let (filled, cut) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let clients = self.workers * CLIENTS;
        let neighbours: Vec<_> = (0..clients)
            .map(|number| tokio::spawn(self.neighbour(arm, number as u64, stop.clone())))
            .collect();
        let hoarders: Vec<_> = (0..if beside { clients } else { 0 })
            .map(|_| tokio::spawn(self.hoard(arm, stop.clone(), filled.clone(), cut.clone())))
            .collect();
        let start = Instant::now();
        let mut samples = Vec::new();
        while start.elapsed() < self.window {
            samples.push(Sample {
                at: start.elapsed(),
                process: tracked(&self.governor).saturating_sub(base),
                hoarder: match arm {
                    Arm::Tokio => None,
                    Arm::Quotient => hoarder(&self.governor).and_then(|memory| memory.used),
                },
            });
            tokio::time::sleep(SAMPLE).await;
        }
        let elapsed = start.elapsed();
        stop.store(true, Relaxed);
        let mut latencies = Vec::new();
        for client in neighbours {
            latencies.extend(client.await.map_err(|error| error.to_string())??);
        }
        for client in hoarders {
            client.await.map_err(|error| error.to_string())??;
        }
        latencies.sort_unstable();
        Ok(Window {
            arm,
            elapsed,
            latencies,
            filled: filled.load(Relaxed),
            cut: cut.load(Relaxed),
            samples,
        })
    }

    /// Looks orders up in a closed loop; how long each took.
    fn neighbour(
        &self,
        arm: Arm,
        number: u64,
        stop: Arc<AtomicBool>,
    ) -> impl Future<Output = Result<Vec<u64>, String>> + Send + use<> {
        let (governor, table) = (self.governor.clone(), self.table.clone());
        async move {
            let mut latencies = Vec::new();
            let mut random = mix(number);
            while !stop.load(Relaxed) {
                random = mix(random);
                let query = Shape::Lookup { days: 60 }.draw(random);
                let start = Instant::now();
                let answered = on(
                    &governor,
                    arm,
                    "neighbour",
                    query.run(table.clone(), pace(arm)),
                );
                match answered.await {
                    Ok(Answer { .. }) => latencies.push(start.elapsed().as_micros() as u64),
                    Err(Ended::AtItsLimit) => return Err("the neighbour met a memory limit".into()),
                    Err(Ended::Otherwise(why)) => return Err(why),
                }
            }
            Ok(latencies)
        }
    }

    /// Hoards in a closed loop.
    fn hoard(
        &self,
        arm: Arm,
        stop: Arc<AtomicBool>,
        filled: Arc<AtomicU64>,
        cut: Arc<AtomicU64>,
    ) -> impl Future<Output = Result<(), String>> + Send + use<> {
        let governor = self.governor.clone();
        async move {
            while !stop.load(Relaxed) {
                match on(&governor, arm, "hoarder", fill(pace(arm), stop.clone())).await {
                    Ok(_) => filled.fetch_add(1, Relaxed),
                    Err(Ended::AtItsLimit) => cut.fetch_add(1, Relaxed),
                    Err(Ended::Otherwise(why)) => return Err(why),
                };
            }
            Ok(())
        }
    }
}

/// A query of `user` on a host.
async fn on<T: Send + 'static>(
    governor: &Governor,
    arm: Arm,
    user: &str,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Ended> {
    let text = |error: &dyn fmt::Display| Ended::Otherwise(error.to_string());
    match arm {
        Arm::Tokio => tokio::spawn(work).await.map_err(|error| text(&error)),
        Arm::Quotient => {
            let admitted = governor.admit(&Attributes::new().user(user)).await;
            let query = admitted.map_err(|error| text(&error))?;
            query.run(work).await.map_err(|error| match error.reason() {
                Some(KillReason::MemoryLimit { .. }) => Ended::AtItsLimit,
                _ => text(&error),
            })
        }
    }
}

/// Fills blocks, one at a time, until there are enough; what they add up to.
async fn fill(pace: Pace, stop: Arc<AtomicBool>) -> u64 {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    while blocks.len() * BLOCK < WANTED && !stop.load(Relaxed) {
        pace.step(|| blocks.push(vec![blocks.len() as u8 | 1; BLOCK]))
            .await;
    }
    blocks.iter().map(|block| u64::from(block[BLOCK / 2])).sum()
}

/// Nobody's CPU time is compared here.
fn pace(arm: Arm) -> Pace {
    Pace {
        arm,
        meter: Arc::new(Meter::default()),
        tenant: 0,
    }
}

fn tracked(governor: &Governor) -> u64 {
    governor.metrics().memory.tracked.unwrap_or(0)
}

fn hoarder(governor: &Governor) -> Option<quotient::metrics::memory::GroupMemory> {
    let metrics = governor.metrics();
    let row = metrics.groups.iter().find(|row| row.name == "hoarder")?;
    Some(row.memory)
}

impl Window {
    fn p99(&self) -> f64 {
        let rank = (self.latencies.len() * 99).div_ceil(100).saturating_sub(1);
        self.latencies
            .get(rank)
            .map_or(f64::NAN, |&micros| micros as f64 / 1000.0)
    }

    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    fn most(&self) -> u64 {
        self.samples
            .iter()
            .map(|sample| sample.process)
            .max()
            .unwrap_or(0)
    }
}

impl Outcome {
    /// The windows with the hoarder, for the picture: plain tokio, then Quotient.
    pub(crate) fn beside(&self) -> [&Window; 2] {
        self.windows.each_ref().map(|[_, beside]| beside)
    }

    /// Whether the hoarder was cut at its limit, and the neighbour did not notice.
    pub(crate) fn holds(&self) -> bool {
        self.is_cut() && self.is_unnoticed()
    }

    fn is_cut(&self) -> bool {
        self.windows[1][1].cut > 0 && self.peak > 0 && self.peak <= LIMIT + GRACE
    }

    /// Not `>`: a ratio that is no number does not hold.
    fn is_unnoticed(&self) -> bool {
        let [alone, beside] = &self.windows[1];
        beside.p99() / alone.p99() <= self.tolerated
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = |holds| if holds { "PASS" } else { "FAIL" };
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "a tenant that tries to take all memory, beside one that looks up orders"
        )?;
        for [alone, beside] in &self.windows {
            writeln!(
                f,
                "  {:<9} neighbour alone {:.0}/s, p99 {:.1} ms; beside {:.0}/s, p99 {:.1} ms; \
                 the process took up to {:.0} MiB more; hoarder: {} queries had all, {} were ended at the limit",
                alone.arm,
                alone.rate(),
                alone.p99(),
                beside.rate(),
                beside.p99(),
                mib(beside.most()),
                beside.filled,
                beside.cut,
            )?;
        }
        let [alone, beside] = &self.windows[1];
        writeln!(
            f,
            "  hoarder's peak under Quotient: {:.1} MiB, asked for at most {:.0} + {:.0} of grace: {}",
            mib(self.peak),
            mib(LIMIT),
            mib(GRACE),
            verdict(self.is_cut())
        )?;
        writeln!(
            f,
            "  neighbour's p99 beside ÷ alone under Quotient: {:.2}, asked for at most {}: {}",
            beside.p99() / alone.p99(),
            self.tolerated,
            verdict(self.is_unnoticed())
        )
    }
}
