//! The tasks of one level: those of each query in a line of their own, and those without a query.
//!
//! Pure. A query is found in logarithmic time, however many there are: who serves one asks for it at every slice.

use super::Stream;
use super::line::Line;
use crate::unit::QueryId;
use std::collections::{BTreeMap, BTreeSet};

/// Older queries first; in the last level, those with fewer used turns first.
pub(super) type Rank = (u64, QueryId);

#[derive(Debug)]
pub(super) struct Level<T> {
    pub(super) loose: Line<T>,
    queries: BTreeMap<Rank, Line<T>>,
    /// The ranks with used turns, by query.
    turned: BTreeSet<(QueryId, u64)>,
    /// Charged time divided by the level's factor.
    pub(super) used: u64,
    /// Turns of this level that run now.
    pub(super) running: u32,
    /// Whose turn it is when both kinds wait.
    pub(super) loose_next: bool,
}

impl<T> Default for Level<T> {
    fn default() -> Level<T> {
        Level {
            loose: Line::default(),
            queries: BTreeMap::new(),
            turned: BTreeSet::new(),
            used: 0,
            running: 0,
            loose_next: false,
        }
    }
}

impl<T> Level<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.loose.is_empty() && self.queries.is_empty()
    }

    /// The query that is due.
    pub(super) fn first(&self) -> Option<QueryId> {
        self.queries.first_key_value().map(|(&(_, id), _)| id)
    }

    /// The line that a task is queued in.
    pub(super) fn line(&mut self, stream: Stream, rounds: u64) -> &mut Line<T> {
        let Stream::Query(id) = stream else {
            return &mut self.loose;
        };
        if rounds > 0 {
            self.turned.insert((id, rounds));
        }
        self.queries.entry((rounds, id)).or_default()
    }

    /// A query's tasks that run first, as many as there are.
    pub(super) fn waiting(&self, id: QueryId) -> usize {
        let line = self.rank(id).and_then(|rank| self.queries.get(&rank));
        line.map_or(0, Line::len)
    }

    /// The next task of a query.
    pub(super) fn pop(&mut self, id: QueryId) -> Option<T> {
        let rank = self.rank(id)?;
        let task = self.queries.get_mut(&rank)?.pop_front();
        self.close_if_empty(rank);
        task
    }

    /// Draws a task out of the middle of its line.
    pub(super) fn withdraw(
        &mut self,
        rank: Rank,
        seat: u64,
        is: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let task = self.queries.get_mut(&rank)?.withdraw(seat, is);
        self.close_if_empty(rank);
        task
    }

    /// Takes all tasks of a query out, in the order in which they would run.
    pub(super) fn take_query(&mut self, id: QueryId, mut each: impl FnMut(T)) {
        while let Some(rank) = self.rank(id) {
            let mut line = self.close(rank).unwrap_or_default();
            while let Some(task) = line.pop_front() {
                each(task);
            }
        }
    }

    /// The first of a query's ranks.
    fn rank(&self, id: QueryId) -> Option<Rank> {
        if self.queries.contains_key(&(0, id)) {
            return Some((0, id));
        }
        let mut turned = self.turned.range((id, 0)..=(id, u64::MAX));
        turned.next().map(|&(id, rounds)| (rounds, id))
    }

    fn close_if_empty(&mut self, rank: Rank) {
        if self.queries.get(&rank).is_some_and(Line::is_empty) {
            self.close(rank);
        }
    }

    fn close(&mut self, rank: Rank) -> Option<Line<T>> {
        let (rounds, id) = rank;
        self.turned.remove(&(id, rounds));
        self.queries.remove(&rank)
    }
}
