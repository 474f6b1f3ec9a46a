//! What closures spend on the CPU of the thread that runs them, one after the other.
//!
//! Mechanism; a thread of the pool, its own. The end of a closure is the start of the next, so that there is one
//! system call for each; what the thread does in between, some hundred nanoseconds, is charged to the one that follows.

use crate::clock::{self, Clock};
use crate::unit::Nanos;

/// Thread time, or wall time where the system does not tell.
pub(super) struct Meter {
    clock: Clock,
    since: Option<Nanos>,
}

impl Meter {
    pub(super) fn new(clock: Clock) -> Meter {
        Meter { clock, since: None }
    }

    /// The thread waits: what it spends on that is nobody's.
    pub(super) fn pause(&mut self) {
        self.since = None;
    }

    /// A closure begins.
    pub(super) fn begin(&mut self) {
        if self.since.is_none() {
            self.since = Some(self.read());
        }
    }

    /// What has been spent since the closure, or the one before it, began or ended.
    pub(super) fn lap(&mut self) -> Nanos {
        let now = self.read();
        let since = self.since.replace(now);
        now.since(since.unwrap_or(now))
    }

    fn read(&self) -> Nanos {
        clock::cpu_of_this_thread().unwrap_or_else(|| self.clock.now())
    }
}
