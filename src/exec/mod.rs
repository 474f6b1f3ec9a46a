//! The executor: tasks, workers, charging, on the user's tokio runtime.
//!
//! A request's work passes through it like this:
//!
//! ```text
//! spawn ─▶ task (harness + cell) ─▶ group's queue ─▶ worker: pick group (level 1), turn (level 2),
//!              ▲                                     poll, charge ─┐
//!              └── wake ◀── timers, sockets, other tasks ◀─────────┘
//! ```
//!
//! It knows groups, accounts and opaque leases; it does not know what a statement, a classifier or a
//! permit is. What it decides, it asks [`sched`](crate::sched).

pub mod abort_on_drop;
pub mod account;
mod alarm;
mod blame;
pub mod blocking;
pub mod context;
pub mod core;
mod ending;
pub mod group;
pub mod hooks;
pub mod host;
mod incoming;
pub mod join;
mod latency;
pub mod limits;
mod moving;
pub mod set;
mod sleepers;
mod spares;
pub mod stats;
mod tally;
pub mod task;
mod waiting;
mod watchdog;
pub mod worker;
