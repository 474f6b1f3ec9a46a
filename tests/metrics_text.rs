//! The metrics page: its exact text, its grammar, and that no series occurs twice.

mod support;

use quotient::admission::waits::Waits;
use quotient::exec::stats::{
    GroupUsage, IoBytes, KillTimes, PoolUsage, SpareUsage, TIME_BOUNDS, TimeHistogram, WorkerUsage,
};
use quotient::metrics::memory::{GroupMemory, ProcessMemory};
use quotient::metrics::names::{self, Kind};
use quotient::metrics::snapshot::{
    AdmissionOutcome, AdmissionReason, GroupRow, Queries, QueryOutcomes, Snapshot,
};
use quotient::metrics::text::render;
use quotient::unit::Nanos;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

fn histogram(buckets: &[(usize, u64)], sum: Nanos) -> TimeHistogram {
    let mut histogram = TimeHistogram {
        sum,
        ..TimeHistogram::default()
    };
    for (bucket, count) in buckets {
        histogram.buckets[*bucket] = *count;
    }
    histogram
}

fn waits() -> Waits {
    let mut waits = Waits {
        sum: Nanos::from_millis(250),
        ..Waits::default()
    };
    (waits.buckets[0], waits.buckets[4]) = (10, 3);
    waits
}

fn bi() -> GroupRow {
    GroupRow {
        name: "bi".to_owned(),
        usage: GroupUsage {
            cpu_poll: Nanos(1_500_000_000),
            cpu_drop: Nanos(16_000),
            polls: 42,
            long_polls: 1,
            cpu_blocking: Nanos::ZERO,
            blocking: 0,
            blocking_queued: 3,
            blocking_running: 1,
            io_blocking: Nanos::from_millis(2_500),
            io: IoBytes {
                read: 4_096,
                written: 512,
            },
            io_throttled: Nanos::from_millis(750),
            tasks_total: 9,
            tasks_running: 1,
            tasks_queued: 2,
            tasks_waiting: 3,
            queue_delay: histogram(
                &[(0, 30), (3, 11), (TIME_BOUNDS.len(), 1)],
                Nanos(400_000_000_001),
            ),
            poll_duration: histogram(&[(1, 42)], Nanos::from_micros(1_600)),
            throttled: Nanos::from_millis(250),
            reserved: 2,
            lag_ns: -2_500_000,
            share: 0.625,
            entitled: 2.0 / 3.0,
        },
        memory: GroupMemory {
            used: Some(70_000),
            peak: Some(90_000),
            limit: Some(100_000),
            reserved: 5_000,
            waiting: 2,
            spill_requests: 8,
        },
        queries_running: 4,
        queries_queued: 5,
        queries_ended: QueryOutcomes {
            completed: 6,
            failed: 1,
            killed: 0,
            cancelled: 2,
        },
        admission: BTreeMap::from([
            ((AdmissionOutcome::Admitted, AdmissionReason::None), 13),
            (
                (AdmissionOutcome::Rejected, AdmissionReason::Concurrency),
                7,
            ),
        ]),
        admission_wait: waits(),
        classified: 20,
        big_queries: BTreeMap::from([(("cpu", "kill"), 2), (("elapsed", "dry_run"), 1)]),
    }
}

