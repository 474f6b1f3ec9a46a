//! CPU time: this thread's, this process's, and what the whole machine was busy with.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time of the thread or the process so far.
pub(crate) fn cpu_time(of: ClockId) -> Duration {
    let time = clock_gettime(of);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The machine's clock ticks so far, over all of its CPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    busy: u64,
    all: u64,
}

impl Ticks {
    /// From /proc/stat; `None` where there is none, or where it counts other CPUs than the `workers` that this
    /// program may use (a container with a part of a machine): what others do then says nothing about us.
    pub(crate) fn read(workers: usize) -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let mut lines = text.lines().take_while(|line| line.starts_with("cpu"));
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let ticks: Vec<u64> = lines
            .next()?
            .split_whitespace()
            .skip(1)
            .take(8)
            .map_while(|word| word.parse().ok())
            .collect();
        let [.., idle, iowait, _, _, _] = ticks[..] else {
            return None;
        };
        let all = ticks.iter().sum::<u64>();
        (lines.count() == workers).then_some(Ticks {
            busy: all - idle - iowait,
            all,
        })
    }

    /// The busy part of the time from `earlier` to now, 0 to 1.
    pub(crate) fn busy_since(self, earlier: Ticks) -> f64 {
        let all = self.all.saturating_sub(earlier.all);
        self.busy.saturating_sub(earlier.busy) as f64 / all.max(1) as f64
    }
}
