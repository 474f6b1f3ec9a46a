//! The memory throttle over the crate's own allocator: what it counts throttles, and what lasts is collected.

#![allow(clippy::unwrap_used)]

use quotient::settings::Scheduler;
use quotient::{Attributes, Governor, Settings, mem};
use std::time::Duration;
use tokio::time::sleep;

#[global_allocator]
static ALLOC: quotient::alloc::GroupAlloc = quotient::alloc::GroupAlloc::new();

const BLOCK: usize = 64 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_allocator_counts_throttles_and_lasting_pressure_is_collected() {
    let mut settings = Settings::new();
    settings.query_scheduler_name = Scheduler::MemoryThrottledFcfs;
    settings.memory_usage_percentage_threshold = 50.0;
    settings.max_running_queries_update_frequency_ms = 2;
    settings.query_runner_threads = 4;
    // More than the block is far from the limit, and half of it is less than the block.
    let governor = Governor::builder()
        .settings(settings)
        .memory_limit(mem::root_used() + 100 * (1 << 20))
        .build()
        .unwrap();
    let queries = || governor.metrics().queries;
    let until = async |what: &str, holds: &dyn Fn() -> bool| {
        let wait = async {
            while !holds() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(120), wait).await;
        assert!(waited.is_ok(), "{what}: {:?}", queries());
    };
    let anybody = Attributes::new();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let holder = governor.spawn(&anybody, async move {
        let block = vec![1_u8; BLOCK];
        let _ = gone.await;
        block.len()
    });
    until("it throttles", &|| queries().throttling_for.0 > 0).await;
    assert_eq!(queries().max_allowed, Some(1));
    let next = governor.spawn(&anybody, async { 7 });
    until("it asks for a collection", &|| queries().collections > 0).await;
    assert!(!next.is_finished());
    go.send(()).unwrap();
    assert_eq!(holder.await.unwrap(), BLOCK);
    assert_eq!(next.await.unwrap(), 7);
    until("it recovers", &|| queries().max_allowed == Some(4)).await;
}
