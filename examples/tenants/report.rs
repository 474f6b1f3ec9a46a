//! The one table at the end: what was asked, what plain tokio gave, what Quotient gave, and whether that holds.

use crate::host::{Arm, TENANTS};
use crate::stage::Window;
use crate::suites::{Company, Promise, Rules, SUITES, Suite};
use crate::wire::LoadOutcome;
use std::fmt;
use std::time::Duration;

/// All windows of one suite, host and company, as one.
#[derive(Default)]
struct Seen {
    elapsed: Duration,
    loads: Vec<LoadOutcome>,
    tenants: [Duration; TENANTS],
    /// Worker time by the governor's account.
    charged: [Duration; TENANTS],
    processes: Duration,
    /// CPU time of the workers' CPUs, and the part of it that other programs took.
    cores: Duration,
    others: Duration,
}

impl Seen {
    fn of<'a>(windows: impl Iterator<Item = &'a Window>, workers: usize) -> Self {
        let mut seen = Seen::default();
        for window in windows {
            seen.elapsed += window.elapsed();
            seen.processes += window.processes();
            seen.cores += window.elapsed() * workers as u32;
            seen.others += window.others(workers);
            for (sum, time) in seen.tenants.iter_mut().zip(window.tenants()) {
                *sum += time;
            }
            for (sum, time) in seen.charged.iter_mut().zip(window.charged()) {
                *sum += time;
            }
            for load in &window.loads {
                let same = |other: &&mut LoadOutcome| {
                    (other.tenant, other.load) == (load.tenant, load.load)
                };
                match seen.loads.iter_mut().find(same) {
                    Some(sum) => {
                        sum.queries += load.queries;
                        sum.latencies.extend(&load.latencies);
                    }
                    None => seen.loads.push(load.clone()),
                }
            }
        }
        seen.loads.sort_by_key(|load| (load.tenant, load.load));
        seen.loads
            .iter_mut()
            .for_each(|load| load.latencies.sort_unstable());
        seen
    }

    /// Queries per second of all loads of the tenants that `which` takes.
    fn rate(&self, which: impl Fn(usize) -> bool) -> f64 {
        let queries: f64 = self
            .loads
            .iter()
            .filter(|load| which(load.tenant))
            .map(|load| load.queries)
            .sum();
        queries / self.elapsed.as_secs_f64()
    }

    /// "queries/s, p50, p99" of one load.
    fn load(&self, tenant: usize, load: usize) -> String {
        let Some(found) = self
            .loads
            .iter()
            .find(|found| (found.tenant, found.load) == (tenant, load))
        else {
            return "-".into();
        };
        let rate = found.queries / self.elapsed.as_secs_f64();
        let [p50, p99] = [50, 99].map(|percent| percentile(&found.latencies, percent));
        format!("{rate:.0}/s  {p50}  {p99}")
    }

    /// CPU time outside the queries ÷ CPU time of both processes, in percent.
    fn outside(&self) -> f64 {
        let groups: Duration = self.tenants.iter().sum();
        100.0 * (1.0 - groups.as_secs_f64() / self.processes.as_secs_f64())
    }

    /// The same time ÷ queries, in microseconds: where queries are done sooner there are more of them, and more to do
    /// around them.
    fn outside_per_query(&self) -> f64 {
        let groups: Duration = self.tenants.iter().sum();
        let queries: f64 = self.loads.iter().map(|load| load.queries).sum();
        1e6 * (self.processes.as_secs_f64() - groups.as_secs_f64()) / queries
    }

    /// CPU time of both processes, and that of other programs, ÷ that of the workers' CPUs, in percent.
    fn used(&self) -> [f64; 2] {
        [self.processes, self.others]
            .map(|time| 100.0 * time.as_secs_f64() / self.cores.as_secs_f64())
    }

    /// CPU seconds that a query of the first tenant takes: more where caches, memory or clock are shared with more.
    fn price(&self) -> f64 {
        let own = self.loads.iter().filter(|load| load.tenant == 0);
        let queries: f64 = own.map(|load| load.queries).sum();
        self.tenants[0].as_secs_f64() / queries
    }

    /// CPU time of the first tenant's queries ÷ the CPU time that was there for us.
    fn cpu_of_first(&self) -> f64 {
        self.tenants[0].as_secs_f64() / self.cores.as_secs_f64() / self.available()
    }

    /// The part of the CPUs that was there for us, 0 to 1.
    fn available(&self) -> f64 {
        1.0 - self.others.as_secs_f64() / self.cores.as_secs_f64()
    }
}

/// Milliseconds; "-" without a value.
fn percentile(sorted: &[u64], percent: usize) -> String {
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).map_or("-".into(), |micros| {
        format!("{:.0}", *micros as f64 / 1000.0)
    })
}

