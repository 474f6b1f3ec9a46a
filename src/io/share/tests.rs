//! The policy in virtual time, on timers that beat once a millisecond as tokio's do. Pure.

use super::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

const MB: u64 = 1_000_000;

/// A stream that asks again `busy` after it was granted, for ever.
#[derive(Clone, Copy)]
struct Stream {
    lane: Slot,
    size: u64,
    busy: Nanos,
}

/// A capacity with streams, in virtual time.
struct World {
    shares: Shares,
    streams: Vec<Stream>,
    /// When which stream asks next.
    asking: BinaryHeap<Reverse<(Nanos, usize)>>,
    waiting: HashMap<Ticket, usize>,
    timer: Option<Nanos>,
    now: Nanos,
}

impl World {
    fn new(rate: u64) -> World {
        World {
            shares: Shares::new(Some(rate), Nanos::ZERO),
            streams: Vec::new(),
            asking: BinaryHeap::new(),
            waiting: HashMap::new(),
            timer: None,
            now: Nanos::ZERO,
        }
    }

    /// A lane of `streams` streams.
    fn lane(&mut self, weight: u64, first: bool, streams: usize, size: u64, busy_us: u64) -> Slot {
        let lane = self.shares.add(Weight::new(weight), first);
        for _ in 0..streams {
            let busy = Nanos::from_micros(busy_us);
            self.streams.push(Stream { lane, size, busy });
            self.asking
                .push(Reverse((self.now, self.streams.len() - 1)));
        }
        lane
    }

    fn granted(&mut self, stream: usize) {
        let again = self.now.plus(self.streams[stream].busy);
        self.asking.push(Reverse((again, stream)));
    }

    fn advance(&mut self) {
        while let Some((ticket, _)) = self.shares.next(self.now) {
            let stream = self.waiting.remove(&ticket).unwrap();
            self.granted(stream);
        }
        // tokio's timers end at the next whole millisecond.
        let due = self.shares.due(self.now);
        self.timer = due.map(|due| Nanos(due.0.max(self.now.0 + 1).next_multiple_of(1_000_000)));
    }

    fn run_until(&mut self, end: Nanos) {
        loop {
            let ask = self.asking.peek().map(|Reverse((at, _))| *at);
            let timer = self
                .timer
                .filter(|&timer| ask.is_none_or(|ask| timer < ask));
            let at = timer.or(ask).unwrap_or(Nanos::MAX);
            if at > end {
                self.now = end;
                return;
            }
            self.now = at;
            if timer.is_none()
                && let Some(Reverse((_, stream))) = self.asking.pop()
            {
                let Stream { lane, size, .. } = self.streams[stream];
                match self.shares.pass(lane, size, at) {
                    Some(bytes) => {
                        assert!((1..=size).contains(&bytes));
                        self.granted(stream);
                    }
                    None => {
                        let ticket = self.shares.queue(lane, size, at);
                        self.waiting.insert(ticket, stream);
                    }
                }
            }
            self.advance();
        }
    }

    /// What lanes have passed within the next `time`.
    fn measure<const N: usize>(&mut self, lanes: [Slot; N], time: Nanos) -> [u64; N] {
        let before = lanes.map(|lane| self.shares.passed(lane));
        self.run_until(self.now.plus(time));
        let mut after = lanes.map(|lane| self.shares.passed(lane));
        for (after, before) in after.iter_mut().zip(before) {
            *after -= before;
        }
        after
    }
}

/// Lanes of so many streams, which ask for so much at a time and are busy for so long, at 2:1 over `time` after a
/// start: how far all of it is from the capacity, and the first lane from its two thirds, in bytes.
fn two_to_one(rate: u64, lanes: [(usize, u64, u64); 2], time: Nanos) -> (i64, i64) {
    let mut world = World::new(rate);
    let [a, b] = lanes;
    let first = world.lane(2, false, a.0, a.1, a.2);
    let second = world.lane(1, false, b.0, b.1, b.2);
    world.run_until(Nanos::from_millis(500));
    let [a, b] = world.measure([first, second], time);
    let whole = (u128::from(rate) * u128::from(time.0) / 1_000_000_000) as i64;
    ((a + b) as i64 - whole, (a as i64 - 2 * b as i64) / 3)
}

