//! Whom to wake when something is ready.
//!
//! Mechanism; any thread.

use super::{Core, Seat};
use crate::exec::context;
use crossbeam_utils::CachePadded;
use std::sync::Arc;

impl Core {
    /// Wakes a sleeping worker, unless one is on its way already. If all are busy and some of them stuck, calls for
    /// one that stands in.
    #[inline]
    pub(in crate::exec) fn notify(&self) {
        if self.sleepers.wanted() {
            // The worker whose host's thread this is starts at once and finds warm caches.
            let prefer = self.home_worker(|seat| seat.index);
            if let Some(worker) = self.sleepers.claim(prefer) {
                self.wake(worker);
            }
        } else if self.spares.is_wanted() && !self.sleepers.any() {
            self.summon();
        }
    }

    /// Whether a worker of ours is about to run on this thread anyway.
    pub(in crate::exec) fn expects_worker_here(&self) -> bool {
        self.home_worker(|seat| !seat.is_away()).unwrap_or(false)
    }

    fn home_worker<R>(&self, f: impl FnOnce(&Seat) -> R) -> Option<R> {
        context::home(|seat| self.has_seat(seat).then(|| f(seat))).flatten()
    }

    /// Whether it is the seat of one of its own workers.
    #[inline]
    pub(in crate::exec) fn has_seat(&self, seat: &Arc<CachePadded<Seat>>) -> bool {
        let own = self.seats.get(seat.index);
        own.is_some_and(|own| Arc::ptr_eq(own, seat))
    }

    #[cold]
    fn wake(&self, worker: usize) {
        self.seats[worker].rise();
        // A driver woken from inside a poll of ours lands in tokio's LIFO slot, which no other thread may take
        // before that poll ends. An empty task displaces it into the queue that they do take from. Woken from
        // elsewhere it is in the right place already: it runs next on this very thread.
        if self.config.displace
            && context::on_worker()
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            drop(handle.spawn(async {}));
        }
    }

    pub(super) fn wake_all(&self) {
        for worker in self.sleepers.take_all() {
            self.seats[worker].waker.wake();
        }
    }
}
