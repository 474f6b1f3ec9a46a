//! Long polls that others had to wait for: who, from where, for how long, and who waited.
//!
//! Mechanism; the watchdog and spare threads begin a record, the worker ends it, any thread reads. Nothing here
//! is on the path of a poll that is not long.

use super::stats::LongPoll;
use crate::event;
use crate::unit::{Nanos, QueryId};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A record of one, as it grows.
pub(super) struct Blame {
    pub(super) group: String,
    pub(super) query: Option<QueryId>,
    pub(super) place: Option<&'static Location<'static>>,
    /// When the poll began.
    pub(super) began: Nanos,
    pub(super) waited: Vec<(String, usize)>,
    /// 0 while it goes on.
    lasted: AtomicU64,
    blocked: AtomicBool,
}

impl Blame {
    pub(super) fn new(
        group: String,
        query: Option<QueryId>,
        place: Option<&'static Location<'static>>,
        began: Nanos,
        waited: Vec<(String, usize)>,
    ) -> Blame {
        Blame {
            group,
            query,
            place,
            began,
            waited,
            lasted: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
        }
    }

    /// For the operator's log.
    pub(super) fn tell(&self) {
        event::long_poll(&self.group, self.query, &self);
    }

    pub(super) fn end(&self, now: Nanos) {
        self.lasted.store(now.since(self.began).0.max(1), Relaxed);
    }

    pub(super) fn is_blocked(&self) {
        self.blocked.store(true, Relaxed);
    }

    fn read(&self, now: Nanos) -> LongPoll {
        let (lasted, ago) = (self.lasted.load(Relaxed), now.since(self.began));
        LongPoll {
            group: self.group.clone(),
            query: self.query,
            place: self.place,
            ago,
            lasted: if lasted == 0 { ago } else { Nanos(lasted) },
            over: lasted != 0,
            blocked: self.blocked.load(Relaxed),
            waited: self.waited.clone(),
        }
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(f, "long poll of a task spawned at {place}")?,
            None => write!(f, "long poll")?,
        }
        let groups = self
            .waited
            .iter()
            .map(|(group, tasks)| format!("{group} ({tasks})"));
        let groups: Vec<String> = groups.collect();
        write!(f, "; ready tasks wait: {}", groups.join(", "))
    }
}

/// The last of them.
#[derive(Default)]
pub(super) struct Blames {
    list: Mutex<VecDeque<Arc<Blame>>>,
}

/// How many are kept: minutes' worth of a group that polls for 100 ms at a time all the while would be thousands, and
/// say no more than these.
const KEPT: usize = 256;

impl Blames {
    pub(super) fn add(&self, blame: Arc<Blame>) {
        let mut list = self.list.lock();
        if list.len() >= KEPT {
            list.pop_front();
        }
        list.push_back(blame);
    }

    /// The newest first.
    pub(super) fn read(&self, now: Nanos) -> Vec<LongPoll> {
        let list = self.list.lock();
        list.iter().rev().map(|blame| blame.read(now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blame(began: u64) -> Arc<Blame> {
        let waited = vec![("small".to_owned(), 3)];
        let place = Some(Location::caller());
        let blame = Blame::new("hog".into(), None, place, Nanos(began), waited);
        Arc::new(blame)
    }

    #[test]
    fn a_poll_that_goes_on_has_lasted_until_now_and_one_that_is_over_no_longer_grows() {
        let (blames, one) = (Blames::default(), blame(100));
        blames.add(one.clone());
        let read = |now| {
            let seen = blames.read(Nanos(now)).remove(0);
            (seen.ago.0, seen.lasted.0, seen.over)
        };
        assert_eq!(read(150), (50, 50, false));
        one.end(Nanos(160));
        assert_eq!(read(1_100), (1_000, 60, true));
    }

    #[test]
    fn the_oldest_records_go() {
        let blames = Blames::default();
        for began in 0..KEPT as u64 + 10 {
            blames.add(blame(began));
        }
        let seen = blames.read(Nanos(1_000));
        assert_eq!(seen.len(), KEPT);
        assert_eq!(seen[0].ago, Nanos(1_000 - (KEPT as u64 + 9)));
    }
}