#[test]
fn two_to_one_is_exact_whoever_has_more_streams_and_larger_operations() {
    const K: u64 = 1 << 10;
    for rate in [MB, 10 * MB, 100 * MB, 1_000 * MB] {
        for lanes in [
            [(1, 64 * K, 20), (1, 64 * K, 20)],
            [(1, 64 * K, 20), (100, 64 * K, 20)],
            [(100, 64 * K, 20), (1, 64 * K, 20)],
            [(4, 8 * K, 5), (100, 1024 * K, 20)],
            [(100, 8 * K, 20), (4, 1024 * K, 20)],
        ] {
            let (whole, off) = two_to_one(rate, lanes, Nanos::from_secs(2));
            let most = Bucket::new(rate, Nanos::ZERO).most() as i64;
            // What one operation and one beat of the timer can be.
            let bound = most + (rate / 1_000) as i64;
            assert!(off.abs() <= bound, "{rate} {lanes:?}: off by {off}");
            assert!(whole.abs() <= bound, "{rate} {lanes:?}: all by {whole}");
        }
    }
}

#[test]
fn time_does_not_add_up_what_is_off() {
    let lanes = [(1, 64 << 10, 20), (100, 8 << 10, 20)];
    for secs in [1, 10, 60] {
        let (whole, off) = two_to_one(10 * MB, lanes, Nanos::from_secs(secs));
        assert!(off.abs() <= 70_000, "{secs} s: {off}");
        assert!(whole.abs() <= 70_000, "{secs} s: {whole}");
    }
}

#[test]
fn what_a_lane_leaves_is_lent_and_taken_back_without_a_debt() {
    let mut world = World::new(10 * MB);
    let idle = world.lane(9, false, 0, 0, 0);
    let busy = world.lane(1, false, 3, 8 << 10, 20);
    world.run_until(Nanos::from_secs(5));
    let [lent] = world.measure([busy], Nanos::from_secs(1));
    assert!(lent.abs_diff(10 * MB) <= 20_000, "{lent}");
    // The other comes: nine tenths are its at once, and no more than that and half of its part of 100 ms.
    world.streams.push(Stream {
        lane: idle,
        size: 8 << 10,
        busy: Nanos::from_micros(20),
    });
    let stream = world.streams.len() - 1;
    world.asking.push(Reverse((world.now, stream)));
    let [own, rest] = world.measure([idle, busy], Nanos::from_secs(1));
    assert!((9 * MB - 20_000..9_600_000).contains(&own), "{own} {rest}");
    let [own, rest] = world.measure([idle, busy], Nanos::from_secs(1));
    assert!(own.abs_diff(9 * rest) <= 200_000, "{own} {rest}");
}

#[test]
fn lanes_that_go_first_have_half_and_by_weight_what_they_have_by_weight() {
    for (weight, others, expected) in [(1, 9, 5 * MB), (9, 1, 9 * MB)] {
        let mut world = World::new(10 * MB);
        let short = world.lane(weight, true, 4, 8 << 10, 20);
        world.lane(others, false, 100, 64 << 10, 20);
        world.run_until(Nanos::from_secs(2));
        let [had] = world.measure([short], Nanos::from_secs(4));
        assert!(had.abs_diff(4 * expected) <= 400_000, "{weight}: {had}");
    }
}

#[test]
fn a_short_query_is_next_however_long_the_line_is_and_whatever_it_had_while_others_slept() {
    let now = Nanos::from_secs(1);
    let mut shares = Shares::new(Some(MB), Nanos::ZERO);
    let short = shares.add(Weight::new(1), true);
    let long = shares.add(Weight::new(100), false);
    while shares.pass(short, 8 << 10, now).is_some() {}
    let line: Vec<Ticket> = (0..100).map(|_| shares.queue(long, 8 << 10, now)).collect();
    let ticket = shares.queue(short, 8 << 10, now);
    let due = shares.due(now).unwrap();
    assert_eq!(shares.next(due), Some((ticket, 8 << 10)));
    let due = shares.due(due).unwrap();
    assert_eq!(shares.next(due), Some((line[0], 8 << 10)));
}

#[test]
fn a_changed_weight_and_a_changed_capacity_hold_from_then_on() {
    let mut world = World::new(10 * MB);
    let a = world.lane(1, false, 2, 8 << 10, 20);
    let b = world.lane(1, false, 20, 8 << 10, 20);
    world.run_until(Nanos::from_secs(1));
    world.shares.set_weight(a, Weight::new(4));
    let [x, y] = world.measure([a, b], Nanos::from_secs(2));
    assert!(x.abs_diff(4 * y) <= 100_000, "{x} {y}");
    world.shares.set_rate(Some(100 * MB), world.now);
    let [x, y] = world.measure([a, b], Nanos::from_secs(2));
    assert!((x + y).abs_diff(200 * MB) <= 2_100_000, "{x} {y}");
    assert!(x.abs_diff(4 * y) <= 1_000_000, "{x} {y}");
    world.shares.set_rate(None, world.now);
    assert!(
        world
            .shares
            .due(world.now)
            .is_none_or(|due| due <= world.now)
    );
}

