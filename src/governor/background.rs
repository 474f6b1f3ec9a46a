//! The governor's own housekeeping: tasks on the host's runtime that end with the governor.
//!
//! Wiring; any thread. They hold a weak reference to the governor, which they take up for a step at a time, so that
//! they keep it from nothing. They run beside the groups, uncharged, and must therefore be short and seldom.

use super::{Governor, Inner};
use std::future::Future;
use std::sync::{Arc, Weak};
use tokio::task::AbortHandle;

/// A governor as somebody looks at it who must not keep it from ending.
#[cfg(any(feature = "metrics", feature = "dashboard"))]
#[derive(Clone, Debug)]
pub(crate) struct WeakGovernor(Weak<Inner>);

#[cfg(any(feature = "metrics", feature = "dashboard"))]
impl WeakGovernor {
    /// The governor, if somebody else still holds it.
    pub(crate) fn upgrade(&self) -> Option<Governor> {
        let inner = self.0.upgrade()?;
        Some(Governor { inner })
    }
}

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

    /// Whether such a task can sleep: not on a runtime that was built without timers.
    #[cfg(feature = "metrics")]
    pub(crate) fn has_timers(&self) -> bool {
        super::throttle::has_timers(self.inner.entrance.runtime())
    }

    /// The same, for those who see the governor from the outside.
    #[cfg(feature = "metrics")]
    pub(crate) fn beside<F>(&self, work: impl FnOnce(WeakGovernor) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.in_background(|inner| work(WeakGovernor(inner)));
    }

    /// A reference that does not keep the governor from ending.
    #[cfg(feature = "dashboard")]
    pub(crate) fn downgrade(&self) -> WeakGovernor {
        WeakGovernor(Arc::downgrade(&self.inner))
    }
}

impl Inner {
    /// Ends all housekeeping.
    pub(super) fn stop_background(&self) {
        let tasks: Vec<AbortHandle> = std::mem::take(&mut *self.background.lock());
        tasks.iter().for_each(AbortHandle::abort);
    }
}
