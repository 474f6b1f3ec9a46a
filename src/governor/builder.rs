//! Building a governor: what it runs on, how many workers, which groups it begins with.
//!
//! Wiring; the thread that builds.

use super::blocking::Wanted;
use super::error::Error;
use super::overrun;
use super::throttle::{self, Collect, MemoryProbe};
use super::{Governor, Parts, init, machine};
use crate::catalog::store::{CatalogStore, FileStore};
use crate::catalog::{CatalogMode, Machine};
use crate::classify::Attributes;
use crate::clock::Clock;
use crate::exec::blocking::Source;
use crate::exec::core::{Config, Core};
use crate::exec::hooks::Hooks;
use crate::exec::host;
use crate::mem::{self, MemoryOverrun, OwnerHandle, pressure};
use crate::query::KillReason;
use crate::sched;
use crate::settings::{Scheduler, Settings};
use crate::unit::{Bytes, Nanos};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// What drives the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Host {
    /// The tokio runtime that `build` is called in: one driver task per worker. Nothing of its set-up
    /// changes; I/O and timers are native.
    #[default]
    Attached,
    /// Threads of the governor's own, which also drive a tokio runtime for I/O, timers and raw tokio tasks. Built
    /// anywhere, in plain `fn main` too; [`Governor::block_on`] is the way in. Shares are exact whatever way tasks
    /// give way, and I/O goes on while every worker is in a long poll.
    Owned,
}

/// Whether a request may name its group.
pub(super) type AllowOverride = Box<dyn Fn(&Attributes, &str) -> bool + Send + Sync>;

/// A governor in the making. Made by [`Governor::builder`].
#[must_use = "nothing happens before `build`"]
pub struct Builder {
    host: Host,
    workers: Option<usize>,
    memory_limit: Option<u64>,
    overrun: Option<MemoryOverrun>,
    init_sql: String,
    catalog: Option<Arc<dyn CatalogStore>>,
    catalog_mode: CatalogMode,
    allow_override: AllowOverride,
    clock: Clock,
    policy: sched::Config,
    record: bool,
    pub(super) hooks: Hooks,
    pub(super) blocking: Wanted,
    settings: Settings,
    memory_probe: Option<MemoryProbe>,
    memory_collect: Collect,
    long_poll: Option<Duration>,
    spares: Option<usize>,
    pinned: bool,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            host: Host::Attached,
            workers: None,
            memory_limit: None,
            overrun: None,
            init_sql: String::new(),
            catalog: None,
            catalog_mode: CatalogMode::Strict,
            allow_override: Box::new(|_, _| true),
            clock: Clock::tsc(),
            policy: sched::Config::default(),
            record: false,
            hooks: Hooks::default(),
            blocking: Wanted::default(),
            settings: Settings::default(),
            memory_probe: None,
            memory_collect: Box::new(mem::collect),
            long_poll: None,
            spares: None,
            pinned: false,
        }
    }
}

impl Builder {
    /// What drives the workers. Default: [`Host::Attached`].
    pub fn host(mut self, host: Host) -> Builder {
        self.host = host;
        self
    }

    /// How many tasks may be polled at once, at least 1. Default: the runtime's workers; for [`Host::Owned`] the
    /// CPUs that the process may use.
    pub fn workers(mut self, workers: usize) -> Builder {
        self.workers = Some(workers);
        self
    }

    /// The memory, in bytes, that `mem_limit` properties are shares of. Default: the cgroup's limit, else
    /// the physical memory.
    pub fn memory_limit(mut self, bytes: u64) -> Builder {
        self.memory_limit = Some(bytes);
        self
    }

    /// What happens to a request for memory that does not fit its group's `mem_limit` and is large (1 MiB and more)
    /// or past the grace. Default: [`MemoryOverrun::Quarantine`] on a multi-thread runtime. On a current-thread one
    /// it must be chosen once a group has a `mem_limit`. Without [`GroupAlloc`](crate::alloc::GroupAlloc) as the
    /// program's allocator nothing of it happens.
    pub fn memory_overrun(mut self, action: MemoryOverrun) -> Builder {
        self.overrun = Some(action);
        self
    }

    /// The variables that SET GLOBAL changes later. Default: [`Settings::default`].
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// What tells how many bytes of memory are in use, for the memory throttle. Asked once per interval while the
    /// throttle is on; must not block. If it panics, that look decides nothing. Default: what the process and its cgroup
    /// use, as [`mem::pressure`](crate::mem::pressure) reads it.
    pub fn memory_probe(mut self, used: impl Fn() -> u64 + Send + Sync + 'static) -> Builder {
        self.memory_probe = Some(Box::new(move || Bytes(used())));
        self
    }

