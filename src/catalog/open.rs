//! Opening a catalog that a store keeps: statement by statement, under the ids that it had.
//!
//! Mechanism; the thread that builds a governor.

use super::draft::Draft;
use super::script::{self, Stored};
use super::store::{CatalogStore, StoreError};
use super::{Catalog, Machine, Origin};
use crate::sql::SqlError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What happens if a statement of the kept catalog cannot be read or run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogMode {
    /// Nothing starts, and the error says where.
    #[default]
    Strict,
    /// The other statements count. The damaged ones are reported, and stay in the store as comments.
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
}

/// An opened catalog.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// The catalog. Its changes go to the store from now on.
    pub catalog: Catalog,
    /// Whether the store held one; if not, this one is new and not yet in the store.
    pub found: bool,
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
        let Some(text) = store.load()? else {
            let catalog = Catalog::new(machine);
            catalog.writer.lock().keep.to(store, None, Vec::new());
            return Ok(Opened {
                catalog,
                found: false,
            });
        };
        let script = script::read(&text);
        let first_free = script.next_id.unwrap_or(0);
        let (mut draft, failed) = run(machine, &script.statements, first_free);
        let mut damaged: Vec<(String, SqlError)> = script.unreadable;
        damaged.extend(failed);
        damaged.sort_by_key(|(_, error)| error.statement);
        if let (CatalogMode::Strict, Some((_, error))) = (mode, damaged.first()) {
            let (place, error) = (store.place(), error.clone());
            return Err(OpenError::Damaged { place, error });
        }
        draft.identify(script.statements.iter().filter_map(|stored| {
            let name = stored.statement.group()?;
            Some((name.value.as_str(), stored.group?, &stored.classifiers[..]))
        }));
        let first = Arc::new(draft.freeze(script.version.unwrap_or(1).max(1)));
        let what = format!("(opened {})", store.place());
        let mut catalog = Catalog::at(draft, first, &what);
        let (texts, damaged): (Vec<_>, Vec<_>) = damaged.into_iter().unzip();
        catalog.damaged = damaged;
        catalog.writer.lock().keep.to(store, Some(text), texts);
        Ok(Opened {
            catalog,
            found: true,
        })
    }
}

/// The first id above those that the statements had.
fn above_all(statements: &[Stored]) -> u64 {
    let ids = statements.iter().flat_map(|stored| {
        let classifiers = stored.classifiers.iter().map(|id| id.0);
        classifiers.chain(stored.group.map(|id| id.0))
    });
    ids.max().map_or(0, |id| id.saturating_add(1))
}

/// Runs what can be run. A statement that speaks of a group that no other creates counts as failed.
fn run(
    machine: Machine,
    statements: &[Stored],
    first_free: u64,
) -> (Draft, Vec<(String, SqlError)>) {
    let mut without = BTreeSet::new();
    let mut failed = Vec::new();
    loop {
        let mut draft = Draft::new(machine);
        draft.reserve_ids(first_free);
        draft.reserve_ids(above_all(statements));
        for stored in statements {
            if without.contains(&stored.number) {
                continue;
            }
            let done = draft.run(&stored.statement, Origin::File, stored.number);
            if let Err(error) = done {
                without.insert(stored.number);
                failed.push((stored.text.clone(), error.at_statement(stored.number, 0)));
            }
        }
        match draft.settle() {
            Ok(()) => return (draft, failed),
            Err(error) => {
                let number = error.statement;
                let text = statements
                    .iter()
                    .find(|stored| stored.number == number)
                    .map(|stored| stored.text.clone());
                failed.push((text.unwrap_or_default(), error));
                // Each round leaves one more out, so that it ends.
                if !without.insert(number) {
                    return (draft, failed);
                }
            }
        }
    }
}
