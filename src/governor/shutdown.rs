//! Shutting down: admit nothing more, let what runs finish for a while, end the rest, join the workers.

use super::{Governor, LOOK_AGAIN};
use crate::query::KillReason;
use std::time::Duration;
use tokio::time::{Instant, sleep};

impl Governor {
    /// Stops admitting at once, waits up to `grace` for tasks to end by themselves, then ends the rest and
    /// waits for the workers. Every future is dropped by a worker, inside the runtime's context; handles of
    /// ended tasks yield [`KillReason::Shutdown`]. Spawns from then on give cancelled handles.
    ///
    /// A poll that never returns is waited for, as tokio's own shutdown does. A second call waits too.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped while it waits for the grace time, admission stays closed and nothing was ended; call
    /// it again.
    pub async fn shutdown(&self, grace: Duration) {
        self.inner.gate.close();
        let deadline = Instant::now().checked_add(grace);
        while self.inner.core.live() > 0
            && deadline.is_none_or(|deadline| Instant::now() < deadline)
        {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline - Instant::now());
            sleep(left.min(LOOK_AGAIN.into())).await;
        }
        self.inner.core.cancel(KillReason::Shutdown.into_cause());
        let drivers = std::mem::take(&mut *self.inner.drivers.lock());
        for driver in drivers {
            // An error means that the runtime dropped the driver, which ended its tasks too.
            let _ = driver.await;
        }
    }
}
