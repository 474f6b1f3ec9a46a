//! Unit tests of the level's arithmetic; pure.

use super::*;
use crate::sched::weight::Vtime;

const MS: u64 = 1_000_000;

fn fair(workers: usize) -> Fair {
    Fair::new(
        Config {
            slice: Nanos(100 * MS),
            min_charge: Nanos(0),
            ..Config::default()
        },
        workers,
    )
}

/// Runs `slices` fixed slices on one worker with all groups always queued; slices per group.
fn run(weights: &[u64], slices: usize) -> (Vec<usize>, Vec<u32>) {
    let mut fair = fair(1);
    let slots: Vec<Slot> = weights.iter().map(|&w| fair.add(Weight::new(w))).collect();
    for &slot in &slots {
        fair.wake(slot, Nanos(0), false);
    }
    let (mut counts, mut order) = (vec![0; weights.len()], Vec::new());
    let mut now = Nanos(0);
    for _ in 0..slices {
        let slot = fair.first().unwrap();
        let slice = fair.start(0, slot, now);
        now = slice.end;
        fair.stop(0, now, 1);
        counts[slot.0 as usize] += 1;
        order.push(slot.0);
    }
    (counts, order)
}

#[test]
fn fixed_slices_come_out_by_weight_exactly() {
    assert_eq!(run(&[2, 1], 30).0, [20, 10]);
    assert_eq!(run(&[1, 3, 4], 80).0, [10, 30, 40]);
    assert_eq!(run(&[2, 6, 8], 160).0, [20, 60, 80]);
    assert_eq!(run(&[2, 1], 6).1, [0, 1, 0, 0, 1, 0]);
}

/// A queue in which the given groups (weight, vruntime in ms) are queued.
fn queued(groups: &[(u64, u64)]) -> Fair {
    let mut fair = fair(1);
    for &(weight, v) in groups {
        let slot = fair.add(Weight::new(weight));
        fair.groups[slot.0 as usize].vruntime = Vtime::at(v * MS);
        fair.working += 1;
        fair.working_weight += weight;
        fair.requeue(slot);
    }
    fair
}

#[test]
fn a_returning_group_is_clamped_to_half_its_ideal_share() {
    let cases = [
        (&[(2, 1000)][..], 1, 0, 983_333_334),
        (&[(1, 1000)], 4, 0, 990_000_000),
        (&[(1, 1000), (2, 1500)], 1, 0, 975_000_000),
        (&[(2, 1000)], 1, 990 * MS, 990_000_000),
    ];
    for (others, weight, own, expected) in cases {
        let mut fair = queued(others);
        let slot = fair.add(Weight::new(weight));
        fair.groups[slot.0 as usize].vruntime = Vtime::at(own);
        fair.wake(slot, Nanos(0), false);
        assert_eq!(
            fair.vruntime(slot),
            Nanos(expected),
            "{others:?} + {weight}"
        );
    }
}

#[test]
fn a_group_that_ran_dry_is_compared_with_the_others_even_if_it_is_first_itself() {
    let [a, b] = [Slot(0), Slot(1)];
    let mut fair = queued(&[(1, 5), (1, 10)]);
    assert!(fair.is_behind_next(a) && !fair.is_behind_next(b));
    fair.dequeue(a);
    assert!(fair.is_behind_next(a));
    fair.dequeue(b);
    assert!(!fair.is_behind_next(a), "there is no other");
}

#[test]
fn a_new_weight_counts_from_now_on() {
    let mut fair = fair(1);
    let slot = fair.add(Weight::new(1));
    fair.wake(slot, Nanos(0), false);
    fair.start(0, slot, Nanos(0));
    fair.stop(0, Nanos(100 * MS), 1);
    assert_eq!(fair.vruntime(slot), Nanos(100 * MS));
    fair.set_weight(slot, Weight::new(4));
    fair.start(0, slot, Nanos(100 * MS));
    fair.stop(0, Nanos(200 * MS), 1);
    assert_eq!(fair.vruntime(slot), Nanos(125 * MS));
}

