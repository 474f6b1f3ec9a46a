//! Who starts, who waits, who is refused: the policy in virtual time, exactly, and against a naive model.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use quotient::admission::policy::Standing;
use quotient::admission::{
    Answer, Decision, GovernorLimits, GroupLimits, Order, Policy, Refusal, WaitReason,
};
use quotient::unit::{GroupId, Nanos, QueryId};
use std::collections::BTreeMap;

const A: GroupId = GroupId(10_001);
const B: GroupId = GroupId(10_002);
const C: GroupId = GroupId(10_003);

/// The type is said: with a crate that compares numbers with its own values, it cannot be guessed.
const NOBODY: [u64; 0] = [];

/// A policy of requests that are known by their number, at a time that only the test moves.
struct Scene {
    policy: Policy<u64>,
    now: Nanos,
    next: u64,
}

impl Scene {
    fn new(groups: &[(GroupId, GroupLimits)]) -> Scene {
        let mut policy = Policy::new();
        for &(id, limits) in groups {
            policy.register(id, id.to_string().into(), limits, Nanos::ZERO);
        }
        Scene {
            policy,
            now: Nanos::ZERO,
            next: 1,
        }
    }

    fn at(&mut self, millis: u64) -> &mut Scene {
        self.now = Nanos::from_millis(millis);
        self
    }

    fn arrive(&mut self, group: GroupId) -> Decision {
        let id = self.next;
        self.next += 1;
        self.policy.arrive(group, QueryId(id), self.now, || id)
    }

    /// So many arrive; all of them get in or wait, in the order of their numbers.
    fn fill(&mut self, group: GroupId, count: u64) {
        for _ in 0..count {
            assert!(!matches!(self.arrive(group), Decision::Reject(_)));
        }
    }

    /// The numbers of those that start now.
    fn started(&mut self) -> Vec<u64> {
        let answers = self.policy.take_answers();
        let started = answers.iter().filter_map(|(id, answer)| match answer {
            Answer::Admit { .. } => Some(*id),
            _ => None,
        });
        let started: Vec<u64> = started.collect();
        assert_eq!(started.len(), answers.len(), "{answers:?}");
        started
    }

    fn leave(&mut self, group: GroupId) -> Vec<u64> {
        self.policy.leave(group, self.now);
        self.started()
    }

    fn alter(&mut self, group: GroupId, limits: GroupLimits) -> Vec<u64> {
        assert!(self.policy.set_limits(group, limits, self.now));
        self.started()
    }

    fn govern(&mut self, runner_threads: u64, order: Order) -> Vec<u64> {
        let limits = GovernorLimits {
            runner_threads: Some(runner_threads),
            order,
            throttle: None,
        };
        self.policy.set_governor(limits, self.now);
        self.started()
    }

    /// What the list of those that wait says: number, reason, "n of m".
    fn list(&self) -> Vec<(u64, WaitReason, u64, u64)> {
        let line = self.policy.waiting();
        line.map(|it| (*it.payload, it.reason, it.position, it.queued))
            .collect()
    }

    fn running(&self, group: GroupId) -> u64 {
        self.policy.group(group).map_or(0, |group| group.running)
    }
}

fn limits(concurrency_limit: u64, max_queued_queries: u64) -> GroupLimits {
    GroupLimits {
        concurrency_limit: Some(concurrency_limit),
        max_queued_queries,
        ..GroupLimits::default()
    }
}

fn waits(reason: WaitReason, position: u64, queued: u64) -> impl Fn(Decision) -> bool {
    move |decision| match decision {
        Decision::Wait(Standing {
            reason: r,
            position: p,
            queued: q,
            ..
        }) => (r, p, q) == (reason, position, queued),
        _ => false,
    }
}

fn full(limit: u64, running: u64) -> Decision {
    Decision::Reject(Refusal::Concurrency {
        limit,
        running,
        retry_after: None,
    })
}

// ---- a group alone -----------------------------------------------------------------------------------------------

