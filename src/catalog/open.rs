//! Opening a catalog that a store keeps: statement by statement, under the ids that it had.
//!
//! Mechanism; the thread that builds a governor.

use super::reading::Reading;
use super::store::{CatalogStore, StoreError};
use super::{Catalog, Machine};
use crate::sql::SqlError;
use std::sync::Arc;

/// What happens if a statement of the kept catalog cannot be read or run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogMode {
    /// Nothing starts, and the error says where. Nothing starts without a shared store that is away.
    #[default]
    Strict,
    /// The other statements count. The damaged ones are reported, and stay in the store as comments; in a shared store they
    /// stay as they are, and changes are refused until somebody has mended them. Without a shared store that is away, its
    /// copy counts, else `init_sql`, until it answers.
    Lenient,
}

/// A catalog was not opened.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A statement cannot be read or run, in [`CatalogMode::Strict`].
    #[error("{place}: {error}")]
    Damaged {
        /// Where the catalog is kept.
        place: String,
        /// The first statement that is wrong, with its place in the text.
        error: SqlError,
    },
    /// A shared store had a catalog and has none any more. The next change is written to it as if it were new.
    #[error("{place} keeps no catalog any more; what was read from it last goes on to count")]
    Gone {
        /// Where the catalog was kept.
        place: String,
    },
}

/// An opened catalog.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The catalog. Its changes go to the store from now on.
    pub catalog: Catalog,
    /// Whether the store held one, or a copy of one; if not, this one is new and not yet in the store.
    pub found: bool,
    /// Why the store could not be read, if it is shared and the start was lenient. What it keeps counts as soon as it
    /// answers; until then, statements that change the catalog are refused.
    pub away: Option<StoreError>,
}

impl Catalog {
    /// What was left out when it was opened, in [`CatalogMode::Lenient`], with the places in the store's text.
    pub fn damaged(&self) -> &[SqlError] {
        &self.damaged
    }

    /// The catalog that `store` keeps, or a new one if it keeps none.
    ///
    /// # Errors
    /// A store that cannot be read; in [`CatalogMode::Strict`], anything wrong in its text.
    pub fn open(
        machine: Machine,
        store: Arc<dyn CatalogStore>,
        mode: CatalogMode,
    ) -> Result<Opened, OpenError> {
        let (text, away) = match store.load() {
            Ok(text) => (text, None),
            Err(error) if store.is_shared() && mode == CatalogMode::Lenient => {
                (store.copy(), Some(error))
            }
            Err(error) => return Err(error.into()),
        };
        let Some(text) = text else {
            let mut catalog = Catalog::new(machine);
            catalog.keep_in(store, None, Vec::new(), away.is_some());
            return Ok(Opened {
                catalog,
                found: false,
                away,
            });
        };
        let mut reading = Reading::of(machine, &text, None, 0);
        if let (CatalogMode::Strict, Some((_, error))) = (mode, reading.damaged.first()) {
            let (place, error) = (store.place(), error.clone());
            return Err(OpenError::Damaged { place, error });
        }
        let first = Arc::new(reading.draft.freeze(reading.version.unwrap_or(1).max(1)));
        let what = match &away {
            None => format!("(opened {})", store.place()),
            Some(_) => format!("(opened a copy of {})", store.place()),
        };
        let mut catalog = Catalog::at(reading.draft, first, &what);
        let (texts, damaged): (Vec<_>, Vec<_>) = reading.damaged.into_iter().unzip();
        catalog.damaged = damaged;
        // Whoever else uses it counts all of it, or what they had before: what was left out here is not ours to write over.
        let unknown = away.is_some() || (store.is_shared() && !texts.is_empty());
        catalog.keep_in(store, Some(text), texts, unknown);
        Ok(Opened {
            catalog,
            found: true,
            away,
        })
    }

    /// From now on, versions go to this store, whose text is `seen`.
    fn keep_in(
        &mut self,
        store: Arc<dyn CatalogStore>,
        seen: Option<String>,
        damaged: Vec<String>,
        away: bool,
    ) {
        self.store = Some(store.clone());
        let keep = &mut self.writer.get_mut().keep;
        (keep.store, keep.seen) = (Some(store), seen);
        (keep.damaged, keep.away) = (damaged, away);
    }
}
