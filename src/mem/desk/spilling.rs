//! Spillers of a group as they are registered, and the moment at which they are asked.
//!
//! Mechanism; any thread but inside the allocator. Callbacks are called without any lock of ours.

use super::limits::nearest;
use super::{Desk, Payer};
use crate::foreign;
use crate::mem::spill::{self, SpillId, Spillers};
use crate::mem::{self, enter_process};
use crate::sync::Mutex;
use crate::unit::{Bytes, Nanos};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Between two looks of busy workers at a group that stays above its threshold. A look is about a microsecond.
const LOOK_AGAIN: Nanos = Nanos::from_micros(50);

/// How a spiller is asked for so many bytes.
pub type Ask = Arc<dyn Fn(u64) + Send + Sync>;

/// The spillers of one group.
#[derive(Default)]
pub(super) struct Spilling {
    registered: Mutex<Registered>,
    /// Read at the end of every slice.
    any: AtomicBool,
    /// Somebody was asked, and the group has not been seen below its threshold since.
    asking: AtomicBool,
    /// Bytes; 0 is off.
    threshold: AtomicU64,
    /// When it was looked at last, in ns of the worker's clock.
    looked: AtomicU64,
    asks: AtomicU64,
}

#[derive(Default)]
struct Registered {
    spillers: Spillers<u16>,
    asks: FxHashMap<SpillId, (Payer, Ask)>,
}

/// A spiller is asked as long as this lives.
#[must_use = "dropping a registration ends it"]
pub struct Registration {
    desk: Arc<Desk>,
    id: SpillId,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _ours = enter_process();
        let spilling = &self.desk.spilling;
        let mut registered = spilling.registered.lock();
        registered.spillers.remove(self.id);
        let gone = registered.asks.remove(&self.id);
        let any = !registered.spillers.is_empty();
        spilling.any.store(any, Relaxed);
        drop(registered);
        // The program's own code may run in its destructor.
        drop(gone);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("group", self.desk.name())
            .field("id", &self.id.0)
            .finish_non_exhaustive()
    }
}

impl Desk {
    /// A spiller of `payer`.
    pub fn register(self: &Arc<Desk>, payer: Payer, priority: i32, ask: Ask) -> Registration {
        let ours = enter_process();
        let mut registered = self.spilling.registered.lock();
        let id = registered.spillers.register(payer.owner().0, priority);
        registered.asks.insert(id, (payer, ask));
        self.spilling.any.store(true, Relaxed);
        drop(registered);
        drop(ours);
        Registration {
            desk: self.clone(),
            id,
        }
    }

    /// Changes the bytes above which spillers are asked; none is off.
    pub fn set_spill_threshold(&self, bytes: Option<u64>) {
        let bytes = bytes.map_or(0, |bytes| bytes.max(1));
        self.spilling.threshold.store(bytes, Relaxed);
    }

    fn threshold(&self) -> Option<u64> {
        Some(self.spilling.threshold.load(Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// Whether the group is above its spill_mem_limit_threshold.
    pub fn should_spill(&self) -> bool {
        let threshold = self.threshold();
        threshold.is_some_and(|threshold| self.owner().used() > threshold)
    }

    /// Whether there is anybody to ask.
    #[inline]
    pub fn has_spillers(&self) -> bool {
        self.spilling.any.load(Relaxed)
    }

    /// The end of a slice at `now`: asks spillers if the group is above its threshold. One load where nobody has
    /// registered.
    #[inline]
    pub fn look_at_pressure(&self, now: Nanos) {
        if self.has_spillers() {
            self.press(now);
        }
    }

    fn press(&self, now: Nanos) {
        if !self.should_spill() {
            self.relax();
            return;
        }
        let last = self.spilling.looked.load(Relaxed);
        let soon = last < now.0 && now.0 - last < LOOK_AGAIN.0;
        if !soon {
            self.spilling.looked.store(now.0, Relaxed);
            self.ask_for_memory();
        }
    }

    /// How often a spiller was asked so far.
    pub fn asks(&self) -> u64 {
        self.spilling.asks.load(Relaxed)
    }

    /// The group is at or below its threshold: nothing is expected of anybody, unless a reservation waits.
    fn relax(&self) {
        let asking = &self.spilling.asking;
        if asking.load(Relaxed) && self.waiting() == 0 && asking.swap(false, Relaxed) {
            self.spilling.registered.lock().spillers.forget_asks();
        }
    }

    /// Asks spillers if the group is above its threshold, or if a reservation waits. Nobody is asked while the
    /// threshold is off. How many were asked.
    pub fn ask_for_memory(&self) -> usize {
        if !self.has_spillers() {
            return 0;
        }
        let Some(target) = self.target() else {
            return 0;
        };
        let used = Bytes(self.owner().used());
        let asked: Vec<(Ask, u64)> = {
            let _ours = enter_process();
            let mut registered = self.spilling.registered.lock();
            let Registered { spillers, asks } = &mut *registered;
            let held: FxHashMap<u16, u64> = asks
                .values()
                .map(|(payer, _)| (payer.owner().0, payer.used()))
                .collect();
            let held = |owner| Bytes(held.get(&owner).copied().unwrap_or(0));
            spillers
                .ask(used, Bytes(target), self.now(), held)
                .into_iter()
                .filter_map(|(id, bytes)| Some((asks.get(&id)?.1.clone(), bytes.0)))
                .collect()
        };
        if !asked.is_empty() {
            self.spilling.asks.fetch_add(asked.len() as u64, Relaxed);
            self.spilling.asking.store(true, Relaxed);
        }
        for (ask, bytes) in &asked {
            // A task of the query's is made, which may be above its limit: it gets what that takes, since here is no poll
            // that could end for it.
            foreign::contain(|| mem::lifted(|| ask(*bytes)));
        }
        let count = asked.len();
        // The last reference to a callback, perhaps.
        foreign::contain(|| drop(asked));
        count
    }

    /// What the group is to come down to; none if spilling is off.
    fn target(&self) -> Option<u64> {
        let threshold = self.threshold()?;
        let used = self.owner().used();
        let below_threshold = if used > threshold {
            spill::target(Bytes(threshold)).0
        } else {
            used
        };
        Some(below_threshold.min(used.saturating_sub(self.missing())))
    }

    /// What the first reservation that waits is short of.
    fn missing(&self) -> u64 {
        let first = self.first();
        first.map_or(0, |(payer, bytes)| {
            let short = nearest(&payer, bytes);
            let wanted = short.used.saturating_add(short.asked);
            wanted.saturating_sub(short.limit)
        })
    }
}