#[test]
fn without_a_limit_whoever_waits_passes_though_another_lane_were_next() {
    let mut shares = Shares::new(Some(100 * MB), Nanos::ZERO);
    let lanes = [9, 1].map(|weight| shares.add(Weight::new(weight), false));
    for _ in 0..10 {
        shares.pass(lanes[1], 1 << 20, Nanos::ZERO);
    }
    let first = shares.queue(lanes[0], 1_000, Nanos::ZERO);
    let second = shares.queue(lanes[1], 1_000, Nanos::ZERO);
    let due = shares.due(Nanos::ZERO).unwrap();
    assert_eq!(shares.next(due), Some((first, 1_000)));
    // What comes in next would be set aside for the first lane, which is busy.
    shares.set_rate(None, due);
    assert_eq!(shares.next(due), Some((second, 1_000)));
    assert_eq!(shares.next(due), None);
}

#[test]
fn a_limit_beyond_all_measure_is_divided_in_few_steps() {
    let mut shares = Shares::new(Some(100 * MB), Nanos::ZERO);
    let lanes = [100, 1].map(|weight| shares.add(Weight::new(weight), false));
    while shares.pass(lanes[1], 1 << 20, Nanos::ZERO).is_some() {}
    shares.queue(lanes[0], 1_000, Nanos::ZERO);
    shares.queue(lanes[1], 1 << 20, Nanos::ZERO);
    let mut now = Nanos::ZERO;
    while shares.is_contended() {
        now = shares.due(now).unwrap();
        shares.next(now);
    }
    // The first lane is busy, and far behind: what comes in is set aside for it, by the millions of gigabytes.
    let last = shares.queue(lanes[1], 1_000, now);
    shares.set_rate(Some(u64::MAX), now);
    let begun = now;
    now = now.plus(Nanos::from_micros(100));
    let granted = loop {
        if let Some(granted) = shares.next(now) {
            break granted;
        }
        now = shares.due(now).unwrap();
    };
    assert_eq!(granted, (last, 1_000));
    assert!(now <= begun.plus(Nanos::from_millis(2)), "{now}");
}

#[test]
fn what_was_not_paid_for_is_not_given_back() {
    let mut shares = Shares::new(None, Nanos::ZERO);
    let [a, b] = [1, 1].map(|weight| shares.add(Weight::new(weight), false));
    assert_eq!(shares.pass(a, 1 << 40, Nanos::ZERO), Some(1 << 40));
    shares.set_rate(Some(MB), Nanos::ZERO);
    shares.give_back(a, 1 << 40);
    // It would have had all of the capacity for days.
    let mut had = [0, 0];
    let mut now = Nanos::ZERO;
    let mut line = [a, b].map(|lane| shares.queue(lane, 20_000, now));
    while now < Nanos::from_secs(2) {
        while let Some((ticket, bytes)) = shares.next(now) {
            let which = usize::from(ticket == line[1]);
            had[which] += bytes;
            line[which] = shares.queue([a, b][which], 20_000, now);
        }
        now = shares.due(now).unwrap();
    }
    let [a, b] = had;
    assert!(u64::abs_diff(a, b) <= 100_000, "{a} {b}");
}

#[test]
fn a_thousand_lanes_of_one_stream_have_equal_parts() {
    let mut world = World::new(100 * MB);
    let lanes: Vec<Slot> = (0..1_000)
        .map(|_| world.lane(1, false, 1, 8 << 10, 20))
        .collect();
    world.run_until(Nanos::from_secs(3));
    let passed = lanes.iter().map(|&lane| world.shares.passed(lane));
    let (least, most) = (passed.clone().min().unwrap(), passed.max().unwrap());
    assert!(most - least <= 16 << 10, "{least} {most}");
}

