//! The life of a thread that keeps credits, and the marks that a poll leaves on it.
//!
//! Mechanism; each thread its own.

use super::{END, Local, PROCESS, RETURN, Stage, THREADS};
use crate::mem::rules;
use crate::mem::shortfall::Shortfall;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

impl Local {
    // ---- the life of the thread -----------------------------------------------------------------------------

    /// The first time that something may be kept; called with all credit put down.
    pub(super) fn register(&self) {
        if self.stage.get() != Stage::New {
            return;
        }
        // Whatever registering allocates is not kept.
        self.stage.set(Stage::Direct);
        if END.try_with(|_| ()).is_ok() {
            self.stage.set(Stage::Ready);
            self.cap
                .set(u32::try_from(2 * rules::CHUNK).unwrap_or(u32::MAX));
            self.entry(PROCESS).cap.set(self.keep());
        }
        // Where registering allocates, that has picked something up.
        self.put_down();
    }

    /// The thread ends: what its other destructors free and allocate goes to the table at once.
    pub(super) fn end(&self) {
        self.stage.set(Stage::Direct);
        self.cap.set(0);
        self.entries.iter().for_each(|entry| entry.cap.set(0));
        self.give_all_back();
        if self.counted.take() {
            THREADS.fetch_sub(1, Relaxed);
        }
    }

    /// Whether the thread runs a worker, from now on, and how it is parked. What was so before.
    pub(in crate::mem) fn serve(&self, serving: bool, park: Option<fn()>) -> (bool, Option<fn()>) {
        self.put_down_for(|| self.register());
        if serving && !self.counted.replace(true) && self.stage.get() == Stage::Ready {
            THREADS.fetch_add(1, Relaxed);
        }
        (self.serving.replace(serving), self.park.replace(park))
    }

    pub(in crate::mem) fn is_serving(&self) -> bool {
        self.serving.get()
    }

    #[cfg(test)]
    pub(in crate::mem) fn way_to_park(&self) -> Option<fn()> {
        self.park.get()
    }

    /// The end of a slice: gives back if somebody was refused meanwhile.
    #[inline]
    pub(in crate::mem) fn look_at_returns(&self) {
        let asked = RETURN.load(Relaxed);
        if asked != self.returned.get() {
            self.returned.set(asked);
            self.give_back();
        }
    }

    // ---- what a poll leaves behind --------------------------------------------------------------------------

    pub(in crate::mem) fn note_doom(&self) {
        self.doomed.set(true);
    }

    pub(in crate::mem) fn note_refusal(&self, shortfall: Shortfall) {
        self.refused.set(Some(shortfall));
        self.doomed.set(true);
    }

    pub(in crate::mem) fn has_doom(&self) -> bool {
        self.doomed.get()
    }

    /// Whether anybody was doomed on this thread since it was asked last.
    #[inline]
    pub(in crate::mem) fn take_doom(&self) -> bool {
        self.doomed.get() && self.doomed.replace(false)
    }

    pub(in crate::mem) fn take_refusal(&self) -> Option<Shortfall> {
        self.refused.take()
    }

    pub(in crate::mem) fn fallible(&self) -> &Cell<u32> {
        &self.fallible
    }

    pub(in crate::mem) fn lifted(&self) -> &Cell<u32> {
        &self.lifted
    }
}
