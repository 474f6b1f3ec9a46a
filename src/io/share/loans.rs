//! Loans: what a lane may pass without asking, while nobody waits.
//!
//! Pure.

use super::Shares;
use crate::sched::fair::Slot;
use crate::unit::Nanos;

impl Shares {
    /// After a request for `want` bytes has passed: how many more the lane may pass without asking, until it is told to
    /// [settle](Shares::repay). Mostly none.
    pub fn lend(&mut self, slot: Slot, want: u64, now: Nanos) -> u64 {
        let Some(bucket) = self.bucket.as_mut().filter(|_| self.waiting == 0) else {
            return 0;
        };
        let bytes = bucket.lend(want, now);
        if bytes > 0 {
            self.charge(slot, bytes);
            self.grant(slot, bytes, now);
            self.lanes[slot.0 as usize].lent += bytes;
        }
        bytes
    }

    /// What was lent to the lane is over; so much of it has not passed.
    pub fn repay(&mut self, slot: Slot, unspent: u64, now: Nanos) {
        let lane = &mut self.lanes[slot.0 as usize];
        let lent = std::mem::take(&mut lane.lent);
        if unspent < lent {
            lane.granted_at = Some(now);
        }
        lane.passed = lane.passed.saturating_sub(unspent);
        if let Some(bucket) = &mut self.bucket {
            bucket.repay(lent, unspent, now);
            lane.prepaid = lane.prepaid.saturating_add(unspent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Weight;

    const MB: u64 = 1_000_000;

    #[test]
    fn a_loan_is_charged_and_what_did_not_pass_makes_the_next_bytes_free() {
        let now = Nanos::ZERO;
        let mut shares = Shares::new(Some(MB), now);
        let [a, b] = [1, 1].map(|weight| shares.add(Weight::new(weight), false));
        assert_eq!(shares.pass(a, 100, now), Some(100));
        assert_eq!(shares.lend(a, 100, now), 1_000);
        assert_eq!((shares.passed(a), shares.lanes[0].prepaid), (1_100, 0));
        // 700 of it pass without a word.
        shares.repay(a, 300, now);
        assert_eq!((shares.passed(a), shares.lanes[0].prepaid), (800, 300));
        // The bucket has what it would have without loans: 20 000 bytes less 800.
        assert_eq!(shares.pass(b, 19_200, now), Some(19_200));
        assert_eq!(shares.pass(b, 1, now), None);
    }

    #[test]
    fn nobody_is_lent_anything_while_somebody_waits_or_of_what_is_not_there() {
        let now = Nanos::ZERO;
        let mut shares = Shares::new(Some(MB), now);
        let [a, b] = [1, 1].map(|weight| shares.add(Weight::new(weight), false));
        assert_eq!(shares.pass(a, 20_000, now), Some(20_000));
        assert_eq!(shares.lend(a, 1, now), 0, "nothing is there");
        let ticket = shares.queue(b, 100, now);
        let later = Nanos::from_millis(5);
        assert_eq!(shares.lend(a, 1, later), 0, "b waits");
        assert_eq!(shares.next(later), Some((ticket, 100)));
        assert_eq!(shares.lend(a, 1, later), 1_000);
        // Without a limit there is nothing to lend of.
        shares.set_rate(None, later);
        assert_eq!(shares.lend(b, 1, later), 0);
    }
}
