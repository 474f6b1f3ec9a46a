//! Unit tests of the level's arithmetic; pure.

use super::*;
use std::collections::BTreeMap;

const BASE: Nanos = Nanos::from_millis(200);
const MS: u64 = 1_000_000;

fn q(id: u64) -> Stream {
    Stream::Query(QueryId(id))
}

#[test]
fn levels_begin_at_starrocks_thresholds() {
    let begins = [0, 200, 600, 1200, 2000, 3000, 4200, 5600];
    for (level, &ms) in begins.iter().enumerate() {
        assert_eq!(level_of(Nanos(ms * MS), BASE), level);
        assert_eq!(
            level_of(Nanos((ms * MS).saturating_sub(1)), BASE),
            level.saturating_sub(1)
        );
    }
    assert_eq!(level_of(Nanos::MAX, BASE), 7);
}

/// Serves 1 ms turns for `total` ms while every level of `full` always has a task; ms per level.
fn served(full: &[usize], total: u64) -> [u64; LEVELS] {
    let mut queue = Feedback::new(BASE);
    let age = |level: usize| {
        Nanos(if level == 0 {
            0
        } else {
            level_end(level - 1, BASE)
        })
    };
    for &level in full {
        queue.push(Stream::Loose, age(level), level);
    }
    let mut served = [0; LEVELS];
    for _ in 0..total {
        let turn = queue.begin().unwrap();
        let level = queue.take(turn).unwrap();
        queue.push(Stream::Loose, age(level), level);
        queue.charge(turn, Nanos(MS));
        served[level] += 1;
    }
    served
}

#[test]
fn full_levels_share_by_their_factors_and_none_starves() {
    let all = served(&[0, 1, 2, 3, 4, 5, 6, 7], 16_499);
    for (level, &got) in all.iter().enumerate() {
        assert!(got.abs_diff(FACTORS[level]) <= 1, "{all:?}");
    }
    let two = served(&[0, 7], 4_583);
    assert!(
        two[0].abs_diff(3583) <= 1 && two[7].abs_diff(1000) <= 1,
        "{two:?}"
    );
}

#[test]
fn a_level_that_was_empty_brings_half_a_base_of_credit_at_most() {
    let mut queue = Feedback::new(BASE);
    queue.push(Stream::Loose, Nanos(5600 * MS), 7);
    for _ in 0..10_000 {
        let turn = queue.begin().unwrap();
        queue.take(turn).unwrap();
        queue.push(Stream::Loose, Nanos(5600 * MS), 7);
        queue.charge(turn, Nanos(MS));
    }
    queue.push(Stream::Loose, Nanos::ZERO, 0);
    let mut in_a_row = 0;
    while let Some(turn) = queue.begin() {
        let level = queue.take(turn).unwrap();
        queue.charge(turn, Nanos(MS));
        queue.push(
            Stream::Loose,
            if level == 0 {
                Nanos::ZERO
            } else {
                Nanos(5600 * MS)
            },
            level,
        );
        if level == 7 {
            break;
        }
        in_a_row += 1;
    }
    assert!((100..=101).contains(&in_a_row), "{in_a_row} ms in a row");
}

#[test]
fn equal_queries_finish_one_after_the_other() {
    let mut queue = Feedback::new(BASE);
    let mut cpu = BTreeMap::from([(q(1), 0), (q(2), 0), (q(3), 0)]);
    for &stream in cpu.keys() {
        queue.push(stream, Nanos::ZERO, stream);
    }
    let mut order = Vec::new();
    while let Some(turn) = queue.begin() {
        let stream = queue.take(turn).unwrap();
        let used = cpu.get_mut(&stream).unwrap();
        *used += MS;
        queue.charge(turn, Nanos(MS));
        if *used == 150 * MS {
            order.push(stream);
        } else {
            queue.push(stream, Nanos(*used), stream);
        }
    }
    assert_eq!(order, [q(1), q(2), q(3)]);
    // The first one was done after 150 turns, not after 448 as with turns in rotation.
}

#[test]
fn endless_queries_take_turns_in_the_last_level() {
    let mut queue = Feedback::new(BASE);
    let mut cpu = BTreeMap::from([(q(1), 6_000 * MS), (q(2), 6_000 * MS)]);
    for (&stream, &used) in &cpu {
        queue.push(stream, Nanos(used), stream);
    }
    for _ in 0..300_000 {
        let turn = queue.begin().unwrap();
        let stream = queue.take(turn).unwrap();
        let used = cpu.get_mut(&stream).unwrap();
        *used += MS;
        queue.push(stream, Nanos(*used), stream);
        queue.charge(turn, Nanos(MS));
    }
    let (a, b) = (cpu[&q(1)], cpu[&q(2)]);
    let turn = LAST_SLICE * BASE.0;
    assert!(a.abs_diff(b) <= turn && a.min(b) > 2 * turn, "{a} {b}");
}

