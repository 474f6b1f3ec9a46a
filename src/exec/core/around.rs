//! What an executor stands between: the runtime that drives it, the layer that it works for, and who watches.
//!
//! Mechanism; set once each, before the first task, and read from any thread.

use super::Core;
use crate::exec::group::Group;
use crate::exec::hooks::Hooks;
use crate::exec::stats::PoolUsage;
use std::any::Any;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock, Weak};
use tokio::runtime::Handle;

#[derive(Default)]
pub(super) struct Around {
    /// The layer above gets itself back from here by downcasting.
    owner: OnceLock<Weak<dyn Any + Send + Sync>>,
}

impl Core {
    /// Whom it works for. The first call decides.
    pub(crate) fn belongs_to(&self, owner: Weak<dyn Any + Send + Sync>) {
        let _ = self.around.owner.set(owner);
    }

    /// Whom it works for, while that is there.
    pub(crate) fn owner(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.around.owner.get()?.upgrade()
    }

    /// The runtime whose threads the workers run on. The first call decides.
    pub(in crate::exec) fn driven_by(&self, runtime: &Handle) {
        self.pool().inside_of(runtime);
    }

    /// Who is told of each task's life; nobody, mostly.
    #[inline]
    pub(in crate::exec) fn hooks(&self) -> Option<&Hooks> {
        self.config.hooks.as_deref()
    }

    /// What the blocking pool's threads do.
    pub fn pool_usage(&self) -> PoolUsage {
        self.pool().usage()
    }

    /// Blocking closures of all groups that run or wait for a thread.
    pub fn blocking(&self) -> u64 {
        let blocking = |group: &Arc<Group>| group.counters.blocking.load(SeqCst);
        self.groups().iter().map(blocking).sum()
    }
}
