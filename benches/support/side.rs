//! The sides of every comparison behind one trait: plain tokio, a governor on a tokio runtime like it, and a governor
//! on threads of its own.
//!
//! Dispatch is static, so that each side is compiled as a user's program would be. Both runtimes live in the
//! process at once; the one that is not measured sleeps.

use async_executor::StaticExecutor;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// Something that runs tasks in numbered groups.
pub(crate) trait Side: Clone + Send + Sync + 'static {
    /// The side's own join handle.
    type Join: Send + 'static;

    /// What the tables call it.
    const NAME: &'static str;

    /// Spawns into a group, from anywhere; the handle is dropped.
    fn remote<F>(&self, group: usize, future: F)
    where
        F: Future<Output = ()> + Send + 'static;

    /// Spawns into a group, from anywhere, and keeps the handle.
    fn remote_join<F>(&self, group: usize, future: F) -> Self::Join
    where
        F: Future<Output = ()> + Send + 'static;

    /// Spawns from inside a task, as the drop-in `spawn` does: into the group of that task.
    fn child<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static;

    /// Waits for a task and insists on its success.
    fn joined(join: Self::Join) -> impl Future<Output = ()> + Send;

    /// The side's own way of giving way.
    fn yield_now() -> impl Future<Output = ()> + Send;

    /// The tokio runtime underneath.
    fn handle(&self) -> &Handle;

    /// Everything that helps to understand a hang.
    fn dump(&self) -> String;
}

/// A multi-thread runtime with everything switched on. If `pinned`, its threads take the process's CPUs in
/// turn: otherwise the operating system at times packs both workers of one runtime onto one CPU for a whole
/// run, and what costs CPU then is where it put them (measured: 1.65 × between two runtimes that are equal).
pub(crate) fn runtime(workers: usize, pinned: bool) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all();
    if pinned {
        let cpus = cpus();
        let next = AtomicUsize::new(0);
        builder.on_thread_start(move || {
            let cpu = cpus[next.fetch_add(1, Ordering::Relaxed) % cpus.len()];
            let mut set = CpuSet::new();
            set.set(cpu);
            // A sandbox may forbid it; the ratios are then as noisy as they would have been.
            let _ = sched_setaffinity(None, &set);
        });
    }
    builder.build().expect("a runtime can be built")
}

/// The CPUs that the process may use.
fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// tokio alone: groups mean nothing to it.
#[derive(Clone)]
pub(crate) struct Plain {
    handle: Handle,
}

impl Plain {
    pub(crate) fn on(runtime: &Runtime) -> Plain {
        Plain {
            handle: runtime.handle().clone(),
        }
    }
}

impl Side for Plain {
    type Join = tokio::task::JoinHandle<()>;

    const NAME: &'static str = "tokio";

    #[inline]
    fn remote<F>(&self, _group: usize, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.handle.spawn(future);
    }

    #[inline]
    fn remote_join<F>(&self, _group: usize, future: F) -> Self::Join
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.handle.spawn(future)
    }

    #[inline]
    fn child<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(future);
    }

    async fn joined(join: Self::Join) {
        join.await.expect("the task succeeds");
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn dump(&self) -> String {
        let metrics = self.handle.metrics();
        format!(
            "plain tokio: {} tasks alive, {} in the global queue\n",
            metrics.num_alive_tasks(),
            metrics.global_queue_depth()
        )
    }
}

/// A governor with as many groups as there are weights: attached to a tokio runtime, or on threads of its own.
#[derive(Clone)]
pub(crate) struct Governed<const OWNED: bool> {
    handle: Handle,
    governor: quotient::Governor,
    groups: Arc<[String]>,
}

pub(crate) type Attached = Governed<false>;
pub(crate) type Owned = Governed<true>;

/// Groups `g0`, `g1`, … with these weights.
fn builder(weights: &[u64]) -> (quotient::Builder, Arc<[String]>) {
    let groups: Arc<[String]> = (0..weights.len()).map(|i| format!("g{i}")).collect();
    let sql: String = groups
        .iter()
        .zip(weights)
        .map(|(name, weight)| {
            format!("CREATE RESOURCE GROUP {name} WITH ('cpu_core_limit'='{weight}');\n")
        })
        .collect();
    (quotient::Governor::builder().init_sql(&sql), groups)
}

impl Attached {
    /// One scheduler worker per runtime worker.
    pub(crate) fn on(runtime: &Runtime, weights: &[u64]) -> Attached {
        let (builder, groups) = builder(weights);
        let workers = runtime.metrics().num_workers();
        let governor = runtime
            .block_on(async { builder.workers(workers).build() })
            .expect("a governor can be built");
        Governed {
            handle: runtime.handle().clone(),
            governor,
            groups,
        }
    }
}

impl Owned {
    pub(crate) fn with(workers: usize, pinned: bool, weights: &[u64]) -> Owned {
        let (builder, groups) = builder(weights);
        let builder = builder.host(quotient::Host::Owned).workers(workers);
        let governor = builder
            .pin_workers(pinned)
            .build()
            .expect("a governor can be built");
        Governed {
            handle: governor.block_on(async { Handle::current() }),
            governor,
            groups,
        }
    }

    pub(crate) fn end(&self) {
        self.governor
            .block_on(self.governor.shutdown(Duration::ZERO));
    }
}

impl<const OWNED: bool> Side for Governed<OWNED> {
    type Join = quotient::JoinHandle<()>;

    const NAME: &'static str = if OWNED { "owned" } else { "quotient" };

    #[inline]
    fn remote<F>(&self, group: usize, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.remote_join(group, future));
    }

    #[inline]
    fn remote_join<F>(&self, group: usize, future: F) -> Self::Join
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.governor
            .spawn_in(&self.groups[group], future)
            .expect("the group exists")
    }

    #[inline]
    fn child<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(quotient::spawn(future));
    }

    async fn joined(join: Self::Join) {
        join.await.expect("the task succeeds");
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        quotient::task::yield_now()
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn dump(&self) -> String {
        self.governor.dump() + &self.governor.render_metrics()
    }
}

/// async-executor, driven by one task of a tokio runtime per worker: where a program would put it that needs tokio's
/// sockets and timers. It has no groups either.
#[derive(Clone)]
pub(crate) struct Other {
    handle: Handle,
}

static OTHER: StaticExecutor = StaticExecutor::new();

impl Other {
    /// Drives the executor for as long as the runtime lives.
    pub(crate) fn on(runtime: &Runtime) -> Other {
        for _ in 0..runtime.metrics().num_workers() {
            runtime.spawn(OTHER.run(std::future::pending::<()>()));
        }
        Other {
            handle: runtime.handle().clone(),
        }
    }
}

impl Side for Other {
    type Join = async_executor::Task<()>;

    const NAME: &'static str = "async-executor";

    #[inline]
    fn remote<F>(&self, _group: usize, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        OTHER.spawn(future).detach();
    }

    #[inline]
    fn remote_join<F>(&self, _group: usize, future: F) -> Self::Join
    where
        F: Future<Output = ()> + Send + 'static,
    {
        OTHER.spawn(future)
    }

    #[inline]
    fn child<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        OTHER.spawn(future).detach();
    }

    async fn joined(join: Self::Join) {
        join.await;
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        super::shapes::SelfWake::default()
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn dump(&self) -> String {
        format!("async-executor: {OTHER:?}\n")
    }
}
