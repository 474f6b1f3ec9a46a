//! The threads of the spares: started when one is needed, kept for some seconds, gone when nobody calls them.
//!
//! Mechanism; any thread calls, the pool's own threads wait here. The pool knows nothing of executors: a thread is
//! handed a role and runs what it was made with.

use super::places::Role;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How long a thread waits for its next turn. Long polls come in series; starting a thread takes a tenth of a
/// millisecond, which is felt, and keeping one costs its stack.
const LINGER: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Pool {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    idle: usize,
    calls: VecDeque<Role>,
    closed: bool,
}

impl Pool {
    /// Gives `role` to a thread that waits, or to a new one, which runs `live`. False if the system refuses one, or
    /// the pool is closed.
    pub(super) fn call<F>(self: &Arc<Pool>, role: Role, live: F) -> bool
    where
        F: FnOnce(&Pool) + Send + 'static,
    {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        if state.idle > state.calls.len() {
            state.calls.push_back(role);
            drop(state);
            self.bell.notify_one();
            return true;
        }
        state.calls.push_back(role);
        drop(state);
        let started = self.start(live);
        if !started {
            // Somebody else's thread may have taken it meanwhile: then it is served.
            return self.state.lock().calls.pop_back().is_none();
        }
        true
    }

    /// Has a thread wait, so that the next call need not start one.
    pub(super) fn warm<F>(self: &Arc<Pool>, live: F)
    where
        F: FnOnce(&Pool) + Send + 'static,
    {
        let cold = {
            let state = self.state.lock();
            !state.closed && state.idle <= state.calls.len()
        };
        if cold {
            self.start(live);
        }
    }

    fn start<F>(self: &Arc<Pool>, live: F) -> bool
    where
        F: FnOnce(&Pool) + Send + 'static,
    {
        let pool = self.clone();
        let builder = thread::Builder::new().name("quotient-spare".into());
        builder.spawn(move || live(&pool)).is_ok()
    }

    /// The next role of the calling thread; None when it should end.
    pub(super) fn next(&self) -> Option<Role> {
        let mut state = self.state.lock();
        loop {
            if let Some(role) = state.calls.pop_front() {
                return Some(role);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            let late = self.bell.wait_for(&mut state, LINGER).timed_out();
            state.idle -= 1;
            if late && state.calls.is_empty() {
                return None;
            }
        }
    }

    /// No more calls: threads that wait end at once, those that serve when they have done.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.bell.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_is_used_again_and_ends_when_the_pool_is_closed() {
        let pool = Arc::new(Pool::default());
        let (tell, told) = mpsc::channel();
        let call = |role| {
            let tell = tell.clone();
            pool.call(role, move |pool| {
                while let Some(role) = pool.next() {
                    tell.send(Some((role, thread::current().id()))).unwrap();
                }
                tell.send(None).unwrap();
            })
        };
        assert!(call(Role::Spare));
        let first = told.recv().unwrap().unwrap();
        while pool.state.lock().idle == 0 {
            thread::yield_now();
        }
        assert!(call(Role::Full));
        let second = told.recv().unwrap().unwrap();
        assert_eq!((first.0, second.0), (Role::Spare, Role::Full));
        assert_eq!(first.1, second.1, "the same thread");
        pool.close();
        assert_eq!(told.recv().unwrap(), None);
        assert!(!call(Role::Full), "closed");
    }
}
