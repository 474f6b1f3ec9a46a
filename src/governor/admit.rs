//! From attributes to a running query: classify, pass the gate, spawn.
//!
//! Wiring; any thread.

use super::routing::Entry;
use super::{Error, Governor, GroupHandle, Inner};
use crate::admission::{AdmissionError, Arrived, Permit, Waiting, Who};
use crate::classify::Attributes;
use crate::exec::account::Account;
use crate::exec::join::JoinHandle;
use crate::exec::task;
use crate::mem;
use crate::query::{Ancestry, KillReason, LateQuery, Query};
use crate::unit::QueryId;
use std::borrow::Borrow;
use std::future::Future;
use std::mem::take;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

/// A query that has arrived and is not admitted yet: all but its place and its account.
pub(super) struct Coming<A> {
    pub(super) entry: Arc<Entry>,
    pub(super) id: QueryId,
    ancestry: Ancestry,
    attributes: A,
}

impl Governor {
    /// The group that a request with these attributes goes to.
    ///
    /// # Errors
    ///
    /// If the request names a group that does not exist, or that it may not choose.
    ///
    /// # Metrics
    ///
    /// `quotient_group_classified_total`, or `quotient_unclassified_total` if nothing fits.
    pub fn classify(&self, attributes: &Attributes) -> Result<GroupHandle, Error> {
        Ok(GroupHandle {
            entry: self.route(attributes)?,
        })
    }

