//! The stand-in: a thread that looks after I/O and timers while every worker is in a long poll.
//!
//! Mechanism; a thread of its own, started when it is first needed and parked in between. Called by the watchdog;
//! sent away by the first worker that can do it itself: what is woken on its thread has to cross to a worker's,
//! which costs half as much again as I/O that a worker polls itself (measured).

use super::engine::Engine;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use tokio::sync::Notify;

const AWAY: u8 = 0;
const CALLED: u8 = 1;
const DISMISSED: u8 = 2;

#[derive(Debug, Default)]
pub(super) struct StandIn {
    thread: OnceLock<Thread>,
    order: AtomicU8,
    relief: Notify,
}

impl StandIn {
    /// Lets it drive. If the system refuses a thread, I/O waits for the long polls to end.
    pub(super) fn call(&self, engine: &Arc<Engine>) {
        if !self.replace(AWAY, CALLED) {
            return;
        }
        if let Some(thread) = self.thread.get() {
            thread.unpark();
            return;
        }
        let (engine, present) = (engine.clone(), engine.enlist());
        let run = move || {
            // Before it looks at its orders: who gives one then looks whether there is a thread to be woken.
            let _ = engine.standin().thread.set(thread::current());
            serve(&engine);
            drop(engine);
            drop(present);
        };
        let started = thread::Builder::new().name("quotient-io".into()).spawn(run);
        if started.is_err() {
            self.replace(CALLED, AWAY);
        }
    }

    /// Sends it away. Costs a load if it is.
    pub(super) fn relieve(&self) {
        if self.order.load(SeqCst) == CALLED && self.replace(CALLED, AWAY) {
            self.relief.notify_one();
        }
    }

    /// Ends its thread.
    pub(super) fn dismiss(&self) {
        self.order.store(DISMISSED, SeqCst);
        self.relief.notify_one();
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn replace(&self, old: u8, new: u8) -> bool {
        self.order
            .compare_exchange(old, new, SeqCst, SeqCst)
            .is_ok()
    }
}

fn serve(engine: &Engine) {
    let standin = engine.standin();
    loop {
        match standin.order.load(SeqCst) {
            DISMISSED => return,
            CALLED => {
                // Relief that came meanwhile is kept: this ends at once then. If a worker has the driver after all,
                // there is nothing to do until the next call.
                if engine.drive(standin.relief.notified()).is_none() {
                    standin.replace(CALLED, AWAY);
                }
                // Whoever could not have the driver because of this thread may be asleep by now.
                engine.hand_over();
            }
            _ => thread::park(),
        }
    }
}
