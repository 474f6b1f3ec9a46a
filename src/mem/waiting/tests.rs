//! Stories of one group of 100 bytes, in virtual time. Pure.

use super::*;

/// One limit for everybody, and one of its own for some: payers are their own limits, 0 for none.
struct Purse {
    limit: u64,
    used: u64,
}

impl Account for Purse {
    type Payer = u64;
    fn largest(&self, payer: &u64) -> Bytes {
        Bytes(match payer {
            0 => self.limit,
            own => self.limit.min(*own),
        })
    }
    fn take(&mut self, payer: &u64, bytes: Bytes) -> bool {
        let fits = self.used + bytes.0 <= self.limit && bytes <= self.largest(payer);
        if fits {
            self.used += bytes.0;
        }
        fits
    }
}

/// A group of 100 bytes; requests are called by the order in which they began to wait.
struct Scene {
    queue: Waiting<u64>,
    purse: Purse,
    now: u64,
}

fn scene(used: u64) -> Scene {
    Scene {
        queue: Waiting::default(),
        purse: Purse { limit: 100, used },
        now: 0,
    }
}

impl Scene {
    fn arrive(&mut self, bytes: u64, patience: u64) -> Arrival {
        let deadline = Nanos(self.now + patience);
        self.queue
            .arrive(&mut self.purse, 0, Bytes(bytes), deadline)
    }

    fn wait(&mut self, bytes: u64, patience: u64) {
        let arrival = self.arrive(bytes, patience);
        assert!(matches!(arrival, Arrival::Waits(_)), "{arrival:?}");
    }

    /// Who leaves the queue when `bytes` come back at `now`.
    fn back(&mut self, bytes: u64, now: u64) -> Vec<(u64, End)> {
        self.purse.used -= bytes;
        self.now = now;
        let mut told = Vec::new();
        self.queue
            .settle(&mut self.purse, Nanos(now), |ticket, _, end| {
                told.push((ticket.0, end));
            });
        told
    }
}

use Arrival::{Given, TooLarge, Waits};

#[test]
fn what_fits_is_given_at_once_to_the_last_byte() {
    let mut s = scene(0);
    assert_eq!(s.arrive(60, 10), Given);
    assert_eq!(s.arrive(40, 10), Given);
    assert_eq!(s.purse.used, 100);
    assert_eq!(s.arrive(1, 10), Waits(Ticket(0)));
    assert_eq!(s.purse.used, 100);
}

#[test]
fn more_than_the_limit_is_refused_first_and_holds_up_nobody() {
    let mut s = scene(0);
    let refused = TooLarge {
        largest: Bytes(100),
    };
    assert_eq!(s.arrive(101, 10), refused);
    assert_eq!(s.arrive(u64::MAX, 10), refused);
    assert!(s.queue.is_empty());
    assert_eq!(s.arrive(100, 10), Given);
}

#[test]
fn a_small_request_does_not_overtake_a_large_one() {
    let mut s = scene(80);
    s.wait(50, 10);
    s.wait(5, 10); // would fit
    assert!(!s.queue.try_arrive(&mut s.purse, &0, Bytes(5)));
    assert_eq!(s.back(20, 1), []); // 40 free: still not enough for the first
    assert_eq!(s.purse.used, 60);
    assert_eq!(s.back(10, 2), [(0, End::Given)]); // exactly enough
    assert_eq!(s.back(5, 3), [(1, End::Given)]);
    assert_eq!(s.purse.used, 100);
}

#[test]
fn nothing_is_given_to_whoever_asks_for_nothing_even_while_others_wait() {
    let mut s = scene(100);
    s.wait(50, 10);
    assert_eq!(s.arrive(0, 10), Given);
    assert!(s.queue.try_arrive(&mut s.purse, &0, Bytes(0)));
    assert_eq!((s.queue.len(), s.purse.used), (1, 100));
}

#[test]
fn as_many_as_fit_are_served_when_bytes_come_back() {
    let mut s = scene(100);
    for bytes in [10, 20, 30, 40] {
        s.wait(bytes, 10);
    }
    assert_eq!(s.queue.asked(), Bytes(100));
    let served = [(0, End::Given), (1, End::Given), (2, End::Given)];
    assert_eq!(s.back(65, 1), served);
    assert_eq!((s.purse.used, s.queue.len()), (95, 1));
    assert_eq!(s.queue.asked(), Bytes(40));
    assert_eq!(s.queue.first(), Some((Ticket(3), Bytes(40))));
}

