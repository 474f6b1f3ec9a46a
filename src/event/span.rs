//! A task as `tracing` sees it: a span, in the shape of tokio's own, by which tokio-console lists tasks.
//!
//! Mechanism; any thread. Without the feature `tracing` it has no size and does nothing. With it, a spawn asks once
//! whether anybody wants spans of the target `tokio::task` at the level TRACE; who does not is asked nothing more.
//!
//! 1. A span is entered for each poll, and for the drop of the future; it ends when the future is gone, before the
//!    output is there.
//! 2. Of wakers there are two events, of the target `tokio::task::waker`: that the executor keeps one while the task waits
//!    (`waker.clone`), and each wake that makes the task ready (`waker.wake_by_ref`). What user code clones is not seen.

use crate::unit::QueryId;
use std::panic::Location;

/// What a task is, for its span.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "nobody looks"))]
pub(crate) struct Shape<'a> {
    /// `task`, or `blocking`.
    pub(crate) kind: &'static str,
    pub(crate) id: u64,
    pub(crate) name: Option<&'a str>,
    pub(crate) group: &'a str,
    pub(crate) query: Option<QueryId>,
    pub(crate) place: &'static Location<'static>,
}

/// The span of one task, if anybody looks: mostly nobody does, and a task should be small.
#[cfg(feature = "tracing")]
#[derive(Debug)]
pub(crate) struct Span(Option<Box<tracing::Span>>);

/// By which a subscriber knows a span, if it has one.
#[cfg(feature = "tracing")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanId(Option<std::num::NonZeroU64>);

#[cfg(feature = "tracing")]
impl Span {
    /// Whether anybody wants spans of tasks: usually one comparison.
    #[inline]
    pub(crate) fn is_wanted() -> bool {
        tracing::enabled!(target: "tokio::task", tracing::Level::TRACE)
    }

    /// The span of a task that nobody looks at.
    #[inline]
    pub(crate) fn none() -> Span {
        Span(None)
    }

    #[cold]
    pub(crate) fn begin(shape: Shape<'_>) -> Span {
        let span = tracing::trace_span!(
            target: "tokio::task",
            parent: None,
            "runtime.spawn",
            kind = %shape.kind,
            task.name = %shape.name.unwrap_or_default(),
            task.id = shape.id,
            group = shape.group,
            query = shape.query.map(|query| query.0),
            loc.file = shape.place.file(),
            loc.line = shape.place.line(),
            loc.col = shape.place.column(),
        );
        Span((!span.is_none()).then(|| Box::new(span)))
    }

    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn id(&self) -> SpanId {
        let id = self.0.as_ref().and_then(|span| span.id());
        SpanId(id.map(|id| id.into_non_zero_u64()))
    }

    /// Runs `f` inside the span.
    #[inline]
    pub(crate) fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let _inside = self.enter();
        f()
    }

    #[inline]
    fn enter(&self) -> Option<tracing::span::Entered<'_>> {
        self.0.as_deref().map(enter)
    }

    /// The task begins to wait, and a waker of its is kept.
    #[inline]
    pub(crate) fn waits(&self) {
        if self.is_some() {
            self.id().tell("waker.clone");
        }
    }

    /// The future is gone.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.is_some() {
            *self = Span::none();
        }
    }
}

#[cfg(feature = "tracing")]
#[cold]
fn enter(span: &tracing::Span) -> tracing::span::Entered<'_> {
    span.enter()
}

#[cfg(feature = "tracing")]
impl SpanId {
    /// The task becomes ready.
    #[inline]
    pub(crate) fn woken(self) {
        self.tell("waker.wake_by_ref");
    }

    #[inline]
    fn tell(self, op: &'static str) {
        if let Some(id) = self.0 {
            tell(id.get(), op);
        }
    }
}

#[cfg(feature = "tracing")]
#[cold]
fn tell(id: u64, op: &'static str) {
    tracing::trace!(target: "tokio::task::waker", op, task.id = id);
}

/// The span that nobody can see.
#[cfg(not(feature = "tracing"))]
#[derive(Debug)]
pub(crate) struct Span;

#[cfg(not(feature = "tracing"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanId;

#[cfg(not(feature = "tracing"))]
impl Span {
    #[inline]
    pub(crate) fn is_wanted() -> bool {
        false
    }

    #[inline]
    pub(crate) fn none() -> Span {
        Span
    }

    pub(crate) fn begin(_: Shape<'_>) -> Span {
        Span
    }

    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) fn id(&self) -> SpanId {
        SpanId
    }

    #[inline]
    pub(crate) fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        f()
    }

    #[inline]
    pub(crate) fn waits(&self) {}

    #[inline]
    pub(crate) fn end(&mut self) {}
}

#[cfg(not(feature = "tracing"))]
impl SpanId {
    #[inline]
    pub(crate) fn woken(self) {}
}
