//! How soon after a wrong password the next one is looked at.
//!
//! Pure: it is told the time, since a beginning. Who guesses is known by address and name together: from one address
//! one name is guessed at once per delay, and neither another address nor, from the same one, another name waits for
//! that. There is nothing to be won by guessing at many connections, since all of them wait for the same moment, or by
//! hanging up, since it is before the look that they wait. Whoever makes it forget by guessing at very many names gets
//! one guess for each [`MOST`] of them. Whoever guesses on and on keeps the name out at that address, right password or
//! not: the price of looking at few.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// Who guesses are remembered of; beyond it, those of the longest ago are forgotten.
const MOST: usize = 4096;

/// Who guessed wrong, and how soon the next password is looked at.
#[derive(Debug)]
pub(super) struct Guesses {
    delay: Duration,
    /// How long a connection may wait before it is cut.
    patience: Duration,
    hashes: RandomState,
    /// When it was.
    last: HashMap<u64, Duration>,
    /// Connections that wait, and how many may.
    waiting: usize,
    most_waiting: usize,
}

impl Guesses {
    /// `patience`: how long a connection may wait before it is cut. `most_waiting`: how many may wait for their look, of
    /// which only as many do as are looked at within that time, one per delay.
    pub(super) fn new(delay: Duration, patience: Duration, most_waiting: usize) -> Guesses {
        let looks = patience.as_nanos() / delay.as_nanos().max(1);
        let most_waiting = most_waiting.min(usize::try_from(looks).unwrap_or(usize::MAX));
        Guesses {
            delay,
            patience,
            hashes: RandomState::new(),
            last: HashMap::new(),
            waiting: 0,
            most_waiting: most_waiting.max(1),
        }
    }

