//! Shutting down: admit nothing more, let what runs finish for a while, end the rest, join the workers.
//!
//! Wiring; any task.

use super::Governor;
use crate::exec::account::Account;
use crate::exec::task;
use crate::mem;
use crate::query::KillReason;
use futures::FutureExt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep};

/// How long `shutdown` sleeps between two looks at what is left.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

impl Governor {
    /// Stops admitting at once, waits up to `grace` for tasks to end by themselves, then ends the rest and
    /// waits for the workers. Every future is dropped by a worker, inside the runtime's context; handles of
    /// ended tasks yield [`KillReason::Shutdown`]. Spawns from then on give cancelled handles.
    ///
    /// A poll that never returns is waited for, as tokio's own shutdown does; not so one that was parked for want of
    /// memory, by [`MemoryOverrun::Quarantine`](crate::memory::MemoryOverrun::Quarantine): its future is never dropped.
    /// A blocking closure that runs is waited for within the grace time only: nothing can end it. A second call waits
    /// too. A task may shut its own governor down: it is not waited for, and ends with the rest.
    ///
    /// The grace time needs no timers of the runtime. tokio does not say whether it has them but by a panic, which
    /// is caught here; a panic hook sees it.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped while it waits for the grace time, admission stays closed and nothing was ended; call
    /// it again. Later, everything is being ended, and a second call waits for the end.
    pub async fn shutdown(&self, grace: Duration) {
        {
            let _ours = mem::enter_process();
            self.inner.gate.close();
        }
        self.inner.closing.send_replace(true);
        let deadline = Instant::now().checked_add(grace);
        let own = task::current().is_some_and(|task| self.is_of(&task.account));
        let mut rests = Rests::default();
        let busy = || self.inner.core.live() + self.inner.core.blocking();
        while busy() > u64::from(own) && deadline.is_none_or(|deadline| Instant::now() < deadline) {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline - Instant::now());
            if !rests.rest(left.min(LOOK_AGAIN)).await {
                break;
            }
        }
        self.inner.core.cancel(KillReason::Shutdown.into_cause());
        // Whoever is waited for stays in it, so that every call waits, and goes on where a dropped one was.
        self.inner.crew.lock().await.gone().await;
        self.inner.stop_background();
    }

    /// Ready when a [`shutdown`](Governor::shutdown) has begun, or when the last `Governor` value is gone: for
    /// whatever holds something open that the shutdown should not wait for, such as idle connections. The future does
    /// not keep the governor.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it holds nothing.
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut closing = self.inner.closing.subscribe();
        async move {
            // An error means that the governor is gone.
            let _ = closing.wait_for(|closing| *closing).await;
        }
    }

    fn is_of(&self, account: &Account) -> bool {
        Arc::ptr_eq(account.group().core(), &self.inner.core)
    }
}

/// Sleeps by tokio's timers, which a paused clock knows of; without them, at the beat of a thread.
#[derive(Default)]
pub(super) struct Rests {
    beats: Option<UnboundedReceiver<()>>,
}

impl Rests {
    /// False if there is no way to sleep.
    pub(super) async fn rest(&mut self, length: Duration) -> bool {
        if self.beats.is_none() {
            let slept = AssertUnwindSafe(async { sleep(length).await });
            if slept.catch_unwind().await.is_ok() {
                return true;
            }
        }
        let beats = self.beats.get_or_insert_with(metronome);
        beats.recv().await.is_some()
    }
}

/// Beats until the receiver is dropped. One that cannot be started is silent.
fn metronome() -> UnboundedReceiver<()> {
    let (beat, beats) = unbounded_channel();
    let run = move || {
        while beat.send(()).is_ok() {
            thread::sleep(LOOK_AGAIN);
        }
    };
    // Without a thread the sender is dropped, which the receiver sees.
    let _ = thread::Builder::new()
        .name("quotient-grace".into())
        .spawn(run);
    beats
}
