//! Shutting down: admit nothing more, let what runs finish for a while, end the rest, join the workers.

use super::{Governor, LOOK_AGAIN};
use crate::exec::account::Account;
use crate::exec::task;
use crate::query::KillReason;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

impl Governor {
    /// Stops admitting at once, waits up to `grace` for tasks to end by themselves, then ends the rest and
    /// waits for the workers. Every future is dropped by a worker, inside the runtime's context; handles of
    /// ended tasks yield [`KillReason::Shutdown`]. Spawns from then on give cancelled handles.
    ///
    /// A poll that never returns is waited for, as tokio's own shutdown does. A second call waits too. A task
    /// may shut its own governor down: it is not waited for, and ends with the rest.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped while it waits for the grace time, admission stays closed and nothing was ended; call
    /// it again. Later, everything is being ended, and a second call waits for the end.
    pub async fn shutdown(&self, grace: Duration) {
        self.inner.gate.close();
        let deadline = Instant::now().checked_add(grace);
        let own = task::current().is_some_and(|task| self.is_of(&task.account));
        while self.inner.core.live() > u64::from(own)
            && deadline.is_none_or(|deadline| Instant::now() < deadline)
        {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline - Instant::now());
            sleep(left.min(LOOK_AGAIN.into())).await;
        }
        self.inner.core.cancel(KillReason::Shutdown.into_cause());
        // Each stays until it was waited for, so that every call waits, and goes on where a dropped one was.
        let mut drivers = self.inner.drivers.lock().await;
        while let Some(driver) = drivers.last_mut() {
            // An error means that the runtime dropped the driver, which ended its tasks too.
            let _ = driver.await;
            drivers.pop();
        }
    }

    fn is_of(&self, account: &Account) -> bool {
        Arc::ptr_eq(account.group().core(), &self.inner.core)
    }
}
