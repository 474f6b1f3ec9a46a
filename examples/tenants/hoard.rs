//! A tenant that tries to take all memory, beside one that looks up orders.
//!
//! No HTTP here: its queries run on both hosts as the service's do, and what matters is memory. The hoarder's queries
//! fill blocks of 64 KiB until each has 96 MiB, two at once, over and over. On plain tokio they get it all. Under
//! Quotient the group has 48 MiB: whoever asks for more is ended, with the reason, and the neighbour does not notice.

use crate::curves;
use crate::host::{Arm, Meter, Pace};
use crate::query::Answer;
use crate::scene::{Scene, percentile};
use crate::suites::Shape;
use crate::table::{Table, mix};
use quotient::{Attributes, Governor, KillReason};
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The neighbour has nine tenths of the worker time, the hoarder a tenth, and its memory limit.
const GROUPS: &str = "
    CREATE RESOURCE GROUP neighbour TO (user = 'neighbour') WITH ('cpu_core_limit' = '9');
    CREATE RESOURCE GROUP hoarder TO (user = 'hoarder')
        WITH ('cpu_core_limit' = '1', 'mem_limit' = '48MiB')";
/// So little that the poll in which a query gives it back is not longer than the neighbour's tail.
pub(crate) const LIMIT: u64 = 48 << 20;
/// What each of the hoarder's queries wants.
const WANTED: usize = 96 << 20;
const BLOCK: usize = 64 << 10;
/// What small requests may have above the limit until the end of their polls.
const GRACE: u64 = 8 << 20;
/// Queries of the neighbour at once, per worker.
const CLIENTS: usize = 4;
/// Queries of the hoarder at once.
const HOARDERS: usize = 2;
const SAMPLE: Duration = Duration::from_millis(10);
/// The neighbour is watched alone and beside the hoarder in turn: whatever else the machine does for a second blurs one
/// of the comparisons, and the median is judged.
const ROUNDS: u32 = 3;

