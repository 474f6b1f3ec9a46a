//! Synchronisation primitives with one switch: the real ones, or loom's under `--cfg quotient_loom`.
//!
//! Code whose interleavings are model-checked takes its atomics and locks from here and from nowhere else.

#[cfg(not(quotient_loom))]
pub use parking_lot::{Mutex, MutexGuard};
#[cfg(not(quotient_loom))]
pub use std::sync::{Arc, atomic};

#[cfg(quotient_loom)]
pub use loom::sync::{Arc, MutexGuard, atomic};

/// Between a SeqCst store and a SeqCst load of another variable, whose order is total: nothing to do.
#[cfg(not(quotient_loom))]
#[inline(always)]
pub(crate) fn total_order() {}

/// loom takes SeqCst accesses for acquire and release; its fences are total.
#[cfg(quotient_loom)]
pub(crate) fn total_order() {
    atomic::fence(atomic::Ordering::SeqCst);
}

/// loom's mutex with parking_lot's signature: a poisoned lock is simply taken.
#[cfg(quotient_loom)]
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(quotient_loom)]
impl<T> Mutex<T> {
    /// A new, unlocked mutex.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    /// Locks, waiting for the holder.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
