//! The wait before bytes pass: for the group's `max_io_bytes_per_second`, which its files and its metered streams have
//! together.
//!
//! Mechanism; whichever thread polls. Invariants:
//! 1. Whoever waits holds no thread and no bytes. One that is dropped costs nobody anything.
//! 2. A pass is paid from where the bytes pass, also for a call that nobody waits for any more; what it does not need
//!    goes to whoever is next.

use crate::exec::account::Account;
use crate::exec::task::surroundings;
use crate::io::flow::{self, Flow};
use crate::io::turnstile::{Grant, Place, Unserved};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

/// A place in the line of the running task's group, for one operation after the other.
#[derive(Default)]
pub(super) struct Toll {
    waits: Option<Wait>,
}

struct Wait {
    account: Arc<Account>,
    place: Place,
    since: Instant,
}

/// So many bytes may pass.
pub(super) struct Pass {
    most: usize,
    /// None where nothing is limited.
    grant: Option<Grant>,
}

impl Pass {
    /// Through no limit.
    pub(super) fn free(most: usize) -> Pass {
        Pass { most, grant: None }
    }

    fn of(grant: Grant, want: usize) -> Pass {
        let granted = usize::try_from(grant.bytes()).unwrap_or(usize::MAX);
        Pass {
            most: granted.min(want).max(1),
            grant: Some(grant),
        }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// So many bytes have passed.
    pub(super) fn pay(self, bytes: u64) {
        if let Some(grant) = self.grant {
            grant.spend(bytes);
        }
    }
}

/// Whether the group of whoever runs on this thread is limited.
pub(super) fn is_limited() -> bool {
    flow::of(&surroundings().account).is_some_and(Flow::is_limited)
}

/// Waits until some of `want` bytes may pass.
///
/// # Cancel safety
///
/// The place in the line is given up.
pub(super) async fn pass(want: usize) -> io::Result<Pass> {
    let mut toll = Toll::default();
    poll_fn(|cx| toll.poll(want, cx)).await
}

impl Toll {
    /// Ready when some of `want` bytes may pass, at least one.
    pub(super) fn poll(&mut self, want: usize, cx: &mut Context<'_>) -> Poll<io::Result<Pass>> {
        if self.waits.is_none() {
            let account = surroundings().account;
            let Some(flow) = flow::of(&account).filter(|flow| flow.is_limited()) else {
                return Poll::Ready(Ok(Pass::free(want)));
            };
            match flow.own.arrive(want as u64, flow.beat(), cx) {
                Ok(Ok(grant)) => return Poll::Ready(Ok(Pass::of(grant, want))),
                Ok(Err(place)) => {
                    self.waits = Some(Wait {
                        account,
                        place,
                        since: Instant::now(),
                    });
                    return Poll::Pending;
                }
                Err(why) => return Poll::Ready(without_wait(flow, why, want)),
            }
        }
        let Some(wait) = &mut self.waits else {
            return Poll::Ready(Ok(Pass::free(want)));
        };
        let granted = match flow::of(&wait.account) {
            Some(flow) => match ready!(wait.place.poll(flow.beat(), cx)) {
                Ok(grant) => Ok(Pass::of(grant, want)),
                Err(why) => without_wait(flow, why, want),
            },
            None => Ok(Pass::free(want)),
        };
        self.waits = None;
        Poll::Ready(granted)
    }
}

fn without_wait(flow: &Flow, why: Unserved, want: usize) -> io::Result<Pass> {
    match why {
        // Nobody limits anything any more.
        Unserved::Over => Ok(Pass::free(want)),
        Unserved::NoTimers => Err(flow.no_timers()),
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.account.record_io_wait(self.since.elapsed().into());
    }
}
