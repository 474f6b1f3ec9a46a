//! How a file is opened.
//!
//! Mechanism; the call runs on one of the pool's threads.

use super::file::File;
use super::slice::once;
use std::io;
use std::path::Path;

/// How a file is opened, as `tokio::fs::OpenOptions`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("quotient-options-{}", std::process::id()));
/// # let governor = quotient::Governor::builder().build()?;
/// # let _entered = governor.enter();
/// use quotient::fs::OpenOptions;
///
/// let file = OpenOptions::new().append(true).create(true).open(&path).await?;
/// # quotient::fs::remove_file(&path).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    std: std::fs::OpenOptions,
}

macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, $name: bool) -> &mut OpenOptions {
            self.std.$name($name);
            self
        }
    )*};
}

impl OpenOptions {
    /// All off.
    #[must_use]
    pub fn new() -> OpenOptions {
        OpenOptions {
            std: std::fs::OpenOptions::new(),
        }
    }

    switches! {
        /// For reading.
        read;
        /// For writing, over what is there.
        write;
        /// For writing, always at the end.
        append;
        /// Whether the file is emptied first.
        truncate;
        /// Whether it is created if it is missing.
        create;
        /// Whether it is created, and must be missing; in one step. `create` and `truncate` do not matter then.
        create_new;
    }

    /// Opens the file at a path.
    ///
    /// # Errors
    ///
    /// As [`std::fs::OpenOptions::open`].
    ///
    /// # Cancel safety
    ///
    /// Once begun on the pool, the file is opened, and perhaps created, and closed again if nobody waits for it.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref().to_owned();
        let options = self.std.clone();
        Ok(File::from_std(once(move || options.open(path)).await?))
    }
}

#[cfg(unix)]
impl OpenOptions {
    /// The mode bits of a file that is created, before the process's mask.
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        std::os::unix::fs::OpenOptionsExt::mode(&mut self.std, mode);
        self
    }

    /// Flags for `open(2)` in addition; those of the access mode are ignored.
    pub fn custom_flags(&mut self, flags: i32) -> &mut OpenOptions {
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut self.std, flags);
        self
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(std: std::fs::OpenOptions) -> OpenOptions {
        OpenOptions { std }
    }
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::new()
    }
}
