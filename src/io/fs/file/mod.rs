//! An open file.
//!
//! Mechanism; the calls run on the pool's threads. Reads, writes and seeks go through a [`Cursor`]: one at a time, in
//! the order in which they were begun. What does not depend on the position passes it by, as in tokio.

mod accepted;
mod cursor;
mod poll;

use super::slice::{SLICE, once};
use super::toll::Toll;
use super::{FileTimes, OpenOptions};
use crate::exec::task::yield_now;
use cursor::Cursor;
use std::fmt;
use std::fs::{File as StdFile, Metadata, Permissions};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::Mutex;

/// An open file, as `tokio::fs::File`.
///
/// It is read and written through tokio's `AsyncRead`, `AsyncWrite` and `AsyncSeek`, and buffers as tokio's does. A
/// write is accepted before it is done: its error is told by the next write or flush, and a file that is dropped
/// without a flush writes what it has accepted, but nobody learns whether that worked.
///
/// # Cancel safety
///
/// As tokio's, for all of its methods: a call that has begun on the pool runs to its end whether or not it is waited
/// for, unless its query is killed before; only its result is lost. One that still waits for a write before it has not
/// begun.
///
/// # Examples
///
/// ```
/// use quotient::fs::File;
/// use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("quotient-file-{}", std::process::id()));
/// # let governor = quotient::Governor::builder().build()?;
/// # let _entered = governor.enter();
/// let mut file = File::create_new(&path).await?;
/// file.write_all(b"hello").await?;
/// file.flush().await?;
/// file.rewind().await?;
/// let mut text = String::new();
/// file.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # quotient::fs::remove_file(&path).await?;
/// # Ok(()) }
/// ```
pub struct File {
    std: Arc<StdFile>,
    cursor: Mutex<Cursor>,
    toll: Toll,
    max_buf_size: usize,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::open`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        File::options().read(true).open(path).await
    }

    /// Opens a file for writing; it is created if it is missing and emptied if it is not.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::create`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        options.open(path).await
    }

    /// Creates a file, for reading and writing, which must be missing.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::create_new`].
    pub async fn create_new(path: impl AsRef<Path>) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        options.open(path).await
    }

    /// Options to open a file with.
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// A file that the standard library has opened.
    pub fn from_std(std: StdFile) -> File {
        File {
            std: Arc::new(std),
            cursor: Mutex::default(),
            toll: Toll::default(),
            max_buf_size: SLICE,
        }
    }

    /// Has everything that was written, and what is known of the file, on the disk.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::sync_all`]. The error of a write that was under way is kept for the next write or flush.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.at_rest().await;
        let std = self.std.clone();
        once(move || std.sync_all()).await
    }

    /// Has everything that was written on the disk.
    ///
    /// # Errors
    ///
    /// As [`sync_all`](File::sync_all).
    pub async fn sync_data(&self) -> io::Result<()> {
        self.at_rest().await;
        let std = self.std.clone();
        once(move || std.sync_data()).await
    }

    /// Cuts the file, or extends it with zeros, to this length in bytes.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::set_len`].
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        self.cursor.lock().await.set_len(&self.std, size).await
    }

    /// What is known of the file.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::metadata`].
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let std = self.std.clone();
        once(move || std.metadata()).await
    }

    /// One more handle of the same open file, whose position they share.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::try_clone`].
    pub async fn try_clone(&self) -> io::Result<File> {
        self.at_rest().await;
        let std = self.std.clone();
        let mut file = File::from_std(once(move || std.try_clone()).await?);
        file.max_buf_size = self.max_buf_size;
        Ok(file)
    }

    /// The file for the standard library, when nothing of it is under way any more. Bytes that were read ahead are
    /// lost; the error of a write is too.
    pub async fn into_std(self) -> StdFile {
        self.at_rest().await;
        let mut shared = self.std;
        loop {
            match Arc::try_unwrap(shared) {
                Ok(std) => return std,
                // A call that nobody waits for any more, such as `metadata`, still has it.
                Err(still) => shared = still,
            }
            yield_now().await;
        }
    }

    /// The file for the standard library, at once.
    ///
    /// # Errors
    ///
    /// The file itself, if something of it is under way.
    #[allow(clippy::result_large_err, reason = "tokio's signature")]
    pub fn try_into_std(mut self) -> Result<StdFile, File> {
        match Arc::try_unwrap(self.std) {
            Ok(std) => Ok(std),
            Err(shared) => {
                self.std = shared;
                Err(self)
            }
        }
    }

    /// Changes the permissions of the file.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::set_permissions`].
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        let std = self.std.clone();
        once(move || std.set_permissions(permissions)).await
    }

    /// Changes the timestamps of the file, after what is under way.
    ///
    /// # Errors
    ///
    /// As [`std::fs::File::set_times`].
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.at_rest().await;
        let std = self.std.clone();
        once(move || std.set_times(times.std)).await
    }

    /// Changes the time at which the file was last changed.
    ///
    /// # Errors
    ///
    /// As [`set_times`](File::set_times).
    pub async fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time)).await
    }

    /// How many bytes a read or write moves at most. 1 MiB at first, and never more than that, whatever is set here:
    /// longer ones are several turns in the pool.
    ///
    /// # Panics
    ///
    /// If it is zero.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(max_buf_size > 0, "`max_buf_size` must be greater than 0");
        self.max_buf_size = max_buf_size;
    }

    /// What was set with [`set_max_buf_size`](File::set_max_buf_size).
    pub fn max_buf_size(&self) -> usize {
        self.max_buf_size
    }

    /// The most bytes that one closure moves.
    fn most(&self) -> usize {
        self.max_buf_size.min(SLICE)
    }

    /// Waits for what is under way. The error of a write is kept.
    async fn at_rest(&self) {
        self.cursor.lock().await.at_rest().await;
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("quotient::fs::File")
            .field("std", &self.std)
            .finish()
    }
}

impl From<StdFile> for File {
    fn from(std: StdFile) -> File {
        File::from_std(std)
    }
}

#[cfg(unix)]
mod unix {
    use super::{File, StdFile};
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

    impl From<OwnedFd> for File {
        fn from(fd: OwnedFd) -> File {
            File::from_std(StdFile::from(fd))
        }
    }

    impl AsFd for File {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.std.as_fd()
        }
    }

    impl AsRawFd for File {
        fn as_raw_fd(&self) -> RawFd {
            self.std.as_raw_fd()
        }
    }
}

#[cfg(windows)]
mod windows {
    use super::File;
    use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, RawHandle};

    impl AsHandle for File {
        fn as_handle(&self) -> BorrowedHandle<'_> {
            self.std.as_handle()
        }
    }

    impl AsRawHandle for File {
        fn as_raw_handle(&self) -> RawHandle {
            self.std.as_raw_handle()
        }
    }
}