#[test]
fn a_group_without_waiting_places_refuses_with_its_numbers() {
    let mut scene = Scene::new(&[(A, limits(2, 0))]);
    assert_eq!(scene.arrive(A), Decision::Admit);
    assert_eq!(scene.arrive(A), Decision::Admit);
    assert_eq!(scene.arrive(A), full(2, 2));
    assert_eq!(scene.policy.try_arrive(A, Nanos::ZERO), full(2, 2));
    assert_eq!(scene.leave(A), NOBODY);
    assert_eq!(scene.arrive(A), Decision::Admit);
    let group = scene.policy.group(A).unwrap();
    assert_eq!((group.running, group.running_peak), (2, 2));
    assert_eq!(
        (group.counts.admitted, group.counts.rejected.concurrency),
        (3, 2)
    );
}

#[test]
fn an_absent_limit_and_zero_are_unlimited() {
    for limit in [None, Some(0)] {
        let mut scene = Scene::new(&[(A, limit.into())]);
        for _ in 0..1_000 {
            assert_eq!(scene.arrive(A), Decision::Admit);
        }
        scene.alter(A, Some(1).into());
        assert_eq!(scene.arrive(A), full(1, 1_000));
        scene.alter(A, limit.into());
        assert_eq!(scene.arrive(A), Decision::Admit);
    }
}

#[test]
fn a_group_lets_so_many_wait_and_the_next_one_hears_that_the_queue_is_full() {
    let mut scene = Scene::new(&[(A, limits(1, 2))]);
    assert_eq!(scene.arrive(A), Decision::Admit);
    assert!(waits(WaitReason::GroupLimit, 1, 1)(scene.arrive(A)));
    assert!(waits(WaitReason::GroupLimit, 2, 2)(scene.arrive(A)));
    let expected = Refusal::QueueFull {
        limit: 2,
        queued: 2,
        retry_after: None,
    };
    assert_eq!(scene.arrive(A), Decision::Reject(expected));
    assert_eq!(scene.leave(A), [2]);
    assert!(waits(WaitReason::GroupLimit, 2, 2)(scene.arrive(A)));
    assert_eq!(scene.leave(A), [3]);
    let group = scene.policy.group(A).unwrap();
    assert_eq!((group.queued, group.queued_peak), (1, 2));
    assert_eq!(group.counts.rejected.queue, 1);
    assert_eq!((group.counts.admitted, group.counts.waited.place), (3, 2));
}

#[test]
fn who_never_waits_is_refused_while_others_wait() {
    let mut scene = Scene::new(&[(A, limits(1, 9))]);
    scene.fill(A, 3);
    assert_eq!(scene.policy.try_arrive(A, Nanos::ZERO), full(1, 1));
    assert_eq!(scene.leave(A), [2], "the place goes to the line");
    let refused = scene.policy.try_arrive(A, Nanos::ZERO);
    assert!(matches!(
        refused,
        Decision::Reject(Refusal::Concurrency { .. })
    ));
}

#[test]
fn a_raised_limit_starts_as_many_as_fit_at_once() {
    let mut scene = Scene::new(&[(A, limits(1, 100))]);
    scene.fill(A, 51);
    assert_eq!(
        scene.alter(A, limits(11, 100)),
        (2..=11).collect::<Vec<_>>()
    );
    let all = GroupLimits::default();
    assert_eq!(scene.alter(A, all), (12..=51).collect::<Vec<_>>());
    assert_eq!(scene.list(), []);
}

#[test]
fn a_lowered_limit_ends_nobody_and_none_starts_until_below_it() {
    let mut scene = Scene::new(&[(A, limits(4, 8))]);
    scene.fill(A, 6);
    assert_eq!(scene.alter(A, limits(2, 0)), NOBODY);
    assert_eq!(scene.running(A), 4);
    assert_eq!(scene.arrive(A), full(2, 4), "no new places to wait");
    assert_eq!(scene.leave(A), NOBODY);
    assert_eq!(scene.leave(A), NOBODY);
    assert_eq!(scene.leave(A), [5], "those that wait keep their places");
    assert_eq!(scene.leave(A), [6]);
}

#[test]
fn whoever_leaves_the_line_lets_the_others_move_up() {
    let mut scene = Scene::new(&[(A, limits(1, 9))]);
    scene.fill(A, 4);
    assert_eq!(scene.policy.withdraw(QueryId(3)), Some(3));
    assert_eq!(scene.policy.withdraw(QueryId(3)), None);
    assert_eq!(
        scene.list(),
        [
            (2, WaitReason::GroupLimit, 1, 2),
            (4, WaitReason::GroupLimit, 2, 2)
        ]
    );
    assert_eq!(scene.leave(A), [2]);
    assert_eq!(scene.policy.withdraw(QueryId(2)), None, "it runs");
    assert_eq!(scene.leave(A), [4]);
    assert_eq!(scene.policy.group(A).unwrap().counts.cancelled.place, 1);
}

