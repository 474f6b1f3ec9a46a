//! A worker of the simulator: what the executor's worker does, event by event.
//!
//! Pure. A worker asks which group is due, takes a batch of the due turn's tasks into its ring and polls them
//! one after the other until the slice ends, it is asked to give way, the turn's query outgrows its level, or
//! the group runs dry; then it is charged and asks again. Rules and order of the calls to the policy are those
//! of `exec::worker`. Left out is what the policy cannot see: that worker's slot for the task woken last and its
//! inbox (they change the order within one stream only), that it tops up a ring that it keeps or keeps one
//! beside other groups (where it would be given the same), and its looks at the
//! host's I/O, which cost nothing here. And sleeping workers are woken for any task at once; there, only for as many
//! as are [worth it](crate::sched::worth_a_wake).

use super::{Event, Sim, State, TaskId, Then};
use crate::sched::feedback::{LEVELS, Stream, Turn, level_end, level_of};
use crate::sched::{MAX_STEAL, batch, learn};
use crate::unit::Nanos;
use std::collections::VecDeque;

/// A task in a ring, and whether it was polled since it was fetched.
#[derive(Clone, Copy, Debug)]
struct Held {
    task: TaskId,
    polled: bool,
}

/// Tasks of one turn of a group, held by a worker.
#[derive(Debug)]
struct Hand {
    group: usize,
    turn: Turn,
    ring: VecDeque<Held>,
}

#[derive(Debug)]
struct Slice {
    hand: Hand,
    since: Nanos,
    turn_since: Nanos,
    end: Nanos,
    solo: bool,
    /// The turn must end: its level is used up.
    outgrown: bool,
    polls: u64,
    polling: Option<(TaskId, Nanos, Then)>,
}

#[derive(Debug, Default)]
enum Doing {
    #[default]
    Nothing,
    /// It was called and gets up.
    GettingUp,
    /// It has work, in `slice` or `kept`.
    Serving,
}

#[derive(Debug, Default)]
pub(super) struct Worker {
    doing: Doing,
    slice: Option<Slice>,
    /// What it held at the end of its last slice, while it decides.
    kept: Option<Hand>,
    pub(super) give_way: bool,
}

impl Worker {
    pub(super) fn is_not_busy(&self) -> bool {
        !matches!(self.doing, Doing::Serving)
    }

    /// The ring that others may steal from, if it holds tasks of this group.
    fn ring_of(&mut self, group: usize) -> Option<&mut Hand> {
        let hand = &mut self.slice.as_mut()?.hand;
        (hand.group == group).then_some(hand)
    }
}

impl Sim {
    /// Makes a task runnable; `by` is the worker inside whose poll that happens.
    pub(super) fn wake(&mut self, task: TaskId, by: Option<usize>) {
        let (group, stream) = (self.tasks[task.0].group, self.tasks[task.0].stream);
        match self.tasks[task.0].state {
            State::Away => {}
            State::Polled { .. } => {
                self.tasks[task.0].state = State::Polled { woken: true };
                return;
            }
            State::Runnable(_) | State::Finished(_) => return,
        }
        self.runnable(task);
        let ring = by
            .and_then(|worker| self.workers[worker].ring_of(group))
            .filter(|hand| hand.turn.stream == stream);
        match ring {
            Some(hand) => hand.ring.push_back(Held {
                task,
                polled: false,
            }),
            None => self.enqueue(task, true),
        }
        if !self.groups[group].blocked {
            self.announce(group);
        }
    }

    /// Tells the policy and a sleeping worker, if there is one, that the group has a task to poll.
    pub(super) fn announce(&mut self, group: usize) {
        let slot = self.groups[group].slot;
        if !self.fair.is_queued(slot) {
            let preempt = self.fair.wake(slot, self.now, self.idle == 0);
            if let Some(worker) = preempt {
                self.workers[worker].give_way = true;
            }
            self.ask_to_give_way();
        }
        self.call_a_worker();
    }

    pub(super) fn gets_up(&mut self, worker: usize) {
        self.workers[worker].doing = Doing::Serving;
        self.boundary(worker);
    }

