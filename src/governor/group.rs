//! A resource group in the hands of a caller.
//!
//! Wiring; any thread.

use super::routing::Entry;
use crate::exec::stats::GroupUsage;
use crate::query::Usage;
use crate::unit::GroupId;
use std::fmt;
use std::sync::Arc;

/// A resource group, as found by [`Governor::classify`](super::Governor::classify). It stays valid when the group is
/// dropped.
#[derive(Clone)]
pub struct GroupHandle {
    pub(super) entry: Arc<Entry>,
}

impl GroupHandle {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its id, which survives ALTER and OR REPLACE.
    pub fn id(&self) -> GroupId {
        self.entry.id
    }

    /// The CPU time, the polls, the memory and the IO of all its queries and tasks since it was created. The other fields,
    /// which are kept per query, are zero; [`stats`](GroupHandle::stats) has histograms of its polls.
    pub fn usage(&self) -> Usage {
        let usage = self.entry.usage();
        Usage {
            cpu: usage.cpu().into(),
            polls: usage.polls,
            memory: self.entry.group.memory().used(),
            memory_peak: self.entry.group.memory().peak(),
            io_bytes: usage.io.total(),
            io_read_bytes: usage.io.read,
            io_written_bytes: usage.io.written,
            io_throttled: usage.io_throttled.into(),
            ..Usage::default()
        }
    }

    /// The executor's counters of it: tasks by state, delays, shares, lag.
    pub fn stats(&self) -> GroupUsage {
        self.entry.usage()
    }
}

impl fmt::Debug for GroupHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupHandle")
            .field("name", &self.name())
            .field("id", &self.id())
            .finish()
    }
}
