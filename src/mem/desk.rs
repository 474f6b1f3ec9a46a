//! The desk of a group: where its queries reserve memory, and from where they are asked to give some back.
//!
//! Mechanism; any thread. Two short locks, one for the queue and one for the spillers, never held together, across an
//! await, a wake or a callback. Bytes are charged to owners under the queue's lock, so that nobody overtakes.

use super::error::MemoryError;
use super::owner::OwnerHandle;
use super::promise;
use super::shortfall::{MemoryScope, Shortfall};
use super::spill::{self, SpillId, Spillers};
use super::waiting::{Account, Arrival, End, Ticket, Waiting};
use crate::sync::Mutex;
use crate::unit::{Bytes, Nanos};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use tokio::time::Instant;

/// Who pays: a query, or a group for its tasks that belong to none.
pub type Payer = Arc<OwnerHandle>;

/// How a spiller is asked for so many bytes. Called by a thread that holds none of our locks.
pub type Ask = Arc<dyn Fn(u64) + Send + Sync>;

/// Reservations and spillers of one group.
pub struct Desk {
    name: Arc<str>,
    owner: Arc<OwnerHandle>,
    /// Deadlines are counted from here, on tokio's clock.
    epoch: Instant,
    queue_timeout: AtomicU64,
    queue: Mutex<Queue>,
    spilling: Mutex<Spilling>,
    /// Whether anybody has registered: read at the end of every poll.
    has_spillers: AtomicBool,
}

#[derive(Default)]
struct Queue {
    waiting: Waiting<Payer>,
    seats: FxHashMap<Ticket, Seat>,
}

/// Where a waiting future hears of its end.
#[derive(Default)]
struct Seat {
    waker: Option<Waker>,
    end: Option<End>,
}

#[derive(Default)]
struct Spilling {
    spillers: Spillers<u16>,
    registered: FxHashMap<SpillId, (Payer, Ask)>,
}

/// What a waiting future finds.
pub(super) enum Found {
    Ended(End),
    /// It is the first of the queue, or not; the latter are woken when that changes.
    Waits {
        is_first: bool,
    },
}

impl Desk {
    /// The desk of the group that `owner` stands for.
    pub fn new(name: Arc<str>, owner: Arc<OwnerHandle>) -> Arc<Desk> {
        Arc::new(Desk {
            name,
            owner,
            epoch: Instant::now(),
            queue_timeout: AtomicU64::new(u64::MAX),
            queue: Mutex::default(),
            spilling: Mutex::default(),
            has_spillers: AtomicBool::new(false),
        })
    }

    /// The group's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The group's owner.
    pub fn owner(&self) -> &Arc<OwnerHandle> {
        &self.owner
    }

    /// How long reservations wait at most; those that wait already keep their deadline.
    pub fn set_queue_timeout(&self, timeout: Nanos) {
        self.queue_timeout.store(timeout.0, Relaxed);
    }

    /// Reservations that wait.
    pub fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    // ---- reserving ------------------------------------------------------------------------------------------

    /// Charges `bytes` to `payer` now, or not at all.
    pub(super) fn try_take(&self, payer: &Payer, bytes: u64) -> Result<(), MemoryError> {
        let largest = largest(payer, bytes);
        if bytes > largest.limit {
            return Err(MemoryError::too_large(&self.name, largest));
        }
        let mut queue = self.queue.lock();
        if queue.waiting.try_arrive(&mut Books, payer, Bytes(bytes)) {
            return Ok(());
        }
        let waiting = queue.waiting.len();
        drop(queue);
        Err(MemoryError::full(
            &self.name,
            nearest(payer, bytes),
            waiting,
        ))
    }

    /// Charges `bytes` to `payer`, or lets the request wait: its ticket, and until when.
    pub(super) fn take_or_wait(
        &self,
        payer: &Payer,
        bytes: u64,
    ) -> Result<Option<(Ticket, Option<Instant>)>, MemoryError> {
        let deadline = self.now().plus(Nanos(self.queue_timeout.load(Relaxed)));
        let mut queue = self.queue.lock();
        let arrival = queue
            .waiting
            .arrive(&mut Books, payer.clone(), Bytes(bytes), deadline);
        match arrival {
            Arrival::Given => Ok(None),
            Arrival::Waits(ticket) => {
                queue.seats.insert(ticket, Seat::default());
                Ok(Some((ticket, self.epoch.checked_add(deadline.into()))))
            }
            Arrival::TooLarge { .. } => {
                Err(MemoryError::too_large(&self.name, largest(payer, bytes)))
            }
        }
    }

