//! What each group should have: the water-filling share, integrated over time.
//!
//! Pure. The workers' time is filled like water into the groups that have work, in proportion to their
//! weights; a group that cannot take its part (it has fewer tasks than that, or a cap) takes what it can,
//! and the rest is filled again. The difference to what a group was given is its *lag*: live fairness error.

use super::fair::Slot;
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

/// One group's account of entitlement against what it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    entitled: f64,
    given: f64,
    /// The same two at the beginning of the running window.
    window: (f64, f64),
    last: Fairness,
    working: bool,
}

/// How fairly a group is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fairness {
    /// Entitlement minus what was given, in ns of worker time, since the group last began to have work;
    /// positive = it got too little; 0 while it has none.
    pub lag_ns: i64,
    /// Share of all workers' time that it was given in the last full window, 0 … 1.
    pub share: f64,
    /// Share that it was entitled to in the last full window, 0 … 1.
    pub entitled: f64,
}

/// The accounts of all groups, by slot; entitlement is integrated from sample to sample.
#[derive(Debug)]
pub struct Ledger {
    workers: f64,
    window: Nanos,
    rows: Vec<Row>,
    sampled: Nanos,
    window_began: Nanos,
}

impl Ledger {
    /// For `workers` workers, with shares over windows of `window`.
    pub fn new(workers: usize, window: Nanos) -> Ledger {
        Ledger {
            workers: workers as f64,
            window,
            rows: Vec::new(),
            sampled: Nanos::ZERO,
            window_began: Nanos::ZERO,
        }
    }

    /// A slot is used by a new group.
    pub fn open(&mut self, slot: Slot) {
        self.row(slot);
        self.rows[slot.0 as usize] = Row::default();
    }

    /// A group was given `time` of a worker.
    pub fn give(&mut self, slot: Slot, time: Nanos) {
        self.row(slot).given += time.0 as f64;
    }

    /// How long ago the last sample was.
    pub fn age(&self, now: Nanos) -> Nanos {
        now.since(self.sampled)
    }

    /// Integrates what the groups could use from the last sample until now. Groups that are not listed have
    /// no work: their differences are settled.
    pub fn sample(&mut self, now: Nanos, demands: &[(Slot, Demand)]) {
        let time = self.age(now).0 as f64;
        self.sampled = now;
        let listed: Vec<Demand> = demands.iter().map(|&(_, demand)| demand).collect();
        let cores = water_fill(self.workers, &listed);
        let before: Vec<usize> = (0..self.rows.len())
            .filter(|&i| self.rows[i].working)
            .collect();
        before.iter().for_each(|&i| self.rows[i].working = false);
        for (&(slot, _), cores) in demands.iter().zip(cores) {
            let begins = !before.contains(&(slot.0 as usize));
            let row = self.row(slot);
            row.working = true;
            if begins {
                // It began somewhere in between; half of the time is the fair guess.
                row.settle();
                row.entitled += cores * time / 2.0;
            } else {
                row.entitled += cores * time;
            }
        }
        for i in before {
            if !self.rows[i].working {
                self.rows[i].settle();
            }
        }
        if now.since(self.window_began) >= self.window {
            self.turn(now);
        }
    }

    /// Nobody had work since the last sample: the time until now entitles nobody.
    pub fn skip(&mut self, now: Nanos) {
        self.sample(self.sampled, &[]);
        self.sampled = now;
        if now.since(self.window_began) >= self.window {
            self.turn(now);
        }
    }

    /// What is known of a group. Shares of a window that ended long ago are zero.
    pub fn fairness(&self, slot: Slot, now: Nanos) -> Fairness {
        let Some(row) = self.rows.get(slot.0 as usize) else {
            return Fairness::default();
        };
        let lag_ns = if row.working {
            (row.entitled - row.given) as i64
        } else {
            0
        };
        if now.since(self.window_began).0 > 2 * self.window.0 {
            return Fairness {
                lag_ns,
                ..Fairness::default()
            };
        }
        Fairness { lag_ns, ..row.last }
    }

    fn row(&mut self, slot: Slot) -> &mut Row {
        let index = slot.0 as usize;
        if index >= self.rows.len() {
            self.rows.resize(index + 1, Row::default());
        }
        &mut self.rows[index]
    }

    fn turn(&mut self, now: Nanos) {
        let capacity = now.since(self.window_began).0 as f64 * self.workers;
        self.window_began = now;
        for row in &mut self.rows {
            let (entitled, given) = row.window;
            row.last.share = (row.given - given) / capacity;
            row.last.entitled = (row.entitled - entitled) / capacity;
            row.window = (row.entitled, row.given);
        }
    }
}

impl Row {
    /// Forgets the difference, and only it: the window goes on.
    fn settle(&mut self) {
        let difference = self.entitled - self.given;
        self.entitled -= difference;
        self.window.0 -= difference;
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

    const MS: u64 = 1_000_000;

    fn two(cores: f64) -> [(Slot, Demand); 2] {
        [
            (Slot(0), Demand { weight: 3, cores }),
            (Slot(1), Demand { weight: 1, cores }),
        ]
    }

    #[test]
    fn lag_is_what_is_owed() {
        let mut ledger = Ledger::new(2, Nanos(1000 * MS));
        ledger.sample(Nanos(0), &two(9.0));
        ledger.give(Slot(0), Nanos(100 * MS));
        ledger.give(Slot(1), Nanos(100 * MS));
        ledger.sample(Nanos(100 * MS), &two(9.0));
        let now = Nanos(100 * MS);
        assert_eq!(ledger.fairness(Slot(0), now).lag_ns, 50 * MS as i64);
        assert_eq!(ledger.fairness(Slot(1), now).lag_ns, -50 * MS as i64);
        ledger.sample(Nanos(100 * MS), &two(9.0)[..1]);
        assert_eq!(ledger.fairness(Slot(1), now).lag_ns, 0, "it has no work");
    }

    #[test]
    fn shares_are_those_of_the_last_full_window() {
        let mut ledger = Ledger::new(2, Nanos(1000 * MS));
        ledger.sample(Nanos(0), &two(9.0));
        for second in 1..=2 {
            ledger.give(Slot(0), Nanos(1200 * MS));
            ledger.sample(Nanos(second * 1000 * MS), &two(9.0));
        }
        let fairness = ledger.fairness(Slot(0), Nanos(2500 * MS));
        assert!(
            (fairness.share - 0.6).abs() < 1e-9 && (fairness.entitled - 0.75).abs() < 1e-9,
            "{fairness:?}"
        );
        assert_eq!(
            ledger.fairness(Slot(0), Nanos(9000 * MS)).share,
            0.0,
            "long ago"
        );
    }

    #[test]
    fn time_in_which_nobody_had_work_entitles_nobody() {
        let mut ledger = Ledger::new(2, Nanos(1000 * MS));
        ledger.sample(Nanos(0), &two(9.0));
        ledger.skip(Nanos(5000 * MS));
        ledger.sample(Nanos(5000 * MS), &two(9.0));
        ledger.sample(Nanos(5001 * MS), &two(9.0));
        assert_eq!(
            ledger.fairness(Slot(1), Nanos(5001 * MS)).lag_ns,
            MS as i64 / 2
        );
    }
}
