//! A place at the gate, as a value: whoever drops it gives it back.
//!
//! Any thread. There is no other way to give a place back, so that it happens exactly once, however the work ends:
//! done, cancelled, aborted, or unwinding from a panic.

use super::gate::Gate;
use crate::sync::Arc;
use crate::unit::GroupId;
use std::fmt;

/// A place of a group, held until the last of those who share it is dropped.
#[must_use = "dropping a permit gives the place back at once"]
pub struct Permit(Arc<Place>);

/// What the sharers have in common. Dropped once, by the last of them.
struct Place {
    gate: Gate,
    group: GroupId,
}

impl Permit {
    pub(super) fn new(gate: Gate, group: GroupId) -> Permit {
        Permit(Arc::new(Place { gate, group }))
    }

    /// The group whose place it is.
    pub fn group(&self) -> GroupId {
        self.0.group
    }

    /// Whether it is a place of this group at this gate. Other gates have groups of the same numbers.
    pub fn is_of(&self, gate: &Gate, group: GroupId) -> bool {
        self.0.group == group && self.0.gate.is(gate)
    }

    /// The same place for one more query: one of the same group that is nested in this one, however deep.
    /// A group of limit 1 can so nest without waiting for itself. The place is free when the last sharer ends.
    ///
    /// Works also after the gate was closed: a query that may finish may finish its parts.
    pub fn share(&self) -> Permit {
        self.0.gate.share(self.0.group);
        Permit(self.0.clone())
    }

    /// How many share the place, this one included.
    pub fn sharers(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.leave(self.group);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("group", &self.group())
            .field("sharers", &self.sharers())
            .finish()
    }
}
