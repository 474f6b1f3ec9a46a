//! Admission as a value: a request's place, or its place in the line, for callers that are polled by hand.
//!
//! Wiring; any thread. The request has arrived, and is in the line or not, from when the value is there; the future
//! only waits.

use super::admit::{Coming, InLine, thawed};
use super::{Governor, Inner};
use crate::admission::{AdmissionError, Arrived, Permit};
use crate::classify::Attributes;
use crate::query::Query;
use std::borrow::Borrow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A request that has arrived. Dropped at any instant, it leaves the line or gives its place to the next one.
#[must_use = "it leaves the line when it is dropped"]
pub(crate) struct Admission<A> {
    governor: Arc<Inner>,
    coming: Coming<A>,
    state: State,
}

enum State {
    Has(Permit),
    Waits(InLine),
    Over,
}

impl Governor {
    /// Classifies a request and lets it in or puts it in its group's line.
    pub(crate) fn arrival<A: Borrow<Attributes>>(
        &self,
        attributes: A,
    ) -> Result<Admission<A>, AdmissionError> {
        let (coming, arrived) = self.arrive(attributes)?;
        Ok(Admission {
            governor: self.inner.clone(),
            coming,
            state: match arrived {
                Arrived::In(permit) => State::Has(permit),
                Arrived::Waits(waiting) => State::Waits(InLine::new(waiting)),
            },
        })
    }
}

impl<A> Admission<A> {
    /// Whether it was put in a line. If not, its first poll is ready.
    #[cfg(feature = "tower")]
    pub(crate) fn waits(&self) -> bool {
        matches!(self.state, State::Waits(_))
    }
}

// Nothing of it is pinned.
impl<A> Unpin for Admission<A> {}

impl<A: Borrow<Attributes>> Future for Admission<A> {
    type Output = Result<Query, AdmissionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let permit = match std::mem::replace(&mut self.state, State::Over) {
            State::Has(permit) => permit,
            State::Waits(mut waiting) => match Pin::new(&mut waiting).poll(cx) {
                Poll::Ready(answer) => answer?,
                Poll::Pending => {
                    self.state = State::Waits(waiting);
                    return Poll::Pending;
                }
            },
            State::Over => return Poll::Pending,
        };
        let Admission {
            governor, coming, ..
        } = &mut *self;
        thawed(&coming.entry)?;
        let account = coming.account();
        Poll::Ready(Ok(governor.enrol(coming, account, permit)))
    }
}
