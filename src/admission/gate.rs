//! The door: one lock around the policy, any thread.
//!
//! The lock is held for a few counters' worth of work, never across an await, a wake or foreign code. It is one for
//! all groups because admission is: places of the governor, turns among groups and the memory throttle are decided
//! over all of them at once.

use super::error::AdmissionError;
use super::permit::Permit;
use super::policy::{Decision, GroupAdmission, Policy};
use crate::sync::{Arc, Mutex};
use crate::unit::GroupId;

/// Gives places to queries. Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Mutex<Policy>>);

impl Default for Gate {
    fn default() -> Gate {
        Gate::new()
    }
}

impl Gate {
    /// A gate without groups.
    pub fn new() -> Gate {
        Gate(Arc::new(Mutex::new(Policy::new())))
    }

    /// Adds a group, or takes it back while it drains; one that is there keeps its places and counters.
    ///
    /// `concurrency_limit`: places; none or 0 = unlimited.
    pub fn register(&self, group: GroupId, name: impl AsRef<str>, concurrency_limit: Option<u64>) {
        let name = std::sync::Arc::from(name.as_ref());
        self.0.lock().register(group, name, concurrency_limit);
    }

    /// Changes a group's limit at once. Lowered, it ends nobody: none starts until enough have ended.
    /// False if there is no such group.
    pub fn set_limit(&self, group: GroupId, concurrency_limit: Option<u64>) -> bool {
        self.0.lock().set_limit(group, concurrency_limit)
    }

    /// Removes a group: it admits nothing more; the places that it gave count until the last one is back.
    /// False if there is no such group.
    pub fn remove(&self, group: GroupId) -> bool {
        self.0.lock().remove(group)
    }

    /// A place of the group, now or not at all.
    ///
    /// # Errors
    /// [`Rejected`](AdmissionError::Rejected) at the group's concurrency_limit,
    /// [`UnknownGroup`](AdmissionError::UnknownGroup) if the group is not there or was removed (a caller that
    /// classified on an older snapshot classifies again), [`ShuttingDown`](AdmissionError::ShuttingDown) after
    /// [`close`](Gate::close).
    pub fn try_admit(&self, group: GroupId) -> Result<Permit, AdmissionError> {
        let mut policy = self.0.lock();
        let decision = policy.arrive(group);
        let name = |policy: &Policy| match policy.name(group) {
            Some(name) => name.clone(),
            None => group.to_string().into(),
        };
        match decision {
            Decision::Admit => {
                drop(policy);
                Ok(Permit::new(self.clone(), group))
            }
            Decision::Reject { limit, running } => Err(AdmissionError::Rejected {
                group: name(&policy),
                limit,
                running,
            }),
            Decision::Unknown => Err(AdmissionError::UnknownGroup {
                group: name(&policy),
            }),
            Decision::Closed => Err(AdmissionError::ShuttingDown),
        }
    }

    /// A place of the group for a query that moves in from another one: at once, and beyond the limit if need be.
    /// None if the group is not there or was removed. Works also after the gate was closed.
    pub fn move_in(&self, group: GroupId) -> Option<Permit> {
        let moved = self.0.lock().move_in(group);
        moved.then(|| Permit::new(self.clone(), group))
    }

    /// Admits nothing more, for good. What has a place keeps it, and may still share it.
    pub fn close(&self) {
        self.0.lock().close();
    }

    /// One group's numbers, also while it drains.
    pub fn group(&self, group: GroupId) -> Option<GroupAdmission> {
        self.0.lock().group(group)
    }

    /// All groups' numbers at one moment, by id; those that drain too.
    pub fn groups(&self) -> Vec<GroupAdmission> {
        self.0.lock().groups().collect()
    }

    pub(super) fn share(&self, group: GroupId) {
        self.0.lock().share(group);
    }

    pub(super) fn leave(&self, group: GroupId) {
        self.0.lock().leave(group);
    }
}
