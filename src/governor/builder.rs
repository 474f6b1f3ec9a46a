//! Building a governor: what it runs on, how many workers, which groups it begins with.
//!
//! Wiring; the thread that builds.

use super::error::Error;
use super::{Governor, machine};
use crate::catalog::{Catalog, Machine, Origin};
use crate::classify::Attributes;
use crate::clock::Clock;
use crate::exec::core::{Config, Core};
use crate::exec::hooks::{Hooks, TaskMeta};
use crate::exec::host;
use crate::query::KillReason;
use crate::sched;
use crate::sql;
use crate::unit::{Bytes, Nanos};
use std::fmt;
use std::sync::Arc;
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
    init_sql: String,
    allow_override: AllowOverride,
    clock: Clock,
    policy: sched::Config,
    record: bool,
    hooks: Hooks,
    pinned: bool,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            host: Host::Attached,
            workers: None,
            memory_limit: None,
            init_sql: String::new(),
            allow_override: Box::new(|_, _| true),
            clock: Clock::tsc(),
            policy: sched::Config::default(),
            record: false,
            hooks: Hooks::default(),
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

    /// A script that is run, as one, before anything else. Values beyond this machine are cut in effect, which
    /// SHOW reports, instead of refused. Called again, the scripts follow each other.
    pub fn init_sql(mut self, script: &str) -> Builder {
        if !self.init_sql.is_empty() {
            self.init_sql.push_str(";\n");
        }
        self.init_sql.push_str(script);
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

    /// Called when a task is spawned, before it is queued, on the thread that spawns it; as tokio's runtime builder.
    /// A later hook replaces an earlier one. What a hook panics with is dropped.
    pub fn on_task_spawn(
        mut self,
        hook: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.hooks.spawn = Some(Box::new(hook));
        self
    }

    /// Called right before each poll of a task, by the worker that polls it.
    pub fn on_before_task_poll(
        mut self,
        hook: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.hooks.before_poll = Some(Box::new(hook));
        self
    }

    /// Called right after each poll of a task, the last one included.
    pub fn on_after_task_poll(
        mut self,
        hook: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.hooks.after_poll = Some(Box::new(hook));
        self
    }

    /// Called when a task has ended, however it did: its future is dropped and its handle is ready.
    pub fn on_task_terminate(
        mut self,
        hook: impl Fn(&TaskMeta<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.hooks.terminate = Some(Box::new(hook));
        self
    }

    /// Whether each worker of [`Host::Owned`] keeps to one CPU, in turn of those that the process may use. Default:
    /// no, the system places them. Worth it where nothing else runs on the machine; elsewhere a worker waits for
    /// its CPU while others are idle. No effect where the system cannot, and none on [`Host::Attached`].
    pub fn pin_workers(mut self, pinned: bool) -> Builder {
        self.pinned = pinned;
        self
    }

    /// Starts the governor.
    ///
    /// # Errors
    ///
    /// [`Error::NoRuntime`] for [`Host::Attached`] outside of a tokio runtime, [`Error::Host`] if the system refuses
    /// what [`Host::Owned`] needs, [`Error::Invalid`] for a value out of range, [`Error::Sql`] if the script is
    /// refused: nothing is started then.
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
        let memory_limit = self.memory_limit.map_or_else(machine::memory, Bytes);
        if memory_limit.0 == 0 {
            return Err(Error::Invalid {
                what: "memory_limit",
                value: "0".into(),
                allowed: "1 byte and more",
            });
        }
        let catalog = Catalog::new(Machine {
            workers,
            memory_limit,
        });
        let statements = sql::parse_within(&self.init_sql, sql::Caps::NONE)?;
        catalog.apply_all(&statements, Origin::File)?;

        let scheduled = attached
            .as_ref()
            .map(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread);
        let (core, workers) = Core::new(Config {
            workers,
            policy: self.policy,
            quantum: QUANTUM,
            long_poll: LONG_POLL,
            clock: self.clock,
            displace: scheduled.unwrap_or(false),
            record: self.record,
            hooks: (!self.hooks.are_none()).then(|| Arc::new(self.hooks)),
            watchdog: scheduled.unwrap_or(true),
        });
        let abandoned = KillReason::Shutdown.into_cause();
        let driven = match attached {
            Some(runtime) => host::attach(runtime, workers, &abandoned),
            None => host::own(&core, workers, self.pinned, &abandoned)
                .map_err(|error| Error::Host(Arc::new(error)))?,
        };
        Ok(Governor::start(catalog, core, driven, self.allow_override))
    }
}

/// More workers than any machine has cores: a larger number is a mistake.
const MAX_WORKERS: usize = 4096;
/// How long workers run before tokio looks after I/O and timers: one epoll (0.5 µs) per 100 µs.
const QUANTUM: Nanos = Nanos::from_micros(100);
/// A poll longer than this is counted as long.
const LONG_POLL: Nanos = Nanos::from_millis(5);

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("host", &self.host)
            .field("workers", &self.workers)
            .field("memory_limit", &self.memory_limit)
            .field("init_sql", &self.init_sql)
            .finish_non_exhaustive()
    }
}
