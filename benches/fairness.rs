//! How exactly CPU time follows the weights, and what a small tenant's jobs wait beside a heavy one.
//!
//! `cargo bench --bench fairness -- [--quick] [--only NAME] [--workers N] [--owned] [--aa]`. Shares: groups of tasks
//! that never stop, the time inside their polls summed per group and window. Jobs: 50 µs of work, 500 times
//! a second, from spawn to done. tokio, which knows no groups, runs the same tasks beside it.

mod support;

use std::time::Duration;
use support::jobs::{Neighbours, neighbours};
use support::measure::{Quartiles, load};
use support::options::Options;
use support::shares::{CASES, Case, share_errors};
use support::side::{Attached, Owned, Plain, Side, runtime};
use support::watchdog::Watchdog;

/// Share error in per cent that is wanted at most.
const ERROR_TARGET: f64 = 1.0;

/// tokio's p99 ÷ ours that is wanted at least.
const JOBS_TARGET: f64 = 300.0;

/// Measured windows of each case, of a second each.
const WINDOWS: usize = 4;

/// Length of one run of jobs, and number of pairs of runs.
const JOBS_FOR: Duration = Duration::from_millis(2500);
const JOB_RUNS: usize = 5;

fn main() {
    let options = Options::from_args();
    println!("{} workers, {}\n", options.workers, load());
    let watchdog = Watchdog::start(|| "(no more is known)".into());
    shares(&options, &watchdog);
    jobs(&options, &watchdog);
    println!("\n{}", load());
}

/// Runs `on` with a side that lives on a fresh runtime, and takes that down again.
fn plain<T>(options: &Options, on: impl FnOnce(&Plain) -> T) -> T {
    let runtime = runtime(options.workers, !options.unpinned);
    let result = on(&Plain::on(&runtime));
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}

fn owned<T>(options: &Options, weights: &[u64], on: impl FnOnce(&Owned) -> T) -> T {
    let side = Owned::with(options.workers, !options.unpinned, weights);
    let result = on(&side);
    side.end();
    result
}

fn attached<T>(options: &Options, weights: &[u64], on: impl FnOnce(&Attached) -> T) -> T {
    let runtime = runtime(options.workers, !options.unpinned);
    let result = on(&Attached::on(&runtime, weights));
    runtime.shutdown_timeout(Duration::from_secs(5));
    result
}

fn shares(options: &Options, watchdog: &Watchdog) {
    let windows = if options.quick { 1 } else { WINDOWS };
    println!(
        "error of the groups' shares of poll time, {windows} windows of 1 s, in per cent of the share asked for:"
    );
    println!("median [quartiles] max; the worst group counts\n");
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        watchdog.enter(case.name);
        line::<Plain>(
            case,
            plain(options, |side| share_errors(side, case, windows)),
        );
        if options.same {
            continue;
        }
        watchdog.enter(case.name);
        let ours = attached(options, case.weights, |side| {
            share_errors(side, case, windows)
        });
        line::<Attached>(case, ours);
        watchdog.enter(case.name);
        let ours = owned(options, case.weights, |side| {
            share_errors(side, case, windows)
        });
        line::<Owned>(case, ours);
    }
}

fn line<S: Side>(case: &Case, errors: Vec<f64>) {
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let quartiles = Quartiles::of(errors);
    let verdict = match (S::NAME != Plain::NAME, quartiles.median <= ERROR_TARGET) {
        (false, _) => String::new(),
        (true, true) => format!("≤ {ERROR_TARGET} % ok"),
        (true, false) => format!("≤ {ERROR_TARGET} % MISSED"),
    };
    println!(
        "{:<24} {:<9} {quartiles} max {worst:>6.2} {verdict}",
        case.name,
        S::NAME
    );
}

fn jobs(options: &Options, watchdog: &Watchdog) {
    const NAME: &str = "jobs beside heavy tasks";
    if !options.wants(NAME) {
        return;
    }
    let runs = if options.quick { 1 } else { JOB_RUNS };
    let time = options.time(JOBS_FOR).max(Duration::from_secs(1));
    println!(
        "\n50 µs jobs, 500/s, beside 1000 tasks of 1 ms polls, equal weights; {runs} runs of {time:?}"
    );
    println!(
        "spawn to done, µs, medians of the runs; a job that is never done counts with the time it has waited\n"
    );
    let mut on_tokio = Vec::new();
    let mut on_ours = Vec::new();
    for _ in 0..runs {
        watchdog.enter(NAME);
        on_tokio.push(plain(options, |side| neighbours(side, time)));
        watchdog.enter(NAME);
        on_ours.push(if options.same {
            plain(options, |side| neighbours(side, time))
        } else if options.owned {
            owned(options, &[1, 1], |side| neighbours(side, time))
        } else {
            attached(options, &[1, 1], |side| neighbours(side, time))
        });
    }
    let ours = if options.owned {
        Owned::NAME
    } else {
        Attached::NAME
    };
    for (name, runs) in [(Plain::NAME, &on_tokio), (ours, &on_ours)] {
        let median = |of: fn(&Neighbours) -> f64| Quartiles::of(runs.iter().map(of)).median;
        println!(
            "{name:<9} p50 {:>10.0} p99 {:>10.0} max {:>10.0} | done {:>5.1} % | heavy tasks' share of all workers {:>5.1} %",
            median(|n| n.p50),
            median(|n| n.p99),
            median(|n| n.max),
            median(|n| n.done) * 100.0,
            median(|n| n.heavy) * 100.0 / options.workers as f64,
        );
    }
    let pairs = on_tokio.iter().zip(&on_ours);
    let ratio = Quartiles::of(pairs.map(|(tokio, ours)| tokio.p99 / ours.p99));
    let verdict = if ratio.median >= JOBS_TARGET {
        "ok"
    } else {
        "MISSED"
    };
    println!("p99 of tokio ÷ p99 of the second side: {ratio} | ≥ {JOBS_TARGET} {verdict}");
}
