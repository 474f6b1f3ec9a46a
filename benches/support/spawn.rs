//! The comparison of shapes with plain tokio: runs them, prints a line per shape and number of groups.
//!
//! A target that is missed is printed as MISSED; the exit status is 0 all the same. A benchmark informs.

use super::measure::{self, Cost, cost, load};
use super::options::Options;
use super::saved::{self, Row};
use super::side::{Attached, Other, Owned, Plain, Side, runtime};
use super::watchdog::Watchdog;
use super::{echo, shapes};
use std::time::{Duration, Instant};

/// How many groups the shapes are spread over.
const GROUPS: [usize; 2] = [1, 8];

/// Time for one shape with both sides and both numbers of groups.
const TIME_PER_SHAPE: Duration = Duration::from_secs(9);

/// Repetitions that are not counted: caches, lazily built parts, the allocator's first pages.
const WARM_UP: usize = 2;

/// Fewer pairs than this say nothing, however slow a shape is.
const LEAST_REPETITIONS: usize = 5;

/// CPU of 8 groups ÷ CPU of 1 group: the most that is wanted.
const SPREAD_TARGET: f64 = 1.4;

/// How far the medians of tokio against tokio may be from 1 before the measurement itself is in doubt.
const SAME_WITHIN: f64 = 0.05;

/// The global allocator of this binary: it decides what a spawn may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allocator {
    /// The system's (glibc's on Linux).
    System,
    /// mimalloc.
    Mimalloc,
}

struct Shape<A, B> {
    name: &'static str,
    /// CPU ratio to tokio that is wanted at most.
    target: f64,
    a: fn(&A, usize) -> usize,
    b: fn(&B, usize) -> usize,
}

fn all<A: Side, B: Side>(allocator: Allocator) -> Vec<Shape<A, B>> {
    let (spawn, chained) = match allocator {
        Allocator::System => (0.8, 0.7),
        Allocator::Mimalloc => (1.0, 0.9),
    };
    macro_rules! shape {
        ($name:literal, $target:expr, $($path:ident)::+) => {
            Shape { name: $name, target: $target, a: $($path)::+::<A>, b: $($path)::+::<B> }
        };
    }
    vec![
        shape!("spawn_remote", spawn, shapes::spawn_remote),
        shape!("spawn_join", spawn, shapes::spawn_join),
        shape!("spawn_local", spawn, shapes::spawn_local),
        shape!("chained_spawn", chained, shapes::chained_spawn),
        shape!("yield_self", 0.8, shapes::yield_self),
        shape!("yield_own", 0.8, shapes::yield_own),
        shape!("yield_tokio", 1.0, shapes::yield_tokio),
        shape!("ping_pong", 1.0, shapes::ping_pong),
        shape!("echo", 1.03, echo::echo),
        shape!("echo_one", 1.15, echo::echo_one),
    ]
}

