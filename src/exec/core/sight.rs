//! What the watchdog makes of a poll that goes on: how long it has really kept its worker, and what it does.
//!
//! Mechanism: reads other threads' CPU clocks, on the watchdog's thread. A poll is not late because the operating
//! system gave the CPU to somebody else meanwhile: that time is nobody's (see `worker/stolen.rs`), and more threads
//! would only make it worse.

use super::Seat;
use crate::clock;
use crate::sched::fair::Late;
use crate::unit::Nanos;
use std::sync::atomic::Ordering::Relaxed;

/// What the watchdog remembers of one seat's poll from look to look.
#[derive(Clone, Copy, Debug, Default)]
struct Eye {
    /// When the poll began.
    poll: u64,
    /// When it was looked at last.
    at: Nanos,
    /// How long it had kept its worker by then.
    own: Nanos,
}

/// What the watchdog remembers from look to look.
#[derive(Debug, Default)]
pub(in crate::exec) struct Sight {
    eyes: Vec<Eye>,
    /// Each thread that a worker was seen on, as of the last look.
    threads: Vec<Glance>,
    /// The same, of the look that goes on.
    fresh: Vec<Glance>,
}

/// A thread's CPU time at a moment.
#[derive(Clone, Copy, Debug)]
struct Glance {
    thread: i32,
    at: Nanos,
    cpu: Nanos,
}

/// One look at a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// How long it has kept its worker.
    pub(super) own: Nanos,
    pub(super) does: Late,
}

/// What a thread did since the last look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    /// It used `cpu` of what `passed`.
    Used { cpu: Nanos, passed: Nanos },
    /// It waits for something, and did hardly anything else.
    Waited,
    /// Its clock cannot be read: what passed is taken to be used.
    Unknown,
    /// It was not seen before.
    New,
}

impl Eye {
    fn look(&mut self, poll: u64, now: Nanos, did: Did) -> Look {
        let last = std::mem::replace(
            self,
            Eye {
                poll,
                at: now,
                ..*self
            },
        );
        let goes_on = last.poll == poll;
        let (before, passed) = match goes_on {
            true => (last.own, now.since(last.at)),
            false => (Nanos::ZERO, now.since(Nanos(poll))),
        };
        let (more, does) = match did {
            // Of what was used, as much as possible was used before the poll began: no poll is late by mistake.
            Did::Used { cpu, passed: since } => {
                let earlier = since.since(passed);
                (cpu.since(earlier).min(passed), Late::Computing)
            }
            Did::Waited => (passed, Late::Blocked),
            Did::Unknown => (passed, Late::Computing),
            Did::New => (Nanos::ZERO, Late::Computing),
        };
        self.own = before.plus(more);
        Look {
            own: self.own,
            does,
        }
    }
}

impl Sight {
    /// A new look at all seats begins.
    pub(super) fn begin(&mut self) {
        std::mem::swap(&mut self.threads, &mut self.fresh);
        self.fresh.clear();
    }

    /// Looks at a seat, whose poll began at `poll`; None if it is in none. `live`: clocks can be compared.
    pub(super) fn look(&mut self, seat: &Seat, poll: u64, now: Nanos, live: bool) -> Option<Look> {
        let thread = seat.thread.load(Relaxed);
        let cpu = live.then(|| clock::cpu_of_thread(thread)).flatten();
        if let Some(cpu) = cpu {
            let at = now;
            self.fresh.push(Glance { thread, at, cpu });
        }
        if poll == 0 {
            return None;
        }
        if seat.index >= self.eyes.len() {
            self.eyes.resize(seat.index + 1, Eye::default());
        }
        let eye = &mut self.eyes[seat.index];
        let passed = match eye.poll == poll {
            true => now.since(eye.at),
            false => now.since(Nanos(poll)),
        };
        let before = self.threads.iter().find(|seen| seen.thread == thread);
        let did = match (cpu, before) {
            (None, _) => Did::Unknown,
            (Some(cpu), Some(before)) => {
                let used = cpu.since(before.cpu);
                // The kernel is asked only about those that did next to nothing.
                if used.0 < passed.0 / 8 && !clock::wants_cpu(thread) {
                    Did::Waited
                } else {
                    Did::Used {
                        cpu: used,
                        passed: now.since(before.at),
                    }
                }
            }
            (Some(_), None) => Did::New,
        };
        Some(eye.look(poll, now, did))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn a_poll_is_as_old_as_what_it_used_or_waited() {
        let mut eye = Eye::default();
        let mut look = |poll: Nanos, now: u64, did| eye.look(poll.0, ms(now), did);
        let used = |cpu, passed| Did::Used {
            cpu: ms(cpu),
            passed: ms(passed),
        };
        let first = ms(100);
        // Of the 30 ms since the last look the thread had 23, of the poll's 10 at least 3.
        let seen = look(first, 110, used(23, 30));
        assert_eq!((seen.own, seen.does), (ms(3), Late::Computing));
        assert_eq!(look(first, 114, used(4, 4)).own, ms(7));
        assert_eq!(look(first, 118, used(1, 4)).own, ms(8));
        let seen = look(first, 120, Did::Waited);
        assert_eq!((seen.own, seen.does), (ms(10), Late::Blocked));
        assert_eq!(look(first, 125, Did::Unknown).own, ms(15));
        // Another poll: all of it if the thread had its CPU all the time, perhaps nothing of it if it had not.
        assert_eq!(look(ms(200), 220, used(32, 32)).own, ms(20));
        assert_eq!(look(ms(300), 320, used(10, 32)).own, Nanos::ZERO);
        assert_eq!(look(ms(400), 410, Did::New).own, Nanos::ZERO);
    }
}
