//! What a blocking closure costs: `quotient::task::spawn_blocking` beside tokio's, CPU of the whole process per closure.
//!
//! `cargo bench --bench blocking -- [--quick] [--only NAME] [--workers N] [--aa]`
//!
//! Two runtimes with a pool of their own each, one of them under a governor. Repetitions of the two are interleaved and
//! alternate in who is first; ratios are medians of pairs. `--aa` puts tokio on both sides. A target that is missed is
//! printed as MISSED; the exit status is 0 all the same.

mod support;

use quotient::{Attributes, Governor, Query};
use std::future::Future;
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::measure::{Cost, cost, load, median, ratios};
use support::options::Options;
use support::watchdog::Watchdog;
use tokio::runtime::{Builder, Runtime};

const TIME_PER_SHAPE: Duration = Duration::from_secs(12);
const LEAST_REPETITIONS: usize = 5;
const WARM_UP: usize = 2;
/// CPU per closure ÷ tokio's: the most that is wanted.
const TARGET: f64 = 1.1;
const GROUPS: usize = 8;

/// A runtime, and who takes its closures.
struct Side {
    runtime: Runtime,
    governed: Option<Governed>,
}

struct Governed {
    queries: Vec<Query>,
    governor: Governor,
}

impl Side {
    fn plain(workers: usize, threads: usize) -> Side {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers).enable_all();
        let runtime = builder.max_blocking_threads(threads).build();
        Side {
            runtime: runtime.expect("a runtime can be built"),
            governed: None,
        }
    }

    fn governed(workers: usize, threads: usize) -> Side {
        let side = Side::plain(workers, threads);
        let names: Vec<String> = (0..GROUPS).map(|i| format!("g{i}")).collect();
        let create =
            |name: &String| format!("CREATE RESOURCE GROUP {name} WITH ('io_weight'='1');");
        let sql: String = names.iter().map(create).collect();
        let governor = side.runtime.block_on(async {
            let builder = Governor::builder().workers(workers).init_sql(&sql);
            builder.max_blocking_threads(threads).build()
        });
        let governor = governor.expect("a governor can be built");
        let admit = |name: &String| governor.try_admit(&Attributes::new().resource_group(name));
        let queries = names.iter().map(admit).collect::<Result<_, _>>();
        Side {
            governed: Some(Governed {
                queries: queries.expect("admitted"),
                governor,
            }),
            ..side
        }
    }

    /// Spawns `closures` of them over `groups`, a `burst` at a time, and waits for each burst.
    fn run(&self, closures: usize, burst: usize, groups: usize, spin: u32) -> usize {
        let work = move || {
            for i in 0..spin {
                black_box(i);
            }
        };
        match &self.governed {
            None => self.bursts(closures, burst, |_| tokio::task::spawn_blocking(work)),
            Some(it) => self.bursts(closures, burst, |i| {
                it.queries[i % groups].spawn_blocking(work)
            }),
        }
        closures
    }

    fn bursts<J, E>(&self, closures: usize, burst: usize, spawn: impl Fn(usize) -> J)
    where
        J: Future<Output = Result<(), E>>,
        E: std::fmt::Debug,
    {
        self.runtime.block_on(async {
            for _ in 0..closures / burst {
                let handles: Vec<J> = (0..burst).map(&spawn).collect();
                for handle in handles {
                    handle.await.expect("it ends");
                }
            }
        });
    }

    fn dump(&self) -> String {
        let governor = self.governed.as_ref().map(|it| &it.governor);
        governor.map_or_else(String::new, |it| it.dump() + &it.render_metrics())
    }
}

struct Shape {
    name: &'static str,
    closures: usize,
    burst: usize,
    groups: usize,
    /// Turns of an empty loop in each.
    spin: u32,
    /// Blocking threads.
    threads: usize,
}

const SHAPES: [Shape; 6] = [
    shape("one_by_one", 2_000, 1, 1, 0, 512),
    shape("pairs", 2_000, 2, 1, 0, 512),
    shape("flood_few", 20_000, 10_000, 1, 0, 4),
    shape("flood_many", 20_000, 10_000, 1, 0, 512),
    shape("groups_few", 20_000, 10_000, GROUPS, 0, 4),
    shape("work", 4_000, 1_000, GROUPS, 20_000, 4),
];

const fn shape(
    name: &'static str,
    closures: usize,
    burst: usize,
    groups: usize,
    spin: u32,
    threads: usize,
) -> Shape {
    Shape {
        name,
        closures,
        burst,
        groups,
        spin,
        threads,
    }
}

fn main() {
    let options = Options::from_args();
    println!(
        "{} beside tokio: {} workers each, {}\n",
        if options.same { "tokio" } else { "quotient" },
        options.workers,
        load()
    );
    println!(
        "{:<11} {:>7} {:>5} | {:>10} {:>10} | {:>10} {:>10} | {:<20} | cpu ratio",
        "shape", "threads", "pairs", "tokio wall", "cpu ns", "other wall", "cpu ns", "wall ratio"
    );
    for shape in SHAPES.iter().filter(|shape| options.wants(shape.name)) {
        compare(&options, shape);
    }
    println!("\n{}", load());
}

fn compare(options: &Options, shape: &Shape) {
    let plain = Side::plain(options.workers, shape.threads);
    let other = if options.same {
        Side::plain(options.workers, shape.threads)
    } else {
        Side::governed(options.workers, shape.threads)
    };
    let (plain, other) = (std::sync::Arc::new(plain), std::sync::Arc::new(other));
    let on_hang = other.clone();
    let watchdog = Watchdog::start(move || on_hang.dump());
    let mut costs: [Vec<Cost>; 2] = Default::default();
    let (start, time) = (Instant::now(), options.time(TIME_PER_SHAPE));
    let mut repetition = 0;
    while repetition < WARM_UP + LEAST_REPETITIONS || start.elapsed() < time {
        watchdog.enter(shape.name);
        let on =
            |side: &Side| cost(|| side.run(shape.closures, shape.burst, shape.groups, shape.spin));
        let (a, b) = if repetition % 2 == 0 {
            let first = on(&plain);
            (first, on(&other))
        } else {
            let first = on(&other);
            (on(&plain), first)
        };
        if repetition >= WARM_UP {
            costs[0].push(a);
            costs[1].push(b);
        }
        repetition += 1;
    }
    let [a, b] = &costs;
    let cpu = ratios(a, b, |c| c.cpu);
    println!(
        "{:<11} {:>7} {:>5} | {:>10.0} {:>10.0} | {:>10.0} {:>10.0} | {} | {cpu} ≤ {TARGET} {}",
        shape.name,
        shape.threads,
        a.len(),
        median(a, |c| c.wall),
        median(a, |c| c.cpu),
        median(b, |c| c.wall),
        median(b, |c| c.cpu),
        ratios(a, b, |c| c.wall),
        if cpu.median > TARGET { "MISSED" } else { "ok" }
    );
}
