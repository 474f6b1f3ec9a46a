//! The store that outlives the program, and what is known of the text in it.
//!
//! Mechanism; whoever holds the writer's lock, any thread.

use super::script;
use super::snapshot::Snapshot;
use super::store::{CatalogStore, StoreError};
use crate::sql::{Span, SqlError, SqlErrorKind};
use std::sync::Arc;

/// The store, if there is one.
#[derive(Debug, Default)]
pub(super) struct Keep {
    pub(super) store: Option<Arc<dyn CatalogStore>>,
    /// The store's text as it was read or written last.
    pub(super) seen: Option<String>,
    /// Statements of the store's text that nobody could read or run: written back as comments, for a person to mend.
    pub(super) damaged: Vec<String>,
    /// The store has not answered since the start, or what it answered could not be read wholly: what it keeps is not known.
    pub(super) away: bool,
}

impl Keep {
    /// Makes a version durable. What its error says was done with it, was.
    pub(super) fn save(&mut self, snapshot: &Snapshot, next_id: u64) -> Result<(), SqlError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let mut text = script::write(snapshot, next_id);
        for damaged in &self.damaged {
            text += "\n-- This could not be read or run; mend it and remove the dashes:\n";
            for line in damaged.lines() {
                text += "-- ";
                // NUL may stand nowhere, in a comment neither: its picture does.
                text += &line.replace('\0', "\u{2400}");
                text += "\n";
            }
        }
        if let Err(error) = store.save(&text, self.seen.as_deref()) {
            // The last step may have failed when the new text was in its place already: it is ours then. Of a shared
            // store's text others may be users already: there it is followed, as theirs would be.
            if !store.is_shared()
                && store
                    .load()
                    .is_ok_and(|there| there.as_ref() == Some(&text))
            {
                self.seen = Some(text);
            }
            return Err(not_kept(error));
        }
        self.seen = Some(text);
        Ok(())
    }
}

/// What the failure of a store means for the statement.
pub(super) fn not_kept(error: StoreError) -> SqlError {
    let what = error.to_string();
    let (kind, hint) = match error {
        StoreError::Conflict { place } => (
            SqlErrorKind::ChangedElsewhere { place },
            "nothing was changed; what cannot be kept is not done",
        ),
        StoreError::Unknown { place, why } => (
            SqlErrorKind::PerhapsKept {
                what: format!("{place}: {why}"),
            },
            "once it can be read again, this program follows it; look, before the statement is run again",
        ),
        StoreError::Failed { .. } => (
            SqlErrorKind::NotKept { what },
            "nothing was changed; what cannot be kept is not done",
        ),
    };
    SqlError::new(kind, Span::default()).with_hint(hint)
}
