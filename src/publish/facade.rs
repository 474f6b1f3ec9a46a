//! All metrics for the recorder that the program has installed with the crate `metrics`.
//!
//! Mechanism: one task on the host's runtime, beside the groups; it ends with the governor.
//!
//! The facade differs from the [page](crate::Governor::render_metrics) in what it can express:
//!
//! - Its counters are whole numbers. What counts seconds (`quotient_group_cpu_seconds_total`,
//!   `quotient_worker_busy_seconds_total` and so on) is told as a gauge under the same name; it never goes back all the
//!   same, so that `rate()` over it is right.
//! - Its histograms take single observations, which are not kept. A histogram is told as it is scraped: `…_bucket` with
//!   the label `le` and `…_count` as counters, `…_sum` as a gauge. `histogram_quantile` works over them.
//! - It cannot withdraw a series. When a dropped group's series end, its gauges are set to 0 and its counters stay
//!   where they are.

use super::ledger::{Ledger, Reading, Told, is_counter};
use crate::governor::{Governor, WeakGovernor};
use crate::metrics::names::{self, Kind, Metric, Unit};
use crate::metrics::series::Part;
use ::metrics::{KeyName, Level, Metadata, Recorder, with_recorder};
use std::time::Duration;
use tokio::time::sleep;

/// Between two rounds.
const PERIOD: Duration = Duration::from_secs(1);

/// So many series are told before other tasks of the runtime have their turn.
const AT_ONCE: usize = 128;

const METADATA: Metadata<'static> = Metadata::new("quotient", Level::INFO, None);

/// Publishes all metrics of the governor to the installed recorder: now, and once a second as long as the governor
/// lives, which this does not prolong.
///
/// Install the recorder first: names are described once, with unit and help, when publishing begins. Series are looked up
/// anew each time, so that a recorder that forgets idle ones gets them back. A program's own `/metrics` that shows
/// both needs no publishing: see [`prometheus`](crate::metrics::prometheus), with the feature of that name. On a runtime
/// without timers it publishes once.
///
/// # Metrics
///
/// Those of [`metrics::names`](crate::metrics::names).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // … install a recorder …
/// let governor = quotient::Governor::builder().build()?;
/// quotient::metrics::facade::publish(&governor);
/// # Ok(()) }
/// ```
pub fn publish(governor: &Governor) {
    let again = governor.has_timers();
    governor.beside(|governor| go_on(governor, again));
}

async fn go_on(governor: WeakGovernor, again: bool) {
    let mut ledger = Ledger::default();
    with_recorder(describe);
    loop {
        // Held for the length of a snapshot only: this task must not keep the governor from ending.
        let Some(snapshot) = governor.upgrade().map(|governor| governor.metrics()) else {
            return;
        };
        for some in ledger.read(&snapshot).chunks(AT_ONCE) {
            with_recorder(|recorder| some.iter().for_each(|reading| tell(recorder, reading)));
            tokio::task::yield_now().await;
        }
        if !again {
            return;
        }
        sleep(PERIOD).await;
    }
}

fn tell(recorder: &dyn Recorder, reading: &Reading) {
    match reading.told {
        Told::Counter(total) => recorder
            .register_counter(&reading.key, &METADATA)
            .absolute(total),
        Told::Gauge(value) => recorder.register_gauge(&reading.key, &METADATA).set(value),
    }
}

fn describe(recorder: &dyn Recorder) {
    for metric in names::ALL {
        let parts: &[Part] = match metric.kind {
            Kind::Histogram => &[Part::Bucket, Part::Sum, Part::Count],
            Kind::Counter | Kind::Gauge => &[Part::Whole],
        };
        for &part in parts {
            let name = KeyName::from(format!("{}{}", metric.name, part.suffix()));
            let (unit, help) = (unit(metric, part), metric.help.into());
            if is_counter(metric.kind, metric.unit, part) {
                recorder.describe_counter(name, unit, help);
            } else {
                recorder.describe_gauge(name, unit, help);
            }
        }
    }
}

fn unit(metric: &Metric, part: Part) -> Option<::metrics::Unit> {
    if matches!(part, Part::Bucket | Part::Count) {
        return Some(::metrics::Unit::Count);
    }
    match metric.unit {
        Unit::Seconds => Some(::metrics::Unit::Seconds),
        Unit::Bytes => Some(::metrics::Unit::Bytes),
        Unit::Count => Some(::metrics::Unit::Count),
        // The facade's unit for shares is the percent, which is a hundred times as much.
        Unit::Ratio => None,
    }
}
