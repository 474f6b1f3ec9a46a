//! Tenants of a query service, on plain tokio and under Quotient: do they get what their resource groups say?
//!
//! ```text
//! cargo run --release --example tenants [-- --quick] [--suite N|memory]... [--svg FILE]
//! ```
//!
//! A real service on loopback answers analytical queries over a table of some million rows. Real HTTP clients, in a
//! child process, act for its tenants in closed loops and check every answer. Five suites run, each on plain
//! `tokio::spawn` and then under a governor whose groups come from `tenants.sql`. Then a tenant
//! tries to take all memory, on both hosts (`hoard`). At the end there is one table, and a picture of the CPU shares and
//! of the memory. Exit status: 0 when every promise held, 1 when one did not, 2 when the run failed.
//!
//! `--quick` (some seconds, also on a busy machine) runs all of this with small queries and short windows and judges
//! by wider rules ([`suites::Rules`]): that it works, not how exactly.

mod chart;
mod client;
mod curves;
mod governed;
mod hoard;
mod host;
mod ledger;
mod machine;
mod progress;
mod query;
mod report;
mod service;
mod stage;
mod suites;
mod table;
mod wire;

use governed::Hosts;
use host::{Arm, Meter};
use progress::Progress;
use service::Service;
use stage::{Stage, Stopped, Window};
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

#[global_allocator]
static ALLOC: quotient::alloc::GroupAlloc = quotient::alloc::GroupAlloc::new();

/// The argument that makes this program the clients.
const AS_CLIENTS: &str = "--act-as-clients";

/// A quick run's queries are so many times smaller: a phase ends when the last one has its answer.
const QUICK_SHRINK: u32 = 3;

const USAGE: &str = "usage: tenants [--quick] [--suite N|memory]... [--svg FILE]";

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
    /// Whether a tenant tries to take all memory.
    memory: bool,
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
            memory: false,
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
                    let name = arguments.next().unwrap_or_default();
                    match name.parse::<usize>().ok() {
                        _ if name == "memory" => options.memory = true,
                        Some(number) if (1..=SUITES.len()).contains(&number) => {
                            options.suites.push(number - 1)
                        }
                        _ => {
                            return Err(format!(
                                "--suite takes `memory` or a number from 1 to {}",
                                SUITES.len()
                            ));
                        }
                    }
                }
                "--svg" => options.svg = arguments.next().ok_or("--svg takes a file")?.into(),
                other => return Err(format!("`{other}`? {USAGE}")),
            }
        }
        if options.suites.is_empty() && !options.memory {
            options.suites = (0..SUITES.len()).collect();
            options.memory = true;
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

    /// The windows of a suite on one host. The alone phase is halved and laid around the other, so that a machine
    /// that slowly becomes faster or slower bends neither.
    fn phases(&self, suite: usize) -> Vec<(Company, Duration)> {
        if !SUITES[suite].needs_alone() {
            vec![(Company::Beside, self.window)]
        } else if self.quick {
            vec![
                (Company::Alone, self.window),
                (Company::Beside, self.window),
            ]
        } else {
            let half = (Company::Alone, self.window / 2);
            vec![half, (Company::Beside, self.window), half]
        }
    }
}

/// Runs everything; true when all promises held.
fn run(options: &Options) -> Result<bool, String> {
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
        table: table.clone(),
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

    let outcome = Stage::open(address, hosts.clone(), meter, workers, interrupted)
        .and_then(|stage| measure(options, workers, stage, &mut progress));
    progress.finish();
    let hoard = options.memory.then(|| {
        let window = options.window.max(Duration::from_secs(1));
        let governor = hosts.governor();
        let hoard = hoard::run(governor, &table, workers, window, options.quick, &progress);
        runtime.block_on(hoard)
    });
    drop(stop);
    let served = runtime.block_on(serving);
    runtime.block_on(hosts.shutdown());
    runtime.shutdown_timeout(Duration::from_secs(1));
    let windows = outcome.map_err(|why| why.to_string())?;
    let hoard = hoard.transpose()?;
    served.map_err(|error| error.to_string())?.map_err(text)?;

    let report = report::Report::of(&windows, &options.suites, workers, options.rules());
    if !options.suites.is_empty() {
        println!("{report}");
    }
    if let Some(outcome) = &hoard {
        println!("{outcome}");
    }
    chart::draw(&windows, &options.suites, hoard.as_ref(), &options.svg)
        .map_err(|error| format!("{}: {error}", options.svg.display()))?;
    println!("CPU shares and memory over time: {}", options.svg.display());
    Ok(report.holds() && hoard.is_none_or(|outcome| outcome.holds()))
}

/// Each suite on plain tokio, then under Quotient.
fn measure(
    options: &Options,
    workers: usize,
    mut stage: Stage,
    progress: &mut Progress,
) -> Result<Vec<Window>, Stopped> {
    let mut windows = Vec::new();
    for &suite in &options.suites {
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
