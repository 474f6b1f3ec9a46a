//! A runaway query: somebody asks the same endless question again and again, in the group of others.
//!
//! Three governors in turn: without a limit, with one that kills and a quarantine, and with one that cools down. Beside
//! it short queries of the same group come at a steady rate, and another group of weight 1 is always busy.

use crate::scene::{Scene, percentile};
use quotient::{AdmissionError, Attributes, Governor, KillReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::{Instant, interval, sleep};

/// What one query of the group may use.
const LIMIT: Duration = Duration::from_millis(200);
/// A query's own tasks, and how long each computes between two yields.
const TASKS: usize = 8;
const POLL: Duration = Duration::from_micros(150);
/// What a short query computes, and how often one comes.
const SHORT: u32 = 3;
const GAP: Duration = Duration::from_millis(4);
/// After so many cuts the question is refused.
const CUTS: u64 = 2;
/// The weight of the group in which it runs away.
const WEIGHT: u32 = 4;

/// What came of one run.
#[derive(Default)]
struct Outcome {
    /// Of the short queries.
    latencies: Vec<Duration>,
    /// CPU time of each try of the endless question.
    tries: Vec<Duration>,
    refused: u64,
    /// What the endless question and the other group had of the worker time, while both ran.
    runaway: f64,
    other: f64,
    events: usize,
    report: Option<String>,
}

/// Runs all three, and says what came of them.
///
/// # Errors
/// When a governor cannot be built.
pub(crate) async fn run(length: Duration) -> Result<Scene, String> {
    let seconds = LIMIT.as_secs_f64();
    let kill = format!(
        ", 'big_query_cpu_second_limit'='{seconds}', 'quarantine_after'='{CUTS}', 'quarantine_window'='1h'"
    );
    let cool = format!(", 'big_query_cpu_second_limit'='{seconds}', 'big_query_action'='cooldown'");
    let free = arm("", length).await?;
    let cut = arm(&kill, length).await?;
    let cooled = arm(&cool, length).await?;
    Ok(judge(&free, &cut, &cooled))
}

async fn compute(polls: u32) {
    for _ in 0..polls {
        let begun = std::time::Instant::now();
        while begun.elapsed() < POLL {
            std::hint::spin_loop();
        }
        quotient::task::yield_now().await;
    }
}

async fn arm(limits: &str, length: Duration) -> Result<Outcome, String> {
    let script = format!(
        "CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='{WEIGHT}'{limits});
         CREATE RESOURCE GROUP etl TO (user='etl') WITH ('cpu_core_limit'='1')"
    );
    let built = Governor::builder().init_sql(&script).build();
    let governor = built.map_err(|error| error.to_string())?;
    let over = Arc::new(AtomicBool::new(false));
    let busy = governor
        .admit(&Attributes::new().user("etl"))
        .await
        .map_err(|error| error.to_string())?;
    for _ in 0..TASKS {
        busy.spawn(compute(u32::MAX));
    }
    let asking = tokio::spawn(ask_again(governor.clone(), over.clone()));
    let mut outcome = Outcome {
        latencies: short_queries(&governor, length).await,
        ..Outcome::default()
    };
    over.store(true, Relaxed);
    let spent = busy.usage().cpu;
    if let Ok((tries, refused)) = asking.await {
        outcome.tries = tries;
        outcome.refused = refused;
    }
    outcome.other = spent.as_secs_f64();
    outcome.runaway = outcome.tries.iter().map(Duration::as_secs_f64).sum();
    let events = governor.runaway_events();
    outcome.events = events.len();
    outcome.report = events.first().map(ToString::to_string);
    governor.shutdown(Duration::ZERO).await;
    Ok(outcome)
}

/// Asks the endless question again as soon as it was cut.
async fn ask_again(governor: Governor, over: Arc<AtomicBool>) -> (Vec<Duration>, u64) {
    let attributes = Attributes::new().user("bi").fingerprint(42);
    let (mut tries, mut refused) = (Vec::new(), 0);
    while !over.load(Relaxed) {
        match governor.admit(&attributes).await {
            Ok(query) => {
                let tasks: Vec<_> = (0..TASKS).map(|_| query.spawn(compute(u32::MAX))).collect();
                while !over.load(Relaxed) && query.usage().tasks > 0 {
                    sleep(Duration::from_millis(5)).await;
                }
                tries.push(query.usage().cpu);
                query.kill("the scene is over");
                for task in tasks {
                    if let Err(error) = task.await {
                        debug_assert!(matches!(
                            error.reason(),
                            Some(KillReason::BigQuery { .. } | KillReason::Killed { .. })
                        ));
                    }
                }
            }
            Err(AdmissionError::Watched { .. }) => {
                refused += 1;
                sleep(Duration::from_millis(20)).await;
            }
            Err(_) => return (tries, refused),
        }
    }
    (tries, refused)
}

async fn short_queries(governor: &Governor, length: Duration) -> Vec<Duration> {
    let attributes = Attributes::new().user("bi");
    let mut beat = interval(GAP);
    let (begun, mut asked) = (Instant::now(), Vec::new());
    while begun.elapsed() < length {
        beat.tick().await;
        let (at, handle) = (Instant::now(), governor.spawn(&attributes, compute(SHORT)));
        asked.push(tokio::spawn(
            async move { handle.await.map(|()| at.elapsed()) },
        ));
    }
    let mut latencies = Vec::new();
    for one in asked {
        latencies.extend(one.await.ok().and_then(Result::ok));
    }
    latencies.sort_unstable();
    latencies
}

fn judge(free: &Outcome, cut: &Outcome, cooled: &Outcome) -> Scene {
    let mut scene = Scene::new("a runaway query");
    let line = |what: &str, outcome: &Outcome| {
        format!(
            "{what:<9} runaway {:>5.2} s of CPU in {} tries, {:>3} refused; other group {:>5.2} s; short queries p50 {:>4.1} ms, p99 {:>5.1} ms",
            outcome.runaway,
            outcome.tries.len(),
            outcome.refused,
            outcome.other,
            percentile(&outcome.latencies, 50),
            percentile(&outcome.latencies, 99),
        )
    };
    scene.say(line("no limit", free));
    scene.say(line("kill", cut));
    scene.say(line("cooldown", cooled));
    if let Some(report) = &cut.report {
        scene.say(format!("         \"{report}\""));
    }
    let worst = cut.tries.iter().max().copied().unwrap_or_default();
    scene.promise(
        "it is cut within a quarter more than its limit",
        worst > LIMIT && worst <= LIMIT * 5 / 4,
    );
    scene.promise(
        "asked again it is cut again, and then refused",
        cut.tries.len() as u64 == CUTS && cut.events as u64 == CUTS && cut.refused > 0,
    );
    let share = |runaway: f64, other: f64| runaway / (runaway + other);
    scene.promise(
        "without a limit it has the share of its group's weight",
        share(free.runaway, free.other) > 0.65,
    );
    // Until it was over the limit it had the share of its group.
    let before = LIMIT.as_secs_f64();
    let (runaway, other) = (
        cooled.runaway - before,
        cooled.other - before / f64::from(WEIGHT),
    );
    scene.say(format!(
        "         cooled down it had {:.0} % of what it and the other group had from then on",
        share(runaway, other) * 100.0
    ));
    scene.promise(
        "cooled down it has the share of weight 1",
        (0.35..=0.65).contains(&share(runaway, other)) && cooled.events == 1,
    );
    scene
}
