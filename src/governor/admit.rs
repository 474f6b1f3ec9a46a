//! From attributes to a running query: classify, pass the gate, spawn.
//!
//! Wiring; any thread.

use super::routing::Entry;
use super::{Error, Governor, GroupHandle};
use crate::admission::AdmissionError;
use crate::classify::Attributes;
use crate::exec::account::Account;
use crate::exec::join::JoinHandle;
use crate::exec::task;
use crate::query::{KillReason, Query};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Governor {
    /// The group that a request with these attributes goes to.
    ///
    /// # Errors
    ///
    /// If the request names a group that does not exist, or that it may not choose.
    pub fn classify(&self, attributes: &Attributes) -> Result<GroupHandle, Error> {
        Ok(GroupHandle {
            entry: self.route(attributes)?,
        })
    }

    fn route(&self, attributes: &Attributes) -> Result<Arc<Entry>, AdmissionError> {
        let routing = self.inner.routing.load();
        if let Some(name) = attributes.get_resource_group() {
            let Some(entry) = routing.by_name(name) else {
                return Err(AdmissionError::UnknownGroup { group: name.into() });
            };
            if !(self.inner.allow_override)(attributes, name) {
                return Err(AdmissionError::OverrideRefused { group: name.into() });
            }
            return Ok(entry.clone());
        }
        let found = routing
            .index
            .classify(attributes)
            .and_then(|found| routing.by_id(found.group));
        match found {
            Some(entry) => {
                entry.classified.fetch_add(1, Relaxed);
                Ok(entry.clone())
            }
            None => {
                self.inner.unclassified.fetch_add(1, Relaxed);
                Ok(routing.default().clone())
            }
        }
    }

    /// Classifies a request and admits it as a query. In this version nothing waits: an excess query is
    /// refused at once.
    ///
    /// # Errors
    ///
    /// [`AdmissionError`]; its `is_transient` says whether asking again can help.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a query that nobody takes is ended, and its slot is free.
    pub async fn admit(&self, attributes: &Attributes) -> Result<Query, AdmissionError> {
        self.try_admit(attributes)
    }

    /// As [`Governor::admit`], and never waits.
    ///
    /// # Errors
    ///
    /// As [`Governor::admit`].
    pub fn try_admit(&self, attributes: &Attributes) -> Result<Query, AdmissionError> {
        loop {
            let entry = self.route(attributes)?;
            match self.enter_group(&entry) {
                // Dropped between the two steps: whoever did not ask for it by name is classified anew.
                Err(AdmissionError::UnknownGroup { .. })
                    if attributes.get_resource_group().is_none() => {}
                other => return other,
            }
        }
    }

    fn enter_group(&self, entry: &Arc<Entry>) -> Result<Query, AdmissionError> {
        let account = Account::for_query(entry.group.clone(), Query::next_id());
        // A query inside a query of the same group shares its parent's place: limit 1 must not deadlock.
        let parent =
            Query::current().filter(|parent| Arc::ptr_eq(parent.account().group(), &entry.group));
        let permit = match parent {
            Some(parent) => parent.permit().share(),
            None => self.inner.gate.try_admit(entry.id)?,
        };
        let (inner, ended_in) = (Arc::downgrade(&self.inner), entry.clone());
        let query = Query::new(account, permit, move |id, outcome| {
            ended_in.ended(outcome);
            if let Some(inner) = inner.upgrade() {
                inner.queries.lock().remove(&id);
            }
        });
        self.inner
            .queries
            .lock()
            .insert(query.id(), query.downgrade());
        Ok(query)
    }

    /// Classifies, admits and spawns in one step. A refusal is the handle's error:
    /// [`JoinError::reason`](crate::exec::join::JoinError::reason) is [`KillReason::NotAdmitted`] then.
    #[track_caller]
    pub fn spawn<F>(&self, attributes: &Attributes, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.try_admit(attributes) {
            Ok(query) => query.spawn(future),
            Err(refusal) => {
                let cause = KillReason::NotAdmitted(refusal).into_cause();
                task::refused(&self.inner.routing.load().default().loose, cause)
            }
        }
    }
}
