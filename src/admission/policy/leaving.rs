//! How groups go: at once, or when whoever removed one lets go of it.
//!
//! Pure.

use super::Policy;
use super::group::Group;
use crate::unit::GroupId;

impl<W: Clone> Policy<W> {
    /// Removes a group: it lets nobody in any more. False if there is no such group.
    pub fn remove(&mut self, id: GroupId) -> bool {
        self.take_away(id, false)
    }

    /// As [`remove`](Policy::remove), and keeps the group's numbers until [`forget`](Policy::forget).
    pub fn retire(&mut self, id: GroupId) -> bool {
        self.take_away(id, true)
    }

    fn take_away(&mut self, id: GroupId, kept: bool) -> bool {
        let Some(group) = self.present(id) else {
            return false;
        };
        (group.removed, group.kept) = (true, kept);
        self.forget_if_over(id);
        true
    }

    /// Lets go of a group that was retired. It is forgotten when its last query is gone.
    pub fn forget(&mut self, id: GroupId) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.kept = false;
        }
        self.forget_if_over(id);
    }

    /// A namesake, if there is one, inherits what the group has counted.
    pub(super) fn forget_if_over(&mut self, id: GroupId) {
        let over = |group: &Group<W>| group.is_over() && !group.kept;
        if !self.groups.get(&id).is_some_and(over) {
            return;
        }
        let Some(gone) = self.groups.remove(&id) else {
            return;
        };
        let namesakes = self.groups.values_mut().filter(|g| g.name == gone.name);
        if let Some(heir) = namesakes.min_by_key(|g| g.removed) {
            heir.inherit(&gone);
        }
    }
}