/// The whole benchmark.
pub(crate) fn main(allocator: Allocator) {
    let options = Options::from_args();
    let mut rows = Vec::new();
    let build = || runtime(options.workers, !options.unpinned);
    let (first, second) = (build(), build());
    let plain = Plain::on(&first);
    if options.same {
        compare(&options, allocator, &plain, &Plain::on(&second), &mut rows);
    } else if options.owned {
        let owned = Owned::with(options.workers, !options.unpinned, &[1; GROUPS[1]]);
        compare(&options, allocator, &plain, &owned, &mut rows);
        owned.end();
    } else {
        let governed = Attached::on(&second, &[1; GROUPS[1]]);
        compare(&options, allocator, &plain, &governed, &mut rows);
        println!();
        let other = Other::on(&second);
        compare(&options, allocator, &plain, &other, &mut rows);
    }
    if options.save {
        saved::write(allocator, &options, &rows);
    }
    for runtime in [first, second] {
        runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

fn compare<A: Side, B: Side>(
    options: &Options,
    allocator: Allocator,
    a: &A,
    b: &B,
    rows: &mut Vec<Row>,
) {
    println!(
        "{} beside {}: {} workers each, {}, allocator {allocator:?}, {}",
        B::NAME,
        A::NAME,
        options.workers,
        options.placement(),
        load()
    );
    println!(
        "ns per operation: medians; ratio: median of paired ratios [quartiles]; targets are for CPU\n"
    );
    println!(
        "{:<13} {:>6} {:>5} | {:>10} {:>8} | {:>13} {:>8} | {:<20} | {:<20} | target",
        "shape",
        "groups",
        "pairs",
        format!("{} wall", A::NAME),
        "cpu",
        format!("{} wall", B::NAME),
        "cpu",
        "wall ratio",
        "cpu ratio"
    );
    let (on_hang_a, on_hang_b) = (a.clone(), b.clone());
    let watchdog = Watchdog::start(move || on_hang_a.dump() + &on_hang_b.dump());
    for shape in all::<A, B>(allocator) {
        if options.wants(shape.name) {
            let cells = run(options, &watchdog, &shape, a, b);
            print(options, &shape, &cells, rows);
        }
    }
    println!("\n{}", load());
}

/// Costs of one number of groups: the two sides, pair by pair.
#[derive(Default)]
struct Cell {
    a: Vec<Cost>,
    b: Vec<Cost>,
}

fn run<A: Side, B: Side>(
    options: &Options,
    watchdog: &Watchdog,
    shape: &Shape<A, B>,
    a: &A,
    b: &B,
) -> [Cell; GROUPS.len()] {
    let mut cells: [Cell; GROUPS.len()] = Default::default();
    let start = Instant::now();
    let time = options.time(TIME_PER_SHAPE);
    let mut repetition = 0;
    while repetition < WARM_UP + LEAST_REPETITIONS || start.elapsed() < time {
        for (cell, groups) in cells.iter_mut().zip(GROUPS) {
            watchdog.enter(&format!("{} with {groups} groups", shape.name));
            let on_a = || cost(|| (shape.a)(a, groups));
            let on_b = || cost(|| (shape.b)(b, groups));
            // Who goes first alternates, so that neither always finds the other's warm allocator.
            let (cost_a, cost_b) = if repetition % 2 == 0 {
                let first = on_a();
                (first, on_b())
            } else {
                let first = on_b();
                (on_a(), first)
            };
            if repetition >= WARM_UP {
                cell.a.push(cost_a);
                cell.b.push(cost_b);
            }
        }
        repetition += 1;
    }
    cells
}

fn print<A: Side, B: Side>(
    options: &Options,
    shape: &Shape<A, B>,
    cells: &[Cell; GROUPS.len()],
    rows: &mut Vec<Row>,
) {
    for (cell, groups) in cells.iter().zip(GROUPS) {
        let cpu = measure::ratios(&cell.a, &cell.b, |c| c.cpu);
        rows.push(Row {
            side: B::NAME.into(),
            shape: shape.name.into(),
            groups,
            tokio: measure::median(&cell.a, |c| c.cpu),
            cpu: measure::median(&cell.b, |c| c.cpu),
            ratio: cpu,
            target: shape.target,
        });
        println!(
            "{:<13} {groups:>6} {:>5} | {:>10.0} {:>8.0} | {:>13.0} {:>8.0} | {:<20} | {:<20} | {}",
            shape.name,
            cell.a.len(),
            measure::median(&cell.a, |c| c.wall),
            measure::median(&cell.a, |c| c.cpu),
            measure::median(&cell.b, |c| c.wall),
            measure::median(&cell.b, |c| c.cpu),
            measure::ratios(&cell.a, &cell.b, |c| c.wall).to_string(),
            cpu.to_string(),
            verdict::<B>(options, cpu.median, shape.target),
        );
    }
    let [one, eight] = cells;
    let spread = measure::ratios(&one.b, &eight.b, |c| c.cpu);
    let plain = measure::ratios(&one.a, &eight.a, |c| c.cpu);
    println!(
        "{:<13} cpu of 8 groups ÷ 1 group: {spread} (the same on the first side: {plain}) | {}",
        "",
        if options.same {
            String::new()
        } else {
            verdict::<B>(options, spread.median, SPREAD_TARGET)
        }
    );
}

/// `≤ target ok`, or MISSED; of tokio against tokio, whether the ratio is 1. Only our own have targets.
fn verdict<B: Side>(options: &Options, measured: f64, target: f64) -> String {
    if options.same {
        let off = (measured - 1.0).abs() > SAME_WITHIN;
        format!("1 ± {SAME_WITHIN} {}", if off { "OFF" } else { "ok" })
    } else if B::NAME == Other::NAME {
        String::new()
    } else {
        let missed = measured > target;
        format!("≤ {target:<4} {}", if missed { "MISSED" } else { "ok" })
    }
}
