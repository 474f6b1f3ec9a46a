//! Who waits for memory: the queue of reservations of one group.
//!
//! Pure. A state machine over numbers; time comes in as one, and what fits is asked of an [`Account`].
//!
//! 1. Bytes are given from the front only. A small request does not overtake a large one: it would do so for ever.
//! 2. A request larger than all there could be is refused as soon as that is so, wherever it stands, and holds up
//!    nobody.
//! 3. Whenever bytes may have come back, as many requests are served as fit: nobody waits for a second wake-up.
//! 4. A request that can be served is served, even in the instant of its deadline.

use crate::unit::{Bytes, Nanos};
use std::collections::VecDeque;

/// What the queue takes bytes from: the limits of whoever asks, and what is used of them.
pub trait Account {
    /// Who pays.
    type Payer;
    /// The most that a request of this payer could ever be given, with nobody else there.
    fn largest(&self, payer: &Self::Payer) -> Bytes;
    /// Takes the bytes if they fit under every limit. Nothing happens if not.
    fn take(&mut self, payer: &Self::Payer, bytes: Bytes) -> bool;
}

/// A place in the queue. Never used twice in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What becomes of a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It has its bytes.
    Given,
    /// It waits, after everybody who came before.
    Waits(Ticket),
    /// It would not fit with nobody else there.
    TooLarge {
        /// What would.
        largest: Bytes,
    },
}

/// How the wait of a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its bytes were taken for it.
    Given,
    /// Its deadline passed.
    TimedOut,
    /// The limit was lowered below it.
    TooLarge {
        /// What would still fit.
        largest: Bytes,
    },
}

/// Requests that wait, in their order.
#[derive(Debug)]
pub struct Waiting<P> {
    line: VecDeque<Request<P>>,
    next: u64,
    /// Sum of the line's bytes, saturating.
    asked: u128,
}

#[derive(Debug)]
struct Request<P> {
    ticket: Ticket,
    payer: P,
    bytes: Bytes,
    deadline: Nanos,
}

impl<P> Default for Waiting<P> {
    fn default() -> Waiting<P> {
        Waiting {
            line: VecDeque::new(),
            next: 0,
            asked: 0,
        }
    }
}

impl<P> Waiting<P> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// What all that wait ask for together.
    pub fn asked(&self) -> Bytes {
        Bytes(u64::try_from(self.asked).unwrap_or(u64::MAX))
    }

    /// Whose turn it is, and for how much.
    pub fn first(&self) -> Option<(Ticket, Bytes)> {
        let first = self.line.front()?;
        Some((first.ticket, first.bytes))
    }

    /// Who would pay for it.
    pub fn first_payer(&self) -> Option<&P> {
        self.line.front().map(|request| &request.payer)
    }

    /// The next instant at which somebody must be told that it was in vain.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.line.iter().map(|request| request.deadline).min()
    }

    /// A request that does not wait: served if nobody is before it and it fits.
    pub fn try_arrive<A>(&mut self, account: &mut A, payer: &P, bytes: Bytes) -> bool
    where
        A: Account<Payer = P>,
    {
        bytes == Bytes(0) || (self.line.is_empty() && account.take(payer, bytes))
    }

    /// A request that waits until `deadline`, if it has to.
    pub fn arrive<A>(&mut self, account: &mut A, payer: P, bytes: Bytes, deadline: Nanos) -> Arrival
    where
        A: Account<Payer = P>,
    {
        let largest = account.largest(&payer);
        if bytes > largest {
            return Arrival::TooLarge { largest };
        }
        if self.try_arrive(account, &payer, bytes) {
            return Arrival::Given;
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.asked += u128::from(bytes.0);
        self.line.push_back(Request {
            ticket,
            payer,
            bytes,
            deadline,
        });
        Arrival::Waits(ticket)
    }

    /// A request is withdrawn. False if it does not wait any more. The caller settles next: it may have held up
    /// others.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        self.take_out(|request| request.ticket == ticket).is_some()
    }

    /// Brings the queue up to date: bytes may have come back, a limit may have changed, time has passed. `tell` is
    /// called for each request that leaves, in the order of the queue within each cause.
    pub fn settle<A>(&mut self, account: &mut A, now: Nanos, mut tell: impl FnMut(Ticket, P, End))
    where
        A: Account<Payer = P>,
    {
        let too_large = |account: &A, request: &Request<P>| {
            let largest = account.largest(&request.payer);
            (request.bytes > largest).then_some(largest)
        };
        while let Some(request) = self.take_out(|request| too_large(account, request).is_some()) {
            let largest = account.largest(&request.payer);
            tell(request.ticket, request.payer, End::TooLarge { largest });
        }
        loop {
            while let Some(first) = self.line.front()
                && account.take(&first.payer, first.bytes)
            {
                let Some(first) = self.take_out(|_| true) else {
                    break;
                };
                tell(first.ticket, first.payer, End::Given);
            }
            let before = self.first();
            while let Some(late) = self.take_out(|request| request.deadline <= now) {
                tell(late.ticket, late.payer, End::TimedOut);
            }
            // If the first one left in vain, the next may fit.
            if self.first() == before {
                return;
            }
        }
    }

    fn take_out(&mut self, which: impl FnMut(&Request<P>) -> bool) -> Option<Request<P>> {
        let place = self.line.iter().position(which)?;
        let request = self.line.remove(place)?;
        self.asked -= u128::from(request.bytes.0);
        Some(request)
    }
}

#[cfg(test)]
mod tests;
