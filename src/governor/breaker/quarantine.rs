//! Requests that are refused for a while because queries like them were killed.
//!
//! Wiring; any thread.

use super::{Breaker, Entry, Inner};
use crate::admission::AdmissionError;
use crate::admission::watch::{Watch, WatchId};
use crate::clock;
use crate::event;
use crate::query::Runaway;
use crate::unit::{GroupId, Nanos};

impl Breaker {
    fn now(&self) -> Nanos {
        self.began.elapsed().into()
    }

    /// The watches that have not ended, and the present instant as they count it.
    pub(in crate::governor) fn watches(&self) -> (Vec<Watch>, Nanos) {
        let now = self.now();
        (self.watches.lock().list(now), now)
    }

    /// False if there is none of that id.
    pub(in crate::governor) fn drop_watch(&self, id: WatchId) -> bool {
        self.watches.lock().end(id)
    }

    /// Only these groups watch anybody.
    pub(super) fn keep_watches(&self, watching: impl Fn(GroupId) -> bool) {
        let mut watches = self.watches.lock();
        if !watches.is_empty() {
            watches.keep(watching);
        }
    }

    /// Refuses a request of a kind that is watched.
    pub(in crate::governor) fn let_in(
        &self,
        entry: &Entry,
        fingerprint: Option<u64>,
    ) -> Result<(), AdmissionError> {
        let Some(fingerprint) = fingerprint else {
            return Ok(());
        };
        let now = self.now();
        let refusal = self.watches.lock().refuses(entry.key, fingerprint, now);
        match refusal {
            None => Ok(()),
            Some(refusal) => {
                entry.fuse.refused();
                let refused = AdmissionError::Watched {
                    group: entry.name.clone(),
                    until: clock::wall_after(refusal.until.since(now)),
                    report: refusal.report,
                };
                event::refused(&entry.name, &refused);
                Err(refused)
            }
        }
    }
}

impl Inner {
    /// A limit ended a query: one more of its kind.
    pub(super) fn quarantine(&self, entry: &Entry, runaway: &Runaway) {
        if let (Some(rule), Some(fingerprint)) = (entry.fuse.rule(), runaway.fingerprint) {
            let (now, report) = (self.breaker.now(), runaway.to_string().into());
            self.breaker
                .watches
                .lock()
                .killed(entry.key, fingerprint, rule, now, report);
        }
    }
}
