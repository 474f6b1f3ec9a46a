//! The pool: closures in line, closures that only have to be dropped, and the threads that wait or are on their way.
//!
//! Mechanism; any thread. Invariants:
//! 1. One lock, taken once per spawn and once per closure that ends. No user code runs and none is dropped under it, and
//!    no thread is started.
//! 2. For every closure that may begin now, a thread is about to look: one that is *coming* (woken or started and not
//!    here yet), or the one that holds the lock. A thread that takes one sees to the next. A thread that finds nothing is
//!    among those that wait *before* it publishes what its last closure came to: whoever was waiting for that, and brings
//!    the next one, finds a thread that is awake. What it does in between is to wake; code that may take its time, such
//!    as the destructor of an output that nobody wants, is run by a thread that is [not called](Pool::step_back) and has
//!    [no closure in its hands](Pool::hand_over).
//! 3. Whoever ends closures says so before it looks for them under the lock; whoever brings one looks under the lock
//!    whether it must end. One of the two sees the other.
//! 4. A closure whose end was not published yet, or whose output nobody wants and is not dropped yet, is
//!    [*unpublished*](Pool::is_quiet): nobody takes the pool for quiet.
//! 5. The thread that waited for the shortest time is woken first: its caches are warm, and the others can end.

use super::job::Closure;
use super::threads::{Bell, Source};
use super::{Refusal, Setup};
use crate::clock::Clock;
use crate::exec::account::Account;
use crate::mem;
use crate::sched::Config;
use crate::sched::fair::Slot;
use crate::sched::pool::{self as policy, Full, Turn};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long whoever waits for the end of all closures goes without a look.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(super) type Work = Box<dyn Closure>;

/// The pool of one executor.
pub(in crate::exec) struct Pool {
    pub(super) setup: Setup,
    pub(super) clock: Clock,
    /// What idle threads are measured with, also where charges are not measured with real time.
    time: Clock,
    state: Mutex<State>,
    /// Rings when nothing runs any more.
    pub(super) quiet: Condvar,
    /// The runtime that closures are inside of.
    pub(super) runtime: OnceLock<Handle>,
    /// What a new thread does first.
    pub(super) on_start: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Closures whose threads were parked for good.
    pub(super) lost: AtomicUsize,
    /// Closures that do not run any more, and of whose ends something is still to be done.
    unpublished: AtomicUsize,
    /// Closures that a thread which becomes free finds; a mirror of what the lock protects.
    waiting: AtomicUsize,
    /// Places of groups that are gone.
    pub(super) graves: Mutex<Vec<Slot>>,
}

pub(super) struct State {
    pub(super) policy: policy::Pool<Work>,
    /// Closures that were ended before they began, and those that have ended with an output that nobody wants.
    pub(super) doomed: Vec<Work>,
    /// Threads that wait, the one that began last at the end.
    idle: Vec<Arc<Bell>>,
    /// Threads that were woken or started and have not looked yet.
    pub(super) coming: usize,
    pub(super) threads: usize,
    pub(super) closed: bool,
}

/// What a thread does next.
pub(super) enum Next {
    Run(Turn<Work>),
    Drop(Vec<Work>),
    /// Waits until its bell rings; it is among the idle ones.
    Wait,
    /// Ends; it is not counted any more.
    End,
}

/// Whom the holder of the lock calls after letting it go.
#[must_use]
enum Call {
    Nobody,
    Ring(Arc<Bell>),
    Start,
}

impl State {
    fn call(&mut self, most: usize) -> Call {
        let doomed = usize::from(!self.doomed.is_empty());
        if self.coming >= self.policy.startable() + doomed {
            return Call::Nobody;
        }
        if let Some(bell) = self.idle.pop() {
            self.coming += 1;
            bell.rung.store(true, SeqCst);
            return Call::Ring(bell);
        }
        // One more than there may be, so that what was ended does not wait for what runs. It runs nothing else.
        if self.threads < most + doomed {
            self.coming += 1;
            self.threads += 1;
            return Call::Start;
        }
        Call::Nobody
    }
}

