//! The shared part of a task: identity, account and state.
//!
//! Mechanism; any thread.
//!
//! Its size is part of what a spawn costs, and of what a poll does: see the test that bounds it.

use super::ends::Left;
use super::flags::{Flags, Nature};
use super::{Id, Origin, Runnable};
use crate::event::span::{Shape, Span, SpanId};
use crate::exec::account::Account;
use crate::exec::group::Group;
use crate::exec::hooks::TaskMeta;
use crate::exec::join::Cause;
use crate::exec::worker::Worker;
use crate::mem;
use crate::sched::feedback::{Place, Stream};
use crate::unit::Nanos;
use parking_lot::Mutex;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a queue needs to know of a task.
pub(in crate::exec) struct Meta {
    pub(in crate::exec) task: Arc<Task>,
}

impl Meta {
    /// The stream that it belongs to, as a number that compares in one step.
    #[inline]
    pub(in crate::exec) fn stream(&self) -> u64 {
        self.task.account.stream_number()
    }

    /// Where it belongs in its group's queue.
    pub(in crate::exec) fn place(&self) -> (Stream, Nanos) {
        let account = &self.task.account;
        match account.stream() {
            stream @ Stream::Query(_) => (stream, account.age()),
            Stream::Loose => (Stream::Loose, Nanos(self.task.cpu.load(Relaxed))),
        }
    }

    /// Whether its query belongs to the group with this number. A task without a query is always its group's.
    #[inline]
    pub(in crate::exec) fn is_served_by(&self, uid: u64) -> bool {
        !self.task.flags.is_in_query() || self.task.account.is_served_by(uid)
    }
}

/// The shared part of a task: what aborting, queueing, charging and awaiting it need. In this order: what every poll
/// looks at lies together.
#[repr(C)]
pub(in crate::exec) struct Task {
    pub(super) flags: Flags,
    /// When it became ready; 0 from the beginning of its poll until that is so again.
    queued_at: AtomicU64,
    pub(super) account: Arc<Account>,
    /// Its own CPU time; only kept for tasks without a query.
    cpu: AtomicU64,
    pub(super) id: Id,
    /// The line that spawned it.
    spawned_at: &'static Location<'static>,
    /// Where it waits in its group's queue, if it does; the number of a closure in the blocking pool.
    place: AtomicU64,
    /// What the flags tell of.
    known_as: Option<Box<KnownAs>>,
    pub(super) left: Mutex<Left>,
}

/// What few tasks have. Not where every poll looks: the flags say whether there is any.
struct KnownAs {
    name: Option<Box<str>>,
    /// The span's, for events about its wakers.
    span: SpanId,
}

impl Task {
    /// The shared part, and the task's span, which says that it is of this kind and ends with its future.
    pub(in crate::exec) fn new(
        account: Arc<Account>,
        origin: Origin,
        kind: Kind,
    ) -> (Arc<Task>, Span) {
        let (id, query) = (Id::next(), account.query());
        let span = if Span::is_wanted() {
            // A subscriber's memory is nobody's.
            let _ours = mem::enter_process();
            Span::begin(Shape {
                kind: kind.name(),
                id: id.number(),
                name: origin.name.as_deref(),
                group: account.group().name(),
                query,
                place: origin.place,
            })
        } else {
            Span::none()
        };
        let traced = span.is_some();
        let Origin { place, name } = origin;
        let known_as = (name.is_some() || span.is_some()).then(|| {
            let span = span.id();
            Box::new(KnownAs { name, span })
        });
        let task = Task {
            flags: Flags::of(Nature {
                in_query: query.is_some(),
                closure: matches!(kind, Kind::Closure),
                traced,
            }),
            queued_at: AtomicU64::new(0),
            account,
            cpu: AtomicU64::new(0),
            id,
            spawned_at: place,
            place: AtomicU64::new(0),
            known_as,
            left: Mutex::new(Left::Nothing),
        };
        (Arc::new(task), span)
    }

    #[inline]
    pub(in crate::exec) fn id(&self) -> Id {
        self.id
    }

    #[inline]
    pub(in crate::exec) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    #[inline]
    pub(in crate::exec) fn group(&self) -> &Arc<Group> {
        self.account.group()
    }

    #[inline]
    pub(in crate::exec) fn is_finished(&self) -> bool {
        self.flags.is_done()
    }

    #[inline]
    pub(in crate::exec) fn is_aborted(&self) -> bool {
        self.flags.is_aborted()
    }

