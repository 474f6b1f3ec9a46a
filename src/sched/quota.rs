//! A hard cap on a group's worker time: a bucket that fills at the cap, and that every slice is paid from.
//!
//! Pure. Invariants:
//! 1. Over any time *T* a group is given at most `cap × (T + half a period)`, and what the polls overshoot that
//!    were running when the bucket ran dry; the overshoot is owed, so that it is not there the next time.
//! 2. What is owed is forgotten beyond what the cap gives in a hundred periods: however long a poll was, the
//!    group is never shut out for longer than that.
//! 3. A bucket that ran dry stays closed until a tenth of a period's worth is in it. A group that is stopped and
//!    started for every poll would cost more than it is given.
//!
//! Slices that run are paid for when they end. Until then what they have used counts as spent, and each of them
//! counts for no less than a typical slice of the group, so that not every worker runs for the same last drop.

use crate::unit::{Cores, Nanos};

/// One of `Cores` for one nanosecond is a thousand-thousandth of a nanosecond of worker time.
const SCALE: i128 = 1_000_000;

/// The slices of a group that run: how many, and what they have used and not been charged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Workers that serve the group.
    pub slices: u32,
    /// Worker time since their slices began.
    pub used: Nanos,
}

/// A group's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    cap: Cores,
    period: Nanos,
    /// Worker time, in millionths of a nanosecond. What runs is not yet subtracted.
    balance: i128,
    at: Nanos,
    /// Moving average of what a slice costs.
    typical: Nanos,
    dry: bool,
}

impl Quota {
    /// A full bucket for `cap`, averaged over `period`.
    pub fn new(cap: Cores, period: Nanos, now: Nanos) -> Quota {
        let mut quota = Quota {
            cap,
            period,
            balance: 0,
            at: now,
            typical: Nanos::ZERO,
            dry: false,
        };
        quota.balance = quota.most();
        quota
    }

    /// The cap.
    pub fn cap(&self) -> Cores {
        self.cap
    }

    /// Changes the cap from now on. What is owed stays owed.
    pub fn set_cap(&mut self, cap: Cores, running: Running, now: Nanos) {
        self.fill(running, now);
        self.cap = cap;
        self.bound(running);
    }

    /// Pays for a slice that took `given` and is among `running` no more.
    pub fn pay(&mut self, given: Nanos, running: Running, now: Nanos) {
        self.balance -= i128::from(given.0) * SCALE;
        self.typical = Nanos(self.typical.0.saturating_mul(3).saturating_add(given.0) / 4);
        self.fill(running, now);
    }

    /// Whether a worker may serve the group.
    pub fn is_open(&mut self, running: Running, now: Nanos) -> bool {
        self.fill(running, now);
        let needed = if self.dry { self.enough() } else { 1 };
        self.dry = self.left(running) < needed;
        !self.dry
    }

