//! A hard cap in bytes per second: a bucket that fills at the rate, and that every operation is paid from.
//!
//! Pure. Invariants:
//! 1. An operation begins when the bucket is not empty, and is paid for in full: the bucket may then owe something,
//!    and the next operation waits until that has come in. One operation is never larger than [`Bucket::most`], so no
//!    more than that is ever owed.
//! 2. What comes in unused is kept for 20 ms; while somebody waits, and for 100 ms afterwards, for 100 ms. So over any
//!    time *T* from the first operation on no more passes than `rate × (T + 20 ms)` and one operation, over any other
//!    one no more than `rate × (T + 100 ms)` and one operation; and whoever always has something to pass gets the rate
//!    exactly, however late it is called, as long as that is no later than 100 ms.
//! 3. Nothing is lost to rounding: what is in the bucket is kept in billionths of a byte.
//! 4. What was [lent](Bucket::lend) is out of the bucket, and so is the room for it: bucket and loans together never
//!    hold more than the bucket alone would.

use crate::unit::Nanos;

/// A byte per second for one nanosecond is a billionth of a byte.
const SCALE: i128 = 1_000_000_000;

/// What may come in unused, and be spent at once. Small enough that two seconds' worth is within 3 %, with an operation.
const BURST: Nanos = Nanos::from_millis(20);

/// As much may come in while those who wait are not called: timers are late by up to a millisecond, and by tens of them
/// on a busy machine. It is theirs.
const LATE: Nanos = Nanos::from_millis(100);

/// The largest operation, however high the rate.
pub const MOST: u64 = 1 << 20;

/// A bucket that fills at so many bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: u64,
    balance: i128,
    /// Bytes that are lent.
    lent: u64,
    at: Nanos,
    /// When somebody waited last.
    waited: Option<Nanos>,
}

impl Bucket {
    /// A full bucket. No rate is less than one byte per second.
    pub fn new(rate: u64, now: Nanos) -> Bucket {
        let mut bucket = Bucket {
            rate: rate.max(1),
            balance: 0,
            lent: 0,
            at: now,
            waited: None,
        };
        bucket.balance = bucket.brim(now);
        bucket
    }

    /// Bytes per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Changes the rate from now on. What has come in counts at the old rate; of what is owed no more stays than an
    /// operation of the new rate could owe, so that a rate that was lowered a thousandfold shuts nobody out for long.
    pub fn set_rate(&mut self, rate: u64, now: Nanos) {
        self.fill(now);
        self.rate = rate.max(1);
        let owed = i128::from(self.most()) * SCALE;
        self.balance = self.balance.clamp(-owed, self.brim(now));
    }

    /// Somebody waits.
    pub fn wait(&mut self, now: Nanos) {
        self.waited = Some(now);
    }

    /// The largest operation: what comes in within 20 ms, at least a byte and at most [`MOST`].
    pub fn most(&self) -> u64 {
        (self.rate / 50).clamp(1, MOST)
    }

    /// Whether an operation may begin.
    pub fn is_open(&mut self, now: Nanos) -> bool {
        self.fill(now);
        self.balance > 0
    }