    /// Whoever names `user` at `address`; none for a Unix socket.
    pub(super) fn of(&self, address: Option<IpAddr>, user: &str) -> u64 {
        let net = address.map(|address| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            // All hosts of a link are in one net.
            IpAddr::V6(address) if address.is_unicast_link_local() => address.to_bits(),
            // Whoever has one address of that kind has the whole net.
            IpAddr::V6(address) => address.to_bits() >> 64,
        });
        self.hashes.hash_one((net, user))
    }

    /// Whether a password may be looked at now; if not, how much later. One that may counts as wrong until it is
    /// [right](Self::right).
    pub(super) fn look(&mut self, who: u64, now: Duration) -> Result<(), Duration> {
        match self.last.get(&who).and_then(|&last| self.left(last, now)) {
            Some(left) => Err(left),
            None => {
                self.wrong(who, now);
                Ok(())
            }
        }
    }

    /// What is left of the delay; none if it is over. Nothing is added to a time: delays may be of any length.
    fn left(&self, last: Duration, now: Duration) -> Option<Duration> {
        let left = self.delay.checked_sub(now.saturating_sub(last))?;
        (!left.is_zero()).then_some(left)
    }

    fn wrong(&mut self, who: u64, now: Duration) {
        if self.delay.is_zero() {
            return;
        }
        if self.last.len() >= MOST && !self.last.contains_key(&who) {
            let mut all = std::mem::take(&mut self.last);
            all.retain(|_, last| self.left(*last, now).is_some());
            let oldest = all.iter().min_by_key(|(_, last)| **last);
            if let Some((&oldest, _)) = oldest.filter(|_| all.len() >= MOST) {
                all.remove(&oldest);
            }
            self.last = all;
        }
        self.last.insert(who, now);
    }

    /// The password that was looked at is the right one.
    pub(super) fn right(&mut self, who: u64) {
        self.last.remove(&who);
    }

    /// A place for a connection that waits so long, if there is one, and if that is not in vain.
    pub(super) fn wait(&mut self, left: Duration) -> bool {
        let is_free = self.waiting < self.most_waiting && left <= self.patience;
        self.waiting += usize::from(is_free);
        is_free
    }

    /// It does not wait any more.
    pub(super) fn go(&mut self) {
        self.waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_secs(1);

    fn guesses(delay: Duration, most_waiting: usize) -> Guesses {
        Guesses::new(delay, Duration::MAX, most_waiting)
    }

    fn at(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn of_a_thousand_guesses_in_ten_seconds_eleven_are_looked_at() {
        let (mut guesses, now) = (guesses(DELAY, 1), Duration::ZERO);
        let who = guesses.of(at("10.0.0.1"), "ops");
        let looks = (0..=1_000).filter(|tick| guesses.look(who, now + DELAY * *tick / 100).is_ok());
        assert_eq!(looks.count(), 11);
        assert_eq!(guesses.look(who, now + DELAY * 10), Err(DELAY));
    }

    #[test]
    fn a_right_password_is_not_waited_for_however_often_it_comes() {
        let (mut guesses, now) = (guesses(DELAY, 1), Duration::ZERO);
        let who = guesses.of(None, "ops");
        for _ in 0..100 {
            assert_eq!(guesses.look(who, now), Ok(()));
            guesses.right(who);
        }
        assert!(guesses.last.is_empty());
    }

    #[test]
    fn other_names_and_other_nets_do_not_wait_and_other_addresses_of_a_host_do() {
        let (mut guesses, now) = (guesses(DELAY, 1), Duration::ZERO);
        for (address, user, waits) in [
            (at("10.0.0.1"), "ops", false),
            (at("10.0.0.1"), "ops", true),
            (at("10.0.0.1"), "grafana", false),
            (at("10.0.0.2"), "ops", false),
            (None, "ops", false),
            (at("2001:db8::1"), "ops", false),
            (at("2001:db8::2"), "ops", true),
            (at("2001:db8:0:1::1"), "ops", false),
            // Of the link there is one net for all: each host is one.
            (at("fe80::1"), "ops", false),
            (at("fe80::2"), "ops", false),
            (at("fe80::2"), "ops", true),
        ] {
            let who = guesses.of(address, user);
            assert_eq!(guesses.look(who, now).is_err(), waits, "{address:?} {user}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_is_forgotten_first() {
        let (mut guesses, begin) = (guesses(DELAY, 1), Duration::ZERO);
        let name = |number: usize| format!("user {number}");
        let last = begin + DELAY / 2;
        for number in 0..=MOST {
            let now = begin + DELAY / 2 * number as u32 / MOST as u32;
            let who = guesses.of(None, &name(number));
            assert!(guesses.look(who, now).is_ok());
        }
        assert_eq!(guesses.last.len(), MOST);
        let waits = |guesses: &mut Guesses, number| {
            let who = guesses.of(None, &name(number));
            guesses.look(who, last).is_err()
        };
        assert!(waits(&mut guesses, MOST) && waits(&mut guesses, 1));
        assert!(!waits(&mut guesses, 0));
    }

    #[test]
    fn no_delay_is_none_and_one_of_for_ever_holds() {
        let now = Duration::ZERO;
        let mut none = guesses(Duration::ZERO, 1);
        assert!((0..10).all(|_| none.look(1, now).is_ok()) && none.last.is_empty());
        for long in [Duration::from_secs(1 << 30), Duration::MAX] {
            let mut most = guesses(long, 1);
            assert!(most.look(1, now).is_ok());
            assert!(most.look(1, now + Duration::from_secs(1 << 29)).is_err());
        }
    }

    #[test]
    fn places_to_wait_at_are_bounded() {
        let mut guesses = guesses(DELAY, 2);
        assert!(guesses.wait(DELAY) && guesses.wait(DELAY) && !guesses.wait(DELAY));
        guesses.go();
        assert!(guesses.wait(DELAY));
    }

    #[test]
    fn no_more_wait_than_are_looked_at_before_they_are_cut() {
        for (delay, patience, places) in [
            (DELAY, DELAY * 10, 10),
            (DELAY, DELAY * 100, 16),
            (DELAY * 2, DELAY * 7, 3),
            (Duration::from_nanos(1), Duration::MAX, 16),
            (Duration::MAX, Duration::MAX, 1),
        ] {
            let mut guesses = Guesses::new(delay, patience, 16);
            let free = (0..20).filter(|_| guesses.wait(DELAY)).count();
            assert_eq!(free, places, "{delay:?} within {patience:?}");
        }
        // One for which the next look comes soon enough, though the one after it will not.
        let mut slow = Guesses::new(DELAY * 60, DELAY * 10, 16);
        assert!(!slow.wait(DELAY * 11) && slow.wait(DELAY * 10) && !slow.wait(DELAY));
    }
}
