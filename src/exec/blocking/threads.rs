//! The threads of the pool: started when one is needed, kept for some seconds, gone when nobody calls them.
//!
//! Mechanism; whoever brings or ends a closure starts one, the rest happens on the threads themselves. Where the runtime
//! lends them, a thread runs closures until none is left and goes back: to the runtime it is one closure of its own pool.
//! A current-thread runtime must know that closures are under way: a paused clock stands still meanwhile.

use super::Refusal;
use super::meter::Meter;
use super::pool::{Next, Pool, Work};
use crate::exec::account::Account;
use crate::foreign::{self, contain};
use crate::mem;
use crate::sched::pool::Turn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Waker;
use std::thread::{self, Thread};

/// Where the threads of a pool come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// They are the pool's own.
    Own,
    /// The runtime lends threads of its blocking pool.
    Runtime,
}

scoped_tls::scoped_thread_local!(static POOL: Arc<Pool>);

/// This thread is about to be parked for good. If it runs a closure of a pool, nobody waits for that any more. No lock
/// and no allocation.
pub(in crate::exec) fn thread_is_lost() {
    if POOL.is_set() {
        POOL.with(|pool| pool.lost.fetch_add(1, SeqCst));
    }
}

/// What a waiting thread listens to.
pub(super) struct Bell {
    /// Written under the pool's lock.
    pub(super) rung: AtomicBool,
    listener: Thread,
}

impl Bell {
    /// Of the calling thread.
    fn new() -> Bell {
        Bell {
            rung: AtomicBool::new(false),
            listener: thread::current(),
        }
    }

    /// Not under the lock: whoever is woken wants it.
    pub(super) fn ring(&self) {
        self.listener.unpark();
    }
}

impl Pool {
    /// Starts a thread that is counted as coming already.
    pub(super) fn start(self: &Arc<Self>) {
        let arrival = Arrival(Some(self.clone()));
        let Some(runtime) = self.runtime.get() else {
            return;
        };
        match self.setup.source {
            Source::Own => {
                let named = thread::Builder::new().name("quotient-io".into());
                drop(named.spawn(move || arrival.serve()));
            }
            Source::Runtime => {
                // It panics if the system gives no thread.
                let lend = || runtime.spawn_blocking(move || arrival.serve());
                drop(catch_unwind(AssertUnwindSafe(lend)));
            }
        }
    }

    /// A thread that was counted does not come. If there is no other, what waits is refused, here and now.
    fn do_without(&self) {
        let (refused, doomed) = {
            let _ours = mem::enter_process();
            let mut state = self.lock();
            state.coming -= 1;
            state.threads -= 1;
            if state.threads > 0 {
                return;
            }
            let taken = (state.policy.take_all(), std::mem::take(&mut state.doomed));
            self.mirror(&state);
            taken
        };
        for work in refused {
            let cause = |account: &Account| (self.setup.refusal)(account, Refusal::NoThread);
            contain(|| work.refuse(&cause));
        }
        doomed.into_iter().for_each(|work| self.drop_one(work));
    }

    fn run(self: &Arc<Self>) {
        POOL.set(self, || self.serve());
    }

    fn serve(self: &Arc<Self>) {
        let bell = Arc::new(Bell::new());
        let mut meter = Meter::new(self.clock.clone());
        let mut next = self.next(None, true, &bell);
        loop {
            next = match next {
                Next::Run(turn) => self.run_one(turn, &mut meter, &bell),
                Next::Drop(doomed) => {
                    doomed.into_iter().for_each(|work| self.drop_one(work));
                    self.next(None, false, &bell)
                }
                Next::Wait => {
                    mem::flush();
                    if !self.wait(&bell) {
                        return;
                    }
                    self.next(None, true, &bell)
                }
                Next::End => return,
            }
        }
    }

    /// Runs a closure, and looks for what comes next: before its end is published, if that is short work and nothing
    /// seems to wait.
    fn run_one(self: &Arc<Self>, turn: Turn<Work>, meter: &mut Meter, bell: &Arc<Bell>) -> Next {
        let Turn { mut job, seat } = turn;
        contain(|| job.run(meter));
        let own = self.setup.source == Source::Own;
        if !own || self.anyone_waits() || !job.is_awaited() {
            contain(|| drop(job));
            return self.next(Some(seat), false, bell);
        }
        let next = self.next_before_it_is_published(seat, bell);
        let waker = job.publish();
        if job.is_left_with_output() {
            return self.see_to_output(job, waker, next, bell);
        }
        contain(|| drop(job));
        // Last of all: on the way to sleep the thread is only in the way of whom it wakes.
        foreign::wake(waker);
        self.published();
        self.tell_if_last(&next);
        next
    }

    /// Nobody wanted the output after all, and its destructor may take its time: it is to be in nobody's way. What the
    /// thread does next.
    fn see_to_output(
        self: &Arc<Self>,
        job: Work,
        waker: Option<Waker>,
        next: Next,
        bell: &Arc<Bell>,
    ) -> Next {
        match next {
            Next::Run(turn) => {
                // This thread's next closure has left the line already; another thread sees to the destructor.
                self.hand_over(job);
                foreign::wake(waker);
                Next::Run(turn)
            }
            Next::Drop(mut doomed) => {
                foreign::wake(waker);
                doomed.push(job);
                Next::Drop(doomed)
            }
            Next::Wait => {
                self.step_back(bell);
                foreign::wake(waker);
                self.drop_one(job);
                self.next(None, false, bell)
            }
            Next::End => {
                foreign::wake(waker);
                self.drop_one(job);
                self.tell_if_last(&next);
                next
            }
        }
    }

    /// Drops a closure that must not begin, or one that has ended and is left with its output.
    fn drop_one(&self, work: Work) {
        let is_published = work.is_left_with_output();
        contain(|| drop(work));
        if is_published {
            self.published();
        }
    }

    /// Nothing runs after a thread that ends; somebody may wait for just that.
    fn tell_if_last(&self, next: &Next) {
        if matches!(next, Next::End) {
            drop(self.lock());
            self.quiet.notify_all();
        }
    }
}

/// A thread on its way. One that never comes is counted out by its destructor, and so are the closures that nobody is
/// left for.
struct Arrival(Option<Arc<Pool>>);

impl Arrival {
    fn serve(mut self) {
        let Some(pool) = self.0.take() else { return };
        let _ours = mem::enter_process();
        if pool.setup.source == Source::Runtime {
            return pool.run();
        }
        if let Some(prepare) = pool.on_start.get() {
            prepare();
        }
        let _inside = pool.runtime.get().map(|runtime| runtime.enter());
        pool.run();
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if let Some(pool) = self.0.take() {
            pool.do_without();
        }
    }
}
