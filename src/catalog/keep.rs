//! What a catalog keeps beside its present: its past versions, and the store that outlives the program.
//!
//! Mechanism; whoever holds the writer's lock, any thread.

use super::history::{Change, History};
use super::script;
use super::snapshot::Snapshot;
use super::store::CatalogStore;
use crate::clock;
use crate::sql::{Span, SqlError, SqlErrorKind};
use std::sync::Arc;

/// The past, and the store.
#[derive(Debug, Default)]
pub(super) struct Keep {
    history: History,
    store: Option<Arc<dyn CatalogStore>>,
    /// The store's text as it was read or written last.
    seen: Option<String>,
    /// Statements of the store's text that nobody could read or run: written back as comments, for a person to mend.
    damaged: Vec<String>,
}

impl Keep {
    pub(super) fn new(first: Arc<Snapshot>, what: &str) -> Keep {
        let mut keep = Keep::default();
        keep.history.add(clock::wall(), what, first);
        keep
    }

    /// From now on, versions go to this store, whose text is `seen`.
    pub(super) fn to(
        &mut self,
        store: Arc<dyn CatalogStore>,
        seen: Option<String>,
        damaged: Vec<String>,
    ) {
        (self.store, self.seen, self.damaged) = (Some(store), seen, damaged);
    }

    /// Makes a version durable, then history.
    pub(super) fn add(
        &mut self,
        snapshot: &Arc<Snapshot>,
        next_id: u64,
        what: &str,
    ) -> Result<(), SqlError> {
        self.save(snapshot, next_id)?;
        self.history.add(clock::wall(), what, snapshot.clone());
        Ok(())
    }

    pub(super) fn save(&mut self, snapshot: &Snapshot, next_id: u64) -> Result<(), SqlError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let mut text = script::write(snapshot, next_id);
        for damaged in &self.damaged {
            text += "\n-- This could not be read or run; mend it and remove the dashes:\n";
            for line in damaged.lines() {
                text += "-- ";
                text += line;
                text += "\n";
            }
        }
        if let Err(error) = store.save(&text, self.seen.as_deref()) {
            // The last step may have failed when the new text was in its place already: it is ours then.
            if store
                .load()
                .is_ok_and(|there| there.as_ref() == Some(&text))
            {
                self.seen = Some(text);
            }
            let what = error.to_string();
            return Err(
                SqlError::new(SqlErrorKind::NotKept { what }, Span::default())
                    .with_hint("nothing was changed; what cannot be kept is not done"),
            );
        }
        self.seen = Some(text);
        Ok(())
    }

    pub(super) fn version(&self, version: u64) -> Option<Arc<Snapshot>> {
        let change = self.history.version(version)?;
        Some(change.snapshot.clone())
    }

    pub(super) fn changes(&self) -> impl DoubleEndedIterator<Item = &Change> {
        self.history.changes()
    }
}
