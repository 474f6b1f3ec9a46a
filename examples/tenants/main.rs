//! Tenants of a query service, on plain tokio and under Quotient: do they get what their resource groups say?
//!
//! ```text
//! cargo run --release --example tenants [-- --quick] [--suite N]... [--scene N]... [--svg FILE]
//! ```
//!
//! A real service on loopback answers analytical queries over a table of some million rows. Real HTTP clients, in a
//! child process, act for its tenants in closed loops and check every answer. Six suites run, each on plain
//! `tokio::spawn` and then under a governor whose groups come from `tenants.sql`. At the end there is one table,
//! and a picture of the CPU shares. Then come scenes: overload with a queue (`--scene 1`), a memory squeeze
//! (`--scene 2`) with a picture of the throttle's curve, a runaway query (`--scene 3`), a tenant that tries to take
//! all memory (`--scene 4`) with the memory's curves, and scans of large files beside small ones (`--scene 5`). Exit status: 0 when every promise held, 1 when one did not, 2
//! when the run failed.
//!
//! `--quick` (some seconds, also on a busy machine) runs all of this with small queries and short windows and judges
//! by wider rules ([`suites::Rules`]): that it works, not how exactly.

mod chart;
mod client;
mod curves;
mod files;
mod governed;
mod hoard;
mod host;
mod ledger;
mod machine;
mod overload;
mod progress;
mod query;
mod report;
mod runaway;
mod scene;
mod service;
mod squeeze;
mod stage;
mod suites;
mod table;
mod wire;

use governed::Hosts;
use host::{Arm, Meter};
use progress::Progress;
use quotient::alloc::GroupAlloc;
use service::Service;
use stage::{Stage, Stopped, Window};
use std::alloc::System;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use suites::{Company, Rules, SUITES};
use table::{ROWS, Table};
use tokio::net::TcpListener;
use wire::Command;

/// Over the system's allocator, which gives large blocks back at once: the squeeze watches the resident size.
#[global_allocator]
static ALLOC: GroupAlloc<System> = GroupAlloc::over(System);

/// The argument that makes this program the clients.
const AS_CLIENTS: &str = "--act-as-clients";

/// A quick run's queries are so many times smaller: a phase ends when the last one has its answer.
const QUICK_SHRINK: u32 = 3;

const USAGE: &str = "usage: tenants [--quick] [--suite N]... [--scene N]... [--svg FILE]";

/// How many scenes there are.
const SCENES: usize = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [flag, address] if flag == AS_CLIENTS => address
            .parse()
            .map_err(|error| format!("{address}: {error}"))
            .and_then(client::act)
            .map(|()| true),
        _ => Options::parse(arguments).and_then(|options| run(&options.for_this_machine())),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(why) => {
            eprintln!("tenants: {why}");
            ExitCode::from(2)
        }
    }
}

/// What the command line asks for.
struct Options {
    /// Indices into `SUITES`.
    suites: Vec<usize>,
    /// From 1.
    scenes: Vec<usize>,
    warm_up: Duration,
    window: Duration,
    /// The length of a query, and the rules of the verdict, follow from it.
    quick: bool,
    svg: PathBuf,
}

impl Options {
    fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let mut options = Options {
            suites: Vec::new(),
            scenes: Vec::new(),
            warm_up: Duration::from_millis(300),
            window: Duration::from_millis(3000),
            quick: false,
            svg: Path::new("target").join("tenants.svg"),
        };
        let mut arguments = arguments.into_iter();
        while let Some(flag) = arguments.next() {
            match flag.as_str() {
                "--quick" => {
                    options.quick = true;
                    options.warm_up = Duration::from_millis(100);
                    options.window = Duration::from_millis(400);
                }
                "--suite" => {
                    let number = arguments.next().and_then(|text| text.parse::<usize>().ok());
                    match number {
                        Some(number) if (1..=SUITES.len()).contains(&number) => {
                            options.suites.push(number - 1)
                        }
                        _ => {
                            return Err(format!(
                                "--suite takes a number from 1 to {}",
                                SUITES.len()
                            ));
                        }
                    }
                }
                "--scene" => {
                    let number = arguments.next().and_then(|text| text.parse::<usize>().ok());
                    match number {
                        Some(number) if (1..=SCENES).contains(&number) => {
                            options.scenes.push(number)
                        }
                        _ => return Err(format!("--scene takes a number from 1 to {SCENES}")),
                    }
                }
                "--svg" => options.svg = arguments.next().ok_or("--svg takes a file")?.into(),
                other => return Err(format!("`{other}`? {USAGE}")),
            }
        }
        if options.suites.is_empty() && options.scenes.is_empty() {
            options.suites = (0..SUITES.len()).collect();
            options.scenes = (1..=SCENES).collect();
        }
        Ok(options)
    }

    /// Beside other busy programs fewer queries end in a window, and luck weighs more: windows get up to three
    /// times as long, the whole run with them.
    fn for_this_machine(mut self) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let before = machine::Ticks::read(workers);
        std::thread::sleep(Duration::from_millis(300));
        let after = machine::Ticks::read(workers);
        let busy = before
            .zip(after)
            .map_or(0.0, |(before, after)| after.busy_since(before));
        if !self.quick && busy > 0.2 {
            self.window = self.window.mul_f64(1.0 + 2.0 * busy);
            eprintln!(
                "other programs use {:.0} % of the CPU: windows of {:.1} s instead of 3",
                busy * 100.0,
                self.window.as_secs_f64()
            );
        }
        self
    }

    fn rules(&self) -> Rules {
        if self.quick {
            Rules::QUICK
        } else {
            Rules::FULL
        }
    }

    /// The windows of a suite on one host. Alone and beside take turns, symmetrically, so that a machine that becomes
    /// faster or slower bends neither.
    fn phases(&self, suite: usize) -> Vec<(Company, Duration)> {
        if !SUITES[suite].needs_alone() {
            vec![(Company::Beside, self.window)]
        } else if self.quick {
            vec![
                (Company::Alone, self.window),
                (Company::Beside, self.window),
            ]
        } else {
            let [alone, beside] = [Company::Alone, Company::Beside].map(|it| (it, self.window / 2));
            let edge = (Company::Alone, self.window / 4);
            vec![edge, beside, alone, beside, edge]
        }
    }
}