#[test]
fn vruntimes_near_the_end_of_the_range_are_rebased_and_keep_their_distance() {
    let mut fair = queued(&[(1, 0), (1, 0)]);
    let near = u64::MAX / 4;
    fair.groups[0].vruntime = Vtime::at(near);
    fair.groups[1].vruntime = Vtime::at(near - 5);
    fair.requeue(Slot(0));
    fair.requeue(Slot(1));
    for _ in 0..10 {
        let slot = fair.first().unwrap();
        fair.start(0, slot, Nanos(0));
        fair.stop(0, Nanos(10), 1);
    }
    let (a, b) = (fair.vruntime(Slot(0)).0, fair.vruntime(Slot(1)).0);
    assert!(a < 100 && b < 100 && a.abs_diff(b) <= 10, "{a} {b}");
    // One absurd charge cannot wrap either, and the other group is served from then on.
    fair.start(0, Slot(0), Nanos(0));
    fair.stop(0, Nanos::MAX, u64::MAX);
    assert_eq!(fair.first(), Some(Slot(1)));
}

#[test]
fn a_waking_group_preempts_the_worker_that_is_furthest_ahead() {
    let mut fair = fair(2);
    let (a, b, c) = (
        fair.add(Weight::new(1)),
        fair.add(Weight::new(1)),
        fair.add(Weight::new(1)),
    );
    fair.wake(a, Nanos(0), false);
    fair.start(0, a, Nanos(0));
    fair.wake(b, Nanos(0), false);
    fair.start(1, b, Nanos(10 * MS));
    assert_eq!(fair.wake(c, Nanos(50 * MS), true), Some(0));
    assert_eq!(fair.wake(c, Nanos(50 * MS), true), None, "already queued");
}

#[test]
fn a_group_with_work_is_not_removed() {
    let mut fair = fair(1);
    let a = fair.add(Weight::MIN);
    fair.wake(a, Nanos(0), false);
    assert!(!fair.remove(a));
    fair.dequeue(a);
    assert!(fair.remove(a));
    assert!(!fair.remove(a), "only once");
    assert_eq!(fair.add(Weight::MIN), a, "its place is used again");
}

#[test]
fn polls_too_short_to_be_measured_are_not_free() {
    let mut fair = Fair::new(Config::default(), 1);
    let [a, b] = [1, 2].map(|weight| fair.add(Weight::new(weight)));
    fair.wake(a, Nanos(0), false);
    fair.wake(b, Nanos(0), false);
    // A thousand polls in no time, and a thousand in far more than the least charge.
    for (slot, took) in [(a, 0), (b, MS)] {
        fair.start(0, slot, Nanos(0));
        fair.stop(0, Nanos(took), 1_000);
    }
    let least = 1_000 * Config::default().min_charge.0;
    assert_eq!(fair.vruntime(a), Nanos(least));
    assert_eq!(fair.vruntime(b), Nanos(MS / 2));
}

#[test]
fn a_slice_that_is_charged_while_it_runs_is_charged_once() {
    let mut fair = fair(1);
    let slot = fair.add(Weight::new(2));
    fair.wake(slot, Nanos(0), false);
    assert_eq!(fair.charge_running(0, Nanos(0)), None, "it runs nothing");
    fair.start(0, slot, Nanos(0));
    let charged = |charge: Option<Charge>| charge.unwrap().given;
    assert_eq!(
        charged(fair.charge_running(0, Nanos(6 * MS))),
        Nanos(6 * MS)
    );
    assert_eq!(fair.vruntime(slot), Nanos(3 * MS));
    assert_eq!(charged(fair.stop(0, Nanos(10 * MS), 1)), Nanos(4 * MS));
    assert_eq!(fair.vruntime(slot), Nanos(5 * MS));
}

#[test]
fn a_late_poll_is_charged_as_it_goes_on_and_once() {
    let mut fair = fair(1);
    let slot = fair.add(Weight::new(2));
    fair.wake(slot, Nanos(0), false);
    assert_eq!(
        fair.late(0, Nanos(0), Late::Computing),
        None,
        "it runs nothing"
    );
    fair.start(0, slot, Nanos(0));
    let mut given = Vec::new();
    for (at, does) in [
        (5, Late::Computing),
        (8, Late::Blocked),
        (20, Late::Computing),
    ] {
        given.push(fair.late(0, Nanos(at * MS), does).unwrap().given.0 / MS);
        assert_eq!(fair.is_late(0), Some(does));
        assert_eq!(fair.vruntime(slot), Nanos(at * MS / 2));
    }
    given.push(fair.stop(0, Nanos(100 * MS), 1).unwrap().given.0 / MS);
    assert_eq!(given, [5, 3, 12, 80]);
    assert_eq!(fair.vruntime(slot), Nanos(50 * MS));
    assert_eq!(fair.is_late(0), None);
}

