//! When the queries of groups with a limit on elapsed time have had theirs.
//!
//! Wiring; any thread. One ordered set and one housekeeping task for all queries: it sleeps until the earliest
//! deadline, on tokio's clock, and is told when an earlier one comes. There is no timer per query.

use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::unit::QueryId;

#[derive(Debug, Default)]
pub(super) struct Deadlines {
    /// Whether there ever was one: without, nothing is asked when a query ends.
    used: AtomicBool,
    queries: Mutex<Queries>,
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Queries {
    order: BTreeSet<(Instant, QueryId)>,
    at: HashMap<QueryId, Instant>,
}

impl Queries {
    fn remove(&mut self, query: QueryId) {
        if let Some(at) = self.at.remove(&query) {
            self.order.remove(&(at, query));
        }
    }
}

impl Deadlines {
    /// The query is due at that instant, and not before. True for the first one ever.
    pub(super) fn set(&self, query: QueryId, at: Instant) -> bool {
        let first = !self.used.swap(true, Relaxed);
        let mut queries = self.queries.lock();
        queries.remove(query);
        queries.at.insert(query, at);
        queries.order.insert((at, query));
        let is_next = queries
            .order
            .first()
            .is_some_and(|&(_, next)| next == query);
        drop(queries);
        if is_next {
            self.earlier.notify_one();
        }
        first
    }

    /// The query has no deadline, or none any more.
    pub(super) fn clear(&self, query: QueryId) {
        if self.used.load(Relaxed) {
            self.queries.lock().remove(query);
        }
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        self.queries.lock().order.first().map(|&(at, _)| at)
    }

    /// Waits until there is an earlier one than before.
    pub(super) async fn earlier(&self) {
        self.earlier.notified().await;
    }

    /// Takes out the queries that are due.
    pub(super) fn take_due(&self, now: Instant) -> Vec<QueryId> {
        let mut queries = self.queries.lock();
        let mut due = Vec::new();
        while let Some(&(at, query)) = queries.order.first()
            && at <= now
        {
            queries.remove(query);
            due.push(query);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn queries_fall_due_in_order_and_a_changed_or_cleared_deadline_counts_as_it_is_now() {
        let deadlines = Deadlines::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        deadlines.clear(QueryId(9));
        assert!(deadlines.set(QueryId(1), at(5)));
        for (query, seconds) in [(2, 3), (3, 4), (4, 1), (1, 2)] {
            assert!(!deadlines.set(QueryId(query), at(seconds)));
        }
        deadlines.clear(QueryId(4));
        assert_eq!(deadlines.next(), Some(at(2)));
        assert_eq!(deadlines.take_due(at(1)), []);
        assert_eq!(deadlines.take_due(at(3)), [QueryId(1), QueryId(2)]);
        assert_eq!(deadlines.take_due(at(9)), [QueryId(3)]);
        assert_eq!(deadlines.next(), None);
        assert!(deadlines.queries.lock().at.is_empty());
    }
}