    pub(super) fn poll_ends(&mut self, worker: usize) {
        let Some(slice) = &mut self.workers[worker].slice else {
            return;
        };
        let Some((task, since, then)) = slice.polling.take() else {
            return;
        };
        let time = self.now.since(since);
        let t = &mut self.tasks[task.0];
        t.cpu = t.cpu.plus(time);
        let mut age = t.cpu;
        if let Stream::Query(id) = t.stream
            && let Some(cpu) = self.queries.get_mut(&id)
        {
            *cpu = cpu.plus(time);
            age = *cpu;
        }
        let level = slice.hand.turn.level;
        let base = self.setup.config.level_base;
        slice.outgrown = level + 1 < LEVELS && age.0 >= level_end(level, base);
        let (group, woken) = (t.group, t.state == State::Polled { woken: true });
        self.groups[group].running -= 1;
        match then {
            Then::Done => t.state = State::Finished(self.now),
            Then::Sleep(_) | Then::Wait if !woken => {
                t.state = State::Away;
                t.timer += 1;
                let timer = t.timer;
                if let Then::Sleep(time) = then {
                    self.after(time, Event::Wakes(task, timer));
                }
            }
            Then::Yield | Then::Sleep(_) | Then::Wait => {
                slice.hand.ring.push_back(Held { task, polled: true });
                self.runnable(task);
            }
        }
        self.book(group);
        self.boundary(worker);
    }

    /// Goes on with the slice, or with the next one, or idles.
    fn boundary(&mut self, worker: usize) {
        loop {
            if let Some(mut slice) = self.workers[worker].slice.take() {
                let goes_on = self.now < slice.end
                    && !slice.outgrown
                    && !self.workers[worker].give_way
                    && !self.groups[slice.hand.group].blocked;
                let task = if goes_on {
                    self.next_task(worker, &mut slice)
                } else {
                    None
                };
                if let Some(task) = task {
                    self.workers[worker].slice = Some(slice);
                    return self.poll(worker, task);
                }
                self.end_slice(worker, slice);
            }
            if !self.begin_slice(worker) {
                return;
            }
        }
    }

    /// The next task of the ring; from the queue if that is empty, where the turn goes on if any of its tasks
    /// wait; else half of another worker's ring.
    fn next_task(&mut self, worker: usize, slice: &mut Slice) -> Option<TaskId> {
        let Hand { group, turn, .. } = slice.hand;
        if slice.hand.ring.is_empty() && self.groups[group].queue.waiting(turn) > 0 {
            slice.hand.ring = self.take(group, turn);
        }
        if slice.hand.ring.is_empty() {
            let hand = self.fetch(group).or_else(|| self.steal(group, worker))?;
            let time = self.now.since(slice.turn_since);
            self.groups[group].queue.charge(turn, time);
            (slice.hand, slice.turn_since) = (hand, self.now);
        }
        slice.hand.ring.pop_front().map(|held| held.task)
    }

    fn end_slice(&mut self, worker: usize, slice: Slice) {
        let Slice { hand, .. } = slice;
        let group = hand.group;
        let g = &mut self.groups[group];
        g.queue.charge(hand.turn, self.now.since(slice.turn_since));
        g.average_poll = learn(g.average_poll, slice.polls, self.now.since(slice.since));
        let (slot, blocked) = (g.slot, g.blocked);
        let stays = slice.solo && !slice.outgrown && !self.workers[worker].give_way;
        if stays && g.queue.is_empty() && !blocked {
            self.workers[worker].kept = (!hand.ring.is_empty()).then_some(hand);
        } else {
            self.give_back(hand);
        }
        let more = self.workers[worker].kept.is_some() || !self.groups[group].queue.is_empty();
        if more && !blocked && !self.fair.is_queued(slot) {
            self.fair.wake(slot, self.now, false);
        }
        self.fair.stop(worker, self.now, slice.polls);
    }

    /// Chooses a group and fills the ring. False: there was nothing, and the worker sleeps.
    fn begin_slice(&mut self, worker: usize) -> bool {
        self.workers[worker].give_way = false;
        while self.fair.refill(self.now).is_some() {}
        loop {
            let Some(slot) = self.fair.first() else {
                if let Some(hand) = self.workers[worker].kept.take() {
                    self.give_back(hand);
                }
                self.workers[worker].doing = Doing::Nothing;
                self.idle += 1;
                return false;
            };
            let group = slot.0 as usize;
            if self.groups[group].blocked {
                self.fair.dequeue(slot);
                continue;
            }
            let kept = self.workers[worker].kept.take();
            let hand = match kept {
                Some(hand) if hand.group == group => {
                    self.groups[group].queue.resume(hand.turn);
                    Some(hand)
                }
                other => {
                    if let Some(hand) = other {
                        self.give_back(hand);
                    }
                    self.fetch(group).or_else(|| self.steal(group, worker))
                }
            };
            let Some(hand) = hand else {
                self.fair.dequeue(slot);
                continue;
            };
            let slice = self.fair.start(worker, slot, self.now);
            self.ask_to_give_way();
            self.books.of(group).picks += 1;
            self.workers[worker].slice = Some(Slice {
                hand,
                since: self.now,
                turn_since: self.now,
                end: slice.end,
                solo: slice.solo,
                outgrown: false,
                polls: 0,
                polling: None,
            });
            return true;
        }
    }

