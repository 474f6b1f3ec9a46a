//! A worker's hands: the tasks it holds of the stream that it serves, and where it gets them from.
//!
//! Mechanism; the worker's own thread. The ring and the LIFO slot can be emptied by other workers too.

use super::{LIFO_MAX, Worker};
use crate::exec::core::NOBODY;
use crate::exec::group::{End, Group, enqueue};
use crate::exec::task::Runnable;
use crate::sched::feedback::{Feedback, LEVELS, Stream, Turn, URGENT, level_end, level_of};
use crate::sched::{MAX_BATCH, MAX_STEAL, batch};
use crate::unit::Nanos;
use crossbeam_deque::Steal;
use std::sync::atomic::Ordering::Relaxed;

impl Worker {
    /// The next task of the served group: the one woken last, then the ring, then the group's queue, then
    /// what other workers hold.
    pub(super) fn next_task(&self) -> Option<Runnable> {
        let seat = &**self.seat;
        if seat.has_lifo()
            && self.lifo_streak.get() < LIFO_MAX
            && let Some(task) = seat.take_lifo()
        {
            if self.is_ours(&task) {
                self.lifo_streak.set(self.lifo_streak.get() + 1);
                return Some(task);
            }
            self.return_stray(task);
        }
        self.lifo_streak.set(0);
        loop {
            match self.ring.pop() {
                Some(task)
                    if task.metadata().stream() == self.stream.get() && self.is_ours(&task) =>
                {
                    self.fresh.set(self.fresh.get().saturating_sub(1));
                    return Some(task);
                }
                // Taken from a worker that was just turning to another stream, or moved to another group.
                Some(stray) => self.return_stray(stray),
                None => {
                    if let Some(task) = seat.take_lifo() {
                        if self.is_ours(&task) {
                            return Some(task);
                        }
                        self.return_stray(task);
                    }
                    if !self.open_mail() && !self.fetch() && !self.steal() {
                        return None;
                    }
                }
            }
        }
    }

    /// Whether a task of the served stream is the served group's. Queries move from one group to another.
    #[inline]
    fn is_ours(&self, task: &Runnable) -> bool {
        task.metadata().is_served_by(self.uid.get())
    }

    #[cold]
    pub(super) fn return_stray(&self, task: Runnable) {
        let group = task.metadata().task.group().clone();
        group.push(task);
    }

