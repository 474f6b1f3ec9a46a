//! A governor with nothing to do uses no CPU and wakes no thread. Alone in its binary: it reads the CPU clock of the
//! process and counts how often its threads were woken.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{governor, grounds, watched};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='4');";
const WINDOW: Duration = Duration::from_secs(1);
/// A thread that ticks every millisecond uses more than this share of one core.
const MOST: f64 = 0.005;

/// Wake-ups of our own threads in a second without work; one that ticks every 4 ms comes to 250.
const FEW: u64 = 25;

/// How often the threads that we have started (the host's are not ours) have gone to sleep so far; 0 where the system
/// does not tell.
fn sleeps_of_our_threads() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let ours = threads.flatten().filter(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name.starts_with("quotient"))
    });
    let sleeps = ours.filter_map(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    });
    sleeps.sum()
}

fn process_cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[test]
fn an_idle_governor_uses_no_cpu() {
    let _watched = watched("idle");
    let grounds = grounds(2);
    let governors = [2, 1, 2].into_iter().zip(&grounds);
    let governors: Vec<_> = governors
        .map(|(workers, ground)| governor(ground, workers, SQL))
        .collect();
    // Idle for the first time, and idle again after work, with tasks that wait.
    for round in ["before any work", "after work"] {
        // After its last task the watchdog looks a dozen times more.
        std::thread::sleep(Duration::from_millis(200));
        let sleeps = sleeps_of_our_threads();
        let (cpu, start) = (process_cpu(), Instant::now());
        grounds[0].block_on(async { tokio::time::sleep(WINDOW).await });
        let share = (process_cpu() - cpu).as_secs_f64() / start.elapsed().as_secs_f64();
        assert!(share < MOST, "{round}: {:.2} % of a core", share * 100.0);
        let woken = sleeps_of_our_threads() - sleeps;
        assert!(woken <= FEW, "{round}: a thread of ours woke {woken} times");
        for (governor, runtime) in governors.iter().zip(&grounds) {
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
    }
}
