//! Where the waiting tasks of an account can be found, to be ended.
//!
//! Mechanism; any thread. A task is entered at its first `Pending`, not when it is spawned: until then it sits in a
//! queue that shutdown and kill empty anyway, and most short tasks never wait.

use super::task::Task;
use crate::mem;
use crate::sync::Mutex;
use slab::Slab;
use std::sync::Arc;
use std::task::Waker;

/// The tasks that have waited for something, so that they can be found, to be ended or shown.
pub(super) struct Waiting {
    shards: Box<[Mutex<Slab<Entered>>]>,
}

/// A task that can be found; models have wakers only.
pub(super) struct Entered {
    waker: Waker,
    task: Option<Arc<Task>>,
}

/// So many places are looked at under one lock, which workers take too.
const LOOK: usize = 1_024;

/// Where a task is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    shard: u32,
    key: u32,
}

impl Ticket {
    pub(super) fn pack(self) -> u64 {
        (u64::from(self.shard) << 32) | u64::from(self.key)
    }

    pub(super) fn unpack(packed: u64) -> Ticket {
        Ticket {
            shard: (packed >> 32) as u32,
            key: packed as u32,
        }
    }
}

impl Waiting {
    pub(super) fn new(shards: usize) -> Waiting {
        Waiting {
            shards: (0..shards.max(1))
                .map(|_| Mutex::new(Slab::new()))
                .collect(),
        }
    }

    pub(super) fn enter(&self, worker: usize, waker: Waker, task: Option<Arc<Task>>) -> Ticket {
        let shard = worker % self.shards.len();
        let key = self.shards[shard].lock().insert(Entered { waker, task });
        Ticket {
            shard: shard as u32,
            key: key as u32,
        }
    }

    /// What was entered goes to the caller, to be dropped outside of the lock.
    pub(super) fn leave(&self, ticket: Ticket) -> Option<Entered> {
        self.shards
            .get(ticket.shard as usize)?
            .lock()
            .try_remove(ticket.key as usize)
    }

    pub(super) fn wake(&self, ticket: Ticket) {
        let waker = self
            .shards
            .get(ticket.shard as usize)
            .and_then(|s| Some(s.lock().get(ticket.key as usize)?.waker.clone()));
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn wake_all(&self) {
        // The caller may have no memory left, and be parked for want of it: with none of these locks.
        let _ours = mem::enter_process();
        for shard in &self.shards {
            // Cloned out: waking pushes into queues, which must not happen under a lock that tasks take.
            let wakers: Vec<Waker> = shard
                .lock()
                .iter()
                .map(|(_, entered)| entered.waker.clone())
                .collect();
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// At most so many of the tasks, however many there are; no lock is held for long.
    pub(super) fn tasks(&self, most: usize) -> Vec<Arc<Task>> {
        let _ours = mem::enter_process();
        let mut found: Vec<Arc<Task>> = Vec::new();
        for shard in &self.shards {
            let mut from = 0;
            loop {
                found.reserve(LOOK);
                let shard = shard.lock();
                let places = from..(from + LOOK).min(shard.capacity());
                from += LOOK;
                let tasks = places.filter_map(|key| shard.get(key)?.task.clone());
                found.extend(tasks.take(most.saturating_sub(found.len())));
                if found.len() >= most {
                    return found;
                }
                if from >= shard.capacity() {
                    break;
                }
            }
        }
        found
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }
}
