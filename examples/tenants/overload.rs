//! Overload with a queue: three times as many queries arrive as there is room for, with and without a gate.
//!
//! Open loop: arrivals do not wait for answers, as users do not. Without a gate all of them run at once and each takes
//! as long as all together. With one, some run, some wait in order, and the rest hears at once when to come back.

use crate::scene::{Scene, percentile};
use quotient::{AdmissionError, Attributes, Governor, KillReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::{Instant, interval, sleep};

/// Queries of the gated group at once, and that may wait.
const SLOTS: u64 = 8;
const PLACES: u64 = 16;
/// What a query does: it waits for storage most of the time, and computes a little.
const STEPS: u32 = 4;
const STORAGE: Duration = Duration::from_millis(5);
/// Storage serves so many requests at once; those beyond wait for it, which is why too many queries slow each other.
const CHANNELS: usize = 8;
/// Arrivals, as a multiple of what storage can serve.
const OVERLOAD: u32 = 3;

/// What came of the arrivals.
#[derive(Default)]
struct Outcome {
    latencies: Vec<Duration>,
    /// Queries per second, from the first arrival to the last answer.
    rate: f64,
    refused: u64,
    timed_out: u64,
    peak: u64,
    /// The longest time until a refused one knew it.
    known_after: Duration,
    /// The soonest return that a refusal suggested.
    retry_after: Option<Duration>,
}

/// Storage and who is in it.
struct Storage {
    channels: tokio::sync::Semaphore,
    inside: AtomicU64,
    peak: AtomicU64,
}

impl Storage {
    async fn query(&self) {
        let inside = self.inside.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(inside, Relaxed);
        for _ in 0..STEPS {
            if let Ok(_channel) = self.channels.acquire().await {
                sleep(STORAGE).await;
            }
        }
        self.inside.fetch_sub(1, Relaxed);
    }
}

/// Runs both, and says what came of it.
///
/// # Errors
/// When the governor cannot be built.
pub(crate) async fn run(length: Duration) -> Result<Scene, String> {
    let script = format!(
        "CREATE RESOURCE GROUP gated TO (user='gated') WITH \
         ('concurrency_limit'='{SLOTS}', 'max_queued_queries'='{PLACES}', 'queue_timeout'='2s');
         CREATE RESOURCE GROUP open TO (user='open') WITH ('cpu_core_limit'='1')"
    );
    let governor = Governor::builder()
        .init_sql(&script)
        .build()
        .map_err(|error| error.to_string())?;
    let open = arrive(&governor, "open", length).await;
    let gated = arrive(&governor, "gated", length).await;
    governor.shutdown(Duration::from_secs(1)).await;
    Ok(judge(&open, &gated))
}

async fn arrive(governor: &Governor, user: &str, length: Duration) -> Outcome {
    let storage = Arc::new(Storage {
        channels: tokio::sync::Semaphore::new(CHANNELS),
        inside: AtomicU64::new(0),
        peak: AtomicU64::new(0),
    });
    let attributes = Attributes::new().user(user);
    // A query needs STEPS visits; storage makes CHANNELS of them at a time.
    let gap = STORAGE * STEPS / CHANNELS as u32 / OVERLOAD;
    let mut beat = interval(gap.max(Duration::from_micros(100)));
    let begun = Instant::now();
    let mut asked = Vec::new();
    while begun.elapsed() < length {
        beat.tick().await;
        let (storage, at) = (storage.clone(), Instant::now());
        let handle = governor.spawn(&attributes, async move { storage.query().await });
        asked.push(tokio::spawn(async move {
            let answer = handle.await;
            (at.elapsed(), answer)
        }));
    }
    let mut outcome = Outcome::default();
    for one in asked {
        let Ok((took, answer)) = one.await else {
            continue;
        };
        match answer.as_ref().map_err(|error| error.reason()) {
            Ok(()) => outcome.latencies.push(took),
            Err(Some(KillReason::NotAdmitted(refusal))) => {
                outcome.known_after = outcome.known_after.max(took);
                outcome.retry_after = outcome.retry_after.or(refusal.retry_after());
                match refusal {
                    AdmissionError::Timeout { .. } => outcome.timed_out += 1,
                    _ => outcome.refused += 1,
                }
            }
            Err(_) => {}
        }
    }
    outcome.rate = outcome.latencies.len() as f64 / begun.elapsed().as_secs_f64();
    outcome.latencies.sort_unstable();
    outcome.peak = storage.peak.load(Relaxed);
    outcome
}

fn judge(open: &Outcome, gated: &Outcome) -> Scene {
    let mut scene = Scene::new("overload with a queue");
    let line = |what: &str, outcome: &Outcome| {
        format!(
            "{what:<8} {:>5} served, {:>4.0}/s, p50 {:>6.1} ms, p99 {:>6.1} ms; {:>4} refused, {} timed out; most at once {}",
            outcome.latencies.len(),
            outcome.rate,
            percentile(&outcome.latencies, 50),
            percentile(&outcome.latencies, 99),
            outcome.refused,
            outcome.timed_out,
            outcome.peak,
        )
    };
    scene.say(line("no gate", open));
    scene.say(line("gate", gated));
    scene.say(format!(
        "         refused ones knew it within {:.1} ms and were told to come back in {}",
        gated.known_after.as_secs_f64() * 1e3,
        gated
            .retry_after
            .map_or("(not known)".to_owned(), |wait| format!(
                "{:.0} ms",
                wait.as_secs_f64() * 1e3
            )),
    ));
    scene.promise("never more at once than the limit", gated.peak <= SLOTS);
    scene.promise(
        "the excess is refused, not slowed down",
        gated.refused > 0 && gated.timed_out == 0,
    );
    let (slow, quick) = (
        percentile(&open.latencies, 99),
        percentile(&gated.latencies, 99),
    );
    scene.promise(
        "p99 of the served at most half of that without a gate",
        quick * 2.0 <= slow,
    );
    scene.promise(
        "the gate keeps storage as busy",
        gated.rate >= 0.8 * open.rate,
    );
    scene
}
