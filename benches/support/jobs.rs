//! A tenant with small jobs beside one that keeps all workers busy: how long does a job take?

use super::measure::quantile;
use super::shares::{Busy, compute};
use super::side::Side;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SMALL: usize = 0;
const HEAVY: usize = 1;
const HEAVY_TASKS: usize = 1000;
const HEAVY_POLL: Duration = Duration::from_millis(1);
const JOB: Duration = Duration::from_micros(50);
const BETWEEN_JOBS: Duration = Duration::from_millis(2);
const SETTLE: Duration = Duration::from_millis(300);

/// What one run saw: times in µs from spawn to done, the share of jobs that were done in time, and the
/// heavy tasks' time in polls per second of the run.
pub(crate) struct Neighbours {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    pub(crate) done: f64,
    pub(crate) heavy: f64,
}

/// Submits jobs at a fixed rate, whether or not the earlier ones are done, for `time`.
pub(crate) fn neighbours<S: Side>(side: &S, time: Duration) -> Neighbours {
    let stop = Arc::new(AtomicBool::new(false));
    let heavy = Busy::start(side, HEAVY, HEAVY_TASKS, HEAVY_POLL, &stop);
    std::thread::sleep(SETTLE);

    let heavy_before = heavy.in_polls();
    let start = Instant::now();
    let mut jobs: Vec<(Instant, Arc<AtomicU64>)> = Vec::new();
    for n in 0.. {
        let due = start + BETWEEN_JOBS * n;
        if due.duration_since(start) >= time {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let took = Arc::new(AtomicU64::new(0));
        let (spawned, report) = (Instant::now(), took.clone());
        side.remote(SMALL, async move {
            compute(JOB);
            report.store(spawned.elapsed().as_nanos() as u64, Ordering::Relaxed);
        });
        jobs.push((spawned, took));
    }
    let end = Instant::now();
    let in_polls = Duration::from_nanos(heavy.in_polls() - heavy_before);

    let mut done = 0;
    let mut waits: Vec<f64> = jobs
        .iter()
        .map(|(spawned, took)| match took.load(Ordering::Relaxed) {
            0 => end.duration_since(*spawned).as_nanos() as f64 / 1e3,
            nanos => {
                done += 1;
                nanos as f64 / 1e3
            }
        })
        .collect();
    stop.store(true, Ordering::Relaxed);
    heavy.ended();
    waits.sort_by(f64::total_cmp);
    Neighbours {
        p50: quantile(&waits, 0.5),
        p99: quantile(&waits, 0.99),
        max: quantile(&waits, 1.0),
        done: f64::from(done) / waits.len() as f64,
        heavy: in_polls.as_secs_f64() / end.duration_since(start).as_secs_f64(),
    }
}
