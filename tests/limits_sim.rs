//! Reservations and caps, in virtual time: what they promise, and what they leave behind when they change.

#[path = "support/simulated.rs"]
mod simulated;

use proptest::prelude::*;
use quotient::sched::fair::Slot;
use quotient::sched::sim::{Rng, Setup, Sim, Step, Then, bursts, job, random, steady};
use quotient::sched::trace::replay;
use quotient::unit::Nanos;
use simulated::{HALF_IDEAL, MS, check_return, during, load, ms, sim, us};

fn assert_near(given: u64, expected: u64, slack: Nanos, what: &str) {
    assert!(
        given.abs_diff(expected) <= slack.0,
        "{what}: {} instead of {}",
        Nanos(given),
        Nanos(expected)
    );
}

// ---- caps -------------------------------------------------------------------------------------------------------

#[test]
fn a_cap_binds_on_an_idle_machine_in_every_second() {
    for workers in [1, 2, 4] {
        for cap in [0.01, 0.1, 0.5, 1.0, 1.5, 3.7] {
            if cap > workers as f64 {
                continue;
            }
            for poll in [20, 300, 1_000] {
                let mut sim = sim(workers);
                let group = sim.group(1);
                sim.set_cap(group, Some(cap));
                load(&mut sim, group, 16, ms(0), us(poll));
                for second in 0..5 {
                    let given = during(&mut sim, ms(1_000), &[group])[0] as f64 / 1e9;
                    // One poll more or less where a second may hold ten of them only.
                    let slack = 0.05 * cap + poll as f64 / 1e6;
                    assert!(
                        (given - cap).abs() <= slack,
                        "{workers} workers, cap {cap}, {poll} µs, second {second}: {given}"
                    );
                }
                assert!(sim.throttled(group) > Nanos::ZERO || cap == workers as f64);
                assert_eq!(sim.wasted(), Nanos::ZERO, "but for the cap");
            }
        }
    }
}

#[test]
fn no_100_ms_give_more_than_150_ms_worth() {
    let mut sim = sim(4);
    let group = sim.group(1);
    sim.set_cap(group, Some(0.5));
    load(&mut sim, group, 16, ms(250), us(100));
    for _ in 0..100 {
        let given = during(&mut sim, ms(100), &[group])[0];
        assert!(given <= 75 * MS + 4 * 100_000, "{}", Nanos(given));
    }
}

#[test]
fn long_polls_are_owed_and_come_out_at_the_cap() {
    for (cap, poll, seconds) in [
        (0.5, 20, 20),
        (0.5, 100, 60),
        (0.05, 20, 60),
        (1.5, 100, 60),
    ] {
        let mut sim = sim(2);
        let group = sim.group(1);
        sim.set_cap(group, Some(cap));
        load(&mut sim, group, 8, ms(0), ms(poll));
        sim.run_until(Nanos::from_secs(seconds));
        let cores = sim.given(group).as_secs_f64() / seconds as f64;
        assert!(
            (cores / cap - 1.0).abs() <= 0.05,
            "{cap}, {poll} ms: {cores}"
        );
    }
}

#[test]
fn one_absurd_poll_shuts_its_group_out_for_ten_seconds_at_most() {
    let mut sim = sim(2);
    let group = sim.group(1);
    sim.set_cap(group, Some(0.1));
    let absurd = |_: &mut Rng| Step::new(Nanos::from_secs(600), Then::Done);
    sim.spawn(group, None, ms(0), absurd);
    sim.run_until(Nanos::from_secs(600));
    let next = sim.spawn(group, None, sim.now(), job(us(10), us(10)));
    sim.run_for(ms(10_000));
    assert_eq!(sim.finished(next), None);
    sim.run_for(ms(200));
    assert!(sim.finished(next).is_some());
}

