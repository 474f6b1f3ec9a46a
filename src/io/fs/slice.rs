//! Work on the blocking pool in slices, between which others have their turn.
//!
//! Mechanism; slices run on the pool's threads. Invariants:
//! 1. A slice moves at most [`SLICE`] bytes. After it, if anyone waits for a thread, the work stands in the pool's queue
//!    again, behind what its group has there, and the pool chooses anew whose turn it is. If nobody does, the next slice
//!    follows in the same closure. A full line refuses what begins, and nothing that goes on.
//! 2. The next slice is queued by the one before. Where nobody waits for a thread, the task is woken once, by the end of
//!    the closure, after which nothing is left to do on its thread. Otherwise it is woken when the work stands in line
//!    again for the first time, and at the end; in a group with `max_io_bytes_per_second` for each slice, since it, and no
//!    thread of the pool, waits for that.

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
    /// Others were to have their turn: another closure goes on, and says here what comes of it.
    Later(oneshot::Receiver<Progress<W>>),
    /// Nobody waits any more.
    Unwanted,
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
        let slices = move || match turn(work, pass, task::is_unwanted) {
            Turn::Over(progress) => progress,
            Turn::GivesWay(work) => {
                let (sender, later) = oneshot::channel();
                turn_later(work, sender);
                Progress::Later(later)
            }
        };
        let first = match held.whose.take() {
            None => submit(slices),
            Some(_) => go_on(surroundings(), slices),
        };
        // It may have been killed, refused, or panicked.
        let mut progress = match first.await {
            Ok(progress) => progress,
            Err(error) => return Err(lost(error.cause().cloned().or_else(why_killed))),
        };
        held = loop {
            progress = match progress {
                Progress::Ended(result) => return result,
                Progress::Paused(held) => break held,
                Progress::Later(later) => later.await.map_err(|_| lost(why_killed()))?,
                Progress::Unwanted => return Err(lost(why_killed())),
            };
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

/// What a turn has come to.
enum Turn<W: Work> {
    Over(Progress<W>),
    /// Somebody waits for the thread.
    GivesWay(W),
}

/// Slices until somebody waits for the thread.
fn turn<W: Work>(mut work: W, mut pass: Pass, is_unwanted: impl Fn() -> bool) -> Turn<W> {
    for _ in 0..TOGETHER {
        let slice = work.slice(pass.most());
        pass.pay(slice.bytes);
        if let Some(end) = slice.end {
            return Turn::Over(Progress::Ended(end));
        }
        if !W::UNATTENDED && is_unwanted() {
            return Turn::Over(Progress::Unwanted);
        }
        if toll::is_limited() {
            return Turn::Over(Progress::Paused(Held {
                work: Some(work),
                whose: Some(surroundings()),
            }));
        }
        if blocking::must_give_way() {
            break;
        }
        pass = Pass::free(SLICE);
    }
    Turn::GivesWay(work)
}

/// The turns that follow the first one. If nobody listens, nobody wants what comes of them.
fn turn_later<W: Work>(work: W, sender: oneshot::Sender<Progress<W>>) {
    drop(go_on(surroundings(), move || {
        match turn(work, Pass::free(SLICE), || sender.is_closed()) {
            Turn::Over(progress) => drop(sender.send(progress)),
            Turn::GivesWay(work) => turn_later(work, sender),
        }
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
