//! Creating directories with options.
//!
//! Mechanism; the call runs on one of the pool's threads.

use super::slice::once;
use std::io;
use std::path::Path;

/// How a directory is created, as `tokio::fs::DirBuilder`.
#[derive(Debug, Default)]
pub struct DirBuilder {
    recursive: bool,
    #[cfg(unix)]
    mode: Option<u32>,
}

impl DirBuilder {
    /// Not recursive, with the default mode.
    #[must_use]
    pub fn new() -> DirBuilder {
        DirBuilder::default()
    }

    /// Whether missing parents are created too, and a directory that exists is no error.
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.recursive = recursive;
        self
    }

    /// The mode bits of what is created.
    #[cfg(unix)]
    pub fn mode(&mut self, mode: u32) -> &mut DirBuilder {
        self.mode = Some(mode);
        self
    }

    /// Creates the directory.
    ///
    /// # Errors
    ///
    /// As [`std::fs::DirBuilder::create`].
    ///
    /// # Cancel safety
    ///
    /// As `tokio::fs`: once begun on the pool, the call runs to its end whether or not it is waited for.
    pub async fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref().to_owned();
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(self.recursive);
        #[cfg(unix)]
        if let Some(mode) = self.mode {
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
        }
        once(move || builder.create(path)).await
    }
}
