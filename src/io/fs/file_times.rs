//! The timestamps that a file is given.
//!
//! Values; on any thread.

use std::time::SystemTime;

/// Timestamps for [`File::set_times`](super::File::set_times), as `tokio::fs::FileTimes`. Those that are not set stay
/// as they are.
#[derive(Clone, Debug, Default)]
#[must_use = "must be applied to a file via `File::set_times` to have any effect"]
pub struct FileTimes {
    pub(super) std: std::fs::FileTimes,
}

impl FileTimes {
    /// None.
    pub fn new() -> FileTimes {
        FileTimes::default()
    }

    /// When the file was last read.
    pub fn set_accessed(mut self, time: SystemTime) -> FileTimes {
        self.std = self.std.set_accessed(time);
        self
    }

    /// When the file was last changed.
    pub fn set_modified(mut self, time: SystemTime) -> FileTimes {
        self.std = self.std.set_modified(time);
        self
    }
}
