//! Other people's code, run where a panic of it can be told to nobody: destructors, hooks, wakers.
//!
//! Mechanism; any thread, under no lock of ours.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Runs foreign code whose panic nobody can be told of.
pub(crate) fn contain(f: impl FnOnce()) {
    // Dropping the payload of the panic may panic as well; that one is leaked.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
    }
}

/// Wakes all of them. One that panics keeps none of the others asleep.
pub(crate) fn wake(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        contain(|| waker.wake());
    }
}