// ---- deadlines -----------------------------------------------------------------------------------------------------

fn timed(limit: u64, timeout_ms: u64) -> GroupLimits {
    GroupLimits {
        queue_timeout: Nanos::from_millis(timeout_ms),
        ..limits(limit, 100)
    }
}

#[test]
fn one_deadline_from_arrival_covers_the_whole_wait() {
    let mut scene = Scene::new(&[(A, timed(1, 1_000))]);
    scene.govern(1, Order::RoundRobin);
    scene.fill(A, 1);
    scene.at(200).fill(A, 1);
    // First it waits for the group, later for the governor: the clock is not set back.
    scene.at(600).alter(A, timed(5, 1_000));
    assert_eq!(scene.list(), [(2, WaitReason::GovernorLimit, 1, 1)]);
    scene.at(1_199).policy.expire(Nanos::from_millis(1_199));
    assert_eq!(scene.policy.take_answers(), []);
    scene.at(1_200).policy.expire(Nanos::from_millis(1_200));
    let told = Answer::TimedOut {
        group: "10001".into(),
        waited: Nanos::from_millis(1_000),
        reason: WaitReason::GovernorLimit,
        retry_after: None,
    };
    assert_eq!(scene.policy.take_answers(), [(2, told)]);
    let group = scene.policy.group(A).unwrap();
    assert_eq!((group.queued, group.counts.timed_out.place), (0, 1));
    assert_eq!(scene.leave(A), NOBODY);
}

#[test]
fn a_shorter_timeout_binds_those_that_wait_already_and_each_first_is_told() {
    let mut scene = Scene::new(&[(A, timed(1, 60_000))]);
    scene.fill(A, 3);
    let now = scene.now;
    assert!(scene.policy.set_limits(A, timed(1, 1_000), now));
    assert_eq!(scene.policy.take_answers(), [(2, Answer::Sooner)]);
    assert_eq!(scene.policy.deadline(QueryId(2)), Some(Nanos::from_secs(1)));
    assert!(scene.policy.set_limits(A, timed(1, 1_000), now));
    assert_eq!(scene.policy.take_answers(), [], "once is enough");
    assert_eq!(scene.policy.withdraw(QueryId(2)), Some(2));
    assert_eq!(scene.policy.take_answers(), [(3, Answer::Sooner)]);
    scene.policy.expire(Nanos::from_secs(1));
    assert_eq!(scene.policy.take_answers().len(), 1);
}

#[test]
fn a_longer_timeout_lets_those_that_wait_go_on() {
    let mut scene = Scene::new(&[(A, timed(1, 1_000))]);
    scene.fill(A, 2);
    scene.alter(A, timed(1, 5_000));
    scene.policy.expire(Nanos::from_millis(4_999));
    assert_eq!(scene.policy.take_answers(), []);
    assert_eq!(scene.policy.deadline(QueryId(2)), Some(Nanos::from_secs(5)));
}

// ---- the governor's limit --------------------------------------------------------------------------------------------

#[test]
fn freed_places_go_round_the_groups_and_in_order_inside_each() {
    let mut scene = Scene::new(&[(A, None.into()), (B, None.into())]);
    scene.govern(1, Order::RoundRobin);
    scene.fill(A, 100);
    scene.fill(B, 2);
    // A has had the last turn, so B is next, however many of A wait.
    let served: Vec<u64> = (0..6)
        .flat_map(|turn| scene.leave(if turn % 2 == 1 && turn < 4 { B } else { A }))
        .collect();
    assert_eq!(served, [101, 2, 102, 3, 4, 5]);
}

#[test]
fn first_come_first_served_over_everything() {
    for order in [Order::Fcfs, Order::RoundRobin] {
        let mut scene = Scene::new(&[(A, None.into()), (B, None.into()), (C, None.into())]);
        scene.govern(1, order);
        for group in [C, A, A, A, B, C] {
            scene.fill(group, 1);
        }
        let (mut last, mut served) = (C, Vec::new());
        for _ in 0..5 {
            let next = scene.leave(last)[0];
            last = [C, A, A, A, B, C][next as usize - 1];
            served.push(next);
        }
        let expected = match order {
            Order::Fcfs => [2, 3, 4, 5, 6],
            Order::RoundRobin => [2, 5, 6, 3, 4],
        };
        assert_eq!(served, expected, "{order:?}");
    }
}