#[test]
fn a_slice_that_ends_before_its_last_charge_is_charged_no_more() {
    // What was stolen of a poll counts for nobody: its slice may end, on the books, before it was looked at last.
    let mut fair = fair(1);
    let slot = fair.add(Weight::MIN);
    fair.wake(slot, Nanos(0), false);
    fair.start(0, slot, Nanos(0));
    fair.late(0, Nanos(20 * MS), Late::Computing);
    assert_eq!(
        fair.late(0, Nanos(15 * MS), Late::Computing).unwrap().given,
        Nanos(0)
    );
    assert_eq!(fair.stop(0, Nanos(18 * MS), 1).unwrap().given, Nanos(0));
    assert_eq!(fair.vruntime(slot), Nanos(20 * MS));
}

#[test]
fn a_spare_passes_over_the_groups_of_which_a_poll_is_late() {
    let mut fair = queued(&[(1, 0), (1, 1), (1, 2)]);
    let [a, b, c] = [Slot(0), Slot(1), Slot(2)];
    // When nobody is expected to be late any more.
    const AFTER: u64 = 2_000 * MS;
    let ranked = |fair: &Fair| (fair.first(), fair.first_in_time(Nanos(AFTER)));
    fair.start(0, a, Nanos(0));
    fair.late(0, Nanos(0), Late::Computing);
    assert_eq!(ranked(&fair).1, Some(b));
    // A blocked one takes nobody's CPU.
    fair.late(0, Nanos(0), Late::Blocked);
    assert_eq!(ranked(&fair), (fair.first(), fair.first()));
    fair.late(0, Nanos(0), Late::Computing);
    // A spare's own poll may be late too.
    let spare = 7;
    fair.start(spare, b, Nanos(0));
    fair.late(spare, Nanos(0), Late::Computing);
    assert_eq!(ranked(&fair).1, Some(c));
    fair.dequeue(c);
    assert_eq!(ranked(&fair).1, None);
    fair.stop(0, Nanos(0), 1);
    assert_eq!(ranked(&fair).1, Some(a));
    fair.stop(spare, Nanos(0), 1);
    assert!(fair.groups.iter().all(|group| group.late == 0));
}

#[test]
fn a_spare_adds_nothing_to_what_is_shared_out() {
    let mut fair = queued(&[(1, 0), (1, 0)]);
    let (level, workers) = (fair.level(Slot(0)), fair.workers.len());
    fair.start(5, Slot(1), Nanos(0));
    assert!(fair.workers.len() > workers);
    assert_eq!(fair.level(Slot(0)), level);
    assert_eq!(fair.stop(9, Nanos(0), 0), None, "it never had a slice");
}

#[test]
fn after_a_late_poll_the_next_ones_are_expected_to_be_late_for_a_second() {
    let mut fair = queued(&[(1, 0), (1, 1)]);
    let [a, b] = [Slot(0), Slot(1)];
    fair.start(0, a, Nanos(0));
    assert!(!fair.expect_late(0, Nanos(0)));
    fair.late(0, Nanos(10 * MS), Late::Computing);
    fair.stop(0, Nanos(100 * MS), 1);
    // Between its polls a spare does not serve it either.
    let now = Nanos(101 * MS);
    fair.dequeue(b);
    assert_eq!((fair.first(), fair.first_in_time(now)), (Some(a), None));
    fair.start(0, a, now);
    assert!(fair.expect_late(0, now));
    assert!(!fair.expect_late(0, now), "once per slice");
    assert_eq!(fair.is_late(0), Some(Late::Computing));
    // It was not found to be late: a second after the last time that is over.
    fair.stop(0, Nanos(102 * MS), 1);
    let later = Nanos(1_011 * MS);
    fair.start(0, a, later);
    assert!(!fair.expect_late(0, later));
    assert_eq!(fair.first_in_time(later), Some(a));
    assert_eq!(fair.groups[0].late, 0);
}

