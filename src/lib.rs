//! SQL-administered resource groups for tokio programs.
//!
//! A service with many tenants runs all of them on one set of worker threads. tokio gives a turn to every *task*,
//! so whoever has more tasks, or longer ones, has more of the machine. Quotient gives turns to *resource groups*:
//! each request is classified into one, each group has its share of worker time, its limit on concurrent queries
//! and its account, and an operator changes all of that with SQL while the program runs. The scheduler's key is a
//! quotient: measured poll time ÷ `cpu_core_limit`.
//!
//! # Primary types
//!
//! - [`Governor`] is one instance of the system: catalog, classifier, admission, executor, accounts. Made by
//!   [`Governor::builder`].
//! - [`Attributes`] is what is known of a request before it runs: user, roles, address, databases, query type,
//!   planned costs. From it the group follows.
//! - [`Query`] is one admitted request: it holds a place of its group, owns tasks, can be measured and killed.
//! - [`JoinHandle`], [`JoinError`], [`AbortHandle`] are tokio's, name by name; a [`JoinError`] also tells for which
//!   [`KillReason`] the governor ended the task.
//! - [`fs`] is tokio's, name by name, on the governor's blocking pool; [`io::Metered`] wraps any other stream.
//! - [`Settings`] are the governor's variables, as SET GLOBAL changes them.
//! - [`sql::Output`] is what a statement answers, [`Error`] the sum of what can go wrong.
//!
//! # Example: a group, and a query in it
//!
//! Groups are made by SQL; a request is classified and admitted by its attributes, and its tasks then run in the
//! group's share.
//!
//! ```
//! use quotient::{Attributes, Governor};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let governor = Governor::builder().build()?;
//! governor
//!     .execute("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='3')")
//!     .await?;
//!
//! let query = governor.admit(&Attributes::new().user("bi")).await?;
//! let answer = query.run(async { (1..=6).product::<u32>() }).await?;
//!
//! assert_eq!(answer, 720);
//! assert_eq!(query.group(), "bi");
//! assert_eq!(query.usage().polls, 1);
//! # Ok(()) }
//! ```
//!
//! # Example: a limit, and what a refusal says
//!
//! A group admits as many queries at once as its `concurrency_limit`; the one too many is refused with numbers, not
//! only with a text, and its place is free as soon as the query and all its tasks are gone.
//!
//! ```
//! use quotient::{AdmissionError, Attributes, Governor};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let governor = Governor::builder()
//!     .init_sql("CREATE RESOURCE GROUP etl TO (user='loader') WITH ('concurrency_limit'='1')")
//!     .build()?;
//! let loader = Attributes::new().user("loader");
//!
//! let first = governor.try_admit(&loader)?;
//! match governor.try_admit(&loader) {
//!     Err(AdmissionError::Rejected { limit, running, .. }) => assert_eq!((limit, running), (1, 1)),
//!     other => panic!("not refused: {other:?}"),
//! }
//! drop(first);
//! assert!(governor.try_admit(&loader).is_ok());
//! # Ok(()) }
//! ```
//!
//! # Example: in place of `tokio::spawn`
//!
//! [`spawn`] inside a task stays in that task's group and query, however deep; killing the query ends all of them,
//! and every handle says why.
//!
//! ```
//! use quotient::{Attributes, Governor, KillReason};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let governor = Governor::builder().build()?;
//! let query = governor.admit(&Attributes::new()).await?;
//!
//! let parent = query.spawn(async {
//!     let child = quotient::spawn(async { quotient::task::current().and_then(|it| it.query_id()) });
//!     assert_eq!(child.await.unwrap(), quotient::task::current().and_then(|it| it.query_id()));
//!     std::future::pending::<()>().await
//! });
//! # while query.usage().polls < 3 { tokio::task::yield_now().await }
//! query.kill("the user has gone");
//!
//! let error = parent.await.unwrap_err();
//! assert!(error.is_cancelled());
//! assert!(matches!(error.reason(), Some(KillReason::Killed { why, .. }) if &**why == "the user has gone"));
//! # Ok(()) }
//! ```
//!
//! # What is isolated, and how hard
//!
//! | | in this version |
//! |---|---|
//! | worker time | shared by `cpu_core_limit` among groups that have work, and by the age of queries inside a group; measured per poll, decided whenever a worker becomes free. `max_cpu_cores` is a cap that binds even when workers are idle, `exclusive_cpu_cores` and `type` = `short_query` reserve workers; without them an idle worker takes whatever there is |
//! | queries at once | at most `concurrency_limit` per group, and `query_runner_threads` over all; excess ones wait in order, as many as `max_queued_queries` for `queue_timeout`, or are refused. With `MemoryThrottledFCFS` fewer while memory is short |
//! | one poll | not interrupted, as in tokio; one longer than 5 ms is charged while it goes on, put down with the place where its task was spawned, and spare threads serve the other groups meanwhile |
//! | one query | cut, cooled down or moved to another group when it uses more CPU time, scanned rows, memory or elapsed time than its group allows, at the end of the poll that crossed the limit |
//! | memory | hard, by `mem_limit`, with [`alloc::GroupAlloc`] as the program's allocator: see [below](#memory). Reservations ([`memory::reserve`]) wait in order; above `spill_mem_limit_threshold` queries that registered ([`memory::on_pressure`]) are asked for memory back first |
//! | blocking closures | [`task::spawn_blocking`] runs on the governor's own threads, which are shared by `io_weight` as they become free; `short_query` groups find some kept free. A closure that runs is not interrupted |
//! | files | [`fs`] runs on those threads too, and gives way after each MiB: bytes on the account of query and group, within its `max_io_bytes_per_second` |
//! | streams | wrapped in [`io::Metered`]: bytes on the account of query and group; all streams and files of a group together within its `max_io_bytes_per_second`. Several groups share an [`io::IoResource`] by `io_weight`. Other IO is not seen |
//!
//! # Memory
//!
//! With `GroupAlloc` as the `#[global_allocator]` every block belongs to the query whose task allocates it, else to its
//! group, else to the process, until it is freed, wherever and whenever that is. Each group has its `mem_limit`, the
//! governor its `memory_limit`. Without it, nothing is tracked, and limits bind reservations only.
//!
//! Let T be the number of threads, L a group's limit, G the grace of max(8 MiB, 5 % of L), a chunk 256 KiB at most, and
//! *tracked* the requested bytes of live blocks that are the group's. Then:
//!
//! - **P1 exact:** tracked ≤ used(g) ≤ tracked + T × 3 × chunk at any time; equal once all threads passed a boundary
//!   or parked with a flush. No drift, however memory moves between threads or tasks, and no loss at thread exit.
//! - **P2 fallible:** no request through `reserve`, `try_grow` or a fallible scope makes tracked exceed L. Zero
//!   overshoot.
//! - **P3 infallible:** the first one that does not fit fails its query. Tracked never exceeds L by more than the bytes
//!   that the polls of g's tasks running at that moment still allocate before they return or reach a checkpoint, **and
//!   never exceeds L + G** (destructors of killed futures and panic reporting excepted: they allocate with the limit
//!   lifted, metered separately).
//! - **P4 large:** a single request ≥ 1 MiB that does not fit is never granted as usable memory beyond L.
//! - **P5 survival:** a group limit never aborts the process, except: action `Abort`, a panic in a destructor during
//!   unwinding, or `handle_alloc_error` of an infallible allocation inside a fallible scope. At the quarantine cap the
//!   group is frozen.
//! - **P6 no early refusal** beyond T × 3 × chunk below L (adaptive chunk: at most about 3/8 of the remaining room).
//!
//! P3's L + G and P4 are by [`memory::MemoryOverrun::Quarantine`], the default on a runtime with several threads: the
//! thread is parked inside its poll, which never goes on, and another takes its place. What that poll holds stays
//! held, locks included, and shutting the runtime down would wait for it. A closure of the blocking pool is excepted: it is
//! granted what it asks for, its query is killed, and it goes on to its end. With `Overshoot` the request is granted and
//! the query ends at its next boundary; with `Abort` the standard library aborts the process. Not promised: resident
//! memory ≤ L (the allocator's slack, C code, `mmap`), and stopping a loop that does not allocate. In a loop without
//! awaits, call [`task::checkpoint`].
//!
//! # Where it runs
//!
//! By default a governor is *attached* ([`Host::Attached`]): `build` is called inside a tokio runtime, multi-thread or
//! current-thread, and one driver task per worker runs there. The runtime's set-up stays as it is; timers, sockets,
//! `spawn_blocking`, `select!` and the cooperative budget work inside tasks as they do in tokio's. Work on
//! `tokio::spawn` is in no group. Under this host tokio's own `yield_now` gives up more than a turn: use
//! [`task::yield_now`].
//!
//! [`Host::Owned`] has threads of its own and needs no runtime around it; [`Governor::block_on`] is the way in. Shares
//! hold there however tasks give way, and sockets and timers are served even while every worker is in a long poll.
//!
//! ```
//! use quotient::{Governor, Host};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let governor = Governor::builder().host(Host::Owned).workers(2).build()?;
//!     let answer = governor.block_on(async { quotient::spawn(async { 6 * 7 }).await })?;
//!     assert_eq!(answer, 42);
//!     Ok(())
//! }
//! ```
//!
//! # Crate features
//!
//! - `mimalloc` (on): mimalloc inside [`alloc::GroupAlloc`]; a C compiler is needed to build it. Without it, the
//!   system's allocator is inside. Either costs nothing unless `GroupAlloc` is the program's allocator.
//! - `tower` (off): the `tower` module, a layer for axum, tonic and every other tower service. Six small crates of
//!   traits and types; nothing at run time but where the layer is.
//! - `hyper` (off): the `hyper` module, hyper's executor and a serve loop whose connections are tasks of a group. Brings
//!   hyper and `tower`.
//! - `pgwire` (off): the `server` module, a port for psql and every other client of PostgreSQL. Some seventy-five
//!   crates; a thread while it serves.
//! - `postgres` (off): the `postgres` module, a catalog in PostgreSQL that a fleet of processes shares. Brings
//!   tokio-postgres; a thread and a connection.
//! - `dashboard` (off): `dashboard::router`, a page to look at, for axum. Pulls while somebody looks.
//! - `tracing` (off): [`event`]s, such as kills and long polls, under the target `quotient` of the crate `tracing`, its
//!   one dependency, and a span per task as tokio-console reads it. One comparison per spawn while nobody wants spans.
//! - `metrics` (off): `metrics::facade::publish`, once a second, to the recorder of the crate `metrics`.
//! - `prometheus` (off): `metrics::prometheus::render`, one page with that of `metrics-exporter-prometheus`.
//! - `cli` (off): the program `quotient`, which checks scripts, says where requests go, and simulates loads. Brings clap,
//!   serde_json and `sim`.
//! - `sim` (off): `sched::sim`, the simulator of the scheduling policy in virtual time, for tests of your own
//!   settings. No dependency, and nothing at run time.
//!
//! # What is kept stable
//!
//! Versions follow semantic versioning for what this page re-exports ([`task`] included); for [`io::Metered`],
//! [`io::IoResource`] and the modules `tower`, `hyper`, `server`, `postgres` and `dashboard`; for the plain values
//! that methods take and give: [`sql::Output`], [`sql::Value`], [`sql::SqlError`] and what they hold, the numbers of
//! [`mod@unit`], [`admission::WaitReason`], [`exec::stats`]; for the SQL; and for the names, types and labels in
//! [`metrics::names`].
//!
//! Everything else in the modules below is open for tests, simulation and the curious, and may change in any
//! version: [`catalog`], [`settings`], [`classify`], [`admission`], [`sched`], [`mem`], [`exec`] and the rest of
//! [`io`] are the stages of a request, [`metrics`] and [`view`] what is seen of them, [`governor`] and [`query`] hold
//! them together. Read from left to right they tell how it works; what a program needs of them is re-exported here.
//!
//! The repository's `docs/` has a guide, the SQL reference, and the decisions with their reasons.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod unit;

