//! What a request holds: its lane, its place in the line, and the bytes that it was granted.
//!
//! Mechanism; any thread. Each gives back what it holds when it is dropped, so that a request that is cancelled, at
//! whatever instant, costs nobody anything.

use super::credit::Credit;
use super::{Arrival, Beat, Turnstile, Unserved};
use crate::io::share::Ticket;
use crate::sched::fair::Slot;
use crate::unit::Weight;
use std::sync::Arc;
use std::task::{Context, Poll};

/// One group's way through one capacity.
pub(in crate::io) struct Lane {
    turnstile: Arc<Turnstile>,
    slot: Slot,
    credit: Arc<Credit>,
}

impl Lane {
    pub(in crate::io) fn new(turnstile: &Arc<Turnstile>, weight: Weight, first: bool) -> Lane {
        Lane {
            turnstile: turnstile.clone(),
            slot: turnstile.open(weight, first),
            credit: Arc::new(Credit::closed()),
        }
    }

    pub(in crate::io) fn set_rate(&self, rate: Option<u64>) {
        self.turnstile.set_rate(rate);
    }

    pub(in crate::io) fn set_weight(&self, weight: Weight) {
        self.turnstile.set_weight(self.slot, weight);
    }

    /// Bytes that have passed, and requests that wait.
    pub(in crate::io) fn figures(&self) -> (u64, usize) {
        self.turnstile.figures(self.slot, &self.credit)
    }

    /// Whether `bytes` may pass at once, all of them: no lock, no look at the clock. They are paid for then; what does
    /// not pass must be [put back](Lane::put_back).
    #[inline]
    pub(in crate::io) fn draw(&self, bytes: u64) -> bool {
        self.credit.draw(bytes)
    }

    /// So many of the bytes that might have passed did not.
    #[inline]
    pub(in crate::io) fn put_back(&self, bytes: u64) {
        if bytes > 0 && !self.credit.put_back(bytes) {
            self.turnstile.give_back(self.slot, bytes);
        }
    }

    /// Asks for `want` bytes: a grant of some of them, or a place in the line.
    pub(in crate::io) fn arrive(
        self: &Arc<Self>,
        want: u64,
        beat: &Arc<Beat>,
        cx: &mut Context<'_>,
    ) -> Result<Result<Grant, Place>, Unserved> {
        Ok(
            match self
                .turnstile
                .arrive(self.slot, &self.credit, want, beat, cx)?
            {
                Arrival::Granted(bytes) => Ok(Grant::of(self, bytes)),
                Arrival::Waits(ticket) => Err(Place {
                    lane: self.clone(),
                    ticket: Some(ticket),
                }),
            },
        )
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.turnstile.close(self.slot);
    }
}

/// A place in the line.
pub(in crate::io) struct Place {
    lane: Arc<Lane>,
    /// None once it was given up for what it was granted.
    ticket: Option<Ticket>,
}

