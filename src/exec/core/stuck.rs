//! What waits behind polls that go on and on, or behind a host that is kept busy.
//!
//! Mechanism; the watchdog's thread. What others may see of a worker's hands is in the seats.

use super::{Core, Seat};
use crate::exec::group::Group;
use crate::exec::spares::Absence;
use crate::unit::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// What was seen of each worker: its progress, and how often in a row its host did not drive it.
pub(in crate::exec) type Marks = Vec<(Option<u64>, u8)>;

/// Looks in a row at which a worker's host did not drive it until one stands in: at the first, it may be a thread that
/// was just woken.
const KEPT_AWAY: u8 = 2;

impl Core {
    /// Whether every worker sleeps and nobody stands in.
    pub(in crate::exec) fn all_asleep(&self) -> bool {
        self.sleepers.len() == self.workers() && self.spares.bench.len() == 0
    }

    /// Lets the other workers take what waits behind polls that go on and on, or behind a host that is kept busy.
    /// True if there was something. `marks`: what the last calls saw of each worker.
    pub(in crate::exec) fn expose_stuck(&self, marks: &mut Marks) -> bool {
        marks.resize(self.workers(), (None, 0));
        let mut found = false;
        for (seat, (mark, times)) in self.seats.iter().zip(marks) {
            let held_up = seat.is_held_up(mark) && self.queued_groups() > 0;
            *times = if held_up { times.saturating_add(1) } else { 0 };
            found |= held_up;
            if *times >= KEPT_AWAY && !seat.held_up.swap(true, SeqCst) {
                self.spares.places.now_absent(None, Some(Absence::Late));
            }
        }
        if found {
            // Its thread is kept by a task of the host's own. If it is the searcher, or was relied on to come by
            // (see `expects_worker_here`), nobody else was woken.
            self.sleepers.stop_searching();
            self.notify();
        }
        let now = self.clock().now();
        found |= self.forward_mail(now);
        if !self.sleepers.any() && !self.spares.places.wants_full() {
            return found;
        }
        if self.queued_groups() > 0 && self.all_seats().any(|seat| seat.is_in_a_long_poll(now)) {
            // Left alone as not worth a wake-up, at an average that this poll does not keep to.
            self.notify();
            found = true;
        }
        let stuck = self.all_seats().filter(|seat| seat.is_stuck(now));
        let uids: Vec<u64> = stuck
            .map(|seat| seat.serving.load(Relaxed))
            .filter(|&uid| uid != 0)
            .collect();
        if uids.is_empty() {
            return found;
        }
        for group in self.groups() {
            if uids.contains(&(group.uid + 1)) {
                group.expose();
            }
        }
        true
    }

    /// Gives mail to its groups that is left unread. Whether there was any.
    pub(in crate::exec) fn forward_mail(&self, now: Nanos) -> bool {
        let leaves = |seat: &&Arc<CachePadded<Seat>>| seat.leaves_mail(now);
        let mut seats = self.all_seats().filter(leaves).peekable();
        if seats.peek().is_none() {
            return false;
        }
        let mut mail = Vec::new();
        seats.for_each(|seat| seat.inbox.empty_into(&mut mail));
        let found = Group::push_each(mail.into_iter(), &mut Vec::new());
        if found {
            self.notify();
        }
        found
    }

    /// Whether another worker holds tasks of this group that may be taken from it.
    pub(in crate::exec) fn stealable(&self, uid: u64, me: usize, now: Nanos) -> bool {
        let mut others = self.all_seats().filter(|seat| seat.index != me);
        others.any(|seat| {
            let serves = seat.serving.load(Relaxed) == uid + 1;
            serves && (!seat.ring.is_empty() || seat.lifo_is_stuck(now))
        })
    }
}
