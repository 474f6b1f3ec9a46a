//! How long admitted requests waited, as a histogram.
//!
//! Pure.

use crate::unit::Nanos;

/// Upper bounds of the buckets; a last bucket without bound follows. From a wake-up to the default of queue_timeout.
pub const WAIT_BOUNDS: [Nanos; 12] = [
    Nanos::from_micros(100),
    Nanos::from_millis(1),
    Nanos::from_millis(5),
    Nanos::from_millis(25),
    Nanos::from_millis(100),
    Nanos::from_millis(500),
    Nanos::from_secs(1),
    Nanos::from_secs(5),
    Nanos::from_secs(15),
    Nanos::from_secs(60),
    Nanos::from_secs(120),
    Nanos::from_secs(300),
];

/// Waits of admitted requests, those of no time included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Requests per bucket (not cumulative); the last one has no upper bound.
    pub buckets: [u64; WAIT_BOUNDS.len() + 1],
    /// Sum of all waits.
    pub sum: Nanos,
}

impl Waits {
    pub(super) fn record(&mut self, waited: Nanos) {
        let bucket = WAIT_BOUNDS.partition_point(|bound| *bound < waited);
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            *bucket += 1;
        }
        self.sum = self.sum.plus(waited);
    }

    /// Adds another histogram's counts.
    pub fn add(&mut self, other: &Waits) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
        self.sum = self.sum.plus(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_exactly_a_bound_is_within_it() {
        let mut waits = Waits::default();
        waits.record(Nanos::ZERO);
        waits.record(Nanos::from_micros(100));
        waits.record(Nanos(100_001));
        waits.record(Nanos::from_secs(301));
        assert_eq!((waits.buckets[0], waits.buckets[1]), (2, 1));
        assert_eq!(waits.buckets[WAIT_BOUNDS.len()], 1);
        assert_eq!(waits.sum, Nanos(301_000_200_001));
    }
}