    /// Fills the ring from the group's queue: the running turn's tasks if it has any left, else those of the
    /// turn that is due. False if the queue is empty.
    pub(super) fn fetch(&self) -> bool {
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return false;
        };
        // What makes a group ready that is served alone brings it into the level-1 queue, or is about to.
        let nothing = self.lone.get() && self.core.queued_groups() == 0;
        if nothing || group.ready() == 0 {
            return false;
        }
        let mut queue = group.queue.lock();
        if queue.is_empty() {
            let taken = self.pass_by(group, &mut queue);
            if taken > 0 {
                return true;
            }
        }
        group.absorb(&mut queue, &mut self.batch.borrow_mut());
        let now = self.now.get();
        let over = |turn: &Turn| {
            let passed = queue.has_urgent() && turn.level != URGENT;
            self.outgrown.get() || passed || queue.waiting(*turn) == 0
        };
        if let Some(done) = self.turn.get().filter(over) {
            queue.charge(done, now.since(self.turn_began.get()));
            self.set_turn(None, now);
        }
        if self.turn.get().is_none() {
            self.set_turn(queue.begin(), now);
        }
        let Some(turn) = self.turn.get() else {
            return false;
        };
        let most = batch(
            self.core.config(),
            group.average_poll(),
            queue.waiting(turn),
            self.core.workers(),
        );
        let taken = self.load(group, &mut queue, turn, most.min(MAX_BATCH));
        self.fresh.set(self.fresh.get() + taken);
        taken > 0
    }

    /// Takes what was pushed to a group whose ordered queue is empty, if it is of one turn and not too much, without the way
    /// through that queue; what others may have of it goes in. None of it only has to be dropped. How many were taken.
    fn pass_by(&self, group: &Group, queue: &mut Feedback<Runnable>) -> usize {
        let mut pushed = self.batch.borrow_mut();
        group.take_pushed(&mut pushed);
        let Some(turn) = self.turn_of(&pushed) else {
            for task in pushed.drain(..) {
                enqueue(queue, task, End::Back);
            }
            return 0;
        };
        let now = self.now.get();
        let over = |running: &Turn| self.outgrown.get() || *running != turn;
        if let Some(done) = self.turn.get().filter(over) {
            queue.charge(done, now.since(self.turn_began.get()));
            self.set_turn(None, now);
        }
        if self.turn.get().is_none() {
            queue.resume(turn);
            self.set_turn(Some(turn), now);
        }
        let most = batch(
            self.core.config(),
            group.average_poll(),
            pushed.len(),
            self.core.workers(),
        );
        self.serve_stream(&pushed[0]);
        for task in pushed.drain(..most) {
            self.ring.push(task);
        }
        for task in pushed.drain(..) {
            enqueue(queue, task, End::Back);
        }
        group.requeued(0, most);
        self.fresh.set(self.fresh.get() + most);
        most
    }

    /// The turn that all of them are of; none if they are of several, or too many for one to look.
    fn turn_of(&self, tasks: &[Runnable]) -> Option<Turn> {
        let (first, others) = tasks.split_first()?;
        let base = self.core.config().level_base;
        let stream = first.metadata().stream();
        let (of, cpu) = first.metadata().place();
        let level = level_of(cpu, base);
        let same = |task: &Runnable| {
            let meta = task.metadata();
            // A query is of one age, whichever of its tasks one asks.
            let same_level =
                || matches!(of, Stream::Query(_)) || level_of(meta.place().1, base) == level;
            !meta.task.is_doomed() && meta.stream() == stream && same_level()
        };
        let few = others.len() < MAX_BATCH && !first.metadata().task.is_doomed();
        (few && others.iter().all(same)).then_some(Turn { stream: of, level })
    }

    /// Takes up to `most` tasks of a turn into the ring.
    pub(super) fn load(
        &self,
        group: &Group,
        queue: &mut Feedback<Runnable>,
        turn: Turn,
        most: usize,
    ) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(task) = queue.take(turn)
        {
            if taken == 0 {
                self.serve_stream(&task);
            }
            self.ring.push(task);
            taken += 1;
        }
        if taken > 0 {
            group.requeued(0, taken);
        }
        taken
    }

    pub(super) fn set_turn(&self, turn: Option<Turn>, now: Nanos) {
        self.turn.set(turn);
        self.turn_began.set(now);
        self.outgrown.set(false);
        self.level_end.set(match turn {
            Some(turn) if turn.level + 1 < LEVELS => {
                level_end(turn.level, self.core.config().level_base)
            }
            _ => u64::MAX,
        });
        if turn.is_none() {
            self.stream.set(NOBODY);
        }
    }

    /// Takes half of what another worker holds of the served group, [`MAX_STEAL`] at most.
    #[cold]
    pub(super) fn steal(&self) -> bool {
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return false;
        };
        let seats = self.core.seat_count();
        for step in 1..seats {
            let Some(seat) = self.core.seat((self.index + step) % seats) else {
                continue;
            };
            if seat.serving.load(Relaxed) != group.uid + 1 {
                continue;
            }
            let task = loop {
                match seat
                    .ring
                    .steal_batch_with_limit_and_pop(&self.ring, MAX_STEAL)
                {
                    Steal::Success(task) => break Some(task),
                    Steal::Retry => {}
                    Steal::Empty => break None,
                }
            };
            let task = task.or_else(|| {
                let now = self.core.clock().now();
                seat.lifo_is_stuck(now).then(|| seat.take_lifo()).flatten()
            });
            if let Some(task) = task {
                if task.metadata().task.group().uid != group.uid {
                    self.return_stray(task);
                    return !self.ring.is_empty();
                }
                self.adopt(group, &task);
                self.ring.push(task);
                return true;
            }
        }
        false
    }

    /// Makes the stream of a stolen task the one being served.
    pub(super) fn adopt(&self, group: &Group, task: &Runnable) {
        let (stream, cpu) = task.metadata().place();
        let turn = Turn {
            stream,
            level: level_of(cpu, self.core.config().level_base),
        };
        let now = self.now.get();
        let mut queue = group.queue.lock();
        if let Some(done) = self.turn.get() {
            queue.charge(done, now.since(self.turn_began.get()));
        }
        queue.resume(turn);
        drop(queue);
        self.set_turn(Some(turn), now);
        self.serve_stream(task);
    }

    fn serve_stream(&self, task: &Runnable) {
        let stream = task.metadata().stream();
        self.stream.set(stream);
        self.seat.inbox.open_for(stream);
    }

    /// Takes up what arrived while the worker was not running: of the served stream into the ring, the rest goes to
    /// its groups. If none is served, the first task of the group that was served last decides on the stream, or a single
    /// task on the group too. False if there was nothing for the worker itself.
    pub(super) fn open_mail(&self) -> bool {
        if self.seat.inbox.is_empty() {
            return false;
        }
        let mut mail = std::mem::take(&mut *self.batch.borrow_mut());
        self.seat.inbox.empty_into(&mut mail);
        self.mailed.set(mail.len());
        self.choose_from(&mail);
        let own = |task: &Runnable| task.metadata().stream() == self.stream.get();
        // Where little is going on it is one at a time.
        if mail.len() == 1
            && let Some(task) = mail.pop_if(|task| own(task))
        {
            self.ring.push(task);
            *self.batch.borrow_mut() = mail;
            return true;
        }
        let held = self.ring.len();
        // Those of the served stream stay; no lock is taken for them.
        let others = mail.drain(..).filter_map(|task| {
            if own(&task) {
                self.ring.push(task);
                return None;
            }
            Some(task)
        });
        let others = Group::push_each(others, &mut self.discard.borrow_mut());
        *self.batch.borrow_mut() = mail;
        if others && self.serving.get() {
            // Between slices the worker looks by itself whom to wake.
            self.core.notify();
        }
        self.ring.len() > held
    }

    /// If no stream is served, the first task of the group that was served last decides on it; or a single task of
    /// another group, if that one is settled with.
    fn choose_from(&self, mail: &[Runnable]) {
        if self.turn.get().is_some() {
            return;
        }
        if let [only] = mail
            && !(self.serving.get() || self.dry.get() || self.looked.get())
        {
            let group = only.metadata().task.group();
            if !self.with_group(|served| served.uid == group.uid) {
                self.group.replace(Some(group.clone()));
            }
        }
        let group = self.group.borrow();
        let Some(group) = group.as_deref() else {
            return;
        };
        let of_group = |task: &&Runnable| task.metadata().task.group().uid == group.uid;
        if let Some(task) = mail.iter().find(of_group) {
            self.adopt(group, task);
        }
    }

    pub(super) fn holds_tasks(&self) -> bool {
        !self.ring.is_empty() || self.seat.has_lifo()
    }

    /// Whether it holds a single task, in its ring.
    pub(super) fn holds_one(&self) -> bool {
        self.ring.len() == 1 && !self.seat.has_lifo()
    }

    /// The task that was woken last goes into the ring, where others see it.
    pub(super) fn ring_lifo(&self) {
        if let Some(task) = self.seat.take_lifo() {
            self.ring.push(task);
        }
    }

    /// Everything held goes back to the group's queue: what was not polled yet to the front, in its order,
    /// what was to the back. Whether it was anything. Meanwhile whoever looks finds it here or there.
    pub(super) fn give_back(&self, group: &Group, now: Nanos) -> bool {
        let mut queue = group.queue.lock();
        if let Some(turn) = self.turn.get() {
            queue.charge(turn, now.since(self.turn_began.get()));
        }
        self.set_turn(None, now);
        if !self.holds_tasks() {
            self.fresh.set(0);
            return false;
        }
        let mut batch = self.batch.borrow_mut();
        group.absorb(&mut queue, &mut batch);
        // Counted before they leave the hands where others find them, who wait for the queue's lock then. Some may
        // be taken meanwhile.
        let held = self.ring.len() + usize::from(self.seat.has_lifo());
        group.requeued(held, 0);
        let mut put = 0;
        for _ in 0..self.fresh.take() {
            batch.extend(self.ring.pop());
        }
        while let Some(task) = self.ring.pop() {
            enqueue(&mut queue, task, End::Back);
            put += 1;
        }
        // The one woken last was to run next: before the others.
        while let Some(task) = batch.pop().or_else(|| self.seat.take_lifo()) {
            enqueue(&mut queue, task, End::Front);
            put += 1;
        }
        if put != held {
            group.requeued(put, held);
        }
        put > 0
    }
}
