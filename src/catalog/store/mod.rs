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
use std::sync::Arc;

/// Tells that somebody else may have replaced what a store keeps. Never blocks; may be called for nothing.
pub type Changed = Arc<dyn Fn() + Send + Sync>;

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

    /// Whether others change the text while this program runs, and where it is kept may be slow or away. The governor
    /// then calls `load` and `save` on threads that may block, reads the text again whenever it is told to by
    /// [`watch`](CatalogStore::watch) or finds a conflict, and, in [`CatalogMode::Lenient`](super::CatalogMode::Lenient),
    /// starts without it. Default: no.
    fn is_shared(&self) -> bool {
        false
    }

    /// Asks to be told whenever somebody else may have replaced the text. Called once, if the store is shared.
    fn watch(&self, changed: Changed) {
        drop(changed);
    }

    /// What the text was when it could be read last, from somewhere nearer. Asked at a lenient start if `load` fails.
    /// Default: nobody knows.
    fn copy(&self) -> Option<String> {
        None
    }
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
    /// The new text may be kept, or may not: the answer was lost on its way.
    #[error("{place}: nobody knows whether the change was kept: {why}")]
    Unknown {
        /// Where it is kept.
        place: String,
        /// What the system says.
        why: String,
    },
}
