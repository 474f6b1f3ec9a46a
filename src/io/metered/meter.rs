//! What stands between an operation and its stream: the turns that it has to wait for, and the account.
//!
//! Mechanism; whichever thread polls the stream. Invariants:
//! 1. An operation first has all its turns, then begins; what it is granted is held for no longer than the poll in
//!    which it begins. A stream that waits for its peer holds nothing.
//! 2. Only what passed is paid for, once: the rest goes back when the operation is done, pending, failed or dropped.
//! 3. An operation that finds credit everywhere draws it, and puts the rest back, within one poll: no lock, no clock.

use crate::exec::account::Account;
use crate::exec::stats::Direction;
use crate::io::flow::{self, Flow};
use crate::io::resource::{IoResource, Way};
use crate::io::turnstile::{Grant, Lane, Place, Unserved};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

pub(super) struct Meter {
    account: Arc<Account>,
    /// The way through the group's own limit, once it has been drawn from.
    own: Option<Arc<Lane>>,
    ways: Vec<Arc<Way>>,
    reading: Passage,
    writing: Passage,
}

/// An operation on its way to the stream.
#[derive(Default)]
struct Passage {
    /// It is not over, and was not free.
    has_begun: bool,
    /// Turns that it has had, or did not need.
    turns: usize,
    /// Bytes that were drawn from credits, for the poll that goes on; and whether the group's own was among them.
    drawn: u64,
    drew_own: bool,
    grants: Vec<Grant>,
    place: Option<Place>,
    /// Since when it waits.
    since: Option<Instant>,
}

impl Meter {
    pub(super) fn new(account: Arc<Account>) -> Meter {
        Meter {
            account,
            own: None,
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
        self.put_back_drawn();
        let known = self.ways.iter().any(|way| way.resource == *resource);
        if let Some(flow) = flow::of(&self.account).filter(|_| !known) {
            self.ways.push(flow.way(resource));
        }
    }

    /// How many of `want` bytes may pass: at least one. Ready without a look at the clock or a lock where nothing is
    /// limited, and mostly where the limit is not reached.
    #[inline]
    pub(super) fn poll_turn(
        &mut self,
        direction: Direction,
        want: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        let passage = match direction {
            Direction::Read => &mut self.reading,
            Direction::Write => &mut self.writing,
        };
        let Some(flow) = flow::of(&self.account) else {
            return Poll::Ready(Ok(want));
        };
        if !passage.has_begun {
            let limited = flow.is_limited();
            if !limited && self.ways.is_empty() {
                return Poll::Ready(Ok(want));
            }
            if limited
                && !self
                    .own
                    .as_ref()
                    .is_some_and(|it| Arc::ptr_eq(it, &flow.own))
            {
                self.own = Some(flow.own.clone());
            }
            let own = self.own.as_deref().filter(|_| limited);
            if draw(want, own, &self.ways, flow) {
                passage.has_begun = true;
                passage.drawn = want;
                passage.drew_own = limited;
                return Poll::Ready(Ok(want));
            }
        }
        self.poll_line(direction, want, cx)
    }

    /// The same for one that finds no credit, or waits already.
    #[cold]
    fn poll_line(
        &mut self,
        direction: Direction,
        want: u64,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<u64>> {
        // Something is there only if the stream has panicked.
        self.put_back_drawn();
        let Some(flow) = flow::of(&self.account) else {
            return Poll::Ready(Ok(want));
        };
        let passage = match direction {
            Direction::Read => &mut self.reading,
            Direction::Write => &mut self.writing,
        };
        passage.has_begun = true;
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
        if passage.has_begun {
            let drawn = std::mem::take(&mut passage.drawn);
            if drawn == 0 {
                passage.end(bytes);
            } else {
                passage.has_begun = false;
                if drawn > bytes {
                    let own = self.own.as_deref().filter(|_| passage.drew_own);
                    put_back(drawn - bytes, own, &self.ways);
                }
            }
        }
        if bytes > 0 {
            self.account.record_io(direction, bytes);
        }
    }

    fn put_back_drawn(&mut self) {
        for passage in [&mut self.reading, &mut self.writing] {
            let drawn = std::mem::take(&mut passage.drawn);
            if drawn > 0 {
                let own = self.own.as_deref().filter(|_| passage.drew_own);
                put_back(drawn, own, &self.ways);
            }
        }
    }

    fn end_waits(&mut self) {
        self.put_back_drawn();
        for passage in [&mut self.reading, &mut self.writing] {
            if let Some(since) = passage.since.take() {
                self.account.record_io_wait(since.elapsed().into());
            }
            passage.end(0);
        }
    }
}

/// Draws everywhere or nowhere.
#[inline]
fn draw(bytes: u64, own: Option<&Lane>, ways: &[Arc<Way>], flow: &Flow) -> bool {
    if own.is_some_and(|lane| !lane.draw(bytes)) {
        return false;
    }
    for (at, way) in ways.iter().enumerate() {
        // The query may have moved to another group.
        if way.flow != flow.id || !way.lane.draw(bytes) {
            put_back(bytes, own, ways.get(..at).unwrap_or_default());
            return false;
        }
    }
    true
}

#[inline]
fn put_back(bytes: u64, own: Option<&Lane>, ways: &[Arc<Way>]) {
    if let Some(lane) = own {
        lane.put_back(bytes);
    }
    ways.iter().for_each(|way| way.lane.put_back(bytes));
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.end_waits();
    }
}

impl Passage {
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
        self.has_begun = false;
        self.turns = 0;
        self.place = None;
        self.grants.drain(..).for_each(|grant| grant.spend(bytes));
    }
}
