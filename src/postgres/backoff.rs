//! How long to wait before the next attempt to connect.
//!
//! Pure. Doubles from 100 ms to 30 s; each wait is between half and all of that, by a seed, so that a fleet whose
//! database comes back does not come back all at once.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// Counts failures.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    state: u64,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Backoff {
        Backoff {
            failures: 0,
            state: seed | 1,
        }
    }

    /// After a success that lasted the next wait is short again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let doubled = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let whole = FIRST.saturating_mul(doubled).min(LONGEST);
        whole.mul_f64(0.5 + 0.5 * self.fraction())
    }

    /// The interval, up to a tenth longer or shorter: programs that started together do not stay together.
    pub(super) fn about(&mut self, interval: Duration) -> Duration {
        interval.mul_f64(0.9 + 0.2 * self.fraction())
    }

    /// From 0 to 1, by xorshift.
    fn fraction(&mut self) -> f64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute_and_no_two_programs_wait_alike() {
        let (mut one, mut two) = (Backoff::new(1), Backoff::new(2_u64.pow(40)));
        let mut alike = 0;
        for failure in 0..40_u32 {
            let whole = FIRST
                .saturating_mul(1_u32.checked_shl(failure).unwrap_or(u32::MAX))
                .min(LONGEST);
            let (a, b) = (one.next(), two.next());
            assert!(a >= whole / 2 && a <= whole, "{failure}: {a:?}");
            alike += usize::from(a == b);
        }
        assert!(alike < 3, "{alike}");
        one.reset();
        assert!(one.next() <= FIRST);
    }
}
