//! The composition root: builds the stages, translates the catalog into their inputs.
//!
//! A request walks through it once, left to right:
//!
//! ```text
//! Attributes ─▶ classify ─▶ GroupHandle ─▶ gate ─▶ Permit ─▶ Query ─▶ tasks on the executor
//! ```

pub(crate) mod admission;
mod admit;
mod background;
mod blocking;
mod breaker;
mod build_task;
mod builder;
mod error;
mod execute;
pub(crate) mod explain;
mod follow;
mod group;
mod hooks;
mod init;
pub(crate) mod machine;
mod observe;
mod operate;
mod overrun;
mod routing;
mod running;
mod set;
mod shutdown;
mod spawn;
mod streams;
mod throttle;
pub(crate) mod variables;
mod views;

#[cfg(any(feature = "metrics", feature = "dashboard"))]
pub(crate) use background::WeakGovernor;
pub use build_task::Builder as TaskBuilder;
pub use builder::{Builder, Host};
pub use error::Error;
pub use group::GroupHandle;
pub use set::SetBuilder;
pub use spawn::{EnterGuard, spawn, spawn_blocking};

use crate::admission::Gate;
use crate::catalog::Catalog;
use crate::exec::core::Core;
use crate::exec::host::{Crew, Entrance};
use crate::exec::join::JoinHandle;
use crate::exec::task;
use crate::io::flow::Station;
use crate::mem::pressure::Probe;
use crate::query::{KillReason, Query};
use crate::sched::trace::Trace;
use crate::settings::Settings;
use crate::unit::{Bytes, QueryId};
use arc_swap::ArcSwap;
use breaker::Breaker;
use builder::AllowOverride;
use parking_lot::Mutex;
use routing::{Entry, Routing};
use running::Running;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use throttle::{Collect, MemoryProbe};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::AbortHandle;

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
    /// Whose turn it is at a shared store.
    at_store: Arc<Semaphore>,
    routing: ArcSwap<Routing>,
    /// What the groups' streams have in common.
    station: Arc<Station>,
    gate: Gate,
    core: Arc<Core>,
    /// How much memory is in use, by all that there is to ask.
    pressure: Arc<Probe>,
    crew: tokio::sync::Mutex<Crew>,
    entrance: Entrance,
    background: Mutex<Vec<AbortHandle>>,
    /// Whether a shutdown has begun.
    closing: watch::Sender<bool>,
    queries: Mutex<BTreeMap<QueryId, Running>>,
    breaker: Arc<Breaker>,
    /// Dropped groups that may still have queries or tasks.
    dropped: Mutex<Vec<Arc<Entry>>>,
    /// What groups that are gone for good had been charged.
    past_cpu: AtomicU64,
    unmanaged_cpu: AtomicU64,
    unclassified: AtomicU64,
    apply_errors: AtomicU64,
    allow_override: AllowOverride,
    settings: Mutex<Settings>,
    memory_limit: Bytes,
    memory_probe: MemoryProbe,
    collect: Collect,
    /// The throttle's rules have changed.
    throttle_changed: Arc<Notify>,
}

/// What a governor is started with.
struct Parts {
    catalog: Catalog,
    core: Arc<Core>,
    driven: (Crew, Entrance),
    allow_override: AllowOverride,
    settings: Settings,
    memory_limit: Bytes,
    pressure: Arc<Probe>,
    memory_probe: MemoryProbe,
    collect: Collect,
}

impl Governor {
    /// Begins to build a governor.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn start(parts: Parts) -> Governor {
        let (catalog, core) = (parts.catalog, parts.core);
        let (crew, entrance) = parts.driven;
        let gate = Gate::with_timers_of(entrance.runtime().clone());
        let breaker = Breaker::new();
        let runtime = entrance.runtime();
        let timed = throttle::has_timers(runtime).then(|| runtime.clone());
        let station = Station::new(timed);
        let routing = Routing::new(catalog.snapshot(), &core, &station, &gate, &breaker, None);
        let governor = Governor {
            inner: Arc::new(Inner {
                catalog,
                translating: Mutex::new(()),
                at_store: Arc::new(Semaphore::new(1)),
                routing: ArcSwap::from_pointee(routing),
                station,
                gate,
                core,
                pressure: parts.pressure,
                crew: tokio::sync::Mutex::new(crew),
                entrance,
                background: Mutex::default(),
                closing: watch::Sender::new(false),
                queries: Mutex::default(),
                breaker,
                dropped: Mutex::default(),
                past_cpu: AtomicU64::new(0),
                unmanaged_cpu: AtomicU64::new(0),
                unclassified: AtomicU64::new(0),
                apply_errors: AtomicU64::new(0),
                allow_override: parts.allow_override,
                settings: Mutex::new(parts.settings),
                memory_limit: parts.memory_limit,
                memory_probe: parts.memory_probe,
                collect: parts.collect,
                throttle_changed: Arc::default(),
            }),
        };
        governor.inner.breaker.attach(&governor.inner);
        let inner = &governor.inner;
        let owner: Arc<dyn Any + Send + Sync> = inner.clone();
        inner.core.belongs_to(Arc::downgrade(&owner));
        inner.govern(&inner.settings.lock());
        governor.in_background(throttle::beat);
        governor.follow_store();
        governor
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
        Ok(task::spawn(self.loose_account(group)?, None, future))
    }

    /// The running query of that id.
    pub fn query(&self, id: QueryId) -> Option<Query> {
        Some(self.inner.running(id)?.0)
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
        let _ours = crate::mem::enter_process();
        self.gate.close();
        self.stop_background();
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
