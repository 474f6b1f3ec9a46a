//! The contract of admission: never more than the limit, never a place lost, every refusal with its numbers.

use proptest::prelude::*;
use quotient::admission::{AdmissionError, Decision, Gate, Permit, Policy, WaitReason};
use quotient::unit::{Bytes, GroupId};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

const A: GroupId = GroupId(10_001);
const B: GroupId = GroupId(10_002);

fn gate(limit: Option<u64>) -> Gate {
    let gate = Gate::new();
    gate.register(A, "a", limit);
    gate
}

fn running(gate: &Gate) -> u64 {
    gate.group(A).map_or(0, |group| group.running)
}

// ---- the policy, exactly -------------------------------------------------------------------------------------

#[test]
fn a_group_admits_up_to_its_limit_and_then_says_the_numbers() {
    let mut policy = Policy::new();
    policy.register(A, "a".into(), Some(2));
    assert_eq!(policy.arrive(A), Decision::Admit);
    assert_eq!(policy.arrive(A), Decision::Admit);
    let full = Decision::Reject {
        limit: 2,
        running: 2,
    };
    assert_eq!(policy.arrive(A), full);
    assert_eq!(policy.arrive(A), full);
    policy.leave(A);
    assert_eq!(policy.arrive(A), Decision::Admit);
    let group = policy.group(A).expect("a group");
    assert_eq!((group.running, group.running_peak), (2, 2));
    assert_eq!((group.admitted, group.rejected.concurrency), (3, 2));
}

#[test]
fn an_absent_limit_and_zero_are_unlimited() {
    for limit in [None, Some(0)] {
        let mut policy = Policy::new();
        policy.register(A, "a".into(), limit);
        for _ in 0..1_000 {
            assert_eq!(policy.arrive(A), Decision::Admit);
        }
        assert!(policy.set_limit(A, Some(1)));
        assert_eq!(
            policy.arrive(A),
            Decision::Reject {
                limit: 1,
                running: 1_000
            }
        );
        assert!(policy.set_limit(A, limit));
        assert_eq!(policy.arrive(A), Decision::Admit);
    }
}

#[test]
fn groups_do_not_take_each_others_places() {
    let mut policy = Policy::new();
    policy.register(A, "a".into(), Some(1));
    policy.register(B, "b".into(), Some(1));
    assert_eq!(policy.arrive(A), Decision::Admit);
    assert_eq!(policy.arrive(B), Decision::Admit);
    policy.leave(A);
    assert_eq!(
        policy.arrive(B),
        Decision::Reject {
            limit: 1,
            running: 1
        }
    );
    assert_eq!(policy.arrive(A), Decision::Admit);
}

#[test]
fn a_lowered_limit_ends_nobody_and_none_starts_until_below_it() {
    let mut policy = Policy::new();
    policy.register(A, "a".into(), Some(4));
    for _ in 0..4 {
        assert_eq!(policy.arrive(A), Decision::Admit);
    }
    assert!(policy.set_limit(A, Some(2)));
    for running in [4, 3, 2] {
        assert_eq!(policy.arrive(A), Decision::Reject { limit: 2, running });
        policy.leave(A);
    }
    assert_eq!(policy.arrive(A), Decision::Admit);
    assert!(policy.set_limit(A, Some(3)));
    assert_eq!(policy.arrive(A), Decision::Admit);
    assert_eq!(
        policy.arrive(A),
        Decision::Reject {
            limit: 3,
            running: 3
        }
    );
}

#[test]
fn a_removed_group_counts_until_its_last_query_ends_and_is_then_forgotten() {
    let mut policy = Policy::new();
    policy.register(A, "a".into(), Some(2));
    assert_eq!(policy.arrive(A), Decision::Admit);
    assert_eq!(policy.arrive(A), Decision::Admit);
    assert!(policy.remove(A));
    assert!(!policy.remove(A), "it is gone already");
    assert!(!policy.set_limit(A, Some(9)));
    assert_eq!(policy.arrive(A), Decision::Unknown);
    policy.leave(A);
    let group = policy.group(A).expect("it drains");
    assert!(group.draining);
    assert_eq!((group.running, group.admitted), (1, 2));
    policy.leave(A);
    assert_eq!(policy.group(A), None);
    assert_eq!(policy.groups().count(), 0);
    policy.register(B, "b".into(), None);
    assert!(policy.remove(B), "an idle one goes at once");
    assert_eq!(policy.group(B), None);
}

