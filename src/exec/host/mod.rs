//! Who drives the workers: the executor's border to a runtime.
//!
//! Mechanism; any thread. Both hosts do the same with a [`Worker`]: run it, look after
//! I/O and timers, let it sleep. They differ in whose threads those are.

pub mod attached;
mod owned;
mod quarantine;

pub use quarantine::{park_attached, park_owned};

use crate::exec::core::Core;
use crate::exec::join::Cause;
use crate::exec::worker::Worker;
use std::future::Future;
use std::io;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Those who drive the workers, to be waited for.
pub struct Crew(Kind);

enum Kind {
    Attached(attached::Crew),
    Owned(owned::Crew),
}

/// The way in for a thread that wants to wait for a future.
pub struct Entrance {
    runtime: Handle,
    owned: Option<owned::Berth>,
}

/// Lets tasks on this runtime drive the workers.
pub fn attach(
    core: &Arc<Core>,
    runtime: Handle,
    workers: Vec<Worker>,
    abandoned: &Cause,
) -> (Crew, Entrance) {
    core.driven_by(&runtime);
    let crew = attached::start(core, &runtime, workers, abandoned);
    let entrance = Entrance {
        runtime,
        owned: None,
    };
    (Crew(Kind::Attached(crew)), entrance)
}

/// Starts threads that drive the workers and a runtime of their own; if `pinned`, each on a CPU of its own.
///
/// # Errors
///
/// If the system refuses a thread or what the runtime needs. Nothing is left running then.
pub fn own(
    core: &Arc<Core>,
    workers: Vec<Worker>,
    pinned: bool,
    abandoned: &Cause,
) -> io::Result<(Crew, Entrance)> {
    let (crew, runtime, berth) = owned::start(core, workers, pinned, abandoned)?;
    core.driven_by(&runtime);
    let entrance = Entrance {
        runtime,
        owned: Some(berth),
    };
    Ok((Crew(Kind::Owned(crew)), entrance))
}

impl Crew {
    /// Waits until nobody drives a worker any more, but for those whose threads were parked for good: they are not
    /// waited for, and what they were to end is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call waits for those who are left.
    pub async fn gone(&mut self) {
        match &mut self.0 {
            Kind::Attached(crew) => crew.gone().await,
            Kind::Owned(crew) => crew.gone().await,
        }
    }
}

impl Entrance {
    /// The runtime that serves I/O, timers and raw tokio tasks.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Runs a future on the calling thread, which must not be inside a runtime.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match &self.owned {
            Some(berth) => berth.block_on(&self.runtime, future),
            None => self.runtime.block_on(future),
        }
    }
}
