//! A worker's own thread: runs slices, looks after I/O at the end of each quantum, sleeps with the driver if it is free.
//!
//! Mechanism; the worker's thread. Task polls run inside `Handle::block_on`, outside of tokio's scheduler: there
//! tokio defers no wake-up, so that its own `yield_now`, a spent budget and self-wakes all put a task back at
//! once. The cooperative budget holds and a nested `block_on` panics, as on a thread of tokio's.

use super::engine::{Engine, Present};
use crate::event;
use crate::exec::join::Cause;
use crate::exec::worker::{Exit, Worker};
use crate::unit::Nanos;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Whoever has been awake for so long leaves the driver to one that sleeps, if one does; and at once, if it was
/// so the last time. Shorter stints keep it: handing over costs a switch of threads per event otherwise.
const STINT: Nanos = Nanos::from_millis(1);

/// A quantum with a poll that keeps I/O waiting takes longer than this.
const LONG: Nanos = Nanos::from_millis(2);
/// After so many shorter ones in a row the worker looks after I/O itself again.
const CALM: u32 = 8;

/// A worker and the thread that it will have.
pub(super) struct Crewman {
    worker: Worker,
    engine: Arc<Engine>,
    abandoned: Cause,
    over: bool,
    awake_since: Nanos,
    long_stint: bool,
    /// Short quanta in a row.
    calm: u32,
    // Last: whoever waits for the count to fall may rely on all else being gone.
    _present: Present,
}

enum Call {
    /// There is work.
    Rise,
    /// Nobody drives the runtime.
    Drive,
}

impl Crewman {
    pub(super) fn new(worker: Worker, engine: &Arc<Engine>, abandoned: Cause) -> Crewman {
        worker.never_defers();
        Crewman {
            worker,
            _present: engine.enlist(),
            engine: engine.clone(),
            abandoned,
            over: false,
            awake_since: Nanos::ZERO,
            long_stint: false,
            calm: 0,
        }
    }

    /// Works until the executor is over. A panic in here, which is a bug of ours or of a waker that the driver
    /// called, costs this worker; the last one ends all tasks.
    pub(super) fn work(mut self) {
        self.awake_since = self.now();
        if catch_unwind(AssertUnwindSafe(|| self.run())).is_err() {
            event::worker_lost(self.worker.index());
        }
    }

    fn run(&mut self) {
        loop {
            let begun = self.now();
            let exit = {
                let worker = &self.worker;
                let slices = poll_fn(|_| Poll::Ready(worker.run()));
                self.engine.handle().block_on(slices)
            };
            match exit {
                Exit::Stop => {
                    self.over = true;
                    self.worker.retire();
                    return;
                }
                Exit::Yield => self.look(begun),
                Exit::Idle => self.sleep(),
            }
        }
    }

    /// The end of a quantum.
    fn look(&mut self, begun: Nanos) {
        let now = self.now();
        self.calm = if now.since(begun) < LONG {
            self.calm.saturating_add(1)
        } else {
            0
        };
        if self.calm >= CALM {
            self.engine.relieve();
        }
        self.engine.look();
        if now.since(self.awake_since) >= STINT {
            self.long_stint = true;
            self.engine.hand_over();
        }
    }

    fn sleep(&mut self) {
        if !self.worker.prepare_to_sleep() {
            return;
        }
        self.engine.relieve();
        let now = self.now();
        self.long_stint = now.since(self.awake_since) >= STINT;
        loop {
            let driven = self.engine.drive(poll_fn(|cx| self.wait(cx, true)));
            let call = driven.unwrap_or_else(|| {
                let call = self
                    .engine
                    .handle()
                    .block_on(poll_fn(|cx| self.wait(cx, false)));
                self.engine.driver().rise(self.worker.index());
                call
            });
            if let Call::Rise = call {
                break;
            }
        }
        self.worker.awake();
        self.awake_since = self.now();
        if self.long_stint {
            self.engine.hand_over();
        }
    }

    /// Sleeps until there is work. tokio polls this with one waker while another thread drives and with another
    /// one while this does: the last one counts, so it is registered at every poll, and only then looked.
    fn wait(&self, cx: &mut Context<'_>, driving: bool) -> Poll<Call> {
        self.worker.register(cx.waker());
        if self.worker.is_called() {
            return Poll::Ready(Call::Rise);
        }
        if !driving {
            let driver = self.engine.driver();
            driver.rest(self.worker.index());
            if !driver.is_held() {
                return Poll::Ready(Call::Drive);
            }
        }
        Poll::Pending
    }

    fn now(&self) -> Nanos {
        self.worker.core().clock().now()
    }
}

impl Drop for Crewman {
    fn drop(&mut self) {
        if !self.over {
            // Inside the context, since futures may be dropped; contained, since this may be an unwinding.
            let abandon = || {
                let _inside = self.engine.handle().enter();
                self.worker.abandon(&self.abandoned);
            };
            let _ = catch_unwind(AssertUnwindSafe(abandon));
        }
        // Whoever hands the driver over must not choose one that is gone.
        self.engine.driver().rise(self.worker.index());
        self.engine.leave();
    }
}
