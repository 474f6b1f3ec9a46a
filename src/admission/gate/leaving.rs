//! How groups go.
//!
//! Mechanism; any thread.

use super::Gate;
use crate::unit::GroupId;

impl Gate {
    /// Removes a group: it lets nobody in any more. Those that wait in it and those that run go on as before, and it
    /// counts until the last one is gone. False if there is no such group.
    pub fn remove(&self, group: GroupId) -> bool {
        self.change(|policy, _| policy.remove(group))
    }

    /// As [`remove`](Gate::remove), and it counts until [`forget`](Gate::forget) too: for whoever has more to count of the
    /// group than its queries.
    pub fn retire(&self, group: GroupId) -> bool {
        self.change(|policy, _| policy.retire(group))
    }

    /// Lets go of a group that was retired: what it counted passes to a group of the same name, if there is one, as soon as
    /// its last query is gone.
    pub fn forget(&self, group: GroupId) {
        self.change(|policy, _| policy.forget(group));
    }

    /// Whether nobody is in the group and nobody will come: it was removed, or never was.
    pub fn is_over(&self, group: GroupId) -> bool {
        let there = self.group(group);
        there.is_none_or(|group| group.draining && group.running == 0 && group.queued == 0)
    }
}
