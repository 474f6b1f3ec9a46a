//! Kinds of requests whose queries were killed of late, and which of them are refused for a while.
//!
//! Pure. A kind is a group and a fingerprint that the caller gives its requests. The governor tells of kills and
//! asks before it admits; instants come in as numbers.
//!
//! 1. A watch lives until its window has passed since the kind's last kill; it ends by itself.
//! 2. It refuses once so many kills as the rule asks for lie within one window, and then until it ends.
//! 3. There are at most as many watches as the list was made for; the one whose last kill is the oldest leaves.

use crate::unit::{GroupId, Nanos};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Identity of a watch: grows in the order in which watches began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub u64);

impl fmt::Display for WatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When a kind is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// After so many kills, at least 1.
    pub after: u64,
    /// Within this time; and so long it is refused, counted from the last one.
    pub window: Nanos,
}

/// A request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Until when.
    pub until: Nanos,
    /// What the last query of its kind was killed for.
    pub report: Arc<str>,
}

/// A watch, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its identity.
    pub id: WatchId,
    /// The group.
    pub group: GroupId,
    /// The fingerprint.
    pub fingerprint: u64,
    /// Kills within the window before the last one, that one included.
    pub kills: u64,
    /// Whether requests of the kind are refused.
    pub refuses: bool,
    /// When it ends.
    pub until: Nanos,
    /// What the last query of its kind was killed for.
    pub report: Arc<str>,
}

#[derive(Debug)]
struct Entry {
    id: WatchId,
    kills: VecDeque<Nanos>,
    refuses: bool,
    until: Nanos,
    report: Arc<str>,
}

type Kind = (GroupId, u64);

/// The watches of one governor.
#[derive(Debug)]
pub struct WatchList {
    most: usize,
    kinds: HashMap<Kind, Entry>,
    /// By the last kill, the oldest first; the id tells apart what happened at the same time.
    order: BTreeSet<(Nanos, WatchId, Kind)>,
    last_id: u64,
}

impl WatchList {
    /// An empty list of at most `most` watches, at least 1.
    pub fn new(most: usize) -> WatchList {
        WatchList {
            most: most.max(1),
            kinds: HashMap::new(),
            order: BTreeSet::new(),
            last_id: 0,
        }
    }

    /// Watches, those that have ended but were not looked at since included.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// A query of this kind was killed. True if the kind is refused from now on, or longer than before.
    pub fn killed(
        &mut self,
        group: GroupId,
        fingerprint: u64,
        rule: Rule,
        now: Nanos,
        report: Arc<str>,
    ) -> bool {
        let kind = (group, fingerprint);
        let over = self
            .kinds
            .get(&kind)
            .is_some_and(|entry| entry.until <= now);
        if over {
            self.take(kind);
        }
        if !self.kinds.contains_key(&kind) {
            if self.kinds.len() >= self.most
                && let Some(&(_, _, oldest)) = self.order.first()
            {
                self.take(oldest);
            }
            self.last_id += 1;
        }
        let entry = self.kinds.entry(kind).or_insert_with(|| Entry {
            id: WatchId(self.last_id),
            kills: VecDeque::new(),
            refuses: false,
            until: Nanos::ZERO,
            report: report.clone(),
        });
        if let Some(&last) = entry.kills.back() {
            self.order.remove(&(last, entry.id, kind));
        }
        entry.kills.push_back(now);
        while entry
            .kills
            .front()
            .is_some_and(|&kill| now.since(kill) >= rule.window)
        {
            entry.kills.pop_front();
        }
        // A clock that stood still in a window of nothing: the last kill counts.
        if entry.kills.is_empty() {
            entry.kills.push_back(now);
        }
        self.order.insert((now, entry.id, kind));
        entry.refuses |= entry.kills.len() as u64 >= rule.after.max(1);
        entry.until = entry.until.max(now.plus(rule.window));
        entry.report = report;
        entry.refuses
    }

    /// Whether a request of this kind is refused now.
    pub fn refuses(&mut self, group: GroupId, fingerprint: u64, now: Nanos) -> Option<Refusal> {
        let kind = (group, fingerprint);
        let entry = self.kinds.get(&kind)?;
        if entry.until <= now {
            self.take(kind);
            return None;
        }
        entry.refuses.then(|| Refusal {
            until: entry.until,
            report: entry.report.clone(),
        })
    }

    /// Ends a watch, and forgets the kills behind it. False if there is none of that id.
    pub fn end(&mut self, id: WatchId) -> bool {
        let found = self.kinds.iter().find(|(_, entry)| entry.id == id);
        match found.map(|(&kind, _)| kind) {
            Some(kind) => {
                self.take(kind);
                true
            }
            None => false,
        }
    }

    /// Ends the watches of all groups but these.
    pub fn keep(&mut self, group: impl Fn(GroupId) -> bool) {
        let others = self.kinds.keys().filter(|(of, _)| !group(*of));
        for kind in others.copied().collect::<Vec<_>>() {
            self.take(kind);
        }
    }

