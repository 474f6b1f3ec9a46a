//! Worker time into virtual time: exact division with the remainder carried along.
//!
//! Pure.

use crate::unit::{Nanos, Weight};

/// A group's virtual time: worker time divided by its weight, in ns, with what the division left over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vtime {
    pub(super) v: u64,
    rest: u64,
}

impl Vtime {
    pub(super) fn at(v: u64) -> Vtime {
        Vtime { v, rest: 0 }
    }

    /// Adds `time` of worker time. Nothing is lost to rounding: the sum of many small charges equals one
    /// large charge. Saturates.
    pub(super) fn charge(&mut self, time: Nanos, weight: Weight) {
        let w = weight.get();
        let total = time.0.saturating_add(self.rest);
        self.v = self.v.saturating_add(total / w);
        self.rest = total % w;
    }

    /// Raises to `floor`; never lowers.
    pub(super) fn raise(&mut self, floor: u64) {
        if self.v < floor {
            *self = Vtime::at(floor);
        }
    }

    /// Carries the remainder over to a new weight, so that it still stands for the same part of a step.
    pub(super) fn reweigh(&mut self, old: Weight, new: Weight) {
        self.rest = self.rest * new.get() / old.get();
    }

    pub(super) fn rebase(&mut self, by: u64) {
        self.v = self.v.saturating_sub(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_charges_equal_one_large_one() {
        let w = Weight::new(7);
        let (mut many, mut one) = (Vtime::default(), Vtime::default());
        for _ in 0..1_000 {
            many.charge(Nanos(3), w);
        }
        one.charge(Nanos(3_000), w);
        assert_eq!(many, one);
    }

    #[test]
    fn a_charge_near_the_end_of_the_range_saturates() {
        let mut t = Vtime::at(u64::MAX - 1);
        t.charge(Nanos::MAX, Weight::MIN);
        assert_eq!(t.v, u64::MAX);
    }

    #[test]
    fn a_remainder_survives_a_change_of_weight_in_proportion() {
        let mut t = Vtime::default();
        t.charge(Nanos(5), Weight::new(10));
        t.reweigh(Weight::new(10), Weight::new(20));
        t.charge(Nanos(10), Weight::new(20));
        assert_eq!(t, Vtime::at(1));
    }
}
