//! Runs one phase: tells the clients what to do, samples CPU time meanwhile, gathers what came out.
//!
//! What "CPU outside the groups" is, and why it hardly bends the promised ratios: every query costs `q` in its group
//! and `h` outside (its HTTP exchange, on both sides of the socket, and the host's own work), and all of it shares
//! the same cores C. Tenants of one phase with the same queries are not bent at all: each of their completions costs
//! the same `h`. Beside ÷ alone is: alone, throughput is (C - H_alone)/q; beside, share·(C - H_beside)/q; so the
//! ratio is share·(C - H_beside)/(C - H_alone). Large queries have the smaller h/q, therefore H_beside < H_alone and
//! the ratio is too high, at most by the factor 1/(1 - H_alone/C). With queries of several milliseconds H_alone is
//! 2-3 % of C: the report prints it.

use crate::governed::Hosts;
use crate::host::{Arm, Meter, TENANTS};
use crate::machine::{Ticks, cpu_time};
use crate::progress::Progress;
use crate::suites::{Company, SUITES};
use crate::wire::{Command, Event, LoadOutcome};
use rustix::time::ClockId;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often CPU time is sampled.
const SAMPLE: Duration = Duration::from_millis(50);
/// Past a phase's own time, how long the clients may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the run ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stopped {
    #[error("interrupted")]
    Interrupted,
    #[error("the suite's statements: {0}")]
    Statements(String),
    #[error("the clients: {0}")]
    Clients(String),
    #[error("the clients ended without a word")]
    Gone,
    #[error("the clients have been silent for {0:?}")]
    Silent(Duration),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// CPU time at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    /// Of each tenant's queries.
    pub(crate) tenants: [Duration; TENANTS],
    /// Worker time that the governor charged them with: the CPU time, what other programs took meanwhile, and the
    /// queues between two steps.
    pub(crate) charged: [Duration; TENANTS],
    /// Of the service's process.
    pub(crate) service: Duration,
    /// Of everything that runs here, where that is known.
    pub(crate) machine: Option<Ticks>,
}

/// One measured window.
pub(crate) struct Window {
    pub(crate) arm: Arm,
    pub(crate) suite: usize,
    pub(crate) company: Company,
    pub(crate) loads: Vec<LoadOutcome>,
    /// The first is the opening, the last the closing of the window.
    pub(crate) samples: Vec<Sample>,
    /// CPU time of the clients' process within the window.
    pub(crate) clients: Duration,
}

impl Window {
    fn ends(&self) -> Option<(Sample, Sample)> {
        Some((*self.samples.first()?, *self.samples.last()?))
    }

    /// How long it was open.
    pub(crate) fn elapsed(&self) -> Duration {
        self.ends()
            .map_or(Duration::ZERO, |(first, last)| last.at - first.at)
    }

    /// CPU time of each tenant's queries.
    pub(crate) fn tenants(&self) -> [Duration; TENANTS] {
        self.grown(|sample| sample.tenants)
    }

    /// Worker time that the governor charged each tenant with.
    pub(crate) fn charged(&self) -> [Duration; TENANTS] {
        self.grown(|sample| sample.charged)
    }

    fn grown(&self, of: impl Fn(&Sample) -> [Duration; TENANTS]) -> [Duration; TENANTS] {
        let Some((first, last)) = self.ends() else {
            return [Duration::ZERO; TENANTS];
        };
        let (first, last) = (of(&first), of(&last));
        std::array::from_fn(|tenant| last[tenant].saturating_sub(first[tenant]))
    }

    /// CPU time of both processes.
    pub(crate) fn processes(&self) -> Duration {
        self.ends()
            .map_or(Duration::ZERO, |(first, last)| last.service - first.service)
            + self.clients
    }

    /// CPU time that other programs took from `workers` CPUs; zero where that is not known.
    pub(crate) fn others(&self, workers: usize) -> Duration {
        let busy = self
            .ends()
            .and_then(|(first, last)| Some(last.machine?.busy_since(first.machine?)));
        let busy = self.elapsed().mul_f64(busy.unwrap_or(0.0) * workers as f64);
        busy.saturating_sub(self.processes())
    }
}

