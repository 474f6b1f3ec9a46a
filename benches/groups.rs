//! What a thousand groups cost per poll: idle ones beside one at work, and all of them at work.
//!
//! `cargo bench --bench groups -- [--quick] [--only NAME] [--workers N] [--unpinned]`
//!
//! The same tasks poll the same number of times: in the only group there is, in one of a thousand and one, and spread
//! over a thousand. The three are interleaved repetition by repetition; ratios are of CPU time per poll, medians of
//! pairs. With `--only` and one name that one alone runs: for counting instructions, as in
//! `valgrind --tool=none` or `perf stat` around the binary with one worker, where the difference between `--quick` and
//! not is that of the polls that it prints.

mod support;

use std::time::{Duration, Instant};
use support::measure::{Cost, Quartiles, cost, load, median};
use support::options::Options;
use support::shapes::{Latch, SelfWake, wait};
use support::side::{Attached, Side, runtime};
use support::watchdog::Watchdog;

const GROUPS: usize = 1_000;
const TASKS: usize = 1_000;
const YIELDS: usize = 200;
const TIME: Duration = Duration::from_secs(20);
const LEAST_REPETITIONS: usize = 5;

/// CPU per poll beside idle groups, and over active ones, ÷ that of a group alone.
const IDLE_TARGET: f64 = 1.02;
const ACTIVE_TARGET: f64 = 1.5;

/// A name, the ratio that is wanted at most, and what is run.
type Row<'a> = (&'static str, f64, Box<dyn Fn() -> usize + 'a>);

/// Tasks that wake themselves, over so many groups. The first poll and each yield are one poll each.
fn polls(side: &Attached, groups: usize, yields: usize) -> usize {
    let (latch, done) = Latch::new(TASKS);
    for i in 0..TASKS {
        let latch = latch.clone();
        side.remote(i % groups, async move {
            for _ in 0..yields {
                SelfWake::default().await;
            }
            latch.arrive();
        });
    }
    wait(&done);
    TASKS * (yields + 1)
}

fn main() {
    let options = Options::from_args();
    let runtimes = [(); 2].map(|()| runtime(options.workers, !options.unpinned));
    let alone = Attached::on(&runtimes[0], &[1]);
    let many = Attached::on(&runtimes[1], &[1; GROUPS]);
    // Idle is not the same as never used.
    polls(&many, GROUPS, 1);
    let (on_hang_a, on_hang_b) = (alone.clone(), many.clone());
    let watchdog = Watchdog::start(move || on_hang_a.dump() + &on_hang_b.dump());
    let rows: [Row<'_>; 3] = [
        ("alone", 1.0, Box::new(|| polls(&alone, 1, YIELDS))),
        ("idle", IDLE_TARGET, Box::new(|| polls(&many, 1, YIELDS))),
        (
            "active",
            ACTIVE_TARGET,
            Box::new(|| polls(&many, GROUPS, YIELDS)),
        ),
    ];
    println!(
        "{TASKS} tasks that wake themselves, {} workers, {}, {}\n",
        options.workers,
        options.placement(),
        load()
    );
    let wanted: Vec<&Row<'_>> = rows.iter().filter(|row| options.wants(row.0)).collect();
    if let [(name, _, run)] = wanted[..] {
        let repetitions = if options.quick { 1 } else { 6 };
        let done: usize = (0..repetitions).map(|_| run()).sum();
        println!("{name}: {done} polls");
    } else {
        compare(&options, &watchdog, &wanted);
    }
    drop(rows);
    for runtime in runtimes {
        runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

fn compare(options: &Options, watchdog: &Watchdog, rows: &[&Row<'_>]) {
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); rows.len()];
    let (start, time) = (Instant::now(), options.time(TIME));
    let mut repetition = 0;
    while repetition <= LEAST_REPETITIONS || start.elapsed() < time {
        for ((name, _, run), costs) in rows.iter().zip(&mut costs) {
            watchdog.enter(name);
            let cost = cost(run);
            if repetition > 0 {
                costs.push(cost);
            }
        }
        repetition += 1;
    }
    println!(
        "{:<8} {:>10} {:>10} | cpu per poll ÷ that of the first",
        "groups", "wall ns", "cpu ns"
    );
    for ((name, target, _), own) in rows.iter().zip(&costs) {
        let pairs = own.iter().zip(&costs[0]);
        let ratio = Quartiles::of(pairs.map(|(own, first)| own.cpu / first.cpu));
        let verdict = if ratio.median <= *target {
            "ok"
        } else {
            "MISSED"
        };
        println!(
            "{name:<8} {:>10.1} {:>10.1} | {ratio} | ≤ {target} {verdict}",
            median(own, |c| c.wall),
            median(own, |c| c.cpu),
        );
    }
    println!("\n{repetition} repetitions, {}", load());
}