    /// It was woken, and becomes ready.
    #[inline]
    pub(super) fn woken(&self) {
        if self.flags.is_traced()
            && let Some(known_as) = &self.known_as
        {
            known_as.span.woken();
        }
    }

    /// What hooks are told of the task.
    pub(super) fn meta(&self) -> TaskMeta<'_> {
        TaskMeta::new(self.id, self.spawned_at, self.name(), &self.account)
    }

    /// Ends the task: its future is dropped before anything else of its group is polled, wherever it waits.
    pub(in crate::exec) fn abort(&self) {
        let _ours = mem::enter_process();
        self.flags.abort(&self.account.waiting);
        if self.flags.is_closure() {
            let number = self.place.load(Relaxed);
            self.account.core().pool().end(&self.account, number);
        } else if !self.is_finished() {
            let place = Place::unpack(self.place.load(Relaxed));
            let stream = self.account.stream();
            self.group().hurry(stream, place, |task| self.is(task));
        }
    }

    fn is(&self, task: &Runnable) -> bool {
        std::ptr::eq(Arc::as_ptr(&task.metadata().task), self)
    }

    /// It waits in its group's queue, whose lock the caller holds.
    pub(in crate::exec) fn placed(&self, place: Place) {
        self.place.store(place.pack(), Relaxed);
    }

    /// Whether it has to be dropped, by an abort or a kill.
    #[inline]
    pub(in crate::exec) fn is_doomed(&self) -> bool {
        self.flags.is_aborted() || self.is_killed()
    }

    #[inline]
    pub(in crate::exec) fn queued(&self, now: Nanos) {
        self.queued_at.store(now.0, Relaxed);
    }

    /// It is polled now. Since when it was ready.
    #[inline]
    pub(super) fn no_longer_queued(&self) -> Nanos {
        let since = self.queued_at.load(Relaxed);
        self.queued_at.store(0, Relaxed);
        Nanos(since)
    }

    /// Since when it is ready to be polled, if it is.
    pub(in crate::exec) fn ready_since(&self) -> Option<Nanos> {
        let since = self.queued_at.load(Relaxed);
        (since > 0).then_some(Nanos(since))
    }

    /// The line that spawned it.
    #[inline]
    pub(in crate::exec) fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// The name that it was given, if any.
    pub(in crate::exec) fn name(&self) -> Option<&str> {
        self.known_as.as_ref()?.name.as_deref()
    }

    /// Its own CPU time, which is kept for tasks without a query.
    pub(in crate::exec) fn own_cpu(&self) -> Option<Nanos> {
        (!self.flags.is_in_query()).then(|| Nanos(self.cpu.load(Relaxed)))
    }

    #[inline]
    pub(super) fn must_end(&self, worker: &Worker) -> bool {
        self.is_doomed() || worker.is_cancelling()
    }

    /// Whether its query was killed.
    #[inline]
    pub(super) fn is_killed(&self) -> bool {
        self.flags.is_in_query() && self.account.is_killed()
    }

    /// Whether the task should not go on, as far as can be seen from inside of it.
    pub(super) fn must_stop(&self) -> bool {
        self.is_doomed()
            || mem::is_doomed_here()
            || (self.flags.is_in_query() && self.account.memory().is_doomed())
    }

    /// Charges a poll to the account; the CPU time that counts for the task's level.
    /// `held`: how long it kept its worker.
    #[inline]
    pub(super) fn charge(&self, took: Nanos, held: Nanos) -> Nanos {
        if self.flags.is_in_query() {
            return self.account.charge(took, held, self.spawned_at);
        }
        // Only the worker that polls the task writes this; 584 years.
        let cpu = self.cpu.load(Relaxed).wrapping_add(took.0);
        self.cpu.store(cpu, Relaxed);
        Nanos(cpu)
    }

    /// Why a task that is being cancelled is: the executor's reason, or none for a plain abort.
    pub(in crate::exec) fn cause(&self) -> Option<Cause> {
        if self.flags.is_aborted() {
            return None;
        }
        let killed = self.account.killed().cloned();
        killed.or_else(|| self.account.core().cancelled().cloned())
    }
}

/// What a task is of.
#[derive(Clone, Copy)]
pub(in crate::exec) enum Kind {
    /// A future.
    Task,
    /// A closure of the blocking pool.
    Closure,
}

impl Kind {
    /// By what tokio's tools know it.
    fn name(self) -> &'static str {
        match self {
            Kind::Task => "task",
            Kind::Closure => "blocking",
        }
    }
}
