//! The composition root: builds the stages, translates the catalog into their inputs.
//!
//! A request walks through it once, left to right:
//!
//! ```text
//! Attributes ─▶ classify ─▶ GroupHandle ─▶ gate ─▶ Permit ─▶ Query ─▶ tasks on the executor
//! ```

mod builder;
mod error;
mod machine;
mod observe;
mod routing;
mod set;
mod shutdown;
mod spawn;
mod task;

pub use builder::{Builder, Host};
pub use error::Error;
pub use set::SetBuilder;
pub use spawn::{EnterGuard, spawn, spawn_blocking};
pub use task::Builder as TaskBuilder;

use crate::admission::{AdmissionError, Gate};
use crate::catalog::{Catalog, Origin};
use crate::classify::Attributes;
use crate::exec::account::Account;
use crate::exec::core::Core;
use crate::exec::join::JoinHandle;
use crate::exec::stats::GroupUsage;
use crate::exec::task::{refused, spawn as spawn_task};
use crate::query::{KillReason, Query, Usage, WeakQuery};
use crate::sched::trace::Trace;
use crate::sql::{self, Output, Statement};
use crate::unit::{GroupId, QueryId};
use arc_swap::ArcSwap;
use builder::AllowOverride;
use parking_lot::Mutex;
use routing::{Entry, Routing};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One instance of the system in a process: catalog, classifier, admission, executor, accounts.
///
/// Clones are the same governor; dropping the last one ends its tasks.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quotient::{Attributes, Governor};
///
/// let governor = Governor::builder().build()?;
/// governor.execute("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='2')").await?;
///
/// let query = governor.admit(&Attributes::new().user("bi")).await?;
/// assert_eq!(query.group(), "bi");
/// assert_eq!(query.run(async { 6 * 7 }).await?, 42);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Governor {
    inner: Arc<Inner>,
}

struct Inner {
    catalog: Catalog,
    /// Held while a change of the catalog is translated, so that translations are in order.
    translating: Mutex<()>,
    routing: ArcSwap<Routing>,
    gate: Gate,
    core: Arc<Core>,
    drivers: tokio::sync::Mutex<Vec<tokio::task::JoinHandle<()>>>,
    queries: Mutex<BTreeMap<QueryId, WeakQuery>>,
    /// Dropped groups that may still have queries or tasks.
    dropped: Mutex<Vec<Arc<Entry>>>,
    /// What groups that are gone for good had been charged.
    past_cpu: AtomicU64,
    unmanaged_cpu: AtomicU64,
    unclassified: AtomicU64,
    apply_errors: AtomicU64,
    allow_override: AllowOverride,
}

/// A resource group, as found by [`Governor::classify`]. It stays valid when the group is dropped.
#[derive(Clone)]
pub struct GroupHandle {
    entry: Arc<Entry>,
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

    /// The CPU time and the polls of all its queries and tasks since it was created. The other fields, which are
    /// kept per query, are zero; [`stats`](GroupHandle::stats) has histograms of its polls.
    pub fn usage(&self) -> Usage {
        let usage = self.entry.group.usage();
        Usage {
            cpu: usage.cpu_poll.plus(usage.cpu_drop).into(),
            polls: usage.polls,
            ..Usage::default()
        }
    }

    /// The executor's counters of it: tasks by state, delays, shares, lag.
    pub fn stats(&self) -> GroupUsage {
        self.entry.group.usage()
    }
}