#[test]
fn tasks_without_a_query_take_every_other_turn() {
    let mut queue = Feedback::new(BASE);
    queue.push(q(1), Nanos::ZERO, 1);
    queue.push(Stream::Loose, Nanos::ZERO, 0);
    let mut served = [0, 0];
    for _ in 0..100 {
        let turn = queue.begin().unwrap();
        let kind = queue.take(turn).unwrap();
        served[kind] += 1;
        queue.push(turn.stream, Nanos::ZERO, kind);
        queue.charge(turn, Nanos(1));
    }
    assert_eq!(served, [50, 50]);
}

#[test]
fn a_task_given_back_unserved_keeps_its_place() {
    let mut queue = Feedback::new(BASE);
    queue.push(Stream::Loose, Nanos::ZERO, 1);
    queue.push(Stream::Loose, Nanos::ZERO, 2);
    let turn = queue.begin().unwrap();
    let first = queue.take(turn).unwrap();
    queue.charge(turn, Nanos::ZERO);
    queue.push_front(Stream::Loose, Nanos::ZERO, first);
    let turn = queue.begin().unwrap();
    assert_eq!([queue.take(turn), queue.take(turn)], [Some(1), Some(2)]);
    assert!(queue.is_empty());
}

mod keeping {
    //! A worker that keeps a task instead of queueing it serves what it would have been given.

    use super::*;
    use proptest::prelude::*;

    /// Stream (0 for tasks without a query), CPU time, and what the turn costs, in ms.
    type Step = (u64, u64, u64);

    fn stream(id: u64) -> Stream {
        if id == 0 { Stream::Loose } else { q(id) }
    }

    /// A queue after these tasks have come, each after a turn; and the turn that is due, its task taken.
    fn queue(steps: &[Step]) -> (Feedback<Step>, Turn, Step) {
        let mut queue = Feedback::new(BASE);
        for &step in steps {
            let (id, cpu, cost) = step;
            queue.push(stream(id), Nanos(cpu * MS), step);
            let turn = queue.begin().unwrap();
            let task = queue.take(turn).unwrap();
            queue.charge(turn, Nanos(cost * MS));
            queue.push(stream(task.0), Nanos(task.1 * MS), task);
        }
        let turn = queue.begin().unwrap();
        let task = queue.take(turn).unwrap();
        (queue, turn, task)
    }

    proptest! {
        #[test]
        fn what_is_due_is_what_would_be_begun(
            steps in proptest::collection::vec((0u64..5, 0u64..6_000, 0u64..400), 1..12),
            cost in 0u64..900,
        ) {
            let (mut kept, turn, task) = queue(&steps);
            kept.charge(turn, Nanos(cost * MS));
            let (due, waiting) = (kept.is_due(turn), kept.waiting(turn));
            let (mut queued, same, _) = queue(&steps);
            prop_assert_eq!(same, turn);
            queued.charge(turn, Nanos(cost * MS));
            queued.push(turn.stream, Nanos(task.1 * MS), task);
            let begun = queued.begin().unwrap();
            if due {
                prop_assert_eq!(begun, turn);
                if waiting == 0 {
                    prop_assert_eq!(queued.take(begun), Some(task));
                }
            } else if turn.level + 1 < LEVELS && begun == turn {
                // Both kinds wait in its level, and take turns.
                let level = &mut kept.levels[turn.level];
                prop_assert!(!level.loose.is_empty() || level.first().is_some());
            }
        }
    }

    #[test]
    fn what_only_has_to_be_dropped_goes_before_what_is_kept() {
        let mut queue = Feedback::new(BASE);
        queue.push(q(1), Nanos::ZERO, "runs");
        let turn = queue.begin().unwrap();
        assert_eq!(queue.take(turn), Some("runs"));
        queue.charge(turn, Nanos(MS));
        assert!(queue.is_due(turn));
        queue.push_urgent(q(2), "to be dropped");
        assert!(!queue.is_due(turn));
    }
}

impl<T> Feedback<T> {
    /// Turns that run now.
    pub(crate) fn turns(&self) -> u32 {
        self.running
    }

    /// What a level was charged.
    pub(crate) fn charged(&self, level: usize) -> Nanos {
        Nanos(self.heads[level].used * FACTORS[level] / 1000)
    }
}
