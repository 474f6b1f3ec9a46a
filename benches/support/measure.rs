//! One repetition's cost, and what many paired repetitions say about the ratio of two sides.

use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::time::{Duration, Instant};

/// How long a side may tidy up after its last operation, before the other side runs: handles that are still
/// being dropped and workers that go to sleep are paid by the side that caused them.
const SETTLE: Duration = Duration::from_micros(200);

/// What one repetition cost per operation, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
}

/// CPU time of the whole process so far.
pub(crate) fn process_cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Runs `shape`, which returns the number of operations that it did.
pub(crate) fn cost(shape: impl FnOnce() -> usize) -> Cost {
    let cpu_before = process_cpu();
    let start = Instant::now();
    let operations = shape() as f64;
    let wall = start.elapsed();
    std::thread::sleep(SETTLE);
    let cpu = process_cpu() - cpu_before;
    Cost {
        wall: wall.as_nanos() as f64 / operations,
        cpu: cpu.as_nanos() as f64 / operations,
    }
}

/// First quartile, median and third quartile of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quartiles {
    pub(crate) first: f64,
    pub(crate) median: f64,
    pub(crate) third: f64,
}

impl Quartiles {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Quartiles {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Quartiles {
            first: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            third: quantile(&sorted, 0.75),
        }
    }
}

impl fmt::Display for Quartiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>5.2} [{:.2} … {:.2}]",
            self.median, self.first, self.third
        )
    }
}

/// The value below which the share `q` of a sorted sample lies; NaN if the sample is empty.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n => sorted[((n - 1) as f64 * q).round() as usize],
    }
}

/// `b ÷ a`, pair by pair.
pub(crate) fn ratios(a: &[Cost], b: &[Cost], of: fn(&Cost) -> f64) -> Quartiles {
    Quartiles::of(a.iter().zip(b).map(|(a, b)| of(b) / of(a)))
}

/// Median of one column.
pub(crate) fn median(costs: &[Cost], of: fn(&Cost) -> f64) -> f64 {
    Quartiles::of(costs.iter().map(of)).median
}

/// How busy the machine was, so that a reader knows how far to trust a run.
pub(crate) fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").map_or_else(
        |_| "load unknown".into(),
        |text| {
            let averages: Vec<&str> = text.split(' ').take(3).collect();
            format!("load {}", averages.join(" "))
        },
    )
}