fn small() -> Snapshot {
    Snapshot {
        groups: vec![
            GroupRow {
                name: "default_wg".to_owned(),
                ..GroupRow::default()
            },
            bi(),
        ],
        workers: vec![
            WorkerUsage {
                busy: Nanos::from_secs(3),
                parks: 17,
                polls_fast: 40,
                polls_fair: 1,
            },
            WorkerUsage {
                busy: Nanos(250_000_000),
                parks: 8,
                polls_fast: 2,
                polls_fair: 0,
            },
        ],
        memory: ProcessMemory {
            resident: Some(300_000),
            cgroup: Some(400_000),
            cgroup_limit: Some(1_000_000),
            used: 400_000,
            limit: 900_000,
            ..ProcessMemory::default()
        }
        .tracking(Some(200_000), 70_000),
        spares: SpareUsage {
            serving: 1,
            started: 5,
            late_polls: 9,
            work: WorkerUsage {
                busy: Nanos::from_secs(2),
                parks: 5,
                polls_fast: 0,
                polls_fair: 6,
            },
        },
        blocking_pool: PoolUsage {
            threads: 3,
            busy: 1,
        },
        unclassified: 3,
        queries: Queries {
            num_runner_threads: Some(40),
            running: 4,
            max_allowed: None,
            throttling_for: Nanos::from_millis(1_500),
            throttling_total: Nanos::from_secs(61),
            collections: 2,
        },
        unmanaged_cpu: Nanos(1),
        kills: KillTimes {
            crossing_to_kill: histogram(&[(0, 2)], Nanos(3_000)),
            kill_to_drop: histogram(&[(1, 1)], Nanos(20_000)),
        },
        catalog_version: 12,
        catalog_apply_errors: 2,
    }
}

#[test]
fn the_page_of_a_small_snapshot_is_exactly_this() {
    let page = render(&small());
    let golden = include_str!("support/small_snapshot.prom");
    for (line, (got, want)) in page.lines().zip(golden.lines()).enumerate() {
        assert_eq!(got, want, "line {}", line + 1);
    }
    assert_eq!(page, golden);
}

/// One sample line, taken apart: the name as written, its labels, its value.
type Sample = (String, Vec<(String, String)>, f64);

/// The grammar of one sample line, read strictly.
fn sample(line: &str) -> Sample {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = line.find(|c| !is_name(c)).expect("a name ends");
    let (name, mut rest) = line.split_at(end);
    assert!(
        !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()),
        "{line}"
    );
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label has a value");
            assert!(!label.is_empty() && label.chars().all(is_name), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().expect("a value ends") {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next().expect("an escape ends").1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        c => panic!("escape {c} in {line}"),
                    }),
                    (_, c) => value.push(c),
                }
            };
            labels.push((label.to_owned(), value));
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').expect("labels are closed");
    }
    let number = rest.strip_prefix(' ').expect("one blank before the value");
    (name.to_owned(), labels, number.parse().expect("a number"))
}

/// Reads a whole page: families contiguous, each with its head, no series twice. Gives all samples.
fn read(page: &str) -> Vec<Sample> {
    let mut families = BTreeSet::new();
    let mut series = BTreeSet::new();
    let mut samples = Vec::new();
    let mut family = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, text) = help.split_once(' ').expect("a help text");
            let metric = names::ALL
                .iter()
                .find(|metric| metric.name == name)
                .expect("a known name");
            assert_eq!(text, metric.help);
            let kind = format!("# TYPE {name} {}", metric.kind.word());
            assert_eq!(lines.next(), Some(kind.as_str()));
            assert!(families.insert(name), "{name} comes twice");
            family = Some(metric);
            continue;
        }
        let (name, labels, value) = sample(line);
        let metric = family.expect("a head before the first sample");
        let suffix = name
            .strip_prefix(metric.name)
            .expect("a sample of the family at hand");
        let mut expected = metric.labels.to_vec();
        match (metric.kind, suffix) {
            (Kind::Histogram, "_bucket") => expected.push("le"),
            (Kind::Histogram, "_sum" | "_count") | (Kind::Counter | Kind::Gauge, "") => {}
            _ => panic!("{line}"),
        }
        assert_eq!(
            labels
                .iter()
                .map(|(label, _)| label.as_str())
                .collect::<Vec<_>>(),
            expected,
            "{line}"
        );
        assert!(
            series.insert((name.clone(), labels.clone())),
            "twice: {line}"
        );
        samples.push((name, labels, value));
    }
    samples
}

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let wanted: Vec<(String, String)> = labels
        .iter()
        .map(|(l, v)| ((*l).to_owned(), (*v).to_owned()))
        .collect();
    let found = samples.iter().find(|(n, l, _)| n == name && *l == wanted);
    found.unwrap_or_else(|| panic!("{name} {labels:?}")).2
}

