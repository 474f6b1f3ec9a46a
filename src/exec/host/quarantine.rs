//! Parking a thread inside a poll that must never go on, because its next step would be memory that is not there.
//!
//! Mechanism; called by the allocator, on a worker's thread, inside a task's poll. No allocation and no lock of ours:
//! the poll may hold any. What is parked stays as it is until the process ends: its stack, its locks, its memory. The
//! watchdog does the rest: it tells the task's handle, kills its query and, if threads are lost again and again,
//! freezes the group.

use crate::exec::blocking;
use crate::exec::context;
use std::panic::catch_unwind;
use std::thread;

/// Parks a thread of a multi-thread runtime. tokio goes on with another one: what is parked is not its worker any more.
pub fn park_attached() {
    note();
    let parked = catch_unwind(|| tokio::task::block_in_place(park));
    // tokio refuses where there is no worker of its to replace; then the thread is parked as it is.
    drop(parked);
    park();
}

/// Parks a thread of our own. What it was to do is left to the other workers.
pub fn park_owned() {
    note();
    park();
}

fn note() {
    context::worker(|worker| {
        if let Some(worker) = worker {
            context::task(|scope| worker.is_lost_in(scope.map(|scope| scope.task.clone())));
        } else {
            blocking::thread_is_lost();
        }
    });
}

fn park() {
    loop {
        thread::park();
    }
}