/// The clients' process; killed when dropped.
pub(crate) struct Stage {
    child: Child,
    stdin: Option<ChildStdin>,
    events: Receiver<Event>,
    hosts: Hosts,
    meter: Arc<Meter>,
    workers: usize,
    interrupted: Arc<AtomicBool>,
}

impl Stage {
    /// Starts the clients as a child of this program and waits until they know the data.
    ///
    /// # Errors
    /// When the child cannot be started or ends early.
    pub(crate) fn open(
        service: SocketAddr,
        hosts: Hosts,
        meter: Arc<Meter>,
        workers: usize,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self, Stopped> {
        let mut child = std::process::Command::new(std::env::current_exe()?)
            .args([crate::AS_CLIENTS, &service.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in stdout
                .map(BufReader::new)
                .into_iter()
                .flat_map(BufRead::lines)
            {
                let Ok(line) = line else { return };
                if sender
                    .send(line.parse().unwrap_or_else(Event::Failed))
                    .is_err()
                {
                    return;
                }
            }
        });
        let stage = Stage {
            child,
            stdin,
            events,
            hosts,
            meter,
            workers,
            interrupted,
        };
        match stage.wait(Duration::ZERO, || ())? {
            Event::Ready => Ok(stage),
            other => Err(Stopped::Clients(format!("`{other}` instead of `ready`"))),
        }
    }

    /// Runs one phase to its end.
    ///
    /// # Errors
    /// When a request failed, an answer was wrong, or the run was interrupted.
    pub(crate) fn run(
        &mut self,
        command: Command,
        progress: &mut Progress,
    ) -> Result<Window, Stopped> {
        let mut window = Window {
            arm: command.arm,
            suite: command.suite,
            company: command.company,
            loads: Vec::new(),
            samples: Vec::new(),
            clients: Duration::ZERO,
        };
        let names = SUITES[command.suite]
            .present(command.company)
            .iter()
            .map(|tenant| tenant.name);
        progress.begin(&command, names.collect());
        if let Some(stdin) = &mut self.stdin {
            writeln!(stdin, "{command}").and_then(|()| stdin.flush())?;
        }
        let (mut opened, mut closed) = (None, false);
        loop {
            let event = self.wait(command.warm_up + command.window, || {
                if opened.is_some() && !closed {
                    window.samples.push(self.sample(command.suite));
                    progress.show(&window);
                }
            })?;
            match event {
                Event::Open(cpu) => {
                    opened = Some(cpu);
                    window.samples.push(self.sample(command.suite));
                }
                Event::Close(cpu) => {
                    closed = true;
                    window.samples.push(self.sample(command.suite));
                    window.clients = cpu.saturating_sub(opened.unwrap_or(cpu));
                }
                Event::Load(outcome) => window.loads.push(outcome),
                Event::Done => break,
                Event::Failed(why) => return Err(Stopped::Clients(why)),
                Event::Ready => return Err(Stopped::Clients("started twice".into())),
            }
        }
        progress.end(&window);
        Ok(window)
    }

    fn sample(&self, suite: usize) -> Sample {
        let groups = SUITES[suite].tenants.iter().map(|tenant| tenant.name);
        Sample {
            at: Instant::now(),
            tenants: self.meter.read(),
            charged: self.hosts.charged(groups),
            service: cpu_time(ClockId::ProcessCPUTime),
            machine: Ticks::read(self.workers),
        }
    }

    /// The next event; `each` is called once per [`SAMPLE`] meanwhile.
    fn wait(&self, expected: Duration, mut each: impl FnMut()) -> Result<Event, Stopped> {
        let start = Instant::now();
        while start.elapsed() < expected + PATIENCE {
            if self.interrupted.load(Relaxed) {
                return Err(Stopped::Interrupted);
            }
            match self.events.recv_timeout(SAMPLE) {
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Timeout) => each(),
                Err(RecvTimeoutError::Disconnected) => return Err(Stopped::Gone),
            }
        }
        Err(Stopped::Silent(start.elapsed()))
    }

    /// Lets the clients go: their stdin ends, and so do they.
    ///
    /// # Errors
    /// When the child cannot be waited for.
    pub(crate) fn close(mut self) -> Result<(), Stopped> {
        drop(self.stdin.take());
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // After `close` the child is reaped and this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
