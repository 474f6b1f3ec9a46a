//! The blocking pool as a builder sets it up, and as the catalog shares it.
//!
//! Wiring; the thread that builds, and one that holds the catalog's turn.

use super::builder::Builder;
use super::error::Error;
use crate::catalog::{GroupSpec, GroupType};
use crate::exec::blocking::{Setup, Source};
use crate::exec::group::Group;
use crate::query::KillReason;
use crate::sched::pool::Share;
use std::time::Duration;

/// What a program asks of the pool.
pub(super) struct Wanted {
    threads: usize,
    queue: usize,
    keep_alive: Duration,
}

impl Default for Wanted {
    /// tokio's, but for the queue, which there has no end; 102 400 is StarRocks' for scans.
    fn default() -> Wanted {
        Wanted {
            threads: 512,
            queue: 102_400,
            keep_alive: Duration::from_secs(10),
        }
    }
}

/// More threads than any machine runs well.
const MAX_THREADS: usize = 65_536;

impl Wanted {
    pub(super) fn setup(&self, source: Source) -> Result<Setup, Error> {
        if !(1..=MAX_THREADS).contains(&self.threads) {
            return Err(Error::Invalid {
                what: "max_blocking_threads",
                value: self.threads.to_string(),
                allowed: "1 to 65536",
            });
        }
        if self.queue == 0 {
            return Err(Error::Invalid {
                what: "max_queued_blocking",
                value: "0".into(),
                allowed: "1 and more",
            });
        }
        Ok(Setup {
            threads: self.threads,
            queue: self.queue,
            keep_alive: self.keep_alive,
            source,
            refusal: KillReason::refusal,
        })
    }
}

impl Builder {
    /// How many threads [`task::spawn_blocking`](crate::task::spawn_blocking) may use at once, 1 to 65536. They are
    /// started when needed. Groups share them by `io_weight` once closures wait for one: with fewer threads the shares
    /// bind sooner, with more of them closures that only wait harm each other less. Default: 512, as tokio's.
    ///
    /// On a current-thread runtime the threads are the runtime's, of which there are `max_blocking_threads` too.
    pub fn max_blocking_threads(mut self, threads: usize) -> Builder {
        self.blocking.threads = threads;
        self
    }

    /// How many closures of one group may wait for a thread of the blocking pool, at least 1. One more is refused: its
    /// handle yields a cancelled `JoinError` whose reason is
    /// [`KillReason::BlockingQueueFull`](crate::KillReason::BlockingQueueFull). What a read, a copy or a write of
    /// [`fs`](crate::fs) has begun goes on however many wait. Default: 102 400.
    pub fn max_queued_blocking(mut self, closures: usize) -> Builder {
        self.blocking.queue = closures;
        self
    }

    /// How long a thread of the blocking pool waits for its next closure before it ends. No effect on a current-thread
    /// runtime, whose threads they are. Default: 10 s, as tokio's.
    pub fn blocking_keep_alive(mut self, time: Duration) -> Builder {
        self.blocking.keep_alive = time;
        self
    }
}

/// What a group may have of the pool. Threads are cheap to keep free: as many as the workers that a short_query group
/// would have by its weight alone.
pub(super) fn share(spec: &GroupSpec, group: &Group) -> Share {
    let workers = group.core().workers() as u64;
    let reserved = match spec.group_type() {
        GroupType::ShortQuery => spec.cpu_core_limit().get().min(workers),
        GroupType::Normal | GroupType::Mv => 0,
    };
    Share {
        weight: spec.io_weight(),
        reserved: u32::try_from(reserved).unwrap_or(u32::MAX),
    }
}
