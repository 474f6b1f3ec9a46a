//! The promises about shares, in virtual time: the policy that the workers run, driven by simulated workers.

#[path = "support/simulated.rs"]
mod simulated;

use quotient::sched::Config;
use quotient::sched::fair::Slot;
use quotient::sched::sim::{Rng, Setup, Sim, Step, Then, bursts, job, random};
use quotient::unit::Nanos;
use simulated::{MS, check_return, during, load, ms, sim, us};

#[test]
fn fixed_slices_come_out_by_weight_exactly() {
    let cases: [(&[u64], u64, &[u64]); 3] = [
        (&[2, 1], 30, &[20, 10]),
        (&[1, 3, 4], 80, &[10, 30, 40]),
        (&[2, 6, 8], 160, &[20, 60, 80]),
    ];
    for (weights, slices, expected) in cases {
        for poll in [100, 1] {
            let config = Config {
                slice: ms(100),
                min_charge: Nanos::ZERO,
                // A slice also ends where a task outgrows its level; none does.
                level_base: Nanos::from_secs(1_000),
                ..Config::default()
            };
            let mut sim = Sim::new(Setup {
                workers: 1,
                config,
                ..Setup::default()
            });
            let groups: Vec<Slot> = weights.iter().map(|&w| sim.group(w)).collect();
            for &group in &groups {
                load(&mut sim, group, 3, ms(0), ms(poll));
            }
            sim.run_until(ms(slices * 100));
            let given: Vec<u64> = groups
                .iter()
                .map(|&g| sim.given(g).0 / (100 * MS))
                .collect();
            assert_eq!(given, expected, "polls of {poll} ms");
        }
    }
}

#[test]
fn shares_come_out_by_weight_on_any_number_of_workers() {
    for workers in [1, 2, 3, 8, 32] {
        let mut sim = sim(workers);
        let groups = [sim.group(1), sim.group(3), sim.group(4)];
        for (group, poll) in groups.into_iter().zip([50, 20, 400]) {
            load(&mut sim, group, 4 * workers, ms(0), us(poll));
        }
        sim.run_until(ms(500));
        for (group, share) in groups.into_iter().zip([1, 3, 4]) {
            let fair = 500 * MS * workers as u64 * share / 8;
            let error = sim.given(group).0.abs_diff(fair) as f64 / fair as f64;
            assert!(error <= 0.003, "{workers} workers: {error}");
        }
        assert_eq!(sim.wasted(), Nanos::ZERO);
    }
}

#[test]
fn long_polls_gain_nothing_over_short_ones() {
    // Exact lengths, and lengths that drift out of phase.
    for jitter in [0, 1] {
        for (workers, weights) in [(2, [1, 1]), (2, [2, 1]), (4, [1, 3])] {
            let mut sim = sim(workers);
            let groups = [sim.group(weights[0]), sim.group(weights[1])];
            for (group, length) in groups.into_iter().zip([20 * MS, MS]) {
                for _ in 0..16 {
                    let low = Nanos(length - jitter * length / 4);
                    let work = random((low, Nanos(length)), (ms(0), ms(0)), u64::MAX);
                    sim.spawn(group, None, ms(0), work);
                }
            }
            sim.run_until(Nanos::from_secs(60));
            let (a, b) = (sim.given(groups[0]).0 as f64, sim.given(groups[1]).0 as f64);
            let fair = weights[0] as f64 / (weights[0] + weights[1]) as f64;
            let error = (a / (a + b) / fair - 1.0).abs();
            assert!(error <= 0.001, "{workers} workers, {weights:?}: {error}");
            for (group, weight) in groups.into_iter().zip(weights) {
                let half_ideal = 50 * MS * weight / (weights[0] + weights[1]);
                let bound = workers as u64 * 20 * MS + half_ideal;
                let worst = sim.worst_lag(group);
                assert!(worst.0 <= bound, "{workers} workers, {weights:?}: {worst}");
            }
        }
    }
}

