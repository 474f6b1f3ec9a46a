//! What stands in the way of a request, and what it is told if it may not wait for it.
//!
//! Pure.

use super::group::Group;
use super::{Policy, Refusal};
use crate::admission::error::WaitReason;
use crate::unit::{GroupId, Nanos};

impl<W: Clone> Policy<W> {
    /// Queries at once over all groups.
    pub(super) fn cap(&self) -> Option<u64> {
        let (runners, throttle) = (self.limits.runner_threads, self.throttle.cap());
        runners.into_iter().chain(throttle).min()
    }

    pub(super) fn is_full(&self) -> bool {
        self.cap().is_some_and(|cap| self.running >= cap)
    }

    /// What a request of this group has to wait for, if anything.
    pub(super) fn obstacle(&self, id: GroupId) -> Result<Option<WaitReason>, Refusal> {
        let present = self.groups.get(&id).filter(|group| !group.removed);
        match present {
            _ if self.closed => Err(Refusal::Closed),
            None => Err(Refusal::Unknown),
            Some(group) if group.is_full() || self.is_full() => Ok(Some(self.reason(group))),
            Some(_) => Ok(None),
        }
    }

    /// What holds up those who wait in a group.
    pub(super) fn reason(&self, group: &Group<W>) -> WaitReason {
        let (runners, throttle) = (self.limits.runner_threads, self.throttle.cap());
        if group.is_full() {
            WaitReason::GroupLimit
        } else if throttle.is_some_and(|cap| runners.is_none_or(|runners| cap < runners)) {
            WaitReason::MemoryThrottle
        } else {
            WaitReason::GovernorLimit
        }
    }

    pub(super) fn reason_of(&self, id: GroupId) -> WaitReason {
        let group = self.groups.get(&id);
        group.map_or(WaitReason::GroupLimit, |group| self.reason(group))
    }

    /// In how long the `nth` of a group's line is probably served.
    pub(super) fn retry_after(
        &self,
        id: GroupId,
        reason: WaitReason,
        nth: u64,
        now: Nanos,
    ) -> Option<Nanos> {
        match reason {
            WaitReason::GroupLimit => self.groups.get(&id)?.pace.until(nth, now),
            WaitReason::GovernorLimit => self.pace.until(nth, now),
            WaitReason::MemoryThrottle => self.throttle.interval(),
        }
    }

    pub(super) fn refusal(&self, id: GroupId, reason: WaitReason, now: Nanos) -> Refusal {
        let Some(group) = self.groups.get(&id) else {
            return Refusal::Unknown;
        };
        let retry_after = self.retry_after(id, reason, group.queued() + 1, now);
        match reason {
            WaitReason::GroupLimit => Refusal::Concurrency {
                limit: group.limits().concurrency_limit.unwrap_or(0),
                running: group.running,
                retry_after,
            },
            WaitReason::GovernorLimit => Refusal::Governor {
                limit: self.cap().unwrap_or(0),
                running: self.running,
                retry_after,
            },
            WaitReason::MemoryThrottle => {
                let (used, threshold) = self.throttle.seen();
                Refusal::Throttled {
                    used,
                    threshold,
                    retry_after,
                }
            }
        }
    }

    /// Why a request that has to wait may not.
    pub(super) fn no_room(&self, id: GroupId, now: Nanos) -> Option<Refusal> {
        let group = self.groups.get(&id)?;
        let (room, queued) = (group.room()?, group.queued());
        if queued < room {
            return None;
        }
        let reason = self.reason(group);
        if reason == WaitReason::GroupLimit && group.limits().max_queued_queries == 0 {
            return Some(self.refusal(id, reason, now));
        }
        Some(Refusal::QueueFull {
            limit: room,
            queued,
            retry_after: self.retry_after(id, reason, 1, now),
        })
    }
}
