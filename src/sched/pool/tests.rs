//! The policy in virtual time: threads that take what they are given, closures that last exactly as long as they say.

use super::*;
use std::collections::BTreeMap;

const SECOND: Nanos = Nanos::from_secs(1);

/// Threads that run closures, which are lengths of time.
struct Plant {
    pool: Pool<Nanos>,
    now: Nanos,
    /// By when they end; the group, when it began, and the seat.
    ends: BTreeMap<(Nanos, usize), (Slot, Nanos)>,
    /// Groups that always have this many closures in line, of this length.
    floods: Vec<(Slot, usize, Nanos)>,
    /// When closures began, in order.
    begun: Vec<(Nanos, Slot)>,
}

impl Plant {
    fn new(threads: usize) -> Plant {
        Plant {
            pool: Pool::new(Config::default(), threads, 100_000),
            now: Nanos::ZERO,
            ends: BTreeMap::new(),
            floods: Vec::new(),
            begun: Vec::new(),
        }
    }

    fn group(&mut self, weight: u64) -> Slot {
        self.pool.add(Weight::new(weight))
    }

    fn flood(&mut self, weight: u64, queued: usize, length: Nanos) -> Slot {
        let slot = self.group(weight);
        self.floods.push((slot, queued, length));
        slot
    }

    fn push(&mut self, slot: Slot, length: Nanos) {
        self.pool.push(slot, self.now, 0, length).unwrap();
    }

    /// Lets closures begin and end until `until`.
    fn run(&mut self, until: Nanos) {
        loop {
            for (slot, queued, length) in self.floods.clone() {
                for _ in self.pool.queued_of(slot)..queued {
                    self.push(slot, length);
                }
            }
            let startable = self.pool.startable();
            if startable > 0 {
                let before: Vec<usize> = self.running();
                let turn = self.pool.next(self.now).unwrap();
                let after = self.running();
                let group = (0..after.len()).find(|&i| before[i] != after[i]).unwrap();
                let slot = Slot(group as u32);
                self.begun.push((self.now, slot));
                let end = (self.now.plus(turn.job), turn.seat);
                self.ends.insert(end, (slot, self.now));
                continue;
            }
            assert_eq!(self.pool.next(self.now).map(|turn| turn.seat), None);
            match self.ends.first_key_value() {
                Some((&(end, seat), &(_, began))) if end <= until => {
                    self.ends.remove(&(end, seat));
                    self.now = end;
                    assert_eq!(self.pool.done(seat, end), end.since(began));
                }
                _ => {
                    self.now = until;
                    return;
                }
            }
        }
    }

    fn running(&self) -> Vec<usize> {
        let slots = 0..self.pool.lines.len() as u32;
        slots.map(|slot| self.pool.running_of(Slot(slot))).collect()
    }

    /// What each group has had, in milliseconds of threads.
    fn used(&self, slot: Slot) -> f64 {
        self.pool.used(slot, self.now).0 as f64 / 1e6
    }

    /// How much larger a group's part of a second's use of both is than it should be.
    fn error(&mut self, [a, b]: [Slot; 2], part: f64, seconds: u64) -> f64 {
        let before = [a, b].map(|slot| self.used(slot));
        self.run(self.now.plus(Nanos(SECOND.0 * seconds)));
        let used = [self.used(a) - before[0], self.used(b) - before[1]];
        used[0] / (used[0] + used[1]) - part
    }
}

const MS: Nanos = Nanos::from_millis(1);

#[test]
fn two_groups_share_the_threads_by_their_weights_whatever_their_number() {
    for threads in [1, 2, 3, 8, 64, 512] {
        let mut plant = Plant::new(threads);
        let pair = [plant.flood(2, 1_000, MS), plant.flood(1, 1_000, MS)];
        let error = plant.error(pair, 2.0 / 3.0, if threads > 100 { 1 } else { 3 });
        assert!(error.abs() < 0.001, "{threads} threads: {error}");
    }
}

