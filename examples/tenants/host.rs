//! The two hosts under test, as a query sees them: how it yields and how its CPU time is metered.

use crate::machine::cpu_time;
use crate::query::Answer;
use rustix::time::ClockId;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Which host a request runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    Tokio,
    Quotient,
}

impl Arm {
    /// Lets other tasks run, in the host's own way.
    async fn pause(self) {
        match self {
            Arm::Tokio => tokio::task::yield_now().await,
            Arm::Quotient => quotient::task::yield_now().await,
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Arm::Tokio => "tokio",
            Arm::Quotient => "quotient",
        })
    }
}

impl FromStr for Arm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tokio" => Ok(Arm::Tokio),
            "quotient" => Ok(Arm::Quotient),
            other => Err(format!("no host is called `{other}`: tokio, quotient")),
        }
    }
}

/// Most tenants in a suite.
pub(crate) const TENANTS: usize = 3;

/// The CPU time that each tenant's queries took, measured in the queries and not by the host: the same judge for both.
#[derive(Default)]
pub(crate) struct Meter {
    nanos: [AtomicU64; TENANTS],
}

impl Meter {
    /// CPU time per tenant since the start.
    pub(crate) fn read(&self) -> [Duration; TENANTS] {
        self.nanos
            .each_ref()
            .map(|nanos| Duration::from_nanos(nanos.load(Relaxed)))
    }
}

/// How a query goes forward: computes a step, is metered, yields.
#[derive(Clone)]
pub(crate) struct Pace {
    pub(crate) arm: Arm,
    pub(crate) meter: Arc<Meter>,
    pub(crate) tenant: usize,
}

impl Pace {
    /// Runs one step and yields. The thread's CPU clock, not the wall clock: a step that the operating system
    /// interrupts is not longer for it.
    pub(crate) async fn step(&self, work: impl FnOnce()) {
        let start = cpu_time(ClockId::ThreadCPUTime);
        work();
        let took = cpu_time(ClockId::ThreadCPUTime).saturating_sub(start);
        if let Some(nanos) = self.meter.nanos.get(self.tenant) {
            nanos.fetch_add(took.as_nanos() as u64, Relaxed);
        }
        self.arm.pause().await;
    }
}

/// A query's answer, and the group that it ran in, when there was one.
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    pub(crate) group: Option<String>,
}
