//! What moves the position of a file: one read, write or seek at a time.
//!
//! Mechanism; driven by whoever holds the file, on any thread. Invariants:
//! 1. While an operation is under way, the buffer is with it; at rest, the buffer has what was read and not yet taken.
//! 2. The kernel's position is then as many bytes ahead of the program's: whatever depends on the position goes back
//!    by them first. It forgets how many they are when it does so, and not before: it may be refused or killed.
//! 3. An error of a write is told once, by the next write or flush, whoever met it first.

use super::super::buffer::Buffer;
use super::super::slice::submit;
use super::super::toll::Pass;
use super::accepted::{self, Accepted};
use crate::exec::join::JoinHandle;
use crate::exec::stats::Direction;
use crate::exec::task::record_io;
use std::fs::File as StdFile;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// What is under way.
    operation: Option<JoinHandle<(Done, Buffer)>>,
    pub(super) buffer: Buffer,
    /// What a write failed with, until it was told.
    pub(super) write_error: Option<ErrorKind>,
    /// Where the last seek went.
    pub(super) position: u64,
    ahead: Arc<Ahead>,
}

/// How many bytes the kernel's position is ahead, those in the buffer aside. What changes it is one after the other.
#[derive(Debug, Default)]
pub(super) struct Ahead(AtomicU64);

/// An operation that has ended.
#[derive(Debug)]
pub(super) enum Done {
    Read(io::Result<()>),
    Write(io::Result<()>),
    Seek(io::Result<u64>),
}

impl Cursor {
    pub(super) fn is_busy(&self) -> bool {
        self.operation.is_some()
    }

    /// Waits for the operation that is under way; none, if there is none. Afterwards the file is at rest.
    pub(super) fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Done>>> {
        let Some(operation) = &mut self.operation else {
            return Poll::Ready(Ok(None));
        };
        let ended = ready!(Pin::new(operation).poll(cx));
        self.operation = None;
        // One that was lost took the buffer with it.
        let (done, buffer) = ended?;
        self.buffer = buffer;
        Poll::Ready(Ok(Some(done)))
    }

    /// Waits for what is under way and tells the error of a write; of an earlier one, without waiting.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.told()?;
        let done = ready!(self.poll_done(cx))?;
        Poll::Ready(match done {
            Some(Done::Write(written)) => written,
            _ => Ok(()),
        })
    }

    /// The error of an earlier write.
    pub(super) fn told(&mut self) -> io::Result<()> {
        match self.write_error.take() {
            Some(kind) => Err(kind.into()),
            None => Ok(()),
        }
    }

    /// Waits for what is under way, also if an earlier error has not been told. The error of a write is kept.
    pub(super) async fn at_rest(&mut self) {
        match poll_fn(|cx| self.poll_done(cx)).await {
            Ok(Some(Done::Write(Err(error)))) | Err(error) => self.write_error = Some(error.kind()),
            Ok(_) => {}
        }
    }

    /// What was read ahead is forgotten; what begins now goes back by it first.
    fn step_back(&mut self) -> Arc<Ahead> {
        let ahead = self.buffer.discard() as u64;
        self.ahead.0.fetch_add(ahead, Relaxed);
        self.ahead.clone()
    }

    /// Begins to read.
    pub(super) fn start_read(&mut self, std: &Arc<StdFile>, pass: Pass) {
        // Nothing of it is there, but what was meant to go back may not have begun.
        let ahead = self.step_back();
        let mut buffer = std::mem::take(&mut self.buffer);
        let std = std.clone();
        self.operation = Some(submit(move || {
            let back = ahead.go_back(&std);
            let read = back.and_then(|()| buffer.read_from(&mut &*std, pass.most()));
            let bytes = read.as_ref().map_or(0, |&many| many as u64);
            record_io(Direction::Read, bytes);
            pass.pay(bytes);
            (Done::Read(read.map(drop)), buffer)
        }));
    }

    /// Begins to write some of these bytes; how many.
    pub(super) fn start_write(
        &mut self,
        std: &Arc<StdFile>,
        bytes: &[io::IoSlice<'_>],
        pass: Pass,
    ) -> io::Result<usize> {
        let ahead = self.step_back();
        let mut buffer = std::mem::take(&mut self.buffer);
        let many = buffer.take(bytes, pass.most());
        let accepted = Accepted::new(std.clone(), ahead, buffer, pass);
        self.operation = Some(accepted::submit(accepted)?);
        Ok(many)
    }

    /// Begins to seek.
    pub(super) fn start_seek(&mut self, std: &Arc<StdFile>, to: SeekFrom) {
        let ahead = self.step_back();
        self.start(std, move |file| ahead.seek(file, to));
    }

    /// Sets the length of the file, with nothing else under way.
    pub(super) async fn set_len(&mut self, std: &Arc<StdFile>, size: u64) -> io::Result<()> {
        self.at_rest().await;
        let ahead = self.step_back();
        let position = self.position;
        self.start(std, move |file| {
            ahead.go_back(file)?;
            file.set_len(size)?;
            Ok(position)
        });
        match poll_fn(|cx| self.poll_done(cx)).await? {
            Some(Done::Seek(result)) => result.map(drop),
            _ => Ok(()),
        }
    }

    fn start<F>(&mut self, std: &Arc<StdFile>, seek: F)
    where
        F: FnOnce(&StdFile) -> io::Result<u64> + Send + 'static,
    {
        let buffer = std::mem::take(&mut self.buffer);
        let std = std.clone();
        self.operation = Some(submit(move || (Done::Seek(seek(&std)), buffer)));
    }
}

impl Ahead {
    fn take(&self) -> Option<i64> {
        match self.0.swap(0, Relaxed) {
            0 => None,
            ahead => i64::try_from(ahead).ok().map(|ahead| -ahead),
        }
    }

    /// Moves the position of the kernel back to the program's.
    pub(super) fn go_back(&self, mut file: &StdFile) -> io::Result<()> {
        match self.take() {
            Some(back) => file.seek(SeekFrom::Current(back)).map(drop),
            None => Ok(()),
        }
    }

    /// The same and a seek: in one step, unless that is beyond what a number can say.
    fn seek(&self, mut file: &StdFile, to: SeekFrom) -> io::Result<u64> {
        let (SeekFrom::Current(offset), Some(back)) = (to, self.take()) else {
            return file.seek(to);
        };
        if let Some(offset) = offset.checked_add(back) {
            return file.seek(SeekFrom::Current(offset));
        }
        file.seek(SeekFrom::Current(back))?;
        file.seek(to)
    }
}