    /// Brings the queue up to date, and says what that means for one request.
    pub(super) fn look(&self, ticket: Ticket, waker: &Waker) -> Found {
        let mut queue = self.queue.lock();
        let mut woken = queue.settle(self.now());
        let is_first = queue.waiting.first().is_some_and(|first| first.0 == ticket);
        let ended = queue.seats.get_mut(&ticket).and_then(|seat| {
            if seat.end.is_none() {
                woken.extend(
                    seat.waker
                        .replace(waker.clone())
                        .filter(|last| !last.will_wake(waker)),
                );
            }
            seat.end
        });
        if ended.is_some() {
            queue.seats.remove(&ticket);
        }
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
        match ended {
            Some(end) => Found::Ended(end),
            None => Found::Waits { is_first },
        }
    }

    /// A request is given up. If its bytes had been taken for it already, they go back.
    pub(super) fn give_up(&self, ticket: Ticket, payer: &Payer, bytes: u64) {
        let mut queue = self.queue.lock();
        let seat = queue.seats.remove(&ticket);
        queue.waiting.cancel(ticket);
        if seat
            .as_ref()
            .is_some_and(|seat| seat.end == Some(End::Given))
        {
            release(payer, bytes);
        }
        let woken = queue.settle(self.now());
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Gives bytes back that were reserved, to whoever waits first.
    pub(super) fn give_back(&self, payer: &Payer, bytes: u64) {
        if bytes > 0 {
            release(payer, bytes);
            self.settle();
        }
    }

    /// Serves whoever fits now: after bytes came back or a limit was changed.
    pub fn settle(&self) {
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() {
            return;
        }
        let woken = queue.settle(self.now());
        drop(queue);
        woken.into_iter().for_each(Waker::wake);
    }

    /// The refusal of a request whose wait has ended so.
    pub(super) fn refusal(
        &self,
        payer: &Payer,
        bytes: u64,
        end: End,
        since: Instant,
    ) -> MemoryError {
        match end {
            End::TooLarge { .. } => MemoryError::too_large(&self.name, largest(payer, bytes)),
            End::TimedOut | End::Given => {
                MemoryError::timed_out(&self.name, nearest(payer, bytes), since.elapsed())
            }
        }
    }

    fn now(&self) -> Nanos {
        self.epoch.elapsed().into()
    }

    // ---- spilling -------------------------------------------------------------------------------------------

    /// A spiller of `payer`, until it is removed.
    pub(super) fn register(&self, payer: Payer, priority: i32, ask: Ask) -> SpillId {
        let mut spilling = self.spilling.lock();
        let id = spilling.spillers.register(payer.owner().0, priority);
        spilling.registered.insert(id, (payer, ask));
        self.has_spillers.store(true, Relaxed);
        id
    }

    pub(super) fn unregister(&self, id: SpillId) {
        let mut spilling = self.spilling.lock();
        spilling.spillers.remove(id);
        let gone = spilling.registered.remove(&id);
        self.has_spillers
            .store(!spilling.spillers.is_empty(), Relaxed);
        drop(spilling);
        // Foreign code may run in its destructor.
        drop(gone);
    }

    /// Whether the group is above its spill_mem_limit_threshold.
    pub fn should_spill(&self) -> bool {
        self.owner.is_over_soft_limit()
    }

    /// Whether asking now could give something: read at the end of polls.
    #[inline]
    pub fn is_pressed(&self) -> bool {
        self.has_spillers.load(Relaxed) && self.should_spill()
    }

    /// Asks spillers if the group is above its threshold, or if a reservation waits below it. Nobody is asked while
    /// the threshold is off. How many were asked.
    pub fn ask_for_memory(&self) -> usize {
        if !self.has_spillers.load(Relaxed) {
            return 0;
        }
        let Some(target) = self.target() else {
            return 0;
        };
        let used = Bytes(self.owner.used());
        let mut spilling = self.spilling.lock();
        let Spilling {
            spillers,
            registered,
        } = &mut *spilling;
        let held: FxHashMap<u16, u64> = registered
            .values()
            .map(|(payer, _)| (payer.owner().0, payer.used()))
            .collect();
        let asked = spillers.ask(used, Bytes(target), self.now(), |owner| {
            Bytes(held.get(&owner).copied().unwrap_or(0))
        });
        let asked: Vec<(Ask, u64)> = asked
            .into_iter()
            .filter_map(|(id, bytes)| Some((registered.get(&id)?.1.clone(), bytes.0)))
            .collect();
        drop(spilling);
        for (ask, bytes) in &asked {
            ask(*bytes);
        }
        asked.len()
    }

    /// What the group is to come down to; none if it need not.
    fn target(&self) -> Option<u64> {
        let threshold = self.owner.soft_limit()?;
        let used = self.owner.used();
        let above = (used > threshold).then(|| spill::target(Bytes(threshold)).0);
        let wanted = {
            let queue = self.queue.lock();
            let first = queue.waiting.first().zip(queue.waiting.first_payer());
            first.map(|((_, bytes), payer)| nearest(payer, bytes.0))
        };
        let makes_room = wanted.and_then(|short| {
            let missing = short
                .used
                .saturating_add(short.asked)
                .checked_sub(short.limit)?;
            Some(used.saturating_sub(missing))
        });
        above.into_iter().chain(makes_room).min()
    }
}

impl Queue {
    /// Whom to wake, outside of the lock: those who were served or refused, and whoever is first now.
    fn settle(&mut self, now: Nanos) -> Vec<Waker> {
        let Queue { waiting, seats } = self;
        let before = waiting.first();
        let mut woken = Vec::new();
        waiting.settle(&mut Books, now, |ticket, _, end| {
            if let Some(seat) = seats.get_mut(&ticket) {
                seat.end = Some(end);
                woken.extend(seat.waker.take());
            }
        });
        let first = waiting.first();
        if first != before
            && let Some(seat) = first.and_then(|(ticket, _)| seats.get_mut(&ticket))
        {
            woken.extend(seat.waker.take());
        }
        woken
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// The balances of the owners.
struct Books;

impl Account for Books {
    type Payer = Payer;

    fn largest(&self, payer: &Payer) -> Bytes {
        Bytes(largest(payer, 0).limit)
    }

    fn take(&mut self, payer: &Payer, bytes: Bytes) -> bool {
        let taken = payer.try_charge(bytes.0).is_ok();
        if taken {
            promise::make(payer.owner().0, bytes.0);
        }
        taken
    }
}

fn release(payer: &Payer, bytes: u64) {
    promise::release(payer.owner().0, bytes);
}

/// A payer and those above it, with whose limit each has.
fn chain(payer: &Payer) -> impl Iterator<Item = (MemoryScope, &Payer)> {
    let scope = |owner: &Payer| match owner.above() {
        None => MemoryScope::Governor,
        Some(above) if above.above().is_none() => MemoryScope::Group,
        Some(_) => MemoryScope::Query,
    };
    std::iter::successors(Some(payer), |owner| owner.above())
        .map(move |owner| (scope(owner), owner))
}

/// The least limit that a payer has to keep to: a request of more can never be served.
fn largest(payer: &Payer, asked: u64) -> Shortfall {
    let limits = chain(payer).filter_map(|(scope, owner)| {
        let limit = owner.limit()?;
        Some(Shortfall {
            scope,
            limit,
            used: owner.used(),
            asked,
        })
    });
    limits.min_by_key(|short| short.limit).unwrap_or(Shortfall {
        scope: MemoryScope::Governor,
        limit: u64::MAX,
        used: 0,
        asked,
    })
}

/// The limit of which the least is left.
fn nearest(payer: &Payer, asked: u64) -> Shortfall {
    let limits = chain(payer).filter_map(|(scope, owner)| {
        let (limit, used) = (owner.limit()?, owner.used());
        Some(Shortfall {
            scope,
            limit,
            used,
            asked,
        })
    });
    limits
        .min_by_key(|short| short.limit.saturating_sub(short.used))
        .unwrap_or_else(|| largest(payer, asked))
}
