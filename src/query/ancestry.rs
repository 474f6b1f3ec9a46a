//! Which queries one is nested in, so that it need not wait for a place that they hold.
//!
//! Mechanism; any thread. An ancestor is looked at without being kept: once it has ended, there is no place of its to share.

use super::{Query, WeakQuery};
use crate::admission::permit::Permit;
use crate::mem;

/// The queries that one was admitted inside of, the nearest first.
#[derive(Clone, Default)]
pub(crate) struct Ancestry(Vec<WeakQuery>);

impl Ancestry {
    /// Of a query that the running task asks for.
    pub(crate) fn here() -> Ancestry {
        let Some(parent) = Query::current() else {
            return Ancestry::default();
        };
        // What the new query keeps is not its parent's.
        let _ours = mem::enter_process();
        let further = parent.core.ancestry.0.iter();
        // One that has ended stays so: a line of queries that each begin the next one gets no longer.
        let alive = further.filter(|query| query.is_alive()).cloned();
        Ancestry([parent.downgrade()].into_iter().chain(alive).collect())
    }

    /// The place of the nearest one that holds such a place, for one more query.
    pub(crate) fn share_place(&self, such: impl Fn(&Permit) -> bool) -> Option<Permit> {
        let mut alive = self.0.iter().filter_map(WeakQuery::upgrade);
        alive.find_map(|query| query.share_place(&such))
    }
}