#[test]
fn a_group_that_comes_back_while_it_drains_keeps_places_and_counters() {
    let mut policy = Policy::new();
    policy.register(A, "a".into(), Some(2));
    assert_eq!(policy.arrive(A), Decision::Admit);
    assert!(policy.remove(A));
    policy.register(A, "a2".into(), Some(1));
    assert_eq!(
        policy.arrive(A),
        Decision::Reject {
            limit: 1,
            running: 1
        }
    );
    let group = policy.group(A).expect("a group");
    assert_eq!((&*group.name, group.admitted), ("a2", 1));
    assert!(!group.draining);
    policy.leave(A);
    assert_eq!(policy.arrive(A), Decision::Admit);
}

#[test]
fn a_closed_policy_admits_nothing_and_lets_everything_leave() {
    let mut policy = Policy::new();
    policy.register(A, "a".into(), None);
    assert_eq!(policy.arrive(A), Decision::Admit);
    policy.close();
    assert_eq!(policy.arrive(A), Decision::Closed);
    assert_eq!(policy.arrive(B), Decision::Closed);
    policy.register(B, "b".into(), None);
    assert_eq!(policy.arrive(B), Decision::Closed);
    policy.leave(A);
    let group = policy.group(A).expect("a group");
    assert_eq!((group.running, group.rejected.shutdown), (0, 1));
}

// ---- random histories against a model ---------------------------------------------------------------------------

#[derive(Clone, Debug)]
enum Step {
    Arrive(u64),
    Leave(u64),
    SetLimit(u64, u64),
    Register(u64, u64),
    Remove(u64),
    Share(u64),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let group = || 0..3u64;
    prop_oneof![
        400 => group().prop_map(Step::Arrive),
        350 => group().prop_map(Step::Leave),
        60 => (group(), 0..5u64).prop_map(|(group, limit)| Step::SetLimit(group, limit)),
        30 => (group(), 0..5u64).prop_map(|(group, limit)| Step::Register(group, limit)),
        20 => group().prop_map(Step::Remove),
        30 => group().prop_map(Step::Share),
        1 => Just(Step::Close),
    ]
}

/// The model keeps every living place as an item of a list and every fact in words.
#[derive(Default)]
struct Model {
    places: Vec<u64>,
    /// Registered groups and their limit, 0 = none.
    limits: BTreeMap<u64, u64>,
    admitted: BTreeMap<u64, u64>,
    refused: BTreeMap<u64, u64>,
    closed: bool,
}

impl Model {
    fn running(&self, group: u64) -> u64 {
        self.places.iter().filter(|&&one| one == group).count() as u64
    }

    /// A group without a registration or a place has no history.
    fn forget(&mut self, group: u64) {
        if !self.limits.contains_key(&group) && self.running(group) == 0 {
            self.admitted.remove(&group);
            self.refused.remove(&group);
        }
    }

    fn arrive(&mut self, group: u64) -> Decision {
        if self.closed {
            return Decision::Closed;
        }
        let Some(&limit) = self.limits.get(&group) else {
            return Decision::Unknown;
        };
        let running = self.running(group);
        if limit != 0 && running >= limit {
            *self.refused.entry(group).or_default() += 1;
            return Decision::Reject { limit, running };
        }
        self.places.push(group);
        *self.admitted.entry(group).or_default() += 1;
        Decision::Admit
    }
}

