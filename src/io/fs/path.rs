//! Calls that name paths and move no bytes: each is one closure.
//!
//! Mechanism; the calls run on the pool's threads.

use super::slice::once;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

macro_rules! of_one_path {
    ($($(#[$doc:meta])* $name:ident -> $output:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`std::fs::", stringify!($name), "`].")]
        ///
        /// # Cancel safety
        ///
        /// As `tokio::fs`: once begun on the pool, the call runs to its end whether or not it is waited for.
        pub async fn $name(path: impl AsRef<Path>) -> io::Result<$output> {
            let path = path.as_ref().to_owned();
            once(move || fs::$name(path)).await
        }
    )*};
}

of_one_path! {
    /// The absolute path, with all its parts normalised and symbolic links resolved.
    canonicalize -> PathBuf;
    /// Creates an empty directory.
    create_dir -> ();
    /// Creates a directory and all its parents that are missing.
    create_dir_all -> ();
    /// What is known of the file at a path; of its target, if it is a symbolic link.
    metadata -> Metadata;
    /// The path that a symbolic link leads to.
    read_link -> PathBuf;
    /// Removes an empty directory.
    remove_dir -> ();
    /// Removes a directory and all that is in it. One closure, however much that is.
    remove_dir_all -> ();
    /// Removes a file.
    remove_file -> ();
    /// What is known of the file at a path, without following symbolic links.
    symlink_metadata -> Metadata;
}

macro_rules! of_two_paths {
    ($($(#[$doc:meta])* $name:ident($from:ident, $to:ident) = $call:path;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`", stringify!($call), "`].")]
        ///
        /// # Cancel safety
        ///
        /// As `tokio::fs`: once begun on the pool, the call runs to its end whether or not it is waited for.
        pub async fn $name($from: impl AsRef<Path>, $to: impl AsRef<Path>) -> io::Result<()> {
            let $from = $from.as_ref().to_owned();
            let $to = $to.as_ref().to_owned();
            once(move || $call($from, $to)).await
        }
    )*};
}

of_two_paths! {
    /// Makes one more name, `link`, for the file `original`.
    hard_link(original, link) = std::fs::hard_link;
    /// Gives a file or directory another name, in place of what has that name.
    rename(from, to) = std::fs::rename;
}

#[cfg(unix)]
of_two_paths! {
    /// Makes a symbolic link, `link`, that leads to `original`.
    symlink(original, link) = std::os::unix::fs::symlink;
}

/// Whether there is something at a path.
///
/// # Errors
///
/// As [`Path::try_exists`]: whatever keeps one from knowing.
///
/// # Cancel safety
///
/// It changes nothing.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref().to_owned();
    once(move || path.try_exists()).await
}

/// Changes the permissions of the file at a path.
///
/// # Errors
///
/// As [`std::fs::set_permissions`].
///
/// # Cancel safety
///
/// As `tokio::fs`: once begun on the pool, the call runs to its end whether or not it is waited for.
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    once(move || fs::set_permissions(path, permissions)).await
}