pub mod clock;
#[doc(hidden)]
pub mod sync;

mod foreign;

pub mod event;

pub mod sql;

pub mod catalog;

pub mod settings;

pub mod classify;

pub mod admission;

pub mod sched;

pub mod mem;

pub mod exec;

pub mod io;

pub mod query;

pub mod metrics;

pub mod view;

pub mod governor;

#[cfg(feature = "postgres")]
pub mod postgres;

#[cfg(feature = "tower")]
pub mod tower;

#[cfg(feature = "hyper")]
pub mod hyper;

#[cfg(feature = "pgwire")]
pub mod server;

#[cfg(any(feature = "metrics", feature = "prometheus"))]
mod publish;

#[cfg(feature = "dashboard")]
pub mod dashboard;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

#[doc(inline)]
pub use admission::AdmissionError;
#[doc(inline)]
pub use catalog::{CatalogMode, QueryType, store::CatalogStore};
#[doc(inline)]
pub use classify::Attributes;
#[doc(inline)]
pub use exec::hooks::TaskMeta;
#[doc(inline)]
pub use exec::join::{AbortHandle, JoinError, JoinHandle};
#[doc(inline)]
pub use exec::set::JoinSet;
#[doc(inline)]
pub use exec::stats::LongPoll;
#[doc(inline)]
pub use governor::{Builder, EnterGuard, Error, Governor, GroupHandle, Host, spawn};
#[doc(inline)]
pub use io::fs;
#[doc(inline)]
pub use query::{KillReason, Query, Runaway, Usage, record_scan_bytes, record_scan_rows};
#[doc(inline)]
pub use sched::breaker::{Action, BigQueryKind};
#[doc(inline)]
pub use settings::Settings;
#[doc(inline)]
pub use unit::{GroupId, QueryId};

