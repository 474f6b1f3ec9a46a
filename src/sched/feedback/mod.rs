//! Level 2: which tasks of a group run next. A multi-level feedback queue over the age of queries, so that
//! short queries overtake long ones and long ones are never starved.
//!
//! Pure: generic over what a task is, so that the executor queues its runnables in it and the simulator its
//! own. Invariants:
//! 1. A task's level depends on the CPU time of its *query* so far (its own, if it has no query): level
//!    *i* lasts `(i + 1) × base`; the last one has no end.
//! 2. Levels share the group's time by the factors of [`FACTORS`]; a level that was empty comes back at most
//!    half a base behind the others, and a queue that was empty forgets who was ahead.
//! 3. What is served at one time is one [`Stream`]: one query, or the tasks without a query. Within a level
//!    the older query goes first until it has used the level up, so that equal queries finish one after the
//!    other instead of all late. In the last level, which has no end, queries take turns of [`LAST_SLICE`].
//! 4. Tasks without a query go first in, first out, and take every other turn of a level.
//! 5. Tasks that only have to be dropped are [`URGENT`]: before all levels, and on no level's account. One that waits
//!    is found by its [`Place`] and drawn out, however deep the queue is.

mod level;
mod line;

use crate::unit::{Nanos, QueryId};
use level::Level;
use line::Line;
use std::collections::VecDeque;

/// The number of levels.
pub const LEVELS: usize = 8;

/// How much time a level gets relative to the last one, in thousandths: 1.2 times as much per level up.
pub const FACTORS: [u64; LEVELS] = [3583, 2986, 2488, 2074, 1728, 1440, 1200, 1000];

/// How long a query of the last level keeps its precedence, in bases: most queries that are that old end within
/// it, one after the other. One that does not gives way to the younger ones, so that these do not starve.
pub const LAST_SLICE: u64 = 256;

/// What a worker serves at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Tasks that belong to no query.
    Loose,
    /// The tasks of one query.
    Query(QueryId),
}

/// A decision: this stream, and the level on whose account it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What to serve.
    pub stream: Stream,
    /// The level that pays.
    pub level: usize,
}

/// Stands for a level in a [`Turn`] of tasks that only have to be dropped.
pub const URGENT: usize = LEVELS;

/// So far one looks how many urgent tasks in a row are of one stream: enough for full batches of up to four workers.
const URGENT_LOOK: usize = 128;

/// Where a task waits in its stream: a number to find it again by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// As one number, for whoever keeps it in an atomic.
    pub fn pack(self) -> u64 {
        self.0
    }

    /// The place of that number.
    pub fn unpack(packed: u64) -> Place {
        Place(packed)
    }

    fn new(level: usize, rounds: u64, seat: u64) -> Place {
        Place((level as u64) << 61 | (rounds & ROUNDS) << 40 | (seat & line::SEATS))
    }

    fn level(self) -> usize {
        (self.0 >> 61) as usize
    }

    fn rounds(self) -> u64 {
        self.0 >> 40 & ROUNDS
    }

    fn seat(self) -> u64 {
        self.0 & line::SEATS
    }
}

/// As many turns of the last level as are told apart: three years of CPU time, at the default base.
const ROUNDS: u64 = (1 << 21) - 1;

/// The queue of one group.
#[derive(Debug)]
pub struct Feedback<T> {
    base: u64,
    /// What decides among the levels: two cache lines, where the levels themselves are many.
    heads: [Head; LEVELS],
    levels: [Level<T>; LEVELS],
    urgent: VecDeque<(Stream, T)>,
    len: usize,
    /// Turns that run now, of all levels.
    running: u32,
    /// What the level was charged that was charged most.
    most: u64,
}

/// A level as the others see it.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// Charged time divided by the level's factor.
    used: u64,
    /// Tasks that wait.
    waiting: u32,
    /// Turns of this level that run now.
    running: u32,
}

/// The level of a query or loose task that has used `cpu`, for levels of `base`.
#[inline]
pub fn level_of(cpu: Nanos, base: Nanos) -> usize {
    let mut level = 0;
    while level + 1 < LEVELS && cpu.0 >= level_end(level, base) {
        level += 1;
    }
    level
}

/// The CPU time at which a level ends: `base × (1 + 2 + … + (level + 1))`.
#[inline]
pub fn level_end(level: usize, base: Nanos) -> u64 {
    let n = level as u64 + 1;
    base.0.saturating_mul(n * (n + 1) / 2)
}

