//! Reservations as a program sees them: limits that bind, waits in order, and nothing that is lost on any way out.
//!
//! No allocator is installed here: reservations alone count, to the byte.

#[path = "support/gibibyte.rs"]
mod gibibyte;

use gibibyte::{memory_of, query};
use quotient::memory::{self, MemoryError, MemoryScope, Reservation};
use quotient::{Attributes, Governor, KillReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const MIB: u64 = 1 << 20;

/// Requests of `bi`, 100 MiB, wait for 2 s.
fn governor() -> Governor {
    gibibyte::governor(
        "'mem_limit'='100MiB', 'queue_timeout'='2s'",
        "'mem_limit'='100%'",
    )
}

fn reserved(governor: &Governor) -> u64 {
    memory_of(governor, "bi").reserved
}

#[tokio::test(start_paused = true)]
async fn queries_of_a_group_share_its_limit_and_other_groups_do_not() {
    let governor = governor();
    let (a, b) = (query(&governor, "bi").await, query(&governor, "bi").await);
    let _held = a.try_reserve(60 * MIB).unwrap();
    assert_eq!(
        b.try_reserve(50 * MIB).unwrap_err(),
        MemoryError::Full {
            group: "bi".into(),
            asked: 50 * MIB,
            scope: MemoryScope::Group,
            limit: 100 * MIB,
            used: 60 * MIB,
            waiting: 0,
        }
    );
    let other = query(&governor, "etl").await;
    let _other = other.try_reserve(900 * MIB).unwrap();
    // Σ of the limits is more than there is: the governor's own limit binds then.
    assert!(matches!(
        b.try_reserve(40 * MIB).map(|held| held.size()),
        Ok(size) if size == 40 * MIB
    ));
    assert!(matches!(
        other.try_reserve(100 * MIB),
        Err(MemoryError::Full { scope: MemoryScope::Governor, limit, .. }) if limit == 1 << 30
    ));
}

#[tokio::test(start_paused = true)]
async fn a_task_reserves_for_its_query_and_nobody_else_can() {
    let governor = governor();
    let outside = memory::try_reserve(1).unwrap_err();
    assert_eq!(outside, MemoryError::NoTask);
    assert_eq!(memory::reserve(1).await.unwrap_err(), MemoryError::NoTask);
    let bi = query(&governor, "bi").await;
    let seen = bi.clone();
    let held = bi
        .run(async move {
            let held = memory::reserve(MIB).await.unwrap();
            let more = quotient::spawn(async { memory::try_reserve(MIB).unwrap() });
            let more = more.await.unwrap();
            assert_eq!(seen.usage().memory, 2 * MIB);
            assert_eq!(quotient::task::current().unwrap().usage().memory, 2 * MIB);
            drop(more);
            held
        })
        .await
        .unwrap();
    assert_eq!((bi.usage().memory, bi.usage().memory_peak), (MIB, 2 * MIB));
    drop(held);
    assert_eq!((bi.usage().memory, bi.usage().memory_peak), (0, 2 * MIB));
    // A task of no query reserves for its group.
    let loose = governor.spawn_in("bi", async { memory::try_reserve(7) });
    let held = loose.unwrap().await.unwrap().unwrap();
    assert_eq!((held.group(), reserved(&governor)), ("bi", 7));
}

#[tokio::test(start_paused = true)]
async fn thirty_queries_wait_in_the_order_in_which_they_asked() {
    let governor = governor();
    let holder = query(&governor, "bi").await;
    let held = holder.try_reserve(100 * MIB).unwrap();
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for number in 0..30_u64 {
        let query = query(&governor, "bi").await;
        let order = order.clone();
        // Every third asks for nearly all, the others for little.
        let bytes = if number % 3 == 0 { 90 * MIB } else { MIB };
        waiting.push(query.spawn(async move {
            let held = memory::reserve(bytes).await?;
            order.lock().push(number);
            sleep(Duration::from_millis(10)).await;
            drop(held);
            Ok::<_, MemoryError>(())
        }));
        quotient::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    while memory_of(&governor, "bi").waiting < 30 {
        sleep(Duration::from_millis(1)).await;
    }
    drop(held);
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }
    assert_eq!(*order.lock(), (0..30).collect::<Vec<_>>());
    assert_eq!(reserved(&governor), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_lasts_for_the_groups_queue_timeout() {
    let governor = governor();
    let bi = query(&governor, "bi").await;
    let _held = bi.try_reserve(60 * MIB).unwrap();
    let start = Instant::now();
    let error = bi.reserve(50 * MIB).await.unwrap_err();
    assert!(
        matches!(error, MemoryError::TimedOut { waited, .. } if waited == Duration::from_secs(2)),
        "{error}"
    );
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    governor
        .execute("ALTER RESOURCE GROUP bi WITH ('queue_timeout'='30ms')")
        .await
        .unwrap();
    let start = Instant::now();
    assert!(bi.reserve(50 * MIB).await.is_err());
    assert_eq!(start.elapsed(), Duration::from_millis(30));
}

#[tokio::test(start_paused = true)]
async fn an_altered_limit_binds_those_who_wait() {
    let governor = governor();
    let bi = query(&governor, "bi").await;
    let _held = bi.try_reserve(60 * MIB).unwrap();
    let alter = |limit: &'static str| {
        let governor = governor.clone();
        async move {
            sleep(Duration::from_millis(100)).await;
            let alter = format!("ALTER RESOURCE GROUP bi WITH ('mem_limit'='{limit}')");
            governor.execute(&alter).await.unwrap();
        }
    };
    let (served, ()) = tokio::join!(bi.reserve(70 * MIB), alter("200MiB"));
    drop(served.unwrap());
    let (refused, ()) = tokio::join!(bi.reserve(150 * MIB), alter("80MiB"));
    assert!(matches!(refused, Err(MemoryError::TooLarge { limit, .. }) if limit == 80 * MIB));
}

#[tokio::test(start_paused = true)]
async fn whatever_ends_a_query_gives_its_memory_back() {
    let governor = governor();
    // Killed while it holds, and while it waits for more.
    let bi = query(&governor, "bi").await;
    let killed = bi.spawn(async {
        let mut held = memory::reserve(80 * MIB).await.unwrap();
        held.grow(80 * MIB).await.unwrap_err();
        let _more = held.grow(20 * MIB).await;
        let _never = memory::reserve(MIB).await;
    });
    while memory_of(&governor, "bi").waiting == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    bi.kill("enough");
    let error = killed.await.unwrap_err();
    assert!(matches!(error.reason(), Some(KillReason::Killed { .. })));
    assert_eq!(
        (reserved(&governor), memory_of(&governor, "bi").waiting),
        (0, 0)
    );
    drop(bi);

    let bi = query(&governor, "bi").await;
    let panicking = bi.spawn(async {
        let _held = memory::reserve(80 * MIB).await.unwrap();
        panic!("on purpose");
    });
    assert!(panicking.await.unwrap_err().is_panic());
    let aborted = bi.spawn(async {
        let _held = memory::reserve(80 * MIB).await.unwrap();
        std::future::pending::<()>().await
    });
    while reserved(&governor) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    aborted.abort();
    assert!(aborted.await.unwrap_err().is_cancelled());
    let held = bi.try_reserve(80 * MIB).unwrap();
    assert!(
        timeout(Duration::from_millis(5), bi.reserve(80 * MIB))
            .await
            .is_err()
    );
    drop(held);
    assert_eq!(
        (reserved(&governor), memory_of(&governor, "bi").waiting),
        (0, 0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_limit_holds_and_every_byte_comes_back_under_a_thousand_random_ends() {
    let governor = governor();
    let most = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..1000_u64)
        .map(|number| {
            let most = most.clone();
            let attributes = Attributes::new().user("bi");
            let task = governor.spawn(&attributes, async move {
                let mut held: Reservation = memory::reserve((number % 40) * MIB).await?;
                quotient::task::yield_now().await;
                let _ = held.try_grow(number % 7 * MIB);
                let part = held.split(number % 11 * MIB);
                let used = quotient::Query::current().map_or(0, |query| query.usage().memory);
                most.fetch_max(used, Relaxed);
                quotient::task::yield_now().await;
                held.shrink(number % 5 * MIB);
                drop(part);
                assert!(number % 13 != 0, "on purpose");
                Ok::<_, MemoryError>(held.size())
            });
            if number % 17 == 0 {
                task.abort();
            }
            task
        })
        .collect();
    for task in tasks {
        let _ = task.await;
    }
    let memory = memory_of(&governor, "bi");
    assert_eq!((memory.reserved, memory.waiting), (0, 0));
    let query = query(&governor, "bi").await;
    let all = query.try_reserve(100 * MIB).unwrap();
    drop(all);
    assert!(most.load(Relaxed) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_query_is_asked_to_spill_before_a_reservation_waits_in_vain() {
    let governor = governor();
    governor
        .execute("ALTER RESOURCE GROUP bi WITH ('spill_mem_limit_threshold'='80%')")
        .await
        .unwrap();
    let spiller = query(&governor, "bi").await;
    let held = Arc::new(parking_lot::Mutex::new(
        spiller.try_reserve(70 * MIB).unwrap(),
    ));
    let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let _registration = spiller.on_pressure(0, {
        let (held, asked) = (held.clone(), asked.clone());
        move |bytes| {
            asked.lock().push(bytes);
            // As a task of the query that spills.
            assert_eq!(quotient::task::current().unwrap().group(), "bi");
            held.lock().shrink(bytes);
        }
    });
    // Below the threshold nobody is asked.
    sleep(Duration::from_millis(50)).await;
    assert!(asked.lock().is_empty());
    let other = query(&governor, "bi").await;
    let start = Instant::now();
    let got = other.reserve(50 * MIB).await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(10));
    assert_eq!(got.size(), 50 * MIB);
    assert_eq!(asked.lock()[0], 20 * MIB, "what was missing and no more");
    // With both the group is above its threshold: down to 7/8 of that.
    while memory_of(&governor, "bi").spill_requests < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_millis(1)).await;
    assert_eq!(*asked.lock(), [20 * MIB, 30 * MIB]);
    assert_eq!(
        (held.lock().size(), reserved(&governor)),
        (20 * MIB, 70 * MIB)
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_above_its_threshold_is_brought_down_at_the_end_of_a_poll() {
    let governor = governor();
    governor
        .execute("ALTER RESOURCE GROUP bi WITH ('spill_mem_limit_threshold'='0.8')")
        .await
        .unwrap();
    let bi = query(&governor, "bi").await;
    let asked = Arc::new(AtomicU64::new(0));
    let seen = asked.clone();
    let registration = bi.on_pressure(0, move |bytes| {
        seen.fetch_add(bytes, Relaxed);
    });
    let held = bi
        .run(async {
            let mut held = memory::try_reserve(80 * MIB).unwrap();
            assert!(!held.should_spill());
            held.try_grow(1).unwrap();
            assert!(held.should_spill());
            held
        })
        .await
        .unwrap();
    // The task ended above the threshold: down to 7/8 of it.
    while asked.load(Relaxed) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(asked.load(Relaxed), 10 * MIB + 1);
    // What is expected is not asked for again, and nobody is asked who has left.
    bi.run(async {}).await.unwrap();
    assert_eq!(asked.load(Relaxed), 10 * MIB + 1);
    sleep(Duration::from_millis(500)).await;
    drop(registration);
    bi.run(async {}).await.unwrap();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(asked.load(Relaxed), 10 * MIB + 1);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_to_spill_while_the_threshold_is_off() {
    let governor = governor();
    let bi = query(&governor, "bi").await;
    let _registration = bi.on_pressure(0, |_| panic!("asked"));
    let held = bi
        .run(async { memory::try_reserve(100 * MIB).unwrap() })
        .await
        .unwrap();
    assert!(!held.should_spill());
    assert!(bi.reserve(MIB).await.is_err());
    assert_eq!(memory_of(&governor, "bi").spill_requests, 0);
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_panics_hurts_only_its_own_query() {
    let governor = governor();
    governor
        .execute("ALTER RESOURCE GROUP bi WITH ('spill_mem_limit_threshold'='50%')")
        .await
        .unwrap();
    let bi = query(&governor, "bi").await;
    let called = Arc::new(AtomicU64::new(0));
    let seen = called.clone();
    let _registration = bi.on_pressure(0, move |_| {
        seen.fetch_add(1, Relaxed);
        panic!("on purpose");
    });
    let _held = bi
        .run(async { memory::try_reserve(90 * MIB) })
        .await
        .unwrap();
    while called.load(Relaxed) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(bi.run(async { 7 }).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_group_keeps_its_limit_for_those_who_are_in_it() {
    let governor = governor();
    let bi = query(&governor, "bi").await;
    let held = bi.try_reserve(60 * MIB).unwrap();
    governor.execute("DROP RESOURCE GROUP bi").await.unwrap();
    assert!(bi.try_reserve(50 * MIB).is_err());
    assert_eq!(reserved(&governor), 60 * MIB);
    drop(held);
    assert!(bi.try_reserve(50 * MIB).is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_views_say_that_nothing_is_tracked_without_the_allocator() {
    let governor = governor();
    let bi = query(&governor, "bi").await;
    let _held = bi.try_reserve(60 * MIB).unwrap();
    let usage = governor
        .execute("SHOW USAGE RESOURCE GROUP bi")
        .await
        .unwrap();
    let usage = &usage[0];
    let cell = |name: &str| {
        let column = usage.columns().iter().position(|column| column == name);
        usage.rows()[0][column.unwrap()].to_string()
    };
    assert_eq!(cell("memory"), "not tracked");
    assert_eq!(cell("memory_peak"), "not tracked");
    assert_eq!(cell("memory_limit"), (100 * MIB).to_string());
    let page = governor.render_metrics();
    assert!(!page.contains("quotient_group_memory_bytes{"), "{page}");
    assert!(!page.contains("\nquotient_unowned_memory_bytes "), "{page}");
    for line in [
        "quotient_group_memory_limit_bytes{group=\"bi\"} 104857600\n",
        "quotient_group_memory_reserved_bytes{group=\"bi\"} 62914560\n",
        "quotient_memory_limit_bytes 1073741824\n",
    ] {
        assert!(page.contains(line), "{line}");
    }
    let memory = governor.metrics().memory;
    assert_eq!((memory.tracked, memory.unowned), (None, None));
    assert!(memory.used >= memory.resident.unwrap().max(60 * MIB));
}
