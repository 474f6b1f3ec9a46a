//! The flags of a benchmark.

use std::time::Duration;

/// What was asked for on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// A sixth of the time: enough to see that it works, not to trust a digit.
    pub(crate) quick: bool,
    /// Run only shapes whose name contains one of these; all if empty.
    pub(crate) only: Vec<String>,
    /// Workers of each runtime.
    pub(crate) workers: usize,
    /// tokio against tokio: how far from 1 a ratio is without any reason.
    pub(crate) same: bool,
    /// The second side is a governor on threads of its own.
    pub(crate) owned: bool,
    /// Let the operating system place the workers.
    pub(crate) unpinned: bool,
    /// Keep the figures for the report.
    pub(crate) save: bool,
}

const USAGE: &str = "\
flags: --quick          a sixth of the time
       --only NAME      only shapes whose name contains NAME; may be repeated
       --workers N      workers of each runtime (default: available parallelism)
       --owned          the governor is on threads of its own
       --unpinned       do not pin the workers to CPUs
       --save           keep the figures for `cargo bench --bench report`
       --aa             tokio against tokio: the error of the measurement itself";

impl Options {
    /// Parses the process's arguments; explains itself and ends the process if they make no sense.
    pub(crate) fn from_args() -> Options {
        let mut options = Options {
            quick: false,
            only: Vec::new(),
            workers: std::thread::available_parallelism().map_or(2, usize::from),
            same: false,
            owned: false,
            unpinned: false,
            save: false,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--bench" | "--test" => {} // cargo's own
                "--quick" => options.quick = true,
                "--aa" => options.same = true,
                "--owned" => options.owned = true,
                "--unpinned" => options.unpinned = true,
                "--save" => options.save = true,
                "--only" => options.only.extend(args.next()),
                "--workers" => match args.next().and_then(|n| n.parse().ok()) {
                    Some(n) if n > 0 => options.workers = n,
                    _ => explain(&arg),
                },
                _ => explain(&arg),
            }
        }
        options
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }

    pub(crate) fn placement(&self) -> &'static str {
        if self.unpinned { "unpinned" } else { "pinned" }
    }

    /// `full`, or a sixth of it.
    pub(crate) fn time(&self, full: Duration) -> Duration {
        if self.quick { full / 6 } else { full }
    }
}

fn explain(arg: &str) -> ! {
    eprintln!("cannot understand {arg:?}\n{USAGE}");
    std::process::exit(64)
}
