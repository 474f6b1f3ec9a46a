//! The place of a Unix socket among the files: made for this user alone, and cleared away by whoever made it.
//!
//! Mechanism: made on the thread that starts a server, cleared away on the server's own. A place is given up before its
//! listener is: a server that comes next finds somebody who answers, and is refused, or finds nothing.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket's name; it is gone with this value, unless by then it is another socket's.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Device and inode, which no other file has while the listener is open.
    file: (u64, u64),
}

impl Drop for Place {
    fn drop(&mut self) {
        let there = std::fs::symlink_metadata(&self.path);
        if there.is_ok_and(|there| (there.dev(), there.ino()) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Nobody else may open the socket, not even for a moment: it gets its place when its mode is set. One that a dead
/// process left behind is replaced, one that somebody answers at is not.
pub(super) fn bind(path: &Path) -> io::Result<(Place, UnixListener)> {
    if let Ok(there) = std::fs::symlink_metadata(path)
        && (!there.file_type().is_socket() || UnixStream::connect(path).is_ok())
    {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let _ = std::fs::remove_file(&beside);
    let listener = UnixListener::bind(&beside)?;
    let placed = put(&beside, path);
    if placed.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    Ok((placed?, listener))
}

fn put(beside: &Path, path: &Path) -> io::Result<Place> {
    std::fs::set_permissions(beside, std::fs::Permissions::from_mode(0o600))?;
    let made = std::fs::symlink_metadata(beside)?;
    std::fs::rename(beside, path)?;
    Ok(Place {
        path: path.to_owned(),
        file: (made.dev(), made.ino()),
    })
}
