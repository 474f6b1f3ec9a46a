//! The two ends of a task, and what one leaves for the other: the handle a waker, the worker an error.
//!
//! Mechanism; any thread. The output itself has a place of its own, which is filled before the task is *published*.
//! Foreign wakers and errors are cloned, woken and dropped outside of the lock; see `flags` for who sees what.

use super::cell::Task;
use crate::exec::join::{Cause, JoinError};
use crate::foreign::contain;
use crate::mem;
use std::mem::replace;
use std::task::Waker;

/// What one end has left for the other.
pub(super) enum Left {
    Nothing,
    /// The handle waits.
    Waker(Waker),
    /// There will never be an output.
    Error(JoinError),
}

impl Task {
    /// The output is in its place: whoever waits for it is woken.
    #[inline]
    pub(in crate::exec) fn publish(&self) {
        if self.flags.done() {
            self.wake();
        }
    }

    /// As [`Task::publish`], but the caller wakes.
    pub(in crate::exec) fn publish_quietly(&self) -> Option<Waker> {
        self.flags.done().then(|| self.take_waker()).flatten()
    }

    /// Whether nobody will ask for its output. A hint, for outputs that have something to drop.
    pub(in crate::exec) fn is_unwanted(&self) -> bool {
        self.flags.is_detached()
    }

    /// Its future will never be polled or dropped any more, or never was: the handle is told why.
    pub(in crate::exec) fn fail(&self, error: JoinError) {
        let before = {
            let mut left = self.left.lock();
            // Under the lock: whoever finds the error there finds the flag as well.
            self.flags.failed();
            replace(&mut *left, Left::Error(error))
        };
        contain(|| match before {
            Left::Waker(waker) => waker.wake(),
            Left::Nothing | Left::Error(_) => {}
        });
    }

    /// As [`Task::fail`], for a task that the executor ends.
    pub(in crate::exec) fn fail_for(&self, cause: Cause) {
        self.fail(JoinError::cancelled(self.id, Some(cause)));
    }

    fn wake(&self) {
        if let Some(waker) = self.take_waker() {
            contain(|| waker.wake());
        }
    }

    fn take_waker(&self) -> Option<Waker> {
        let mut left = self.left.lock();
        match replace(&mut *left, Left::Nothing) {
            Left::Waker(waker) => Some(waker),
            other => {
                *left = other;
                None
            }
        }
    }

    /// What came instead of an output, if anything did. Once.
    #[inline]
    pub(in crate::exec) fn take_error(&self) -> Option<JoinError> {
        if !self.flags.has_failed() {
            return None;
        }
        match replace(&mut *self.left.lock(), Left::Nothing) {
            Left::Error(error) => Some(error),
            Left::Nothing | Left::Waker(_) => None,
        }
    }

    /// The handle waits. True if it need not, because the output is there.
    pub(in crate::exec) fn leave(&self, waker: &Waker) -> bool {
        let mut fresh: Option<Waker> = None;
        loop {
            let mut left = self.left.lock();
            match &*left {
                Left::Error(_) => return true,
                Left::Waker(there) if there.will_wake(waker) => return false,
                Left::Waker(_) | Left::Nothing => {}
            }
            if let Some(fresh) = fresh.take() {
                let old = replace(&mut *left, Left::Waker(fresh));
                drop(left);
                let done = self.flags.awaited();
                drop(old);
                return done;
            }
            // Cloning a waker is foreign code: not under the lock.
            drop(left);
            fresh = Some(waker.clone());
        }
    }

    /// Has `waker` woken when the output is there, which may be now.
    pub(in crate::exec) fn watch(&self, waker: Waker) {
        let old = {
            let mut left = self.left.lock();
            match &*left {
                Left::Nothing | Left::Waker(_) => replace(&mut *left, Left::Waker(waker)),
                Left::Error(_) => Left::Waker(waker),
            }
        };
        if let Left::Waker(waker) = old {
            // One that was there before is woken in vain, which harms nobody.
            waker.wake();
        }
        if self.flags.awaited() {
            self.wake();
        }
    }

    /// The handle goes. `droppy`: an output would have something to drop.
    #[inline]
    pub(in crate::exec) fn detach(&self, droppy: bool) {
        if droppy {
            self.flags.detach();
        }
        if self.flags.has_left() {
            let left = replace(&mut *self.left.lock(), Left::Nothing);
            contain(|| drop(left));
        }
    }

    /// Drops an output that nobody wants, with its owner's memory; any other comes back.
    #[inline]
    pub(in crate::exec) fn unless_detached<R>(&self, output: R) -> Option<R> {
        if !self.flags.is_detached() {
            return Some(output);
        }
        let _owner = mem::enter(self.account.memory());
        // As every destructor of a task it gets the memory that it asks for: the poll is over, and nobody would notice
        // that its thread is parked.
        contain(|| mem::lifted(|| drop(output)));
        None
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // Foreign, and in a place where a panic would be the end of the process.
        match replace(self.left.get_mut(), Left::Nothing) {
            Left::Nothing => {}
            left => contain(|| drop(left)),
        }
    }
}
