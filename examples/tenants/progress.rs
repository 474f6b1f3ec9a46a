//! The live display on stderr: one line that is drawn anew, or one line per phase when stderr is no terminal.

use crate::host::TENANTS;
use crate::stage::Window;
use crate::suites::{Company, SUITES};
use crate::wire::Command;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Instant;

const BAR: usize = 24;
/// One fill per tenant.
const FILLS: [char; TENANTS] = ['█', '▒', '░'];

/// The display.
pub(crate) struct Progress {
    start: Instant,
    live: bool,
    /// A line stands unfinished.
    drawing: bool,
    title: String,
    names: Vec<&'static str>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Progress {
            start: Instant::now(),
            live: std::io::stderr().is_terminal(),
            drawing: false,
            title: String::new(),
            names: Vec::new(),
        }
    }

    /// Leaves the line that is being drawn, so that what follows has its own.
    pub(crate) fn finish(&mut self) {
        if std::mem::take(&mut self.drawing) {
            eprintln!();
        }
    }

    /// A line of its own.
    pub(crate) fn note(&self, text: &str) {
        eprintln!("{text}");
    }

    pub(crate) fn begin(&mut self, command: &Command, names: Vec<&'static str>) {
        let company = match command.company {
            Company::Alone => "alone ",
            Company::Beside => "beside",
        };
        let (number, of) = (command.suite + 1, SUITES.len());
        self.title = format!("suite {number}/{of} {:<8} {company}", command.arm);
        self.names = names;
        self.draw("warming up", false);
    }

    /// The CPU shares so far.
    pub(crate) fn show(&mut self, window: &Window) {
        if self.live {
            self.draw(&self.shares(window), false);
        }
    }

    /// The CPU shares of the whole window.
    pub(crate) fn end(&mut self, window: &Window) {
        self.draw(&self.shares(window), true);
    }

    fn draw(&mut self, text: &str, last: bool) {
        self.drawing = self.live && !last;
        let at = self.start.elapsed().as_secs();
        let mut stderr = std::io::stderr().lock();
        // A display that cannot be written is no reason to stop measuring.
        let _ = match (self.live, last) {
            (true, false) => write!(stderr, "\r\x1b[2K{at:3} s  {}  {text}", self.title),
            (true, true) => writeln!(stderr, "\r\x1b[2K{at:3} s  {}  {text}", self.title),
            (false, true) => writeln!(stderr, "{at:3} s  {}  {text}", self.title),
            (false, false) => Ok(()),
        };
        let _ = stderr.flush();
    }

    fn shares(&self, window: &Window) -> String {
        let times = window.tenants().map(|time| time.as_secs_f64());
        let all: f64 = times.iter().sum();
        if all == 0.0 {
            return "no query has run yet".into();
        }
        let mut bar = String::new();
        let mut text = String::new();
        for ((name, time), fill) in self.names.iter().zip(times).zip(FILLS) {
            let share = time / all;
            bar.extend(std::iter::repeat_n(
                fill,
                (share * BAR as f64).round() as usize,
            ));
            let _ = write!(text, "  {name} {:.1} %", share * 100.0);
        }
        format!("{bar:<BAR$}{text}")
    }
}
