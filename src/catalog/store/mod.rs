//! Where the catalog's text is kept between two lives of the program.
//!
//! Mechanism; whoever changes the catalog calls it, one at a time. A change is durable before anybody sees it: what
//! cannot be kept is refused. Texts are compared, versions are not trusted, so that two programs on one store cannot
//! undo each other's changes unseen.

mod disk;
mod file;

pub use disk::{Disk, RealDisk};
pub use file::FileStore;

use std::fmt;

/// What a store keeps: the text of [`Snapshot`](super::Snapshot)s, opaque to it.
pub trait CatalogStore: Send + Sync + fmt::Debug {
    /// The text that is kept; none if none ever was.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    fn load(&self) -> Result<Option<String>, StoreError>;

    /// Replaces the text, wholly or not at all, if it is still `seen`. When this returns, it is durable.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] if somebody else replaced it; else what failed. The old text is still there then, or,
    /// if the very last step failed, perhaps the new one.
    fn save(&self, text: &str, seen: Option<&str>) -> Result<(), StoreError>;

    /// Where it is kept, for messages.
    fn place(&self) -> String;
}

/// A store did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else changed what is kept.
    #[error("{place} was changed by somebody else since it was read")]
    Conflict {
        /// Where it is kept.
        place: String,
    },
    /// A step failed.
    #[error("{place}: cannot {step}: {why}")]
    Failed {
        /// Where it is kept.
        place: String,
        /// What was being done.
        step: &'static str,
        /// What the system says.
        why: String,
    },
}
