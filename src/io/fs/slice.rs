//! Work on the blocking pool in slices, between which others have their turn.
//!
//! Mechanism; slices run on the pool's threads. Invariants:
//! 1. A slice moves at most [`SLICE`] bytes. After it, if anyone waits for a thread, the work stands in the pool's queue
//!    again, behind what its group has there, and the pool chooses anew whose turn it is. If nobody does, the next slice
//!    follows in the same closure. A full line refuses what begins, and nothing that goes on.
//! 2. The next slice is queued by the one before: the task that waits is woken once, at the end. Only in a group with
//!    `max_io_bytes_per_second` it is woken for each slice, since it, and no thread of the pool, waits for that.

use super::toll::{self, Pass};
use crate::exec::blocking;
use crate::exec::join::{Cause, JoinHandle};
use crate::exec::stats::Direction;
use crate::exec::task::{self, Origin, Surroundings, surroundings};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use tokio::sync::oneshot;

/// The most bytes that are moved without a look at who waits.
pub(super) const SLICE: usize = 1 << 20;

/// The most slices of a closure for whose thread nobody waits: some milliseconds, after which its CPU time is charged.
const TOGETHER: usize = 16;

/// Something that is done in slices.
pub(super) trait Work: Send + 'static {
    /// What comes of it.
    type Output: Send + 'static;

    /// Whether it goes on to its end when nobody waits for it any more.
    const UNATTENDED: bool;

    /// The next slice: at most so many bytes, at least one.
    fn slice(&mut self, most: usize) -> Slice<Self::Output>;
}

/// What a slice has come to.
pub(super) struct Slice<T> {
    /// Bytes that have passed, in both directions.
    pub(super) bytes: u64,
    /// The result, if that was the last one.
    pub(super) end: Option<io::Result<T>>,
}

/// Runs a closure on the pool, as the running task's group and query.
#[track_caller]
pub(super) fn submit<F, R>(closure: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let whose = surroundings();
    blocking::spawn(Origin::here(), &whose.account, whose.lease, closure)
}

/// The same with what was begun: it is not refused because others wait, however many.
#[track_caller]
pub(super) fn go_on<F, R>(whose: Surroundings, closure: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    blocking::go_on(Origin::here(), &whose.account, whose.lease, closure)
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

/// Work that has begun or not, in somebody's hands.
struct Held<W: Work> {
    work: Option<W>,
    /// Whose it is, once it has begun.
    whose: Option<Surroundings>,
}

impl<W: Work> Drop for Held<W> {
    /// Nobody waits for it any more.
    fn drop(&mut self) {
        if let (Some(work), Some(whose)) = (self.work.take(), self.whose.take())
            && W::UNATTENDED
        {
            run_unattended(whose, work);
        }
    }
}

/// What the pool tells who waits.
enum Progress<W: Work> {
    Ended(io::Result<W::Output>),
    /// The next slice has to be waited for: the group is limited.
    Paused(Held<W>),
}

/// All slices of `work`, one after the other.
pub(super) async fn run<W: Work>(work: W) -> io::Result<W::Output> {
    let mut held = Held {
        work: Some(work),
        whose: None,
    };
    loop {
        let pass = toll::pass(SLICE).await?;
        let Some(work) = held.work.take() else {
            return Err(lost(None));
        };
        let (sender, progress) = oneshot::channel();
        let slices = move || turn(work, sender, pass);
        let first = match held.whose.take() {
            None => submit(slices),
            Some(_) => go_on(surroundings(), slices),
        };
        held = match progress.await {
            Ok(Progress::Ended(result)) => return result,
            Ok(Progress::Paused(held)) => held,
            // It was killed, refused or panicked. If that was the first slice's end, which has come, its handle knows.
            Err(_) => {
                let error = first.await.err();
                let why = error.and_then(|error| error.cause().cloned());
                return Err(lost(why.or_else(why_killed)));
            }
        };
    }
}

/// All slices of `work`, with nobody waiting for it, and so without waits for limits.
pub(super) fn run_unattended<W: Work>(whose: Surroundings, mut work: W) {
    drop(go_on(whose, move || {
        for _ in 0..TOGETHER {
            if work.slice(SLICE).end.is_some() {
                return;
            }
            if blocking::must_give_way() {
                break;
            }
        }
        run_unattended(surroundings(), work);
    }));
}

/// Slices until somebody waits for the thread.
fn turn<W: Work>(mut work: W, sender: oneshot::Sender<Progress<W>>, mut pass: Pass) {
    for _ in 0..TOGETHER {
        let slice = work.slice(pass.most());
        pass.pay(slice.bytes);
        if let Some(end) = slice.end {
            // If nobody listens, nobody wants it.
            let _ = sender.send(Progress::Ended(end));
            return;
        }
        if sender.is_closed() && !W::UNATTENDED {
            return;
        }
        if toll::is_limited() {
            let held = Held {
                work: Some(work),
                whose: Some(surroundings()),
            };
            let _ = sender.send(Progress::Paused(held));
            return;
        }
        if blocking::must_give_way() {
            break;
        }
        pass = Pass::free(SLICE);
    }
    drop(go_on(surroundings(), move || {
        turn(work, sender, Pass::free(SLICE));
    }));
}

/// Writes all the bytes, and counts those that were written; how many that were, and whether it worked.
pub(super) fn write_all(mut file: &File, mut bytes: &[u8]) -> (u64, io::Result<()>) {
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
    let written = (whole - bytes.len()) as u64;
    task::record_io(Direction::Write, written);
    (written, result)
}

/// Why whoever runs on this thread was killed, if so.
pub(super) fn why_killed() -> Option<Cause> {
    task::current()?.account.killed().cloned()
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
