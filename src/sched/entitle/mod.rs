//! What each group should have: the water-filling share, integrated over time.
//!
//! Pure. The workers' time is filled like water into the groups that have work, in proportion to their
//! weights; a group that cannot take its part (it has fewer tasks than that, or a cap) takes what it can,
//! and the rest is filled again. The difference to what a group was given is its *lag*: live fairness error.

mod fill;

pub use fill::{Demand, water_fill};

use super::fair::Slot;
use crate::unit::Nanos;

/// One group's account of entitlement against what it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    entitled: f64,
    given: f64,
    /// What it had been given at the last sample.
    sampled: f64,
    /// The first two at the beginning of the running window.
    window: (f64, f64),
    last: Fairness,
    working: bool,
    had_work: bool,
}

/// How fairly a group is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fairness {
    /// Entitlement minus what was given, in ns of worker time, over about the last ten seconds in which the
    /// group had work; positive = it got too little; 0 while it has none.
    pub lag_ns: i64,
    /// Share of all workers' time that it was given in the last full window, 0 … 1.
    pub share: f64,
    /// Share that it was entitled to in the last full window, 0 … 1.
    pub entitled: f64,
}

/// How fast differences are forgotten. Bursty neighbours make entitlement that nobody could be given, so that
/// without forgetting a lag would only grow and say nothing.
const MEMORY: Nanos = Nanos::from_secs(10);

/// The accounts of all groups, by slot; entitlement is integrated from sample to sample.
///
/// What is split is the time that workers really gave. What they spend outside of groups, or what the
/// operating system gives to other programs, is nobody's lag.
#[derive(Debug)]
pub struct Ledger {
    workers: f64,
    window: Nanos,
    rows: Vec<Row>,
    /// How many groups had work at the last sample.
    listed: usize,
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
            listed: 0,
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

    /// Splits the time that was given since the last sample to the groups that have work and had it then, as it should
    /// have been. Groups that are not listed have none: their differences are settled.
    pub fn sample(&mut self, now: Nanos, demands: &[(Slot, Demand)]) {
        let keep = (-(self.age(now).as_secs_f64()) / MEMORY.as_secs_f64()).exp();
        self.sampled = now;
        self.listed = demands.len();
        let listed: Vec<Demand> = demands.iter().map(|&(_, demand)| demand).collect();
        let cores = water_fill(self.workers, &listed);
        for row in &mut self.rows {
            row.had_work = std::mem::take(&mut row.working);
        }
        // What those were given who had work all the time.
        let (mut given, mut theirs) = (0.0, 0.0);
        for (&(slot, _), cores) in demands.iter().zip(&cores) {
            let row = self.row(slot);
            if row.had_work {
                given += row.given - row.sampled;
                theirs += cores;
            }
        }
        let given = if theirs > 0.0 { given / theirs } else { 0.0 };
        for (&(slot, _), cores) in demands.iter().zip(cores) {
            let row = self.row(slot);
            row.working = true;
            if row.had_work {
                row.entitled += cores * given;
                row.settle(keep);
            } else {
                // It began somewhere in between.
                row.deserve();
            }
        }
        for row in &mut self.rows {
            if !row.working {
                row.deserve();
                row.settle(0.0);
            }
            row.sampled = row.given;
        }
        if now.since(self.window_began) >= self.window {
            self.turn(now);
        }
    }

    /// Nobody had work since the last sample, but for an instant: the time until now entitles nobody to more than it got.
    pub fn skip(&mut self, now: Nanos) {
        if self.listed > 0 {
            self.sample(self.sampled, &[]);
        }
        // Where nobody was listed, nobody's lag changes by it.
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
            if !row.working {
                // Whatever it did, no sample has seen it.
                row.deserve();
            }
            let (entitled, given) = row.window;
            row.last.share = (row.given - given) / capacity;
            row.last.entitled = (row.entitled - entitled) / capacity;
            row.window = (row.entitled, row.given);
        }
    }
}

impl Row {
    /// Work that began or ended since the last sample, or did both, is in no split: what it was given is taken for fair.
    fn deserve(&mut self) {
        self.entitled += self.given - self.sampled;
        self.sampled = self.given;
    }

