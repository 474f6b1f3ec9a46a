//! What groups have of the pool: their places, their shares, and what they have used.
//!
//! Mechanism; any thread, under the pool's lock.

use super::pool::Pool;
use crate::exec::stats::PoolUsage;
use crate::mem;
use crate::sched::fair::Slot;
use crate::sched::pool::Share;
use crate::unit::{Nanos, Weight};
use std::sync::Arc;

impl Pool {
    pub(in crate::exec) fn add_group(&self, weight: Weight) -> Slot {
        let _ours = mem::enter_process();
        let mut state = self.lock();
        self.graves
            .lock()
            .retain(|&slot| !state.policy.remove(slot));
        state.policy.add(weight)
    }

    /// A group is gone. Its last closure may still have to be counted out.
    pub(in crate::exec) fn bury(&self, slot: Slot) {
        let _ours = mem::enter_process();
        self.graves.lock().push(slot);
    }

    pub(in crate::exec) fn set_share(self: &Arc<Self>, slot: Slot, share: Share) {
        let _ours = mem::enter_process();
        let mut state = self.lock();
        state.policy.set_share(slot, share);
        self.answer(state);
    }

    pub(in crate::exec) fn reserve_nothing(self: &Arc<Self>, slot: Slot) {
        let _ours = mem::enter_process();
        let mut state = self.lock();
        let share = Share {
            reserved: 0,
            ..state.policy.share(slot)
        };
        state.policy.set_share(slot, share);
        self.answer(state);
    }

    /// How long a group's closures have had threads; how many wait, and how many run.
    pub(in crate::exec) fn look_at(&self, slot: Slot) -> (Nanos, usize, usize) {
        let now = self.clock.now();
        let state = self.lock();
        let policy = &state.policy;
        (
            policy.used(slot, now),
            policy.queued_of(slot),
            policy.running_of(slot),
        )
    }

    pub(in crate::exec) fn usage(&self) -> PoolUsage {
        let state = self.lock();
        PoolUsage {
            threads: state.threads as u64,
            busy: state.policy.running() as u64,
        }
    }
}
