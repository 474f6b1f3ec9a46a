//! Where a waiting request is told what became of it.
//!
//! Mechanism; any thread. Two ends race: whoever took the request out of the line answers, and whoever made it may
//! leave at any instant. Exactly one of them comes first, under the seat's own lock.

use crate::admission::error::AdmissionError;
use crate::admission::permit::Permit;
use crate::foreign;
use crate::sync::Mutex;
use crate::unit::{Nanos, QueryId};
use std::sync::Arc;
use std::task::{Context, Waker};

/// Who asks for what, for the list of those that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// The user, if stated.
    pub user: Option<Arc<str>>,
    /// The databases that the request touches.
    pub dbs: Vec<Arc<str>>,
}

pub(super) struct Seat {
    query: QueryId,
    since: Nanos,
    who: Who,
    state: Mutex<State>,
}

enum State {
    Waits {
        waker: Option<Waker>,
        /// Its deadline has become sooner.
        sooner: bool,
    },
    Answered(Result<Permit, AdmissionError>),
    /// Whoever waited has its answer, or has gone without.
    Left,
}

/// What a waiting request finds when it looks.
pub(super) enum Found {
    /// It goes on waiting, and is woken when there is more to find.
    Nothing,
    /// Its deadline has become sooner.
    Sooner,
    Answer(Result<Permit, AdmissionError>),
}

impl Seat {
    pub(super) fn new(query: QueryId, since: Nanos, who: Who) -> Seat {
        let state = State::Waits {
            waker: None,
            sooner: false,
        };
        Seat {
            query,
            since,
            who,
            state: Mutex::new(state),
        }
    }

    /// The id that the query will have.
    pub(super) fn query(&self) -> QueryId {
        self.query
    }

    /// When it came.
    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    pub(super) fn who(&self) -> &Who {
        &self.who
    }

    /// Gives the answer, unless nobody waits for it any more: then it is not even made.
    pub(super) fn answer(&self, answer: impl FnOnce() -> Result<Permit, AdmissionError>) -> bool {
        let mut state = self.state.lock();
        let State::Waits { waker, .. } = &mut *state else {
            return false;
        };
        let waker = waker.take();
        *state = State::Answered(answer());
        drop(state);
        foreign::wake(waker);
        true
    }

    /// As [`answer`](Seat::answer), with a refusal that also takes back a place that was given and not taken yet.
    pub(super) fn take_back(&self, refusal: AdmissionError) -> bool {
        let mut state = self.state.lock();
        if let State::Answered(Err(_)) | State::Left = &*state {
            return false;
        }
        let before = std::mem::replace(&mut *state, State::Answered(Err(refusal)));
        drop(state);
        match before {
            State::Waits { waker, .. } => foreign::wake(waker),
            // It was woken when it was answered. The place is given back here, outside of the lock.
            State::Answered(_) | State::Left => {}
        }
        true
    }

    /// Whether nobody will look here any more.
    pub(super) fn is_left(&self) -> bool {
        matches!(&*self.state.lock(), State::Left)
    }

    /// Its deadline has become sooner.
    pub(super) fn sooner(&self) {
        let waker = match &mut *self.state.lock() {
            State::Waits { waker, sooner } => {
                *sooner = true;
                waker.take()
            }
            State::Answered(_) | State::Left => None,
        };
        foreign::wake(waker);
    }

    /// What there is, or the waker to be woken when there is something.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Found {
        let mut fresh: Option<Waker> = None;
        loop {
            let mut state = self.state.lock();
            let (waker, sooner) = match &mut *state {
                State::Waits { waker, sooner } => (waker, sooner),
                State::Left => return Found::Nothing,
                State::Answered(_) => {
                    return match std::mem::replace(&mut *state, State::Left) {
                        State::Answered(answer) => Found::Answer(answer),
                        State::Waits { .. } | State::Left => Found::Nothing,
                    };
                }
            };
            if std::mem::take(sooner) {
                return Found::Sooner;
            }
            if waker.as_ref().is_some_and(|it| it.will_wake(cx.waker())) {
                return Found::Nothing;
            }
            if let Some(clone) = fresh.take() {
                let old = waker.replace(clone);
                drop(state);
                drop(old);
                return Found::Nothing;
            }
            // Cloning a waker is foreign code: not under the lock.
            drop(state);
            fresh = Some(cx.waker().clone());
        }
    }

    /// Whoever waited leaves; with what it was just given, to be dropped outside of every lock.
    pub(super) fn leave(&self) -> Option<Result<Permit, AdmissionError>> {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut *state, State::Left);
        drop(state);
        match before {
            State::Answered(answer) => Some(answer),
            // The waker is dropped here.
            State::Waits { .. } | State::Left => None,
        }
    }
}