#[test]
fn several_capped_groups_leave_the_rest_to_the_others_by_weight() {
    let mut sim = sim(4);
    let groups = [sim.group(100), sim.group(1), sim.group(1), sim.group(3)];
    sim.set_cap(groups[0], Some(0.25));
    sim.set_cap(groups[1], Some(0.75));
    for group in groups {
        load(&mut sim, group, 16, ms(0), us(50));
    }
    sim.run_for(ms(200));
    let given = during(&mut sim, ms(2_000), &groups);
    // Weight 1 beside 3 of the 3.75 that the heavy capped one leaves would be 0.75 too: it is at both limits.
    for (given, cores) in given.iter().zip([0.25, 0.75, 0.75, 2.25]) {
        let expected = (cores * 2e9) as u64;
        assert_near(*given, expected, ms(40), "a group");
    }
    assert_eq!(sim.wasted(), Nanos::ZERO);
    assert!(sim.entitled(groups[3]).0.abs_diff(22 * 225 * MS) < 10 * MS);
}

#[test]
fn a_capped_group_counts_its_own_work_only() {
    // Less work than the cap: the cap is not felt.
    let mut sim = sim(2);
    let group = sim.group(1);
    sim.set_cap(group, Some(0.5));
    for i in 0..100 {
        sim.spawn(group, None, ms(10 * i), job(ms(2), us(100)));
    }
    sim.run_until(ms(1_000));
    assert_eq!(sim.given(group), ms(200));
    assert_eq!(sim.throttled(group), Nanos::ZERO);
    assert!(sim.longest_wait(group) <= us(200));
}

#[test]
fn a_cap_is_raised_lowered_and_lifted_at_once() {
    let mut sim = sim(2);
    let group = sim.group(1);
    load(&mut sim, group, 8, ms(0), us(50));
    sim.run_until(ms(100));
    for (cap, expected) in [
        (Some(0.5), 500),
        (Some(0.1), 100),
        (Some(1.5), 1_500),
        (None, 2_000),
        (Some(0.01), 10),
        (Some(2.0), 2_000),
    ] {
        sim.set_cap(group, cap);
        let given = during(&mut sim, ms(1_000), &[group])[0];
        // At most half a period at the new cap on top, and what a smaller one had left over.
        assert_near(
            given,
            expected * MS,
            ms(1 + expected * 6 / 100),
            &format!("{cap:?}"),
        );
    }
    assert_eq!(sim.wasted(), Nanos::ZERO);
}

#[test]
fn a_group_gains_no_credit_while_its_cap_holds_it_back() {
    for (workers, cap) in [(1, 0.05), (2, 0.05), (2, 0.5), (4, 0.01), (4, 1.0)] {
        let mut sim = sim(workers);
        let (heavy, other) = (sim.group(10), sim.group(1));
        sim.set_cap(heavy, Some(cap));
        load(&mut sim, heavy, 1_000, ms(0), us(100));
        load(&mut sim, other, 1_000, ms(0), us(100));
        sim.run_until(ms(10_000));
        sim.set_cap(heavy, None);
        check_return(&mut sim, workers, [heavy, other], HALF_IDEAL, 100);
    }
}

#[test]
fn a_capped_group_without_work_is_forgotten_and_back_in_time() {
    // 5 ms bursts in a group that may have 1 ms per 100: it sleeps, is throttled, and is never lost.
    let mut sim = sim(2);
    let group = sim.group(1);
    sim.set_cap(group, Some(0.01));
    sim.spawn(group, None, ms(0), bursts(50, us(100), ms(30)));
    sim.run_until(Nanos::from_secs(20));
    assert_near(sim.given(group).0, 200 * MS, ms(10), "20 s at a hundredth");
    // Throttled, then without tasks: the slot goes to another group, which is not throttled.
    let quiet = sim.group(1);
    sim.spawn(quiet, None, sim.now(), job(ms(1), ms(1)));
    sim.run_for(ms(2));
    assert_eq!(sim.given(quiet), ms(1));
}

// ---- reservations -----------------------------------------------------------------------------------------------

