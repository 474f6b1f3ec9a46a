//! Bytes of a capacity that a lane may pass without asking: out of the bucket and paid for, but not passed yet.
//!
//! Mechanism; any thread. Invariants:
//! 1. Bytes are opened and closed under the turnstile's lock, and drawn and put back without it. Each is in the bucket,
//!    here, or with one operation; nothing is lost or there twice (model-checked below).
//! 2. A credit is closed while anybody waits: nothing passes the line by. What comes back after that is refused here,
//!    and goes to the line.

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No bytes, and none are taken back. No more than this is ever opened.
const CLOSED: u64 = u64::MAX;

/// One number, and nothing else is published with it: its changes are one after the other in any order of memory.
pub(super) struct Credit(AtomicU64);

impl Credit {
    pub(super) fn closed() -> Credit {
        Credit(AtomicU64::new(CLOSED))
    }

    /// Under the lock, of one that is closed: so many bytes may pass.
    pub(super) fn open(&self, bytes: u64) {
        self.0.store(bytes, Relaxed);
    }

    /// Under the lock: nothing passes any more without asking. What is left, if it was open.
    pub(super) fn close(&self) -> Option<u64> {
        let left = self.0.swap(CLOSED, Relaxed);
        (left != CLOSED).then_some(left)
    }

    /// What is left.
    pub(super) fn left(&self) -> u64 {
        match self.0.load(Relaxed) {
            CLOSED => 0,
            left => left,
        }
    }

    /// Takes so many bytes, all or none.
    #[inline]
    pub(super) fn draw(&self, bytes: u64) -> bool {
        self.change(|left| left.checked_sub(bytes))
    }

    /// Takes bytes back that were drawn here. False if it is closed.
    #[inline]
    pub(super) fn put_back(&self, bytes: u64) -> bool {
        self.change(|left| left.checked_add(bytes).filter(|&sum| sum != CLOSED))
    }

    #[inline]
    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> bool {
        let mut left = self.0.load(Relaxed);
        loop {
            let Some(changed) = Some(left).filter(|&left| left != CLOSED).and_then(&to) else {
                return false;
            };
            match self
                .0
                .compare_exchange_weak(left, changed, Relaxed, Relaxed)
            {
                Ok(_) => return true,
                Err(now) => left = now,
            }
        }
    }
}

#[cfg(all(test, not(quotient_loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_or_nothing_is_drawn_and_nothing_at_all_once_it_is_closed() {
        let credit = Credit::closed();
        assert!(!credit.draw(1) && !credit.put_back(1));
        assert_eq!((credit.close(), credit.left()), (None, 0));
        credit.open(10);
        assert!(credit.draw(7) && !credit.draw(4));
        assert_eq!(credit.left(), 3);
        assert!(credit.put_back(2) && !credit.put_back(u64::MAX - 5));
        assert_eq!((credit.close(), credit.close()), (Some(5), None));
        assert!(!credit.draw(1) && !credit.put_back(1));
    }
}

#[cfg(all(test, quotient_loom))]
mod loom {
    use super::*;
    use crate::sync::{Arc, Mutex};

    /// The bucket under its lock, and the credit beside it.
    struct Model {
        bucket: Mutex<u64>,
        credit: Credit,
    }

    impl Model {
        /// An operation: as many bytes as were there for it.
        fn pass(&self, bytes: u64, needs: u64) -> u64 {
            if !self.credit.draw(bytes) {
                let mut bucket = self.bucket.lock();
                *bucket += self.credit.close().unwrap_or(0);
                if *bucket < bytes {
                    return 0;
                }
                *bucket -= bytes;
                let lent = *bucket / 2;
                *bucket -= lent;
                self.credit.open(lent);
            }
            if !self.credit.put_back(bytes - needs) {
                *self.bucket.lock() += bytes - needs;
            }
            needs
        }

        /// Somebody waits.
        fn collect(&self) {
            let mut bucket = self.bucket.lock();
            *bucket += self.credit.close().unwrap_or(0);
            assert!(!self.credit.draw(1), "passes the line by");
        }
    }

    #[test]
    fn every_byte_is_somewhere_once() {
        ::loom::model(|| {
            let model = Arc::new(Model {
                bucket: Mutex::new(12),
                credit: Credit::closed(),
            });
            let threads = [(4, 1), (3, 3)].map(|(bytes, needs)| {
                let model = model.clone();
                ::loom::thread::spawn(move || model.pass(bytes, needs))
            });
            model.collect();
            let passed: u64 = threads.map(|thread| thread.join().unwrap()).iter().sum();
            model.collect();
            assert_eq!(passed + *model.bucket.lock(), 12);
        });
    }
}
