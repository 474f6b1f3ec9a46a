//! Whom to ask for memory back before anybody is refused or ended: the registered spillers of one group.
//!
//! Pure. A state machine over numbers; who calls it, and what asking means, is the caller's affair.
//!
//! 1. Nobody is asked while the group is at or below its threshold.
//! 2. The higher priority is asked first, then the query that holds most, then who registered first.
//! 3. What was asked for and is still expected counts as given back, for [`PATIENCE`]: one shortage is not asked for
//!    twice. It ends earlier when the group has been at or below its threshold meanwhile.
//! 4. No query is asked for more than it holds, however many of its operators have registered.

use crate::unit::{Bytes, Nanos};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How long an ask is waited for before others are asked instead. Writing 100 MB to a slow disk takes about as long.
pub const PATIENCE: Nanos = Nanos::from_millis(500);

/// A registration. Never used twice in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpillId(pub u64);

/// The spillers of one group. `Q` is a query, or whatever else holds memory.
#[derive(Debug)]
pub struct Spillers<Q> {
    registered: BTreeMap<SpillId, Spiller<Q>>,
    next: u64,
}

#[derive(Debug)]
struct Spiller<Q> {
    query: Q,
    priority: i32,
    ask: Option<Ask>,
}

/// One question that was asked.
#[derive(Clone, Copy, Debug)]
struct Ask {
    bytes: Bytes,
    at: Nanos,
    /// What the query held then.
    held: Bytes,
}

impl Ask {
    /// What may still come of it.
    fn expected(&self, held: Bytes, now: Nanos) -> u64 {
        if now.since(self.at) >= PATIENCE {
            return 0;
        }
        let given = self.held.0.saturating_sub(held.0);
        self.bytes.0.saturating_sub(given)
    }
}