impl<T> Feedback<T> {
    /// An empty queue whose first level lasts `base` of CPU time.
    pub fn new(base: Nanos) -> Feedback<T> {
        Feedback {
            base: base.0.max(1),
            heads: [Head::default(); LEVELS],
            levels: std::array::from_fn(|_| Level::default()),
            urgent: VecDeque::new(),
            len: 0,
            running: 0,
            most: 0,
        }
    }

    /// Tasks that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Queues a task at the end of its stream. `cpu`: what its query has used, or itself if it has none.
    pub fn push(&mut self, stream: Stream, cpu: Nanos, task: T) {
        self.push_noted(stream, cpu, task, |_, _| {});
    }

    /// As [`Feedback::push`], and tells the task's place.
    pub fn push_noted(
        &mut self,
        stream: Stream,
        cpu: Nanos,
        task: T,
        note: impl FnOnce(&T, Place),
    ) {
        let (line, noted) = self.place(stream, cpu, note);
        line.push_back(task, noted);
    }

    /// Queues a task before all others of its stream: it had been taken and was not served.
    pub fn push_front(&mut self, stream: Stream, cpu: Nanos, task: T) {
        self.push_front_noted(stream, cpu, task, |_, _| {});
    }

    /// As [`Feedback::push_front`], and tells the task's place.
    pub fn push_front_noted(
        &mut self,
        stream: Stream,
        cpu: Nanos,
        task: T,
        note: impl FnOnce(&T, Place),
    ) {
        let (line, noted) = self.place(stream, cpu, note);
        line.push_front(task, noted);
    }

    /// The line that one more task is about to join, and what tells its place once it has a seat there.
    fn place<N: FnOnce(&T, Place)>(
        &mut self,
        stream: Stream,
        cpu: Nanos,
        note: N,
    ) -> (&mut Line<T>, impl FnOnce(&T, u64) + use<T, N>) {
        let (level, rounds) = self.height(cpu);
        self.wake_level(level);
        self.len += 1;
        self.heads[level].waiting += 1;
        let noted = move |task: &T, seat| note(task, Place::new(level, rounds, seat));
        (self.levels[level].line(stream, rounds), noted)
    }

    /// Queues a task that only has to be dropped.
    pub fn push_urgent(&mut self, stream: Stream, task: T) {
        self.urgent.push_back((stream, task));
        self.len += 1;
    }

    /// Makes the task in this place urgent, if it is still the one that `is` says. False if it is not there.
    pub fn hurry(&mut self, stream: Stream, place: Place, is: impl FnOnce(&T) -> bool) -> bool {
        let Some(level) = self.levels.get_mut(place.level()) else {
            return false;
        };
        let task = match stream {
            Stream::Loose => level.loose.withdraw(place.seat(), is),
            Stream::Query(id) => level.withdraw((place.rounds(), id), place.seat(), is),
        };
        let Some(task) = task else {
            return false;
        };
        self.heads[place.level()].waiting -= 1;
        self.urgent.push_back((stream, task));
        true
    }

    /// Makes all waiting tasks of a query urgent.
    pub fn hurry_query(&mut self, id: QueryId) {
        for (level, head) in self.levels.iter_mut().zip(&mut self.heads) {
            level.take_query(id, |task| {
                head.waiting -= 1;
                self.urgent.push_back((Stream::Query(id), task));
            });
        }
    }

    /// Whether tasks wait that only have to be dropped.
    pub fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// The turn that is due. It is running until [`Feedback::charge`] ends it.
    pub fn begin(&mut self) -> Option<Turn> {
        if let Some(&(stream, _)) = self.urgent.front() {
            let level = URGENT;
            return Some(Turn { stream, level });
        }
        let heads = self.heads.iter().enumerate();
        let waiting = heads.filter(|(_, head)| head.waiting > 0);
        let (level, _) = waiting.min_by_key(|(level, head)| (head.used, *level))?;
        let due = &mut self.levels[level];
        let query = due.first().map(Stream::Query);
        let stream = match query {
            Some(query) if due.loose.is_empty() || !due.loose_next => query,
            _ => Stream::Loose,
        };
        if query.is_some() && !due.loose.is_empty() {
            due.loose_next = !due.loose_next;
        }
        self.heads[level].running += 1;
        self.running += 1;
        Some(Turn { stream, level })
    }

