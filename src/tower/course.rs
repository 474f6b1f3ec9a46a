//! One request's course: refused, or in line, then running as a task of its query.
//!
//! Mechanism; any thread: whichever task polls the caller's future. Dropped at any instant, it leaves the line or ends
//! the task.

use crate::admission::AdmissionError;
use crate::classify::Attributes;
use crate::exec::abort_on_drop::AbortOnDropHandle;
use crate::exec::join::{JoinError, JoinHandle};
use crate::governor::Governor;
use crate::governor::admission::Admission;
use crate::query::Query;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tower_service::Service;

/// An inner service on behalf of one request.
pub(super) enum Turn<S> {
    /// It is ready for this request.
    Ready(S),
    /// It has to be asked first.
    Unready(S),
}

impl<S> Turn<S> {
    pub(super) async fn call<R>(self, request: R) -> Result<S::Response, S::Error>
    where
        S: Service<R>,
    {
        let mut service = match self {
            Turn::Ready(service) => service,
            Turn::Unready(mut service) => {
                poll_fn(|cx| service.poll_ready(cx)).await?;
                service
            }
        };
        let response = service.call(request);
        drop(service);
        response.await
    }
}

/// `T` is what the task gives.
pub(super) struct Course<S, R, T>(State<S, R, T>);

enum State<S, R, T> {
    Refused(AdmissionError, R),
    InLine(Admission<Attributes>, Turn<S>, R),
    Runs(AbortOnDropHandle<T>),
    Over,
}

// Nothing of it is pinned.
impl<S, R, T> Unpin for Course<S, R, T> {}

impl<S, R, T> Course<S, R, T> {
    /// Asks for a place for `request`. `service` is ready, and is not afterwards.
    pub(super) fn begin(
        governor: &Governor,
        attributes: Attributes,
        service: &mut S,
        request: R,
    ) -> Course<S, R, T>
    where
        S: Clone,
    {
        // The clone is not ready: what was ready is used up by this call, whatever becomes of it.
        let fresh = service.clone();
        let ready = mem::replace(service, fresh);
        let admission = match governor.arrival(attributes) {
            Ok(admission) => admission,
            Err(refusal) => return Course(State::Refused(refusal, request)),
        };
        let turn = if admission.waits() {
            // Somebody else's turn comes first, and may need what this one has reserved.
            drop(ready);
            Turn::Unready(service.clone())
        } else {
            Turn::Ready(ready)
        };
        Course(State::InLine(admission, turn, request))
    }

    /// `start` spawns the task once the query is there.
    ///
    /// # Errors
    ///
    /// The refusal, and the request that was refused.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        start: impl FnOnce(Query, Turn<S>, R) -> JoinHandle<T>,
    ) -> Poll<Result<Result<T, JoinError>, (AdmissionError, R)>> {
        self.0 = match mem::replace(&mut self.0, State::Over) {
            State::Refused(refusal, request) => return Poll::Ready(Err((refusal, request))),
            State::InLine(mut admission, turn, request) => {
                match Pin::new(&mut admission).poll(cx) {
                    Poll::Pending => State::InLine(admission, turn, request),
                    Poll::Ready(Ok(query)) => {
                        State::Runs(AbortOnDropHandle::new(start(query, turn, request)))
                    }
                    Poll::Ready(Err(refusal)) => return Poll::Ready(Err((refusal, request))),
                }
            }
            as_before => as_before,
        };
        let State::Runs(task) = &mut self.0 else {
            return Poll::Pending;
        };
        let output = ready!(Pin::new(task).poll(cx));
        self.0 = State::Over;
        Poll::Ready(Ok(output))
    }
}
