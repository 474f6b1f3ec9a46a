//! Work on the blocking pool in slices, each of which is one closure of whoever asked.
//!
//! Mechanism; slices run on the pool's threads. Invariants:
//! 1. A slice moves at most [`SLICE`] bytes. Between two, the work stands in the pool's queue again, behind what its
//!    group has there, and the pool chooses anew whose turn it is.
//! 2. The next slice is queued by the one before: the task that waits is woken once, at the end.

use crate::exec::blocking;
use crate::exec::join::{Cause, JoinHandle};
use crate::exec::stats::Direction;
use crate::exec::task::{self, Origin, Surroundings, surroundings};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use tokio::sync::oneshot;

/// The most bytes that one closure moves.
pub(super) const SLICE: usize = 1 << 20;

/// Something that is done in slices.
pub(super) trait Work: Send + 'static {
    /// What comes of it.
    type Output: Send + 'static;

    /// Whether it goes on to its end when nobody waits for it any more.
    const UNATTENDED: bool;

    /// The next slice.
    fn slice(&mut self) -> Step<Self::Output>;
}

/// What a slice has come to.
pub(super) enum Step<T> {
    /// There is more to do.
    More,
    /// That was the last one.
    Done(io::Result<T>),
}

/// Runs a closure on the pool, as the running task's group and query.
#[track_caller]
pub(super) fn submit<F, R>(closure: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    submit_as(surroundings(), closure)
}

/// Runs a closure on the pool.
pub(super) fn submit_as<F, R>(whose: Surroundings, closure: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    blocking::spawn(Origin::here(), &whose.account, whose.lease, closure)
}

/// One call in one closure.
pub(super) async fn once<F, T>(call: F) -> io::Result<T>
where
    F: FnOnce() -> io::Result<T> + Send + 'static,
    T: Send + 'static,
{
    match submit(call).await {
        Ok(result) => result,
        Err(error) => Err(lost(error.cause().cloned())),
    }
}

/// All slices of `work`, one after the other.
pub(super) async fn run<W: Work>(work: W) -> io::Result<W::Output> {
    let (sender, result) = oneshot::channel();
    let first = submit(move || turn(work, sender));
    match result.await {
        Ok(result) => result,
        // It was killed, refused or panicked: if that was the first slice's end, its handle knows.
        Err(_) if first.is_finished() => Err(lost(
            first.await.err().and_then(|error| error.cause().cloned()),
        )),
        Err(_) => Err(lost(None)),
    }
}

/// All slices of `work`, with nobody waiting for it.
pub(super) fn run_unattended<W: Work>(whose: Surroundings, work: W) {
    let (sender, _) = oneshot::channel();
    drop(submit_as(whose, move || turn(work, sender)));
}

fn turn<W: Work>(mut work: W, sender: oneshot::Sender<io::Result<W::Output>>) {
    match work.slice() {
        Step::Done(result) => drop(sender.send(result)),
        Step::More if W::UNATTENDED || !sender.is_closed() => {
            drop(submit(move || turn(work, sender)));
        }
        Step::More => {}
    }
}

/// Writes all the bytes, and counts those that were written.
pub(super) fn write_all(mut file: &File, mut bytes: &[u8]) -> io::Result<()> {
    let whole = bytes.len();
    let result = loop {
        if bytes.is_empty() {
            break Ok(());
        }
        match file.write(bytes) {
            Ok(0) => break Err(ErrorKind::WriteZero.into()),
            Ok(many) => bytes = bytes.get(many..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    task::record_io(Direction::Write, (whole - bytes.len()) as u64);
    result
}

/// The error of what ended before it had a result.
pub(super) fn lost(cause: Option<Cause>) -> io::Error {
    io::Error::other(Lost(cause))
}

/// tokio's text, and what tokio does not say.
#[derive(Debug)]
struct Lost(Option<Cause>);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("background task failed")
    }
}

impl std::error::Error for Lost {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_deref().map(|cause| cause as _)
    }
}
