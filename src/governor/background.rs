//! The governor's own housekeeping: tasks on the host's runtime that end with the governor.
//!
//! Wiring; any thread. They hold a weak reference to the governor, which they take up for a step at a time, so that
//! they keep it from nothing. They run beside the groups, uncharged, and must therefore be short and seldom.

use super::{Governor, Inner};
use std::future::Future;
use std::sync::{Arc, Weak};
use tokio::task::AbortHandle;

impl Governor {
    /// Starts a housekeeping task. It is dropped at the latest when the governor is.
    pub(super) fn in_background<F>(&self, work: impl FnOnce(Weak<Inner>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let future = work(Arc::downgrade(&self.inner));
        let task = self.inner.entrance.runtime().spawn(future);
        self.inner.background.lock().push(task.abort_handle());
    }
}

impl Inner {
    /// Ends all housekeeping.
    pub(super) fn stop_background(&self) {
        let tasks: Vec<AbortHandle> = std::mem::take(&mut *self.background.lock());
        tasks.iter().for_each(AbortHandle::abort);
    }
}
