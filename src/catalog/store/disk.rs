//! The few things that a file store asks of the file system, so that each of them can be made to fail.
//!
//! Mechanism; any thread, blocking.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// A file system, as far as it is needed.
pub trait Disk: Send + Sync + fmt::Debug {
    /// The file's bytes.
    ///
    /// # Errors
    /// As `std::fs::read`.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Creates the file, or empties it, and writes the bytes.
    ///
    /// # Errors
    /// As `std::fs::write`.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// What was written to the file is on the disk when this returns.
    ///
    /// # Errors
    /// As `File::sync_all`.
    fn sync(&self, path: &Path) -> io::Result<()>;
    /// Puts the file in the place of another one, in one step.
    ///
    /// # Errors
    /// As `std::fs::rename`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// The folder's entries are on the disk when this returns.
    ///
    /// # Errors
    /// As `File::sync_all`.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes the file.
    ///
    /// # Errors
    /// As `std::fs::remove_file`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Waits until no other program holds the lock of that name; held until the value is dropped.
    ///
    /// # Errors
    /// As `File::lock`.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send>>;
}

/// The one that there is.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send>> {
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        file.lock()?;
        Ok(Box::new(file))
    }
}
