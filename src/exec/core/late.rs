//! Finding the polls that take too long, and what follows: the group is charged up to now and blamed, and its worker's
//! place is open for one that stands in.
//!
//! Mechanism; the watchdog's thread, but for the blame.

use super::sight::{Look, Sight};
use super::{Core, Seat};
use crate::exec::blame::Blame;
use crate::exec::stats::LongPoll;
use crate::sched::fair::Late;
use crate::unit::{Nanos, QueryId};
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// How pressing the watchdog's next look is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::exec) enum Outlook {
    Quiet,
    /// A poll goes on for long, and it is not known yet whether that is its own doing.
    Uneasy,
    /// A poll is late.
    Late,
}

/// How many groups that waited a record names.
const NAMED: usize = 8;

impl Core {
    /// A poll longer than this is long.
    #[inline]
    pub(in crate::exec) fn long_poll(&self) -> Nanos {
        Nanos(self.long_poll.load(Relaxed))
    }

    /// Changes from when on a poll is long: at the watchdog's next look, and in slices to come. At least 1 µs.
    pub fn set_long_poll(&self, threshold: Nanos) {
        self.long_poll.store(threshold.0.max(1_000), Relaxed);
        self.watchdog().alarm();
    }

    /// Long polls that others had to wait for, the newest first: the last 256.
    pub fn long_polls(&self) -> Vec<LongPoll> {
        self.blames.read(self.clock().now())
    }

    /// Looks at every seat. How pressing the next look is.
    pub(in crate::exec) fn look_for_late(&self, sight: &mut Sight) -> Outlook {
        let mut outlook = Outlook::Quiet;
        sight.begin();
        for seat in self.all_seats() {
            self.end_stale_blame(seat);
            let (now, start) = (self.clock().now(), seat.poll_start.load(Relaxed));
            let look = sight.look(seat, start, now, self.clock().is_live());
            let Some(look) = look.filter(|_| !seat.lost.load(Relaxed)) else {
                continue;
            };
            if look.own > self.long_poll() && self.found_late(seat, start, look) {
                outlook = Outlook::Late;
            } else if now.since(Nanos(start)) > self.long_poll() {
                outlook = outlook.max(Outlook::Uneasy);
            }
        }
        if outlook == Outlook::Late {
            self.blame_for_waiting();
            self.warm_up();
            if self.spares.is_wanted() && !self.sleepers.any() {
                self.summon();
            }
        }
        outlook
    }

    fn found_late(&self, seat: &Seat, start: u64, look: Look) -> bool {
        let mut sched = self.sched.lock();
        // It may have ended while we looked. If it ends now, its worker waits for this lock.
        if seat.poll_start.load(Relaxed) != start {
            return false;
        }
        let before = sched.fair.is_late(seat.index);
        let until = Nanos(start).plus(look.own);
        let Some(charge) = sched.fair.late(seat.index, until, look.does) else {
            return false;
        };
        sched.ledger.give(charge.group, charge.given);
        // Its cap may hold it back from now on.
        let group = Core::group_at(&sched, charge.group);
        if let Some(group) = &group {
            group.mirror(&sched.fair);
        }
        self.publish(&sched);
        // Its slice ends with the poll, whatever time it takes, so that its worker is known to be back.
        seat.preempt.store(true, Relaxed);
        let first = !seat.late.swap(true, Relaxed);
        let before = before.map(Into::into);
        let now = Some(look.does.into());
        self.spares.places.now_absent(before, now);
        drop(sched);
        drop(group);
        if first {
            self.spares.count_late();
        }
        if look.does == Late::Blocked
            && let Some(blame) = &*seat.blame.lock()
        {
            blame.is_blocked();
        }
        true
    }

    /// Begins a record of every late poll that has none, if anybody waits.
    pub(in crate::exec) fn blame_for_waiting(&self) {
        let unblamed =
            |seat: &&Arc<CachePadded<Seat>>| seat.late.load(Relaxed) && seat.blame.lock().is_none();
        let late: Vec<_> = self.all_seats().filter(unblamed).collect();
        if late.is_empty() {
            return;
        }
        let groups = self.groups();
        let mut waited: Vec<(String, usize)> = groups
            .iter()
            .map(|group| {
                (
                    group.name().to_owned(),
                    group.ready() + self.hands(group.uid).1,
                )
            })
            .filter(|&(_, tasks)| tasks > 0)
            .collect();
        if waited.is_empty() || self.sleepers.any() {
            return;
        }
        waited.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        waited.truncate(NAMED);
        for seat in late {
            let serving = seat.serving.load(Relaxed);
            let Some(group) = groups.iter().find(|group| group.uid + 1 == serving) else {
                continue;
            };
            let blame = Arc::new(Blame::new(
                group.name().to_owned(),
                query_of(seat.inbox.stream()),
                seat.place.load(),
                Nanos(seat.poll_start.load(Relaxed)),
                waited.clone(),
            ));
            *seat.blame.lock() = Some(blame.clone());
            blame.tell();
            self.blames.add(blame);
        }
    }

    /// A record that was begun when its poll had just ended.
    fn end_stale_blame(&self, seat: &Seat) {
        let mut blame = seat.blame.lock();
        let began = seat.poll_start.load(Relaxed);
        if let Some(stale) = blame.take_if(|blame| blame.began.0 != began) {
            stale.end(stale.began.plus(self.long_poll()));
        }
    }

    /// Lets one stand in for ever for a worker that will never come back from its poll; the watchdog lets others take
    /// what it holds. False, and nothing happens, if that was done for as many workers already as there are.
    pub fn replace_worker(&self, index: usize) -> bool {
        let now = self.clock().now();
        let mut sched = self.sched.lock();
        let before = sched.fair.is_late(index);
        if !self.spares.places.lose(before.map(Into::into)) {
            return false;
        }
        if let Some(charge) = sched.fair.stop(index, now, 1) {
            sched.ledger.give(charge.group, charge.given);
        }
        self.publish(&sched);
        drop(sched);
        if let Some(seat) = self.seat(index) {
            seat.lost.store(true, SeqCst);
        }
        self.watchdog().alarm();
        self.notify();
        true
    }
}

/// The query whose stream has this number: see `Account::stream_number`.
fn query_of(stream: u64) -> Option<QueryId> {
    (stream & 1 == 1 && stream != super::NOBODY).then_some(QueryId(stream >> 1))
}
