//! How soon after a wrong password the next one is looked at.
//!
//! Pure: it is told the time. Who guesses is known by address and name together: from one address one name is guessed at
//! once per delay, and neither another address nor, from the same one, another name waits for that. There is nothing to be
//! won by guessing at many connections, since all of them wait for the same moment, or by hanging up, since it is before
//! the look that they wait. Whoever makes it forget by guessing at very many names gets one guess for each [`MOST`] of them.
//! Whoever guesses on and on keeps the name out at that address, right password or not: the price of looking at few.

use crate::unit::Nanos;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// Who guesses are remembered of; beyond it, those of the longest ago are forgotten.
const MOST: usize = 4096;

/// Who guessed wrong, and when the next password is looked at.
#[derive(Debug)]
pub(super) struct Guesses {
    delay: Nanos,
    /// How long a connection may wait before it is cut.
    patience: Nanos,
    hashes: RandomState,
    next: HashMap<u64, Nanos>,
    /// Connections that wait, and how many may.
    waiting: usize,
    most_waiting: usize,
}

impl Guesses {
    /// `patience`: how long a connection may wait before it is cut. `most_waiting`: how many may wait for their look, of
    /// which only as many do as are looked at within that time, one per delay, but one in any case.
    pub(super) fn new(delay: Duration, patience: Duration, most_waiting: usize) -> Guesses {
        let looks = patience.as_nanos() / delay.as_nanos().max(1);
        let most_waiting = most_waiting.min(usize::try_from(looks).unwrap_or(usize::MAX));
        Guesses {
            delay: delay.into(),
            patience: patience.into(),
            hashes: RandomState::new(),
            next: HashMap::new(),
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

    /// Whether a password may be looked at now; if not, when. One that may counts as wrong until it is [right](Self::right).
    pub(super) fn look(&mut self, who: u64, now: Nanos) -> Result<(), Nanos> {
        match self.next.get(&who) {
            Some(&next) if next > now => Err(next),
            _ => {
                self.wrong(who, now);
                Ok(())
            }
        }
    }

    fn wrong(&mut self, who: u64, now: Nanos) {
        // At the end of time it stays: a delay without end has none.
        let next = now.plus(self.delay);
        if next <= now {
            return;
        }
        if self.next.len() >= MOST && !self.next.contains_key(&who) {
            self.next.retain(|_, next| *next > now);
            let oldest = self.next.iter().min_by_key(|(_, next)| **next);
            if let Some((&oldest, _)) = oldest.filter(|_| self.next.len() >= MOST) {
                self.next.remove(&oldest);
            }
        }
        self.next.insert(who, next);
    }

    /// The password that was looked at is the right one.
    pub(super) fn right(&mut self, who: u64) {
        self.next.remove(&who);
    }

    /// A place for a connection that waits until `next`, if there is one, and if it does not wait in vain.
    pub(super) fn wait(&mut self, next: Nanos, now: Nanos) -> bool {
        let is_free = self.waiting < self.most_waiting && next.since(now) <= self.patience;
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
        let mut guesses = guesses(DELAY, 1);
        let who = guesses.of(at("10.0.0.1"), "ops");
        let at = |tick: u64| Nanos::from_millis(10 * tick);
        let looks = (0..=1_000).filter(|tick| guesses.look(who, at(*tick)).is_ok());
        assert_eq!(looks.count(), 11);
        assert_eq!(guesses.look(who, at(1_000)), Err(at(1_100)));
    }

    #[test]
    fn a_right_password_is_not_waited_for_however_often_it_comes() {
        let (mut guesses, now) = (guesses(DELAY, 1), Nanos::ZERO);
        let who = guesses.of(None, "ops");
        for _ in 0..100 {
            assert_eq!(guesses.look(who, now), Ok(()));
            guesses.right(who);
        }
        assert!(guesses.next.is_empty());
    }

    #[test]
    fn other_names_and_other_nets_do_not_wait_and_other_addresses_of_a_host_do() {
        let (mut guesses, now) = (guesses(DELAY, 1), Nanos::ZERO);
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
        let mut guesses = guesses(DELAY, 1);
        let name = |number: usize| format!("user {number}");
        let last = Nanos::from_millis(500);
        for number in 0..=MOST {
            let now = Nanos::from_micros(100 * number as u64);
            let who = guesses.of(None, &name(number));
            assert!(guesses.look(who, now).is_ok());
        }
        assert_eq!(guesses.next.len(), MOST);
        let waits = |guesses: &mut Guesses, number| {
            let who = guesses.of(None, &name(number));
            guesses.look(who, last).is_err()
        };
        assert!(waits(&mut guesses, MOST) && waits(&mut guesses, 1));
        assert!(!waits(&mut guesses, 0));
    }

    #[test]
    fn no_delay_is_none_and_one_of_for_ever_holds() {
        let now = Nanos::ZERO;
        let mut none = guesses(Duration::ZERO, 1);
        assert!((0..10).all(|_| none.look(1, now).is_ok()) && none.next.is_empty());
        for long in [Duration::from_secs(1 << 30), Duration::MAX] {
            for begin in [Nanos::ZERO, Nanos::from_secs(1)] {
                let mut most = guesses(long, 1);
                assert!(most.look(1, begin).is_ok());
                assert!(most.look(1, Nanos::from_secs(1 << 29)).is_err());
            }
        }
    }

    #[test]
    fn places_to_wait_at_are_bounded() {
        let mut guesses = guesses(DELAY, 2);
        let wait = |guesses: &mut Guesses| guesses.wait(DELAY.into(), Nanos::ZERO);
        assert!(wait(&mut guesses) && wait(&mut guesses) && !wait(&mut guesses));
        guesses.go();
        assert!(wait(&mut guesses));
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
            let wait = |_: &usize| guesses.wait(DELAY.into(), Nanos::ZERO);
            let free = (0..20).filter(wait).count();
            assert_eq!(free, places, "{delay:?} within {patience:?}");
        }
        // One for which the next look comes soon enough, though the one after it will not.
        let mut slow = Guesses::new(DELAY * 60, DELAY * 10, 16);
        let mut wait = |seconds| slow.wait(Nanos::from_secs(100 + seconds), Nanos::from_secs(100));
        assert!(!wait(11) && wait(10) && !wait(1));
    }
}
