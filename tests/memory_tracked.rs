//! Memory that the allocator counts, together with what is reserved, as the views and limits see it.

#[path = "support/gibibyte.rs"]
mod gibibyte;

use gibibyte::{memory_of, query};
use quotient::memory::{self, MemoryError};
use quotient::{Attributes, Governor, task};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::sleep;

#[global_allocator]
static ALLOC: quotient::alloc::GroupAlloc = quotient::alloc::GroupAlloc::new();

const MIB: u64 = 1 << 20;
/// What threads may keep in their credits: three chunks each, for two workers and the test's own thread.
const CREDITS: u64 = 9 * (256 << 10);

fn governor() -> Governor {
    gibibyte::governor(
        "'mem_limit'='64MiB', 'queue_timeout'='30s'",
        "'mem_limit'='256MiB'",
    )
}

/// So many bytes, in blocks of 64 KiB, written to.
fn fill(bytes: u64) -> Vec<Vec<u8>> {
    (0..bytes >> 16)
        .map(|at| black_box(vec![at as u8 | 1; 1 << 16]))
        .collect()
}

fn about(seen: u64, expected: u64) {
    let range = expected..=expected + CREDITS;
    assert!(range.contains(&seen), "{seen} is not about {expected}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reserved_memory_that_is_allocated_counts_once() {
    let governor = governor();
    let bi = query(&governor, "bi").await;
    let usage = {
        let bi = bi.clone();
        move || bi.usage().memory
    };
    bi.run(async move {
        let mut room = memory::reserve(32 * MIB).await.unwrap();
        about(usage(), 32 * MIB);
        let table = fill(24 * MIB);
        task::yield_now().await;
        about(usage(), 32 * MIB);
        let more = fill(16 * MIB);
        task::yield_now().await;
        about(usage(), 40 * MIB);
        // What is freed is reserved again.
        drop(more);
        drop(table);
        task::yield_now().await;
        about(usage(), 32 * MIB);
        let table = fill(24 * MIB);
        task::yield_now().await;
        about(usage(), 32 * MIB);
        // Without the reservation, what is allocated stays charged.
        room.free();
        task::yield_now().await;
        about(usage(), 24 * MIB);
        drop(table);
        task::yield_now().await;
        about(usage(), 0);
    })
    .await
    .unwrap();
    let peak = bi.usage().memory_peak;
    about(peak, 40 * MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_reserved_can_be_allocated_and_nobody_else_gets_it() {
    let governor = governor();
    let (a, b) = (query(&governor, "bi").await, query(&governor, "bi").await);
    let room = a.try_reserve(40 * MIB).unwrap();
    assert!(matches!(
        b.try_reserve(30 * MIB),
        Err(MemoryError::Full { .. })
    ));
    let other = b
        .run(async { fill(16 * MIB) })
        .await
        .expect("there is room for it");
    let filled = a.run(async { fill(39 * MIB) }).await;
    assert_eq!(filled.expect("it was reserved").len(), 39 * 16);
    drop((room, other));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_waits_for_memory_that_is_freed() {
    let governor = governor();
    let (a, b) = (query(&governor, "bi").await, query(&governor, "bi").await);
    let table = a.run(async { fill(50 * MIB) }).await.unwrap();
    let waiting = b.spawn(async {
        let room = memory::reserve(40 * MIB).await?;
        let table = fill(40 * MIB);
        Ok::<_, MemoryError>((room.size(), table.len()))
    });
    while memory_of(&governor, "bi").waiting == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    // Freed by a thread that has nothing to do with the group.
    std::thread::spawn(move || drop(table)).join().unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), (40 * MIB, 40 * 16));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_groups_and_what_is_nobodys_are_all_there_is() {
    let governor = governor();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for user in ["bi", "etl", "nobody", "etl"] {
        let stop = stop.clone();
        let query = query(&governor, user).await;
        tasks.push(query.spawn(async move {
            let mut kept = Vec::new();
            for round in 0_u64.. {
                kept.push(fill(round % 5 * MIB));
                if kept.len() > 4 {
                    kept.clear();
                }
                if stop.load(Relaxed) {
                    break;
                }
                task::yield_now().await;
            }
        }));
    }
    for _ in 0..200 {
        let metrics = governor.metrics();
        let groups: u64 = metrics.groups.iter().filter_map(|g| g.memory.used).sum();
        let memory = metrics.memory;
        let (tracked, unowned) = (memory.tracked.unwrap(), memory.unowned.unwrap());
        assert_eq!(groups + unowned, tracked);
        assert!(memory.used >= tracked);
        sleep(Duration::from_micros(200)).await;
    }
    stop.store(true, Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let mine = fill(8 * MIB); // of this test's own task, which is no governor's
    let memory = governor.metrics().memory;
    assert!(memory.unowned.unwrap() >= 8 * MIB, "{memory:?}");
    assert!(memory.resident.unwrap() >= 8 * MIB, "{memory:?}");
    drop(mine);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_views_show_memory_that_outlives_its_task_and_its_peak() {
    let governor = governor();
    let etl = query(&governor, "etl").await;
    let kept = etl
        .run(async {
            drop(fill(32 * MIB));
            fill(16 * MIB)
        })
        .await
        .unwrap();
    let show = || async {
        let usage = governor
            .execute("SHOW USAGE RESOURCE GROUP etl")
            .await
            .unwrap();
        ["memory", "memory_peak", "memory_limit"].map(|name| {
            let column = usage[0].columns().iter().position(|column| column == name);
            let cell = usage[0].rows()[0][column.unwrap()].to_string();
            cell.parse::<u64>().unwrap()
        })
    };
    let [memory, peak, limit] = show().await;
    about(memory, 16 * MIB);
    about(peak, 32 * MIB);
    assert_eq!(limit, 256 * MIB);
    let handle = governor.classify(&Attributes::new().user("etl")).unwrap();
    assert_eq!(
        (
            handle.usage().memory_peak,
            etl.usage().elapsed > Duration::ZERO
        ),
        (peak, true)
    );
    about(handle.usage().memory, 16 * MIB);
    let page = governor.render_metrics();
    for name in [
        "quotient_group_memory_bytes{group=\"etl\"}",
        "quotient_group_memory_peak_bytes{group=\"etl\"}",
        "quotient_unowned_memory_bytes",
        "quotient_memory_tracked_bytes",
        "quotient_memory_resident_bytes",
    ] {
        assert!(page.contains(&format!("\n{name} ")), "{name}");
    }
    // The query is over; its memory is not.
    drop(etl);
    about(show().await[0], 16 * MIB);
    drop(kept);
    about(show().await[0], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_query_that_holds_most_is_asked_to_spill_first() {
    let governor = governor();
    governor
        .execute("ALTER RESOURCE GROUP bi WITH ('spill_mem_limit_threshold'='75%')")
        .await
        .unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let (small, large) = (query(&governor, "bi").await, query(&governor, "bi").await);
    let first = small.run(async { fill(8 * MIB) }).await.unwrap();
    let never = small.on_pressure(0, |bytes| panic!("the smaller one was asked for {bytes}"));
    let registration = large.on_pressure(0, {
        let asked = asked.clone();
        move |bytes| {
            asked.fetch_max(bytes, Relaxed);
        }
    });
    let second = large
        .run({
            let asked = asked.clone();
            async move {
                let mut kept = Vec::new();
                for _ in 0..64 {
                    kept.extend(fill(MIB));
                    task::yield_now().await;
                    if asked.load(Relaxed) > 0 {
                        break;
                    }
                }
                kept.len() as u64 * (1 << 16)
            }
        })
        .await
        .expect("asked before it was ended");
    assert!((39 * MIB..=43 * MIB).contains(&second), "{second}");
    // From just above 48 MiB to 7/8 of that; a second ask, for what was added meanwhile, may be answered before.
    while asked.load(Relaxed) < 6 * MIB {
        sleep(Duration::from_millis(1)).await;
    }
    let bytes = asked.load(Relaxed);
    assert!((6 * MIB..10 * MIB).contains(&bytes), "{bytes}");
    drop((first, never, registration));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buffer_that_is_transferred_is_the_receivers_without_being_copied() {
    let governor = governor();
    let (producer, consumer) = (query(&governor, "etl").await, query(&governor, "bi").await);
    let made = producer
        .run(async {
            let numbers: Vec<u64> = (0..4 << 20).collect(); // 32 MiB
            (numbers, "x".repeat(8 << 20), String::from("small"))
        })
        .await
        .unwrap();
    about(producer.usage().memory, 40 * MIB);
    let kept = consumer
        .run(async move {
            let (mut numbers, mut text, mut small) = made;
            let place = numbers.as_ptr().addr();
            let moved = memory::transfer(&mut numbers).unwrap();
            assert_eq!(moved, (numbers.capacity() * 8) as u64);
            assert_eq!(numbers.as_ptr().addr(), place);
            assert_eq!(
                memory::transfer(&mut numbers).unwrap(),
                0,
                "it is its own already"
            );
            let mut slice = text.split_off(4 << 20).into_boxed_str().into_boxed_bytes();
            assert_eq!(memory::transfer(&mut text).unwrap(), 8 * MIB);
            // Made by this query.
            assert_eq!(memory::transfer(&mut slice).unwrap(), 0);
            assert_eq!(memory::transfer(&mut small).unwrap(), 0);
            (numbers, text, slice, small)
        })
        .await
        .unwrap();
    about(producer.usage().memory, 0);
    about(consumer.usage().memory, 44 * MIB);
    // No more than the limit lets in: 64 MiB.
    let more = producer.run(async { vec![1_u8; 32 << 20] }).await.unwrap();
    let refused = consumer
        .run(async move {
            let mut more = more;
            let refused = memory::transfer(&mut more).unwrap_err();
            (refused, more.len())
        })
        .await
        .unwrap();
    assert!(matches!(refused.0, MemoryError::Full { asked, .. } if asked == 32 * MIB));
    drop((kept, refused));
    about(memory_of(&governor, "bi").used.unwrap(), 0);
    about(memory_of(&governor, "etl").used.unwrap(), 0);
    let outside = memory::transfer(&mut vec![0_u8; 4096]).unwrap_err();
    assert_eq!(outside, MemoryError::NoTask);
}