    /// Called when throttling has lasted for ten intervals, and after each ten more: gives memory that is free but
    /// kept by the allocator back to the system, as `mi_collect` does. It must not block for long. Default:
    /// [`mem::collect`](crate::mem::collect), which does that.
    pub fn memory_collect(mut self, collect: impl Fn() + Send + Sync + 'static) -> Builder {
        self.memory_collect = Box::new(collect);
        self
    }

    /// A script that is run, as one, before anything else; what it says of groups only if no catalog is found where it
    /// is kept. Values beyond this machine are cut in effect, which SHOW reports, instead of refused. Called again, the
    /// scripts follow each other.
    pub fn init_sql(mut self, script: &str) -> Builder {
        if !self.init_sql.is_empty() {
            self.init_sql.push_str(";\n");
        }
        self.init_sql.push_str(script);
        self
    }

    /// Keeps the catalog in a file: loaded now, saved on each change. It is plain SQL; its folder must exist. Until the
    /// file exists, `init_sql` says what is in it.
    pub fn catalog_path(self, path: impl Into<PathBuf>) -> Builder {
        self.catalog_store(FileStore::new(path))
    }

    /// Keeps the catalog somewhere else than in a file.
    pub fn catalog_store(mut self, store: impl CatalogStore + 'static) -> Builder {
        self.catalog = Some(Arc::new(store));
        self
    }

    /// What happens if something in the kept catalog is wrong. Default: [`CatalogMode::Strict`].
    pub fn catalog_mode(mut self, mode: CatalogMode) -> Builder {
        self.catalog_mode = mode;
        self
    }

    /// Asked whenever a request names its group: may it? Default: yes.
    pub fn allow_override(
        mut self,
        allow: impl Fn(&Attributes, &str) -> bool + Send + Sync + 'static,
    ) -> Builder {
        self.allow_override = Box::new(allow);
        self
    }