#[test]
fn every_second_is_shared_exactly_with_short_polls_and_closely_with_long_ones() {
    // Polls of both groups in µs, and how far a group may be from its share, as a part of all worker time. (Two polls of
    // 20 ms more or less at the ends of a second are 2 % of two workers.)
    for (polls, tolerance) in [
        ([20, 20], 0.01),
        ([1_000, 50], 0.01),
        ([20_000, 1_000], 0.02),
    ] {
        for weights in [[1, 1], [2, 1], [1, 2]] {
            let mut sim = sim(2);
            let groups = weights.map(|weight| sim.group(weight));
            for (group, poll) in groups.into_iter().zip(polls) {
                load(&mut sim, group, 8, ms(0), us(poll));
            }
            sim.run_for(ms(1_000));
            for second in 1..=5 {
                let given = during(&mut sim, ms(1_000), &groups);
                let share = weights[0] as f64 / (weights[0] + weights[1]) as f64;
                let error = (given[0] as f64 / (2_000 * MS) as f64 - share).abs();
                assert!(
                    error <= tolerance,
                    "polls {polls:?}, weights {weights:?}, second {second}: {error}"
                );
            }
        }
    }
}

#[test]
fn a_group_whose_tasks_all_run_keeps_what_long_polls_of_others_owe_it() {
    // Five tasks for the 4.5 workers that weight 12 of 16 is entitled to: often nothing of it is queued.
    for (workers, weights, tasks) in [
        (6, [4, 12], [3, 5]),
        (6, [4, 12], [30, 5]),
        (3, [1, 2], [2, 3]),
    ] {
        let mut sim = sim(workers);
        let groups = weights.map(|w| sim.group(w));
        load(&mut sim, groups[0], tasks[0], ms(0), ms(20));
        load(&mut sim, groups[1], tasks[1], ms(0), ms(1));
        sim.run_until(Nanos::from_secs(60));
        for group in groups {
            let (given, entitled) = (sim.given(group).0, sim.entitled(group).0);
            let error = given.abs_diff(entitled) as f64 / entitled as f64;
            assert!(error <= 0.001, "{given} of {entitled}");
            assert!(sim.worst_lag(group).0 <= workers as u64 * 20 * MS + 50 * MS);
        }
    }
}

#[test]
fn a_group_that_runs_all_it_can_gains_no_credit_beside_groups_that_need_even_less() {
    // Eight workers: weight 6 needs one of its six, so weight 1 has all of its three tasks running, more than
    // its one eighth, and less than it is entitled to.
    let mut sim = sim(8);
    let (x, y, z) = (sim.group(1), sim.group(1), sim.group(6));
    load(&mut sim, x, 3, ms(0), us(100));
    load(&mut sim, y, 1_000, ms(0), us(100));
    load(&mut sim, z, 1, ms(0), us(100));
    load(&mut sim, x, 1_000, ms(3_000), us(100));
    sim.run_until(ms(3_000));
    assert_eq!(sim.given(x), ms(9_000));
    let given = during(&mut sim, ms(100), &[x, y, z]);
    // Half of what x and y share, and half of 100 ms × 2 × 1 ÷ 8 of credit.
    assert!(given[0] <= 350 * MS + 12_500_000, "{given:?}");
}