    /// When a bucket that ran dry opens, if nothing more is spent.
    pub fn opens_at(&self, running: Running, now: Nanos) -> Nanos {
        let missing = (self.enough() - self.left(running)).max(0);
        let wait = missing / i128::from(self.cap.millionths()) + 1;
        now.plus(Nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// How long a slice may be that begins now, in worker time: what is left, and at least a nanosecond.
    pub fn longest_slice(&self, running: Running) -> Nanos {
        let left = (self.left(running) / SCALE).max(1);
        Nanos(u64::try_from(left).unwrap_or(u64::MAX))
    }

    fn fill(&mut self, running: Running, now: Nanos) {
        let time = now.since(self.at);
        self.at = self.at.max(now);
        self.balance += i128::from(time.0) * i128::from(self.cap.millionths());
        self.bound(running);
    }

    fn bound(&mut self, running: Running) {
        let used = i128::from(running.used.0) * SCALE;
        let owed_at_most = self.per_period() * 100;
        let spendable = self.balance - used;
        self.balance = spendable.clamp(-owed_at_most, self.most()) + used;
    }

    /// What may be spent, running slices set aside.
    fn left(&self, running: Running) -> i128 {
        let typical = u128::from(self.typical.0) * u128::from(running.slices);
        let aside = typical.max(u128::from(running.used.0));
        self.balance - i128::try_from(aside).unwrap_or(i128::MAX / SCALE) * SCALE
    }

    fn per_period(&self) -> i128 {
        i128::from(self.period.0) * i128::from(self.cap.millionths())
    }

    fn most(&self) -> i128 {
        self.per_period() / 2
    }

    fn enough(&self) -> i128 {
        self.per_period() / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IDLE: Running = Running {
        slices: 0,
        used: Nanos::ZERO,
    };

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn quota(cap: f64) -> Quota {
        Quota::new(Cores::from_f64(cap), ms(100), ms(0))
    }

    #[test]
    fn half_a_period_may_be_spent_at_once_and_a_tenth_opens_it_again() {
        let mut q = quota(0.5);
        assert!(q.is_open(IDLE, ms(0)));
        assert_eq!(q.longest_slice(IDLE), ms(25));
        q.pay(ms(25), IDLE, ms(0));
        assert!(!q.is_open(IDLE, ms(0)));
        assert_eq!(q.opens_at(IDLE, ms(0)), ms(10).plus(Nanos(1)));
        assert!(!q.is_open(IDLE, Nanos(ms(10).0 - 1)));
        assert!(q.is_open(IDLE, ms(10)));
        assert_eq!(q.longest_slice(IDLE), ms(5));
    }

    #[test]
    fn a_long_poll_is_owed_in_full_and_an_absurd_one_for_ten_seconds() {
        // 0.5 ms are there, and 0.1 ms opens it again: 99.6 ms at a hundredth of a core; or the most that is owed.
        for (poll, wait) in [(ms(100), 9_960), (Nanos::MAX, 10_010)] {
            let mut q = quota(0.01);
            q.pay(poll, IDLE, ms(0));
            assert!(!q.is_open(IDLE, ms(0)));
            assert_eq!(q.opens_at(IDLE, ms(0)), ms(wait).plus(Nanos(1)), "{poll}");
            assert!(!q.is_open(IDLE, ms(wait - 1)));
            assert!(q.is_open(IDLE, ms(wait)));
        }
    }

    #[test]
    fn a_poll_that_runs_takes_what_comes_in_meanwhile() {
        let mut q = quota(0.5);
        let running = |used| Running {
            slices: 1,
            used: ms(used),
        };
        // Looked at in the middle of a poll of a second: nothing of the 500 ms may spill over the brim.
        for t in 1..=1_000 {
            q.is_open(running(t), ms(t));
        }
        q.pay(ms(1_000), IDLE, ms(1_000));
        // 25 + 500 - 1000 = -475; 5 are needed.
        let opens = q.opens_at(IDLE, ms(1_000));
        assert_eq!(opens, ms(1_960).plus(Nanos(1)));
    }

    #[test]
    fn a_new_cap_counts_from_now_on_and_what_is_owed_stays() {
        let mut q = quota(0.01);
        q.pay(ms(50), IDLE, ms(0));
        q.set_cap(Cores::from_f64(2.0), IDLE, ms(0));
        assert!(!q.is_open(IDLE, ms(0)));
        // 49.5 ms owed and 20 needed, at 2 ms per ms.
        assert_eq!(q.opens_at(IDLE, ms(0)), Nanos(34_750_000 + 1));
        q.is_open(IDLE, ms(1_000));
        q.set_cap(Cores::from_f64(0.1), IDLE, ms(1_000));
        assert_eq!(q.longest_slice(IDLE), ms(5), "the smaller bucket is full");
    }

    #[test]
    fn workers_do_not_run_for_the_same_last_drop() {
        let mut q = quota(0.5);
        for _ in 0..20 {
            q.pay(ms(1), IDLE, ms(0));
        }
        let running = |slices| Running {
            slices,
            used: Nanos::ZERO,
        };
        // 5 ms are left, for slices of almost 1 ms.
        assert!(q.is_open(running(5), ms(0)));
        assert!(!q.is_open(running(6), ms(0)));
    }

    proptest! {
        #[test]
        fn no_window_gives_more_than_the_cap_and_half_a_period(
            cap in 1u64..4_000_000,
            polls in proptest::collection::vec((1u64..3_000_000, 0u64..20_000_000), 1..300),
        ) {
            let cap = Cores::from_millionths(cap);
            let mut q = Quota::new(cap, ms(100), ms(0));
            let (mut now, mut spent) = (0u64, Vec::new());
            for (poll, pause) in polls {
                now += pause;
                if q.is_open(IDLE, Nanos(now)) {
                    now += poll;
                    q.pay(Nanos(poll), IDLE, Nanos(now));
                    spent.push((now - poll, now, poll));
                }
            }
            for (i, &(from, ..)) in spent.iter().enumerate() {
                let mut given = 0;
                for &(_, to, poll) in &spent[i..] {
                    // Before the last poll there was something left: it alone overshoots.
                    let room = (to - poll - from + 50_000_000) as f64 * cap.as_f64();
                    prop_assert!(given as f64 <= room + 1.0, "{given} > {room}");
                    given += poll;
                }
            }
        }
    }
}
