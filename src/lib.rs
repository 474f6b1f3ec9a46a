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
//! | queries at once | at most `concurrency_limit` per group; excess ones are refused, none waits |
//! | one poll | not interrupted, as in tokio: a group is felt by the others for as long as its longest poll |
//! | memory, IO, waiting places, big queries | their properties are accepted, stored and shown, and every answer says `not enforced by this version` |
//!
//! # Where it runs
//!
//! A governor is *attached* ([`Host::Attached`]): `build` is called inside a tokio runtime, multi-thread or
//! current-thread, and one driver task per worker runs there. The runtime's set-up stays as it is; timers, sockets,
//! `spawn_blocking`, `select!` and the cooperative budget work inside tasks as they do in tokio's. Work on
//! `tokio::spawn` is in no group. Under this host tokio's own `yield_now` gives up more than a turn: use
//! [`task::yield_now`].
//!
//! # Crate features
//!
//! - `sim` (off): `sched::sim`, the simulator of the scheduling policy in virtual time, for tests of your own
//!   settings. No dependency, and nothing at run time.
//! - `tracing` (off): [`event`]s, such as kills, under the target `quotient` of the crate `tracing`. Nothing on the hot
//!   path.
//!
//! # What is kept stable
//!
//! Versions follow semantic versioning for what this page re-exports ([`task`] included) and for the plain values
//! that its methods take and give: [`sql::Output`], [`sql::Value`], [`sql::SqlError`] and what they hold, the
//! numbers of [`mod@unit`], [`admission::WaitReason`], [`exec::stats`]; for the SQL; and for the names, types and labels
//! in [`metrics::names`].
//!
//! Everything else in the modules below is open for tests, simulation and the curious, and may change in any
//! version: [`catalog`], [`classify`], [`admission`], [`sched`] and [`exec`] are the stages of a request,
//! [`metrics`] and [`view`] what is seen of them, [`governor`] and [`query`] hold them together. Read from left to
//! right they tell how it works; what a program needs of them is re-exported here.
//!
//! The repository's `docs/` has a guide, the SQL reference, and the decisions with their reasons.

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod unit;

pub mod clock;
#[doc(hidden)]
pub mod sync;

pub mod event;

pub mod sql;

pub mod catalog;

pub mod classify;

pub mod admission;

pub mod sched;

pub mod exec;

pub mod query;

pub mod metrics;

pub mod view;

pub mod governor;

#[doc(inline)]
pub use admission::AdmissionError;
#[doc(inline)]
pub use catalog::QueryType;
#[doc(inline)]
pub use classify::Attributes;
#[doc(inline)]
pub use exec::hooks::TaskMeta;
#[doc(inline)]
pub use exec::join::{AbortHandle, JoinError, JoinHandle};
#[doc(inline)]
pub use exec::set::JoinSet;
#[doc(inline)]
pub use governor::{Builder, EnterGuard, Error, Governor, GroupHandle, Host, spawn};
#[doc(inline)]
pub use query::{KillReason, Query, Usage, record_scan_bytes, record_scan_rows};
#[doc(inline)]
pub use unit::{GroupId, QueryId};

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
    pub use crate::exec::task::{Id, id, try_id, yield_now};
    #[doc(no_inline)]
    pub use crate::exec::task::{consume_budget, coop, unconstrained};
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
    #[doc = include_str!("../docs/guide/running-work.md")]
    mod running_work {}
    #[doc = include_str!("../docs/guide/tokio.md")]
    mod tokio {}
    #[doc = include_str!("../docs/guide/administration.md")]
    mod administration {}
    #[doc = include_str!("../docs/guide/metrics.md")]
    mod metrics {}
}
