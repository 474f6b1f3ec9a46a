//! Queries that move from one group to another while they run.
//!
//! Pure.

use super::Policy;
use crate::unit::{GroupId, Nanos};

impl<W: Clone> Policy<W> {
    /// A query that runs in another group goes on in this one: it takes a place, beyond the limits if need be, and
    /// never waits. Its old place is given back by [`leave`](Policy::leave), as any. False if there is no such group,
    /// or if it was removed.
    pub fn move_in(&mut self, id: GroupId, now: Nanos) -> bool {
        let Some(group) = self.groups.get_mut(&id).filter(|group| !group.removed) else {
            return false;
        };
        group.move_in(now);
        self.running += 1;
        if self.is_full() {
            self.pace.filled(now);
        }
        self.place(id);
        true
    }
}