#[test]
fn a_deadline_ends_the_wait_and_lets_the_next_one_have_its_turn() {
    let mut s = scene(70);
    s.wait(50, 10);
    s.wait(20, 30);
    s.wait(20, 20);
    assert_eq!(s.queue.next_deadline(), Some(Nanos(10)));
    assert_eq!(s.back(0, 9), []);
    assert_eq!(s.back(0, 10), [(0, End::TimedOut), (1, End::Given)]);
    assert_eq!(s.queue.next_deadline(), Some(Nanos(20)));
    assert_eq!(s.back(0, 20), [(2, End::TimedOut)]);
    assert_eq!(s.queue.next_deadline(), None);
    assert_eq!((s.purse.used, s.queue.asked()), (90, Bytes(0)));
}

#[test]
fn who_can_be_served_in_the_instant_of_its_deadline_is_served() {
    let mut s = scene(100);
    s.wait(50, 10);
    assert_eq!(s.back(50, 10), [(0, End::Given)]);
}

#[test]
fn a_deadline_behind_the_first_ends_only_its_own_wait() {
    let mut s = scene(100);
    s.wait(50, 100);
    s.wait(10, 5);
    s.wait(10, 100);
    assert_eq!(s.back(0, 5), [(1, End::TimedOut)]);
    assert_eq!(s.back(60, 6), [(0, End::Given), (2, End::Given)]);
}

#[test]
fn whoever_gives_up_holds_up_nobody_any_more() {
    let mut s = scene(90);
    s.wait(50, 10);
    s.wait(10, 10);
    assert!(s.queue.cancel(Ticket(0)));
    assert!(!s.queue.cancel(Ticket(0)));
    assert_eq!(s.back(0, 1), [(1, End::Given)]);
    assert!(!s.queue.cancel(Ticket(1)));
    assert_eq!(s.purse.used, 100);
}

#[test]
fn a_limit_that_falls_below_a_waiting_request_ends_its_wait_at_once() {
    let mut s = scene(60);
    s.wait(50, 10);
    s.wait(30, 10);
    s.purse.limit = 40;
    let largest = Bytes(40);
    assert_eq!(s.back(0, 1), [(0, End::TooLarge { largest })]);
    assert_eq!(s.back(50, 2), [(1, End::Given)]);
    assert_eq!(s.purse.used, 40);
}

#[test]
fn a_limit_that_rises_serves_whoever_fits_now() {
    let mut s = scene(100);
    s.wait(50, 10);
    s.purse.limit = 150;
    assert_eq!(s.back(0, 1), [(0, End::Given)]);
}

#[test]
fn a_payer_with_a_limit_of_its_own_is_refused_by_that() {
    let mut s = scene(0);
    let arrival = s.queue.arrive(&mut s.purse, 30, Bytes(31), Nanos(10));
    let largest = Bytes(30);
    assert_eq!(arrival, TooLarge { largest });
    let arrival = s.queue.arrive(&mut s.purse, 30, Bytes(30), Nanos(10));
    assert_eq!(arrival, Given);
}

#[test]
fn whatever_happens_order_is_kept_and_no_byte_is_lost() {
    // A small linear congruential generator: the same story each time.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut s = scene(0);
    let (mut held, mut last, mut served) = (Vec::new(), None, 0);
    let mut waiting = std::collections::BTreeMap::new();
    for now in 0..20_000 {
        s.now = now;
        match random(4) {
            0 | 1 => {
                let bytes = random(120);
                match s.arrive(bytes, random(200)) {
                    Given => held.push(bytes),
                    Waits(ticket) => drop(waiting.insert(ticket.0, bytes)),
                    TooLarge { .. } => assert!(bytes > 100),
                }
            }
            2 if !held.is_empty() => {
                let back = held.swap_remove(random(held.len() as u64) as usize);
                s.purse.used -= back;
            }
            _ => {
                let ticket = waiting.keys().nth(random(8) as usize).copied();
                if let Some(ticket) = ticket {
                    assert!(s.queue.cancel(Ticket(ticket)));
                    waiting.remove(&ticket);
                }
            }
        }
        for (ticket, end) in s.back(0, now) {
            let bytes = waiting.remove(&ticket).unwrap();
            if end == End::Given {
                assert!(last.is_none_or(|last| last < ticket), "overtaken");
                last = Some(ticket);
                held.push(bytes);
                served += 1;
            }
        }
        assert_eq!(s.purse.used, held.iter().sum::<u64>());
        assert!(s.purse.used <= 100);
        assert_eq!(s.queue.asked(), Bytes(waiting.values().sum()));
        let room = 100 - s.purse.used;
        assert!(
            s.queue.first().is_none_or(|(_, first)| first.0 > room),
            "idle room"
        );
    }
    assert!(served > 1_000, "{served}");
}
