//! Copying files.
//!
//! Mechanism; slices run on the pool's threads.

use crate::exec::stats::Direction;
use crate::exec::task::record_io;
use std::io;
use std::path::Path;

/// Copies the bytes and the permissions of a file into another, in place of what that holds; how many bytes.
///
/// # Errors
///
/// As [`std::fs::copy`].
///
/// # Cancel safety
///
/// As `tokio::fs`: once begun on the pool, it runs to its end whether or not it is waited for, unless its query is
/// killed.
///
/// # Metrics
///
/// `quotient_group_io_bytes_total`, both directions.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let from = from.as_ref().to_owned();
    let to = to.as_ref().to_owned();
    whole::copy(from, to).await
}

fn record(bytes: u64) {
    record_io(Direction::Read, bytes);
    record_io(Direction::Write, bytes);
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod whole {
    use super::super::slice::{Slice, Work, run};
    use super::record;
    use std::fs::{File, OpenOptions};
    use std::io::{self, ErrorKind, Read};
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    use std::path::PathBuf;

    pub(super) async fn copy(from: PathBuf, to: PathBuf) -> io::Result<u64> {
        let copying = Copying {
            from,
            to,
            files: None,
            copied: 0,
        };
        run(copying).await
    }

    struct Copying {
        from: PathBuf,
        to: PathBuf,
        /// None before the first slice.
        files: Option<(File, File)>,
        copied: u64,
    }

    impl Work for Copying {
        type Output = u64;
        const UNATTENDED: bool = true;

        fn slice(&mut self, most: usize) -> Slice<u64> {
            // Each byte passes twice.
            let most = (most / 2).max(1) as u64;
            let before = self.copied;
            let end = match self.copy(most) {
                Ok(many) if many == most => None,
                Ok(_) => Some(Ok(self.copied)),
                Err(error) => Some(Err(error)),
            };
            let bytes = 2 * (self.copied - before);
            Slice { bytes, end }
        }
    }

    impl Copying {
        /// A slice; how many bytes it was, a whole one unless the end was met. The kernel copies where it can.
        fn copy(&mut self, most: u64) -> io::Result<u64> {
            let (from, to) = match &self.files {
                Some(files) => files,
                None => {
                    let files = self.open()?;
                    self.files.insert(files)
                }
            };
            let many = io::copy(&mut from.take(most), &mut &*to)?;
            record(many);
            self.copied += many;
            Ok(many)
        }

        /// As the standard library does: the mode is there before the bytes are.
        fn open(&self) -> io::Result<(File, File)> {
            let from = File::open(&self.from)?;
            let known = from.metadata()?;
            if !known.is_file() {
                return Err(io::Error::new(
                    ErrorKind::InvalidInput,
                    "the source path is neither a regular file nor a symlink to a regular file",
                ));
            }
            let permissions = known.permissions();
            let to = OpenOptions::new()
                .mode(permissions.mode())
                .write(true)
                .create(true)
                .truncate(true)
                .open(&self.to)?;
            if to.metadata()?.is_file() {
                to.set_permissions(permissions)?;
            }
            Ok((from, to))
        }
    }
}

/// Where a copy is more than its bytes (resources, streams, clones) it is the system's, in one closure.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod whole {
    use super::super::slice::once;
    use super::record;
    use std::io;
    use std::path::PathBuf;

    pub(super) async fn copy(from: PathBuf, to: PathBuf) -> io::Result<u64> {
        let whole = move || std::fs::copy(from, to).inspect(|&many| record(many));
        once(whole).await
    }
}
