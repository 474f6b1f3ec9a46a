//! tokio's cooperative budget, made to last.
//!
//! Mechanism; the worker's own thread, inside its driver's poll.

use std::task::{Context, Poll, Waker};
use tokio::task::coop::{self, RestoreOnPending};

/// tokio's cooperative budget, which its driver task has once and our tasks need again and again.
///
/// The guard of `poll_proceed` restores on drop what the budget was when it was made. Held across polls and
/// renewed when the budget is spent, it lets every task use up a whole one, at a price of nothing per poll.
pub(super) struct Budget(Option<RestoreOnPending>);

impl Budget {
    pub(super) fn new() -> Budget {
        let mut nobody = Context::from_waker(Waker::noop());
        match coop::poll_proceed(&mut nobody) {
            Poll::Ready(guard) => Budget(Some(guard)),
            // Spent before we came; the host gives the driver a new one when it returns.
            Poll::Pending => Budget(None),
        }
    }

    pub(super) fn renew(&mut self) {
        self.0 = None;
        *self = Budget::new();
    }
}