    /// A batch of the turn that is due in the group's queue.
    fn fetch(&mut self, group: usize) -> Option<Hand> {
        let turn = self.groups[group].queue.begin()?;
        let ring = self.take(group, turn);
        Some(Hand { group, turn, ring })
    }

    /// A batch of this turn.
    fn take(&mut self, group: usize, turn: Turn) -> VecDeque<Held> {
        let (config, workers) = (&self.setup.config, self.setup.workers);
        let g = &mut self.groups[group];
        let n = batch(config, g.average_poll, g.queue.waiting(turn), workers);
        let held = |task| Held {
            task,
            polled: false,
        };
        (0..n).map_while(|_| g.queue.take(turn)).map(held).collect()
    }

    /// The older half of the longest ring of the group, as many as one may take.
    fn steal(&mut self, group: usize, thief: usize) -> Option<Hand> {
        let others = self.workers.iter_mut().enumerate();
        let hands = others
            .filter(|&(i, _)| i != thief)
            .filter_map(|(_, w)| w.ring_of(group));
        let victim = hands.max_by_key(|hand| hand.ring.len())?;
        let half = victim.ring.len().div_ceil(2).min(MAX_STEAL);
        let ring: VecDeque<Held> = victim.ring.drain(..half).collect();
        let first = ring.front()?.task;
        let turn = Turn {
            stream: victim.turn.stream,
            level: level_of(self.age(first), self.setup.config.level_base),
        };
        self.groups[group].queue.resume(turn);
        Some(Hand { group, turn, ring })
    }

    /// A ring goes back to its group's queue: what was not polled to the front, in order, the rest to the end.
    fn give_back(&mut self, hand: Hand) {
        let (polled, fetched): (Vec<Held>, Vec<Held>) =
            hand.ring.into_iter().partition(|held| held.polled);
        for held in fetched.into_iter().rev() {
            self.enqueue(held.task, false);
        }
        for held in polled {
            self.enqueue(held.task, true);
        }
    }

    fn enqueue(&mut self, task: TaskId, at_end: bool) {
        let cpu = self.age(task);
        let t = &self.tasks[task.0];
        let queue = &mut self.groups[t.group].queue;
        if at_end {
            queue.push(t.stream, cpu, task);
        } else {
            queue.push_front(t.stream, cpu, task);
        }
    }

    /// What a task's level depends on.
    fn age(&self, task: TaskId) -> Nanos {
        let t = &self.tasks[task.0];
        match t.stream {
            Stream::Loose => t.cpu,
            Stream::Query(id) => self.queries.get(&id).copied().unwrap_or_default(),
        }
    }

    fn poll(&mut self, worker: usize, task: TaskId) {
        let t = &mut self.tasks[task.0];
        let step = (t.work)(&mut self.rng);
        let State::Runnable(since) =
            std::mem::replace(&mut t.state, State::Polled { woken: false })
        else {
            return;
        };
        let group = t.group;
        let g = &mut self.groups[group];
        g.waiting -= 1;
        g.running += 1;
        self.waiting -= usize::from(!g.blocked);
        self.book(group);
        let account = self.books.of(group);
        account.polls += 1;
        account.longest_wait = account.longest_wait.max(self.now.since(since));
        if let Some(slice) = &mut self.workers[worker].slice {
            slice.polls += 1;
            slice.polling = Some((task, self.now, step.then));
        }
        self.after(Nanos(step.poll.0.max(1)), Event::PollEnds(worker));
        if let Some(other) = step.wake {
            self.wake(other, Some(worker));
        }
        if self.idle > 0 && self.has_runnable() {
            self.call_a_worker();
        }
    }

    fn runnable(&mut self, task: TaskId) {
        let t = &mut self.tasks[task.0];
        t.state = State::Runnable(self.now);
        let g = &mut self.groups[t.group];
        g.waiting += 1;
        self.waiting += usize::from(!g.blocked);
        let group = t.group;
        self.book(group);
    }

    /// Calls the first sleeping worker.
    pub(super) fn call_a_worker(&mut self) {
        if self.idle == 0 {
            return;
        }
        let sleeping = |w: &Worker| matches!(w.doing, Doing::Nothing);
        if let Some(worker) = self.workers.iter().position(sleeping) {
            self.idle -= 1;
            self.workers[worker].doing = Doing::GettingUp;
            self.after(self.setup.wake_latency, Event::GetsUp(worker));
        }
    }
}
