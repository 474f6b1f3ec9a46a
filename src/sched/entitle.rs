//! What each group should have: the water-filling share, integrated over time.
//!
//! Pure. The workers' time is filled like water into the groups that have work, in proportion to their
//! weights; a group that cannot take its part (it has fewer tasks than that, or a cap) takes what it can,
//! and the rest is filled again. The difference to what a group was given is its *lag*: live fairness error.

use crate::unit::Nanos;

/// What one group could use at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Its weight.
    pub weight: u64,
    /// How many workers it could keep busy: queued plus running tasks, or its cap in cores, the lesser.
    pub cores: f64,
}

/// Splits `workers` among the demands: cores per group, in the same order. The sum is `workers` or the sum
/// of all demands, the lesser.
pub fn water_fill(workers: f64, demands: &[Demand]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    let need = |i: usize| demands[i].cores / demands[i].weight as f64;
    order.sort_by(|&a, &b| need(a).total_cmp(&need(b)));
    let mut shares = vec![0.0; demands.len()];
    let mut left = workers;
    let mut weights: u64 = demands.iter().map(|d| d.weight).sum();
    // Those that need least for their weight are filled first; what they leave raises the level of the rest.
    for i in order {
        let level = left * demands[i].weight as f64 / weights.max(1) as f64;
        shares[i] = demands[i].cores.min(level).max(0.0);
        left -= shares[i];
        weights -= demands[i].weight;
    }
    shares
}

/// One group's account of entitlement against what it was given, since it last began to have work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lag {
    entitled: f64,
    given: f64,
}

impl Lag {
    /// The group begins to have work: past differences are settled.
    pub fn restart(&mut self) {
        *self = Lag::default();
    }

    /// It was entitled to `cores` for `time`.
    pub fn entitle(&mut self, cores: f64, time: Nanos) {
        self.entitled += cores * time.0 as f64;
    }

    /// It was given `time` of a worker.
    pub fn give(&mut self, time: Nanos) {
        self.given += time.0 as f64;
    }

    /// Entitlement minus what was given, in ns of worker time; positive = it got too little.
    pub fn ns(&self) -> i64 {
        (self.entitled - self.given) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(workers: f64, demands: &[(u64, f64)]) -> Vec<f64> {
        let demands: Vec<Demand> = demands
            .iter()
            .map(|&(weight, cores)| Demand { weight, cores })
            .collect();
        water_fill(workers, &demands)
    }

    #[test]
    fn without_bounds_it_is_the_weights_alone() {
        assert_eq!(
            fill(4.0, &[(1, 99.0), (3, 99.0), (4, 99.0)]),
            [0.5, 1.5, 2.0]
        );
    }

    #[test]
    fn what_one_cannot_take_goes_to_the_others_by_weight() {
        // Weight 10 has one task: one core. The other two share the remaining three 1:2.
        assert_eq!(fill(4.0, &[(10, 1.0), (1, 9.0), (2, 9.0)]), [1.0, 1.0, 2.0]);
    }

    #[test]
    fn with_room_for_all_everybody_gets_what_it_can_use() {
        assert_eq!(fill(8.0, &[(1, 2.0), (100, 1.5)]), [2.0, 1.5]);
        assert!(fill(8.0, &[]).is_empty());
    }

    #[test]
    fn lag_is_what_is_owed() {
        let mut lag = Lag::default();
        lag.entitle(0.5, Nanos(100));
        lag.give(Nanos(30));
        assert_eq!(lag.ns(), 20);
        lag.restart();
        assert_eq!(lag.ns(), 0);
    }
}
