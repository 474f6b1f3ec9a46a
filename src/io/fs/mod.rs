//! Files, as `tokio::fs`: the same names, signatures and semantics, in the group and query of whoever asks.
//!
//! Everything runs on the pool of [`task::spawn_blocking`](crate::task::spawn_blocking), as a closure of the running
//! task's query would: its CPU time, its memory and its bytes are the query's and the group's. Outside of a task it is
//! `default_wg` of the governor that is entered or installed.
//!
//! What moves bytes moves them in slices of at most 1 MiB: a large read is many turns in the pool, and whoever else waits
//! there has his between two of them. [`File`] reads ahead no more than it was asked for.
//!
//! # Kills
//!
//! A killed query's operations end before their next slice, with an error of the kind
//! [`Other`](std::io::ErrorKind::Other) whose text is tokio's, `background task failed`, and whose source is the cause.
//! What [`File`]'s `poll_write` has accepted is written all the same.
//!
//! # Panics
//!
//! All of them outside of a task with no governor entered or installed, as tokio's do without a runtime.
//!
//! # Metrics
//!
//! `quotient_group_io_bytes_total` and `quotient_group_io_throttled_seconds_total`;
//! `quotient_group_cpu_seconds_total` and `quotient_group_io_seconds_total` of the kind `blocking`.
//!
//! # Examples
//!
//! ```
//! use quotient::{Attributes, Governor, fs};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("quotient-fs-{}", std::process::id()));
//! let governor = Governor::builder().build()?;
//! let query = governor.admit(&Attributes::new()).await?;
//! let text = query
//!     .run(async move {
//!         fs::write(&path, "hello").await?;
//!         let text = fs::read_to_string(&path).await?;
//!         fs::remove_file(&path).await?;
//!         std::io::Result::Ok(text)
//!     })
//!     .await??;
//!
//! assert_eq!(text, "hello");
//! assert_eq!(query.usage().io_read_bytes, 5);
//! assert_eq!(query.usage().io_written_bytes, 5);
//! # Ok(()) }
//! ```

mod buffer;
mod copy;
mod dir;
mod dir_builder;
mod file;
mod file_times;
mod open_options;
mod path;
mod read;
mod slice;
mod toll;
mod write;

pub use copy::copy;
pub use dir::{DirEntry, ReadDir, read_dir};
pub use dir_builder::DirBuilder;
pub use file::File;
pub use file_times::FileTimes;
pub use open_options::OpenOptions;
#[cfg(unix)]
pub use path::symlink;
pub use path::{
    canonicalize, create_dir, create_dir_all, hard_link, metadata, read_link, remove_dir,
    remove_dir_all, remove_file, rename, set_permissions, symlink_metadata, try_exists,
};
pub use read::{read, read_to_string};
pub use write::write;