#[test]
fn a_reservation_is_a_floor_where_the_weight_gives_less() {
    // workers, (weight, reserved) of each, and the cores that come out.
    type Case = (usize, &'static [(u64, u32)], &'static [f64]);
    let cases: [Case; 6] = [
        (2, &[(1, 1), (10, 0)], &[1.0, 1.0]),
        (2, &[(3, 1), (1, 0)], &[1.5, 0.5]),
        (4, &[(1, 2), (10, 0)], &[2.0, 2.0]),
        (4, &[(1, 2), (1, 1), (10, 0)], &[2.0, 1.0, 1.0]),
        (
            6,
            &[(1, 2), (1, 2), (30, 0), (10, 0)],
            &[2.0, 2.0, 1.5, 0.5],
        ),
        (16, &[(1, 4), (1, 0)], &[8.0, 8.0]),
    ];
    for (workers, groups, expected) in cases {
        for poll in [50, 1_000] {
            let mut sim = sim(workers);
            let slots: Vec<Slot> = groups
                .iter()
                .map(|&(weight, reserved)| {
                    let slot = sim.group(weight);
                    sim.set_reserved(slot, reserved);
                    slot
                })
                .collect();
            for &slot in &slots {
                load(&mut sim, slot, 4 * workers, ms(0), us(poll));
            }
            sim.run_for(ms(100));
            let given = during(&mut sim, ms(800), &slots);
            for ((given, cores), slot) in given.iter().zip(expected).zip(&slots) {
                let (got, expected) = (*given as f64 / 8e8, *cores);
                let error = (got / expected - 1.0).abs();
                assert!(
                    error <= 0.01,
                    "{groups:?}, {poll} µs, {slot:?}: {got} of {expected}"
                );
            }
            assert_eq!(sim.wasted(), Nanos::ZERO);
        }
    }
}

#[test]
fn what_is_reserved_is_lent_and_taken_back_within_one_poll() {
    for (workers, reserved, poll) in [(2, 1, 1_000), (4, 3, 5_000), (16, 8, 20_000)] {
        let mut sim = sim(workers);
        let (fast, big) = (sim.group(1), sim.group(1_000));
        sim.set_reserved(fast, reserved);
        load(&mut sim, big, 4 * workers, ms(0), us(poll));
        // Bursts of as many tasks as are reserved, at odd moments: each is started within one poll of the other group.
        let (mut rng, mut at) = (Rng::new(3), ms(50));
        let mut jobs = Vec::new();
        while at < ms(3_000) {
            for _ in 0..reserved {
                jobs.push((at, sim.spawn(fast, None, at, job(us(80), us(80)))));
            }
            at = at.plus(ms(40)).plus(rng.gap(ms(20)));
        }
        sim.run_until(ms(3_200));
        for (at, task) in jobs {
            let took = sim.finished(task).expect("it ran").since(at);
            assert!(took <= us(poll + 2 * 80), "{workers} workers: {took}");
        }
        let lent = 3_200 * MS * workers as u64 - sim.given(fast).0;
        assert_eq!(sim.given(big).0, lent, "all that the other does not use");
    }
}

#[test]
fn a_group_that_always_works_keeps_its_worker_though_another_reservation_comes_and_goes() {
    let mut sim = sim(3);
    let (stays, goes, big) = (sim.group(1), sim.group(1), sim.group(50));
    for group in [stays, goes] {
        sim.set_reserved(group, 1);
    }
    load(&mut sim, big, 12, ms(0), us(700));
    load(&mut sim, stays, 1, ms(10), us(50));
    sim.spawn(goes, None, ms(10), bursts(2, us(70), us(900)));
    sim.run_until(ms(11));
    let given = during(&mut sim, ms(1_000), &[stays, goes]);
    assert_eq!(given[0], 1_000 * MS, "not a poll is lost to the other one");
    // 140 µs of work, 900 of sleep, and up to 700 until a worker is back.
    assert!(given[1] >= 80 * MS, "{}", Nanos(given[1]));
}

