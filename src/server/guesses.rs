//! How soon after a wrong password the next one is looked at.
//!
//! Pure: it is told the time. Who guesses is known by address and name together: from one address one name is guessed at
//! once per delay, and neither another address nor, from the same one, another name waits for that. There is nothing to be
//! won by guessing at many connections, since all of them wait for the same moment, or by hanging up, since it is before
//! the look that they wait. Whoever makes it forget by guessing at very many names gets one guess for each [`MOST`] of them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;

/// Who guesses are remembered of; beyond it, those of the longest ago are forgotten.
const MOST: usize = 4096;

/// Who guessed wrong, and when the next password is looked at.
#[derive(Debug)]
pub(super) struct Guesses {
    delay: Duration,
    hashes: RandomState,
    next: HashMap<u64, Instant>,
    /// Connections that wait, and how many may.
    waiting: usize,
    most_waiting: usize,
}

impl Guesses {
    /// `most_waiting`: connections that may wait for their look.
    pub(super) fn new(delay: Duration, most_waiting: usize) -> Guesses {
        Guesses {
            delay,
            hashes: RandomState::new(),
            next: HashMap::new(),
            waiting: 0,
            most_waiting,
        }
    }

    /// Whoever names `user` at `address`; none for a Unix socket.
    pub(super) fn of(&self, address: Option<IpAddr>, user: &str) -> u64 {
        // Whoever has one address of that kind has the whole net.
        let net = address.map(|address| match address {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
        });
        self.hashes.hash_one((net, user))
    }

    /// Whether a password may be looked at now; if not, when. One that may counts as wrong until it is [right](Self::right).
    pub(super) fn look(&mut self, who: u64, now: Instant) -> Result<(), Instant> {
        match self.next.get(&who) {
            Some(&next) if next > now => Err(next),
            _ => {
                self.wrong(who, now);
                Ok(())
            }
        }
    }

    fn wrong(&mut self, who: u64, now: Instant) {
        let Some(next) = now.checked_add(self.delay).filter(|next| *next > now) else {
            return;
        };
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

    /// A place for a connection that waits, if there is one.
    pub(super) fn wait(&mut self) -> bool {
        let is_free = self.waiting < self.most_waiting;
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

    fn at(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn of_a_thousand_guesses_in_ten_seconds_eleven_are_looked_at() {
        let (mut guesses, now) = (Guesses::new(DELAY, 1), Instant::now());
        let who = guesses.of(at("10.0.0.1"), "ops");
        let looks = (0..=1_000).filter(|tick| guesses.look(who, now + DELAY * *tick / 100).is_ok());
        assert_eq!(looks.count(), 11);
        assert_eq!(guesses.look(who, now + DELAY * 10), Err(now + DELAY * 11));
    }

    #[test]
    fn a_right_password_is_not_waited_for_however_often_it_comes() {
        let (mut guesses, now) = (Guesses::new(DELAY, 1), Instant::now());
        let who = guesses.of(None, "ops");
        for _ in 0..100 {
            assert_eq!(guesses.look(who, now), Ok(()));
            guesses.right(who);
        }
        assert!(guesses.next.is_empty());
    }

    #[test]
    fn other_names_and_other_nets_do_not_wait_and_other_addresses_of_a_host_do() {
        let (mut guesses, now) = (Guesses::new(DELAY, 1), Instant::now());
        for (address, user, waits) in [
            (at("10.0.0.1"), "ops", false),
            (at("10.0.0.1"), "ops", true),
            (at("10.0.0.1"), "grafana", false),
            (at("10.0.0.2"), "ops", false),
            (None, "ops", false),
            (at("2001:db8::1"), "ops", false),
            (at("2001:db8::2"), "ops", true),
            (at("2001:db8:0:1::1"), "ops", false),
        ] {
            let who = guesses.of(address, user);
            assert_eq!(guesses.look(who, now).is_err(), waits, "{address:?} {user}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_oldest_is_forgotten_first() {
        let (mut guesses, begin) = (Guesses::new(DELAY, 1), Instant::now());
        let name = |number: usize| format!("user {number}");
        let last = begin + DELAY / 2;
        for number in 0..=MOST {
            let now = begin + DELAY / 2 * number as u32 / MOST as u32;
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
        let now = Instant::now();
        let mut none = Guesses::new(Duration::ZERO, 1);
        assert!((0..10).all(|_| none.look(1, now).is_ok()) && none.next.is_empty());
        let mut most = Guesses::new(Duration::from_secs(1 << 30), 1);
        assert!(most.look(1, now).is_ok());
        assert!(most.look(1, now + Duration::from_secs(1 << 29)).is_err());
    }

    #[test]
    fn places_to_wait_at_are_bounded() {
        let mut guesses = Guesses::new(DELAY, 2);
        assert!(guesses.wait() && guesses.wait() && !guesses.wait());
        guesses.go();
        assert!(guesses.wait());
    }
}
