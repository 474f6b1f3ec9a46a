//! Reading directories, some entries at a time.
//!
//! Mechanism; the calls run on the pool's threads.

use super::slice::{once, submit};
use crate::exec::join::JoinHandle;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{FileType, Metadata};
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Entries per closure, as many as tokio takes: some microseconds of work.
const BATCH: usize = 32;

/// The entries of a directory, in the order in which the system gives them.
///
/// # Errors
///
/// As [`std::fs::read_dir`].
///
/// # Cancel safety
///
/// It changes nothing.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_owned();
    let first = once(move || Ok(Listing::new(std::fs::read_dir(path)?).more())).await?;
    Ok(ReadDir(Stage::Here(first)))
}

/// Some entries that were read, and the rest.
#[derive(Debug)]
struct Listing {
    read: VecDeque<io::Result<DirEntry>>,
    /// None after the last one.
    rest: Option<std::fs::ReadDir>,
}

impl Listing {
    fn new(rest: std::fs::ReadDir) -> Listing {
        Listing {
            read: VecDeque::with_capacity(BATCH),
            rest: Some(rest),
        }
    }

    /// The next batch: up to an error, which is one entry of it.
    fn more(mut self) -> Listing {
        let Some(rest) = &mut self.rest else {
            return self;
        };
        while self.read.len() < BATCH {
            match rest.next() {
                Some(Ok(entry)) => self.read.push_back(Ok(DirEntry {
                    kind: entry.file_type().ok(),
                    std: Arc::new(entry),
                })),
                Some(Err(error)) => {
                    self.read.push_back(Err(error));
                    break;
                }
                None => {
                    self.rest = None;
                    break;
                }
            }
        }
        self
    }
}

/// Reads the entries of a directory, as `tokio::fs::ReadDir`. Made by [`read_dir`].
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir(Stage);

#[derive(Debug)]
enum Stage {
    Here(Listing),
    Away(JoinHandle<Listing>),
    /// A closure was lost with the directory: killed, shut down or refused.
    Lost,
}

impl ReadDir {
    /// The next entry; none after the last one.
    ///
    /// # Errors
    ///
    /// What the system says of an entry; later ones may follow.
    ///
    /// # Cancel safety
    ///
    /// No entry is lost.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// As [`next_entry`](ReadDir::next_entry), for a poll.
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        loop {
            match &mut self.0 {
                Stage::Here(listing) => {
                    if let Some(entry) = listing.read.pop_front() {
                        return Poll::Ready(entry.map(Some));
                    }
                    if listing.rest.is_none() {
                        return Poll::Ready(Ok(None));
                    }
                    if let Stage::Here(listing) = std::mem::replace(&mut self.0, Stage::Lost) {
                        self.0 = Stage::Away(submit(move || listing.more()));
                    }
                }
                Stage::Away(closure) => {
                    let ended = ready!(Pin::new(closure).poll(cx));
                    self.0 = Stage::Lost;
                    self.0 = Stage::Here(ended?);
                }
                Stage::Lost => return Poll::Ready(Ok(None)),
            }
        }
    }
}

/// One entry of a directory, as `tokio::fs::DirEntry`.
#[derive(Debug)]
pub struct DirEntry {
    /// What kind of file it is, if the system said so with its name.
    kind: Option<FileType>,
    std: Arc<std::fs::DirEntry>,
}

impl DirEntry {
    /// Its path: that of the directory, and its name.
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// Its name.
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// Its number in the file system.
    #[cfg(unix)]
    pub fn ino(&self) -> u64 {
        std::os::unix::fs::DirEntryExt::ino(&*self.std)
    }

    /// What is known of the file, without following symbolic links.
    ///
    /// # Errors
    ///
    /// As [`std::fs::DirEntry::metadata`].
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let entry = self.std.clone();
        once(move || entry.metadata()).await
    }

    /// What kind of file it is, without following symbolic links; mostly known already.
    ///
    /// # Errors
    ///
    /// As [`std::fs::DirEntry::file_type`].
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
    pub async fn file_type(&self) -> io::Result<FileType> {
        if let Some(kind) = self.kind {
            return Ok(kind);
        }
        let entry = self.std.clone();
        once(move || entry.file_type()).await
    }
}