#[test]
fn one_worker_is_always_left_to_the_weights() {
    // More is reserved than there is; a catalog does not allow it, the policy survives it.
    for workers in [1, 2, 4] {
        let mut sim = sim(workers);
        let groups = [sim.group(1), sim.group(1), sim.group(1)];
        sim.set_reserved(groups[0], 64);
        sim.set_reserved(groups[1], 64);
        for group in groups {
            load(&mut sim, group, 64, ms(0), us(100));
        }
        sim.run_until(ms(2_000));
        let given = sim.given(groups[2]).0;
        assert!(given > 300 * MS, "{workers} workers: {}", Nanos(given));
        assert!(sim.longest_unserved(groups[2]) <= ms(60));
    }
}

#[test]
fn with_one_worker_a_reservation_changes_nothing() {
    let mut sim = sim(1);
    let groups = [sim.group(1), sim.group(3)];
    sim.set_reserved(groups[0], 1);
    for group in groups {
        load(&mut sim, group, 4, ms(0), us(50));
    }
    sim.run_until(ms(1_000));
    assert_near(sim.given(groups[0]).0, 250 * MS, ms(1), "a quarter");
}

#[test]
fn a_reservation_that_is_dropped_leaves_no_debt_and_one_that_is_set_takes_hold() {
    for workers in [2, 4] {
        let mut sim = sim(workers);
        let (heavy, light) = (sim.group(10), sim.group(1));
        load(&mut sim, heavy, 1_000, ms(0), us(100));
        load(&mut sim, light, 1_000, ms(0), us(100));
        sim.run_until(ms(1_000));
        for _ in 0..2 {
            sim.set_reserved(light, 1);
            let given = during(&mut sim, ms(10_000), &[light])[0];
            assert_near(given, 10_000 * MS, ms(10), "its worker");
            sim.set_reserved(light, 0);
            check_return(&mut sim, workers, [heavy, light], HALF_IDEAL, 100);
        }
    }
}

#[test]
fn a_group_that_returns_beside_reservations_gains_no_more_than_its_credit() {
    // What a reservation takes is not there to be caught up with.
    let mut sim = sim(4);
    let (reserving, stays, goes) = (sim.group(1), sim.group(10), sim.group(10));
    sim.set_reserved(reserving, 2);
    load(&mut sim, reserving, 8, ms(0), us(100));
    load(&mut sim, stays, 8, ms(0), us(100));
    load(&mut sim, goes, 8, ms(5_000), us(100));
    sim.run_until(ms(5_000));
    let given = during(&mut sim, ms(100), &[reserving, stays, goes]);
    assert_near(given[0], 200 * MS, ms(1), "the reservation");
    let half_ideal = 50 * MS * 2 * 10 / 21;
    assert!(given[2] <= 100 * MS + half_ideal + 400_000, "{given:?}");
    assert!(given[1] >= 100 * MS - half_ideal - 400_000, "{given:?}");
}

#[test]
fn a_group_with_a_reservation_and_a_cap_has_both() {
    let mut sim = sim(2);
    let (fast, big) = (sim.group(1), sim.group(50));
    sim.set_reserved(fast, 1);
    sim.set_cap(fast, Some(0.3));
    load(&mut sim, fast, 8, ms(0), us(50));
    load(&mut sim, big, 8, ms(0), us(50));
    sim.run_for(ms(500));
    let given = during(&mut sim, ms(2_000), &[fast, big]);
    assert_near(given[0], 600 * MS, ms(30), "its cap, not its weight");
    assert_near(given[1], 3_400 * MS, ms(30), "all the rest");
    // 0.3 cores while it has work, and at most 10 ms between two turns.
    assert!(sim.longest_unserved(fast) <= ms(11));
}

// ---- any load ---------------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
struct Load {
    weight: u64,
    reserved: u32,
    /// In hundredths of a core; 0 = none.
    cap: u64,
    endless: usize,
    sleepers: usize,
    poll: u64,
    sleep: u64,
}

