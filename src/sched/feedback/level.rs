//! The tasks of one level: those of each query in a line of their own, and those without a query.
//!
//! Pure. A query is found in logarithmic time, however many there are: who serves one asks for it at every slice. What is
//! served one poll at a time leaves its line and comes back at every slice too, so that the lines that were emptied last
//! keep their places.

use super::Stream;
use super::line::Line;
use crate::unit::QueryId;
use std::collections::{BTreeMap, BTreeSet};

/// Older queries first; in the last level, those with fewer used turns first.
pub(super) type Rank = (u64, QueryId);

/// How many lines keep their places while they are empty: of as many queries as are served at a time, mostly.
const KEPT: usize = 4;

#[derive(Debug)]
pub(super) struct Level<T> {
    pub(super) loose: Line<T>,
    queries: BTreeMap<Rank, Line<T>>,
    /// The first of the lines that are not empty, if it is known.
    due: Option<Rank>,
    /// The lines among these that are empty, none of them with used turns; the oldest first.
    empty: Vec<QueryId>,
    /// The ranks with used turns, by query.
    turned: BTreeSet<(QueryId, u64)>,
    /// Whose turn it is when both kinds wait.
    pub(super) loose_next: bool,
}

impl<T> Default for Level<T> {
    fn default() -> Level<T> {
        Level {
            loose: Line::default(),
            queries: BTreeMap::new(),
            due: None,
            empty: Vec::new(),
            turned: BTreeSet::new(),
            loose_next: false,
        }
    }
}

impl<T> Level<T> {
    /// The query that is due.
    pub(super) fn first(&mut self) -> Option<QueryId> {
        if self.due.is_none() {
            let mut lines = self.queries.iter();
            let due = lines.find(|(_, line)| !line.is_empty());
            self.due = due.map(|(&rank, _)| rank);
        }
        self.due.map(|(_, id)| id)
    }

    /// The line that a task is about to be queued in.
    pub(super) fn line(&mut self, stream: Stream, rounds: u64) -> &mut Line<T> {
        let Stream::Query(id) = stream else {
            return &mut self.loose;
        };
        let rank = (rounds, id);
        if rounds > 0 {
            self.turned.insert((id, rounds));
        }
        self.due = self.due.map(|due| due.min(rank));
        let line = self.queries.entry(rank).or_default();
        if rounds == 0 && line.is_empty() {
            self.empty.retain(|&empty| empty != id);
        }
        line
    }

    /// A query's tasks that run first, as many as there are.
    pub(super) fn waiting(&self, id: QueryId) -> usize {
        match self.queries.get(&(0, id)) {
            Some(line) if !line.is_empty() => line.len(),
            _ => {
                let turned = self.turned_rank(id);
                let line = turned.and_then(|rank| self.queries.get(&rank));
                line.map_or(0, Line::len)
            }
        }
    }

    /// The next task of a query.
    pub(super) fn pop(&mut self, id: QueryId) -> Option<T> {
        if let Some(line) = self.queries.get_mut(&(0, id))
            && let Some(task) = line.pop_front()
        {
            if line.is_empty() {
                let large = line.is_large();
                self.emptied((0, id), large);
            }
            return Some(task);
        }
        let rank = self.turned_rank(id)?;
        let line = self.queries.get_mut(&rank)?;
        let task = line.pop_front();
        if line.is_empty() {
            let large = line.is_large();
            self.emptied(rank, large);
        }
        task
    }

    /// Draws a task out of the middle of its line.
    pub(super) fn withdraw(
        &mut self,
        rank: Rank,
        seat: u64,
        is: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let line = self.queries.get_mut(&rank)?;
        let task = line.withdraw(seat, is)?;
        if line.is_empty() {
            let large = line.is_large();
            self.emptied(rank, large);
        }
        Some(task)
    }

    /// Takes all tasks of a query out, in the order in which they would run.
    pub(super) fn take_query(&mut self, id: QueryId, mut each: impl FnMut(T)) {
        self.due.take_if(|(_, due)| *due == id);
        self.empty.retain(|&empty| empty != id);
        let mut next = Some((0, id));
        while let Some(rank) = next {
            let mut line = self.close(rank).unwrap_or_default();
            while let Some(task) = line.pop_front() {
                each(task);
            }
            next = self.turned_rank(id);
        }
    }

    /// The first of a query's ranks with used turns.
    fn turned_rank(&self, id: QueryId) -> Option<Rank> {
        if self.turned.is_empty() {
            return None;
        }
        let mut turned = self.turned.range((id, 0)..=(id, u64::MAX));
        turned.next().map(|&(id, rounds)| (rounds, id))
    }

    /// The last task has left this line.
    fn emptied(&mut self, rank: Rank, large: bool) {
        let (rounds, id) = rank;
        self.due.take_if(|due| *due == rank);
        if rounds > 0 || large {
            self.close(rank);
            return;
        }
        if self.empty.len() == KEPT {
            let oldest = self.empty.remove(0);
            self.close((0, oldest));
        }
        self.empty.push(id);
    }

    fn close(&mut self, rank: Rank) -> Option<Line<T>> {
        let (rounds, id) = rank;
        if rounds > 0 {
            self.turned.remove(&(id, rounds));
        }
        self.queries.remove(&rank)
    }
}