/// A part of the weights: whole if it is, else to the hundredth.
fn part(parts: f64) -> String {
    let rounded = (parts * 100.0).round() / 100.0;
    rounded.to_string()
}

/// A promise's ratio. Phases at different times are compared by the CPU time that was there for them: a build that
/// runs on the same machine for a second is not the governor's doing. What the governor leaves idle is. And they are compared by
/// the CPU time of queries, not by their number: who else uses a cache or a memory bus is not its doing either.
fn measure(promise: Promise, alone: &Seen, beside: &Seen) -> f64 {
    match promise {
        Promise::Throughput { .. } => {
            beside.rate(|tenant| tenant == 0) / beside.rate(|tenant| tenant == 1)
        }
        Promise::OfAlone { .. } | Promise::OfAloneReserved => {
            let [beside, alone] = [beside, alone].map(Seen::cpu_of_first);
            beside / alone
        }
        Promise::Share { tenant, .. } => {
            beside.rate(|other| other == tenant) / beside.rate(|_| true)
        }
        Promise::Cpu { .. } => beside.tenants[0].as_secs_f64() / beside.tenants[1].as_secs_f64(),
    }
}

/// The first tenant's queries per second beside the others ÷ alone, at what they cost then and there.
fn throughput(alone: &Seen, beside: &Seen) -> f64 {
    let [beside, alone] =
        [beside, alone].map(|seen| seen.rate(|tenant| tenant == 0) / seen.available());
    beside / alone
}

/// One line: what, asked, tokio, Quotient, verdict.
type Line = [String; 5];

/// The table.
pub(crate) struct Report {
    /// By suite.
    lines: Vec<Vec<Line>>,
    holds: bool,
    /// The most that other programs took of the CPU in a suite under Quotient, in percent.
    disturbed: f64,
}

impl Report {
    pub(crate) fn of(windows: &[Window], suites: &[usize], workers: usize, rules: Rules) -> Self {
        let mut report = Report {
            lines: Vec::new(),
            holds: true,
            disturbed: 0.0,
        };
        for &suite in suites {
            let lines = report.suite(windows, suite, workers, rules);
            report.lines.push(lines);
        }
        report
    }

    /// Whether every promise held under Quotient.
    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    fn verdict(&mut self, holds: bool) -> String {
        self.holds &= holds;
        if holds { "PASS" } else { "FAIL" }.into()
    }

    /// What the governor itself shares out, beside what comes of it.
    fn worker_time(&mut self, suite: &Suite, beside: &Seen, workers: usize, rules: Rules) -> Line {
        let all = beside.charged.iter().sum::<Duration>().as_secs_f64();
        let whole: f64 = suite.tenants.iter().map(|t| f64::from(t.weight)).sum();
        let asked = suite.shares(workers);
        let shares = || beside.charged.iter().map(|time| time.as_secs_f64() / all);
        let holds = asked
            .iter()
            .zip(shares())
            .all(|(asked, share)| (share - asked).abs() <= rules.share);
        let join = |cells: Vec<String>| cells.join(" : ");
        [
            "   worker time, by the governor".into(),
            join(asked.iter().map(|asked| part(asked * whole)).collect()),
            "-".into(),
            join(
                asked
                    .iter()
                    .zip(shares())
                    .map(|(_, share)| format!("{:.2}", share * whole))
                    .collect(),
            ),
            self.verdict(holds),
        ]
    }