/// What one window showed.
#[derive(Default)]
pub(crate) struct Window {
    elapsed: Duration,
    /// How long the neighbour's queries took, sorted.
    latencies: Vec<Duration>,
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

/// Runs it.
///
/// # Errors
/// When a query of the neighbour fails, or one of the hoarder's for any other reason than its limit.
pub(crate) async fn run(length: Duration, quick: bool, picture: &Path) -> Result<Scene, String> {
    let text = |error: quotient::Error| error.to_string();
    let governor = Governor::builder().init_sql(GROUPS).build().map_err(text)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let stand = Stand {
        governor: governor.clone(),
        table: Arc::new(Table::generate()),
        clients: workers * CLIENTS,
    };
    let tokio = stand.watch(Arm::Tokio, true, length).await?;
    let (mut alone, mut beside) = (Window::default(), Window::default());
    let mut worse = Vec::new();
    for _ in 0..ROUNDS {
        let [before, with] = [
            stand.watch(Arm::Quotient, false, length / ROUNDS).await?,
            stand.watch(Arm::Quotient, true, length / ROUNDS).await?,
        ];
        worse.push(with.tail() / before.tail());
        alone.add(before);
        beside.add(with);
    }
    worse.sort_unstable_by(f64::total_cmp);
    let peak = hoarder(&governor).and_then(|memory| memory.peak);
    governor.shutdown(Duration::from_secs(1)).await;
    curves::draw(&tokio, &beside, picture)
        .map_err(|error| format!("{}: {error}", picture.display()))?;
    Ok(judge(
        [&tokio, &alone, &beside],
        &worse,
        peak.unwrap_or(0),
        quick,
    ))
}

/// `worse`: by how much the neighbour's p99 was longer beside the hoarder than alone, in each round, sorted.
fn judge([tokio, alone, beside]: [&Window; 3], worse: &[f64], peak: u64, quick: bool) -> Scene {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut scene =
        Scene::new("a tenant that tries to take all memory, beside one that looks up orders");
    for (name, window) in [("tokio", tokio), ("Quotient", beside)] {
        scene.say(format!(
            "{name:<8}  the process took up to {:.0} MiB more; of the hoarder's queries {} had all, {} were ended at the limit",
            mib(window.most()),
            window.filled,
            window.cut,
        ));
    }
    for (name, window) in [
        ("beside it on plain tokio", tokio),
        ("alone under Quotient", alone),
        ("beside it under Quotient", beside),
    ] {
        let p99 = window.tail();
        let rate = window.latencies.len() as f64 / window.elapsed.as_secs_f64();
        scene.say(format!("neighbour {name}: {rate:.0}/s, p99 {p99:.1} ms"));
    }
    let rounds: Vec<_> = worse.iter().map(|it| format!("{it:.2}")).collect();
    scene.say(format!(
        "neighbour's p99 beside ÷ alone, in each round: {}",
        rounds.join(", ")
    ));
    scene.say(format!(
        "hoarder's group: {:.1} MiB at most, of {:.0} and {:.0} of grace",
        mib(peak),
        mib(LIMIT),
        mib(GRACE)
    ));
    scene.promise(
        "the hoarder is cut at its limit",
        beside.cut > 0 && peak > 0 && peak <= LIMIT + GRACE,
    );
    // Nine tenths of the worker time are the neighbour's, and the destructor that gives some 48 MiB back to the system is
    // one poll of some milliseconds. A busy machine and a short window blur the tail.
    let tolerated = if quick { 3.0 } else { 2.0 };
    let median = worse.get(worse.len() / 2);
    scene.promise(
        "its neighbour's p99 stays",
        median.is_some_and(|worse| *worse <= tolerated),
    );
    scene
}

/// What both hosts have in common.
struct Stand {
    governor: Governor,
    table: Arc<Table>,
    clients: usize,
}

/// How a query ended that is not answered.
enum Ended {
    AtItsLimit,
    Otherwise(String),
}

impl Stand {
    async fn watch(&self, arm: Arm, beside: bool, length: Duration) -> Result<Window, String> {
        let base = tracked(&self.governor);
        let stop = Arc::new(AtomicBool::new(false));
        let (filled, cut) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let clients = self.clients;
        let neighbours: Vec<_> = (0..clients)
            .map(|number| tokio::spawn(self.neighbour(arm, number as u64, stop.clone())))
            .collect();
        let hoarders: Vec<_> = (0..if beside { HOARDERS } else { 0 })
            .map(|_| tokio::spawn(self.hoard(arm, stop.clone(), filled.clone(), cut.clone())))
            .collect();
        let start = Instant::now();
        let mut samples = Vec::new();
        while start.elapsed() < length {
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
    ) -> impl Future<Output = Result<Vec<Duration>, String>> + Send + use<> {
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
                    Ok(Answer { .. }) => latencies.push(start.elapsed()),
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
                    Ok(blocks) => filled.fetch_add(u64::from(blocks == WANTED / BLOCK), Relaxed),
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

/// Fills blocks, one at a time, until there are enough or it is over; how many there were.
async fn fill(pace: Pace, stop: Arc<AtomicBool>) -> usize {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    while blocks.len() * BLOCK < WANTED && !stop.load(Relaxed) {
        pace.step(|| blocks.push(vec![blocks.len() as u8 | 1; BLOCK]))
            .await;
    }
    // Read, so that they had to be there.
    blocks.iter().filter(|block| block[BLOCK / 2] > 0).count()
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
    /// What came next: of another window of the same kind.
    fn add(&mut self, next: Window) {
        let begun = self.elapsed;
        self.elapsed += next.elapsed;
        self.latencies.extend(next.latencies);
        self.latencies.sort_unstable();
        self.filled += next.filled;
        self.cut += next.cut;
        self.samples
            .extend(next.samples.into_iter().map(|sample| Sample {
                at: begun + sample.at,
                ..sample
            }));
    }

    /// p99 of the neighbour's queries, in milliseconds.
    fn tail(&self) -> f64 {
        percentile(&self.latencies, 99)
    }

    fn most(&self) -> u64 {
        self.samples
            .iter()
            .map(|sample| sample.process)
            .max()
            .unwrap_or(0)
    }
}