#[test]
fn a_group_at_its_own_limit_is_passed_over_and_holds_up_nobody() {
    for order in [Order::Fcfs, Order::RoundRobin] {
        let mut scene = Scene::new(&[(A, limits(1, 100)), (B, None.into())]);
        scene.govern(2, order);
        scene.fill(A, 3);
        scene.fill(B, 3);
        assert_eq!(
            scene
                .list()
                .iter()
                .map(|it| (it.0, it.1))
                .collect::<Vec<_>>(),
            [
                (2, WaitReason::GroupLimit),
                (3, WaitReason::GroupLimit),
                (5, WaitReason::GovernorLimit),
                (6, WaitReason::GovernorLimit),
            ]
        );
        assert_eq!(scene.leave(B), [5], "{order:?}");
        assert_eq!(scene.leave(B), [6]);
        assert_eq!(scene.leave(B), NOBODY);
        assert_eq!(scene.leave(A), [2]);
    }
}

#[test]
fn as_many_start_as_fit_when_the_governor_gets_room() {
    let mut scene = Scene::new(&[(A, limits(2, 9)), (B, None.into())]);
    scene.govern(1, Order::RoundRobin);
    scene.fill(A, 4);
    scene.fill(B, 4);
    assert_eq!(scene.govern(5, Order::RoundRobin), [5, 2, 6, 7]);
    assert_eq!((scene.running(A), scene.running(B)), (2, 3));
    assert_eq!(
        scene.govern(0, Order::RoundRobin),
        [8],
        "0 is no limit; A has its own"
    );
}

#[test]
fn a_change_of_order_binds_those_that_wait() {
    let mut scene = Scene::new(&[(A, None.into()), (B, None.into())]);
    scene.govern(1, Order::RoundRobin);
    scene.fill(A, 3);
    scene.fill(B, 2);
    scene.govern(1, Order::Fcfs);
    assert_eq!(scene.leave(A), [2]);
    scene.govern(1, Order::RoundRobin);
    assert_eq!(scene.leave(A), [4]);
}

#[test]
fn waiting_for_the_governor_takes_no_waiting_place_of_the_group() {
    // Two may run, none may wait for the group: two wait for the governor, the third is refused.
    let mut scene = Scene::new(&[(A, limits(2, 0)), (B, None.into())]);
    scene.govern(1, Order::RoundRobin);
    scene.fill(B, 1);
    assert!(waits(WaitReason::GovernorLimit, 1, 1)(scene.arrive(A)));
    assert!(waits(WaitReason::GovernorLimit, 2, 2)(scene.arrive(A)));
    let Decision::Reject(Refusal::QueueFull { limit, queued, .. }) = scene.arrive(A) else {
        panic!("it waits")
    };
    assert_eq!((limit, queued), (2, 2));
    // Without a limit of the group there is none on who waits for the governor, unless the group sets one.
    scene.fill(B, 1_000);
    let bounded = GroupLimits {
        max_queued_queries: 1_001,
        ..GroupLimits::default()
    };
    scene.alter(B, bounded);
    scene.fill(B, 1);
    assert!(matches!(
        scene.arrive(B),
        Decision::Reject(Refusal::QueueFull {
            limit: 1_001,
            queued: 1_001,
            ..
        })
    ));
}

#[test]
fn who_never_waits_hears_of_the_governors_limit() {
    let mut scene = Scene::new(&[(A, limits(2, 9)), (B, None.into())]);
    scene.govern(1, Order::RoundRobin);
    scene.fill(B, 1);
    let expected = Refusal::Governor {
        limit: 1,
        running: 1,
        retry_after: None,
    };
    assert_eq!(
        scene.policy.try_arrive(A, Nanos::ZERO),
        Decision::Reject(expected)
    );
}

// ---- groups that go -------------------------------------------------------------------------------------------------