impl<Q> Default for Spillers<Q> {
    fn default() -> Spillers<Q> {
        Spillers {
            registered: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<Q: Copy + Ord> Spillers<Q> {
    /// A spiller of `query`. Of the same query, and of others, higher priorities are asked first.
    pub fn register(&mut self, query: Q, priority: i32) -> SpillId {
        let id = SpillId(self.next);
        self.next += 1;
        let spiller = Spiller {
            query,
            priority,
            ask: None,
        };
        self.registered.insert(id, spiller);
        id
    }

    /// False if it is gone already.
    pub fn remove(&mut self, id: SpillId) -> bool {
        self.registered.remove(&id).is_some()
    }

    /// Whether there is anybody to ask.
    pub fn is_empty(&self) -> bool {
        self.registered.is_empty()
    }

    /// The group was seen at or below its threshold: what was asked for has been answered, or is not needed any more.
    pub fn forget_asks(&mut self) {
        for spiller in self.registered.values_mut() {
            spiller.ask = None;
        }
    }

    /// The group uses `used`: whom to ask for how much, so that it comes down to `target`. `held` tells what a query
    /// holds.
    pub fn ask(
        &mut self,
        used: Bytes,
        target: Bytes,
        now: Nanos,
        held: impl Fn(Q) -> Bytes,
    ) -> Vec<(SpillId, Bytes)> {
        let mut need = used.0.saturating_sub(target.0);
        // What each query holds that nobody asked it for yet.
        let mut left: BTreeMap<Q, u64> = BTreeMap::new();
        for spiller in self.registered.values_mut() {
            let held = held(spiller.query);
            let expected = spiller.ask.map_or(0, |ask| ask.expected(held, now));
            if expected == 0 {
                spiller.ask = None;
            }
            need = need.saturating_sub(expected);
            let left = left.entry(spiller.query).or_insert(held.0);
            *left = left.saturating_sub(expected);
        }
        if need == 0 {
            return Vec::new();
        }
        let mut order: Vec<_> = self.registered.iter_mut().collect();
        order.sort_by_key(|(id, spiller)| {
            let left = left.get(&spiller.query).copied().unwrap_or(0);
            (Reverse(spiller.priority), Reverse(left), **id)
        });
        let mut asked = Vec::new();
        for (&id, spiller) in order {
            let Some(left) = left.get_mut(&spiller.query) else {
                continue;
            };
            let bytes = need.min(*left);
            if bytes == 0 {
                continue;
            }
            need -= bytes;
            *left -= bytes;
            let held = held(spiller.query);
            // What is new since the last ask, and what is still expected of that.
            let (expected, since) = match spiller.ask {
                Some(last) => (last.expected(held, now), last.at),
                None => (0, now),
            };
            spiller.ask = Some(Ask {
                bytes: Bytes(expected.saturating_add(bytes)),
                at: since,
                held,
            });
            asked.push((id, Bytes(bytes)));
        }
        asked
    }
}

/// What a group is brought down to once it is above `threshold`: an eighth lower, so that the next allocation does not
/// ask again.
pub fn target(threshold: Bytes) -> Bytes {
    Bytes(threshold.0 - threshold.0 / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queries are numbers below four; each holds what its place says.
    struct Scene {
        spillers: Spillers<usize>,
        held: [u64; 4],
    }

    impl Scene {
        fn ask(&mut self, target: u64, millis: u64) -> Vec<(u64, u64)> {
            let used = Bytes(self.held.iter().sum());
            let (held, now) = (self.held, Nanos::from_millis(millis));
            let asked = self
                .spillers
                .ask(used, Bytes(target), now, |query| Bytes(held[query]));
            asked.iter().map(|(id, bytes)| (id.0, bytes.0)).collect()
        }
    }

    /// One spiller for each `(query, priority)`.
    fn scene(held: [u64; 4], registered: &[(usize, i32)]) -> Scene {
        let mut spillers = Spillers::default();
        for &(query, priority) in registered {
            spillers.register(query, priority);
        }
        Scene { spillers, held }
    }

    #[test]
    fn the_largest_is_asked_first_and_for_no_more_than_is_needed() {
        let mut s = scene([10, 70, 20, 0], &[(0, 0), (1, 0), (2, 0)]);
        assert_eq!(s.ask(100, 0), []);
        assert_eq!(s.ask(60, 0), [(1, 40)]);
    }

    #[test]
    fn several_are_asked_if_one_does_not_have_enough() {
        let mut s = scene([10, 30, 20, 40], &[(0, 0), (1, 0), (2, 0)]);
        assert_eq!(s.ask(45, 0), [(1, 30), (2, 20), (0, 5)]);
        // Query 3 has not registered: it is not asked, whatever it holds.
        let mut s = scene([10, 30, 20, 40], &[(0, 0), (1, 0), (2, 0)]);
        assert_eq!(s.ask(0, 0), [(1, 30), (2, 20), (0, 10)]);
    }

    #[test]
    fn a_higher_priority_is_asked_before_a_larger_query() {
        let mut s = scene([10, 70, 20, 0], &[(0, 5), (1, 0), (2, 5)]);
        assert_eq!(s.ask(65, 0), [(2, 20), (0, 10), (1, 5)]);
    }

    #[test]
    fn operators_of_one_query_are_not_asked_for_its_memory_twice() {
        let mut s = scene([50, 30, 0, 0], &[(0, 1), (0, 2), (1, 0)]);
        assert_eq!(s.ask(10, 0), [(1, 50), (2, 20)]);
    }

    #[test]
    fn what_is_expected_counts_as_given_back() {
        let mut s = scene([60, 50, 0, 0], &[(0, 0), (1, 0)]);
        assert_eq!(s.ask(80, 0), [(0, 30)]);
        assert_eq!(s.ask(80, 1), []);
        // The group goes on growing: only what is new is asked for, and of another.
        s.held[1] = 60;
        assert_eq!(s.ask(80, 2), [(1, 10)]);
        // The first gives a part; the rest is still expected.
        s.held[0] = 45;
        assert_eq!(s.ask(80, 3), []);
        s.held = [30, 50, 0, 0];
        assert_eq!(s.ask(80, 4), []);
        // Both have given what they were asked for, and may be asked again.
        s.held = [30, 70, 0, 0];
        assert_eq!(s.ask(80, 5), [(1, 20)]);
    }

    #[test]
    fn who_goes_on_growing_is_asked_for_the_growth_too() {
        let mut s = scene([100, 0, 0, 0], &[(0, 0)]);
        assert_eq!(s.ask(80, 0), [(0, 20)]);
        s.held[0] = 110;
        assert_eq!(s.ask(80, 400), [(0, 10)]);
        assert_eq!(s.ask(80, 499), []);
        assert_eq!(s.ask(80, 500), [(0, 30)]);
    }

    #[test]
    fn an_ask_is_over_when_the_group_has_been_below_its_threshold() {
        let mut s = scene([100, 0, 0, 0], &[(0, 0)]);
        assert_eq!(s.ask(80, 0), [(0, 20)]);
        // It gave 20 and took 20 again: by what it holds nothing has happened.
        assert_eq!(s.ask(80, 1), []);
        s.spillers.forget_asks();
        assert_eq!(s.ask(80, 2), [(0, 20)]);
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for_longer_than_patience() {
        let mut s = scene([60, 50, 0, 0], &[(0, 0), (1, 0)]);
        assert_eq!(s.ask(80, 0), [(0, 30)]);
        assert_eq!(s.ask(80, 499), []);
        assert_eq!(s.ask(80, 500), [(0, 30)]);
    }

    #[test]
    fn whoever_unregisters_or_holds_nothing_is_not_asked() {
        let mut s = scene([60, 0, 10, 0], &[(0, 0), (1, 0), (2, 0)]);
        assert!(s.spillers.remove(SpillId(0)));
        assert!(!s.spillers.remove(SpillId(0)));
        assert_eq!(s.ask(0, 0), [(2, 10)]);
        assert!(!s.spillers.is_empty());
    }

    #[test]
    fn the_target_is_an_eighth_below_the_threshold() {
        assert_eq!(target(Bytes(800)), Bytes(700));
        assert_eq!(target(Bytes(7)), Bytes(7));
        assert_eq!(target(Bytes(u64::MAX)), Bytes(u64::MAX - u64::MAX / 8));
    }
}
