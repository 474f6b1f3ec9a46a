//! Which queries one is nested in, so that it need not wait for a place that they hold.
//!
//! Mechanism; any thread. An ancestor is looked at without being kept: once it has ended, there is no place of its to share.

use super::{Query, WeakQuery};
use crate::admission::permit::Permit;
use crate::mem;

/// Ancestors that a query knows at most: with itself, 16 are asked for a place. So much it costs, however deep it is nested.
const MOST: usize = 15;

/// The nearest queries that one was admitted inside of, the nearest first.
#[derive(Default)]
pub(crate) struct Ancestry(Vec<WeakQuery>);

impl Ancestry {
    /// Of what is admitted inside of `parent`.
    pub(crate) fn under(parent: Option<&Query>) -> Ancestry {
        let Some(parent) = parent else {
            return Ancestry::default();
        };
        // What the new query keeps is not its parent's.
        let _ours = mem::enter_process();
        let further = parent.core.ancestry.0.iter();
        // One that has ended stays so.
        let alive = further.filter(|query| query.is_alive()).cloned();
        let all = [parent.downgrade()].into_iter().chain(alive);
        Ancestry(all.take(MOST).collect())
    }

    /// The place of the nearest one that holds such a place, for one more query.
    pub(super) fn share_place(&self, such: impl Fn(&Permit) -> bool) -> Option<Permit> {
        let mut alive = self.0.iter().filter_map(WeakQuery::upgrade);
        alive.find_map(|query| query.share_own_place(&such))
    }
}