/// The global allocator that knows whose every block is.
pub mod alloc {
    #[doc(inline)]
    pub use crate::mem::alloc::GroupAlloc;
    #[cfg(feature = "mimalloc")]
    #[doc(inline)]
    pub use crate::mem::alloc::Mimalloc;
}

/// Memory of the running task: asking for it, and living with less.
pub mod memory {
    #[doc(inline)]
    pub use crate::mem::desk::Registration;
    #[doc(inline)]
    pub use crate::mem::transfer::Buffer;
    #[doc(inline)]
    pub use crate::mem::{
        MemoryError, MemoryOverrun, MemoryScope, Reservation, Shortfall, fallible,
    };
    #[doc(inline)]
    pub use crate::query::memory::{on_pressure, reserve, transfer, try_reserve};
}

/// The drop-in for `tokio::task`.
///
/// There is no `spawn_local`: tasks move between workers, so what must stay on one thread is refused by the
/// compiler.
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// quotient::spawn(async move {
///     quotient::task::yield_now().await;
///     drop(shared);
/// });
/// ```
///
/// ```compile_fail,E0277
/// quotient::spawn(async { std::rc::Rc::new(1) });
/// ```
///
/// ```compile_fail,E0425
/// quotient::task::spawn_local(async {});
/// ```
pub mod task {
    #[doc(inline)]
    pub use crate::exec::abort_on_drop::{AbortOnDrop, AbortOnDropHandle};
    #[doc(inline)]
    pub use crate::exec::join::{AbortHandle, JoinError, JoinHandle};
    #[doc(inline)]
    pub use crate::exec::set::JoinSet;
    #[doc(inline)]
    pub use crate::exec::task::checkpoint;
    #[doc(inline)]
    pub use crate::exec::task::{Id, id, try_id, yield_now};
    #[doc(no_inline)]
    pub use crate::exec::task::{consume_budget, coop, unconstrained};
    #[doc(inline)]
    pub use crate::exec::worker::block_in_place;
    #[doc(inline)]
    pub use crate::governor::{SetBuilder, TaskBuilder as Builder, spawn, spawn_blocking};
    #[doc(inline)]
    pub use crate::query::{Current, current};
}

