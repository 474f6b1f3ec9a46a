//! From samples to what a recorder of the facade understands: whole counters that never go back, and gauges.
//!
//! Pure; used by the publishing task alone. Invariants:
//! 1. What a recorder is told of a counter never shrinks: a group that was dropped and created again begins at zero
//!    here, and goes on there where it was.
//! 2. A gauge whose series has ended is set to zero once: the facade cannot take a series back.

use crate::metrics::names::{Kind, Unit};
use crate::metrics::series::{Part, Sample, Sink, Value};
use crate::metrics::{Snapshot, text};
use ::metrics::{Key, Label};
use std::collections::HashMap;

/// What a recorder is to be told of one series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) key: Key,
    pub(super) told: Told,
}

/// A value in the facade's own kinds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Told {
    /// The total so far.
    Counter(u64),
    /// The value of now.
    Gauge(f64),
}

/// What was told of every series so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    series: HashMap<Key, Last>,
    round: u64,
}

/// What was told last.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    round: u64,
    /// What the series of that name had counted before it began anew.
    before: u64,
    count: u64,
    is_gauge: bool,
}

impl Ledger {
    /// What is to be told of this snapshot.
    pub(super) fn read(&mut self, snapshot: &Snapshot) -> Vec<Reading> {
        self.round += 1;
        let mut entries = Entries {
            ledger: self,
            readings: Vec::new(),
        };
        text::walk(snapshot, &mut entries);
        let mut readings = entries.readings;
        let round = self.round;
        self.series.retain(|key, last| {
            if last.round < round && last.is_gauge {
                let told = Told::Gauge(0.0);
                let key = key.clone();
                readings.push(Reading { key, told });
            }
            // A counter is remembered: its name may come back.
            last.round == round || !last.is_gauge
        });
        readings
    }
}

/// The facade's counters are whole numbers: seconds are told as gauges of floats, though they never go back either.
pub(super) fn is_counter(kind: Kind, unit: Unit, part: Part) -> bool {
    match part {
        Part::Bucket | Part::Count => true,
        Part::Sum => false,
        Part::Whole => kind == Kind::Counter && unit != Unit::Seconds,
    }
}

struct Entries<'a> {
    ledger: &'a mut Ledger,
    readings: Vec<Reading>,
}

impl Sink for Entries<'_> {
    fn sample(&mut self, sample: Sample<'_>) {
        let key = key(&sample);
        let round = self.ledger.round;
        let last = self.ledger.series.entry(key.clone()).or_default();
        last.round = round;
        let told = match sample.value {
            Value::Whole(count)
                if is_counter(sample.metric.kind, sample.metric.unit, sample.part) =>
            {
                if count < last.count {
                    last.before = last.before.saturating_add(last.count);
                }
                last.count = count;
                Told::Counter(last.before.saturating_add(count))
            }
            value => {
                last.is_gauge = true;
                Told::Gauge(value.as_f64())
            }
        };
        self.readings.push(Reading { key, told });
    }
}

fn key(sample: &Sample<'_>) -> Key {
    let labels = sample.labels.iter();
    let labels: Vec<Label> = labels
        .map(|(name, value)| Label::new(*name, (*value).to_owned()))
        .collect();
    match sample.part.suffix() {
        "" => Key::from_parts(sample.metric.name, labels),
        suffix => Key::from_parts(format!("{}{suffix}", sample.metric.name), labels),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::stats::GroupUsage;
    use crate::metrics::snapshot::GroupRow;
    use crate::unit::Nanos;

    fn group(name: &str, polls: u64) -> GroupRow {
        let mut usage = GroupUsage {
            polls,
            tasks_running: 3,
            cpu_poll: Nanos::from_millis(1_500),
            ..GroupUsage::default()
        };
        (
            usage.poll_duration.buckets[0],
            usage.poll_duration.buckets[2],
        ) = (2, 1);
        usage.poll_duration.sum = Nanos::from_micros(250);
        GroupRow {
            name: name.to_owned(),
            usage,
            ..GroupRow::default()
        }
    }

    fn of(groups: Vec<GroupRow>) -> Snapshot {
        Snapshot {
            groups,
            ..Snapshot::default()
        }
    }

    fn told(
        readings: &[Reading],
        name: &str,
        labels: &[(&'static str, &'static str)],
    ) -> Vec<Told> {
        let labels: Vec<Label> = labels.iter().map(Label::from).collect();
        let key = Key::from_parts(name.to_owned(), labels);
        let found = readings.iter().filter(|reading| reading.key == key);
        found.map(|reading| reading.told).collect()
    }

    #[test]
    fn counts_are_counters_and_seconds_are_gauges() {
        let readings = Ledger::default().read(&of(vec![group("bi", 42)]));
        let bi = ("group", "bi");
        let polls = told(&readings, "quotient_group_polls_total", &[bi]);
        assert_eq!(polls, [Told::Counter(42)]);
        let cpu = told(
            &readings,
            "quotient_group_cpu_seconds_total",
            &[bi, ("kind", "poll")],
        );
        assert_eq!(cpu, [Told::Gauge(1.5)]);
        let running = told(
            &readings,
            "quotient_group_tasks",
            &[bi, ("state", "running")],
        );
        assert_eq!(running, [Told::Gauge(3.0)]);
        // A histogram is told as what it is scraped as: cumulative counters, a sum, a count.
        let polls = |suffix: &str, labels: &[(&'static str, &'static str)]| {
            let name = format!("quotient_group_poll_duration_seconds{suffix}");
            told(&readings, &name, labels)
        };
        assert_eq!(
            polls("_bucket", &[bi, ("le", "0.000016")]),
            [Told::Counter(2)]
        );
        assert_eq!(polls("_bucket", &[bi, ("le", "+Inf")]), [Told::Counter(3)]);
        assert_eq!(polls("_count", &[bi]), [Told::Counter(3)]);
        assert_eq!(polls("_sum", &[bi]), [Told::Gauge(0.00025)]);
    }

    #[test]
    fn a_group_that_comes_back_goes_on_where_its_counters_were_and_its_gauges_were_zero_meanwhile()
    {
        let mut ledger = Ledger::default();
        ledger.read(&of(vec![group("bi", 42)]));
        let gone = ledger.read(&of(vec![]));
        let running = [("group", "bi"), ("state", "running")];
        assert_eq!(
            told(&gone, "quotient_group_tasks", &running),
            [Told::Gauge(0.0)]
        );
        assert_eq!(
            told(&gone, "quotient_group_polls_total", &[("group", "bi")]),
            []
        );
        let still_gone = ledger.read(&of(vec![]));
        assert_eq!(told(&still_gone, "quotient_group_tasks", &running), []);
        for (polls, total) in [(7, 49), (7, 49), (9, 51)] {
            let back = ledger.read(&of(vec![group("bi", polls)]));
            let counted = told(&back, "quotient_group_polls_total", &[("group", "bi")]);
            assert_eq!(counted, [Told::Counter(total)]);
        }
    }
}
