//! What service and clients say to each other over the child's stdin and stdout: one line per message.

use crate::host::Arm;
use crate::suites::Company;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Service to clients: act for the tenants of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) arm: Arm,
    /// Index into `suites::SUITES`.
    pub(crate) suite: usize,
    pub(crate) company: Company,
    /// Clients per worker are multiplied by this.
    pub(crate) workers: usize,
    /// How long the load runs before anything counts.
    pub(crate) warm_up: Duration,
    /// How long it is measured.
    pub(crate) window: Duration,
    /// By how much the queries are smaller than their load says; at least 1.
    pub(crate) shrink: u32,
}

/// Clients to service.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The ledger is computed.
    Ready,
    /// The window opens; CPU time of the client process so far.
    Open(Duration),
    /// The window closes; likewise.
    Close(Duration),
    /// One load's outcome.
    Load(LoadOutcome),
    /// Every request was answered.
    Done,
    /// Something went wrong; the run is over.
    Failed(String),
}

/// What one load of one tenant saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LoadOutcome {
    pub(crate) tenant: usize,
    pub(crate) load: usize,
    /// Queries in the window; one that crosses its border counts by the part of its time that lies inside.
    pub(crate) queries: f64,
    /// Latencies of the queries that ended in the window, in microseconds.
    pub(crate) latencies: Vec<u64>,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Command {
            arm,
            suite,
            company,
            workers,
            warm_up,
            window,
            shrink,
        } = self;
        let company = match company {
            Company::Alone => "alone",
            Company::Beside => "beside",
        };
        let (warm_up, window) = (warm_up.as_millis(), window.as_millis());
        write!(
            f,
            "{arm} {suite} {company} {workers} {warm_up} {window} {shrink}"
        )
    }
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let command = Command {
            arm: word(&mut words)?,
            suite: word(&mut words)?,
            company: match words.next() {
                Some("alone") => Company::Alone,
                Some("beside") => Company::Beside,
                other => return Err(format!("alone or beside, not {other:?}")),
            },
            workers: word(&mut words)?,
            warm_up: Duration::from_millis(word(&mut words)?),
            window: Duration::from_millis(word(&mut words)?),
            shrink: word(&mut words)?,
        };
        Ok(command)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Ready => f.write_str("ready"),
            Event::Open(cpu) => write!(f, "open {}", cpu.as_nanos()),
            Event::Close(cpu) => write!(f, "close {}", cpu.as_nanos()),
            Event::Load(LoadOutcome {
                tenant,
                load,
                queries,
                latencies,
            }) => {
                write!(f, "load {tenant} {load} {queries}")?;
                latencies
                    .iter()
                    .try_for_each(|micros| write!(f, " {micros}"))
            }
            Event::Done => f.write_str("done"),
            Event::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split_whitespace();
        match name {
            "ready" => Ok(Event::Ready),
            "open" => Ok(Event::Open(Duration::from_nanos(word(&mut words)?))),
            "close" => Ok(Event::Close(Duration::from_nanos(word(&mut words)?))),
            "load" => Ok(Event::Load(LoadOutcome {
                tenant: word(&mut words)?,
                load: word(&mut words)?,
                queries: word(&mut words)?,
                latencies: words.map(parse).collect::<Result<_, _>>()?,
            })),
            "done" => Ok(Event::Done),
            "failed" => Ok(Event::Failed(rest.to_owned())),
            other => Err(format!("no event is called `{other}`")),
        }
    }
}

fn word<'a, T: FromStr<Err: fmt::Display>>(
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<T, String> {
    parse(words.next().ok_or("the line ends too early")?)
}

fn parse<T: FromStr<Err: fmt::Display>>(word: &str) -> Result<T, String> {
    word.parse().map_err(|error| format!("`{word}`: {error}"))
}
