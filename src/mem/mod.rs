//! Memory: whose every block is, how much each may have, and what happens to a request that does not fit.
//!
//! ```text
//! Vec::push ─▶ GroupAlloc ─▶ the thread's credit of the current owner ──enough──▶ block, tagged
//!                                     │ not enough
//!                                     ▼
//!              query ─▶ group ─▶ governor ─▶ process:  each charged, none beyond its limit
//!                                     │ does not fit
//!                                     ▼
//!              fallible: null  ·  within the grace: granted, somebody is doomed  ·  else: the configured action
//! ```
//!
//! Owners are numbers in a static table, opened by [`OwnerHandle`]; a thread works for one at a time ([`enter`]), and
//! the executor enters a task's owner around each of its polls. Nothing in here knows of tasks or SQL.
//!
//! - [`pressure`]: what the kernel says of this process and its cgroup, and what "memory used" means.
//! - [`waiting`]: reservations that do not fit yet, in their order.
//! - [`reservation`], [`desk`]: memory that is promised before it is used, and where it is asked for.
//! - `promise`: allocations are taken out of what their owner has reserved.
//! - [`transfer`]: large buffers change their owner.
//! - [`spill`]: who is asked for memory back, and for how much.

pub mod alloc;
pub mod desk;
mod doom;
mod error;
mod fallible;
mod life;
mod local;
mod owner;
pub mod pressure;
mod promise;
pub mod reservation;
mod rules;
mod serve;
mod shortfall;
mod slot;
pub mod spill;
mod tenure;
pub mod transfer;
pub mod waiting;

/// The atomics of [`life`], which is compiled a second time over loom's to be model-checked.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

#[cfg(all(test, quotient_loom))]
mod modelled;

/// Gives memory that is free but kept by [`GroupAlloc`](alloc::GroupAlloc)'s mimalloc back to the system, as far as it
/// is kept for the calling thread or for nobody. Nothing where another allocator is inside.
pub fn collect() {
    #[cfg(feature = "mimalloc")]
    if is_installed() {
        alloc::Mimalloc::collect();
    }
}

pub(crate) use doom::dooms;
pub use error::MemoryError;
pub(crate) use fallible::lifted;
pub use fallible::{fallible, is_fallible};
pub use owner::{Entered, Owner, OwnerHandle, enter, is_installed, root_used, shared_owners};
pub(crate) use owner::{enter_process, enter_unbound};
pub use reservation::Reservation;
pub use rules::{
    CHUNK, LARGE, MemoryOverrun, Request, Ruling, chunk, excess, grace, holds_its_share,
    is_pledged, rule,
};
pub use serve::{Serving, serve};
pub(crate) use serve::{flush, is_doomed_here, look_at_returns, take_doom, take_refusal};
pub use shortfall::{MemoryScope, Shortfall};