impl Governor {
    /// Begins to build a governor.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn start(
        catalog: Catalog,
        core: Arc<Core>,
        drivers: Vec<tokio::task::JoinHandle<()>>,
        allow_override: AllowOverride,
    ) -> Governor {
        let gate = Gate::new();
        let routing = Routing::new(catalog.snapshot(), &core, &gate, None);
        let inner = Arc::new(Inner {
            catalog,
            translating: Mutex::new(()),
            routing: ArcSwap::from_pointee(routing),
            gate,
            core,
            drivers: tokio::sync::Mutex::new(drivers),
            queries: Mutex::default(),
            dropped: Mutex::default(),
            past_cpu: AtomicU64::new(0),
            unmanaged_cpu: AtomicU64::new(0),
            unclassified: AtomicU64::new(0),
            apply_errors: AtomicU64::new(0),
            allow_override,
        });
        let owner: Arc<dyn Any + Send + Sync> = inner.clone();
        inner.core.belongs_to(Arc::downgrade(&owner));
        Governor { inner }
    }

    /// Runs a script: one output per statement.
    ///
    /// The script is parsed as a whole first. Then its statements run in order, each wholly or not at all;
    /// the first that fails ends the script, and the error tells how many had been applied.
    ///
    /// # Errors
    ///
    /// [`Error::Sql`], with the place in the script.
    ///
    /// # Cancel safety
    ///
    /// It does not wait for anything: once polled, it is done.
    pub async fn execute(&self, script: &str) -> Result<Vec<Output>, Error> {
        let run = || -> Result<Vec<Output>, sql::SqlError> {
            let statements = sql::parse(script)?;
            let mut outputs = Vec::with_capacity(statements.len());
            for (done, statement) in statements.iter().enumerate() {
                outputs.push(
                    self.apply(statement)
                        .map_err(|error| error.at_statement(done + 1, done))?,
                );
            }
            Ok(outputs)
        };
        run().map_err(|error| {
            self.inner.apply_errors.fetch_add(1, Relaxed);
            Error::from(error)
        })
    }

    fn apply(&self, statement: &Statement) -> Result<Output, sql::SqlError> {
        if let Statement::ShowUsage(name) = statement {
            return self.show_usage(name.as_ref());
        }
        let _order = self.inner.translating.lock();
        let applied = self.inner.catalog.apply(statement, Origin::Statement)?;
        if applied.changed {
            self.translate(applied.snapshot);
        }
        Ok(applied.output)
    }

    /// Puts a new version of the catalog into effect. The caller holds `translating`.
    fn translate(&self, snapshot: Arc<crate::catalog::Snapshot>) {
        let inner = &*self.inner;
        let last = inner.routing.load_full();
        let next = Routing::new(snapshot, &inner.core, &inner.gate, Some(&last));
        let dropped = last.missing_in(&next);
        {
            // A group moves from the one place to the other in the eyes of whoever lists both.
            let mut gone = inner.dropped.lock();
            // First nobody finds a dropped group any more, then it refuses those who found it before.
            inner.routing.store(Arc::new(next));
            for entry in &dropped {
                inner.gate.remove(entry.id);
            }
            gone.extend(dropped);
        }
        self.sweep();
    }

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
                refused(&self.inner.routing.load().default().loose, cause)
            }
        }
    }

    /// Spawns a task in a group by its name, without admission and outside of any query.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownGroup`].
    #[track_caller]
    pub fn spawn_in<F>(&self, group: &str, future: F) -> Result<JoinHandle<F::Output>, Error>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(spawn_task(&self.loose_account(group)?, None, future))
    }

    /// The account of a group's tasks that belong to no query.
    fn loose_account(&self, group: &str) -> Result<Arc<Account>, Error> {
        let routing = self.inner.routing.load();
        if let Some(entry) = routing.by_name(group) {
            return Ok(entry.loose.clone());
        }
        let names = routing.entries().map(|entry| &*entry.name);
        let similar = sql::suggest::closest(group, names).map(str::to_owned);
        Err(Error::UnknownGroup {
            name: group.to_owned(),
            similar,
        })
    }

    fn from_owner(owner: Arc<dyn Any + Send + Sync>) -> Option<Governor> {
        let inner = owner.downcast().ok()?;
        Some(Governor { inner })
    }

    /// The running query of that id.
    pub fn query(&self, id: QueryId) -> Option<Query> {
        self.inner
            .queries
            .lock()
            .get(&id)
            .and_then(WeakQuery::upgrade)
    }

    /// Ends the recording that [`Builder::record_schedule`] began: what the scheduler was told and what it
    /// answered, which [`replay`](crate::sched::trace::replay) repeats without threads.
    pub fn take_trace(&self) -> Option<Trace> {
        self.inner.core.take_trace()
    }

    /// A picture of the scheduler's state for people, when something hangs. Not a stable format.
    pub fn dump(&self) -> String {
        self.inner.core.dump()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.gate.close();
        self.core.cancel(KillReason::Shutdown.into_cause());
    }
}

impl fmt::Debug for Governor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Governor")
            .field(
                "catalog_version",
                &self.inner.routing.load().snapshot.version(),
            )
            .field("core", &self.inner.core)
            .finish_non_exhaustive()
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
