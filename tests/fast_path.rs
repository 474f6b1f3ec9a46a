//! With one group at work a worker only counts, whatever else exists: the fast path, seen in its metric.

#![allow(clippy::unwrap_used, reason = "a test")]

mod live;
mod support;

use live::{current_thread, governor, multi_thread, settled, watched};
use quotient::{Governor, task::yield_now};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Polls so far, on the fast path and where groups compete.
fn polls(governor: &Governor) -> (u64, u64) {
    let workers = governor.metrics().workers;
    workers.iter().fold((0, 0), |(fast, fair), worker| {
        (fast + worker.polls_fast, fair + worker.polls_fair)
    })
}

/// Some ten thousand polls of one group.
async fn work(governor: &Governor, group: &str) {
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let task = async {
                for _ in 0..1_000 {
                    yield_now().await;
                }
            };
            governor.spawn_in(group, task).unwrap()
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Lets one group work and looks where its polls were. Where the system keeps a worker from running, a spare one has a
/// part: one look of several is enough.
fn check(runtime: &Runtime, governor: &Governor, group: &str, what: &str) {
    let mut seen = Vec::new();
    for _ in 0..5 {
        // That a group has run dry is found out when its turn comes; let the workers find it out about the last one.
        std::thread::sleep(Duration::from_millis(20));
        let before = polls(governor);
        runtime.block_on(work(governor, group));
        let after = polls(governor);
        let (fast, fair) = (after.0 - before.0, after.1 - before.1);
        if fast >= 5_000 && fair * 100 <= fast {
            return;
        }
        seen.push((fast, fair));
    }
    panic!("{what}: polls on the fast path and beside it, each time: {seen:?}");
}

fn create(groups: std::ops::Range<u32>, with: &str) -> String {
    let create = |i| format!("CREATE RESOURCE GROUP g{i} WITH ({with});");
    groups.map(create).collect()
}

fn every_configuration(runtime: &Runtime, workers: usize) {
    let governor = governor(runtime, workers, "");
    let run = |sql: &str| drop(runtime.block_on(governor.execute(sql)).unwrap());
    check(runtime, &governor, "default_wg", "default_wg only");

    run(&create(0..300, "'cpu_core_limit'='3'"));
    check(
        runtime,
        &governor,
        "default_wg",
        "beside groups without load",
    );
    check(
        runtime,
        &governor,
        "g7",
        "another group, beside groups without load",
    );

    for group in 0..300 {
        drop(governor.spawn_in(&format!("g{group}"), async {}).unwrap());
    }
    for group in 0..300 {
        runtime.block_on(settled(&governor, &format!("g{group}")));
    }
    check(
        runtime,
        &governor,
        "g7",
        "beside groups that have worked before",
    );

    let waiting: Vec<_> = (0..300)
        .map(|i| {
            governor
                .spawn_in(&format!("g{i}"), std::future::pending::<()>())
                .unwrap()
        })
        .collect();
    runtime.block_on(live::eventually("all wait", || {
        let rows = governor.metrics().groups;
        rows.iter().map(|row| row.usage.tasks_waiting).sum::<u64>() == 300
    }));
    check(
        runtime,
        &governor,
        "default_wg",
        "beside groups whose tasks wait",
    );
    for task in waiting {
        task.abort();
        runtime.block_on(task).unwrap_err();
    }

    for i in 0..300 {
        run(&format!("DROP RESOURCE GROUP g{i}"));
    }
    check(
        runtime,
        &governor,
        "default_wg",
        "after all others were dropped",
    );

    run("CREATE RESOURCE GROUP kiosk WITH ('type'='short_query')");
    check(
        runtime,
        &governor,
        "default_wg",
        "beside a reservation without work",
    );
    check(runtime, &governor, "kiosk", "a group with a reservation");
    run(&format!(
        "ALTER RESOURCE GROUP kiosk WITH ('max_cpu_cores'='{workers}')"
    ));
    check(
        runtime,
        &governor,
        "kiosk",
        "a group with a cap that does not bind",
    );

    run("CREATE RESOURCE GROUP OR REPLACE kiosk WITH ('cpu_core_limit'='9')");
    check(runtime, &governor, "kiosk", "a replaced group");
    runtime.block_on(governor.shutdown(Duration::ZERO));
}

#[test]
fn one_group_at_work_is_on_the_fast_path_in_every_configuration() {
    let _watch = watched("one_group_at_work_is_on_the_fast_path");
    every_configuration(&multi_thread(2), 2);
}

#[test]
fn so_it_is_on_a_current_thread_runtime() {
    let _watch = watched("so_it_is_on_a_current_thread_runtime");
    every_configuration(&current_thread(), 1);
}

#[test]
fn two_groups_at_work_are_not() {
    let _watch = watched("two_groups_at_work_are_not");
    let runtime = current_thread();
    let governor = governor(&runtime, 1, &create(0..2, "'cpu_core_limit'='1'"));
    runtime.block_on(async { tokio::join!(work(&governor, "g0"), work(&governor, "g1")) });
    let (fast, fair) = polls(&governor);
    assert!(fair > fast, "{fast} fast, {fair} fair");
    runtime.block_on(governor.shutdown(Duration::ZERO));
}