#[test]
fn those_that_wait_in_a_removed_group_wait_on_and_start_and_then_it_is_forgotten() {
    let mut scene = Scene::new(&[(A, limits(1, 9))]);
    scene.fill(A, 3);
    assert!(scene.policy.remove(A));
    assert!(!scene.policy.remove(A), "it is gone already");
    assert!(!scene.policy.set_limits(A, limits(9, 9), Nanos::ZERO));
    assert_eq!(scene.arrive(A), Decision::Reject(Refusal::Unknown));
    assert_eq!(scene.leave(A), [2]);
    assert!(scene.policy.group(A).unwrap().draining);
    assert_eq!(scene.policy.withdraw(QueryId(3)), Some(3));
    assert!(scene.policy.group(A).is_some(), "one still runs");
    assert_eq!(scene.leave(A), NOBODY);
    assert_eq!(scene.policy.group(A), None);
    assert_eq!(scene.policy.groups().count(), 0);
}

#[test]
fn the_last_that_waits_in_a_removed_group_ends_it_too() {
    let mut scene = Scene::new(&[(A, timed(1, 1_000)), (B, None.into())]);
    scene.govern(1, Order::RoundRobin);
    scene.fill(B, 1);
    scene.fill(A, 2);
    assert!(scene.policy.remove(A));
    assert_eq!(scene.policy.withdraw(QueryId(2)), Some(2));
    assert!(scene.policy.group(A).is_some());
    scene.policy.expire(Nanos::from_secs(1));
    assert_eq!(scene.policy.group(A), None);
}

#[test]
fn a_group_that_comes_back_while_it_drains_keeps_places_line_and_counters() {
    let mut scene = Scene::new(&[(A, limits(1, 9))]);
    scene.fill(A, 2);
    assert!(scene.policy.remove(A));
    scene
        .policy
        .register(A, "a2".into(), limits(1, 0), Nanos::ZERO);
    assert_eq!(scene.arrive(A), full(1, 1));
    let group = scene.policy.group(A).unwrap();
    assert_eq!(
        (&*group.name, group.counts.admitted, group.queued),
        ("a2", 1, 1)
    );
    assert!(!group.draining);
    assert_eq!(scene.leave(A), [2]);
}

#[test]
fn the_numbers_of_a_group_that_was_retired_stay_until_it_is_forgotten() {
    let counts = |scene: &Scene| Some(scene.policy.group(A)?.counts.admitted);
    for forgotten_first in [false, true] {
        let mut scene = Scene::new(&[(A, limits(1, 9)), (B, None.into())]);
        scene.fill(A, 1);
        assert!(scene.policy.retire(A) && !scene.policy.retire(A));
        if forgotten_first {
            scene.policy.forget(A);
            assert_eq!(counts(&scene), Some(1), "one still runs");
            scene.leave(A);
        } else {
            scene.leave(A);
            assert_eq!(counts(&scene), Some(1));
            scene.policy.forget(A);
        }
        assert_eq!(counts(&scene), None);
    }
    // Retired, and made again: it is removed as any other one.
    let mut scene = Scene::new(&[(A, limits(1, 9))]);
    assert!(scene.policy.retire(A));
    scene
        .policy
        .register(A, "again".into(), limits(1, 0), Nanos::ZERO);
    assert!(scene.policy.remove(A));
    assert_eq!(counts(&scene), None);
}

#[test]
fn what_a_forgotten_group_counted_passes_to_its_namesake() {
    let mut scene = Scene::new(&[(A, limits(1, 0)), (B, None.into())]);
    scene
        .policy
        .register(A, "same".into(), limits(1, 0), Nanos::ZERO);
    scene
        .policy
        .register(B, "same".into(), None.into(), Nanos::ZERO);
    scene.fill(A, 1);
    assert_eq!(scene.arrive(A), full(1, 1));
    assert!(scene.policy.remove(A));
    scene.leave(A);
    let heir = scene.policy.group(B).unwrap();
    assert_eq!(
        (heir.counts.admitted, heir.counts.rejected.concurrency),
        (1, 1)
    );
    assert_eq!(heir.waits.buckets.iter().sum::<u64>(), 1);
}

