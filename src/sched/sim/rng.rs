//! A small seeded generator, so that a run of the simulator is a function of its seed.
//!
//! Pure. SplitMix64 (Steele, Lea, Flood 2014): good enough for workloads, never for secrets.

use crate::unit::Nanos;

/// Pseudo-random numbers from a seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Any 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Evenly from `low..=high` (their order does not matter).
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = (low.min(high), low.max(high));
        let span = u128::from(high - low) + 1;
        low + ((u128::from(self.next_u64()) * span) >> 64) as u64
    }

    /// Evenly from `low..=high`.
    pub fn time(&mut self, low: Nanos, high: Nanos) -> Nanos {
        Nanos(self.between(low.0, high.0))
    }

    /// Exponentially distributed around `mean`: the gaps between arrivals that know nothing of each other.
    pub fn gap(&mut self, mean: Nanos) -> Nanos {
        let unit = (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        Nanos((-(1.0 - unit).ln() * mean.0 as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_bounds_and_gaps_have_their_mean() {
        let mut rng = Rng::new(1);
        let (mut seen, mut sum) = ([0; 4], 0);
        for _ in 0..40_000 {
            seen[(rng.between(3, 6) - 3) as usize] += 1;
            sum += rng.gap(Nanos(1_000)).0;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
        assert!((970..1_030).contains(&(sum / 40_000)), "{}", sum / 40_000);
        assert_eq!(rng.between(5, 5), 5);
        assert!(rng.between(0, u64::MAX) != rng.between(0, u64::MAX));
    }
}
