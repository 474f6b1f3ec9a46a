//! Whose memory it is follows the poll, and a request that does not fit ends the query that is to blame.

#![allow(clippy::unwrap_used)]
#![allow(
    clippy::async_yields_async,
    reason = "tasks that spawn others hand their handles out"
)]

mod live;
mod support;

use live::{current_thread, governor, multi_thread};
use quotient::alloc::GroupAlloc;
use quotient::memory::MemoryScope;
use quotient::{Attributes, Governor, JoinError, KillReason, Query};
use std::future::pending;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[global_allocator]
static ALLOC: GroupAlloc = GroupAlloc::new();

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// `n` bytes that were really there.
fn bytes(n: usize) -> Vec<u8> {
    black_box(vec![1u8; n])
}

fn admit(governor: &Governor, user: &str) -> Query {
    governor.try_admit(&Attributes::new().user(user)).unwrap()
}

/// Waits until a query uses less than 4 KiB: the worker keeps some credit until the end of its quantum.
fn emptied(query: &Query) {
    let since = std::time::Instant::now();
    while query.usage().memory >= 4 * KIB as u64 {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "{:?}",
            query.usage()
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The scope, the limit and what was asked, of a task that ended for want of memory.
fn shortage<T: std::fmt::Debug>(ended: Result<T, JoinError>) -> (MemoryScope, u64, u64) {
    let error = ended.expect_err("it had its memory");
    assert!(error.is_cancelled(), "{error}");
    match error.reason() {
        Some(&KillReason::MemoryLimit {
            scope,
            limit,
            asked,
            ..
        }) => (scope, limit, asked),
        other => panic!("another reason: {other:?}"),
    }
}

const ONE_GROUP: &str = "CREATE RESOURCE GROUP small TO (user='small') WITH ('mem_limit'='16MiB');
    CREATE RESOURCE GROUP other TO (user='other') WITH ('cpu_core_limit'='1')";

#[test]
fn what_a_task_allocates_is_its_querys_until_it_is_freed_by_whomever() {
    let _watch = live::watched("owner follows the poll");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let query = admit(&governor, "other");
    let kept = runtime
        .block_on(query.run(async { bytes(300 * KIB) }))
        .unwrap();
    // The worker keeps some in advance until it has nothing more to do, a moment after this thread was woken.
    live::eventually_blocking("what it kept comes back", || {
        (300 * KIB as u64..301 * KIB as u64 + 2048).contains(&query.usage().memory)
    });
    // Another query, another task, this thread: wherever it is grown it is the grower's, whoever frees it.
    let heir = admit(&governor, "small");
    let kept = runtime
        .block_on(heir.run(async move {
            tokio::task::yield_now().await;
            let mut kept = kept;
            kept.reserve_exact(MIB);
            kept
        }))
        .unwrap();
    emptied(&query);
    assert!(heir.usage().memory >= MIB as u64);
    drop(kept);
    emptied(&heir);
    assert!(heir.usage().memory_peak >= MIB as u64);
}

#[test]
fn polls_inside_polls_and_panics_leave_the_owner_as_it_was() {
    let _watch = live::watched("nested owners");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let (outer, inner) = (admit(&governor, "other"), admit(&governor, "small"));
    let panicked = runtime.block_on(inner.run(async {
        let _held = bytes(64 * KIB);
        std::panic::resume_unwind(Box::new(7));
    }));
    assert!(panicked.unwrap_err().is_panic());
    emptied(&inner);
    // A spawn's future is its own query's from the beginning, also if it is spawned from another's task.
    let spawner = inner.clone();
    let handle = runtime
        .block_on(outer.run(async move {
            let large = [1u8; 40 * KIB];
            let handle = spawner.spawn(async move {
                pending::<()>().await;
                black_box(large);
            });
            black_box(bytes(10));
            handle
        }))
        .unwrap();
    assert!(
        inner.usage().memory >= 40 * KIB as u64,
        "{:?}",
        inner.usage()
    );
    emptied(&outer);
    handle.abort();
    assert!(runtime.block_on(handle).unwrap_err().is_cancelled());
    emptied(&inner);
}

/// Collects small blocks until it is killed.
async fn hoard() -> usize {
    let mut hoard = Vec::new();
    loop {
        hoard.push(bytes(8 * KIB));
        if hoard.len() > 100_000 {
            return hoard.len();
        }
        if hoard.len() % 8 == 0 {
            quotient::task::yield_now().await;
        }
    }
}

#[test]
fn a_query_that_asks_for_too_much_is_killed_and_gives_all_of_it_back() {
    let _watch = live::watched("killed at the limit");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let query = admit(&governor, "small");
    let waiting = query.spawn(pending::<()>());
    let (scope, limit, asked) = shortage(runtime.block_on(query.run(hoard())));
    assert_eq!((scope, limit), (MemoryScope::Group, 16 * MIB as u64));
    assert!(asked <= 16 * KIB as u64, "{asked}");
    // All its tasks end with it, and say why.
    assert_eq!(shortage(runtime.block_on(waiting)).0, MemoryScope::Group);
    assert!(
        query.usage().memory_peak <= 24 * MIB as u64,
        "within the grace"
    );
    emptied(&query);
    // The next query of the group has all of its memory.
    let next = admit(&governor, "small");
    runtime
        .block_on(next.run(async { drop(bytes(800 * KIB)) }))
        .unwrap();
}

/// Its thread is not a worker's, and nothing can end it: P4 excepts it.
#[test]
fn a_closure_is_granted_what_it_asks_for_and_its_query_is_killed() {
    let _watch = live::watched("a closure at the limit");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let query = admit(&governor, "small");
    let waiting = query.spawn(pending::<()>());
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let closure = query.spawn_blocking(move || {
        let held = bytes(64 * MIB);
        let _ = told.recv();
        held.len()
    });
    // While it still runs.
    assert_eq!(shortage(runtime.block_on(waiting)).0, MemoryScope::Group);
    drop(tell);
    drop(runtime.block_on(closure));
    emptied(&query);
    let next = admit(&governor, "small");
    runtime
        .block_on(next.run(async { drop(bytes(800 * KIB)) }))
        .unwrap();
}

#[test]
fn what_one_query_takes_beyond_the_limit_is_what_its_running_polls_allocate() {
    let _watch = live::watched("overshoot");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    for (block, per_poll) in [(64, 100), (1024, 50), (4096, 200), (100 * KIB, 3)] {
        let query = admit(&governor, "small");
        let ended = runtime.block_on(query.run(async move {
            let mut hoard = Vec::with_capacity(200_000);
            loop {
                for _ in 0..per_poll {
                    hoard.push(bytes(block));
                }
                quotient::task::yield_now().await;
            }
            #[allow(unreachable_code)]
            hoard
        }));
        shortage(ended);
        let over = query.usage().memory_peak.saturating_sub(16 * MIB as u64);
        assert!(
            over <= (block * per_poll) as u64,
            "{over} of {per_poll} × {block}"
        );
    }
}

#[test]
fn a_loop_without_await_ends_at_its_checkpoint() {
    let _watch = live::watched("checkpoint");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let query = admit(&governor, "small");
    let ended = runtime.block_on(query.run(async {
        let mut hoard = Vec::new();
        loop {
            hoard.push(bytes(1000));
            quotient::task::checkpoint().await;
        }
        #[allow(unreachable_code)]
        hoard
    }));
    assert_eq!(shortage(ended).0, MemoryScope::Group);
    assert!(
        query.usage().memory_peak < 17 * MIB as u64,
        "{:?}",
        query.usage()
    );
}

#[test]
fn a_small_query_does_not_die_for_a_large_one() {
    let _watch = live::watched("the victim is the largest");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let large = admit(&governor, "small");
    let (say, hear) = tokio::sync::oneshot::channel();
    let holder = large.spawn(async move {
        let held: Vec<_> = (0..15).map(|_| bytes(MIB - KIB)).collect();
        say.send(()).unwrap();
        pending::<()>().await;
        black_box(held);
    });
    runtime.block_on(hear).unwrap();
    let small = admit(&governor, "small");
    let sum = runtime.block_on(small.run(async {
        let mut held = Vec::new();
        for _ in 0..40 {
            held.push(bytes(100 * KIB));
            quotient::task::yield_now().await;
        }
        held.len()
    }));
    assert_eq!(sum.unwrap(), 40);
    assert_eq!(shortage(runtime.block_on(holder)).0, MemoryScope::Group);
}

#[test]
fn a_task_of_no_query_ends_alone() {
    let _watch = live::watched("loose tasks");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let bystander = governor.spawn_in("small", pending::<()>()).unwrap();
    let ended = runtime.block_on(governor.spawn_in("small", hoard()).unwrap());
    let error = ended.unwrap_err();
    assert!(
        matches!(
            error.reason(),
            Some(KillReason::MemoryLimit { query: None, .. })
        ),
        "{error:?}"
    );
    let again = runtime.block_on(
        governor
            .spawn_in("small", async { bytes(KIB).len() })
            .unwrap(),
    );
    assert_eq!(again.unwrap(), KIB);
    assert!(!bystander.is_finished());
}

#[test]
fn a_limit_that_is_altered_binds_at_once_both_ways() {
    let _watch = live::watched("altered");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let hold = |size: usize| async move {
        let mut held = Vec::new();
        for _ in 0..size / (64 * KIB) {
            held.push(bytes(64 * KIB));
            quotient::task::yield_now().await;
        }
        held.len()
    };
    let query = admit(&governor, "small");
    let alter = |text: &str| {
        let text = format!("ALTER RESOURCE GROUP small WITH ('mem_limit'='{text}')");
        runtime.block_on(governor.execute(&text)).unwrap();
    };
    alter("64MiB");
    assert_eq!(runtime.block_on(query.run(hold(32 * MIB))).unwrap(), 512);
    // Below what is used: nobody is killed for that alone, the next request is refused.
    let (say, hear) = tokio::sync::oneshot::channel();
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let task = query.spawn(async move {
        let held: Vec<_> = (0..512).map(|_| bytes(64 * KIB)).collect();
        say.send(()).unwrap();
        wait.await.unwrap();
        let more = bytes(600 * KIB);
        quotient::task::yield_now().await;
        held.len() + more.len()
    });
    runtime.block_on(hear).unwrap();
    alter("30MiB");
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
    assert!(!task.is_finished());
    go.send(()).unwrap();
    assert_eq!(shortage(runtime.block_on(task)).1, 30 * MIB as u64);
}

/// Asking is a task of the query's, which is made where no poll of it could end for want of memory.
#[test]
fn a_query_far_above_a_lowered_limit_is_asked_to_spill_and_lives() {
    let _watch = live::watched("asked above the limit");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let alter = |limit: &str| {
        let text = format!(
            "ALTER RESOURCE GROUP small WITH ('mem_limit'='{limit}', 'spill_mem_limit_threshold'='0.5')"
        );
        runtime.block_on(governor.execute(&text)).unwrap();
    };
    alter("64MiB");
    let query = admit(&governor, "small");
    let (say, hear) = tokio::sync::oneshot::channel();
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let task = query.spawn(async move {
        let wanted = Arc::new(AtomicU64::new(0));
        let asked = wanted.clone();
        // Asked again for what asking took, some bytes, it may hear of that first.
        let callback = move |bytes| _ = asked.fetch_max(bytes, Relaxed);
        let _registration = quotient::memory::on_pressure(0, callback).unwrap();
        let held = bytes(24 * MIB);
        say.send(()).unwrap();
        wait.await.unwrap();
        while wanted.load(Relaxed) < 23 * MIB as u64 {
            quotient::task::yield_now().await;
        }
        drop(held);
    });
    runtime.block_on(hear).unwrap();
    alter("1MiB");
    go.send(()).unwrap();
    runtime.block_on(task).unwrap();
}

#[test]
fn inside_a_fallible_scope_a_request_fails_and_nobody_dies() {
    let _watch = live::watched("fallible");
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let query = admit(&governor, "small");
    let granted = runtime.block_on(query.run(async {
        let mut huge: Vec<u8> = Vec::new();
        let refused = quotient::memory::fallible(|| huge.try_reserve_exact(8 << 30));
        assert!(refused.is_err());
        let mut most = 0;
        let mut held: Vec<Vec<u8>> = Vec::with_capacity(10_000);
        while let Ok(block) = quotient::memory::fallible(|| {
            let mut block: Vec<u8> = Vec::new();
            block.try_reserve_exact(10_000).map(|()| block)
        }) {
            held.push(black_box(block));
            most += 10_000;
        }
        quotient::task::yield_now().await;
        most
    }));
    let granted = granted.unwrap();
    // P2: not a byte more; P6: refused no earlier than the idle credits of the threads explain.
    assert!(granted <= 16 * MIB);
    assert!(granted >= 15 * MIB, "{granted}");
    assert!(query.usage().memory_peak <= 16 * MIB as u64);
}

#[test]
fn while_it_is_dropped_and_while_it_panics_nothing_is_refused() {
    let _watch = live::watched("lifted");
    struct Sore(Vec<Vec<u8>>);
    impl Drop for Sore {
        fn drop(&mut self) {
            // More than limit and grace together.
            let report: Vec<_> = (0..40).map(|_| bytes(MIB)).collect();
            self.0.extend(report);
        }
    }
    let runtime = multi_thread(2);
    let governor = governor(&runtime, 2, ONE_GROUP);
    let query = admit(&governor, "small");
    let ended = runtime.block_on(query.run(async {
        let _sore = Sore(Vec::new());
        hoard().await
    }));
    assert_eq!(shortage(ended).0, MemoryScope::Group);
    let unwinding = admit(&governor, "small");
    let ended = runtime.block_on(unwinding.run(async {
        let _sore = Sore(Vec::new());
        std::panic::resume_unwind(Box::new(1));
    }));
    assert!(ended.unwrap_err().is_panic());
    emptied(&unwinding);
}

#[test]
fn above_the_governors_limit_the_group_furthest_above_its_share_gives_way() {
    let _watch = live::watched("the governor's limit");
    let runtime = multi_thread(2);
    let governor = runtime
        .block_on(async {
            Governor::builder()
                .workers(2)
                .memory_limit(64 * MIB as u64)
                .init_sql(
                    "CREATE RESOURCE GROUP heavy TO (user='heavy') WITH ('cpu_core_limit'='1');
                     CREATE RESOURCE GROUP light TO (user='light') WITH ('cpu_core_limit'='3')",
                )
                .build()
        })
        .unwrap();
    let heavy = admit(&governor, "heavy");
    let (say, hear) = tokio::sync::oneshot::channel();
    let hog = heavy.spawn(async move {
        let held: Vec<_> = (0..400).map(|_| bytes(100 * KIB)).collect();
        say.send(()).unwrap();
        pending::<()>().await;
        black_box(held);
    });
    runtime.block_on(hear).unwrap();
    let light = admit(&governor, "light");
    let held = runtime.block_on(light.run(async {
        let mut held = Vec::new();
        for _ in 0..300 {
            held.push(bytes(100 * KIB));
            quotient::task::yield_now().await;
        }
        held.len()
    }));
    assert_eq!(held.unwrap(), 300);
    let (scope, limit, _) = shortage(runtime.block_on(hog));
    assert_eq!((scope, limit), (MemoryScope::Governor, 64 * MIB as u64));
}

#[test]
fn a_current_thread_runtime_must_be_told_what_to_do_at_the_limit() {
    use quotient::memory::MemoryOverrun;
    let runtime = current_thread();
    let _entered = runtime.enter();
    let build = |action: Option<MemoryOverrun>| {
        let builder = Governor::builder().init_sql(ONE_GROUP);
        match action {
            Some(action) => builder.memory_overrun(action).build(),
            None => builder.build(),
        }
    };
    assert!(
        build(None)
            .unwrap_err()
            .to_string()
            .contains("memory_overrun")
    );
    assert!(build(Some(MemoryOverrun::Quarantine)).is_err());
    assert!(build(Some(MemoryOverrun::Abort)).is_ok());
    let governor = build(Some(MemoryOverrun::Overshoot)).unwrap();
    let query = admit(&governor, "small");
    // A large request is granted, untouched, and the query ends at the boundary.
    let ended = runtime.block_on(query.run(async {
        let huge: Vec<u8> = black_box(Vec::with_capacity(8 << 30));
        quotient::task::yield_now().await;
        huge.capacity()
    }));
    let (scope, _, asked) = shortage(ended);
    assert_eq!((scope, asked), (MemoryScope::Group, 8 << 30));
}
