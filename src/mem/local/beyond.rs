//! Where a credit ends: more is charged, or too much given back, or a request is refused.
//!
//! Mechanism; each thread its own, inside the allocator. Called with all credit put down.

use super::{CALLED, Entry, Local, PROCESS, RETURN, Stage, place};
use crate::mem::doom::{self, Decree};
use crate::mem::slot::{self, slot};
use crate::mem::{collect, life, promise};
use std::sync::atomic::Ordering::Relaxed;

impl Local {
    pub(super) fn refill(&self, bytes: u64) -> Option<u16> {
        CALLED.store(true, Relaxed);
        self.register();
        self.settle_in();
        let owner = self.owner.get();
        let entry = self.entry(self.current());
        let short = match entry.credit.get().checked_sub(bytes) {
            // What was about to go back when registering this thread asked for more.
            Some(left) => {
                entry.credit.set(left);
                return Some(owner);
            }
            None => bytes - entry.credit.get(),
        };
        if self.stage.get() == Stage::Ready {
            // The first time little, then twice as much each time, up to a chunk: most polls allocate little, and
            // what they leave of a whole chunk would have to go back at once.
            let most = self.chunk(owner);
            self.cap.set(u32::try_from(2 * most).unwrap_or(u32::MAX));
            let chunk = most.min(u64::from(entry.cap.get().max(self.keep())));
            entry.cap.set(u32::try_from(2 * chunk).unwrap_or(u32::MAX));
            if chunk > 0 && promise::try_charge(owner, short.saturating_add(chunk)).is_ok() {
                entry.credit.set(chunk);
                return Some(owner);
            }
        }
        if promise::try_charge(owner, short).is_ok() {
            entry.credit.set(0);
            return Some(owner);
        }
        self.clear();
        match promise::try_charge(owner, bytes) {
            Ok(()) => Some(owner),
            Err(at) => self.short(owner, bytes, at),
        }
    }

    /// A request does not fit, not even exactly.
    fn short(&self, owner: u16, bytes: u64, at: u16) -> Option<u16> {
        RETURN.fetch_add(1, Relaxed);
        if bytes > life::MOST {
            return None;
        }
        let lifted = self.lifted.get() > 0 || std::thread::panicking();
        if !lifted {
            if self.fallible.get() > 0 {
                return None;
            }
            match doom::decree(self, owner, bytes, at) {
                Decree::Grant => {}
                Decree::Fail => return None,
                Decree::Park => self.park_for_good(owner),
            }
        }
        slot::force_charge(owner, bytes);
        Some(owner)
    }

    /// The poll on this thread never goes on. Returns only where a thread cannot be parked.
    fn park_for_good(&self, owner: u16) {
        let Some(park) = self.park.take() else {
            return;
        };
        slot(owner).set_parked();
        self.clear();
        // What parking itself needs is the process's, and may have it.
        self.switch(0);
        self.lifted.set(self.lifted.get() + 1);
        // What the poll freed on its way, half of a vector that doubles, would be kept for a thread that comes no more.
        collect();
        park();
        loop {
            std::thread::park();
        }
    }

    pub(super) fn give_to(&self, owner: u16, bytes: u64) {
        let entry = self.entry(place(owner));
        if entry.owner.get() == owner {
            entry.credit.set(entry.credit.get() + bytes);
            self.spill(entry);
        } else {
            self.give_foreign(owner, bytes);
        }
    }

    fn spill(&self, entry: &Entry) {
        self.register();
        let cap = u64::from(entry.cap.get());
        if entry.credit.get() > cap {
            self.reduce(entry, cap / 2);
            let grows = self.is_hot(entry);
            if grows {
                entry
                    .cap
                    .set(entry.cap.get().saturating_mul(2).min(self.cap.get()));
            }
        }
    }

    fn is_hot(&self, entry: &Entry) -> bool {
        let place = place(entry.owner.get());
        place == PROCESS || place == self.hot.get()
    }

    fn give_foreign(&self, owner: u16, bytes: u64) {
        let place = place(owner);
        let keeps = self.stage.get() == Stage::Ready && self.serving.get();
        if !keeps || place == self.current() {
            return promise::credit(owner, bytes);
        }
        self.claim(place, owner);
        let entry = self.entry(place);
        entry.credit.set(bytes);
        if bytes > u64::from(entry.cap.get()) {
            self.spill(entry);
        }
    }
}
