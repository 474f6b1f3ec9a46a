//! What stands between an operation and its stream: the turns that it has to wait for, and the account.
//!
//! Mechanism; whichever thread polls the stream. Invariants:
//! 1. An operation first has all its turns, then begins; what it is granted is held for no longer than the poll in
//!    which it begins. A stream that waits for its peer holds nothing.
//! 2. Only what passed is paid for, once: the rest goes back when the operation is done, pending, failed or dropped.

use crate::exec::account::Account;
use crate::exec::stats::Direction;
use crate::io::flow::{self, Flow};
use crate::io::resource::{IoResource, Way};
use crate::io::turnstile::{Grant, Place, Unserved};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

pub(super) struct Meter {
    account: Arc<Account>,
    ways: Vec<Arc<Way>>,
    reading: Passage,
    writing: Passage,
}

/// An operation on its way to the stream.
#[derive(Default)]
struct Passage {
    /// Turns that it has had, or did not need.
    turns: usize,
    grants: Vec<Grant>,
    place: Option<Place>,
    /// Since when it waits.
    since: Option<Instant>,
}

impl Meter {
    pub(super) fn new(account: Arc<Account>) -> Meter {
        Meter {
            account,
            ways: Vec::new(),
            reading: Passage::default(),
            writing: Passage::default(),
        }
    }

    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(super) fn move_to(&mut self, account: Arc<Account>) {
        self.end_waits();
        self.account = account;
    }

    pub(super) fn share(&mut self, resource: &IoResource) {
        let known = self.ways.iter().any(|way| way.resource == *resource);
        if let Some(flow) = flow::of(&self.account).filter(|_| !known) {
            self.ways.push(flow.way(resource));
        }
    }

    /// How many of `want` bytes may pass: at least one. Ready without a look at the clock or a lock where nothing is
    /// limited.
    #[inline]
    pub(super) fn poll_turn(
        &mut self,
        direction: Direction,
        want: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        let Some(flow) = flow::of(&self.account) else {
            return Poll::Ready(Ok(want));
        };
        let passage = match direction {
            Direction::Read => &mut self.reading,
            Direction::Write => &mut self.writing,
        };
        if !flow.is_limited() && self.ways.is_empty() && passage.is_fresh() {
            return Poll::Ready(Ok(want));
        }
        for way in self.ways.iter_mut().filter(|way| way.flow != flow.id) {
            // The query has moved to another group.
            *way = flow.way(&way.resource);
        }
        let turn = ready!(passage.poll(flow, &self.ways, want, cx));
        if let Some(since) = passage.since.take() {
            self.account.record_io_wait(since.elapsed().into());
        }
        let granted = passage.granted(want);
        Poll::Ready(match turn {
            Ok(()) => Ok(granted),
            // Nobody limits anything any more.
            Err(Unserved::Over) => Ok(granted),
            Err(Unserved::NoTimers) => {
                passage.end(0);
                Err(flow.no_timers())
            }
        })
    }

    /// The operation has passed so many bytes, perhaps none.
    #[inline]
    pub(super) fn passed(&mut self, direction: Direction, bytes: u64) {
        let passage = match direction {
            Direction::Read => &mut self.reading,
            Direction::Write => &mut self.writing,
        };
        if !passage.is_fresh() {
            passage.end(bytes);
        }
        if bytes > 0 {
            self.account.record_io(direction, bytes);
        }
    }

    fn end_waits(&mut self) {
        for passage in [&mut self.reading, &mut self.writing] {
            if let Some(since) = passage.since.take() {
                self.account.record_io_wait(since.elapsed().into());
            }
            passage.end(0);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.end_waits();
    }
}

impl Passage {
    #[inline]
    fn is_fresh(&self) -> bool {
        self.turns == 0 && self.place.is_none()
    }

    /// Ready when it has had its turn everywhere: at the group's own limit, then at each of the capacities.
    fn poll(
        &mut self,
        flow: &Flow,
        ways: &[Arc<Way>],
        want: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unserved>> {
        loop {
            if let Some(place) = &mut self.place {
                let grant = ready!(place.poll(flow.beat(), cx));
                self.place = None;
                self.grants.push(grant?);
                self.turns += 1;
            }
            let lane = match self.turns.checked_sub(1) {
                None if flow.is_limited() => &flow.own,
                None => {
                    self.turns += 1;
                    continue;
                }
                Some(at) => match ways.get(at) {
                    Some(way) => &way.lane,
                    None => return Poll::Ready(Ok(())),
                },
            };
            match lane.arrive(self.granted(want), flow.beat(), cx)? {
                Ok(grant) => {
                    self.grants.push(grant);
                    self.turns += 1;
                }
                Err(place) => {
                    self.since.get_or_insert_with(Instant::now);
                    self.place = Some(place);
                    return Poll::Pending;
                }
            }
        }
    }

    fn granted(&self, want: u64) -> u64 {
        self.grants.iter().map(Grant::bytes).fold(want, u64::min)
    }

    fn end(&mut self, bytes: u64) {
        self.turns = 0;
        self.place = None;
        self.grants.drain(..).for_each(|grant| grant.spend(bytes));
    }
}
