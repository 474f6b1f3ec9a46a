//! How the workers' time is split at one moment.
//!
//! Pure.

/// What one group could use at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Its weight.
    pub weight: u64,
    /// How many workers it could keep busy: queued plus running tasks, or its cap in cores, the lesser.
    pub cores: f64,
    /// Workers that it has before the weights decide, as far as it could keep them busy.
    pub reserved: f64,
}

impl Demand {
    fn floor(&self) -> f64 {
        self.reserved.min(self.cores).max(0.0)
    }
}

/// Splits `workers` among the demands: cores per group, in the same order. Each gets the same part of its weight,
/// but no less than it reserves and no more than it could use. The sum is `workers` or the sum of all
/// demands, the lesser; reservations of more than all workers are cut in proportion.
pub fn water_fill(workers: f64, demands: &[Demand]) -> Vec<f64> {
    let floors: f64 = demands.iter().map(Demand::floor).sum();
    if floors >= workers && floors > 0.0 {
        let part = workers / floors;
        return demands.iter().map(|d| d.floor() * part).collect();
    }
    // The water rises. A group takes part from where its weight gives it more than its floor until it has enough.
    let mut bends: Vec<(f64, f64)> = Vec::with_capacity(2 * demands.len());
    for d in demands.iter().filter(|d| d.cores > 0.0) {
        let weight = d.weight as f64;
        bends.push((d.floor() / weight, weight));
        bends.push((d.cores / weight, -weight));
    }
    bends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut level, mut filled, mut rising) = (0.0, floors, 0.0);
    for (at, weight) in bends {
        let full = filled + rising * (at - level);
        if full >= workers {
            break;
        }
        (level, filled) = (at, full);
        rising += weight;
    }
    if rising > 0.0 {
        level += (workers - filled) / rising;
    }
    let share = |d: &Demand| (level * d.weight as f64).clamp(d.floor(), d.cores.max(d.floor()));
    demands.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(workers: f64, demands: &[(u64, f64)]) -> Vec<f64> {
        let demands: Vec<Demand> = demands
            .iter()
            .map(|&(weight, cores)| demand(weight, cores))
            .collect();
        water_fill(workers, &demands)
    }

    fn demand(weight: u64, cores: f64) -> Demand {
        Demand {
            weight,
            cores,
            reserved: 0.0,
        }
    }

    /// Demands with floors: weight, cores, reserved.
    fn reserving(workers: f64, demands: &[(u64, f64, f64)]) -> Vec<f64> {
        let demands: Vec<Demand> = demands
            .iter()
            .map(|&(weight, cores, reserved)| Demand {
                reserved,
                ..demand(weight, cores)
            })
            .collect();
        water_fill(workers, &demands)
    }

    #[test]
    fn a_reservation_is_a_floor_and_above_it_the_weights_decide() {
        // One of two workers, where the weight alone would give 0.18.
        let two = reserving(2.0, &[(1, 9.0, 1.0), (10, 9.0, 0.0)]);
        assert_eq!(two, [1.0, 1.0]);
        // The weight gives more than is reserved: the reservation changes nothing.
        let two = reserving(2.0, &[(3, 9.0, 1.0), (1, 9.0, 0.0)]);
        assert_eq!(two, [1.5, 0.5]);
        // Two that reserve; what is left is shared 3:1 by the others.
        let four = reserving(
            6.0,
            &[(1, 9.0, 2.0), (1, 9.0, 2.0), (30, 9.0, 0.0), (10, 9.0, 0.0)],
        );
        assert_eq!(four, [2.0, 2.0, 1.5, 0.5]);
    }

    #[test]
    fn what_is_reserved_and_not_used_is_lent() {
        let shares = reserving(4.0, &[(1, 1.0, 3.0), (1, 9.0, 0.0), (2, 9.0, 0.0)]);
        assert_eq!(shares, [1.0, 1.0, 2.0]);
        assert_eq!(reserving(4.0, &[(1, 0.0, 3.0), (1, 9.0, 0.0)]), [0.0, 4.0]);
    }

    #[test]
    fn a_cap_bounds_a_reservation_and_leaves_the_rest_to_others() {
        let shares = reserving(2.0, &[(100, 0.25, 1.0), (1, 9.0, 0.0)]);
        assert_eq!(shares, [0.25, 1.75]);
        assert_eq!(reserving(4.0, &[(1, 0.01, 0.0)]), [0.01]);
    }

    #[test]
    fn more_reservations_than_workers_are_cut_in_proportion() {
        let shares = reserving(3.0, &[(1, 9.0, 4.0), (1, 9.0, 2.0), (1, 9.0, 0.0)]);
        assert_eq!(shares, [2.0, 1.0, 0.0]);
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
}