#[test]
fn every_family_of_the_table_is_on_the_page_of_a_busy_governor() {
    let page = render(&small());
    read(&page);
    for metric in names::ALL {
        assert!(
            page.contains(&format!("# TYPE {} ", metric.name)),
            "{}",
            metric.name
        );
    }
}

#[test]
fn an_empty_governor_has_no_group_series_and_a_valid_page() {
    let samples = read(&render(&Snapshot::default()));
    assert!(
        samples
            .iter()
            .all(|(name, _, _)| !name.starts_with("quotient_group"))
    );
    assert_eq!(value(&samples, "quotient_catalog_version", &[]), 0.0);
}

#[test]
fn a_draining_group_is_added_to_the_new_one_of_its_name() {
    let mut snapshot = small();
    let mut blocking = bi();
    blocking.usage.cpu_blocking = Nanos::from_secs(2);
    snapshot.groups.push(blocking);
    let samples = read(&render(&snapshot));
    let of = |name: &str, labels: &[(&str, &str)]| {
        let group = [&[("group", "bi")], labels].concat();
        value(&samples, name, &group)
    };
    assert_eq!(
        of("quotient_group_cpu_seconds_total", &[("kind", "poll")]),
        3.0
    );
    assert_eq!(
        of("quotient_group_cpu_seconds_total", &[("kind", "blocking")]),
        2.0
    );
    assert_eq!(of("quotient_group_polls_total", &[]), 84.0);
    assert_eq!(of("quotient_group_tasks", &[("state", "waiting")]), 6.0);
    assert_eq!(of("quotient_group_lag_seconds", &[]), -0.005);
    assert_eq!(of("quotient_group_cpu_share_ratio", &[]), 1.25);
    assert_eq!(
        of("quotient_group_queries_total", &[("outcome", "completed")]),
        12.0
    );
    let refused = [("outcome", "rejected"), ("reason", "concurrency")];
    assert_eq!(of("quotient_group_admission_total", &refused), 14.0);
    assert_eq!(of("quotient_group_queue_delay_seconds_count", &[]), 84.0);
}

#[test]
fn buckets_are_cumulative_and_end_at_the_count() {
    let samples = read(&render(&small()));
    let buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter(|(name, labels, _)| {
            name == "quotient_group_queue_delay_seconds_bucket" && labels[0].1 == "bi"
        })
        .map(|(_, labels, value)| {
            (
                labels[1].1.replace("+Inf", "inf").parse().expect("a bound"),
                *value,
            )
        })
        .collect();
    assert_eq!(buckets.len(), TIME_BOUNDS.len() + 1);
    assert!(
        buckets
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
    );
    let count = value(
        &samples,
        "quotient_group_queue_delay_seconds_count",
        &[("group", "bi")],
    );
    assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)));
}

#[test]
fn names_that_differ_only_in_backslashes_and_quotes_stay_two_series() {
    let hostile = ["a\\b", "a\\\\b", "a\"b", "a\\\"b", "a\nb", "a\\nb", "ü"];
    let groups = hostile.map(|name| GroupRow {
        name: name.to_owned(),
        ..GroupRow::default()
    });
    let samples = read(&render(&Snapshot {
        groups: groups.to_vec(),
        ..Snapshot::default()
    }));
    let seen: BTreeSet<&str> = samples
        .iter()
        .filter(|(name, _, _)| name == "quotient_group_polls_total")
        .map(|(_, labels, _)| labels[0].1.as_str())
        .collect();
    assert_eq!(seen, BTreeSet::from(hostile));
}

#[test]
fn promtool_has_nothing_to_say() {
    let Some(promtool) = support::require_tool("promtool") else {
        return;
    };
    for page in [render(&small()), render(&Snapshot::default())] {
        let mut child = Command::new(&promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool starts");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(page.as_bytes()).expect("promtool reads");
        drop(input);
        let said = child.wait_with_output().expect("promtool ends");
        let text = [said.stdout, said.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat();
        // StarTree's names are kept as operators know them.
        let rest: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("quotient_query_"))
            .collect();
        assert!(rest.is_empty(), "{}: {text}", said.status);
    }
}
