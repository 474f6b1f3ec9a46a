//! The seats of stand-ins: numbered after the workers', made when first needed, used again.
//!
//! Mechanism; any thread looks at the seats, spare threads take and return them. The lowest free seat is taken
//! first, so that those who look at all seats look at few.

use super::super::core::Seat;
use super::super::task::Runnable;
use crossbeam_deque::Worker as Ring;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

pub(in crate::exec) struct Bench {
    seats: Box<[OnceLock<Arc<CachePadded<Seat>>>]>,
    /// The highest seat in use + 1.
    top: AtomicUsize,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    used: BTreeSet<usize>,
    /// The queues of seats that were used before, empty.
    rings: BTreeMap<usize, Ring<Runnable>>,
}

impl Bench {
    pub(super) fn new(seats: usize) -> Bench {
        Bench {
            seats: (0..seats).map(|_| OnceLock::new()).collect(),
            top: AtomicUsize::new(0),
            free: Mutex::default(),
        }
    }

    /// The seats in use, and some that were before.
    pub(in crate::exec) fn seats(&self) -> impl Iterator<Item = &Arc<CachePadded<Seat>>> {
        let top = self.len();
        self.seats.iter().take(top).filter_map(OnceLock::get)
    }

    /// Every seat that ever was taken.
    pub(super) fn ever(&self) -> impl Iterator<Item = &Arc<CachePadded<Seat>>> {
        self.seats.iter().map_while(OnceLock::get)
    }

    pub(in crate::exec) fn len(&self) -> usize {
        self.top.load(SeqCst)
    }

    pub(in crate::exec) fn get(&self, place: usize) -> Option<&Arc<CachePadded<Seat>>> {
        self.seats.get(place)?.get()
    }

    /// Takes a seat and its queue; None if there are no more. `make` makes a new one.
    pub(super) fn take(
        &self,
        make: impl FnOnce(usize, &Ring<Runnable>) -> Seat,
    ) -> Option<(usize, Ring<Runnable>)> {
        let mut free = self.free.lock();
        let place = (0..self.seats.len()).find(|place| !free.used.contains(place))?;
        let ring = free.rings.remove(&place).unwrap_or_else(|| {
            let ring = Ring::new_fifo();
            // Only the first user of a seat comes here, under the lock.
            let _ = self.seats[place].set(Arc::new(CachePadded::new(make(place, &ring))));
            ring
        });
        free.used.insert(place);
        self.count(&free);
        Some((place, ring))
    }

    /// Returns a seat with its queue, which is empty.
    pub(super) fn give(&self, place: usize, ring: Ring<Runnable>) {
        let mut free = self.free.lock();
        free.used.remove(&place);
        free.rings.insert(place, ring);
        self.count(&free);
    }

    fn count(&self, free: &Free) {
        let top = free.used.last().map_or(0, |last| last + 1);
        self.top.store(top, SeqCst);
    }
}
