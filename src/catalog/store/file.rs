//! A catalog in a file: written beside it, synced, put in its place in one step.
//!
//! Mechanism; the thread that changes the catalog, blocking. Beside the file `groups.sql` there may be
//! `groups.sql.new`, which a program that died left behind and nobody reads, and `groups.sql.lock`, which is empty:
//! programs that share the file wait for each other by it while they compare and replace.

use super::disk::{Disk, RealDisk};
use super::{CatalogStore, StoreError};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Keeps the catalog in a file.
#[derive(Debug)]
pub struct FileStore<D = RealDisk> {
    path: PathBuf,
    disk: D,
}

impl FileStore {
    /// In the file at `path`, which need not exist; its folder must.
    pub fn new(path: impl Into<PathBuf>) -> FileStore {
        FileStore::on(RealDisk, path)
    }
}

impl<D: Disk> FileStore<D> {
    /// The same, on another file system.
    pub fn on(disk: D, path: impl Into<PathBuf>) -> FileStore<D> {
        let path = path.into();
        FileStore { path, disk }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name: OsString = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    fn failed(&self, step: &'static str) -> impl Fn(io::Error) -> StoreError {
        let place = self.place();
        move |error| StoreError::Failed {
            place: place.clone(),
            step,
            why: error.to_string(),
        }
    }

    fn replace(&self, text: &str) -> Result<(), StoreError> {
        let new = self.beside(".new");
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let written = self
            .disk
            .write(&new, text.as_bytes())
            .map_err(self.failed("write"))
            .and_then(|()| self.disk.sync(&new).map_err(self.failed("sync")))
            .and_then(|()| {
                let renamed = self.disk.rename(&new, &self.path);
                renamed.map_err(self.failed("put the new file in the place of the old one"))
            });
        if written.is_err() {
            // Perhaps the disk is full: do not keep what is of no use. If this fails too, the next save writes over it.
            let _ = self.disk.remove(&new);
        }
        written?;
        let synced = self.disk.sync_folder(folder);
        synced.map_err(self.failed("sync the folder"))
    }
}

impl<D: Disk> CatalogStore for FileStore<D> {
    fn load(&self) -> Result<Option<String>, StoreError> {
        match self.disk.read(&self.path) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(error) => Err(self.failed("read")(io::Error::other(error.utf8_error()))),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read")(error)),
        }
    }

    fn save(&self, text: &str, seen: Option<&str>) -> Result<(), StoreError> {
        let lock = self.disk.lock(&self.beside(".lock"));
        let _lock = lock.map_err(self.failed("lock"))?;
        if self.load()?.as_deref() != seen {
            return Err(StoreError::Conflict {
                place: self.place(),
            });
        }
        self.replace(text)
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}
