//! A governor with nothing to do uses no CPU. Alone in its binary: it reads the CPU clock of the process.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{current_thread, governor, multi_thread, watched};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='4');";
const WINDOW: Duration = Duration::from_secs(1);
/// A thread that ticks every millisecond uses more than this share of one core.
const MOST: f64 = 0.005;

fn process_cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[test]
fn an_idle_governor_uses_no_cpu() {
    let _watched = watched("idle");
    let multi = multi_thread(2);
    let single = current_thread();
    let governors = [governor(&multi, 2, SQL), governor(&single, 1, SQL)];
    // Idle for the first time, and idle again after work, with tasks that wait.
    for round in ["before any work", "after work"] {
        let (cpu, start) = (process_cpu(), Instant::now());
        multi.block_on(async { tokio::time::sleep(WINDOW).await });
        let share = (process_cpu() - cpu).as_secs_f64() / start.elapsed().as_secs_f64();
        assert!(share < MOST, "{round}: {:.2} % of a core", share * 100.0);
        for (governor, runtime) in governors.iter().zip([&multi, &single]) {
            for i in 0..100 {
                let waits = governor
                    .spawn_in("g", std::future::pending::<()>())
                    .unwrap();
                std::mem::forget(waits);
                let group = if i % 2 == 0 { "g" } else { "other" };
                let works = governor.spawn_in(group, async {
                    for _ in 0..10 {
                        quotient::task::yield_now().await;
                    }
                    tokio::time::sleep(Duration::from_micros(100)).await;
                });
                runtime.block_on(works.unwrap()).unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
