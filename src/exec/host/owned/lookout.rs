//! The lookout: a thread that looks after I/O and timers while every worker is in a long poll.
//!
//! Mechanism; a thread of its own, started when it is first needed and parked in between. Called by the watchdog;
//! sent away by the first worker that can do it itself: what is woken on its thread has to cross to a worker's,
//! which costs half as much again as I/O that a worker polls itself (measured). Invariant (model-checked below):
//! whoever changes the order then wakes it from where the old one left it; both ways of sleeping keep a wake-up
//! that comes early.

use super::engine::Engine;
use crate::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use tokio::sync::Notify;

const AWAY: u8 = 0;
const CALLED: u8 = 1;
const DISMISSED: u8 = 2;

#[derive(Debug)]
struct Order(AtomicU8);

impl Order {
    fn new() -> Order {
        Order(AtomicU8::new(AWAY))
    }

    fn get(&self) -> u8 {
        self.0.load(SeqCst)
    }

    /// Whether it was `old` and is `new` now.
    fn change(&self, old: u8, new: u8) -> bool {
        self.0.compare_exchange(old, new, SeqCst, SeqCst).is_ok()
    }

    fn dismiss(&self) {
        self.0.store(DISMISSED, SeqCst);
    }
}

#[derive(Debug)]
pub(super) struct Lookout {
    /// Whether its thread was started. It may take a while until it runs and says who it is.
    started: AtomicBool,
    thread: OnceLock<Thread>,
    order: Order,
    relief: Notify,
}

impl Lookout {
    pub(super) fn new() -> Lookout {
        Lookout {
            started: AtomicBool::new(false),
            thread: OnceLock::new(),
            order: Order::new(),
            relief: Notify::new(),
        }
    }

    /// Lets it drive. If the system refuses a thread, I/O waits for the long polls to end.
    pub(super) fn call(&self, engine: &Arc<Engine>) {
        if !self.order.change(AWAY, CALLED) {
            return;
        }
        if self.started.swap(true, SeqCst) {
            if let Some(thread) = self.thread.get() {
                thread.unpark();
            }
            return;
        }
        let (engine, present) = (engine.clone(), engine.enlist());
        let run = move || {
            // Before it looks at its orders: who gives one then looks whether there is a thread to be woken.
            let _ = engine.lookout().thread.set(thread::current());
            serve(&engine);
            drop(engine);
            drop(present);
        };
        let started = thread::Builder::new().name("quotient-io".into()).spawn(run);
        if started.is_err() {
            self.started.store(false, SeqCst);
            self.order.change(CALLED, AWAY);
        }
    }

    /// Sends it away. Costs a load if it is.
    pub(super) fn relieve(&self) {
        if self.order.get() == CALLED && self.order.change(CALLED, AWAY) {
            self.relief.notify_one();
        }
    }

    /// Ends its thread.
    pub(super) fn dismiss(&self) {
        self.order.dismiss();
        self.relief.notify_one();
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

fn serve(engine: &Engine) {
    let lookout = engine.lookout();
    loop {
        match lookout.order.get() {
            DISMISSED => return,
            CALLED => {
                // Relief that came meanwhile is kept: this ends at once then. If a worker has the driver after all,
                // there is nothing to do until the next call.
                if engine.drive(lookout.relief.notified()).is_none() {
                    lookout.order.change(CALLED, AWAY);
                }
                // Whoever could not have the driver because of this thread may be asleep by now.
                engine.hand_over();
            }
            _ => thread::park(),
        }
    }
}

#[cfg(all(test, quotient_loom))]
mod loom {
    use super::*;
    use crate::sync::Arc;
    use ::loom::sync::Notify;

    struct Model {
        order: Order,
        bell: Notify,
        relief: Notify,
    }

    impl Model {
        fn serve(&self) {
            loop {
                match self.order.get() {
                    DISMISSED => return,
                    CALLED => self.relief.wait(),
                    _ => self.bell.wait(),
                }
            }
        }

        fn call(&self) {
            if self.order.change(AWAY, CALLED) {
                self.bell.notify();
            }
        }

        fn relieve(&self) {
            if self.order.get() == CALLED && self.order.change(CALLED, AWAY) {
                self.relief.notify();
            }
        }

        fn dismiss(&self) {
            self.order.dismiss();
            self.relief.notify();
            self.bell.notify();
        }
    }

    #[test]
    fn a_dismissal_ends_it_whatever_was_ordered_before() {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let model = Arc::new(Model {
                order: Order::new(),
                bell: Notify::new(),
                relief: Notify::new(),
            });
            let thread = {
                let m = model.clone();
                ::loom::thread::spawn(move || m.serve())
            };
            let worker = {
                let m = model.clone();
                ::loom::thread::spawn(move || m.relieve())
            };
            model.call();
            worker.join().unwrap();
            model.dismiss();
            thread.join().unwrap();
        });
    }
}
