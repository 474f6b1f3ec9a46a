//! The ground that live tests stand on: runtimes with a governor, and accounts that must settle.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary compiles the whole room and uses its own part"
)]

pub mod mortal;

use crate::support::{Watch, watch};
use quotient::exec::{blocking, core};
use quotient::unit::Nanos;
use quotient::{Attributes, Builder, Governor, Host};
use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, Mutex, Once};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

static SILENCE: Once = Once::new();

/// Watches the calling test against a hang while the value lives, and keeps planned panics off the terminal.
pub(crate) fn watched(name: &str) -> Watch {
    SILENCE.call_once(silence_planned_panics);
    watch(name, || "(nothing is known of its governor)".into())
}

/// Panics whose text begins with `planned`, and those with an `i32`, are part of a test and stay unprinted.
fn silence_planned_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let planned = text.map_or(payload.is::<i32>(), |text| text.starts_with("planned"));
        if !planned {
            print(panic);
        }
    }));
}

/// A multi-thread runtime.
pub fn multi_thread(workers: usize) -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

/// A multi-thread runtime, and the threads that it has started.
pub fn multi_thread_noted(workers: usize) -> (Runtime, Arc<Mutex<HashSet<ThreadId>>>) {
    let threads: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
    let starting = threads.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .on_thread_start(move || {
            starting.lock().unwrap().insert(std::thread::current().id());
        })
        .build()
        .unwrap();
    (runtime, threads)
}

/// A current-thread runtime.
pub fn current_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Those of them on which as many tasks as there are workers run at once.
pub fn grounds_with_threads(workers: usize) -> [Ground; 2] {
    [Ground::Tokio(multi_thread(workers)), Ground::owned()]
}

/// A governor on this runtime or host, after these statements.
pub fn governor(ground: &impl Build, workers: usize, sql: &str) -> Governor {
    ground.build(Governor::builder().workers(workers).init_sql(sql))
}

/// An executor of so many workers, without a governor: nothing is bounded, watched or recorded, and nobody stands in.
pub fn bare(workers: usize, clock: quotient::clock::Clock) -> core::Config {
    core::Config {
        workers,
        policy: quotient::sched::Config::default(),
        quantum: Nanos::from_secs(1),
        long_poll: Nanos::from_secs(3_600),
        clock,
        displace: false,
        record: false,
        watchdog: false,
        spares: 0,
        hands_over: false,
        memory: quotient::mem::OwnerHandle::open_governor(),
        shortage: |_, _| Arc::new(std::fmt::Error),
        park: None,
        hooks: None,
        blocking: blocking::Setup {
            threads: 1,
            queue: 1,
            keep_alive: Duration::from_secs(1),
            source: blocking::Source::Own,
            refusal: |_, _| Arc::new(std::fmt::Error),
        },
    }
}

/// What a governor can be built on.
pub trait Build {
    fn build(&self, builder: Builder) -> Governor;
}

impl Build for Runtime {
    fn build(&self, builder: Builder) -> Governor {
        self.block_on(async { builder.build() }).unwrap()
    }
}

/// A runtime to attach to, or none: the governor built on it then has threads of its own, and is kept by it.
pub enum Ground {
    Tokio(Runtime),
    Owned(Mutex<Option<Governor>>),
}

impl Ground {
    pub fn owned() -> Ground {
        Ground::Owned(Mutex::default())
    }

    /// Where the governor that was built on it can reach timers and sockets.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self {
            Ground::Tokio(runtime) => runtime.block_on(future),
            Ground::Owned(governor) => {
                let governor = governor.lock().unwrap().clone();
                governor.expect("a governor was built").block_on(future)
            }
        }
    }
}

/// A kind of host, and the runtime on which tokio says what is expected of it.
pub type Flavour = (&'static str, fn() -> Ground, fn() -> Runtime);

/// The workers of each flavour that has several.
pub const WORKERS: usize = 2;

/// All of them.
pub fn flavours() -> [Flavour; 3] {
    let two: fn() -> Runtime = || multi_thread(WORKERS);
    [
        ("multi-thread", || Ground::Tokio(multi_thread(WORKERS)), two),
        (
            "current-thread",
            || Ground::Tokio(current_thread()),
            current_thread,
        ),
        ("owned", Ground::owned, two),
    ]
}

impl Build for Ground {
    fn build(&self, builder: Builder) -> Governor {
        match self {
            Ground::Tokio(runtime) => runtime.build(builder),
            Ground::Owned(kept) => {
                let governor = builder.host(Host::Owned).build().unwrap();
                *kept.lock().unwrap() = Some(governor.clone());
                governor
            }
        }
    }
}

/// One of each: a multi-thread runtime, a current-thread runtime, the governor's own threads.
pub fn grounds(workers: usize) -> [Ground; 3] {
    [
        Ground::Tokio(multi_thread(workers)),
        Ground::Tokio(current_thread()),
        Ground::owned(),
    ]
}

/// The attributes of a request that names its group.
pub fn named(group: &str) -> Attributes {
    Attributes::new().resource_group(group)
}

/// Tasks that were ever spawned in this group.
pub fn spawned(governor: &Governor, group: &str) -> u64 {
    let group = governor.classify(&named(group)).unwrap();
    group.stats().tasks_total
}

/// Tasks of this group that still exist, in whatever state.
pub fn alive(governor: &Governor, group: &str) -> u64 {
    let usage = governor.classify(&named(group)).unwrap().stats();
    usage.tasks_running + usage.tasks_queued + usage.tasks_waiting
}

/// Waits until no task of the group exists; panics with what is left if that never comes.
pub async fn settled(governor: &Governor, group: &str) {
    eventually(&format!("all tasks of {group} are gone"), || {
        alive(governor, group) == 0
    })
    .await;
}

/// Waits until something holds that must come soon; only a bug waits out the generous limit.
pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The same, for a thread outside any runtime.
pub fn eventually_blocking(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Keeps the thread busy for so long.
pub fn compute(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}