    /// The clock that charges are measured with; for tests.
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = clock;
        self
    }

    /// The scheduler's constants; for tests and experiments.
    pub fn policy(mut self, policy: sched::Config) -> Builder {
        self.policy = policy;
        self
    }

    /// Records every decision about which group runs next, for [`Governor::take_trace`]; for tests and
    /// bug reports. Memory grows by about 64 bytes per call to the policy, of which a slice makes a few.
    pub fn record_schedule(mut self, record: bool) -> Builder {
        self.record = record;
        self
    }

    /// A poll longer than this is long: it is counted, and while others wait for it, it is charged as it goes on, put
    /// down in [`Governor::long_polls`], and a spare thread serves the others. 100 µs and more; default: what the
    /// variable `long_poll_threshold_ms` says, which changes it at run time.
    pub fn long_poll_threshold(mut self, threshold: Duration) -> Builder {
        self.long_poll = Some(threshold);
        self
    }

    /// How many threads may serve the other groups at once while workers are stuck in long polls; 0: none, a group
    /// is felt by the others for as long as its longest poll. They are started when needed and end after some seconds
    /// without work. Default: as many as workers on a multi-thread runtime, 0 on a current-thread one, where one
    /// thread and a clock that can be paused are what was asked for.
    pub fn spares(mut self, spares: usize) -> Builder {
        self.spares = Some(spares);
        self
    }

    /// Whether each worker of [`Host::Owned`] keeps to one CPU, in turn of those that the process may use. Default:
    /// no, the system places them. Worth it where nothing else runs on the machine; elsewhere a worker waits for
    /// its CPU while others are idle. Threads that a task starts itself inherit its CPU. No effect where the system
    /// cannot, and none on [`Host::Attached`].
    pub fn pin_workers(mut self, pinned: bool) -> Builder {
        self.pinned = pinned;
        self
    }

    /// Starts the governor.
    ///
    /// # Errors
    ///
    /// [`Error::Catalog`] if the kept catalog cannot be opened; [`Error::NoRuntime`] for [`Host::Attached`] outside of
    /// a tokio runtime, [`Error::Host`] if the system refuses what [`Host::Owned`] needs, [`Error::Invalid`] for a
    /// value out of range, [`Error::Sql`] if the script is refused: nothing is started then.
    pub fn build(self) -> Result<Governor, Error> {
        let attached = match self.host {
            Host::Attached => Some(Handle::try_current().map_err(|_| Error::NoRuntime)?),
            Host::Owned => None,
        };
        let workers = self.workers.unwrap_or_else(|| {
            attached
                .as_ref()
                .map_or_else(machine::cpus, machine::workers)
        });
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(Error::Invalid {
                what: "workers",
                value: workers.to_string(),
                allowed: "1 to 4096",
            });
        }
        if let Some(threshold) = self.long_poll.filter(|least| *least < LEAST_LONG_POLL) {
            return Err(Error::Invalid {
                what: "long_poll_threshold",
                value: format!("{threshold:?}"),
                allowed: "100 µs and more",
            });
        }
        let scheduled = attached
            .as_ref()
            .map(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread);
        let threads = scheduled.unwrap_or(true);
        let spares = self.spares.unwrap_or(if threads { workers } else { 0 });
        if spares > MAX_WORKERS {
            return Err(Error::Invalid {
                what: "spares",
                value: spares.to_string(),
                allowed: "0 to 4096",
            });
        }
        let memory_limit = self.memory_limit.map_or_else(pressure::available, Bytes);
        if memory_limit.0 == 0 {
            return Err(Error::Invalid {
                what: "memory_limit",
                value: "0".into(),
                allowed: "1 byte and more",
            });
        }
        let machine = Machine {
            workers,
            memory_limit,
        };
        let mut settings = self.settings;
        settings.check()?;
        let kept = self.catalog.map(|store| (store, self.catalog_mode));
        let catalog = init::open(machine, kept, &self.init_sql, &mut settings)?;
        if settings.query_scheduler_name == Scheduler::MemoryThrottledFcfs
            && attached
                .as_ref()
                .is_some_and(|runtime| !throttle::has_timers(runtime))
        {
            return Err(Error::Invalid {
                what: "query_scheduler_name",
                value: settings.query_scheduler_name.to_string(),
                allowed: "MemoryThrottledFCFS on runtimes with timers (enable_time) only",
            });
        }
        let memory = OwnerHandle::open_governor();
        memory.set_limit(Some(memory_limit.0));
        memory.set_overrun(overrun::choose(
            self.overrun,
            &catalog,
            memory_limit,
            threads,
        )?);
        let pressure = Arc::new(pressure::Probe::of(memory.clone(), memory_limit));
        let memory_probe = self
            .memory_probe
            .unwrap_or_else(|| throttle::probe(pressure.clone()));
        let variable = Duration::from_millis(settings.long_poll_threshold_ms);
        let long_poll = self.long_poll.unwrap_or(variable);
        let long_poll = Nanos(u64::try_from(long_poll.as_nanos()).unwrap_or(u64::MAX));
        // A current-thread runtime must know of what it waits for, or a paused clock of its would run ahead.
        let lent = scheduled == Some(false);
        let source = if lent { Source::Runtime } else { Source::Own };
        let (core, crew) = Core::new(Config {
            workers,
            blocking: self.blocking.setup(source)?,
            policy: self.policy,
            quantum: QUANTUM,
            long_poll,
            clock: self.clock,
            displace: scheduled.unwrap_or(false),
            record: self.record,
            hooks: (!self.hooks.are_none()).then(|| Arc::new(self.hooks)),
            watchdog: threads || spares > 0,
            spares,
            hands_over: attached.is_some(),
            memory,
            shortage: KillReason::shortage,
            park: match scheduled {
                Some(true) => Some(host::park_attached),
                Some(false) => None,
                None => Some(host::park_owned),
            },
        });
        let abandoned = KillReason::Shutdown.into_cause();
        let driven = match attached {
            Some(runtime) => host::attach(&core, runtime, crew, &abandoned),
            None => host::own(&core, crew, self.pinned, &abandoned)
                .map_err(|error| Error::Host(Arc::new(error)))?,
        };
        core.stand_in_on(driven.1.runtime());
        Ok(Governor::start(Parts {
            catalog,
            core,
            driven,
            allow_override: self.allow_override,
            settings,
            memory_limit,
            pressure,
            memory_probe,
            collect: self.memory_collect,
        }))
    }
}

/// More workers than any machine has cores: a larger number is a mistake.
const MAX_WORKERS: usize = 4096;
/// How long workers run before tokio looks after I/O and timers, while that is of use; else up to four times as long.
const QUANTUM: Nanos = Nanos::from_micros(100);
/// The watchdog looks at half of a long poll; more often would cost more than it saves.
const LEAST_LONG_POLL: Duration = Duration::from_micros(100);

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("host", &self.host)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
