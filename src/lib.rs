//! SQL-administered resource groups for async Rust.
//!
//! (The front page is written when the rooms stand.)

#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod unit;

pub mod clock;
pub mod sync;

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

pub use admission::AdmissionError;
pub use catalog::QueryType;
pub use classify::Attributes;
pub use exec::join::{AbortHandle, JoinError, JoinHandle};
pub use governor::{Builder, EnterGuard, Error, Governor, GroupHandle, Host, spawn};
pub use query::{KillReason, Query, Usage, record_scan_bytes, record_scan_rows};

/// The drop-in for `tokio::task`.
pub mod task {
    pub use crate::exec::task::{Id, id, try_id, yield_now};
    pub use crate::governor::spawn;
    pub use crate::query::{Current, current};
}
