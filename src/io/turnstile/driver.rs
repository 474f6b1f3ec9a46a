//! The task that looks at a line when its time has come, for as long as somebody waits.
//!
//! Mechanism; a plain task on the runtime under the governor of whoever waits, one for each of them, uncharged: a few
//! microseconds each millisecond at most, on whichever thread that runtime has. One that nobody drives holds up nobody else:
//! each looks at the whole line. It ends when it looks and none of its own waits. When its runtime ends before that, its own
//! are woken, and start another if the runtime lives after all. Whose runtime is over is bound by no limit any more.

use super::{Seat, State, Turnstile, Unserved};
use crate::foreign;
use crate::mem;
use crate::unit::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Who beats time for a governor's streams: the runtime under it.
#[derive(Debug)]
pub(in crate::io) struct Beat {
    /// None if it has no timers.
    runtime: Option<Handle>,
    over: AtomicBool,
}

impl Beat {
    pub(in crate::io) fn new(runtime: Option<Handle>) -> Beat {
        Beat {
            runtime,
            over: AtomicBool::new(false),
        }
    }

    /// Why nobody can wait by it, if so.
    pub(super) fn refusal(&self) -> Option<Unserved> {
        if self.over.load(Relaxed) {
            Some(Unserved::Over)
        } else if self.runtime.is_none() {
            Some(Unserved::NoTimers)
        } else {
            None
        }
    }
}

/// Those who wait by one beat, as their line knows them, and their driver.
pub(super) struct Driven {
    pub(super) beat: Arc<Beat>,
    /// Requests that wait: each has a seat with this beat.
    pub(super) waiting: usize,
    /// None if it is to be started, or has gone though somebody waits.
    pub(super) task: Option<Looks>,
}

/// A driver that runs.
pub(super) struct Looks {
    /// When it looks next.
    pub(super) next: Nanos,
    /// It is to look earlier.
    pub(super) sooner: Arc<Notify>,
}

impl Driven {
    pub(super) fn is_by(&self, beat: &Arc<Beat>) -> bool {
        Arc::ptr_eq(&self.beat, beat)
    }

    pub(super) fn is_there(&self) -> bool {
        self.waiting > 0 || self.task.is_some()
    }
}

impl State {
    /// The driver that is by this beat runs no more.
    fn stopped(&mut self, beat: &Arc<Beat>) {
        let own = self.drivers.iter_mut().find(|driven| driven.is_by(beat));
        own.into_iter().for_each(|driven| driven.task = None);
        self.drivers.retain(Driven::is_there);
    }
}

struct Driver {
    turnstile: Arc<Turnstile>,
    beat: Arc<Beat>,
    sooner: Arc<Notify>,
    began: bool,
    done: bool,
}

impl Turnstile {
    /// Starts the driver that the line is taken to have.
    pub(super) fn start(self: &Arc<Self>, beat: &Arc<Beat>, sooner: Arc<Notify>) {
        let _ours = mem::enter_process();
        let driver = Driver {
            turnstile: self.clone(),
            beat: beat.clone(),
            sooner,
            began: false,
            done: false,
        };
        if let Some(runtime) = &beat.runtime {
            // A runtime that is shut down drops it here and now.
            runtime.spawn(driver.drive());
        }
    }

    /// Grants what can be granted; when to look again, if anybody waits still by this beat.
    fn look_after(&self, beat: &Arc<Beat>) -> Option<Instant> {
        let _ours = mem::enter_process();
        let mut state = self.state.lock();
        let now = self.now();
        let after = self.settle(&mut state, now);
        let due = state.shares.due(now);
        let own = state.drivers.iter_mut().find(|driven| driven.is_by(beat));
        let own = own.filter(|driven| driven.waiting > 0);
        let due = match (due, own.and_then(|driven| driven.task.as_mut())) {
            (Some(due), Some(task)) => {
                task.next = due;
                Some(due)
            }
            _ => {
                state.stopped(beat);
                None
            }
        };
        drop(state);
        after.tell();
        due.map(|due| self.instant(due))
    }

    fn instant(&self, at: Nanos) -> Instant {
        let never = || Instant::now() + Duration::from_secs(3_600);
        self.origin.checked_add(at.into()).unwrap_or_else(never)
    }

    /// The driver is gone though somebody may wait by it.
    fn orphan(&self, beat: &Arc<Beat>) {
        let wakers: Vec<_> = {
            let mut state = self.state.lock();
            state.stopped(beat);
            let waker = |seat: &mut Seat| match seat {
                // Whoever is woken leaves another one.
                Seat::Waits(waker, by) if Arc::ptr_eq(by, beat) => {
                    Some(std::mem::replace(waker, Waker::noop().clone()))
                }
                Seat::Waits(..) | Seat::Granted(_) => None,
            };
            state.seats.values_mut().filter_map(waker).collect()
        };
        foreign::wake(wakers);
    }
}

impl Driver {
    async fn drive(mut self) {
        self.began = true;
        while let Some(due) = self.turnstile.look_after(&self.beat) {
            // Whether it is time, or earlier than was thought: look.
            let _ = timeout_at(due, self.sooner.notified()).await;
        }
        self.done = true;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let _ours = mem::enter_process();
        // Never polled: there is no runtime any more. One that was shut down while it slept lets the next one, which
        // is never polled, find that out.
        if !self.began || std::thread::panicking() {
            self.beat.over.store(true, Relaxed);
        }
        self.turnstile.orphan(&self.beat);
    }
}
