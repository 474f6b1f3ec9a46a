//! What keeps a runtime that is being dropped from being gone before the closures that have begun, as tokio's own are
//! waited for: `shutdown_background` does not, `shutdown_timeout` does for so long.
//!
//! Mechanism; the thread of the last worker to leave. tokio waits for the threads of its blocking pool, and for those of
//! its workers. So one of them waits for ours.

use super::pool::Pool;
use super::threads::Source;
use crate::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, ThreadId};

/// Waits when it is dropped: by a closure that runs, or by a runtime that does not begin it any more. Not so where it
/// was refused.
struct Anchor {
    pool: Arc<Pool>,
    by: ThreadId,
    taken: Arc<AtomicBool>,
}

impl Drop for Anchor {
    fn drop(&mut self) {
        if self.taken.load(SeqCst) || thread::current().id() != self.by {
            self.pool.wait_until_quiet();
        }
    }
}

impl Pool {
    /// No worker is left, and the pool is closed: has the runtime wait for what runs. The calling thread is one that the
    /// runtime waits for.
    pub(in crate::exec) fn outlast(self: &Arc<Self>) {
        let Some(runtime) = self.runtime.get() else {
            return;
        };
        if self.setup.source == Source::Runtime || self.is_quiet() {
            return;
        }
        let _ours = mem::enter_process();
        let taken = Arc::new(AtomicBool::new(false));
        let anchor = Anchor {
            pool: self.clone(),
            by: thread::current().id(),
            taken: taken.clone(),
        };
        let cast = || runtime.spawn_blocking(move || drop(anchor));
        match catch_unwind(AssertUnwindSafe(cast)) {
            Ok(anchored) if !anchored.is_finished() => taken.store(true, SeqCst),
            // It is being dropped already.
            _ => self.wait_until_quiet(),
        }
    }
}
