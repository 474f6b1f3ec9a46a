//! A task that is there before its query is.
//!
//! Mechanism; any thread.

use super::Query;
use crate::exec::task::Lease;
use std::sync::{Arc, OnceLock};

/// The query of a task that is spawned before it is admitted.
pub(crate) struct LateQuery(Arc<OnceLock<Query>>);

impl LateQuery {
    pub(crate) fn new() -> LateQuery {
        LateQuery(Arc::default())
    }

    /// What the task and those that it spawns hold: nothing, until the query is there.
    pub(crate) fn lease(&self) -> Lease {
        self.0.clone()
    }

    /// From here on the task belongs to the query.
    pub(crate) fn admitted(&self, query: Query) {
        // It is admitted once, so this cannot fail; if it did, the query would end here.
        let _ = self.0.set(query);
    }
}