#[test]
fn a_hundred_times_as_many_closures_get_no_more() {
    for threads in [1, 4, 64] {
        let mut plant = Plant::new(threads);
        let pair = [plant.flood(1, 10_000, MS), plant.flood(1, 100, MS)];
        let error = plant.error(pair, 0.5, 3);
        assert!(error.abs() < 0.001, "{threads} threads: {error}");
    }
}

#[test]
fn long_closures_count_while_they_run() {
    for threads in [2, 3, 8, 64] {
        let mut plant = Plant::new(threads);
        let pair = [
            plant.flood(1, 1_000, MS),
            plant.flood(1, 1_000, Nanos::from_millis(50)),
        ];
        // Until it is known how long they last.
        plant.run(SECOND);
        let error = plant.error(pair, 0.5, 5);
        assert!(error.abs() < 0.005, "{threads} threads: {error}");
        // Not in turns of all threads: the short ones wait for a thread, not for a wave of long ones.
        let begins = plant
            .begun
            .iter()
            .filter(|(at, slot)| *at > SECOND && *slot == pair[0]);
        let begins: Vec<Nanos> = begins.map(|(at, _)| *at).collect();
        let longest = begins.windows(2).map(|pair| pair[1].since(pair[0])).max();
        assert!(
            longest < Some(Nanos::from_millis(51)),
            "{threads} threads: {longest:?}"
        );
    }
}

#[test]
fn one_thread_alternates_between_short_and_long_ones_by_time() {
    let mut plant = Plant::new(1);
    let pair = [
        plant.flood(1, 1_000, MS),
        plant.flood(1, 1_000, Nanos::from_millis(50)),
    ];
    plant.run(SECOND);
    let error = plant.error(pair, 0.5, 10);
    assert!(error.abs() < 0.01, "{error}");
}

#[test]
fn a_first_closure_waits_for_one_thread_however_many_wait_before_it() {
    let mut plant = Plant::new(4);
    plant.flood(10, 10_000, MS);
    let other = plant.group(1);
    for round in 1..=20 {
        plant.run(Nanos::from_micros(1_300 * round));
        let asked = plant.now;
        plant.push(other, MS);
        plant.run(asked.plus(MS));
        let (at, _) = plant
            .begun
            .iter()
            .rev()
            .find(|(_, slot)| *slot == other)
            .unwrap();
        assert!(at.since(asked) <= MS, "round {round}: {}", at.since(asked));
    }
}

#[test]
fn idleness_and_a_pool_for_oneself_leave_neither_credit_nor_debt_to_speak_of() {
    let mut plant = Plant::new(4);
    let a = plant.flood(1, 100, MS);
    let b = plant.group(1);
    // One group alone for ten seconds, then both.
    plant.run(Nanos(10 * SECOND.0));
    plant.floods.push((b, 100, MS));
    let error = plant.error([a, b], 0.5, 1);
    assert!(error.abs() < 0.02, "{error}");
    // One closure at a time beside a flood: entitled to more, it cannot save up.
    plant.floods[1].1 = 0;
    plant.pool.take_all();
    let until = plant.now.plus(Nanos(10 * SECOND.0));
    while plant.now < until {
        if plant.pool.queued_of(b) + plant.pool.running_of(b) == 0 {
            plant.push(b, MS);
        }
        plant.run(plant.now.plus(Nanos::from_micros(250)));
    }
    plant.floods[1].1 = 100;
    let error = plant.error([a, b], 0.5, 1);
    assert!(error.abs() < 0.02, "{error}");
}

