//! `quotient simulate`: loads through the groups of a script, in virtual time.
//!
//! One thread: the program's. CPU, admission and their limits are simulated by the code that the service runs; memory and
//! IO are not.

mod load;
mod run;

use super::finding::{Finding, Level, pictures};
use super::script::Script;
use super::{Answer, Common, Unable, check};
use crate::classify::explanation::explanation;
use crate::governor::variables;
use crate::sql::value::duration;
use crate::sql::{Output, Span, Spanned, Value};
use crate::unit::{GroupId, Nanos};
use clap::Args;
use load::{Load, Misread, Work};
use run::{Outcome, Times};
use serde_json::json;

/// Polls that a run may have at most: some ten seconds of computing.
const POLLS: u64 = 50_000_000;
/// Queries that may arrive in a run.
const QUERIES: u64 = 200_000;

#[derive(Args, Debug)]
pub(super) struct Simulate {
    #[command(flatten)]
    common: Common,
    /// A load, beside those in the script's comments (`-- load: ..`), such as 'user=bi tasks=8 poll=1ms' or
    /// 'group=etl queries=50/s cpu=20ms'; may be repeated.
    #[arg(long, value_name = "LOAD")]
    load: Vec<String>,
    /// How long, in virtual time.
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = time)]
    time: Nanos,
    /// Decides all that is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn time(text: &str) -> Result<Nanos, String> {
    match duration(text) {
        Ok(time) if (Nanos::from_millis(1)..=Nanos::from_secs(3_600)).contains(&time) => Ok(time),
        _ => Err("a time from 1ms to 1h with its unit".to_owned()),
    }
}

impl Simulate {
    pub(super) fn answer(&self) -> Result<Answer, Unable> {
        let script = Script::read(self.common.text()?, self.common.machine());
        let name = self.common.name();
        if script.is_refused() {
            return Ok(check::refused(&script, &name, self.common.json));
        }
        let loads = match self.loads(&script) {
            Ok(loads) => loads,
            Err(found) if found.span.line == 0 => {
                // It is in the arguments.
                let notes = found.notes.join("; ");
                return Err(Unable(format!("--load: {}; {notes}", found.message)));
            }
            Err(found) => {
                let text = match self.common.json {
                    true => format!("{}\n", json!({ "file": name, "findings": [found.json()] })),
                    false => pictures(&[found], &name, &script.text),
                };
                return Ok(Answer { text, found: true });
            }
        };
        self.bounded(&loads, &script)?;
        let machine = script.snapshot.machine();
        let limits = variables::limits(&script.settings, machine.workers, machine.memory_limit);
        let outcomes = run::run(&script.snapshot, limits, &loads, self.time, self.seed);
        let text = if self.common.json {
            json(&outcomes, self.time, machine.workers)
        } else {
            table(&outcomes, self.time, machine.workers)
        };
        Ok(Answer { text, found: false })
    }

    /// The loads, each with the group that its requests go to.
    fn loads(&self, script: &Script) -> Result<Vec<(Load, GroupId)>, Finding> {
        let told = self
            .load
            .iter()
            .map(|text| Spanned::new(text.clone(), Span::default()));
        let written = load::in_comments(&script.text);
        let mut loads = Vec::new();
        for description in written.into_iter().chain(told) {
            let load = load::read(&description).map_err(misread)?;
            let Some(found) = explanation(&script.snapshot, &load.attributes) else {
                let name = load.attributes.get_resource_group().unwrap_or_default();
                let unknown = script
                    .snapshot
                    .find(&Spanned::new(name.to_owned(), description.span));
                return Err(match unknown {
                    Err(error) => Finding::from(&error),
                    Ok(_) => misread(Misread {
                        message: "its group cannot be found".to_owned(),
                        span: description.span,
                        notes: Vec::new(),
                    }),
                });
            };
            loads.push((load, found.group));
        }
        Ok(loads)
    }

    /// Refuses what would take for ever.
    fn bounded(&self, loads: &[(Load, GroupId)], script: &Script) -> Result<(), Unable> {
        let shortest = loads.iter().map(|(load, _)| match load.work {
            Work::Queries { cpu, .. } => load.poll.min(cpu),
            Work::Tasks { .. } => load.poll,
        });
        let Some(shortest) = shortest.min() else {
            return Err(Unable(
                "there is no load: give one by --load, or write it into the script as a comment, as \
                 -- load: user=bi tasks=8 poll=1ms"
                    .to_owned(),
            ));
        };
        let workers = script.snapshot.machine().workers as u64;
        let polls = (self.time.0 / shortest.0.max(1)).saturating_mul(workers);
        if polls > POLLS {
            return Err(Unable(format!(
                "up to {polls} polls would be simulated, allowed are {POLLS}: make --for shorter, or polls longer"
            )));
        }
        let queries = loads.iter().map(|(load, _)| match load.work {
            Work::Queries { every, .. } => self.time.0 / every.0.max(1),
            Work::Tasks { .. } => 0,
        });
        let queries = queries.fold(0_u64, u64::saturating_add);
        if queries > QUERIES {
            return Err(Unable(format!(
                "{queries} queries would arrive, allowed are {QUERIES}: make --for shorter"
            )));
        }
        Ok(())
    }
}

