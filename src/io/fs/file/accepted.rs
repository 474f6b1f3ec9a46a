//! A write that the program was told is accepted: it is done, whatever becomes of its query, group or governor.
//!
//! Mechanism; the write runs on one of the pool's threads, or on the thread that drops its closure. Invariants:
//! 1. Until `poll_write` returns, it may be refused: then nothing is written, and the error says so.
//! 2. Afterwards the bytes are written when the closure runs, and otherwise when it is dropped, by a kill or a
//!    shutdown. That is a slice at most for each open file.

use super::super::buffer::Buffer;
use super::super::slice::{self, lost, write_all};
use super::super::toll::Pass;
use super::cursor::{Ahead, Done};
use crate::exec::join::JoinHandle;
use std::fs::File as StdFile;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

/// Nobody was told yet.
const ASKED: u8 = 0;
/// The program was told.
const ACCEPTED: u8 = 1;
/// The closure was dropped before that.
const GONE: u8 = 2;

/// The closure's side.
pub(super) struct Accepted {
    std: Arc<StdFile>,
    ahead: Arc<Ahead>,
    buffer: Buffer,
    pass: Option<Pass>,
    fate: Arc<AtomicU8>,
    has_run: bool,
}

impl Accepted {
    pub(super) fn new(
        std: Arc<StdFile>,
        ahead: Arc<Ahead>,
        buffer: Buffer,
        pass: Pass,
    ) -> Accepted {
        Accepted {
            std,
            ahead,
            buffer,
            pass: Some(pass),
            fate: Arc::new(AtomicU8::new(ASKED)),
            has_run: false,
        }
    }

    fn write(&mut self) -> io::Result<()> {
        self.has_run = true;
        let back = self.ahead.go_back(&self.std);
        let (bytes, written) = match back {
            Ok(()) => write_all(&self.std, self.buffer.bytes()),
            Err(error) => (0, Err(error)),
        };
        // Written or not, they are nothing that was read.
        self.buffer.discard();
        if let Some(pass) = self.pass.take() {
            pass.pay(bytes);
        }
        written
    }

    fn run(mut self) -> (Done, Buffer) {
        let written = self.write();
        (Done::Write(written), std::mem::take(&mut self.buffer))
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        if self.has_run {
            return;
        }
        if self.fate.swap(GONE, SeqCst) == ACCEPTED {
            // Nobody is there to be told how it went.
            let _ = self.write();
        }
    }
}

/// Gives the write to the pool.
pub(super) fn submit(write: Accepted) -> io::Result<JoinHandle<(Done, Buffer)>> {
    let fate = write.fate.clone();
    let handle = slice::submit(move || write.run());
    match fate.compare_exchange(ASKED, ACCEPTED, SeqCst, SeqCst) {
        Ok(_) => Ok(handle),
        Err(_) => Err(lost(slice::why_killed())),
    }
}
