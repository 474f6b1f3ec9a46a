//! How fast places come free, and from it when it is probably the turn of the one who asks.
//!
//! Pure. Only gaps between departures while all places are taken count: an idle hour says nothing about a queue.

use crate::unit::Nanos;

/// The mean time between two places that come free, a moving average over about the last eight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    last: Option<Nanos>,
    gap: Option<Nanos>,
}

impl Pace {
    /// The last place was taken: from here on somebody may wait for one.
    pub(super) fn filled(&mut self, now: Nanos) {
        self.last = Some(now);
    }

    /// A place came free while all were taken.
    pub(super) fn freed(&mut self, now: Nanos) {
        if let Some(last) = self.last {
            let sample = now.since(last).0;
            self.gap = Some(match self.gap {
                None => Nanos(sample),
                Some(Nanos(gap)) => Nanos(gap - gap / 8 + sample / 8),
            });
        }
        self.last = Some(now);
    }

    /// In how long the `nth` place from now is probably free; none before the first one was.
    pub(super) fn until(&self, nth: u64, now: Nanos) -> Option<Nanos> {
        let gap = self.gap?;
        let passed = self.last.map_or(Nanos::ZERO, |last| now.since(last));
        let left = Nanos(gap.0.saturating_mul(nth)).since(passed);
        // Overdue is not now: somebody who asks again at once gains nothing.
        Some(left.max(Nanos(gap.0 / 2)).max(Nanos::from_millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_the_gaps_between_departures() {
        let ms = Nanos::from_millis;
        let mut pace = Pace::default();
        assert_eq!(pace.until(1, ms(0)), None);
        pace.filled(ms(0));
        pace.freed(ms(80));
        assert_eq!(pace.until(1, ms(80)), Some(ms(80)));
        assert_eq!(pace.until(3, ms(100)), Some(ms(220)));
        pace.freed(ms(240));
        assert_eq!(pace.until(1, ms(240)), Some(ms(90)));
        assert_eq!(pace.until(1, ms(1_000)), Some(ms(45)), "overdue");
    }

    #[test]
    fn an_idle_hour_does_not_count() {
        let mut pace = Pace::default();
        pace.filled(Nanos::ZERO);
        pace.freed(Nanos::from_secs(1));
        pace.filled(Nanos::from_secs(3_600));
        pace.freed(Nanos::from_secs(3_601));
        let estimate = pace.until(1, Nanos::from_secs(3_601));
        assert_eq!(estimate, Some(Nanos::from_secs(1)));
    }
}