    /// Keeps only a part of the difference, in the current window too.
    fn settle(&mut self, keep: f64) {
        let forgotten = (self.entitled - self.given) * (1.0 - keep);
        self.entitled -= forgotten;
        self.window.0 -= forgotten;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(weight: u64, cores: f64) -> Demand {
        Demand {
            weight,
            cores,
            reserved: 0.0,
        }
    }

    const MS: u64 = 1_000_000;

    fn two(cores: f64) -> [(Slot, Demand); 2] {
        [(Slot(0), demand(3, cores)), (Slot(1), demand(1, cores))]
    }

    #[test]
    fn lag_is_what_is_owed_of_what_was_given() {
        let mut ledger = Ledger::new(2, Nanos(1000 * MS));
        ledger.sample(Nanos(0), &two(9.0));
        ledger.give(Slot(0), Nanos(100 * MS));
        ledger.give(Slot(1), Nanos(100 * MS));
        // At the same instant, so that nothing is forgotten. Of 200 ms, 150 and 50 were due.
        ledger.sample(Nanos(0), &two(9.0));
        assert_eq!(ledger.fairness(Slot(0), Nanos(0)).lag_ns, 50 * MS as i64);
        assert_eq!(ledger.fairness(Slot(1), Nanos(0)).lag_ns, -50 * MS as i64);
        ledger.sample(Nanos(0), &two(9.0)[..1]);
        assert_eq!(
            ledger.fairness(Slot(1), Nanos(0)).lag_ns,
            0,
            "it has no work"
        );
    }

    #[test]
    fn lag_fades() {
        let mut ledger = Ledger::new(2, Nanos(1000 * MS));
        ledger.sample(Nanos(0), &two(9.0));
        ledger.give(Slot(1), Nanos(100 * MS));
        ledger.sample(Nanos(0), &two(9.0));
        ledger.sample(Nanos(10_000 * MS), &two(9.0));
        let lag = ledger.fairness(Slot(0), Nanos(10_000 * MS)).lag_ns as f64 / 1e6;
        assert!((lag - 75.0 / std::f64::consts::E).abs() < 1e-3, "{lag}");
    }

    #[test]
    fn shares_are_those_of_the_last_full_window() {
        let mut ledger = Ledger::new(2, Nanos(1000 * MS));
        ledger.sample(Nanos(0), &two(9.0));
        for second in 1..=2 {
            ledger.give(Slot(0), Nanos(1200 * MS));
            ledger.give(Slot(1), Nanos(800 * MS));
            ledger.sample(Nanos(second * 1000 * MS), &two(9.0));
        }
        let fairness = ledger.fairness(Slot(0), Nanos(2500 * MS));
        assert!((fairness.share - 0.6).abs() < 1e-9, "{fairness:?}");
        // A little is forgotten within the window.
        assert!((fairness.entitled - 0.75).abs() < 0.03, "{fairness:?}");
        let late = Nanos(9000 * MS);
        assert_eq!(ledger.fairness(Slot(0), late).share, 0.0, "long ago");
    }

    #[test]
    fn time_in_which_nobody_had_work_entitles_nobody() {
        let mut ledger = Ledger::new(2, Nanos(1000 * MS));
        ledger.sample(Nanos(0), &two(9.0));
        ledger.skip(Nanos(5000 * MS));
        ledger.sample(Nanos(5000 * MS), &two(9.0));
        ledger.give(Slot(1), Nanos(4));
        ledger.sample(Nanos(5000 * MS), &two(9.0));
        assert_eq!(ledger.fairness(Slot(0), Nanos(5000 * MS)).lag_ns, 3);
    }

    #[test]
    fn who_can_use_no_core_is_entitled_to_none() {
        let mut ledger = Ledger::new(2, Nanos(1000 * MS));
        for second in 0..=2 {
            ledger.sample(Nanos(second * 1000 * MS), &two(0.0));
            ledger.give(Slot(0), Nanos(MS));
        }
        assert_eq!(ledger.fairness(Slot(0), Nanos(2000 * MS)).entitled, 0.0);
    }

    #[test]
    fn what_is_given_where_nobody_competes_counts_as_entitled() {
        let mut ledger = Ledger::new(1, Nanos(1000 * MS));
        for millis in 0..=2000 {
            // It comes and goes between two samples, each time.
            ledger.skip(Nanos(millis * MS));
            ledger.give(Slot(0), Nanos(150_000));
        }
        let fairness = ledger.fairness(Slot(0), Nanos(2000 * MS));
        assert_eq!(fairness.share, 0.15);
        assert_eq!(fairness.entitled, 0.15);
        assert_eq!(fairness.lag_ns, 0);
    }

    #[test]
    fn what_is_given_between_samples_counts_as_entitled_beside_another_group_too() {
        let mut ledger = Ledger::new(2, Nanos(1000 * MS));
        let one = &two(1.0)[..1];
        ledger.sample(Nanos(0), &two(1.0));
        for second in 1..=2 {
            ledger.give(Slot(0), Nanos(1000 * MS));
            // First it ends in between, then it begins and ends.
            ledger.give(Slot(1), Nanos(second * 200 * MS));
            ledger.sample(Nanos(second * 1000 * MS), one);
            let fairness = ledger.fairness(Slot(1), Nanos(second * 1000 * MS));
            assert_eq!(fairness.share, second as f64 / 10.0);
            assert_eq!(fairness.entitled, fairness.share);
            // Nobody is entitled to that time as well.
            let beside = ledger.fairness(Slot(0), Nanos(second * 1000 * MS));
            assert_eq!((beside.share, beside.entitled), (0.5, 0.5));
            assert_eq!(beside.lag_ns, 0);
        }
    }
}