#[test]
fn polls_that_are_not_late_answer_for_one_that_was() {
    let mut fair = queued(&[(1, 0), (1, 1)]);
    let a = Slot(0);
    let slice = |fair: &mut Fair, now, polls| {
        fair.start(0, a, now);
        let expected = fair.expect_late(0, now);
        fair.stop(0, now, polls);
        expected
    };
    // A poll of 6 ms, found late at 5 and again at 6: as long as 120 polls of 50 µs.
    fair.start(0, a, Nanos(0));
    fair.late(0, Nanos(5 * MS), Late::Computing);
    fair.late(0, Nanos(6 * MS), Late::Computing);
    fair.stop(0, Nanos(6 * MS), 1);
    for poll in 1..120 {
        assert!(slice(&mut fair, Nanos(6 * MS), 1), "{poll}");
    }
    assert!(!slice(&mut fair, Nanos(6 * MS), 10_000));
    assert_eq!(fair.groups[0].late, 0);
}

#[test]
fn what_was_late_a_second_ago_is_not_held_against_a_poll_that_is_late_now() {
    let mut fair = queued(&[(1, 0), (1, 1)]);
    let a = Slot(0);
    // A poll of a minute, and after two quiet seconds one of 6 ms.
    for (began, length) in [(0, 60_000), (62_000, 6)] {
        fair.start(0, a, Nanos(began * MS));
        fair.late(0, Nanos((began + length) * MS), Late::Computing);
        fair.stop(0, Nanos((began + length) * MS), 1);
    }
    let now = Nanos(62_006 * MS);
    assert!(fair.is_notorious(a, now));
    fair.start(0, a, now);
    fair.stop(0, now, 119);
    assert!(!fair.is_notorious(a, now));
}

/// What decides: all but where a group was in the heap when it was in none.
fn state(fair: &Fair) -> String {
    let queued: Vec<Slot> = fair.queue.iter().map(Slot).collect();
    format!(
        "{queued:?} {:?} {:?} {:?} {} {} {} {} {}",
        fair.groups,
        fair.workers,
        fair.absent,
        fair.working,
        fair.working_weight,
        fair.claims_made,
        fair.horizon,
        fair.top
    )
}

#[test]
fn a_slice_of_what_a_worker_holds_is_what_the_steps_through_the_queue_come_to() {
    let mut rng = crate::sched::sim::Rng::new(7);
    let (mut short, mut long) = (fair(3), fair(3));
    for weight in [1, 3, 10] {
        for fair in [&mut short, &mut long] {
            let slot = fair.add(Weight::new(weight));
            fair.set_reserved(slot, u32::from(weight == 10));
        }
    }
    let (mut now, mut begun) = (Nanos(0), 0);
    for _ in 0..5_000 {
        now = now.plus(rng.time(Nanos(0), Nanos(150 * MS)));
        let slot = Slot(rng.between(0, 2) as u32);
        let worker = rng.between(0, 2) as usize;
        if long.served_by(worker).is_some() {
            assert_eq!(short.stop(worker, now, 1), long.stop(worker, now, 1));
        } else if rng.between(0, 9) == 0 {
            // Somebody else's task: in the queue, and out of it again when nobody finds any.
            assert_eq!(short.wake(slot, now, true), long.wake(slot, now, true));
        } else if long.queued_groups() > 0 {
            assert_eq!(short.start_held(worker, slot, now), None);
            let first = long.first().unwrap();
            short.dequeue(first);
            long.dequeue(first);
        } else {
            begun += 1;
            long.wake(slot, now, false);
            assert_eq!(long.first(), Some(slot));
            let slice = long.start(worker, slot, now);
            long.dequeue(slot);
            assert_eq!(short.start_held(worker, slot, now), Some(slice));
        }
        assert_eq!(state(&short), state(&long));
    }
    assert!(begun > 1_000, "{begun}");
}

#[test]
fn a_group_with_a_cap_takes_its_place_in_the_queue_whatever_is_held_of_it() {
    let mut fair = fair(1);
    let slot = fair.add(Weight::new(1));
    fair.set_cap(slot, Some(crate::unit::Cores::from_f64(0.5)), Nanos(0));
    assert_eq!(fair.start_held(0, slot, Nanos(0)), None);
    fair.set_cap(slot, None, Nanos(0));
    assert!(fair.start_held(0, slot, Nanos(0)).is_some());
}