impl Place {
    /// Ready with the grant once it is there. The place is used up then.
    pub(in crate::io) fn poll(
        &mut self,
        beat: &Arc<Beat>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Grant, Unserved>> {
        let Some(ticket) = self.ticket else {
            return Poll::Ready(Err(Unserved::Over));
        };
        let bytes = std::task::ready!(self.lane.turnstile.look(ticket, beat, cx))?;
        self.ticket = None;
        Poll::Ready(Ok(Grant::of(&self.lane, bytes)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.lane.turnstile.leave(self.lane.slot, ticket);
        }
    }
}

/// Bytes that may pass, and are paid for.
pub(in crate::io) struct Grant {
    lane: Arc<Lane>,
    bytes: u64,
}

impl Grant {
    fn of(lane: &Arc<Lane>, bytes: u64) -> Grant {
        Grant {
            lane: lane.clone(),
            bytes,
        }
    }

    pub(in crate::io) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// So many of the bytes have passed; the others go to whoever is next.
    pub(in crate::io) fn spend(mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // Not to the lane's credit, which keeps whatever comes: granted long ago, their room may be full again, and the
        // rate another one.
        if self.bytes > 0 {
            self.lane.turnstile.give_back(self.lane.slot, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::{Wake, Waker};
    use std::time::Duration;
    use tokio::runtime::Handle;

    /// Grants that were held for long, dropped while a credit is open: their room has been filled again.
    #[tokio::test(start_paused = true)]
    async fn what_was_granted_and_not_used_does_not_come_on_top_of_a_credit() {
        const RATE: u64 = 100_000_000;
        let turnstile = Turnstile::new(Some(RATE));
        let weight = Weight::new(1);
        let lane = Arc::new(Lane::new(&turnstile, weight, false));
        let beat = Arc::new(Beat::new(Some(Handle::current())));
        let ask = |bytes| {
            let mut nobody = Context::from_waker(Waker::noop());
            lane.arrive(bytes, &beat, &mut nobody)
                .ok()
                .and_then(Result::ok)
        };
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(ask(1 << 20).expect("nobody is before it"));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let small = ask(1_000).expect("nobody is before it");
        small.spend(1_000);
        let lent = lane.credit.left();
        assert!(lent > 0, "nothing is lent any more");
        drop(held);
        assert_eq!(lane.credit.left(), lent);
        // A burst, and no more than that, passes without time.
        let mut passed = 0;
        while let Some(grant) = ask(64 << 10) {
            passed += grant.bytes();
            grant.spend(u64::MAX);
        }
        assert!(passed <= RATE / 10, "{passed} bytes at once");
    }

    /// Passes so many bytes, waiting if it must.
    async fn pass(lane: &Arc<Lane>, beat: &Arc<Beat>, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let mut place = match poll_fn(|cx| Poll::Ready(lane.arrive(left, beat, cx))).await {
                Ok(Ok(grant)) => {
                    left -= grant.bytes();
                    grant.spend(u64::MAX);
                    continue;
                }
                Ok(Err(place)) => place,
                Err(why) => panic!("{why:?}"),
            };
            let grant = poll_fn(|cx| place.poll(beat, cx)).await.unwrap();
            left -= grant.bytes();
            grant.spend(u64::MAX);
        }
    }

    /// One governor's requests are never all granted; others wait for theirs once, or go away while they do.
    #[tokio::test(start_paused = true)]
    async fn a_driver_goes_with_the_last_of_its_governor_though_others_wait() {
        let turnstile = Turnstile::new(Some(1_000_000));
        let lane = || Arc::new(Lane::new(&turnstile, Weight::new(1), false));
        let beat = || Arc::new(Beat::new(Some(Handle::current())));
        let (busy, of_busy) = (lane(), beat());
        tokio::spawn(async move {
            loop {
                pass(&busy, &of_busy, 100_000).await;
            }
        });
        // What had come in before is used up.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let beats: Vec<_> = (0..20).map(|_| beat()).collect();
        for (number, beat) in beats.iter().enumerate() {
            let lane = lane();
            let mut some = std::pin::pin!(pass(&lane, beat, 100_000));
            if number % 2 == 0 {
                some.await;
            } else {
                assert!(futures::poll!(some.as_mut()).is_pending());
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(turnstile.state.lock().drivers.len(), 1);
        // Whoever comes back has one again.
        tokio::time::timeout(Duration::from_secs(10), pass(&lane(), &beats[0], 10_000))
            .await
            .unwrap();
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_runtime_that_ends_wakes_those_who_waited_by_it_and_nobody_else() {
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
        };
        let (ends, stays) = (runtime(), runtime());
        let turnstile = Turnstile::new(Some(1));
        let lane = Arc::new(Lane::new(&turnstile, Weight::new(1), false));
        let wait_by = |runtime: &tokio::runtime::Runtime| {
            let beat = Arc::new(Beat::new(Some(runtime.handle().clone())));
            let woken = Arc::<Woken>::default();
            let waker = Waker::from(woken.clone());
            let mut cx = Context::from_waker(&waker);
            let place = loop {
                match lane.arrive(1 << 20, &beat, &mut cx).ok().unwrap() {
                    Ok(grant) => grant.spend(u64::MAX),
                    Err(place) => break place,
                }
            };
            (place, woken)
        };
        let (one, other) = (wait_by(&ends), wait_by(&stays));
        drop(ends);
        assert_eq!((one.1.0.load(Relaxed), other.1.0.load(Relaxed)), (1, 0));
    }
}