#[test]
fn a_returning_group_gets_at_most_60_percent_of_its_first_100_ms_and_shuts_nobody_out() {
    for (workers, most) in [(1, 0.65), (2, 0.60), (4, 0.60), (16, 0.60)] {
        for poll in [20, 200, 1_000] {
            let mut sim = sim(workers);
            let groups = [sim.group(1), sim.group(1)];
            load(&mut sim, groups[0], 64, ms(0), us(poll));
            load(&mut sim, groups[1], 64, ms(1_000), us(poll));
            sim.run_until(ms(1_000));
            let mut first = 0;
            for _ in 0..20 {
                let given = during(&mut sim, ms(5), &groups);
                let other = given[0] as f64 / (given[0] + given[1]) as f64;
                // One poll more or less at each end of the window.
                let poll_part = (poll * 1_000) as f64 / (5 * MS) as f64;
                assert!(
                    other >= 0.3 - poll_part,
                    "{workers} workers, {poll} µs: {other}"
                );
                first += given[1];
            }
            let share = first as f64 / (100 * MS * workers as u64) as f64;
            assert!(
                share <= most,
                "{workers} workers, polls of {poll} µs: {share}"
            );
            assert!(share > 0.5, "the credit counts: {share}");
            let unserved = sim.longest_unserved(groups[0]);
            assert!(unserved <= us(2 * poll.max(100)), "{unserved}");
        }
    }
}

#[test]
fn coming_and_going_all_the_time_earns_no_more_than_staying() {
    // 5 ms of work for 4 tasks, then 1 to 30 ms away, over and over, against a group that always has work.
    for away in [1, 3, 10, 30] {
        let mut sim = sim(2);
        let (stays, goes) = (sim.group(1), sim.group(1));
        load(&mut sim, stays, 8, ms(0), us(50));
        for _ in 0..4 {
            sim.spawn(goes, None, ms(0), bursts(100, us(50), ms(away)));
        }
        sim.run_until(Nanos::from_secs(8));
        let share = sim.given(goes).0 as f64 / (16_000 * MS) as f64;
        assert!(share <= 0.505, "away for {away} ms: {share}");
    }
}

#[test]
fn a_heavy_group_with_one_task_gains_no_credit_beside_a_thousand_tasks() {
    for workers in [2, 4] {
        let mut sim = sim(workers);
        let (one, many) = (sim.group(10), sim.group(1));
        load(&mut sim, one, 1, ms(0), us(100));
        load(&mut sim, many, 1_000, ms(0), us(100));
        load(&mut sim, one, 1_000, ms(10_000), us(100));
        sim.run_until(ms(10_000));
        assert_eq!(sim.given(one), ms(10_000), "its one task always ran");
        check_return(&mut sim, workers, [one, many], 0, 200);
    }
}

#[test]
fn a_group_that_was_blocked_with_work_gains_no_credit() {
    for workers in [1, 2, 4] {
        let mut sim = sim(workers);
        let (heavy, other) = (sim.group(10), sim.group(1));
        load(&mut sim, heavy, 1_000, ms(0), us(100));
        load(&mut sim, other, 1_000, ms(0), us(100));
        sim.run_until(ms(100));
        sim.block(heavy);
        let given = during(&mut sim, ms(10_000), &[heavy, other]);
        assert!(given[0] <= 100_000 * workers as u64, "the polls that ran");
        sim.unblock(heavy);
        check_return(&mut sim, workers, [heavy, other], 0, 200);
    }
}

#[test]
fn weight_1_is_not_starved_beside_10_000() {
    for workers in [1, 4] {
        let mut sim = sim(workers);
        let (light, heavy) = (sim.group(1), sim.group(10_000));
        load(&mut sim, light, 8, ms(0), us(100));
        load(&mut sim, heavy, 8, ms(0), us(100));
        sim.run_until(Nanos::from_secs(10));
        // A slice of the light one is worth 10 000 slices of the heavy one: one second of one worker. Its
        // first turn may be two slices, as its average poll is not known then.
        let most = 1_100 * MS / workers as u64 * 2;
        let unserved = sim.longest_unserved(light);
        assert!(unserved.0 <= most, "{workers} workers: {unserved}");
        let fair = 10_000 * MS * workers as u64 / 10_001;
        let given = sim.given(light).0;
        assert!(
            given.abs_diff(fair) <= 200_000 * workers as u64,
            "{given} of {fair}"
        );
    }
}