    /// When that will be, if nothing more is taken.
    pub fn opens_at(&self, now: Nanos) -> Nanos {
        let rate = i128::from(self.rate);
        let come = rate.saturating_mul(i128::from(now.since(self.at).0));
        let known = self.balance.saturating_add(come);
        if known > 0 {
            return now;
        }
        let wait = -known / rate + 1;
        now.plus(Nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// Pays for an operation.
    pub fn take(&mut self, bytes: u64) {
        self.balance -= i128::from(bytes) * SCALE;
    }

    /// Takes back what an operation did not need.
    pub fn give_back(&mut self, bytes: u64) {
        self.balance += i128::from(bytes) * SCALE;
        self.balance = self.balance.min(self.brim(self.at));
    }

    /// Takes out bytes for operations that do not ask one by one: what comes in within a millisecond, at most [`MOST`],
    /// of what is there, and half of a full bucket in all loans. Nothing, if that is not enough for two of `want`.
    pub fn lend(&mut self, want: u64, now: Nanos) -> u64 {
        self.fill(now);
        let there = u64::try_from(self.balance / SCALE).unwrap_or(0);
        let left = (self.rate / 100).saturating_sub(self.lent);
        let bytes = (self.rate / 1_000).min(MOST).min(there).min(left);
        if bytes / 2 < want.max(1) {
            return 0;
        }
        self.take(bytes);
        self.lent += bytes;
        bytes
    }

    /// A loan is over: so much of it was not spent. What came in meanwhile finds the room that was there without it.
    pub fn repay(&mut self, lent: u64, unspent: u64, now: Nanos) {
        self.fill(now);
        self.lent = self.lent.saturating_sub(lent);
        self.give_back(unspent);
    }

    fn fill(&mut self, now: Nanos) {
        let time = now.since(self.at);
        self.at = self.at.max(now);
        let come = i128::from(time.0).saturating_mul(i128::from(self.rate));
        self.balance = self.balance.saturating_add(come).min(self.brim(self.at));
    }

    /// What the bucket holds when it is full: at least a byte with what is lent.
    fn brim(&self, now: Nanos) -> i128 {
        let waits = |waited| now.since(waited) <= LATE;
        let time = if self.waited.is_some_and(waits) {
            LATE
        } else {
            BURST
        };
        let whole = (i128::from(self.rate) * i128::from(time.0)).max(SCALE);
        whole - i128::from(self.lent) * SCALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn what_is_owed_is_waited_for_to_the_nanosecond() {
        let mut bucket = Bucket::new(1_000_000, ms(0));
        // 20 000 bytes are there; three operations of 20 000 take them and owe nothing, 20 000, and so on.
        bucket.take(20_000);
        assert!(!bucket.is_open(ms(0)));
        assert_eq!(bucket.opens_at(ms(0)), Nanos(1));
        assert!(bucket.is_open(Nanos(1)));
        bucket.take(20_000);
        // A thousandth of a byte was there, and 20 000 are owed less that.
        assert_eq!(bucket.opens_at(Nanos(1)), ms(20).plus(Nanos(1)));
        assert!(!bucket.is_open(ms(20)));
        assert!(bucket.is_open(ms(20).plus(Nanos(1))));
    }

    #[test]
    fn an_unused_bucket_holds_20_ms_and_no_more() {
        let mut bucket = Bucket::new(1_000_000, ms(0));
        assert!(bucket.is_open(Nanos::from_secs(3_600)));
        bucket.take(20_000);
        assert!(!bucket.is_open(Nanos::from_secs(3_600)));
        bucket.give_back(1 << 40);
        bucket.take(20_000);
        assert!(!bucket.is_open(Nanos::from_secs(3_600)));
    }

    #[test]
    fn a_loan_is_a_millisecond_of_what_is_there_and_its_room_is_not_filled_meanwhile() {
        let mut bucket = Bucket::new(1_000_000, ms(0));
        assert_eq!(bucket.lend(501, ms(0)), 0, "not worth it");
        assert_eq!(bucket.lend(500, ms(0)), 1_000);
        // The bucket is as full as it may be: what comes in is lost, as it would have been.
        assert!(bucket.is_open(ms(50)));
        bucket.take(19_000);
        assert!(!bucket.is_open(ms(50)));
        // Of the loan 400 bytes were spent.
        bucket.repay(1_000, 600, ms(50));
        bucket.take(600);
        assert!(!bucket.is_open(ms(50)));
        // No more than half of a full bucket is out at once, and nothing that is not there.
        assert!(bucket.is_open(Nanos::from_secs(1)));
        let loans = (0..20).map(|_| bucket.lend(1, Nanos::from_secs(1)));
        assert_eq!(loans.sum::<u64>(), 10_000);
        bucket.repay(10_000, 10_000, Nanos::from_secs(1));
        bucket.take(19_900);
        assert_eq!(bucket.lend(1, Nanos::from_secs(1)), 100);
    }

    #[test]
    fn a_new_rate_counts_from_now_on_and_forgives_what_it_could_not_owe() {
        let mut bucket = Bucket::new(100_000_000, ms(0));
        bucket.take(2_000_000);
        bucket.take(1_000_000);
        assert_eq!(bucket.opens_at(ms(0)), ms(10).plus(Nanos(1)));
        // Half of it has come in when the rate falls to a thousandth: of 500 000 bytes, 2 000 stay owed.
        bucket.set_rate(100_000, ms(5));
        assert_eq!(bucket.opens_at(ms(5)), ms(25).plus(Nanos(1)));
        // And a higher one pays the rest off sooner.
        bucket.set_rate(200_000, ms(15));
        assert_eq!(bucket.opens_at(ms(15)), ms(20).plus(Nanos(1)));
    }

    #[test]
    fn the_least_and_the_greatest_rate_work() {
        let mut slow = Bucket::new(0, ms(0));
        assert_eq!((slow.rate(), slow.most()), (1, 1));
        assert!(slow.is_open(ms(0)));
        slow.take(1);
        slow.is_open(ms(0));
        slow.take(1);
        assert_eq!(slow.opens_at(ms(0)), Nanos::from_secs(1).plus(Nanos(1)));
        let mut fast = Bucket::new(u64::MAX, ms(0));
        assert_eq!(fast.most(), MOST);
        assert_eq!(fast.opens_at(Nanos::MAX), Nanos::MAX);
        fast.take(u64::MAX);
        assert!(fast.is_open(Nanos::MAX));
    }

    proptest! {
        /// One that always has something to pass: exact to the byte over any time, however late it comes.
        #[test]
        fn the_rate_comes_out_exactly(
            rate in 1_000u64..10_000_000_000,
            late in proptest::collection::vec(0u64..75_000_000, 50..300),
        ) {
            let (mut bucket, mut now) = (Bucket::new(rate, ms(0)), ms(0));
            bucket.take(u64::try_from(bucket.brim(now) / SCALE).unwrap());
            let mut passed = 0u64;
            for late in late {
                bucket.wait(now);
                now = bucket.opens_at(now).plus(Nanos(late));
                while bucket.is_open(now) {
                    bucket.take(bucket.most());
                    passed += bucket.most();
                }
            }
            let due = i128::from(rate) * i128::from(now.0) / SCALE;
            let ahead = i128::from(passed) - due;
            prop_assert!((-1..=i128::from(bucket.most())).contains(&ahead), "{ahead}");
        }

        /// However the loans come and go, and whatever is spent of them when: never more than without them.
        #[test]
        fn no_window_passes_more_with_loans(
            rate in 1_000u64..1_000_000_000,
            steps in proptest::collection::vec((0u64..30_000_000, 0u64..=100, proptest::bool::ANY), 1..60),
        ) {
            let mut bucket = Bucket::new(rate, ms(0));
            let (mut now, mut passed) = (Nanos::ZERO, Vec::new());
            // What was lent, and what is left of it.
            let mut loans: Vec<(u64, u64)> = Vec::new();
            for (pause, percent, repay) in steps {
                now = now.plus(Nanos(pause));
                for loan in &mut loans {
                    let spent = loan.1 * percent / 100;
                    loan.1 -= spent;
                    passed.push((now, spent));
                }
                if repay {
                    for (lent, left) in loans.drain(..) {
                        bucket.repay(lent, left, now);
                    }
                    prop_assert!(bucket.lent == 0 && bucket.balance <= bucket.brim(now));
                }
                let lent = bucket.lend(1, now);
                if lent > 0 {
                    loans.push((lent, lent));
                }
                let most = bucket.most() * percent / 100;
                if most > 0 && bucket.is_open(now) {
                    bucket.take(most);
                    passed.push((now, most));
                }
            }
            for (i, &(from, _)) in passed.iter().enumerate() {
                let mut sum = 0;
                for &(to, bytes) in &passed[i..] {
                    sum += i128::from(bytes) * SCALE;
                    let room = i128::from(rate) * i128::from(to.since(from).0 + BURST.0);
                    prop_assert!(sum <= room + i128::from(bucket.most()) * SCALE);
                }
            }
        }

        #[test]
        fn no_window_passes_more_than_its_rate_and_a_burst_and_an_operation(
            rate in 1u64..1_000_000_000,
            pauses in proptest::collection::vec((0u64..150_000_000, proptest::bool::ANY), 1..50),
        ) {
            let mut bucket = Bucket::new(rate, ms(0));
            let (mut now, mut passed) = (0u64, Vec::new());
            for (pause, waits) in pauses {
                if waits {
                    bucket.wait(Nanos(now));
                }
                now += pause;
                while bucket.is_open(Nanos(now)) {
                    bucket.take(bucket.most());
                    passed.push((now, bucket.most()));
                }
            }
            for (i, &(from, _)) in passed.iter().enumerate() {
                let mut sum = 0;
                for &(to, bytes) in &passed[i..] {
                    sum += i128::from(bytes) * SCALE;
                    let room = i128::from(rate) * i128::from(to - from + LATE.0).max(SCALE);
                    prop_assert!(sum <= room + i128::from(bucket.most()) * SCALE);
                }
            }
        }
    }
}
