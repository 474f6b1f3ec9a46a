//! The queries that run: found by their ids, for as long as anything of them lives.
//!
//! Wiring; any thread. The list keeps no query alive. A query that is looked up may be the last reference to it a
//! moment later, so none is dropped while the list is locked.

use super::Inner;
use super::routing::Entry;
use crate::classify::Attributes;
use crate::query::{Outcome, Query, Runaway, WeakQuery};
use crate::unit::QueryId;
use std::sync::Arc;

/// A query that runs, and what is known of it besides.
#[derive(Clone)]
pub(super) struct Running {
    query: WeakQuery,
    /// The group whose place it holds.
    pub(super) entry: Arc<Entry>,
    pub(super) attributes: Attributes,
    /// What came of its going over a limit, if it did.
    pub(super) runaway: Option<Arc<Runaway>>,
}

impl Inner {
    /// A query was admitted.
    pub(super) fn begin(
        self: &Arc<Inner>,
        query: &Query,
        entry: &Arc<Entry>,
        attributes: &Attributes,
    ) {
        let running = Running {
            query: query.downgrade(),
            entry: entry.clone(),
            attributes: attributes.clone(),
            runaway: None,
        };
        self.queries.lock().insert(query.id(), running);
        // Only now: an ALTER that comes after this look finds the query in the list.
        self.watch_elapsed(query, entry);
    }

    /// Nothing of the query is left.
    pub(super) fn ended(&self, id: QueryId, outcome: Outcome) {
        let ended = self.queries.lock().remove(&id);
        if let Some(running) = ended {
            self.breaker.ended(id, &running);
            running.entry.ended(outcome);
        }
    }

    pub(super) fn running(&self, id: QueryId) -> Option<(Query, Running)> {
        let running = self.queries.lock().get(&id).cloned()?;
        Some((running.query.upgrade()?, running))
    }

    /// All of them, the oldest first.
    pub(super) fn all_running(&self) -> Vec<(Query, Running)> {
        let _ours = crate::mem::enter_process();
        let all: Vec<Running> = self.queries.lock().values().cloned().collect();
        let alive = |running: Running| Some((running.query.upgrade()?, running));
        all.into_iter().filter_map(alive).collect()
    }
}