#[test]
fn an_empty_system_forgets_who_was_ahead() {
    let mut sim = sim(2);
    let (a, b) = (sim.group(1), sim.group(1));
    for _ in 0..4 {
        sim.spawn(a, None, ms(0), job(ms(1_000), us(50)));
    }
    load(&mut sim, b, 4, ms(5_000), us(50));
    load(&mut sim, a, 4, ms(5_001), us(50));
    sim.run_until(ms(5_001));
    let given = during(&mut sim, ms(100), &[a, b]);
    assert!(
        given[0].abs_diff(given[1]) <= 26 * MS,
        "a credit at most: {given:?}"
    );
    assert!(sim.longest_unserved(a) <= us(100));
}

#[test]
fn a_woken_task_runs_on_the_idle_worker_while_its_waker_computes() {
    for latency in [0, 30] {
        let mut sim = Sim::new(Setup {
            wake_latency: us(latency),
            ..Setup::default()
        });
        let group = sim.group(1);
        let other = sim.group(1);
        for woken_group in [group, other] {
            let at = sim.now();
            let woken = sim.spawn_waiting(woken_group, None, job(us(10), us(10)));
            let waker = move |_: &mut Rng| Step {
                poll: ms(100),
                wake: Some(woken),
                then: Then::Done,
            };
            sim.spawn(group, None, at, waker);
            sim.run_for(ms(200));
            let done = sim.finished(woken).expect("it ran").since(at);
            assert_eq!(
                done,
                us(2 * latency + 10),
                "the waker's worker and its own get up"
            );
        }
        assert_eq!(sim.wasted(), us(4 * latency));
    }
}

#[test]
fn a_small_job_waits_for_one_poll_beside_a_thousand_tasks() {
    for (workers, poll) in [(2, 1_000), (2, 100), (4, 5_000)] {
        let mut sim = sim(workers);
        let (small, big) = (sim.group(1), sim.group(1));
        load(&mut sim, big, 1_000, ms(0), us(poll));
        let mut rng = Rng::new(11);
        let (mut at, mut jobs) = (ms(100), Vec::new());
        while at < ms(5_000) {
            jobs.push((at, sim.spawn(small, None, at, job(us(50), us(50)))));
            at = at.plus(us(1_000)).plus(rng.gap(us(1_000)));
        }
        sim.run_until(ms(5_100));
        for (at, task) in jobs {
            let took = sim.finished(task).expect("it ran").since(at);
            assert!(
                took <= us(poll + 2 * 50),
                "{workers} workers, polls of {poll} µs: {took}"
            );
        }
    }
}

#[test]
fn a_new_weight_changes_the_shares_at_once() {
    let mut sim = sim(2);
    let groups = [sim.group(1), sim.group(1)];
    for group in groups {
        load(&mut sim, group, 8, ms(0), us(50));
    }
    sim.run_until(ms(1_000));
    sim.set_weight(groups[0], 4);
    for _ in 0..10 {
        let given = during(&mut sim, ms(10), &groups);
        assert!(given[0].abs_diff(16 * MS) <= 300_000, "{given:?}");
    }
}

#[test]
fn a_thousand_groups_share_256_workers() {
    let mut sim = sim(256);
    let groups: Vec<Slot> = (0..1_000).map(|i| sim.group(1 + i % 10)).collect();
    for (i, &group) in groups.iter().enumerate() {
        load(&mut sim, group, 2, ms(0), us(50));
        if i % 8 == 0 {
            sim.spawn(group, None, ms(0), bursts(3, us(30), ms(2)));
        }
    }
    sim.run_until(ms(20));
    let given: u64 = groups.iter().map(|&g| sim.given(g).0).sum();
    assert_eq!(given, 256 * 20 * MS, "no worker was ever idle");
    assert_eq!(sim.wasted(), Nanos::ZERO);
    for &group in &groups {
        let worst = sim.worst_lag(group);
        assert!(worst <= us(1_000), "{worst}");
        let given = sim.given(group);
        assert!(given > Nanos::ZERO);
    }
}
