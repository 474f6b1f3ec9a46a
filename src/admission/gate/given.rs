//! What the gate's lock protects: the policy, and those that it gave a place and that have not come for it.
//!
//! Mechanism; any thread. A request that waits is given its place by whoever frees it; until its future is polled it
//! stands in no line, and is no query yet. That can take long: a caller may hold the future and do something else.
//!
//! 1. A request is entered here in the very step that takes it out of its line, under the same lock.
//! 2. It stays until it is killed or its future is dropped, which is at once after it has taken its answer.
//! 3. A seat's own lock is taken under this one, never the other way round.

use super::seat::Seat;
use crate::admission::policy::{Answer, Policy};
use crate::sync::Arc;
use crate::unit::{GroupId, QueryId};
use std::collections::BTreeMap;

pub(super) struct Door {
    pub(super) policy: Policy<Arc<Seat>>,
    given: BTreeMap<QueryId, (Arc<Seat>, GroupId)>,
}

impl Default for Door {
    fn default() -> Door {
        Door {
            policy: Policy::new(),
            given: BTreeMap::new(),
        }
    }
}

impl Door {
    /// What the policy has to tell to whom. Those that are given a place are found here from now on.
    pub(super) fn take_answers(&mut self) -> Vec<(Arc<Seat>, Answer)> {
        let answers = self.policy.take_answers();
        for (seat, answer) in &answers {
            if let Answer::Admit { group } = answer {
                self.given.insert(seat.query(), (seat.clone(), *group));
            }
        }
        answers
    }

    /// Takes a request out of its line, or from among those that were given a place.
    pub(super) fn withdraw(&mut self, query: QueryId) -> Option<Arc<Seat>> {
        let given = || self.given.remove(&query).map(|(seat, _)| seat);
        self.policy.withdraw(query).or_else(given)
    }

    /// Those that were given a place and have neither taken it nor left, and whose group's place it is.
    pub(super) fn given(&self) -> impl Iterator<Item = (&Arc<Seat>, GroupId)> {
        let given = self.given.values().map(|(seat, group)| (seat, *group));
        given.filter(|(seat, _)| !seat.is_left())
    }
}