    /// The watches that have not ended, the oldest id first.
    pub fn list(&mut self, now: Nanos) -> Vec<Watch> {
        let over = self.kinds.iter().filter(|(_, entry)| entry.until <= now);
        for kind in over.map(|(&kind, _)| kind).collect::<Vec<_>>() {
            self.take(kind);
        }
        let watch = |(&(group, fingerprint), entry): (&Kind, &Entry)| Watch {
            id: entry.id,
            group,
            fingerprint,
            kills: entry.kills.len() as u64,
            refuses: entry.refuses,
            until: entry.until,
            report: entry.report.clone(),
        };
        let mut watches: Vec<Watch> = self.kinds.iter().map(watch).collect();
        watches.sort_by_key(|watch| watch.id);
        watches
    }

    fn take(&mut self, kind: Kind) {
        if let Some(entry) = self.kinds.remove(&kind)
            && let Some(&last) = entry.kills.back()
        {
            self.order.remove(&(last, entry.id, kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = GroupId(10_001);
    const RULE: Rule = Rule {
        after: 3,
        window: Nanos::from_secs(60),
    };

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    fn kill(list: &mut WatchList, fingerprint: u64, now: Nanos) -> bool {
        list.killed(GROUP, fingerprint, RULE, now, format!("at {now}").into())
    }

    #[test]
    fn the_third_kill_in_a_minute_refuses_for_a_minute_and_then_it_ends_by_itself() {
        let mut list = WatchList::new(10);
        assert!(!kill(&mut list, 7, at(0)));
        assert!(!kill(&mut list, 7, at(30)));
        assert_eq!(list.refuses(GROUP, 7, at(58)), None);
        assert!(kill(&mut list, 7, at(59)));
        let refusal = Refusal {
            until: at(119),
            report: "at 59s".into(),
        };
        assert_eq!(list.refuses(GROUP, 7, at(59)), Some(refusal.clone()));
        let last = Nanos(at(119).0 - 1);
        assert_eq!(list.refuses(GROUP, 7, last), Some(refusal));
        assert_eq!(list.refuses(GROUP, 7, at(119)), None);
        assert!(list.is_empty(), "and nothing is left of it");
    }

    #[test]
    fn kills_further_apart_than_the_window_do_not_add_up() {
        let mut list = WatchList::new(10);
        assert!(!kill(&mut list, 7, at(0)));
        assert!(!kill(&mut list, 7, at(30)));
        assert!(!kill(&mut list, 7, at(60)), "the first is a window old");
        assert!(kill(&mut list, 7, at(89)), "30, 60, 89");
    }

    #[test]
    fn other_fingerprints_and_the_same_one_in_another_group_are_other_kinds() {
        let mut list = WatchList::new(10);
        for second in 0..3 {
            kill(&mut list, 7, at(second));
        }
        assert!(list.refuses(GROUP, 7, at(3)).is_some());
        assert_eq!(list.refuses(GROUP, 8, at(3)), None);
        assert_eq!(list.refuses(GroupId(10_002), 7, at(3)), None);
    }

    #[test]
    fn a_dropped_watch_refuses_no_more_and_forgets_the_kills() {
        let mut list = WatchList::new(10);
        for second in 0..3 {
            kill(&mut list, 7, at(second));
        }
        let id = list.list(at(3))[0].id;
        assert!(list.end(id));
        assert!(!list.end(id));
        assert_eq!(list.refuses(GROUP, 7, at(3)), None);
        assert!(!kill(&mut list, 7, at(4)), "counted from one again");
        list.keep(|group| group == GROUP);
        assert_eq!(list.len(), 1);
        list.keep(|_| false);
        assert!(list.is_empty());
    }

    /// Ten thousand kinds at once, each with its own number of kills: every one is exact, and one more takes the
    /// place of the one that was killed longest ago.
    #[test]
    fn ten_thousand_watches_are_exact_and_the_oldest_leaves() {
        const MOST: u64 = 10_000;
        let mut list = WatchList::new(MOST as usize);
        let mut now = 0;
        for round in 0..3 {
            for fingerprint in 0..MOST {
                // One in three is killed three times, one twice, one once.
                if fingerprint % 3 >= round {
                    now += 1;
                    let refused = kill(&mut list, fingerprint, Nanos(now));
                    assert_eq!(refused, round == 2);
                }
            }
        }
        assert_eq!(list.len(), MOST as usize);
        let now = Nanos(now);
        for fingerprint in 0..MOST {
            let refused = list.refuses(GROUP, fingerprint, now).is_some();
            assert_eq!(refused, fingerprint % 3 == 2, "{fingerprint}");
        }
        let watches = list.list(now);
        let exact = |watch: &Watch| watch.kills == watch.fingerprint % 3 + 1;
        assert!(watches.iter().all(exact));

        // 0 was killed once, first of all; 3 next.
        kill(&mut list, MOST, now);
        kill(&mut list, MOST + 1, now);
        assert_eq!(list.len(), MOST as usize);
        let left: Vec<u64> = list.list(now).iter().map(|w| w.fingerprint).collect();
        assert!(!left.contains(&0) && !left.contains(&3));
        assert!(left.contains(&1) && left.contains(&6) && left.contains(&MOST));
        assert_eq!(list.order.len(), list.kinds.len());
    }
}
