//! How fast a kill takes effect: from going over a limit to the kill, from the kill to the drop of the last future.
//!
//! Mechanism; any thread, only when a query is killed.

use super::stats::KillTimes;
use super::tally::Histogram;

/// Where the times of kills are collected.
#[derive(Debug, Default)]
pub(super) struct KillLatency {
    pub(super) crossing_to_kill: Histogram,
    pub(super) kill_to_drop: Histogram,
}

impl KillLatency {
    pub(super) fn read(&self) -> KillTimes {
        KillTimes {
            crossing_to_kill: self.crossing_to_kill.read(),
            kill_to_drop: self.kill_to_drop.read(),
        }
    }
}
