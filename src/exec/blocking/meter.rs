//! What closures spend on the CPU of the thread that runs them, one after the other.
//!
//! Mechanism; a thread of the pool, its own. The thread's clock is a system call, as dear as a short closure itself. So a
//! closure that was over within some microseconds is charged the time that passed, which is at most that much more than
//! it spent, and the clock is not read.

use crate::clock::{self, Clock};
use crate::unit::Nanos;

/// Whoever was over by then is charged what passed.
const SHORT: Nanos = Nanos::from_micros(20);
/// How many closures may begin with the same reading. What the thread does between them, waiting and waking included, is
/// some microseconds each, and is charged to the first one after it that is not short.
const LAPS: u32 = 32;

/// Thread time, or wall time where the system does not tell.
pub(super) struct Meter {
    clock: Clock,
    /// The clock runs, so that it can be compared with the thread's.
    live: bool,
    began: Nanos,
    last: Option<Reading>,
    /// Closures that have begun since it was taken.
    laps: u32,
}

struct Reading {
    /// The thread's time less what was charged since without a look at it.
    cpu: Nanos,
}

impl Meter {
    pub(super) fn new(clock: Clock) -> Meter {
        Meter {
            live: clock.is_live(),
            clock,
            began: Nanos::ZERO,
            last: None,
            laps: 0,
        }
    }

    /// A closure begins.
    pub(super) fn begin(&mut self) {
        self.began = self.clock.now();
        self.laps += 1;
        if self.last.is_none() || self.laps > LAPS || !self.live {
            self.last = Some(self.read(self.began));
            self.laps = 0;
        }
    }

    /// What the closure that has ended has spent.
    pub(super) fn end(&mut self) -> Nanos {
        let now = self.clock.now();
        let wall = now.since(self.began);
        if self.live
            && wall < SHORT
            && let Some(last) = &mut self.last
        {
            last.cpu = last.cpu.plus(wall);
            return wall;
        }
        let reading = self.read(now);
        let cpu = reading.cpu;
        let last = self.last.replace(reading);
        self.laps = 0;
        let spent = last.map_or(Nanos::ZERO, |last| cpu.since(last.cpu));
        // Its clock and ours may differ by a little; and what came between closures is not this one's.
        if self.live { spent.min(wall) } else { spent }
    }

    fn read(&self, now: Nanos) -> Reading {
        Reading {
            cpu: clock::cpu_of_this_thread().unwrap_or(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn compute(length: Duration) {
        let start = Instant::now();
        while start.elapsed() < length {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn many_short_closures_are_charged_as_much_as_the_thread_spent_and_waiting_is_not_charged() {
        let mut meter = Meter::new(Clock::tsc());
        let Some(before) = clock::cpu_of_this_thread() else {
            return;
        };
        let mut charged = Nanos::ZERO;
        for i in 0..2_000 {
            meter.begin();
            compute(Duration::from_micros(if i % 100 == 0 { 300 } else { 5 }));
            charged = charged.plus(meter.end());
        }
        let spent = clock::cpu_of_this_thread().unwrap().since(before);
        // A short one that the system interrupted may be charged for that.
        let bound = spent.0 + 2_000 * SHORT.0;
        assert!(
            charged.0 > spent.0 / 2 && charged.0 < bound,
            "{charged} of {spent}"
        );
        meter.begin();
        std::thread::sleep(Duration::from_millis(20));
        let waited = meter.end();
        assert!(waited < Nanos::from_millis(5), "{waited}");
    }
}
