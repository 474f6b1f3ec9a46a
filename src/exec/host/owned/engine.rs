//! The engine room of the owned host: the runtime that its threads drive, and who drives it now.
//!
//! Mechanism; any thread. Raw tokio tasks, I/O and timers live on a current-thread runtime whose core is driven
//! by one thread at a time: a worker that sleeps, a worker at the end of its quantum, or, while every worker is
//! in a long poll, a [lookout](Lookout).

use super::affinity;
use super::driver::Driver;
use super::lookout::Lookout;
use crate::exec::core::Core;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

/// How many raw tokio tasks run before the root future, that is the worker, is looked at again.
const RAW_TASKS: u32 = 16;

pub(super) struct Engine {
    /// None only while it is being dropped.
    runtime: Option<Runtime>,
    handle: Handle,
    core: Arc<Core>,
    driver: Driver,
    lookout: Lookout,
    /// Workers that have not left for good. Threads that stand in for some are not counted.
    crew: AtomicUsize,
    /// Threads that drive or work.
    present: watch::Sender<usize>,
}

/// Counted while it lives.
pub(super) struct Present(watch::Sender<usize>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.send_modify(|present| *present -= 1);
    }
}

impl Engine {
    /// `cpus`: those among which workers are pinned, if they are.
    pub(super) fn new(core: Arc<Core>, cpus: &[usize]) -> io::Result<Engine> {
        let mut builder = Builder::new_current_thread();
        builder
            .enable_all()
            .event_interval(RAW_TASKS)
            .thread_name("quotient-blocking");
        if !cpus.is_empty() {
            // A thread of the blocking pool is started by a worker and would stay on that one's CPU.
            let cpus = cpus.to_vec();
            let ours = cpus.clone();
            core.pool().on_start(move || affinity::keep_to(&ours));
            builder.on_thread_start(move || affinity::keep_to(&cpus));
        }
        let runtime = builder.build()?;
        Ok(Engine {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
            driver: Driver::new(),
            lookout: Lookout::new(),
            crew: AtomicUsize::new(core.workers()),
            core,
            present: watch::Sender::new(0),
        })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(super) fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    pub(super) fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Counts the thread that will own the value.
    pub(super) fn enlist(&self) -> Present {
        self.present.send_modify(|present| *present += 1);
        Present(self.present.clone())
    }

    /// How many threads are counted.
    pub(super) fn roll(&self) -> watch::Receiver<usize> {
        self.present.subscribe()
    }

    /// Drives the runtime until `future` is ready; None if somebody drives it already.
    pub(super) fn drive<F: Future>(&self, future: F) -> Option<F::Output> {
        struct LetGo<'a>(&'a Driver);
        impl Drop for LetGo<'_> {
            fn drop(&mut self) {
                self.0.let_go();
            }
        }
        let runtime = self.runtime.as_ref()?;
        if !self.driver.take() {
            return None;
        }
        let _held = LetGo(&self.driver);
        Some(runtime.block_on(future))
    }

    /// One look at I/O and timers, and a turn for raw tokio tasks, unless somebody is at it anyway.
    pub(super) fn look(&self) {
        let mut looked = false;
        let turn = poll_fn(|cx| {
            if std::mem::replace(&mut looked, true) {
                return Poll::Ready(());
            }
            // With its root awake the runtime polls its tasks and the driver once, and does not sleep.
            cx.waker().wake_by_ref();
            Poll::Pending
        });
        let _ = self.drive(turn);
    }

    /// Wakes a resting worker to take the driver, if that is free. True if one was woken.
    pub(super) fn hand_over(&self) -> bool {
        let heir = self.driver.heir();
        if let Some(seat) = heir.and_then(|worker| self.core.seat(worker)) {
            seat.waker.wake();
        }
        heir.is_some()
    }

    /// The watchdog's regular look. `stuck`: no worker comes to drive in a moment. True if that was so.
    pub(super) fn watch(self: &Arc<Self>, stuck: bool) -> bool {
        if self.core.is_unmanned() {
            self.lookout.dismiss();
            return false;
        }
        if stuck && !self.driver.is_held() && !self.hand_over() {
            self.lookout.call(self);
        }
        stuck
    }

    /// A worker can look after I/O itself from now on: sends the lookout away.
    pub(super) fn relieve(&self) {
        self.lookout.relieve();
    }

    /// A worker's thread leaves for good: somebody else must have the driver, or nobody needs it any more.
    pub(super) fn leave(&self) {
        if self.crew.fetch_sub(1, SeqCst) - 1 <= self.core.lost_workers() {
            self.lookout.dismiss();
        } else {
            self.hand_over();
        }
    }

    /// Runs a future on the calling thread, served by the workers; once those are gone, it serves itself.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut roll = self.roll();
        let output = {
            let mut deserted = pin!(roll.wait_for(|&present| has_left(&self.core, present)));
            let until = poll_fn(|cx| match future.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending => deserted.as_mut().poll(cx).map(|_| None),
            });
            self.handle.block_on(until)
        };
        match (output, &self.runtime) {
            (Some(output), _) => output,
            (None, Some(runtime)) => runtime.block_on(future),
            (None, None) => self.handle.block_on(future),
        }
    }
}

/// Whether so many threads are those that were parked for good inside a poll, and no others; and stand-ins have ended
/// what these were to end.
pub(super) fn has_left(core: &Core, present: usize) -> bool {
    present <= core.lost_workers() && core.is_settled()
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The last reference may be let go of inside another runtime, where a plain drop panics since it may block. And
        // a runtime whose driver broke panics in any case.
        if let Some(runtime) = self.runtime.take() {
            let _ = catch_unwind(AssertUnwindSafe(|| runtime.shutdown_background()));
        }
    }
}