/// Runs everything; true when all promises held.
fn run(options: &Options) -> Result<bool, String> {
    let suites = options.suites.is_empty() || run_suites(options)?;
    let scenes = run_scenes(options)?;
    Ok(suites && scenes)
}

/// The scenes, one after the other, on a runtime of their own.
fn run_scenes(options: &Options) -> Result<bool, String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let length = options.window.max(Duration::from_secs(3)) * 2;
    let picture = options.svg.with_extension("squeeze.svg");
    let memory = options.svg.with_extension("memory.svg");
    let mut all_hold = true;
    for number in &options.scenes {
        let scene = match number {
            1 => runtime.block_on(overload::run(length / 4)),
            2 => runtime.block_on(squeeze::run(length, &picture)),
            3 => runtime.block_on(runaway::run(length / 2)),
            4 => runtime.block_on(hoard::run(length / 2, options.quick, &memory)),
            _ => files::run(length / 3),
        }?;
        println!("scene {number}: {scene}");
        all_hold &= scene.holds();
    }
    if options.scenes.contains(&2) {
        println!("the throttle's curve: {}", picture.display());
    }
    if options.scenes.contains(&4) {
        println!("the memory's curves: {}", memory.display());
    }
    Ok(all_hold)
}

/// The suites; true when all promises held.
fn run_suites(options: &Options) -> Result<bool, String> {
    let text = |error: std::io::Error| error.to_string();
    let workers = std::thread::available_parallelism().map_err(text)?.get();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(text)?;
    let mut progress = Progress::new();
    let table = Arc::new(Table::generate());
    let size = table.bytes() >> 20;
    let meter = Arc::new(Meter::default());
    let hosts = {
        let _inside = runtime.enter();
        Hosts::build(workers).map_err(|error| error.to_string())?
    };
    let service = Arc::new(Service {
        table,
        hosts: hosts.clone(),
        meter: meter.clone(),
    });
    let listener = runtime
        .block_on(TcpListener::bind(SocketAddr::from((
            Ipv4Addr::LOCALHOST,
            0,
        ))))
        .map_err(text)?;
    let address = listener.local_addr().map_err(text)?;
    progress.note(&format!(
        "{ROWS} rows in {size} MiB, {workers} workers; metrics: http://{address}/metrics"
    ));

    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            flag.store(true, Relaxed);
        }
    });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = runtime.spawn(service.serve(listener, async {
        // Either way, sent or dropped, it is over.
        let _ = stopped.await;
    }));

    let prepare = |suite: usize| {
        let script = SUITES[suite].statements;
        let done = match script {
            "" => Ok(()),
            script => runtime.block_on(hosts.execute(script)),
        };
        done.map_err(|refusal| Stopped::Statements(refusal.to_string()))
    };
    let outcome = Stage::open(address, hosts.clone(), meter, workers, interrupted)
        .and_then(|stage| measure(options, workers, stage, prepare, &mut progress));
    progress.finish();
    drop(stop);
    let served = runtime.block_on(serving);
    runtime.block_on(hosts.shutdown());
    runtime.shutdown_timeout(Duration::from_secs(1));
    let windows = outcome.map_err(|why| why.to_string())?;
    served.map_err(|error| error.to_string())?.map_err(text)?;

    let report = report::Report::of(&windows, &options.suites, workers, options.rules());
    println!("{report}");
    chart::draw(&windows, &options.suites, &options.svg)
        .map_err(|error| format!("{}: {error}", options.svg.display()))?;
    println!("CPU shares over time: {}", options.svg.display());
    Ok(report.holds())
}

/// Each suite on plain tokio, then under Quotient.
fn measure(
    options: &Options,
    workers: usize,
    mut stage: Stage,
    prepare: impl Fn(usize) -> Result<(), Stopped>,
    progress: &mut Progress,
) -> Result<Vec<Window>, Stopped> {
    let mut windows = Vec::new();
    for &suite in &options.suites {
        prepare(suite)?;
        for arm in [Arm::Tokio, Arm::Quotient] {
            for (company, window) in options.phases(suite) {
                let warm_up = options.warm_up;
                let command = Command {
                    arm,
                    suite,
                    company,
                    workers,
                    warm_up,
                    window,
                    shrink: if options.quick { QUICK_SHRINK } else { 1 },
                };
                windows.push(stage.run(command, progress)?);
            }
        }
    }
    stage.close()?;
    Ok(windows)
}