    /// Whether there is a group of that name.
    pub fn has_group(&self, name: &str) -> bool {
        self.inner.routing.load().by_name(name).is_some()
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
            entry.classified.fetch_add(1, Relaxed);
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

    /// Classifies a request and admits it as a query, after a wait in its group's line if there is no place: at the
    /// group's concurrency_limit, at query_runner_threads, or while admission is throttled for memory. The wait ends
    /// after the group's queue_timeout, counted from here and on tokio's clock.
    ///
    /// A query inside a query of the same group shares its place, and never waits; nor does one further down, up to 16
    /// levels, as long as that query lives.
    ///
    /// # Errors
    ///
    /// [`AdmissionError`]; its `is_transient` says whether asking again can help, its `retry_after` when.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropped at any instant, it leaves the line, or gives the place that it was just given to the
    /// next one; a query that nobody takes is ended.
    ///
    /// # Metrics
    ///
    /// Those of [`classify`](Governor::classify); `quotient_group_admission_total`, whatever becomes of it, and
    /// `quotient_group_admission_wait_seconds` if it is admitted; meanwhile `quotient_group_queries`, and at the
    /// query's end `quotient_group_queries_total`.
    pub async fn admit(&self, attributes: &Attributes) -> Result<Query, AdmissionError> {
        self.arrival(attributes)?.await
    }

    /// As [`Governor::admit`], and never waits: where that would, this is refused.
    ///
    /// # Errors
    ///
    /// As [`Governor::admit`]; [`AdmissionError::Rejected`] and [`AdmissionError::MemoryThrottled`] in place of a
    /// wait.
    pub fn try_admit(&self, attributes: &Attributes) -> Result<Query, AdmissionError> {
        let parent = Query::current();
        let (entry, permit) = self.find_place(attributes, |entry| {
            match self.share_place(parent.as_ref(), entry) {
                Some(permit) => Ok(permit),
                None => self.inner.gate.try_admit(entry.key),
            }
        })?;
        let mut coming = Coming {
            entry,
            id: Query::next_id(),
            ancestry: Ancestry::under(parent.as_ref()),
            attributes,
        };
        let account = coming.account();
        Ok(self.inner.enrol(&mut coming, account, permit))
    }

    /// A query with its place, or its place in the line.
    pub(super) fn arrive<A: Borrow<Attributes>>(
        &self,
        attributes: A,
    ) -> Result<(Coming<A>, Arrived), AdmissionError> {
        let id = Query::next_id();
        let asking = attributes.borrow();
        let who = || Who {
            user: asking.get_user().map(Arc::from),
            dbs: asking.get_dbs().map(Arc::from).collect(),
        };
        let parent = Query::current();
        let (entry, arrived) = self.find_place(asking, |entry| {
            match self.share_place(parent.as_ref(), entry) {
                Some(permit) => Ok(Arrived::In(permit)),
                None => self.inner.gate.arrive(entry.key, id, who),
            }
        })?;
        let coming = Coming {
            entry,
            id,
            ancestry: Ancestry::under(parent.as_ref()),
            attributes,
        };
        Ok((coming, arrived))
    }

    /// The place of the nearest query of this group that the running task is nested in: limit 1 must not deadlock.
    fn share_place(&self, parent: Option<&Query>, entry: &Entry) -> Option<Permit> {
        parent?.share_place(|place| place.is_of(&self.inner.gate, entry.key))
    }

    fn find_place<T>(
        &self,
        attributes: &Attributes,
        ask: impl Fn(&Arc<Entry>) -> Result<T, AdmissionError>,
    ) -> Result<(Arc<Entry>, T), AdmissionError> {
        let _ours = mem::enter_process();
        loop {
            let entry = self.route(attributes)?;
            let fingerprint = attributes.get_fingerprint();
            let let_in = self.inner.breaker.let_in(&entry, fingerprint);
            let let_in = let_in.and_then(|()| thawed(&entry));
            match let_in.and_then(|()| ask(&entry)) {
                // Dropped between the two steps: whoever did not ask for it by name is classified anew.
                Err(AdmissionError::UnknownGroup { .. })
                    if attributes.get_resource_group().is_none() => {}
                Err(refusal) => return Err(refusal),
                Ok(place) => return Ok((entry, place)),
            }
        }
    }

    /// Classifies, admits and spawns in one step, without blocking the caller: if the query has to wait, its task
    /// does, by the rules of [`admit`](Governor::admit). A refusal is the handle's error:
    /// [`JoinError::reason`](crate::exec::join::JoinError::reason) is [`KillReason::NotAdmitted`] then. Aborting the
    /// handle while it waits leaves the line.
    #[track_caller]
    pub fn spawn<F>(&self, attributes: &Attributes, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let refused = |refusal| {
            let cause = KillReason::NotAdmitted(refusal).into_cause();
            task::refused(&self.inner.routing.load().default().loose, cause)
        };
        let (mut coming, arrived) = match self.arrive(attributes) {
            Ok(arrived) => arrived,
            Err(refusal) => return refused(refusal),
        };
        let account = coming.account();
        match arrived {
            Arrived::In(permit) => {
                let query = self.inner.enrol(&mut coming, account, permit);
                query.spawn(future)
            }
            Arrived::Waits(waiting) => {
                let governor = Arc::downgrade(&self.inner);
                let late = LateQuery::new();
                let lease = late.lease();
                let coming = coming.owned();
                let in_line = InLine::new(waiting);
                let work = admitted(governor, coming, account.clone(), late, in_line, future);
                task::spawn(account, Some(lease), work)
            }
        }
    }
}

/// Refuses for a group of which nothing runs any more.
pub(super) fn thawed(entry: &Entry) -> Result<(), AdmissionError> {
    match entry.group.frozen() {
        None => Ok(()),
        Some(_) => Err(AdmissionError::Frozen {
            group: entry.name.clone(),
        }),
    }
}

impl<A> Coming<A> {
    /// Its account, which has a place in the memory's table of owners: what is in a line without a task needs none.
    pub(super) fn account(&self) -> Arc<Account> {
        let limits = self.entry.fuse.limits.clone();
        Account::for_query(self.entry.group.clone(), self.id, limits)
    }
}

impl Coming<&Attributes> {
    fn owned(self) -> Coming<Attributes> {
        Coming {
            entry: self.entry,
            id: self.id,
            ancestry: self.ancestry,
            attributes: self.attributes.clone(),
        }
    }
}

/// A place in the line. What its polls and its end do at the gate is not done in the name of the task that waits:
/// under the gate's lock nobody may be held back for want of memory.
pub(super) struct InLine(Option<Waiting>);

impl InLine {
    pub(super) fn new(waiting: Waiting) -> InLine {
        InLine(Some(waiting))
    }
}

impl Future for InLine {
    type Output = Result<Permit, AdmissionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let _ours = mem::enter_process();
        match &mut self.0 {
            Some(waiting) => Pin::new(waiting).poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let _ours = mem::enter_process();
        drop(self.0.take());
    }
}

/// The task of a query that has to wait first.
async fn admitted<F: Future>(
    governor: Weak<Inner>,
    mut coming: Coming<Attributes>,
    account: Arc<Account>,
    late: LateQuery,
    waiting: InLine,
    future: F,
) -> F::Output {
    let let_in = waiting.await;
    let answer = match let_in.and_then(|permit| thawed(&coming.entry).map(|()| permit)) {
        Ok(permit) => match governor.upgrade() {
            Some(governor) => Ok(governor.enrol(&mut coming, account.clone(), permit)),
            None => Err(KillReason::Shutdown),
        },
        Err(refusal) => Err(KillReason::NotAdmitted(refusal)),
    };
    drop(governor);
    match answer {
        Ok(query) => {
            late.admitted(query);
            future.await
        }
        Err(reason) => {
            // The account is this task's alone: ending it makes the refusal the handle's error.
            account.refuse(reason.into_cause());
            drop(future);
            std::future::pending().await
        }
    }
}

impl Inner {
    /// A query with its place, known to the governor until it ends.
    pub(super) fn enrol<A: Borrow<Attributes>>(
        self: &Arc<Inner>,
        coming: &mut Coming<A>,
        account: Arc<Account>,
        permit: Permit,
    ) -> Query {
        let _ours = mem::enter_process();
        let weak = Arc::downgrade(self);
        let ancestry = take(&mut coming.ancestry);
        let query = Query::new(account, permit, ancestry, move |id, outcome| {
            if let Some(inner) = weak.upgrade() {
                inner.ended(id, outcome);
            }
        });
        self.begin(&query, &coming.entry, coming.attributes.borrow());
        query
    }
}
