//! How far a task has come, as seen by those who want to end it or its output: waiting somewhere, to be aborted, done,
//! detached.
//!
//! Mechanism; any thread. Invariant: `ABORT` is set before the task is looked for in [`Waiting`]; the task is
//! entered in [`Waiting`] before it sets `WAITING` and looks at `ABORT` in one step. One of the two sees the
//! other (model-checked below).
//!
//! And: the output is in its place before `DONE` is set, and the handle's waker before `AWAITED`. Whoever comes second
//! sees the other's flag: the handle takes the output, or the worker the waker.

use crate::exec::waiting::{Ticket, Waiting};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

const ABORT: u64 = 1;
const WAITING: u64 = 2;
const DONE: u64 = 4;
/// The handle is gone. A hint, for outputs that have something to drop.
const DETACHED: u64 = 8;
/// A join waker was left.
const AWAITED: u64 = 16;
/// It belongs to a query: known here to spare the way to the account on every poll. Set from the beginning, or never.
const QUERY: u64 = 32;
/// It is a closure of the blocking pool. Set from the beginning, or never.
const CLOSURE: u64 = 64;
/// Instead of an output there is an error, which was left with the task.
const FAILED: u64 = 128;
/// A subscriber knows it by a span. Set from the beginning, or never.
const TRACED: u64 = 256;
/// Above the flags: where the task is entered, once it is. 32 bits of key leave 23 for the shard, of which
/// there is one per worker.
const TICKET: u32 = 9;

/// What is so from the beginning and stays: none of it, usually.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nature {
    /// It belongs to a query.
    pub(super) in_query: bool,
    /// It is a closure of the blocking pool.
    pub(super) closure: bool,
    /// A subscriber knows it by a span.
    pub(super) traced: bool,
}

pub(in crate::exec) struct Flags(AtomicU64);

impl Flags {
    pub(super) fn of(nature: Nature) -> Flags {
        let flag = |is, flag| if is { flag } else { 0 };
        Flags(AtomicU64::new(
            flag(nature.in_query, QUERY)
                | flag(nature.closure, CLOSURE)
                | flag(nature.traced, TRACED),
        ))
    }

    #[inline]
    pub(super) fn is_in_query(&self) -> bool {
        self.0.load(Relaxed) & QUERY != 0
    }

    #[inline]
    pub(super) fn is_traced(&self) -> bool {
        self.0.load(Relaxed) & TRACED != 0
    }

    #[inline]
    pub(super) fn is_closure(&self) -> bool {
        self.0.load(Relaxed) & CLOSURE != 0
    }

    /// Asks the task to end, and wakes it if it waits in `waiting`.
    pub(super) fn abort(&self, waiting: &Waiting) {
        let before = self.0.fetch_or(ABORT, SeqCst);
        if before & (WAITING | DONE) == WAITING {
            waiting.wake(Ticket::unpack(before >> TICKET));
        }
    }

    /// The task was entered in `Waiting`, for the first time. True if it was aborted before anybody could
    /// find it there.
    pub(super) fn waits(&self, ticket: Ticket) -> bool {
        let entered = WAITING | (ticket.pack() << TICKET);
        self.0.fetch_or(entered, SeqCst) & ABORT != 0
    }

    /// Where the task was entered, if it was. For its worker, which enters it.
    #[inline]
    pub(super) fn ticket(&self) -> Option<Ticket> {
        let flags = self.0.load(Relaxed);
        (flags & WAITING != 0).then(|| Ticket::unpack(flags >> TICKET))
    }

    /// The output is in its place. True if the handle has left a waker.
    pub(super) fn done(&self) -> bool {
        self.0.fetch_or(DONE, SeqCst) & AWAITED != 0
    }

    /// As [`Flags::done`], with an error instead of an output. Under the lock of the place of both, so that nobody needs to be
    /// told of the waker.
    pub(super) fn failed(&self) {
        self.0.fetch_or(DONE | FAILED, SeqCst);
    }

    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.0.load(SeqCst) & FAILED != 0
    }

    /// The handle is gone.
    pub(super) fn detach(&self) {
        self.0.fetch_or(DETACHED, SeqCst);
    }

    #[inline]
    pub(super) fn is_detached(&self) -> bool {
        self.0.load(Relaxed) & DETACHED != 0
    }

    /// The handle has left a waker. True if the output is there: it may be woken or not.
    pub(super) fn awaited(&self) -> bool {
        // Only the handle sets it, and only the handle asks.
        if self.0.load(Relaxed) & AWAITED != 0 {
            // Whoever has taken an earlier waker was done before, and that under the lock that this one was left under.
            return self.is_done();
        }
        self.0.fetch_or(AWAITED, SeqCst) & DONE != 0
    }

    /// Whether anything may have been left: by the handle, or for it.
    #[inline]
    pub(super) fn has_left(&self) -> bool {
        self.0.load(SeqCst) & (AWAITED | FAILED) != 0
    }

    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.0.load(SeqCst) & DONE != 0
    }

    /// For whoever was woken because of it: the wake-up orders the two.
    #[inline]
    pub(super) fn is_aborted(&self) -> bool {
        self.0.load(Relaxed) & ABORT != 0
    }
}