fn history(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    let gate = Gate::new();
    let mut permits: BTreeMap<u64, Vec<Permit>> = BTreeMap::new();
    let id = |group: u64| GroupId(10_001 + group);
    for step in steps {
        match *step {
            Step::Arrive(group) => {
                let expected = model.arrive(group);
                let decided = match gate.try_admit(id(group)) {
                    Ok(permit) => {
                        permits.entry(group).or_default().push(permit);
                        Decision::Admit
                    }
                    Err(AdmissionError::Rejected { limit, running, .. }) => {
                        Decision::Reject { limit, running }
                    }
                    Err(AdmissionError::UnknownGroup { .. }) => Decision::Unknown,
                    Err(AdmissionError::ShuttingDown) => Decision::Closed,
                    Err(other) => return Err(TestCaseError::fail(other.to_string())),
                };
                prop_assert_eq!(decided, expected);
            }
            Step::Leave(group) => {
                // The last permit of a place frees it; one of several sharers does not.
                if let Some(permit) = permits.get_mut(&group).and_then(Vec::pop)
                    && permit.sharers() == 1
                {
                    let at = model.places.iter().position(|&one| one == group);
                    model
                        .places
                        .remove(at.expect("the model has the place too"));
                    model.forget(group);
                }
            }
            Step::SetLimit(group, limit) => {
                let there = gate.set_limit(id(group), Some(limit));
                prop_assert_eq!(there, model.limits.contains_key(&group));
                model.limits.entry(group).and_modify(|old| *old = limit);
            }
            Step::Register(group, limit) => {
                gate.register(id(group), format!("g{group}"), Some(limit));
                model.limits.insert(group, limit);
            }
            Step::Remove(group) => {
                let there = gate.remove(id(group));
                prop_assert_eq!(there, model.limits.remove(&group).is_some());
                model.forget(group);
            }
            Step::Share(group) => {
                if let Some(permits) = permits.get_mut(&group)
                    && let Some(shared) = permits.first().map(Permit::share)
                {
                    permits.push(shared);
                }
            }
            Step::Close => {
                gate.close();
                model.closed = true;
            }
        }
        for group in 0..3 {
            let seen = gate.group(id(group));
            let known = model.limits.contains_key(&group) || model.running(group) > 0;
            prop_assert_eq!(seen.is_some(), known);
            if let Some(seen) = seen {
                prop_assert_eq!(seen.running, model.running(group));
                let count = |counts: &BTreeMap<u64, u64>| counts.get(&group).copied();
                prop_assert_eq!(seen.admitted, count(&model.admitted).unwrap_or(0));
                prop_assert_eq!(
                    seen.rejected.concurrency,
                    count(&model.refused).unwrap_or(0)
                );
                prop_assert_eq!(seen.draining, !model.limits.contains_key(&group));
            }
        }
    }
    drop(permits);
    for group in gate.groups() {
        prop_assert_eq!(group.running, 0);
        prop_assert!(!group.draining);
    }
    Ok(())
}

#[test]
fn random_histories_of_the_gate_equal_the_model() {
    let config = ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let begin = (1..4u64, 1..4u64).prop_map(|(a, b)| [Step::Register(0, a), Step::Register(1, b)]);
    let strategy = (begin, proptest::collection::vec(step(), 0..200));
    runner
        .run(&strategy, |(begin, rest)| {
            history(&[begin.to_vec(), rest].concat())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_hundred_thousand_sequences_of_arrive_leave_and_alter_equal_the_model() {
    let (mut admitted, mut refused) = (0u64, 0u64);
    for seed in 0..100_000u64 {
        // splitmix64: every seed is a history of its own.
        let mut state = seed;
        let mut below = |bound: u64| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (z ^ (z >> 31)) % bound
        };
        let mut policy = Policy::new();
        // Per group: limit (0 = none) and places taken.
        let mut model = [(0u64, 0u64); 2];
        for (group, (limit, _)) in (0..).zip(&mut model) {
            *limit = below(4);
            policy.register(GroupId(group), "g".into(), Some(*limit));
        }
        for step in 0..24 {
            let at = below(2);
            let (limit, running) = &mut model[at as usize];
            match below(10) {
                0..=4 => {
                    let expected = if *limit == 0 || *running < *limit {
                        *running += 1;
                        admitted += 1;
                        Decision::Admit
                    } else {
                        refused += 1;
                        Decision::Reject {
                            limit: *limit,
                            running: *running,
                        }
                    };
                    let decided = policy.arrive(GroupId(at));
                    assert_eq!(decided, expected, "seed {seed}, step {step}");
                }
                5..=7 => {
                    if *running > 0 {
                        *running -= 1;
                        policy.leave(GroupId(at));
                    }
                }
                _ => {
                    *limit = below(4);
                    assert!(policy.set_limit(GroupId(at), Some(*limit)));
                }
            }
        }
        for (group, (_, running)) in (0..).zip(&model) {
            let seen = policy.group(GroupId(group)).map(|group| group.running);
            assert_eq!(seen, Some(*running), "seed {seed}");
        }
    }
    assert!(
        admitted > 500_000 && refused > 100_000,
        "{admitted} {refused}"
    );
}

// ---- permits ---------------------------------------------------------------------------------------------------

#[test]
fn a_permit_can_go_anywhere() {
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Permit>();
    anywhere::<Gate>();
    anywhere::<AdmissionError>();
}

#[test]
fn a_dropped_permit_gives_the_place_to_the_next() {
    let gate = gate(Some(1));
    let first = gate.try_admit(A).expect("a place");
    assert!(gate.try_admit(A).is_err());
    drop(first);
    assert!(gate.try_admit(A).is_ok());
    assert_eq!(running(&gate), 0, "the second was dropped at once");
}

#[test]
fn a_hundred_panics_lose_no_place() {
    let gate = gate(Some(2));
    for _ in 0..100 {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _outer = gate.try_admit(A).expect("a place");
            let inner = gate.try_admit(A).expect("a place");
            let _shared = inner.share();
            // As panic!, but for the message on the terminal.
            resume_unwind(Box::new("the work failed"));
        }));
        assert!(outcome.is_err());
        assert_eq!(running(&gate), 0);
    }
    assert_eq!(gate.group(A).expect("a group").admitted, 200);
}