#[test]
fn who_leaves_the_line_or_uses_less_costs_nobody_anything() {
    let mut shares = Shares::new(Some(MB), Nanos::ZERO);
    let (a, b) = (
        shares.add(Weight::new(1), false),
        shares.add(Weight::new(1), false),
    );
    assert_eq!(shares.pass(a, 1 << 20, Nanos::ZERO), Some(20_000));
    let gone = shares.queue(a, 20_000, Nanos::ZERO);
    let next = shares.queue(b, 20_000, Nanos::ZERO);
    shares.withdraw(gone);
    shares.withdraw(gone);
    assert!(!shares.remove(b), "it waits");
    assert!(shares.remove(a));
    shares.give_back(b, 0);
    assert_eq!(shares.next(Nanos(1)), Some((next, 20_000)));
    assert_eq!(shares.due(Nanos(1)), None);
    // 19 000 of them were not needed: they are there for the next.
    shares.give_back(b, 19_000);
    assert_eq!(shares.passed(b), 1_000);
    let late = shares.queue(b, 1_000, Nanos(1));
    let opens = shares.due(Nanos(1)).unwrap();
    assert_eq!(opens, Nanos::from_millis(1).plus(Nanos(1)));
    assert_eq!(shares.next(opens), Some((late, 1_000)));
}

#[test]
fn a_rate_that_is_lowered_and_raised_again_has_waived_what_was_owed() {
    let mut shares = Shares::new(Some(5 * MB), Nanos::ZERO);
    let lane = shares.add(Weight::new(1), false);
    let passed = [65_996, 33_171, 65_608].map(|bytes| shares.pass(lane, bytes, Nanos::ZERO));
    assert!(passed.iter().all(Option::is_some), "{passed:?}");
    shares.set_rate(Some(51), Nanos::ZERO);
    shares.set_rate(Some(2_437_051), Nanos::ZERO);
    // Of the 64 775 bytes one is owed still.
    assert_eq!(shares.pass(lane, 40_763, Nanos(410)), None);
    assert_eq!(shares.pass(lane, 40_763, Nanos(411)), Some(40_763));
}

proptest::proptest! {
    /// Whatever comes, goes and changes: no more passes than may, nobody is forgotten, and nobody is granted twice.
    #[test]
    fn nothing_is_lost_and_nothing_passes_twice(
        ops in proptest::collection::vec((0u8..9, 0u32..3, 1u64..100_000, 0u64..3_000_000), 1..400),
    ) {
        // The highest that it is set to, and whether it was ever off.
        let (rate, mut off) = (5 * MB, false);
        let mut shares = Shares::new(Some(rate), Nanos::ZERO);
        let lanes = [1, 2, 3].map(|weight| shares.add(Weight::new(weight), weight == 3));
        let (mut now, mut line) = (Nanos::ZERO, Vec::new());
        let mut granted: Vec<(Slot, u64)> = Vec::new();
        // What is owed when the rate is lowered is waived, but for one operation of the new rate.
        let (mut waived, mut passed) = (0, 0);
        for (op, lane, bytes, pause) in ops {
            now = now.plus(Nanos(pause));
            off |= op == 7;
            let lane = lanes[lane as usize];
            match op {
                0..=3 => match shares.pass(lane, bytes, now) {
                    Some(bytes) => { granted.push((lane, bytes)); passed += bytes; }
                    None => line.push(shares.queue(lane, bytes, now)),
                },
                4 => if let Some(ticket) = line.pop() { shares.withdraw(ticket) },
                5 => if let Some((lane, bytes)) = granted.pop() {
                    shares.give_back(lane, bytes / 2);
                    passed -= bytes / 2;
                },
                6 => shares.set_weight(lane, Weight::new(bytes)),
                7 => shares.set_rate(None, now),
                _ => {
                    let (old, new) = (shares.rate().unwrap_or(0), 1 + bytes * 50);
                    waived += if new < old { old / 50 } else { 0 };
                    shares.set_rate(Some(new), now);
                }
            }
            while let Some((ticket, bytes)) = shares.next(now) {
                let at = line.iter().position(|&waits| waits == ticket);
                proptest::prop_assert!(at.is_some(), "granted twice, or to one who left");
                line.remove(at.unwrap());
                granted.push((ticket.lane, bytes));
                passed += bytes;
            }
            proptest::prop_assert_eq!(shares.is_contended(), !line.is_empty());
            let may = u128::from(rate) * u128::from(now.0) / 1_000_000_000;
            proptest::prop_assert!(off || u128::from(passed) <= may + 200_000 + u128::from(waived), "{passed} of {may}");
        }
        // Time passes: everybody who waits is served.
        for _ in 0..10_000 {
            let Some(due) = shares.due(now) else { break };
            now = due;
            while let Some((ticket, _)) = shares.next(now) {
                line.retain(|&waits| waits != ticket);
            }
        }
        proptest::prop_assert!(line.is_empty() && !shares.is_contended());
    }
}
