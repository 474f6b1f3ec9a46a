//! The contract of the gate: never more than the limit, never a place lost, every refusal with its numbers.

use quotient::admission::{AdmissionError, Gate, Permit, WaitReason};
use quotient::unit::{Bytes, GroupId};
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
    assert_eq!(gate.group(A).expect("a group").counts.admitted, 200);
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
    assert_eq!((group.counts.admitted, group.counts.nested), (1, 2));
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
    assert_eq!(gate.group(A).expect("a group").counts.rejected.shutdown, 2);
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
        assert_eq!(group.counts.admitted, room.admitted.into_inner());
        assert_eq!(group.counts.rejected.concurrency, room.refused.into_inner());
        assert_eq!(
            group.counts.admitted + group.counts.rejected.concurrency,
            threads * turns
        );
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
            assert!(gate.set_limits(A, Some(limit)));
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
    assert_eq!((group.running, group.counts.admitted), (0, 10_000));
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
        reason: WaitReason::GroupLimit,
        retry_after: None,
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
                retry_after: Some(Duration::from_millis(40)),
            },
            true,
            vec!["'bi'", "8 of 8", "in about 40 ms", "max_queued_queries"],
        ),
        (
            AdmissionError::Timeout {
                group: group(),
                waited: Duration::from_millis(1_500),
                reason: WaitReason::GovernorLimit,
                retry_after: None,
            },
            true,
            vec!["'bi'", "1.5s", "query_runner_threads", "queue_timeout"],
        ),
        (
            AdmissionError::Rejected {
                group: group(),
                limit: 2,
                running: 3,
                reason: WaitReason::GroupLimit,
                retry_after: None,
            },
            true,
            vec!["'bi'", "3 running", "2 allowed", "concurrency_limit"],
        ),
        (
            AdmissionError::Rejected {
                group: group(),
                limit: 2,
                running: 2,
                reason: WaitReason::GovernorLimit,
                retry_after: Some(Duration::from_secs(3)),
            },
            true,
            vec![
                "'bi'",
                "2 running in all groups",
                "in about 3000 ms",
                "raise query_runner_threads",
            ],
        ),
        (
            AdmissionError::MemoryThrottled {
                group: group(),
                used: Bytes(96),
                threshold: Bytes(95),
                retry_after: Some(Duration::from_secs(1)),
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
                group: group(),
                until: SystemTime::UNIX_EPOCH + Duration::from_secs(77),
                report: "3 × cpu".into(),
            },
            true,
            vec!["'bi'", "77 s", "3 × cpu", "DROP WATCH"],
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