#[test]
fn a_place_is_free_when_the_last_sharer_ends_whoever_that_is() {
    let gate = gate(Some(1));
    let parent = gate.try_admit(A).expect("a place");
    let child = parent.share();
    let grandchild = child.share();
    assert_eq!((running(&gate), parent.sharers()), (1, 3));
    drop(parent);
    drop(child);
    assert_eq!(running(&gate), 1);
    assert!(gate.try_admit(A).is_err());
    drop(grandchild);
    assert_eq!(running(&gate), 0);
    let group = gate.group(A).expect("a group");
    assert_eq!((group.admitted, group.nested), (1, 2));
}

#[test]
fn a_permit_outlives_its_group_and_the_gates_handles() {
    let gate = gate(Some(1));
    let permit = gate.try_admit(A).expect("a place");
    assert!(gate.remove(A));
    let shared = permit.share();
    drop(permit);
    assert!(gate.group(A).is_some_and(|group| group.draining));
    drop(shared);
    assert_eq!(gate.groups(), []);
    gate.register(B, "b", Some(1));
    let late = gate.try_admit(B).expect("a place");
    drop(gate);
    drop(late);
}

#[test]
fn a_closing_gate_refuses_and_lets_what_runs_end_and_nest() {
    let gate = gate(Some(1));
    let permit = gate.try_admit(A).expect("a place");
    gate.close();
    gate.close();
    assert_eq!(gate.try_admit(A).err(), Some(AdmissionError::ShuttingDown));
    let nested = permit.share();
    drop(permit);
    assert_eq!(running(&gate), 1);
    drop(nested);
    assert_eq!(running(&gate), 0);
    assert_eq!(gate.try_admit(A).err(), Some(AdmissionError::ShuttingDown));
    assert_eq!(gate.group(A).expect("a group").rejected.shutdown, 2);
}

// ---- many threads ----------------------------------------------------------------------------------------------

/// Counts what is inside, from the inside.
#[derive(Default)]
struct Room {
    now: AtomicU64,
    most: AtomicU64,
    admitted: AtomicU64,
    refused: AtomicU64,
}

