//! The owned host: a thread of its own per worker, which also drive the runtime's I/O and timers.
//!
//! Mechanism; starting and waiting. The workers drive a current-thread tokio runtime when they have nothing to
//! do and at the end of each quantum; tasks are polled outside of its scheduler. The runtime is dropped by the last of its
//! threads, or by whoever is in `block_on` still.

mod affinity;
mod crewman;
mod driver;
mod engine;
mod lookout;

use crate::exec::core::Core;
use crate::exec::join::Cause;
use crate::exec::worker::Worker;
use crewman::Crewman;
use engine::{Engine, has_left};
use futures::future::{Either, select};
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use tokio::runtime::Handle;
use tokio::sync::watch;

/// The workers' threads, to be waited for.
pub(super) struct Crew {
    core: Arc<Core>,
    roll: watch::Receiver<usize>,
    /// In the order of the workers.
    threads: Vec<JoinHandle<()>>,
}

/// Where a thread that is no worker's runs a future.
pub(super) struct Berth(Weak<Engine>);

/// Starts a thread per worker. Should one of them break, its tasks go to the others; with the last one all end for
/// `abandoned`.
///
/// # Errors
///
/// If the runtime cannot be built or the system refuses a thread. Those that were started end then.
pub(super) fn start(
    core: &Arc<Core>,
    workers: Vec<Worker>,
    pinned: bool,
    abandoned: &Cause,
) -> io::Result<(Crew, Handle, Berth)> {
    let cpus = if pinned { affinity::cpus() } else { Vec::new() };
    let engine = Arc::new(Engine::new(core.clone(), &cpus)?);
    let weak = Arc::downgrade(&engine);
    let (mut crew, handle) = (
        Crew {
            core: core.clone(),
            roll: engine.roll(),
            threads: Vec::with_capacity(workers.len()),
        },
        engine.handle().clone(),
    );
    core.watchdog().watch_io({
        let engine = weak.clone();
        move |stuck| engine.upgrade().is_some_and(|engine| engine.watch(stuck))
    });
    // Even a single worker needs it: nobody else drives while that is in a long poll.
    core.watchdog().start(Arc::downgrade(core));
    // All of them first: those that get no thread must be seen to leave.
    let crewmen: Vec<_> = workers
        .into_iter()
        .map(|worker| Crewman::new(worker, &engine, abandoned.clone()))
        .collect();
    for (index, crewman) in crewmen.into_iter().enumerate() {
        let cpu = cpus.get(index % cpus.len().max(1)).copied();
        let run = move || {
            if let Some(cpu) = cpu {
                affinity::keep_to(&[cpu]);
            }
            crewman.work();
        };
        let started = thread::Builder::new()
            // Systems show fifteen characters.
            .name(format!("quotient-{index}"))
            .spawn(run);
        match started {
            Ok(thread) => crew.threads.push(thread),
            Err(error) => {
                core.cancel(abandoned.clone());
                return Err(error);
            }
        }
    }
    Ok((crew, handle, Berth(weak)))
}

impl Crew {
    /// Waits until all threads are gone, but for those that were parked for good. So is the runtime then, unless
    /// one was, or somebody is in `block_on`.
    pub(super) async fn gone(&mut self) {
        let core = &self.core;
        loop {
            let mut news = pin!(core.news());
            news.as_mut().enable();
            if has_left(core, *self.roll.borrow_and_update()) {
                break;
            }
            let change = pin!(self.roll.changed());
            if let Either::Left((Err(_), _)) = select(change, news).await {
                // Nobody is left who could be counted.
                break;
            }
        }
        for (index, thread) in self.threads.drain(..).enumerate() {
            if !core.is_lost(index) {
                // It has counted itself out, so it ends now. Panics were caught inside.
                let _ = thread.join();
            }
        }
    }
}

impl Berth {
    #[track_caller]
    pub(super) fn block_on<F: Future>(&self, runtime: &Handle, future: F) -> F::Output {
        match self.0.upgrade() {
            Some(engine) => engine.block_on(future),
            // After the end there are no timers and no I/O, but what needs neither still runs.
            None => runtime.block_on(future),
        }
    }
}
