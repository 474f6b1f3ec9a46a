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

pub mod metrics;

pub mod view;

pub mod governor;
