//! What a group learns from its slices: how long its polls are, and whether tokio keeps its wake-ups back.
//!
//! Mechanism; any worker. Racy on purpose: all of it is a guess.

use super::Group;
use crate::sched;
use crate::unit::Nanos;
use std::sync::atomic::Ordering::Relaxed;

impl Group {
    /// Whether a worker that ran the group dry should let the host look for deferred wake-ups. Looks that
    /// found nothing make the next ones rarer: a group that waits for I/O gains nothing by them.
    pub(in crate::exec) fn may_have_deferred(&self) -> bool {
        let skips = self.skip_looks.load(Relaxed);
        self.skip_looks.store(skips.saturating_sub(1), Relaxed);
        skips == 0
    }

    /// A look found deferred tasks of the group, or did not.
    pub(in crate::exec) fn looked(&self, found: bool) {
        let fruitless = if found {
            0
        } else {
            (self.fruitless_looks.load(Relaxed) + 1).min(6)
        };
        self.fruitless_looks.store(fruitless, Relaxed);
        self.skip_looks.store((1 << fruitless) - 1, Relaxed);
    }

    pub(in crate::exec) fn average_poll(&self) -> Nanos {
        Nanos(self.average_poll.load(Relaxed))
    }

    /// Learns from a slice of `polls` polls.
    pub(in crate::exec) fn learn(&self, polls: u64, time: Nanos) {
        let average = sched::learn(self.average_poll(), polls, time);
        self.average_poll.store(average.0, Relaxed);
    }
}
