//! What the workers did, as it was recorded: replayed without them, the policy alone gives the same answers; and how many
//! slices there were.

#![allow(clippy::unwrap_used, reason = "a test")]

mod live;
mod support;

use live::{bare, watched};
use quotient::clock::Clock;
use quotient::exec::account::Account;
use quotient::exec::core::{Config, Core};
use quotient::exec::group::Group;
use quotient::exec::task;
use quotient::exec::worker::Exit;
use quotient::sched::trace::{Op, Trace, replay};
use quotient::unit::{Nanos, Weight};
use quotient::{Governor, task::yield_now};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// In time of the thread, which is what is charged: another program may have the CPU for half of the wall's.
async fn compute(polls: u32, length: Duration) {
    let spent = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    for _ in 0..polls {
        let start = spent();
        while spent() - start < length {}
        yield_now().await;
    }
}

fn slices(trace: &Trace) -> usize {
    let starts = |(op, _): &&(Op, _)| matches!(op, Op::Start { .. });
    trace.calls.iter().filter(starts).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_run_replayed_in_the_policy_gives_the_same_picks() {
    let governor = Governor::builder()
        .workers(2)
        .record_schedule(true)
        .init_sql(
            "CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='2');
             CREATE RESOURCE GROUP b WITH ('cpu_core_limit'='1');
             CREATE RESOURCE GROUP fast WITH ('type'='short_query');
             CREATE RESOURCE GROUP slow WITH ('max_cpu_cores'='0.01');",
        )
        .build()
        .unwrap();
    let spawn = |group, polls, micros| {
        governor
            .spawn_in(group, compute(polls, Duration::from_micros(micros)))
            .unwrap()
    };
    let mut tasks = Vec::new();
    for i in 0..40 {
        tasks.push(spawn("a", 50, 20 + i % 3 * 100));
        tasks.push(spawn("b", 50, 30));
        tasks.push(spawn("fast", 5, 20));
        // Many times what its cap holds at once: it must wait for a refill.
        tasks.push(spawn("slow", 3, 400));
        if i == 20 {
            governor
                .execute(
                    "ALTER RESOURCE GROUP b WITH ('cpu_core_limit'='4', 'max_cpu_cores'='1.5');
                     ALTER RESOURCE GROUP slow WITH ('max_cpu_cores'='0.02')",
                )
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let trace = governor.take_trace().unwrap();
    let starts = slices(&trace);
    assert!(starts > 100, "{starts} slices");
    let has = |what: fn(&Op) -> bool| trace.calls.iter().any(|(op, _)| what(op));
    assert!(
        has(|op| matches!(op, Op::SetReserved { .. })) && has(|op| matches!(op, Op::SetCap { .. }))
    );
    assert!(has(|op| matches!(op, Op::Refill { .. })));
    assert!(has(|op| matches!(op, Op::GiveWay { .. })));
    replay(&trace).unwrap();
    // And once more after a trip through its text.
    let read: Trace = trace.to_string().parse().unwrap();
    replay(&read).unwrap();
    assert!(governor.take_trace().is_none(), "it has ended");
}

/// A slice for each of them would cost several times as much as they do, and make the next such poll late.
#[test]
fn ten_thousand_tiny_tasks_that_a_late_poll_has_spawned_have_few_slices() {
    let _watch = watched("ten thousand tiny tasks that a late poll has spawned");
    let (clock, hand) = Clock::manual();
    hand.advance(Nanos::from_millis(1));
    let (core, workers) = Core::new(Config {
        watchdog: true,
        long_poll: Nanos::from_millis(5),
        record: true,
        ..bare(2, clock)
    });
    let account = Account::for_group(Group::new(&core, "g", Weight::new(1)));
    let late = core.clone();
    drop(task::spawn(account.clone(), None, async move {
        for _ in 0..10_000 {
            let hand = hand.clone();
            drop(quotient::spawn(async move {
                hand.advance(Nanos(100));
            }));
        }
        hand.advance(Nanos::from_millis(6));
        while late.spare_usage().late_polls == 0 {
            std::thread::yield_now();
        }
    }));
    while workers[0].run() != Exit::Idle {}
    assert_eq!(account.group().usage().polls, 10_001);
    let slices = slices(&core.take_trace().unwrap());
    // As many as answer for the poll, and those of 1 ms of work.
    assert!((120..160).contains(&slices), "{slices} slices");
}
