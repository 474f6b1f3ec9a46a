//! What an owner has reserved and not used yet: allocations are taken out of it first, so that nothing counts twice.
//!
//! Mechanism; any thread, also inside the allocator: no lock, no allocation, no panic. A reservation charges its
//! owner when it is made, as a block would. From then on the owner's allocations *draw* from it instead of
//! charging again, and what the owner frees *refills* it up to what was reserved. Invariants:
//! 1. `left <= made`, but for moments in which whoever broke it is on the way to [`Promise::trim`].
//! 2. Bytes in `left` are in the owner's balance. So `used = live blocks + credits of threads + left`, and a
//!    balance of 0 still proves that nothing names the owner.
//! 3. `made` rises before `left` and is read after it: nobody takes a new reservation for a surplus.
//! 4. Whoever lowers `made` looks at `left` afterwards, and whoever raises `left` at `made`: one of them sees the
//!    other, so that no surplus stays.

use super::slot::{self, SLOTS};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// Beside the table of owners, since few have any. Costs nothing until it is touched.
static PROMISES: [Promise; SLOTS] = [const { Promise::new() }; SLOTS];

/// What an owner has reserved.
#[inline]
pub(super) fn of(owner: u16) -> &'static Promise {
    &PROMISES[usize::from(owner)]
}

/// An owner, which the caller has charged `bytes`, has reserved them.
pub(super) fn make(owner: u16, bytes: u64) {
    credit_surplus(owner, of(owner).make(bytes));
}

/// An owner gives up `bytes` of what it has reserved. What it has allocated of them stays charged.
pub(super) fn release(owner: u16, bytes: u64) {
    credit_surplus(owner, of(owner).release(bytes));
}

fn credit_surplus(owner: u16, surplus: u64) {
    if surplus > 0 {
        slot::credit(owner, surplus);
    }
}

/// Charges an owner for what it allocates: what it has reserved first, then itself and all above it, or nobody: then
/// which slot refused.
#[inline]
pub(super) fn try_charge(owner: u16, bytes: u64) -> Result<(), u16> {
    let drawn = of(owner).draw(bytes);
    if drawn == bytes {
        return Ok(());
    }
    slot::try_charge(owner, bytes - drawn).inspect_err(|_| credit(owner, drawn))
}

/// What an owner had allocated is free: it is reserved again, or nobody's.
#[inline]
pub(super) fn credit(owner: u16, bytes: u64) {
    credit_surplus(owner, of(owner).refill(bytes));
}

/// One owner's reservations.
pub(super) struct Promise {
    /// Bytes reserved.
    made: AtomicU64,
    /// Bytes of these that no allocation has drawn.
    left: AtomicU64,
}

impl Promise {
    pub(super) const fn new() -> Promise {
        Promise {
            made: AtomicU64::new(0),
            left: AtomicU64::new(0),
        }
    }

    /// `bytes` more are reserved; the caller has charged them. What it must credit at once.
    pub(super) fn make(&self, bytes: u64) -> u64 {
        self.made.fetch_add(bytes, SeqCst);
        self.left.fetch_add(bytes, SeqCst);
        self.trim()
    }

    /// `bytes` fewer are reserved. What the caller must credit: the part that nobody has drawn.
    pub(super) fn release(&self, bytes: u64) -> u64 {
        self.made.fetch_sub(bytes, SeqCst);
        self.trim()
    }

    /// An allocation needs `bytes`. How many of them are charged already.
    #[inline]
    pub(super) fn draw(&self, bytes: u64) -> u64 {
        let mut left = self.left.load(Relaxed);
        while left > 0 {
            let drawn = left.min(bytes);
            match self
                .left
                .compare_exchange_weak(left, left - drawn, SeqCst, Relaxed)
            {
                Ok(_) => return drawn,
                Err(now) => left = now,
            }
        }
        0
    }