impl Room {
    fn visit(&self, gate: &Gate, turn: u64) {
        match gate.try_admit(A) {
            Ok(permit) => {
                let inside = self.now.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(inside, Ordering::SeqCst);
                self.admitted.fetch_add(1, Ordering::Relaxed);
                let last = match turn % 3 {
                    0 => permit,
                    1 => permit.share(),
                    _ => {
                        std::thread::yield_now();
                        permit
                    }
                };
                self.now.fetch_sub(1, Ordering::SeqCst);
                drop(last);
            }
            Err(AdmissionError::Rejected { limit, running, .. }) => {
                assert!(running >= limit);
                self.refused.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn racing_threads_never_exceed_the_limit_and_end_at_zero() {
    let (threads, turns) = (8u64, 5_000u64);
    for limit in [1, 3] {
        let (gate, room) = (gate(Some(limit)), Room::default());
        let start = Barrier::new(threads as usize);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (gate, room, start) = (&gate, &room, &start);
                scope.spawn(move || {
                    start.wait();
                    (0..turns).for_each(|turn| room.visit(gate, thread + turn));
                });
            }
        });
        let group = gate.group(A).expect("a group");
        assert_eq!((group.running, room.now.into_inner()), (0, 0));
        assert!(room.most.into_inner() <= limit);
        assert!(group.running_peak <= limit);
        assert_eq!(group.admitted, room.admitted.into_inner());
        assert_eq!(group.rejected.concurrency, room.refused.into_inner());
        assert_eq!(group.admitted + group.rejected.concurrency, threads * turns);
    }
}

/// Lets the other threads end also when an assertion fails on this one.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_limit_that_moves_under_load_holds_as_soon_as_the_surplus_has_left() {
    let (gate, room) = (gate(Some(6)), Room::default());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let (gate, room, stop) = (&gate, &room, &stop);
            scope.spawn(move || {
                let mut turn = thread;
                while !stop.load(Ordering::Relaxed) {
                    room.visit(gate, turn);
                    turn += 1;
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        for round in 0..300 {
            let limit = 1 + round % 6;
            assert!(gate.set_limit(A, Some(limit)));
            // Once seen at or below the limit, never above it until the limit changes.
            while running(&gate) > limit {
                std::thread::yield_now();
            }
            for _ in 0..50 {
                assert!(running(&gate) <= limit);
            }
        }
    });
    assert_eq!(running(&gate), 0);
    assert!(room.most.into_inner() <= 6);
}

#[test]
fn permits_given_on_one_thread_come_back_on_another() {
    let gate = gate(Some(64));
    std::thread::scope(|scope| {
        let (give, take) = std::sync::mpsc::sync_channel::<Permit>(64);
        let from = &gate;
        scope.spawn(move || {
            let mut given = 0;
            while given < 10_000 {
                match from.try_admit(A) {
                    Ok(permit) => {
                        given += 1;
                        give.send(permit).expect("someone listens");
                    }
                    Err(_) => std::thread::yield_now(),
                }
            }
        });
        scope.spawn(move || take.into_iter().for_each(drop));
    });
    let group = gate.group(A).expect("a group");
    assert_eq!((group.running, group.admitted), (0, 10_000));
}

// ---- errors ----------------------------------------------------------------------------------------------------

#[test]
fn a_refusal_carries_its_numbers_and_says_them() {
    let gate = gate(Some(1));
    let _held = gate.try_admit(A).expect("a place");
    let refused = gate.try_admit(A).expect_err("the group is full");
    let expected = AdmissionError::Rejected {
        group: "a".into(),
        limit: 1,
        running: 1,
    };
    assert_eq!(refused, expected);
    assert_eq!(
        refused.to_string(),
        "resource group 'a': concurrency_limit reached (1 running, 1 allowed); \
         retry when one ends, raise concurrency_limit, or let requests wait with max_queued_queries"
    );
    let unknown = gate.try_admit(B).expect_err("there is no b");
    assert_eq!(
        unknown,
        AdmissionError::UnknownGroup {
            group: "10002".into()
        }
    );
    assert!(gate.remove(A));
    let draining = gate.try_admit(A).expect_err("a is going");
    assert_eq!(draining, AdmissionError::UnknownGroup { group: "a".into() });
}

#[test]
fn every_refusal_names_its_group_and_whether_asking_again_can_help() {
    let group = || std::sync::Arc::<str>::from("bi");
    let cases = [
        (
            AdmissionError::QueueFull {
                group: group(),
                limit: 8,
                queued: 8,
            },
            true,
            vec!["'bi'", "8 of 8", "max_queued_queries"],
        ),
        (
            AdmissionError::Timeout {
                group: group(),
                waited: Duration::from_millis(1_500),
                reason: WaitReason::GovernorLimit,
            },
            true,
            vec!["'bi'", "1.5s", "query_runner_threads", "queue_timeout"],
        ),
        (
            AdmissionError::Rejected {
                group: group(),
                limit: 2,
                running: 3,
            },
            true,
            vec!["'bi'", "3 running", "2 allowed"],
        ),
        (
            AdmissionError::MemoryThrottled {
                group: group(),
                used: Bytes(96),
                threshold: Bytes(95),
            },
            true,
            vec!["'bi'", "96 bytes", "95"],
        ),
        (
            AdmissionError::UnknownGroup { group: group() },
            false,
            vec!["'bi'", "SHOW RESOURCE GROUPS"],
        ),
        (
            AdmissionError::OverrideRefused { group: group() },
            false,
            vec!["'bi'", "may not choose"],
        ),
        (
            AdmissionError::Killed {
                why: "by ops".into(),
            },
            false,
            vec!["by ops"],
        ),
        (
            AdmissionError::Watched {
                until: SystemTime::UNIX_EPOCH + Duration::from_secs(77),
                report: "3 × cpu".into(),
            },
            true,
            vec!["77 s", "3 × cpu", "DROP WATCH"],
        ),
        (AdmissionError::ShuttingDown, false, vec!["shutting down"]),
    ];
    for (error, transient, words) in cases {
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{text:?} lacks {word:?}");
        }
        assert_eq!(error.group().is_some(), text.contains("'bi'"), "{text}");
        assert_eq!(error.is_transient(), transient, "{text}");
    }
}