#[test]
fn closing_tells_everybody_who_waits_and_lets_everybody_leave() {
    let mut scene = Scene::new(&[(A, limits(1, 9)), (B, None.into())]);
    scene.fill(A, 3);
    scene.policy.close();
    assert_eq!(
        scene.policy.take_answers(),
        [(2, Answer::Closed), (3, Answer::Closed)]
    );
    assert_eq!(scene.arrive(B), Decision::Reject(Refusal::Closed));
    assert_eq!(scene.leave(A), NOBODY);
    let group = scene.policy.group(A).unwrap();
    assert_eq!(
        (group.running, group.queued, group.counts.rejected.shutdown),
        (0, 0, 2)
    );
}

// ---- when to come back ------------------------------------------------------------------------------------------------

#[test]
fn a_refusal_says_when_a_place_is_probably_free() {
    let mut scene = Scene::new(&[(A, limits(2, 1))]);
    scene.fill(A, 3);
    for turn in 1..=4 {
        scene.at(turn * 100).leave(A);
        scene.fill(A, 1);
    }
    // A place comes free every 100 ms, the last one 40 ms ago: the one that waits is served in 60 ms.
    let Decision::Reject(refusal) = scene.at(440).arrive(A) else {
        panic!("it waits")
    };
    let expected = Refusal::QueueFull {
        limit: 1,
        queued: 1,
        retry_after: Some(Nanos::from_millis(60)),
    };
    assert_eq!(refusal, expected);
    let now = scene.now;
    let Decision::Reject(Refusal::Concurrency { retry_after, .. }) =
        scene.policy.try_arrive(A, now)
    else {
        panic!("it starts")
    };
    assert_eq!(
        retry_after,
        Some(Nanos::from_millis(160)),
        "behind the one that waits"
    );
}

// ---- many -------------------------------------------------------------------------------------------------------------

#[test]
fn a_hundred_thousand_that_wait_cost_memory_not_time() {
    const MANY: u64 = 100_000;
    let groups: Vec<(GroupId, GroupLimits)> =
        (0..100).map(|g| (GroupId(g), limits(1, MANY))).collect();
    let mut scene = Scene::new(&groups);
    scene.govern(50, Order::RoundRobin);
    let started = std::time::Instant::now();
    for id in 0..MANY {
        scene.fill(GroupId(id % 100), 1);
    }
    let filled = started.elapsed();
    let mut running: Vec<GroupId> = (0..50).map(GroupId).collect();
    for turn in 0..1_000 {
        let group = running.remove(0);
        scene.at(turn).policy.leave(group, Nanos::from_millis(turn));
        for (_, answer) in scene.policy.take_answers() {
            if let Answer::Admit { group } = answer {
                running.push(group);
            }
        }
        assert_eq!(running.len(), 50);
    }
    let short = scene.policy.queued();
    // 3 000 places in the line change hands in less than it took to fill it: far from one look at everybody each.
    for id in 60_000..62_000 {
        assert!(scene.policy.withdraw(QueryId(id)).is_some());
    }
    assert_eq!(scene.policy.queued(), short - 2_000);
    assert!(
        started.elapsed() < filled * 5,
        "{:?} and {filled:?}",
        started.elapsed()
    );
}

// ---- a naive model ------------------------------------------------------------------------------------------------------

#[derive(Clone, Debug)]
enum Act {
    Arrive(u64),
    Try(u64),
    Leave(u64),
    Withdraw(usize),
    Pass(u64),
    Alter(u64, u64, u64, u64),
    Govern(u64, bool),
    Register(u64),
    Remove(u64),
    Close,
}

fn act() -> impl Strategy<Value = Act> {
    let group = || 0..4u64;
    prop_oneof![
        40 => group().prop_map(Act::Arrive),
        5 => group().prop_map(Act::Try),
        30 => group().prop_map(Act::Leave),
        6 => (0..30usize).prop_map(Act::Withdraw),
        10 => (0..400u64).prop_map(Act::Pass),
        8 => (group(), 0..4u64, 0..5u64, 1..2_000u64).prop_map(|(g, l, q, t)| Act::Alter(g, l, q, t)),
        4 => (0..6u64, any::<bool>()).prop_map(|(n, fcfs)| Act::Govern(n, fcfs)),
        2 => group().prop_map(Act::Register),
        2 => group().prop_map(Act::Remove),
        1 => Just(Act::Close),
    ]
}