/// The Rust of the documents, compiled and run with the tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/sql.md")]
    mod sql {}
    #[doc = include_str!("../docs/guide/first-group.md")]
    mod first_group {}
    #[doc = include_str!("../docs/guide/classifiers.md")]
    mod classifiers {}
    #[doc = include_str!("../docs/guide/shares.md")]
    mod shares {}
    #[doc = include_str!("../docs/guide/running-work.md")]
    mod running_work {}
    #[doc = include_str!("../docs/guide/hosts.md")]
    mod hosts {}
    #[doc = include_str!("../docs/guide/tokio.md")]
    mod tokio {}
    #[doc = include_str!("../docs/guide/http.md")]
    mod http {}
    #[doc = include_str!("../docs/guide/administration.md")]
    mod administration {}
    #[doc = include_str!("../docs/guide/memory.md")]
    mod memory {}
    #[doc = include_str!("../docs/guide/operating.md")]
    mod operating {}
    #[cfg(feature = "prometheus")]
    #[doc = include_str!("../docs/guide/metrics.md")]
    mod metrics {}
    #[cfg(feature = "dashboard")]
    #[doc = include_str!("../docs/guide/dashboard.md")]
    mod dashboard {}
    #[cfg(feature = "postgres")]
    #[doc = include_str!("../docs/guide/fleet.md")]
    mod fleet {}
    #[doc = include_str!("../docs/guide/coming-from.md")]
    mod coming_from {}
    #[doc = include_str!("../docs/COMPARE.md")]
    mod compare {}
    #[doc = include_str!("../docs/guide/long-polls.md")]
    mod long_polls {}
    #[doc = include_str!("../docs/guide/cli.md")]
    mod cli {}
    #[doc = include_str!("../docs/guide/io.md")]
    mod io {}
    #[doc = include_str!("../docs/guide/runaway-queries.md")]
    mod runaway_queries {}
}
