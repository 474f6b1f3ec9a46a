//! Slices of a group that never was in the queue: a worker held its only ready task when it looked for work.
//!
//! Pure. That is how a task that waits for something is served on an idle machine, one wake-up after the other. A place
//! in the queue would be taken and left again for nobody to see.

use super::{Fair, Slice, Slot};
use crate::unit::Nanos;

impl Fair {
    /// Begins a slice of a group all of whose ready tasks `worker` holds already, while nobody is queued. It is what
    /// [`Fair::wake`], [`Fair::first`], [`Fair::start`] and [`Fair::dequeue`] come to then. None, and nothing
    /// happens, where those may come to something else: if a group is queued or held back, or this one has a cap.
    pub fn start_held(&mut self, worker: usize, slot: Slot, now: Nanos) -> Option<Slice> {
        let alone = self.queue.is_empty() && self.dry.is_empty();
        if !alone || self.group(slot).quota.is_some() {
            return None;
        }
        self.get_work(slot, now);
        self.claim(slot);
        Some(self.begin(worker, slot, now, self.config.slice, true))
    }

    /// The group gets queued tasks: it takes its place among those that have work, if it had none.
    pub(super) fn get_work(&mut self, slot: Slot, now: Nanos) {
        if self.group(slot).running > 0 {
            // It never stopped having work; what it was passed over for has been settled in `start`.
            self.absent.retain(|&s| s != slot);
            return;
        }
        let least = if self.working == 0 {
            None
        } else {
            self.least(now)
        };
        match least {
            Some(least) => {
                let weights = self.working_weight + self.group(slot).weight.get();
                self.place(slot, least, self.credit(slot, self.working, weights));
            }
            None => self.place(slot, self.top, 0),
        }
        self.working += 1;
        self.working_weight += self.group(slot).weight.get();
    }
}