impl Pool {
    pub(in crate::exec) fn new(setup: Setup, policy: Config, clock: Clock) -> Pool {
        let state = State {
            policy: policy::Pool::new(policy, setup.threads, setup.queue),
            doomed: Vec::new(),
            idle: Vec::new(),
            coming: 0,
            threads: 0,
            closed: false,
        };
        Pool {
            setup,
            clock,
            time: Clock::tsc(),
            state: Mutex::new(state),
            quiet: Condvar::new(),
            runtime: OnceLock::new(),
            on_start: OnceLock::new(),
            lost: AtomicUsize::new(0),
            unpublished: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            graves: Mutex::default(),
        }
    }

    /// Closures run inside of this runtime. The first call decides.
    pub(in crate::exec) fn inside_of(&self, runtime: &Handle) {
        let _ = self.runtime.set(runtime.clone());
    }

    /// What each thread does when it begins. The first call decides.
    pub(in crate::exec) fn on_start(&self, prepare: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_start.set(Box::new(prepare));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Puts a closure in line; `numbered` is told its number, under the lock. One that `goes_on` with what another one
    /// began is not refused because the line is full.
    pub(super) fn submit(
        self: &Arc<Self>,
        account: &Account,
        work: Work,
        goes_on: bool,
        numbered: impl FnOnce(u64),
    ) {
        let now = self.clock.now();
        let ours = mem::enter_process();
        let mut state = self.lock();
        if state.closed || work.must_end() {
            drop(state);
            drop(ours);
            // Ended by its destructor.
            return drop(work);
        }
        let (slot, owner) = (account.group().io, account.stream_number());
        let pushed = if goes_on {
            Ok(state.policy.push_on(slot, now, owner, work))
        } else {
            state.policy.push(slot, now, owner, work)
        };
        match pushed {
            Ok(number) => {
                numbered(number);
                self.answer(state);
            }
            Err(Full { job, limit }) => {
                drop(state);
                drop(ours);
                let cause =
                    |account: &Account| (self.setup.refusal)(account, Refusal::Full { limit });
                job.refuse(&cause);
            }
        }
    }

    /// A closure was aborted. One that waits is dropped by a thread of the pool.
    pub(in crate::exec) fn end(self: &Arc<Self>, account: &Account, number: u64) {
        let _ours = mem::enter_process();
        let mut state = self.lock();
        let taken = state.policy.take(account.home.io, number);
        let elsewhere = account.moved.get().map(|group| group.io);
        let taken = taken.or_else(|| state.policy.take(elsewhere?, number));
        if let Some(work) = taken {
            state.doomed.push(work);
            self.answer(state);
        }
    }

    /// All of an account were ended.
    pub(in crate::exec) fn end_all_of(self: &Arc<Self>, account: &Account) {
        let _ours = mem::enter_process();
        let mut state = self.lock();
        let owner = account.stream_number();
        let groups = [Some(&account.home), account.moved.get()];
        for group in groups.into_iter().flatten() {
            let taken = state.policy.take_of(group.io, owner);
            state.doomed.extend(taken);
        }
        self.answer(state);
    }

    /// Everything was ended.
    pub(in crate::exec) fn end_all(self: &Arc<Self>) {
        let _ours = mem::enter_process();
        let mut state = self.lock();
        let taken = state.policy.take_all();
        state.doomed.extend(taken);
        self.answer(state);
    }

    /// Nobody comes any more: threads end when they have nothing to do.
    pub(in crate::exec) fn close(&self) {
        let _ours = mem::enter_process();
        let mut state = self.lock();
        state.closed = true;
        let idle = std::mem::take(&mut state.idle);
        state.coming += idle.len();
        for bell in &idle {
            bell.rung.store(true, SeqCst);
        }
        drop(state);
        idle.iter().for_each(|bell| bell.ring());
    }

    /// What a thread of the pool does now. `ended`: the seat of the closure that it has run; `came`: whether it was
    /// woken or started for this look.
    pub(super) fn next(
        self: &Arc<Self>,
        ended: Option<usize>,
        came: bool,
        bell: &Arc<Bell>,
    ) -> Next {
        let now = self.clock.now();
        let mut state = self.lock();
        state.coming -= usize::from(came);
        if let Some(seat) = ended {
            state.policy.done(seat, now);
        }
        if state.closed && self.nothing_runs(&state) {
            self.quiet.notify_all();
        }
        if !state.doomed.is_empty() {
            let doomed = std::mem::take(&mut state.doomed);
            // Destructors may take their time: what this thread would have run is another one's.
            self.answer(state);
            return Next::Drop(doomed);
        }
        if let Some(turn) = state.policy.next(now) {
            self.answer(state);
            return Next::Run(turn);
        }
        if state.closed || self.setup.source == Source::Runtime {
            state.threads -= 1;
            return Next::End;
        }
        bell.rung.store(false, SeqCst);
        state.idle.push(bell.clone());
        drop(state);
        Next::Wait
    }

    /// As [`Pool::next`], for a thread whose closure has ended and is [published](Pool::published) afterwards.
    pub(super) fn next_before_it_is_published(
        self: &Arc<Self>,
        seat: usize,
        bell: &Arc<Bell>,
    ) -> Next {
        self.unpublished.fetch_add(1, SeqCst);
        self.next(Some(seat), false, bell)
    }

    /// What a closure came to was published, and is dropped if nobody wants it.
    pub(super) fn published(&self) {
        self.unpublished.fetch_sub(1, SeqCst);
    }

    /// A thread that was to wait does something else first, and looks again afterwards. If it was called already,
    /// another one is in its place.
    pub(super) fn step_back(self: &Arc<Self>, bell: &Arc<Bell>) {
        let mut state = self.lock();
        let before = state.idle.len();
        state.idle.retain(|idle| !Arc::ptr_eq(idle, bell));
        state.coming -= usize::from(state.idle.len() == before);
        self.answer(state);
    }

    /// A closure that was published is dropped by another thread than the one that ran it. Until then it counts as
    /// unpublished.
    pub(super) fn hand_over(self: &Arc<Self>, job: Work) {
        let mut state = self.lock();
        state.doomed.push(job);
        self.answer(state);
    }

    /// Waits for the bell. False if it has not rung for so long that the thread ends; it is not counted any more.
    pub(super) fn wait(&self, bell: &Arc<Bell>) -> bool {
        let (begun, longest) = (self.time.now(), self.setup.keep_alive);
        while !bell.rung.load(SeqCst) {
            let waited = Duration::from(self.time.now().since(begun));
            if waited < longest {
                thread::park_timeout(longest - waited);
                continue;
            }
            let mut state = self.lock();
            if !bell.rung.load(SeqCst) {
                state.idle.retain(|idle| !Arc::ptr_eq(idle, bell));
                state.threads -= 1;
                return false;
            }
        }
        true
    }

    /// Lets the lock go and calls whoever is needed.
    pub(super) fn answer(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let call = state.call(self.setup.threads);
        self.mirror(&state);
        drop(state);
        match call {
            Call::Nobody => {}
            Call::Ring(bell) => bell.ring(),
            Call::Start => self.start(),
        }
    }

    /// Under the lock, when something came or went.
    pub(super) fn mirror(&self, state: &State) {
        let waiting = state.policy.queued() + state.doomed.len();
        if self.waiting.load(Relaxed) != waiting {
            self.waiting.store(waiting, SeqCst);
        }
    }

    /// Whether a thread that becomes free finds something to do.
    pub(super) fn anyone_waits(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.nothing_runs(&self.lock())
    }

    /// But for what never ends.
    fn nothing_runs(&self, state: &State) -> bool {
        let running = state.policy.running() + self.unpublished.load(SeqCst);
        running <= self.lost.load(SeqCst)
    }

    /// Waits until nothing runs, but for what never ends.
    pub(super) fn wait_until_quiet(&self) {
        let mut state = self.lock();
        while !self.nothing_runs(&state) {
            // A thread that is parked for good rings no more.
            self.quiet.wait_for(&mut state, LOOK_AGAIN);
        }
    }
}