#[test]
fn reserved_threads_are_kept_free_and_no_more_than_all_but_one() {
    let mut plant = Plant::new(4);
    let (quick, slow) = (plant.group(1), plant.flood(1, 100, SECOND));
    plant.pool.set_share(
        quick,
        Share {
            weight: Weight::new(1),
            reserved: 1,
        },
    );
    plant.run(Nanos::from_millis(10));
    assert_eq!(plant.pool.running_of(slow), 3, "one is kept free");
    for _ in 0..5 {
        let asked = plant.now;
        plant.push(quick, MS);
        plant.run(asked.plus(MS));
        assert_eq!(plant.begun.last(), Some(&(asked, quick)), "at once");
    }
    // Beyond what it reserved it waits as everybody.
    plant.push(quick, MS);
    plant.push(quick, MS);
    plant.run(plant.now);
    let quicks = [plant.pool.running_of(quick), plant.pool.queued_of(quick)];
    assert_eq!(quicks, [1, 1]);
    // However much is reserved, one thread is everybody's.
    let mut plant = Plant::new(2);
    let (quick, slow) = (plant.group(1), plant.flood(1, 100, SECOND));
    plant.pool.set_share(
        quick,
        Share {
            weight: Weight::new(1),
            reserved: 10,
        },
    );
    plant.run(MS);
    assert_eq!(plant.pool.running_of(slow), 1);
    // A reservation that ends leaves its threads to the others at once.
    plant.pool.set_share(
        quick,
        Share {
            weight: Weight::new(1),
            reserved: 0,
        },
    );
    plant.run(plant.now);
    assert_eq!(plant.pool.running_of(slow), 2);
}

#[test]
fn a_weight_is_changed_in_place() {
    let mut plant = Plant::new(8);
    let pair = [plant.flood(1, 1_000, MS), plant.flood(1, 1_000, MS)];
    plant.run(SECOND);
    let share = Share {
        weight: Weight::new(3),
        reserved: 0,
    };
    plant.pool.set_share(pair[0], share);
    let error = plant.error(pair, 0.75, 1);
    assert!(error.abs() < 0.01, "{error}");
}

#[test]
fn a_full_line_refuses_and_gives_the_closure_back() {
    let mut pool = Pool::new(Config::default(), 1, 2);
    let (a, b) = (pool.add(Weight::MIN), pool.add(Weight::MIN));
    for job in 0..2 {
        assert!(pool.push(a, Nanos::ZERO, 0, job).is_ok());
    }
    let full = pool.push(a, Nanos::ZERO, 0, 7);
    assert_eq!(full, Err(Full { job: 7, limit: 2 }));
    assert!(
        pool.push(b, Nanos::ZERO, 0, 8).is_ok(),
        "the other group's is its own"
    );
    assert_eq!(pool.next(Nanos::ZERO).map(|turn| turn.job), Some(0));
    assert!(
        pool.push(a, Nanos::ZERO, 0, 9).is_ok(),
        "what runs does not wait"
    );
}

#[test]
fn what_was_taken_out_is_not_run_and_a_group_without_closures_can_go() {
    let mut pool = Pool::new(Config::default(), 2, 100);
    let (a, b) = (pool.add(Weight::MIN), pool.add(Weight::MIN));
    let numbers: Vec<u64> = (0..6)
        .map(|job| pool.push(a, Nanos::ZERO, job % 2, job).unwrap())
        .collect();
    assert_eq!(pool.take(b, numbers[0]), None);
    assert_eq!(pool.take(a, numbers[2]), Some(2));
    assert_eq!(pool.take(a, numbers[2]), None);
    assert_eq!(pool.take_of(a, 1), [1, 3, 5]);
    assert_eq!((pool.queued(), pool.startable()), (2, 2));
    let first = pool.next(Nanos::ZERO).unwrap();
    assert_eq!(first.job, 0);
    assert!(!pool.remove(a), "it waits and runs");
    assert_eq!(pool.take_all(), [4]);
    assert_eq!((pool.queued(), pool.startable(), pool.running()), (0, 0, 1));
    assert!(!pool.remove(a), "it runs");
    assert!(pool.next(Nanos::ZERO).is_none());
    assert_eq!(pool.used(a, MS), MS, "while it runs");
    pool.done(first.seat, MS);
    assert_eq!(pool.used(a, SECOND), MS);
    assert!(pool.remove(a));
    assert_eq!(
        pool.used(pool.lines.len().checked_sub(1).map(|_| a).unwrap(), SECOND),
        MS
    );
    assert_eq!(pool.add(Weight::MIN), a);
    assert_eq!(
        pool.used(a, SECOND),
        Nanos::ZERO,
        "a new group begins with nothing"
    );
}
