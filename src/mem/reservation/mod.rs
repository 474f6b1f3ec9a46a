//! Memory that is promised to a query before it is used: the value that holds it, and the wait for it.
//!
//! Any thread. A [`Reservation`] gives its bytes back when it is dropped, and there is no other way to lose them:
//! cancel, panic, kill and abort all end in dropping. Waiting is a future of its own, `Reserving`, so that whoever
//! drops it in between gives back what it was served, and holds up nobody.

use crate::mem::desk::{Desk, Found, Payer};
use crate::mem::error::MemoryError;
use crate::mem::waiting::{End, Ticket};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How often the first of a queue looks whether memory was freed. Reservations that are given back wake it at once; an
/// allocator that frees a block tells nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Bytes that are promised to a query, against the same limits as what it allocates.
///
/// What the query allocates while it holds reservations is taken out of them first and charged only beyond them, so
/// that reserved memory that is then allocated does not count twice; what it frees fills them again. Without the
/// allocator the promise alone counts.
///
/// Dropping it gives back what is not in use.
#[must_use = "dropping a reservation gives its bytes back at once"]
pub struct Reservation {
    desk: Arc<Desk>,
    payer: Payer,
    size: u64,
}

impl Reservation {
    /// An empty one, to be grown.
    pub(crate) fn empty(desk: Arc<Desk>, payer: Payer) -> Reservation {
        Reservation {
            desk,
            payer,
            size: 0,
        }
    }

    /// Bytes held.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The name of the group that is charged.
    pub fn group(&self) -> &str {
        self.desk.name()
    }

    /// Holds `bytes` more; waits for them, in the order of the group's requests and up to its queue_timeout.
    ///
    /// Whoever waits here keeps what it holds. If all queries of a group do, only their deadlines end the wait: give
    /// back or spill first where that is possible, or use [`try_grow`](Reservation::try_grow).
    ///
    /// # Errors
    ///
    /// [`MemoryError::TooLarge`] at once, [`MemoryError::TimedOut`]. The reservation is as before.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped before it is done, it has not grown, and its place in the queue is free.
    pub async fn grow(&mut self, bytes: u64) -> Result<(), MemoryError> {
        let more = Reserving::new(self.desk.clone(), self.payer.clone(), bytes).await?;
        self.absorb(more);
        Ok(())
    }

    /// Holds `bytes` more, now or not at all.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Full`] if they do not fit or others wait, [`MemoryError::TooLarge`]. The reservation is as
    /// before.
    pub fn try_grow(&mut self, bytes: u64) -> Result<(), MemoryError> {
        self.desk.try_take(&self.payer, bytes)?;
        self.size += bytes;
        Ok(())
    }

    /// Gives up to `bytes` back; how many it was.
    pub fn shrink(&mut self, bytes: u64) -> u64 {
        let bytes = bytes.min(self.size);
        self.size -= bytes;
        self.desk.give_back(&self.payer, bytes);
        bytes
    }

    /// Gives all of it back; how many bytes it was. The reservation stays usable.
    pub fn free(&mut self) -> u64 {
        self.shrink(u64::MAX)
    }

    /// A reservation of its own for up to `bytes` of these. Nothing is charged or given back.
    pub fn split(&mut self, bytes: u64) -> Reservation {
        let size = bytes.min(self.size);
        self.size -= size;
        Reservation {
            desk: self.desk.clone(),
            payer: self.payer.clone(),
            size,
        }
    }

    /// Whether the group is above its `spill_mem_limit_threshold`: the time to write something out, before a request is
    /// refused. Never true while the threshold is off.
    pub fn should_spill(&self) -> bool {
        self.desk.should_spill()
    }

    fn absorb(&mut self, mut other: Reservation) {
        self.size += std::mem::take(&mut other.size);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.free();
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("group", &self.group())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// A reservation now, or not at all.
pub(crate) fn try_reserve(
    desk: Arc<Desk>,
    payer: Payer,
    bytes: u64,
) -> Result<Reservation, MemoryError> {
    let mut reservation = Reservation::empty(desk, payer);
    reservation.try_grow(bytes)?;
    Ok(reservation)
}

/// A reservation that is waited for.
pub(crate) struct Reserving {
    desk: Arc<Desk>,
    payer: Payer,
    bytes: u64,
    wait: Option<Wait>,
}

struct Wait {
    ticket: Ticket,
    since: Instant,
    deadline: Option<Instant>,
    timer: Timer,
}

enum Timer {
    New,
    Set(Pin<Box<Sleep>>),
    /// The runtime has none: the wait ends when memory is given back.
    Missing,
}

impl Reserving {
    pub(crate) fn new(desk: Arc<Desk>, payer: Payer, bytes: u64) -> Reserving {
        Reserving {
            desk,
            payer,
            bytes,
            wait: None,
        }
    }

    fn reservation(&self) -> Reservation {
        Reservation {
            desk: self.desk.clone(),
            payer: self.payer.clone(),
            size: self.bytes,
        }
    }
}

impl Future for Reserving {
    type Output = Result<Reservation, MemoryError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.wait.is_none() {
            let Some((ticket, deadline)) = this.desk.take_or_wait(&this.payer, this.bytes)? else {
                return Poll::Ready(Ok(this.reservation()));
            };
            this.wait = Some(Wait {
                ticket,
                since: Instant::now(),
                deadline,
                timer: Timer::New,
            });
        }
        loop {
            let Some(wait) = &mut this.wait else {
                return Poll::Pending; // never: it was set above
            };
            match this.desk.look(wait.ticket, cx.waker()) {
                Found::Ended(end) => {
                    let since = wait.since;
                    this.wait = None;
                    return Poll::Ready(match end {
                        End::Given => Ok(this.reservation()),
                        end => Err(this.desk.refusal(&this.payer, this.bytes, end, since)),
                    });
                }
                Found::Waits { is_first } => {
                    if is_first {
                        this.desk.ask_for_memory();
                    }
                    // Then the look is repeated.
                    ready!(wait.poll_timer(is_first, cx));
                }
            }
        }
    }
}

impl Wait {
    /// Ready when it is time to look again.
    fn poll_timer(&mut self, is_first: bool, cx: &mut Context<'_>) -> Poll<()> {
        let again = is_first.then(|| Instant::now() + LOOK_AGAIN);
        let Some(next) = again.into_iter().chain(self.deadline).min() else {
            return Poll::Pending;
        };
        if let Timer::New = self.timer {
            // A runtime without timers says so by a panic, and in no other way.
            let made = catch_unwind(AssertUnwindSafe(|| tokio::time::sleep_until(next)));
            self.timer = made.map_or(Timer::Missing, |timer| Timer::Set(Box::pin(timer)));
        }
        let Timer::Set(timer) = &mut self.timer else {
            return Poll::Pending;
        };
        if timer.is_elapsed() || timer.deadline() > next {
            timer.as_mut().reset(next);
        }
        timer.as_mut().poll(cx)
    }
}

impl Drop for Reserving {
    fn drop(&mut self) {
        if let Some(wait) = self.wait.take() {
            self.desk.give_up(wait.ticket, &self.payer, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests;
