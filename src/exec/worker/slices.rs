//! From one slice to the next: settle with the group, then one critical section that charges the old slice
//! and picks the new one.
//!
//! Mechanism; the worker's own thread, under the scheduler's lock where a function takes `sched`.

use super::stolen::SUSPECT;
use super::{Next, Worker};
use crate::exec::core::{Core, Sched};
use crate::exec::group::Group;
use crate::mem;
use crate::sched::fair::{Slice, Slot};
use crate::sched::feedback::Stream;
use crate::sched::{MAX_BATCH, batch, worth_a_wake};
use crate::unit::Nanos;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    /// Ends the running slice, if any, and begins the next one.
    pub(super) fn next_slice(&self) -> Next {
        let now = self.now.get();
        mem::look_at_returns();
        self.mailed.set(0);
        let came = self.open_mail() && !self.serving.get();
        // With no group queued nothing else is ready, or whoever made it so is about to say it.
        let lone = came && self.holds_one() && self.core.queued_groups() == 0;
        if came && !lone {
            self.line_up(now);
        }
        self.judge_look();
        self.settle(now);
        let mut discard = self.discard.borrow_mut();
        let mut sched = self.core.sched.lock();
        if came {
            self.skip_idle_time(&mut sched, now);
        }
        let lone = if lone {
            self.start_lone(&mut sched, now)
        } else {
            None
        };
        self.lone.set(lone.is_some());
        if lone.is_none() {
            self.queue_held(&mut sched, now);
            self.stop(&mut sched, now);
        }
        self.core.sample(&mut sched, now, &mut discard);
        let next = lone.unwrap_or_else(|| self.look_or_pick(&mut sched, now, &mut discard));
        self.core.publish(&sched);
        drop(sched);
        discard.clear();
        drop(discard);
        match &next {
            Next::Slice(slice, last) => self.begin(*slice, last.as_deref(), now),
            Next::Nothing => self.let_go(now),
            Next::Look => {}
        }
        // Its own group is not looked for by others, but counts if it is queued.
        self.wake_others(usize::from(!self.lone.get()));
        next
    }

    /// Ends the running slice without beginning another: the host wants its turn.
    pub(super) fn end_slice(&self) {
        let now = self.now.get();
        self.settle(now);
        // The host may have something that takes long: what is kept must be there for others.
        self.ring_lifo();
        let mut sched = self.core.sched.lock();
        self.queue_held(&mut sched, now);
        self.stop(&mut sched, now);
        self.core.publish(&sched);
        drop(sched);
        // Of what a cap holds back, only what has to be dropped can be served, and only from the queue.
        if self.with_group(Group::is_held_back) {
            self.let_go(now);
        }
        self.wake_others(1);
    }

    /// The group's side of the end of a slice: level 2 is charged, counters are poured out, and the tasks
    /// go back, unless they may stay; see [`keep`](Worker::keep).
    pub(super) fn settle(&self, now: Nanos) {
        if !self.serving.get() {
            return;
        }
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return;
        };
        let given = now.since(self.slice_began.get());
        self.stolen.refresh(now);
        self.polls.set(self.tally.polls.get());
        group.learn(self.polls.get(), given);
        self.tally.pour(given, &group.counters);
        let seat = &**self.seat;
        let busy = seat.busy.load(Relaxed).saturating_add(given.0);
        seat.busy.store(busy, Relaxed);
        if !self.keep(group, now) {
            self.left.set(self.give_back(group, now));
        }
    }

    /// Keeps what the worker holds for the next slice, if it would be served next of its group, and tops it up with
    /// what waits of the same stream while the group is alone. Tasks that are polled where they were last find
    /// warm caches, and nobody else's are touched; with more of them than fit, they must take turns through the queue.
    fn keep(&self, group: &Group, now: Nanos) -> bool {
        let held = self.ring.len();
        let asked_away = self.outgrown.get() || self.seat.preempt.load(Relaxed);
        let Some(turn) = self.turn.get().filter(|_| !asked_away) else {
            return false;
        };
        // Beside other groups, what it keeps must be there for others to see; the LIFO slot is not. And it must be of one
        // age, as the tasks of a query are: others, by their own, may be due before the rest.
        let hidden = self.seat.has_lifo() || turn.stream == Stream::Loose;
        if (hidden && !self.solo.get()) || !self.holds_tasks() {
            return false;
        }
        let most = batch(self.core.config(), group.average_poll(), MAX_BATCH, 1);
        let mut queue = group.queue.lock();
        group.absorb(&mut queue, &mut self.batch.borrow_mut());
        let waiting = queue.waiting(turn);
        if waiting > 0 && (held >= most || !self.solo.get()) {
            return false;
        }
        queue.charge(turn, now.since(self.turn_began.get()));
        if waiting < queue.len() && !queue.is_due(turn) {
            self.set_turn(None, now);
            return false;
        }
        queue.resume(turn);
        self.turn_began.set(now);
        let share = waiting
            .div_ceil(self.core.workers())
            .min(most.saturating_sub(held));
        self.load(group, &mut queue, turn, share);
        true
    }

    /// A single task has come by mail, and nobody is queued: it is served without a place in the queue, which would be for
    /// nobody to see. Whoever makes more of its group ready finds that inactive, and brings it into the queue.
    fn start_lone(&self, sched: &mut Sched, now: Nanos) -> Option<Next> {
        if self.dry.get() || self.role.get().is_some() {
            return None;
        }
        let slot = self.group.borrow().as_deref()?.slot;
        let slice = sched.fair.start_held(self.index, slot, now)?;
        self.looked.set(false);
        self.ran_dry.set(false);
        self.begun(sched, now);
        Some(Next::Slice(slice, None))
    }

    /// Mail may change the group without anybody saying so to the scheduler. Where nobody else has work, nobody was
    /// entitled to the time until now.
    fn skip_idle_time(&self, sched: &mut Sched, now: Nanos) {
        let another = self.with_group(|group| group.uid != self.uid.get());
        if another && sched.fair.working_groups().next().is_none() {
            sched.ledger.skip(now);
        }
    }

    /// A slice has begun. Under the lock: whoever asks for its end must not be overheard.
    fn begun(&self, sched: &mut Sched, now: Nanos) {
        self.seat.preempt.store(false, Relaxed);
        self.core.ask_to_give_way(sched, now);
        self.expect_late(sched, now);
    }

    /// What is held outlasts the slice when the host has its turn, and what was given back when it ended is ready: another
    /// worker may have found nothing that it could take and have dequeued the group meanwhile. And what others hold who
    /// serve it too may be taken by this worker, if nobody has said so by a place in the queue. Whoever else makes tasks
    /// ready sees to it himself.
    pub(super) fn queue_held(&self, sched: &mut Sched, now: Nanos) {
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return;
        };
        let left = self.left.take();
        if sched.fair.is_queued(group.slot) {
            return;
        }
        let others = || {
            sched.fair.is_served_by_others(group.slot)
                && self.core.stealable(group.uid, self.index, now)
        };
        let ready = || (left && group.ready() > 0) || others();
        if self.holds_tasks() || (self.serving.get() && ready()) {
            group.set_active();
            sched.fair.wake(group.slot, now, false);
        }
    }

    /// The scheduler's side of the end of a slice.
    pub(super) fn stop(&self, sched: &mut Sched, now: Nanos) {
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return;
        };
        if self.serving.replace(false) {
            let late = sched.fair.is_late(self.index);
            let end = now.since(self.lost.take());
            if let Some(charge) = sched.fair.stop(self.index, end, self.polls.get()) {
                sched.ledger.give(charge.group, charge.given);
            }
            if let Some(late) = late {
                self.back_in_time(late);
            }
        }
        self.core.see_to_excuse(sched, group, now);
    }

    /// Tasks are held that may not be served now: their group's cap holds them back. Whoever comes when it no longer does
    /// must find them.
    fn let_go(&self, now: Nanos) {
        let group = self.group.borrow();
        if let Some(group) = group.as_deref().filter(|_| self.keeps()) {
            if self.give_back(group, now) {
                group.expose_quietly();
            }
            self.see_to_urgent(group);
        }
    }

    /// Whether anything of the last slice was kept. Even if others have taken all of its tasks since, its turn must end.
    fn keeps(&self) -> bool {
        self.holds_tasks() || self.turn.get().is_some()
    }

    /// What only has to be dropped passes by the cap, but nobody saw it while it was held.
    fn see_to_urgent(&self, group: &Group) {
        if group.is_held_back() && group.has_urgent() {
            self.core.excuse(group);
        }
    }

    /// tokio's own `yield_now` and a spent budget show up only after the host has had a look. A group that ran dry gets
    /// that look before another one is served that comes after it, unless the last ones found nothing; and before
    /// the worker sleeps, if it is a way to get most of the tasks back.
    pub(super) fn look_or_pick(
        &self,
        sched: &mut Sched,
        now: Nanos,
        discard: &mut Vec<Arc<Group>>,
    ) -> Next {
        // What was not polled here has deferred nothing here.
        let dry = self.dry.take() && self.defers.get() && self.polls.get() > 0;
        let dry = dry && !self.looked.replace(false);
        let behind = dry && self.with_group(|group| sched.fair.is_behind_next(group.slot));
        let look = || self.with_group(Group::may_have_deferred);
        let next = if behind && look() {
            Next::Look
        } else {
            match self.pick(sched, now, discard) {
                Next::Nothing if dry && self.deferring.get() => Next::Look,
                next => next,
            }
        };
        self.looked.set(matches!(next, Next::Look));
        self.ran_dry.set(dry && !matches!(next, Next::Slice(..)));
        next
    }

    pub(super) fn with_group(&self, is: impl FnOnce(&Group) -> bool) -> bool {
        self.group.borrow().as_deref().is_some_and(is)
    }

    /// Mail was taken up as the next turn. If tasks of other streams wait in the group, older queries perhaps,
    /// it takes its place among them instead: what comes by mail again and again must not pass them by.
    fn line_up(&self, now: Nanos) {
        let group = self.group.borrow();
        let (Some(group), Some(turn)) = (group.as_deref(), self.turn.get()) else {
            return;
        };
        if group.ready() == 0 {
            return;
        }
        let mut queue = group.queue.lock();
        group.absorb(&mut queue, &mut self.batch.borrow_mut());
        let others = queue.len() > queue.waiting(turn);
        drop(queue);
        if others {
            self.give_back(group, now);
            // Another worker may have emptied the queue meanwhile and have taken the group for idle.
            group.expose_quietly();
        }
    }

    /// The host has had its turn: whether that brought back what had run dry.
    fn judge_look(&self) {
        if self.ran_dry.take() {
            // A single task is worth no look: it may be an answer that came quickly.
            let mailed = self.mailed.get() as u64;
            self.deferring
                .set(mailed > 1 && mailed.saturating_mul(2) >= self.polls.get());
        }
        if self.looked.get()
            && let Some(group) = self.group.borrow().as_deref()
        {
            group.looked(self.holds_tasks() || group.ready() > 0);
        }
    }

    pub(super) fn pick(
        &self,
        sched: &mut Sched,
        now: Nanos,
        discard: &mut Vec<Arc<Group>>,
    ) -> Next {
        self.core.refill(sched, now, discard);
        loop {
            let Some(slot) = self.first(sched) else {
                return Next::Nothing;
            };
            let Some(group) = self.group_at(sched, slot) else {
                sched.fair.dequeue(slot);
                continue;
            };
            let held = self.holds_tasks() && self.serves_group(&group);
            if held || group.ready() > 0 || self.core.stealable(group.uid, self.index, now) {
                let slice = sched.fair.start(self.index, slot, now);
                group.mirror(&sched.fair);
                self.begun(sched, now);
                return Next::Slice(slice, self.group.replace(Some(group)));
            }
            if group.deactivate_if_empty() {
                sched.fair.dequeue(slot);
            }
            discard.push(group);
        }
    }

    fn serves_group(&self, group: &Group) -> bool {
        self.group
            .borrow()
            .as_ref()
            .is_some_and(|served| served.uid == group.uid)
    }

    /// The group in a slot. The one served last is at hand.
    pub(super) fn group_at(&self, sched: &Sched, slot: Slot) -> Option<Arc<Group>> {
        match &*self.group.borrow() {
            Some(group) if group.slot == slot => Some(group.clone()),
            _ => Core::group_at(sched, slot),
        }
    }

    pub(super) fn begin(&self, slice: Slice, last: Option<&Group>, now: Nanos) {
        if let Some(last) = last.filter(|last| last.slot != slice.group && self.keeps()) {
            // Another group comes first after all.
            if self.give_back(last, now) {
                last.expose();
            }
            self.see_to_urgent(last);
        }
        let seat = &**self.seat;
        if let Some(group) = &*self.group.borrow() {
            seat.serving.store(group.uid + 1, Relaxed);
            self.uid.set(group.uid);
            self.offer_at.set(worth_a_wake(group.average_poll()));
        }
        self.serving.set(true);
        self.solo.set(slice.solo);
        self.slice_began.set(now);
        self.suspect.set(SUSPECT.min(self.core.long_poll()));
        if self.turn.get().is_none() && !self.open_mail() {
            self.fetch();
        }
    }
}