    /// Whether a turn that was charged and whose tasks are still held, to go to the back of their stream, would be the
    /// one that is due if they were queued. Not for a query of the last level, where it depends on its age.
    pub fn is_due(&mut self, turn: Turn) -> bool {
        let urgent = self.has_urgent();
        let Some(own) = self.levels.get_mut(turn.level).filter(|_| !urgent) else {
            return false;
        };
        let first = match (turn.stream, own.first()) {
            (Stream::Loose, first) => first.is_none(),
            (Stream::Query(_), _) if !own.loose.is_empty() || turn.level + 1 == LEVELS => false,
            (Stream::Query(id), first) => first.is_none_or(|first| id <= first),
        };
        let rank = |level: usize| (self.heads[level].used, level);
        let mut others = (0..LEVELS).filter(|&l| l != turn.level && self.heads[l].waiting > 0);
        first && others.all(|other| rank(turn.level) < rank(other))
    }

    /// Continues a turn whose tasks the worker still holds, after it was charged.
    pub fn resume(&mut self, turn: Turn) {
        if turn.level < LEVELS {
            self.wake_level(turn.level);
            self.heads[turn.level].running += 1;
            self.running += 1;
        }
    }

    /// Takes the next task of a turn.
    pub fn take(&mut self, turn: Turn) -> Option<T> {
        let Some(level) = self.levels.get_mut(turn.level) else {
            let due = self.urgent.front()?.0 == turn.stream;
            let (_, task) = due.then(|| self.urgent.pop_front()).flatten()?;
            self.len -= 1;
            return Some(task);
        };
        let task = match turn.stream {
            Stream::Loose => level.loose.pop_front(),
            Stream::Query(id) => level.pop(id),
        }?;
        self.len -= 1;
        self.heads[turn.level].waiting -= 1;
        Some(task)
    }

    /// Takes all waiting tasks of a query, from all levels, in the order in which they would run within each; but
    /// for those that only have to be dropped. The turn that runs is not ended by it.
    pub fn take_query(&mut self, id: QueryId) -> Vec<T> {
        let mut taken = Vec::new();
        for (level, head) in self.levels.iter_mut().zip(&mut self.heads) {
            level.take_query(id, |task| {
                head.waiting -= 1;
                taken.push(task);
            });
        }
        self.len -= taken.len();
        taken
    }

    /// Tasks of a turn's stream that wait in its level.
    pub fn waiting(&self, turn: Turn) -> usize {
        let Some(level) = self.levels.get(turn.level) else {
            let own = |(stream, _): &&(Stream, T)| *stream == turn.stream;
            return self.urgent.iter().take(URGENT_LOOK).take_while(own).count();
        };
        match turn.stream {
            _ if self.heads[turn.level].waiting == 0 => 0,
            Stream::Loose => level.loose.len(),
            Stream::Query(id) => level.waiting(id),
        }
    }

    /// Ends a turn and charges its level with the time that it was given.
    pub fn charge(&mut self, turn: Turn, given: Nanos) {
        let Some(head) = self.heads.get_mut(turn.level) else {
            return;
        };
        self.running -= u32::from(head.running > 0);
        head.running = head.running.saturating_sub(1);
        head.used = head.used.saturating_add(scaled(given.0, turn.level));
        self.most = self.most.max(head.used);
    }

    /// The level and the turn there of a query or loose task that has used `cpu`.
    fn height(&self, cpu: Nanos) -> (usize, u64) {
        let level = level_of(cpu, Nanos(self.base));
        (level, self.rounds(level, cpu).min(ROUNDS))
    }

    /// How many turns of the last level a query has used; 0 in the others.
    fn rounds(&self, level: usize, cpu: Nanos) -> u64 {
        if level + 1 < LEVELS {
            return 0;
        }
        let (begin, slice) = (
            level_end(level - 1, Nanos(self.base)),
            self.base.saturating_mul(LAST_SLICE),
        );
        cpu.0.saturating_sub(begin) / slice
    }

    /// A level that gets its first task is at most half a base behind the least of the others. If there are no
    /// others, nobody is owed anything for the past: it starts level with the one that had most.
    fn wake_level(&mut self, level: usize) {
        let busy = |head: &&Head| head.waiting > 0 || head.running > 0;
        if busy(&&self.heads[level]) {
            return;
        }
        if self.running == 0 && self.len == self.urgent.len() {
            self.heads[level].used = self.most;
            return;
        }
        let least = self.heads.iter().filter(busy).map(|head| head.used).min();
        let floor = least
            .unwrap_or(self.most)
            .saturating_sub(scaled(self.base / 2, level));
        self.heads[level].used = self.heads[level].used.max(floor);
    }
}

fn scaled(time: u64, level: usize) -> u64 {
    if let Some(thousands) = time.checked_mul(1000) {
        return thousands / FACTORS[level];
    }
    u64::try_from(u128::from(time) * 1000 / u128::from(FACTORS[level])).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