fn any_load() -> impl Strategy<Value = Load> {
    let limits = (0u32..4, prop_oneof![Just(0u64), 1u64..400]);
    let tasks = (0usize..8, 0usize..8);
    let times = (20_000u64..1_000_000, 20_000u64..20_000_000);
    (1u64..20, limits, tasks, times).prop_map(|(weight, limits, tasks, times)| Load {
        weight,
        reserved: limits.0,
        cap: limits.1,
        endless: tasks.0,
        sleepers: tasks.1,
        poll: times.0,
        sleep: times.1,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        max_shrink_iters: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// No worker idles beside a task that its cap allows; caps bind; who reserves and always has work has it; nobody
    /// is left without a worker to wait for; and the calls are replayed with the same answers.
    #[test]
    fn limits_hold_for_any_load(
        workers in 1usize..9,
        loads in proptest::collection::vec(any_load(), 2..6),
        changes in proptest::collection::vec((0usize..6, 0u32..4, 0u64..400), 0..4),
        seed in any::<u64>(),
    ) {
        let mut sim = Sim::new(Setup { workers, seed, record: true, ..Setup::default() });
        let groups: Vec<Slot> = loads.iter().map(|l| sim.group(l.weight)).collect();
        let limit = |sim: &mut Sim, group: Slot, reserved: u32, cap: u64| {
            sim.set_reserved(group, reserved);
            sim.set_cap(group, (cap > 0).then(|| cap as f64 / 100.0));
        };
        let mut left = workers as u32 - 1;
        let mut reserved = Vec::new();
        for (&group, load) in groups.iter().zip(&loads) {
            let granted = load.reserved.min(left);
            left -= granted;
            reserved.push(granted);
            limit(&mut sim, group, granted, load.cap);
            let (poll, sleep) = (Nanos(load.poll), Nanos(load.sleep));
            for _ in 0..load.endless {
                sim.spawn(group, None, Nanos::ZERO, steady(poll));
            }
            for _ in 0..load.sleepers {
                sim.spawn(group, None, Nanos::ZERO, random((Nanos(500), poll), (Nanos(500), sleep), 3));
            }
        }
        sim.run_for(ms(20));
        let length = ms(200);
        let given = during(&mut sim, length, &groups);
        let longest = loads.iter().map(|l| l.poll).max().unwrap_or(0);
        for (i, (load, given)) in loads.iter().zip(&given).enumerate() {
            if load.cap > 0 {
                let cap = load.cap as f64 / 100.0;
                let most = cap * (length.0 + 50 * MS) as f64 + (workers as u64 * load.poll.max(100_000)) as f64;
                prop_assert!(*given as f64 <= most, "group {}: {} > {}", i, given, most);
            } else if load.sleepers == 0 {
                let floor = u64::from(reserved[i]).min(load.endless as u64);
                // It never comes and goes, so its workers are taken back but once, after the poll that ran then.
                let least = (floor * length.0).saturating_sub(floor * (2 * longest + 200_000));
                prop_assert!(*given >= least, "group {}: {} < {}", i, given, least);
            }
        }
        for (group, cap, reserve) in changes.iter().map(|c| (groups[c.0 % groups.len()], c.2, c.1)) {
            limit(&mut sim, group, reserve, cap);
            sim.run_for(ms(30));
        }
        for &group in &groups {
            limit(&mut sim, group, 0, 0);
        }
        sim.run_for(ms(100));
        let given = during(&mut sim, ms(100), &groups);
        for (load, given) in loads.iter().zip(given) {
            prop_assert!(load.endless == 0 || given > 0, "nobody is forgotten when all limits are gone");
        }
        prop_assert_eq!(sim.wasted(), Nanos::ZERO);
        let trace = sim.trace().expect("it was recorded");
        prop_assert!(replay(&trace).is_ok());
        prop_assert!(trace.to_string().parse().as_ref() == Ok(&trace));
    }
}