/// Every fact as a list in the order in which it happened; every question asked by looking at all of them.
#[derive(Default)]
struct Model {
    /// Limit (0 = none), waiting places, timeout in ms; of groups that were ever there.
    limits: BTreeMap<u64, (u64, u64, u64)>,
    present: Vec<u64>,
    /// The group of each running query.
    running: Vec<u64>,
    /// Groups in the order of places given.
    turns: Vec<u64>,
    /// Number, group and arrival of those that wait.
    line: Vec<(u64, u64, u64)>,
    runner_threads: u64,
    fcfs: bool,
    closed: bool,
    now: u64,
    expected: Vec<(u64, &'static str)>,
}

impl Model {
    fn runs(&self, group: u64) -> u64 {
        self.running.iter().filter(|it| **it == group).count() as u64
    }

    fn queued(&self, group: u64) -> u64 {
        self.line.iter().filter(|it| it.1 == group).count() as u64
    }

    fn group_full(&self, group: u64) -> bool {
        let limit = self.limits[&group].0;
        limit > 0 && self.runs(group) >= limit
    }

    fn governor_full(&self) -> bool {
        self.runner_threads > 0 && self.running.len() as u64 >= self.runner_threads
    }

    fn give(&mut self, group: u64) {
        self.running.push(group);
        self.turns.push(group);
    }

    fn arrive(&mut self, id: u64, group: u64, waits: bool) -> &'static str {
        if self.closed {
            return "closed";
        }
        if !self.present.contains(&group) {
            return "unknown";
        }
        if !self.group_full(group) && !self.governor_full() {
            self.give(group);
            return "admit";
        }
        let (limit, places, _) = self.limits[&group];
        let runs = self.runs(group);
        let room = match (limit, places) {
            (0, 0) => true,
            (0, places) => self.queued(group) < places,
            (_, places) => runs + self.queued(group) < limit.max(runs) + places,
        };
        match (waits, room) {
            (true, true) => {
                self.line.push((id, group, self.now));
                "wait"
            }
            (true, false) if places == 0 && self.group_full(group) => "concurrency",
            (true, false) => "queue",
            (false, _) if self.group_full(group) => "concurrency",
            (false, _) => "governor",
        }
    }

    fn settle(&mut self) {
        loop {
            if self.closed || self.governor_full() {
                return;
            }
            let heads: Vec<(usize, u64)> = (0..4)
                .filter_map(|group| Some((self.line.iter().position(|it| it.1 == group)?, group)))
                .filter(|(_, group)| !self.group_full(*group))
                .collect();
            let last_turn = |group: u64| {
                self.turns
                    .iter()
                    .rposition(|it| *it == group)
                    .map_or(0, |at| at + 1)
            };
            let next = heads.into_iter().min_by_key(|&(at, group)| {
                if self.fcfs {
                    (at, 0)
                } else {
                    (last_turn(group), group)
                }
            });
            let Some((at, group)) = next else { return };
            let (id, ..) = self.line.remove(at);
            self.give(group);
            self.expected.push((id, "admit"));
        }
    }

    fn expire(&mut self) {
        let (now, limits) = (self.now, &self.limits);
        let over = |it: &(u64, u64, u64)| it.2 + limits[&it.1].2 <= now;
        let mut gone: Vec<_> = self.line.iter().filter(|it| over(it)).copied().collect();
        gone.sort_by_key(|it| (it.2 + limits[&it.1].2, it.1, it.0));
        self.line.retain(|it| !over(it));
        self.expected
            .extend(gone.iter().map(|it| (it.0, "timed out")));
    }

    /// A group that is neither there nor has anybody has no past.
    fn forget(&mut self) {
        for group in 0..4 {
            if !self.present.contains(&group) && self.runs(group) + self.queued(group) == 0 {
                self.limits.remove(&group);
                self.turns
                    .iter_mut()
                    .filter(|it| **it == group)
                    .for_each(|it| *it = u64::MAX);
            }
        }
    }
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Admit => "admit",
        Decision::Wait(_) => "wait",
        Decision::Reject(Refusal::Concurrency { .. }) => "concurrency",
        Decision::Reject(Refusal::QueueFull { .. }) => "queue",
        Decision::Reject(Refusal::Governor { .. }) => "governor",
        Decision::Reject(Refusal::Unknown) => "unknown",
        Decision::Reject(Refusal::Closed) => "closed",
        other => panic!("{other:?}"),
    }
}