    /// `bytes` came back. How many of them the caller must credit; the others are reserved again.
    #[inline]
    pub(super) fn refill(&self, bytes: u64) -> u64 {
        if self.made.load(Relaxed) == 0 {
            return bytes;
        }
        let mut left = self.left.load(SeqCst);
        loop {
            let kept = bytes.min(self.made.load(SeqCst).saturating_sub(left));
            if kept == 0 {
                return bytes;
            }
            match self
                .left
                .compare_exchange_weak(left, left + kept, SeqCst, SeqCst)
            {
                Ok(_) => return bytes - kept + self.trim(),
                Err(now) => left = now,
            }
        }
    }

    /// Takes out what is left beyond what is reserved.
    fn trim(&self) -> u64 {
        let mut surplus = 0;
        loop {
            let left = self.left.load(SeqCst);
            let beyond = left.saturating_sub(self.made.load(SeqCst));
            if beyond == 0 {
                return surplus;
            }
            let trimmed = self
                .left
                .compare_exchange(left, left - beyond, SeqCst, Relaxed);
            if trimmed.is_ok() {
                surplus += beyond;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// What is left, and what was reserved.
    fn state(promise: &Promise) -> (u64, u64) {
        (promise.left.load(SeqCst), promise.made.load(SeqCst))
    }

    #[test]
    fn allocations_are_taken_out_of_the_reservation_first() {
        let promise = Promise::new();
        assert_eq!(promise.draw(10), 0);
        assert_eq!(promise.make(100), 0);
        assert_eq!(promise.draw(30), 30);
        assert_eq!(promise.draw(90), 70);
        assert_eq!(state(&promise), (0, 100));
    }

    #[test]
    fn what_is_freed_refills_it_and_no_more_than_that() {
        let promise = Promise::new();
        assert_eq!(promise.refill(7), 7);
        promise.make(100);
        promise.draw(60);
        assert_eq!(promise.refill(50), 0);
        assert_eq!(promise.refill(50), 40);
        assert_eq!(promise.refill(50), 50);
        assert_eq!(state(&promise), (100, 100));
    }

    #[test]
    fn only_what_nobody_has_drawn_is_given_back() {
        let promise = Promise::new();
        promise.make(100);
        promise.draw(60);
        assert_eq!(promise.release(30), 0); // 70 reserved, of which 40 are left
        assert_eq!(promise.release(50), 20); // 20 reserved
        assert_eq!(promise.release(20), 20);
        assert_eq!(state(&promise), (0, 0));
    }

    #[test]
    fn a_new_reservation_is_whole_though_an_old_one_was_drawn() {
        let promise = Promise::new();
        promise.make(10);
        promise.draw(10);
        assert_eq!(promise.make(30), 0);
        assert_eq!(state(&promise), (30, 40));
    }

    #[test]
    fn no_byte_is_lost_or_made_whoever_does_what_at_once() {
        for _ in 0..4 {
            let promise = Promise::new();
            // What the owner's slot would have: all that was charged and not credited.
            let balance = AtomicU64::new(0);
            let credit = |bytes| {
                let _ = balance.fetch_sub(bytes, Relaxed);
            };
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let reserving = [3_u64, 50, 1000].map(|size| {
                    let (promise, balance) = (&promise, &balance);
                    scope.spawn(move || {
                        for _ in 0..500 {
                            balance.fetch_add(size, Relaxed);
                            credit(promise.make(size));
                            std::thread::yield_now();
                            credit(promise.release(size));
                        }
                    })
                });
                for size in [1_u64, 70] {
                    let (promise, balance, stop) = (&promise, &balance, &stop);
                    scope.spawn(move || {
                        while !stop.load(Relaxed) {
                            let drawn = promise.draw(size);
                            balance.fetch_add(size - drawn, Relaxed);
                            credit(promise.refill(size));
                            std::thread::yield_now();
                        }
                    });
                }
                for thread in reserving {
                    thread.join().unwrap();
                }
                stop.store(true, Relaxed);
            });
            assert_eq!(state(&promise), (0, 0));
            assert_eq!(balance.load(Relaxed), 0);
        }
    }
}