    fn suite(
        &mut self,
        windows: &[Window],
        index: usize,
        workers: usize,
        rules: Rules,
    ) -> Vec<Line> {
        let suite = &SUITES[index];
        let arms = [Arm::Tokio, Arm::Quotient];
        let [alone, beside] = [Company::Alone, Company::Beside].map(|company| {
            arms.map(|arm| {
                Seen::of(
                    windows.iter().filter(|window| {
                        (window.suite, window.arm, window.company) == (index, arm, company)
                    }),
                    workers,
                )
            })
        });
        self.disturbed = self.disturbed.max(beside[1].used()[1]);
        let both = |cell: &dyn Fn(usize) -> String| [cell(0), cell(1)];
        let info = |what: String, [tokio, quotient]: [String; 2]| {
            [what, String::new(), tokio, quotient, String::new()]
        };
        let mut lines = vec![info(
            format!("{}  {}", index + 1, suite.title),
            Default::default(),
        )];
        for &promise in suite.promises {
            let names: Vec<_> = suite.tenants.iter().map(|tenant| tenant.name).collect();
            let what = match promise {
                Promise::Throughput { .. } => format!("   {} ÷ {}, queries/s", names[0], names[1]),
                Promise::OfAlone { .. } | Promise::OfAloneReserved => {
                    format!("   {} beside ÷ alone, CPU of queries", names[0])
                }
                Promise::Share { tenant, .. } => format!("   {} ÷ all, queries/s", names[tenant]),
                Promise::Cpu { .. } => format!("   {} ÷ {}, CPU time", names[0], names[1]),
            };
            let asked = suite.asked(promise, workers);
            let mut judge = |what: String, tolerance: f64, ratio: &dyn Fn(&Seen, &Seen) -> f64| {
                let [tokio, quotient] = [0, 1].map(|arm| ratio(&alone[arm], &beside[arm]));
                // Not `>`: a ratio that is no number does not hold.
                let off = |ratio: f64| (ratio / asked - 1.0).abs();
                let nearer = rules.nearer && off(quotient) < off(tokio);
                let holds = off(quotient) <= tolerance || nearer;
                lines.push([
                    what,
                    format!("{asked:.3} ± {:.0} %", tolerance * 100.0),
                    format!("{tokio:.3}"),
                    format!("{quotient:.3}"),
                    self.verdict(holds),
                ]);
            };
            judge(what, rules.tolerance, &|alone, beside| {
                measure(promise, alone, beside)
            });
            if promise.is_of_alone() {
                judge(
                    "   the same, queries/s".into(),
                    rules.throughput,
                    &throughput,
                );
            }
        }
        lines.push(self.worker_time(suite, &beside[1], workers, rules));
        for (number, tenant) in suite.tenants.iter().enumerate() {
            for (place, load) in tenant.loads.iter().enumerate() {
                let what = format!("   {}: {}", tenant.name, load.name);
                if number == 0 && suite.needs_alone() {
                    lines.push(info(
                        format!("{what}, alone"),
                        both(&|arm| alone[arm].load(number, place)),
                    ));
                }
                lines.push(info(what, both(&|arm| beside[arm].load(number, place))));
            }
        }
        let mut cost = |what: &str, of: &dyn Fn(&Seen) -> String| {
            let cell = |arm: usize| match suite.needs_alone() {
                true => format!("{} ({} alone)", of(&beside[arm]), of(&alone[arm])),
                false => of(&beside[arm]),
            };
            lines.push(info(format!("   {what}"), both(&cell)));
        };
        cost("CPU outside the groups", &|seen| {
            format!("{:.1} %", seen.outside())
        });
        cost("the same, per query", &|seen| {
            format!("{:.0} µs", seen.outside_per_query())
        });
        if suite.needs_alone() {
            cost("CPU of a query of the first tenant", &|seen| {
                format!("{:.2} ms", 1e3 * seen.price())
            });
        }
        cost("CPU used, by service and clients", &|seen| {
            format!("{:.1} %", seen.used()[0])
        });
        cost("CPU used, by other programs", &|seen| {
            format!("{:.1} %", seen.used()[1])
        });
        lines
    }
}

const FOOT: &str = "Of each load: queries/s, p50 and p99 in ms, as its clients saw them. All clients of a load always wait for an
answer, so latency is their number ÷ queries/s: a tenant that gets less also waits longer.
tokio takes turns among all queries, and small ones are done sooner. Quotient takes turns among groups, by weight;
within a group older queries go first until they have used 200 ms. Its p99 is close to p50, and a small query waits
for the large ones before it in its own group (2: analysts), but not for those of others (2: dashboards).
Beside ÷ alone is per second of CPU that other programs left. In queries/s it is less exact: what a query costs depends on who
else uses caches, memory and clock at the time, other machines on the same host among them.
CPU outside the groups: HTTP, clients, the host, and half of each reading of the clock around a query's steps, on both hosts.
";

/// Above this, in percent of the CPU, other programs may be why a promise did not hold.
const DISTURBED: f64 = 10.0;

const HEAD: [&str; 5] = ["", "asked", "tokio", "Quotient", ""];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = |text: &str| text.chars().count();
        let width = |column: usize| {
            let cells = self
                .lines
                .iter()
                .flatten()
                .filter(|line| line[2..].iter().any(|cell| !cell.is_empty()));
            cells
                .map(|line| length(&line[column]))
                .chain([length(HEAD[column])])
                .max()
                .unwrap_or(0)
        };
        let widths: [usize; 5] = std::array::from_fn(width);
        let rule = "─".repeat(widths.iter().sum::<usize>() + 2 * (widths.len() - 1));
        let mut row = |cells: [&str; 5]| {
            let padded: Vec<_> = cells
                .iter()
                .zip(widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            writeln!(f, "{}", padded.join("  ").trim_end())
        };
        row(HEAD)?;
        for line in &self.lines {
            row([&rule, "", "", "", ""])?;
            line.iter()
                .try_for_each(|cells| row(cells.each_ref().map(String::as_str)))?;
        }
        row([&rule, "", "", "", ""])?;
        f.write_str(FOOT)?;
        if !self.holds && self.disturbed > DISTURBED {
            writeln!(
                f,
                "Other programs took up to {:.0} % of the CPU, also in the middle of queries; worker time passes meanwhile.",
                self.disturbed
            )?;
        }
        Ok(())
    }
}
