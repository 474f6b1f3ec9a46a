//! A query that went on elsewhere and then asked for more memory than its group may have: whose limit it was, and which group
//! is frozen. Each in a process of its own, since a thread of it is lost.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod live;
mod support;

use live::{eventually_blocking, multi_thread, named};
use quotient::alloc::GroupAlloc;
use quotient::{AdmissionError, Governor, JoinError, KillReason};
use std::hint::black_box;
use std::time::Duration;

#[global_allocator]
static ALLOC: GroupAlloc = GroupAlloc::new();

#[test]
fn the_group_that_it_began_in_is_to_blame() {
    for action in ["dry_run", "switch_group(slow)", "cooldown"] {
        support::in_child(action);
    }
}

/// What the other test starts, as a process; by itself it has nothing to do.
#[test]
fn child() {
    let Some(action) = support::told_to_child() else {
        return;
    };
    let sql = format!(
        "CREATE RESOURCE GROUP slow WITH ('cpu_core_limit'='1');
         CREATE RESOURCE GROUP bi WITH ('mem_limit'='16MiB', 'big_query_scan_rows_limit'='1',
           'big_query_action'='{action}')"
    );
    let runtime = multi_thread(3);
    let builder = Governor::builder().workers(1).memory_limit(1 << 30);
    let builder = builder.init_sql(&sql);
    let governor = runtime.block_on(async { builder.build() }).unwrap();
    let (query, beside) = (
        governor.try_admit(&named("bi")).unwrap(),
        governor.try_admit(&named("slow")).unwrap(),
    );
    query.record_scan_rows(5);
    let asking = query.spawn(async { black_box(Vec::<u8>::with_capacity(200 << 20)).capacity() });
    let ended = async { tokio::time::timeout(Duration::from_secs(30), asking).await };
    let ended = runtime.block_on(ended).expect("its handle was told");
    let reason = ended.as_ref().err().and_then(JoinError::reason);
    let Some(KillReason::MemoryLimit { group, limit, .. }) = reason else {
        panic!("{ended:?}");
    };
    assert_eq!((&**group, *limit), ("bi", 16 << 20));
    // One thread was all that there was.
    let frozen = || {
        let refused = governor.try_admit(&named("bi"));
        matches!(&refused, Err(error) if matches!(error, AdmissionError::Frozen { .. }))
    };
    eventually_blocking("bi is frozen", frozen);
    assert!(governor.try_admit(&named("slow")).is_ok());
    runtime.block_on(beside.run(async {})).unwrap();
    println!("alive");
    // Dropping the runtime would wait for the poll that is parked.
    std::process::exit(0);
}
