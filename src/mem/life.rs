//! A slot's balance and state in one word, so that "closing, and nothing left" is seen in one step.
//!
//! Mechanism; any thread, also inside the allocator. Invariants:
//! 1. Free → Live → Closing → Free. Only an opener leaves Free, only the closer leaves Live.
//! 2. Closing → Free happens at balance 0 and nowhere else: the one compare-and-swap that does it names both.
//!    Whoever takes the last byte off tries, and so does the closer; exactly one of them succeeds.
//! 3. Nobody charges a slot that is Closing with balance 0: a charge needs a handle, a credit or a block of it,
//!    and the last two are in the balance.
//!
//! Two words would not do: between "the balance is 0" and "so it is free", the slot may be freed by the other
//! one, be opened, charged and closed again; the late step would then free a slot in use (model-checked below).

use super::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

const FREE: u64 = 0;
const LIVE: u64 = 1;
const CLOSING: u64 = 2;
/// The state is in the two lowest bits, the balance above.
const SHIFT: u32 = 2;

/// More bytes than an address space has: no balance comes near what the word can hold.
pub(super) const MOST: u64 = 1 << 56;

/// Balance and state of a slot. Made by `Life(AtomicU64::new(0))`: free.
pub(super) struct Life(pub(super) AtomicU64);

impl Life {
    /// Bytes charged.
    #[inline]
    pub(super) fn used(&self) -> u64 {
        self.0.load(Relaxed) >> SHIFT
    }

    #[inline]
    pub(super) fn is_live(&self) -> bool {
        self.0.load(Relaxed) & 3 == LIVE
    }

    /// Free → Live. False if it is not free.
    pub(super) fn open(&self) -> bool {
        self.0
            .compare_exchange(FREE, LIVE, Acquire, Relaxed)
            .is_ok()
    }

    /// Live → Closing, by the one who opened it. True if that freed the slot.
    pub(super) fn close(&self) -> bool {
        let before = self.0.fetch_add(CLOSING - LIVE, AcqRel);
        debug_assert_eq!(before & 3, LIVE);
        before >> SHIFT == 0 && self.try_free()
    }

    /// Charges without asking. The balance now.
    #[inline]
    pub(super) fn add(&self, bytes: u64) -> u64 {
        (self.0.fetch_add(bytes << SHIFT, Relaxed) >> SHIFT) + bytes
    }

    /// Charges if the balance stays within `limit`; never above it, not even for a moment, so that a request
    /// which is refused hurts nobody else. The balance now, or the one that was in the way.
    pub(super) fn try_add(&self, bytes: u64, limit: u64) -> Result<u64, u64> {
        let mut word = self.0.load(Relaxed);
        loop {
            let used = word >> SHIFT;
            if used.saturating_add(bytes) > limit {
                return Err(used);
            }
            match self
                .0
                .compare_exchange_weak(word, word + (bytes << SHIFT), Relaxed, Relaxed)
            {
                Ok(_) => return Ok(used + bytes),
                Err(now) => word = now,
            }
        }
    }

    /// Takes bytes off that were charged. True if that freed the slot.
    #[inline]
    pub(super) fn sub(&self, bytes: u64) -> bool {
        // AcqRel: what this thread did with the slot is over before the next opener begins.
        let before = self.0.fetch_sub(bytes << SHIFT, AcqRel);
        debug_assert!(
            before >> SHIFT >= bytes,
            "more was credited than had been charged"
        );
        before == (bytes << SHIFT) | CLOSING && self.try_free()
    }

    fn try_free(&self) -> bool {
        self.0
            .compare_exchange(CLOSING, FREE, AcqRel, Relaxed)
            .is_ok()
    }
}
