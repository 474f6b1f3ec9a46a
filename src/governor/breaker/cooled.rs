//! Where a group's queries go on that are cooled down: a companion of the least weight, which shares the group's cap.
//!
//! Wiring; any thread. They are served as if the group's weight were 1, and its other queries as before: charging the
//! group itself at weight 1 would make those pay for the runaway. Group and companion are one group to everybody
//! else: one name, one row, one account.
//!
//! 1. The caps of the two add up to the group's `max_cpu_cores`, split by weight, while any query is cooled down.

use crate::exec::group::Group;
use crate::exec::stats::GroupUsage;
use crate::sched::Limits;
use crate::unit::{Cores, Weight};
use parking_lot::Mutex;
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::governor) struct Cooled(Mutex<State>);

#[derive(Debug)]
struct State {
    /// What the catalog says of the group.
    limits: Limits,
    /// Made when it is needed, and kept.
    companion: Option<Arc<Group>>,
    /// Queries that are cooled down.
    queries: u64,
}

impl Cooled {
    pub(super) fn new(limits: Limits) -> Cooled {
        Cooled(Mutex::new(State {
            limits,
            companion: None,
            queries: 0,
        }))
    }

    /// The group's limits have changed.
    pub(in crate::governor) fn set_limits(&self, group: &Group, limits: Limits) {
        let mut state = self.0.lock();
        state.limits = limits;
        state.apply(group);
    }

    /// One more query is cooled down: where it goes on.
    pub(super) fn enter(&self, group: &Group) -> Arc<Group> {
        let mut state = self.0.lock();
        let made = || {
            let companion = group.beside(Weight::MIN);
            if let Some(kept) = group.kept() {
                companion.keep(kept.clone());
            }
            companion
        };
        let companion = state.companion.get_or_insert_with(made).clone();
        state.queries += 1;
        state.apply(group);
        companion
    }

    /// A query that was cooled down has ended.
    pub(super) fn leave(&self, group: &Group) {
        let mut state = self.0.lock();
        state.queries = state.queries.saturating_sub(1);
        state.apply(group);
    }

    /// What the queries have used that were cooled down.
    pub(in crate::governor) fn usage(&self) -> Option<GroupUsage> {
        let companion = self.0.lock().companion.clone()?;
        Some(companion.usage())
    }
}

impl State {
    fn apply(&self, group: &Group) {
        let Some(companion) = self.companion.as_ref().filter(|_| self.queries > 0) else {
            group.set_limits(self.limits);
            return;
        };
        let (own, theirs) = match self.limits.cap {
            Some(cap) => {
                let (own, theirs) = split(cap, self.limits.weight);
                (Some(own), Some(theirs))
            }
            None => (None, None),
        };
        group.set_limits(Limits {
            cap: own,
            ..self.limits
        });
        companion.set_limits(Limits {
            weight: Weight::MIN,
            reserved: 0,
            cap: theirs,
        });
    }
}

/// A cap by weight: the group's part, and that of a companion of weight 1.
fn split(cap: Cores, weight: Weight) -> (Cores, Cores) {
    let theirs = cap.millionths() / (weight.get() + 1);
    let own = cap.millionths() - theirs;
    (Cores::from_millionths(own), Cores::from_millionths(theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_split_by_weight_and_none_of_it_is_lost() {
        let cap = Cores::from_f64(2.0);
        for weight in [1, 3, 7, 10_000] {
            let (own, theirs) = split(cap, Weight::new(weight));
            assert_eq!(own.millionths() + theirs.millionths(), cap.millionths());
            assert_eq!(theirs.millionths(), 2_000_000 / (weight + 1));
        }
    }
}
