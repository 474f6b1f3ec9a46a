//! The samples of a snapshot, one after the other, for whoever writes them down.
//!
//! Pure. One walk (in [`text`](super::text)) says which samples there are; a [`Sink`] says what becomes of them: lines
//! of a page, or values for another recorder. Samples of one family follow each other, and none comes twice.

use super::names::Metric;
use crate::unit::Nanos;
use std::fmt;

/// A value as it was counted. Written, times are exact decimals of seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    /// Things, or bytes.
    Whole(u64),
    /// A ratio, or no limit at all.
    Real(f64),
    /// A time, counted in nanoseconds; the unit of the metric is the second.
    Time(Nanos),
    /// The same, with a sign, in nanoseconds.
    SignedTime(i64),
}

impl Value {
    /// In the unit of its metric, as exactly as a float can be.
    #[cfg(any(test, feature = "metrics"))]
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Value::Whole(count) => count as f64,
            Value::Real(number) => number,
            Value::Time(time) => time.as_secs_f64(),
            Value::SignedTime(time) => time as f64 / 1e9,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Whole(count) => count.fmt(f),
            Value::Real(f64::INFINITY) => f.write_str("+Inf"),
            Value::Real(number) => number.fmt(f),
            Value::Time(Nanos(time)) => {
                // Without a detour over floats: `1.5`, `0.000016`, `3`.
                let (whole, part) = (time / 1_000_000_000, time % 1_000_000_000);
                if part == 0 {
                    return write!(f, "{whole}");
                }
                write!(f, "{whole}.{}", format!("{part:09}").trim_end_matches('0'))
            }
            Value::SignedTime(time) => {
                if time < 0 {
                    f.write_str("-")?;
                }
                Value::Time(Nanos(time.unsigned_abs())).fmt(f)
            }
        }
    }
}

macro_rules! whole {
    ($($from:ty),*) => {$(
        impl From<$from> for Value {
            fn from(count: $from) -> Value {
                Value::Whole(count as u64)
            }
        }
    )*};
}
whole!(u32, u64, usize);

impl From<&u64> for Value {
    fn from(count: &u64) -> Value {
        Value::Whole(*count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Real(number)
    }
}

/// A time as seconds.
pub(super) struct Seconds(pub(super) Nanos);

impl From<Seconds> for Value {
    fn from(time: Seconds) -> Value {
        Value::Time(time.0)
    }
}

/// A time in nanoseconds, which may be negative, as seconds.
pub(super) struct SignedSeconds(pub(super) i64);

impl From<SignedSeconds> for Value {
    fn from(time: SignedSeconds) -> Value {
        Value::SignedTime(time.0)
    }
}

/// Which of a family's series a sample is of: histograms have three kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// A counter or a gauge.
    Whole,
    /// How many observations there were up to the label `le`.
    Bucket,
    /// The sum of all observations.
    Sum,
    /// How many observations there were.
    Count,
}

impl Part {
    /// What is put behind the family's name.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Part::Whole => "",
            Part::Bucket => "_bucket",
            Part::Sum => "_sum",
            Part::Count => "_count",
        }
    }
}

/// One value of one series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) metric: &'static Metric,
    pub(crate) part: Part,
    /// Names and values; the names are bounded, the values are not escaped.
    pub(crate) labels: &'a [(&'static str, &'a str)],
    pub(crate) value: Value,
}

/// Takes samples.
pub(crate) trait Sink {
    /// Takes one.
    fn sample(&mut self, sample: Sample<'_>);
}

/// Where the walk puts its families.
pub(super) struct Page<'a> {
    sink: &'a mut dyn Sink,
}

impl<'a> Page<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink) -> Page<'a> {
        Page { sink }
    }

    pub(super) fn family(&mut self, metric: &'static Metric) -> Family<'_> {
        Family {
            sink: self.sink,
            metric,
        }
    }
}

/// The samples of one metric.
pub(super) struct Family<'a> {
    sink: &'a mut dyn Sink,
    metric: &'static Metric,
}

impl Family<'_> {
    /// A counter's or a gauge's value; `labels` in the order of the table.
    pub(super) fn line(&mut self, labels: &[&str], value: impl Into<Value>) {
        self.put(Part::Whole, labels, None, value.into());
    }

    /// A histogram with one label, from counts that are not cumulative; the last bucket has no bound.
    pub(super) fn histogram(&mut self, value: &str, bounds: &[Nanos], buckets: &[u64], sum: Nanos) {
        let mut count = 0;
        let bounds = bounds.iter().map(|bound| Value::Time(*bound).to_string());
        for (bound, bucket) in bounds.chain(["+Inf".to_owned()]).zip(buckets) {
            count += bucket;
            self.put(Part::Bucket, &[value], Some(&bound), Value::Whole(count));
        }
        self.put(Part::Sum, &[value], None, Value::Time(sum));
        self.put(Part::Count, &[value], None, Value::Whole(count));
    }

    fn put(&mut self, part: Part, values: &[&str], bound: Option<&str>, value: Value) {
        let names = self.metric.labels.iter().copied();
        let labels = names.zip(values.iter().copied());
        let labels: Vec<(&'static str, &str)> =
            labels.chain(bound.map(|bound| ("le", bound))).collect();
        self.sink.sample(Sample {
            metric: self.metric,
            part,
            labels: &labels,
            value,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_exactly_and_without_trailing_zeros() {
        let shown = |time: i64| Value::SignedTime(time).to_string();
        assert_eq!(shown(3_000_000_000), "3");
        assert_eq!(shown(1_500_000_000), "1.5");
        assert_eq!(shown(-16_000), "-0.000016");
        assert_eq!(Value::from(f64::INFINITY).to_string(), "+Inf");
        assert_eq!(Value::SignedTime(-1_500_000_000).as_f64(), -1.5);
    }
}