fn misread(why: Misread) -> Finding {
    let mut finding = Finding::new(Level::Error, "bad_load", why.message, why.span);
    finding.notes = why.notes;
    finding
}

/// In percent, with two digits.
fn percent(part: Nanos, whole: Nanos) -> f64 {
    (part.0 as f64 / whole.0.max(1) as f64 * 1e4).round() / 100.0
}

fn ms(time: Nanos) -> f64 {
    (time.0 as f64 / 1e3).round() / 1e3
}

fn table(outcomes: &[Outcome], time: Nanos, workers: usize) -> String {
    let all = Nanos(time.0.saturating_mul(workers as u64));
    let columns = [
        "group",
        "weight",
        "reserved",
        "max_cores",
        "cpu_seconds",
        "cpu_%",
        "entitled_%",
        "polls",
        "longest_wait_ms",
        "unserved_ms",
    ];
    let mut cpu = Output::table("cpu", columns);
    for one in outcomes {
        cpu.push(vec![
            one.group.as_str().into(),
            one.weight.into(),
            one.reserved.into(),
            one.cap.into(),
            one.given.as_secs_f64().into(),
            percent(one.given, all).into(),
            percent(one.entitled, all).into(),
            one.polls.into(),
            ms(one.longest_wait).into(),
            ms(one.longest_unserved).into(),
        ]);
    }
    let used = outcomes
        .iter()
        .fold(Nanos::ZERO, |sum, one| sum.plus(one.given));
    let mut text = format!(
        "{time} of virtual time on {workers} workers, {} % of it used\n\n{cpu}",
        percent(used, all)
    );
    if outcomes.iter().any(|one| one.queries.arrived > 0) {
        let columns = [
            "group",
            "arrived",
            "finished",
            "refused",
            "timed_out",
            "running",
            "waiting",
            "mean_wait_ms",
            "max_wait_ms",
            "mean_response_ms",
            "max_response_ms",
        ];
        let mut queries = Output::table("queries", columns);
        let mean = |times: &Times| times.mean().map(ms);
        let most = |times: &Times| times.mean().map(|_| ms(times.most));
        for one in outcomes.iter().filter(|one| one.queries.arrived > 0) {
            let it = &one.queries;
            let cells: [Value; 11] = [
                one.group.as_str().into(),
                it.arrived.into(),
                it.finished.into(),
                it.refused.into(),
                it.timed_out.into(),
                it.running.into(),
                it.waiting.into(),
                mean(&it.waits).into(),
                most(&it.waits).into(),
                mean(&it.responses).into(),
                most(&it.responses).into(),
            ];
            queries.push(cells.to_vec());
        }
        text += &format!("\n{queries}");
    }
    text
}

fn json(outcomes: &[Outcome], time: Nanos, workers: usize) -> String {
    let times = |times: &Times| json!({ "count": times.count, "mean_seconds": times.mean().map(Nanos::as_secs_f64), "max_seconds": times.most.as_secs_f64() });
    let group = |one: &Outcome| {
        json!({
            "group": one.group,
            "weight": one.weight,
            "reserved": one.reserved,
            "max_cpu_cores": one.cap,
            "cpu_seconds": one.given.as_secs_f64(),
            "entitled_seconds": one.entitled.as_secs_f64(),
            "polls": one.polls,
            "longest_wait_seconds": one.longest_wait.as_secs_f64(),
            "longest_unserved_seconds": one.longest_unserved.as_secs_f64(),
            "loads": one.loads,
            "queries": {
                "arrived": one.queries.arrived,
                "finished": one.queries.finished,
                "refused": one.queries.refused,
                "timed_out": one.queries.timed_out,
                "running": one.queries.running,
                "waiting": one.queries.waiting,
                "wait": times(&one.queries.waits),
                "response": times(&one.queries.responses),
            },
        })
    };
    let groups: Vec<_> = outcomes.iter().map(group).collect();
    let answer = json!({ "seconds": time.as_secs_f64(), "workers": workers, "groups": groups });
    format!("{answer}\n")
}
