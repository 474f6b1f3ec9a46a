//! The attached host: one driver task per worker on the user's own tokio runtime.
//!
//! Mechanism; runs on tokio's worker threads. Nothing of the user's set-up changes, I/O and timers are
//! native. The driver gives the thread back to tokio at the end of a quantum *through `yield_now`*: tokio then
//! polls I/O and timers before the driver again. Waking itself instead would leave them to tokio's
//! every-61-ticks maintenance (measured: timers 100 ms late instead of 1.2).

use crate::exec::core::Core;
use crate::exec::join::Cause;
use crate::exec::worker::{Exit, Worker};
use futures::future::{Either, select};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The drivers, to be waited for.
pub struct Crew {
    core: Arc<Core>,
    /// By the worker's number.
    drivers: Vec<(usize, JoinHandle<()>)>,
}

impl Crew {
    /// Waits until all drivers are gone, but for those whose threads were parked for good.
    pub(super) async fn gone(&mut self) {
        loop {
            let mut news = pin!(self.core.news());
            news.as_mut().enable();
            self.drivers
                .retain(|&(worker, _)| !self.core.is_lost(worker));
            match self.drivers.last_mut() {
                Some((_, driver)) => {
                    // An error means that the runtime dropped the driver, which ended its tasks too.
                    if let Either::Left(_) = select(driver, news).await {
                        self.drivers.pop();
                    }
                }
                None if self.core.is_settled() => return,
                None => news.await,
            }
        }
    }
}

/// Starts a driver per worker. If the runtime is dropped under them, every task ends for `abandoned`.
pub(super) fn start(
    core: &Arc<Core>,
    runtime: &Handle,
    workers: Vec<Worker>,
    abandoned: &Cause,
) -> Crew {
    let drive = |worker| {
        let mut driver = Driver {
            worker,
            asleep: false,
            over: false,
            abandoned: abandoned.clone(),
        };
        let index = driver.worker.index();
        (index, runtime.spawn(poll_fn(move |cx| driver.poll(cx))))
    };
    Crew {
        core: core.clone(),
        drivers: workers.into_iter().map(drive).collect(),
    }
}

struct Driver {
    worker: Worker,
    asleep: bool,
    over: bool,
    abandoned: Cause,
}

impl Driver {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.asleep) {
            self.worker.awake();
        }
        loop {
            match self.worker.run() {
                Exit::Stop => {
                    self.over = true;
                    self.worker.retire();
                    return Poll::Ready(());
                }
                Exit::Yield => {
                    // One poll defers our wake-up until tokio has looked after I/O; the rest is not needed.
                    let _ = pin!(tokio::task::yield_now()).poll(cx);
                    return Poll::Pending;
                }
                Exit::Idle => {
                    self.worker.register(cx.waker());
                    if self.worker.prepare_to_sleep() {
                        self.asleep = true;
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.over {
            self.worker.abandon(&self.abandoned);
        }
    }
}
