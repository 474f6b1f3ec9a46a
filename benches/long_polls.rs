//! What jobs of one group wait beside another one's polls of 100 ms, with spares and without; and what the watchdog
//! costs while polls are short.
//!
//! `cargo bench --bench long_polls -- [--quick]`. Two workers. Jobs come from a thread outside at uneven times, from
//! spawn to their first poll, after the first overrun.

use quotient::{Governor, Host};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const WORKERS: usize = 2;
const HOGS: usize = 8;
const POLL: Duration = Duration::from_millis(100);
const SQL: &str = "CREATE RESOURCE GROUP hog WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP small WITH ('cpu_core_limit'='1');";

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let jobs = if quick { 200 } else { 1_000 };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{WORKERS} workers, load {load}");
    println!("what jobs wait beside {HOGS} tasks of {POLL:?} polls; median, p99, max of {jobs}:\n");
    for host in [Host::Attached, Host::Owned] {
        let without = waits(host, 0, jobs);
        let with = waits(host, WORKERS, jobs);
        let better = without[1].as_secs_f64() / with[1].as_secs_f64();
        println!(
            "{host:?}: without {without:?}\n{host:?}: with    {with:?}, p99 {better:.0} times better"
        );
    }
    println!("\nthe watchdog's share of a core, tasks of 20 µs polls on all workers for 5 s:");
    for host in [Host::Attached, Host::Owned] {
        println!("{host:?}: {:.3} %", 100.0 * cost(host));
    }
}

fn compute(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Runs `on` beside `tasks` tasks of polls of this length in the group `hog`.
fn beside<T>(
    host: Host,
    spares: usize,
    tasks: usize,
    poll: Duration,
    on: impl FnOnce(&Governor) -> T,
) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .expect("a runtime");
    let build = async {
        let builder = Governor::builder().host(host).workers(WORKERS);
        builder.spares(spares).init_sql(SQL).build()
    };
    let governor = runtime.block_on(build).expect("a governor");
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..tasks {
        let stop = stop.clone();
        let hog = async move {
            while !stop.load(Relaxed) {
                compute(poll);
                quotient::task::yield_now().await;
            }
        };
        drop(governor.spawn_in("hog", hog).expect("the group is there"));
    }
    let result = on(&governor);
    stop.store(true, Relaxed);
    runtime.block_on(governor.shutdown(Duration::from_secs(5)));
    result
}

fn waits(host: Host, spares: usize, jobs: usize) -> [Duration; 3] {
    beside(host, spares, HOGS, POLL, |governor| {
        std::thread::sleep(Duration::from_millis(400));
        let wait = |i: usize| {
            std::thread::sleep(Duration::from_micros(500 + (i as u64 * 7_919) % 7_000));
            let (tell, told) = mpsc::channel();
            let sent = Instant::now();
            let job = async move {
                let _ = tell.send(sent.elapsed());
            };
            drop(governor.spawn_in("small", job).expect("the group is there"));
            told.recv().expect("it runs")
        };
        let mut waits: Vec<Duration> = (0..jobs).map(wait).collect();
        waits.sort();
        [waits[jobs / 2], waits[jobs * 99 / 100], waits[jobs - 1]]
    })
}

/// The CPU time of the thread of that name.
fn cpu_of(name: &str) -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let is_it = |folder: &std::fs::DirEntry| {
        let comm = std::fs::read_to_string(folder.path().join("comm"));
        comm.is_ok_and(|comm| name.starts_with(comm.trim()))
    };
    let time = |folder: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(folder.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<u64>().ok()
    };
    let nanos = tasks.flatten().filter(is_it).filter_map(time).sum();
    Duration::from_nanos(nanos)
}

fn cost(host: Host) -> f64 {
    const SPELL: Duration = Duration::from_secs(5);
    beside(host, WORKERS, 64, Duration::from_micros(20), |_| {
        std::thread::sleep(Duration::from_millis(500));
        let before = cpu_of("quotient-watchdog");
        std::thread::sleep(SPELL);
        (cpu_of("quotient-watchdog") - before).as_secs_f64() / SPELL.as_secs_f64()
    })
}