#[cfg(all(test, quotient_loom))]
mod loom {
    use super::*;
    use crate::exec::ending::Verdict;
    use crate::sync::Mutex;
    use crate::sync::atomic::{AtomicBool, AtomicUsize};
    use ::loom::sync::Notify;
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    /// Rings for good: loom's own may ring by chance.
    struct Bell(Notify, AtomicBool);

    impl Bell {
        fn wait(&self) {
            while !self.1.load(SeqCst) {
                self.0.wait();
            }
        }
    }

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.1.store(true, SeqCst);
            self.0.notify();
        }
    }

    struct Model {
        flags: Flags,
        verdict: Verdict,
        waiting: Waiting,
        bell: Arc<Bell>,
    }

    impl Model {
        fn new() -> Arc<Model> {
            Arc::new(Model {
                flags: Flags::of(Nature::default()),
                verdict: Verdict::new(),
                waiting: Waiting::new(1),
                bell: Arc::new(Bell(Notify::new(), AtomicBool::new(false))),
            })
        }

        fn must_end(&self) -> bool {
            self.flags.is_aborted() || self.verdict.is_given()
        }

        /// A task that waits for ever, as the harness and a worker run it. A model in which it is neither
        /// refused nor woken is a deadlock, which loom reports.
        fn task(&self) {
            if self.must_end() {
                return;
            }
            let ticket = self.waiting.enter(0, Waker::from(self.bell.clone()), None);
            let aborted = self.flags.waits(ticket);
            if !aborted && self.verdict.get().is_none() {
                self.bell.wait();
                assert!(self.must_end(), "woken in vain");
            }
            assert_eq!(self.flags.ticket(), Some(ticket));
            drop(self.waiting.leave(ticket));
            self.flags.done();
        }

        fn kill(&self) {
            self.verdict.give(Arc::new(std::fmt::Error));
            self.waiting.wake_all();
        }
    }

    fn against(enders: &'static [fn(&Model)]) {
        let mut builder = ::loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let model = Model::new();
            let threads: Vec<_> = enders
                .iter()
                .map(|ender| {
                    let m = model.clone();
                    ::loom::thread::spawn(move || ender(&m))
                })
                .collect();
            model.task();
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(model.waiting.len(), 0);
        });
    }

    /// The end of a task, and its handle that leaves one waker and then another, as a `select!` may have it.
    #[test]
    fn a_handle_that_waits_finds_the_output_or_is_woken() {
        ::loom::model(|| {
            let left = Mutex::new(None::<Arc<Bell>>);
            let shared = Arc::new((Flags::of(Nature::default()), AtomicUsize::new(0), left));
            let theirs = shared.clone();
            let thread = ::loom::thread::spawn(move || {
                let (flags, output, left) = &*theirs;
                output.store(7, Relaxed);
                if flags.done() {
                    let bell = left.lock().take();
                    if let Some(bell) = bell {
                        bell.wake();
                    }
                }
            });
            let (flags, output, left) = &*shared;
            let bells = [0, 1].map(|_| Arc::new(Bell(Notify::new(), AtomicBool::new(false))));
            let waits = bells.iter().all(|bell| {
                let old = left.lock().replace(bell.clone());
                let done = flags.awaited();
                drop(old);
                !done
            });
            if waits {
                bells[1].wait();
                assert!(flags.is_done(), "woken in vain");
            }
            assert_eq!(output.load(Relaxed), 7);
            thread.join().unwrap();
        });
    }

    /// The same, for a task that ends without an output.
    #[test]
    fn a_handle_that_waits_finds_the_error_or_is_woken() {
        ::loom::model(|| {
            let bell = Arc::new(Bell(Notify::new(), AtomicBool::new(false)));
            let left = Mutex::new(None::<Result<Arc<Bell>, u32>>);
            let shared = Arc::new((Flags::of(Nature::default()), left));
            let theirs = shared.clone();
            let thread = ::loom::thread::spawn(move || {
                let (flags, left) = &*theirs;
                let before = {
                    let mut left = left.lock();
                    flags.failed();
                    left.replace(Err(7))
                };
                if let Some(Ok(bell)) = before {
                    bell.wake();
                }
            });
            let (flags, left) = &*shared;
            if !flags.is_done() {
                let waits = {
                    let mut left = left.lock();
                    let waits = left.is_none();
                    if waits {
                        *left = Some(Ok(bell.clone()));
                    }
                    waits
                };
                if waits && !flags.awaited() {
                    bell.wait();
                }
            }
            assert!(flags.has_failed());
            let error = left.lock().take();
            assert!(matches!(error, Some(Err(7))));
            thread.join().unwrap();
        });
    }

    #[test]
    fn an_abort_at_the_first_pending_ends_the_task() {
        against(&[|m| m.flags.abort(&m.waiting)]);
    }

    #[test]
    fn a_kill_at_the_first_pending_ends_the_task() {
        against(&[Model::kill]);
    }

    #[test]
    fn an_abort_and_a_kill_at_once_end_the_task() {
        against(&[|m| m.flags.abort(&m.waiting), Model::kill]);
    }
}
