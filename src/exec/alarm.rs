//! The alarm: wakes a worker when the quota of a capped group opens while workers sleep.
//!
//! Mechanism; one thread of its own, which is started when a group is first held back by its cap beside a worker
//! that sleeps, and uses nothing while none is. The date is one of the clock that charges are measured with. The
//! host's timers would not do: the runtime may have none, and a paused clock makes theirs jump while worker time
//! does not pass.

use super::core::Core;
use crate::unit::Nanos;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often a clock is looked at that does not run by itself.
const MANUAL: Duration = Duration::from_millis(1);
/// No date.
const NEVER: u64 = u64::MAX;

/// When to wake a worker, and who does it.
#[derive(Debug)]
pub(super) struct Alarm {
    due: AtomicU64,
    core: OnceLock<Weak<Core>>,
    thread: Mutex<Option<Thread>>,
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm {
            due: AtomicU64::new(NEVER),
            core: OnceLock::new(),
            thread: Mutex::new(None),
        }
    }
}

impl Alarm {
    /// Whose alarm it is.
    pub(super) fn attach(&self, core: Weak<Core>) {
        let _ = self.core.set(core);
    }

    /// Sees to it that somebody looks at `due`, or before.
    pub(super) fn set(&self, due: Nanos) {
        if self.due.load(SeqCst) <= due.0 || self.due.fetch_min(due.0, SeqCst) <= due.0 {
            return;
        }
        let mut thread = self.thread.lock();
        match &*thread {
            Some(thread) => thread.unpark(),
            None => *thread = self.start(),
        }
    }

    fn start(&self) -> Option<Thread> {
        let core = self.core.get()?.clone();
        let started = thread::Builder::new()
            .name("quotient-alarm".into())
            .spawn(move || watch(&core));
        if started.is_err() {
            // The system has no thread to give: the next one who sets the alarm tries again.
            self.due.store(NEVER, SeqCst);
        }
        started.ok().map(|handle| handle.thread().clone())
    }

    /// Takes the date if it has come; else what is left until then.
    pub(super) fn take_due(&self, now: Nanos) -> Result<(), Nanos> {
        let due = self.due.load(SeqCst);
        if due > now.0 {
            return Err(Nanos(due).since(now));
        }
        // Whatever comes earlier than this meanwhile is seen to by the look that follows.
        self.due.store(NEVER, SeqCst);
        Ok(())
    }

    /// The executor is gone: the thread ends.
    pub(super) fn dismiss(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }
}

fn watch(core: &Weak<Core>) {
    while let Some(core) = core.upgrade() {
        if core.is_unmanned() {
            return;
        }
        let runs = core.clock().is_live();
        match core.alarm().take_due(core.clock().now()) {
            Ok(()) => core.refill_and_notify(),
            Err(left) => {
                drop(core);
                match Duration::from(left) {
                    _ if !runs => thread::park_timeout(MANUAL),
                    left if left > Duration::from_secs(3_600) => thread::park(),
                    left => thread::park_timeout(left),
                }
            }
        }
    }
}
