//! The desk of a group: where its queries reserve memory, and from where they are asked to give some back.
//!
//! Mechanism; any thread. Two short locks, one for the queue and one for the spillers, never held together, across an
//! await, a wake or a callback. Bytes are charged to owners under the queue's lock, so that nobody overtakes. What is
//! allocated under a lock is the process's: a query that has no memory left is parked with none of them.

mod limits;
mod spilling;

pub use spilling::{Ask, Registration};

use crate::foreign;
use crate::mem::error::MemoryError;
use crate::mem::promise;
use crate::mem::waiting::{Account, Arrival, End, Ticket, Waiting};
use crate::mem::{OwnerHandle, Shortfall, enter_process};
use crate::sync::Mutex;
use crate::unit::{Bytes, Nanos};
use limits::{largest, nearest};
use rustc_hash::FxHashMap;
use spilling::Spilling;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use tokio::time::Instant;

/// Who pays: a query, or a group for its tasks that belong to none.
pub type Payer = Arc<OwnerHandle>;

/// Reservations and spillers of one group.
pub struct Desk {
    name: Arc<str>,
    owner: Arc<OwnerHandle>,
    /// Deadlines are counted from here, on tokio's clock.
    epoch: Instant,
    queue_timeout: AtomicU64,
    /// Bytes of all reservations that are held.
    reserved: AtomicU64,
    queue: Mutex<Queue>,
    spilling: Spilling,
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
            reserved: AtomicU64::new(0),
            queue: Mutex::default(),
            spilling: Spilling::default(),
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

    /// Bytes of all reservations that are held.
    pub fn reserved(&self) -> u64 {
        self.reserved.load(Relaxed)
    }

    /// Reservations that wait.
    pub fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    // ---- reserving ------------------------------------------------------------------------------------------

    /// Charges `bytes` to `payer` now, or not at all.
    pub(super) fn try_take(&self, payer: &Payer, bytes: u64) -> Result<(), MemoryError> {
        let _ours = enter_process();
        let largest = largest(payer, bytes);
        if bytes > largest.limit {
            return Err(MemoryError::too_large(&self.name, largest));
        }
        let mut queue = self.queue.lock();
        if queue
            .waiting
            .try_arrive(&mut self.books(), payer, Bytes(bytes))
        {
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

    /// The refusal of a charge that did not go by the queue.
    pub(crate) fn does_not_fit(&self, short: Shortfall) -> MemoryError {
        MemoryError::full(&self.name, short, self.waiting())
    }

    /// Charges `bytes` to `payer`, or lets the request wait: its ticket, and until when.
    pub(super) fn take_or_wait(
        &self,
        payer: &Payer,
        bytes: u64,
    ) -> Result<Option<(Ticket, Option<Instant>)>, MemoryError> {
        let _ours = enter_process();
        let deadline = self.now().plus(Nanos(self.queue_timeout.load(Relaxed)));
        let mut queue = self.queue.lock();
        let arrival =
            queue
                .waiting
                .arrive(&mut self.books(), payer.clone(), Bytes(bytes), deadline);
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
        let _ours = enter_process();
        // Foreign: neither cloned nor dropped under the lock, and the one before is not woken. It may be the same
        // task's though `will_wake` denies it, which would then be polled for ever.
        let mut waker = Some(waker.clone());
        let mut queue = self.queue.lock();
        let woken = queue.settle(&mut self.books(), self.now());
        let is_first = queue.waiting.first().is_some_and(|first| first.0 == ticket);
        let ended = queue.seats.get_mut(&ticket).and_then(|seat| {
            if seat.end.is_none() {
                std::mem::swap(&mut seat.waker, &mut waker);
            }
            seat.end
        });
        let seat = ended.and_then(|_| queue.seats.remove(&ticket));
        drop(queue);
        foreign::wake(woken);
        foreign::contain(|| drop((seat, waker)));
        match ended {
            Some(end) => Found::Ended(end),
            None => Found::Waits { is_first },
        }
    }

    /// A request is given up. If its bytes had been taken for it already, they go back.
    pub(super) fn give_up(&self, ticket: Ticket, payer: &Payer, bytes: u64) {
        let _ours = enter_process();
        let mut queue = self.queue.lock();
        let seat = queue.seats.remove(&ticket);
        queue.waiting.cancel(ticket);
        if seat
            .as_ref()
            .is_some_and(|seat| seat.end == Some(End::Given))
        {
            self.release(payer, bytes);
        }
        let woken = queue.settle(&mut self.books(), self.now());
        drop(queue);
        foreign::wake(woken);
    }

    /// Gives bytes back that were reserved, to whoever waits first.
    pub(super) fn give_back(&self, payer: &Payer, bytes: u64) {
        if bytes > 0 {
            self.release(payer, bytes);
            self.settle();
        }
    }

    /// Serves whoever fits now: after bytes came back or a limit was changed.
    pub fn settle(&self) {
        let _ours = enter_process();
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() {
            return;
        }
        let woken = queue.settle(&mut self.books(), self.now());
        drop(queue);
        foreign::wake(woken);
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

    /// Who waits first, and for how much.
    fn first(&self) -> Option<(Payer, u64)> {
        let queue = self.queue.lock();
        let (_, bytes) = queue.waiting.first()?;
        Some((queue.waiting.first_payer()?.clone(), bytes.0))
    }

    fn release(&self, payer: &Payer, bytes: u64) {
        promise::release(payer.owner().0, bytes);
        self.reserved.fetch_sub(bytes, Relaxed);
    }

    fn books(&self) -> Books<'_> {
        Books(&self.reserved)
    }

    fn now(&self) -> Nanos {
        self.epoch.elapsed().into()
    }
}

impl Queue {
    /// Whom to wake, outside of the lock: those who were served or refused, and whoever is first now.
    fn settle(&mut self, books: &mut Books<'_>, now: Nanos) -> Vec<Waker> {
        let Queue { waiting, seats } = self;
        let before = waiting.first();
        let mut woken = Vec::new();
        waiting.settle(books, now, |ticket, _, end| {
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

/// The balances of the owners, and the sum of all that they have reserved.
struct Books<'a>(&'a AtomicU64);

impl Account for Books<'_> {
    type Payer = Payer;

    fn largest(&self, payer: &Payer) -> Bytes {
        Bytes(largest(payer, 0).limit)
    }

    fn take(&mut self, payer: &Payer, bytes: Bytes) -> bool {
        let taken = payer.try_charge(bytes.0).is_ok();
        if taken {
            promise::make(payer.owner().0, bytes.0);
            self.0.fetch_add(bytes.0, Relaxed);
        }
        taken
    }
}