fn history(acts: &[Act]) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    let mut policy: Policy<u64> = Policy::new();
    let mut next = 0;
    for act in acts {
        let now = Nanos::from_millis(model.now);
        match *act {
            Act::Arrive(group) => {
                next += 1;
                let decided = policy.arrive(GroupId(group), QueryId(next), now, || next);
                let expected = model.arrive(next, group, true);
                prop_assert_eq!(word(&decided), expected);
                if let Decision::Wait(standing) = decided {
                    prop_assert_eq!(standing.position, model.queued(group));
                }
            }
            Act::Try(group) => {
                next += 1;
                let decided = policy.try_arrive(GroupId(group), now);
                prop_assert_eq!(word(&decided), model.arrive(next, group, false));
            }
            Act::Leave(group) => {
                if let Some(at) = model.running.iter().position(|it| *it == group) {
                    model.running.remove(at);
                    policy.leave(GroupId(group), now);
                    model.settle();
                }
            }
            Act::Withdraw(at) => {
                let id = model.line.get(at).map_or(u64::MAX, |it| it.0);
                model.line.retain(|it| it.0 != id);
                let withdrawn = policy.withdraw(QueryId(id));
                prop_assert_eq!(withdrawn, (id != u64::MAX).then_some(id));
            }
            Act::Pass(ms) => {
                model.now += ms;
                policy.expire(Nanos::from_millis(model.now));
                model.expire();
            }
            Act::Alter(group, limit, places, timeout) => {
                let limits = GroupLimits {
                    concurrency_limit: Some(limit),
                    max_queued_queries: places,
                    queue_timeout: Nanos::from_millis(timeout),
                };
                let there = policy.set_limits(GroupId(group), limits, now);
                prop_assert_eq!(there, model.present.contains(&group));
                if there {
                    model.limits.insert(group, (limit, places, timeout));
                    model.settle();
                }
            }
            Act::Govern(runner_threads, fcfs) => {
                let order = if fcfs { Order::Fcfs } else { Order::RoundRobin };
                let limits = GovernorLimits {
                    runner_threads: Some(runner_threads),
                    order,
                    throttle: None,
                };
                policy.set_governor(limits, now);
                (model.runner_threads, model.fcfs) = (runner_threads, fcfs);
                model.settle();
            }
            Act::Register(group) => {
                policy.register(GroupId(group), "g".into(), limits(1, 2), now);
                if !model.present.contains(&group) {
                    model.present.push(group);
                }
                model.limits.insert(group, (1, 2, 300_000));
                model.settle();
            }
            Act::Remove(group) => {
                let there = policy.remove(GroupId(group));
                prop_assert_eq!(there, model.present.contains(&group));
                model.present.retain(|it| *it != group);
            }
            Act::Close => {
                policy.close();
                model.closed = true;
                model.line.sort_by_key(|it| (it.1, it.0));
                let told: Vec<_> = model.line.drain(..).map(|it| (it.0, "closed")).collect();
                model.expected.extend(told);
            }
        }
        model.forget();
        let answers = policy.take_answers();
        let told: Vec<_> = answers
            .iter()
            .filter_map(|(id, answer)| match answer {
                Answer::Admit { .. } => Some((*id, "admit")),
                Answer::TimedOut { .. } => Some((*id, "timed out")),
                Answer::Closed => Some((*id, "closed")),
                _ => None,
            })
            .collect();
        prop_assert_eq!(told, std::mem::take(&mut model.expected));
        for group in 0..4 {
            let seen = policy.group(GroupId(group));
            let (running, queued) = seen.map_or((0, 0), |seen| (seen.running, seen.queued));
            prop_assert_eq!((running, queued), (model.runs(group), model.queued(group)));
        }
        let mut line: Vec<u64> = policy.waiting().map(|it| *it.payload).collect();
        line.sort_unstable();
        let mut expected: Vec<u64> = model.line.iter().map(|it| it.0).collect();
        expected.sort_unstable();
        prop_assert_eq!(line, expected);
    }
    Ok(())
}

#[test]
fn random_histories_equal_a_naive_model() {
    let config = ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let begin: Vec<Act> = (0..4).map(Act::Register).collect();
    runner
        .run(&proptest::collection::vec(act(), 0..150), |rest| {
            history(&[begin.clone(), rest].concat())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
