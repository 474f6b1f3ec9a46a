//! Writing whole files.
//!
//! Mechanism; the future copies a slice, one of the pool's threads writes it, in turns. Invariants:
//! 1. No more than a slice of the contents is there twice, as long as somebody waits.
//! 2. Whoever finds the other gone has the rest written: the future when it is dropped between two slices, the slice
//!    when the future was dropped meanwhile. Which of the two it is, [`Relay`] says.

use super::slice::{self, SLICE, Work, go_on, lost, run_unattended, submit, write_all};
use super::toll::{self, Pass};
use crate::exec::join::JoinHandle;
use crate::exec::task::{Surroundings, surroundings};
use crate::mem;
use crate::sync::Mutex;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes bytes as the contents of a file, which is created if it is missing and emptied if it is not.
///
/// # Errors
///
/// As [`std::fs::write`].
///
/// # Cancel safety
///
/// As `tokio::fs`: once begun, everything is written whether or not it is waited for, unless the query is killed.
/// Dropping the future copies what is left.
///
/// # Metrics
///
/// `quotient_group_io_bytes_total`, direction `write`.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let mut writing = Writing::new(path.as_ref().to_owned(), contents);
    while writing.is_due() {
        let written = match toll::pass(SLICE.min(writing.left().len().max(1))).await {
            Ok(pass) => match writing.next(pass) {
                Some(slice) => match slice.submit().await {
                    Ok(written) => written,
                    Err(error) => Err(lost(error.cause().cloned())),
                },
                None => Ok(()),
            },
            Err(error) => Err(error),
        };
        if written.is_err() {
            writing.relay.swap(Baton::Ended);
            return written;
        }
    }
    Ok(())
}

/// The future's side.
struct Writing<C: AsRef<[u8]>> {
    contents: C,
    /// Bytes that were given to slices.
    given: usize,
    relay: Arc<Relay>,
    whose: Surroundings,
}

/// Who has the file.
#[derive(Default)]
struct Relay(Mutex<Baton>);

#[derive(Default)]
enum Baton {
    /// Nobody yet.
    Path(PathBuf),
    /// The future; with memory for the next slice.
    Here(File, Vec<u8>),
    /// A slice.
    Away,
    /// A slice; the future is gone, and this is left.
    Orphaned(Vec<u8>),
    /// Nobody any more.
    #[default]
    Ended,
}

impl Relay {
    fn swap(&self, baton: Baton) -> Baton {
        std::mem::replace(&mut self.0.lock(), baton)
    }

    /// A slice was written.
    fn back(&self, file: File, memory: Vec<u8>) {
        let mut baton = self.0.lock();
        match std::mem::take(&mut *baton) {
            Baton::Away => *baton = Baton::Here(file, memory),
            Baton::Orphaned(bytes) => {
                drop(baton);
                run_unattended(surroundings(), Rest::of(file, bytes));
            }
            _ => {}
        }
    }

    fn is_under_way(&self) -> bool {
        matches!(*self.0.lock(), Baton::Away | Baton::Here(..))
    }
}

impl<C: AsRef<[u8]>> Writing<C> {
    fn new(path: PathBuf, contents: C) -> Writing<C> {
        Writing {
            contents,
            given: 0,
            relay: Arc::new(Relay(Mutex::new(Baton::Path(path)))),
            whose: surroundings(),
        }
    }

    fn left(&self) -> &[u8] {
        self.contents.as_ref().get(self.given..).unwrap_or_default()
    }

    /// Whether there is a slice to write: the first one, which may be empty, or more.
    fn is_due(&self) -> bool {
        match *self.relay.0.lock() {
            Baton::Path(_) => true,
            Baton::Here(..) => !self.left().is_empty(),
            _ => false,
        }
    }

    /// The next slice.
    fn next(&mut self, pass: Pass) -> Option<Slice> {
        let (place, mut memory) = match self.relay.swap(Baton::Ended) {
            Baton::Path(path) => (Place::Path(path), Vec::new()),
            Baton::Here(file, memory) => (Place::Open(file), memory),
            _ => return None,
        };
        memory.clear();
        let left = self.left();
        memory.extend_from_slice(left.get(..pass.most()).unwrap_or(left));
        self.given += memory.len();
        self.relay.swap(Baton::Away);
        Some(Slice {
            pass,
            place,
            memory,
            relay: self.relay.clone(),
        })
    }
}

impl<C: AsRef<[u8]>> Drop for Writing<C> {
    fn drop(&mut self) {
        let left = self.left();
        if left.is_empty() || !self.relay.is_under_way() {
            return;
        }
        // Copied with the lock open: a slice may end meanwhile.
        let mut bytes = Vec::new();
        let fits = mem::fallible(|| bytes.try_reserve_exact(left.len()));
        if fits.is_err() {
            return;
        }
        bytes.extend_from_slice(left);
        let mut baton = self.relay.0.lock();
        match std::mem::take(&mut *baton) {
            Baton::Away => *baton = Baton::Orphaned(bytes),
            Baton::Here(file, _) => {
                drop(baton);
                let whose = Surroundings {
                    account: self.whose.account.clone(),
                    lease: self.whose.lease.clone(),
                };
                run_unattended(whose, Rest::of(file, bytes));
            }
            _ => {}
        }
    }
}

/// The pool's side.
struct Slice {
    pass: Pass,
    place: Place,
    memory: Vec<u8>,
    relay: Arc<Relay>,
}

impl Slice {
    fn submit(self) -> JoinHandle<io::Result<()>> {
        match self.place {
            Place::Path(_) => submit(move || self.write()),
            Place::Open(_) => go_on(surroundings(), move || self.write()),
        }
    }

    fn write(self) -> io::Result<()> {
        let file = self.place.open()?;
        let (bytes, written) = write_all(&file, &self.memory);
        self.pass.pay(bytes);
        written?;
        self.relay.back(file, self.memory);
        Ok(())
    }
}

enum Place {
    Path(PathBuf),
    Open(File),
}

impl Place {
    fn open(self) -> io::Result<File> {
        match self {
            Place::Path(path) => File::create(path),
            Place::Open(file) => Ok(file),
        }
    }
}

/// What nobody waits for any more.
struct Rest {
    file: File,
    bytes: Vec<u8>,
    written: usize,
}

impl Rest {
    fn of(file: File, bytes: Vec<u8>) -> Rest {
        Rest {
            file,
            bytes,
            written: 0,
        }
    }
}

impl Work for Rest {
    type Output = ();
    const UNATTENDED: bool = true;

    fn slice(&mut self, most: usize) -> slice::Slice<()> {
        let left = self.bytes.get(self.written..).unwrap_or_default();
        let part = left.get(..most).unwrap_or(left);
        let (bytes, written) = write_all(&self.file, part);
        let end = match written {
            Ok(()) if part.len() < left.len() => None,
            result => Some(result),
        };
        self.written += part.len();
        slice::Slice { bytes, end }
    }
}
