//! Following a store that others change too: what it keeps becomes the catalog, whole, or not at all.
//!
//! Mechanism; a thread that may block, under the writer's lock. Texts are compared, and what cannot be read wholly is
//! refused: a running program goes on with its last catalog rather than with half of the next one.

use super::keep::not_kept;
use super::reading::Reading;
use super::store::CatalogStore;
use super::{Catalog, OpenError, Writer};
use crate::sql::{SqlError, SqlErrorKind};
use std::sync::Arc;

impl Catalog {
    /// The store, if others change it too.
    pub fn shared_store(&self) -> Option<&Arc<dyn CatalogStore>> {
        self.store.as_ref().filter(|store| store.is_shared())
    }

    /// Whether this is what a shared store kept when it was read or written last.
    pub fn has_seen(&self, text: Option<&str>) -> bool {
        let keep = &self.writer.lock().keep;
        !keep.away && keep.seen.as_deref() == text
    }

    /// Reads a shared store again, and takes over what it keeps if that is something else than was read last. Blocks.
    /// Whether the catalog is another one now.
    ///
    /// # Errors
    /// A store that cannot be read, or whose text cannot be, or that has none any more: the catalog is as it was.
    pub fn refresh(&self) -> Result<bool, OpenError> {
        self.follow(&mut self.writer.lock())
    }

    fn follow(&self, writer: &mut Writer) -> Result<bool, OpenError> {
        let Some(store) = self.shared_store() else {
            return Ok(false);
        };
        let there = store.load()?;
        let Writer { draft, keep } = writer;
        let Some(text) = there else {
            let before = self.snapshot();
            if keep.away {
                // Nobody kept anything meanwhile: ours is the first.
                (keep.away, keep.seen) = (false, None);
                if before.says_something() {
                    let saved = keep.save(&before, draft.next_id());
                    keep.away = saved.is_err();
                }
            } else if keep.seen.take().is_some() {
                let place = store.place();
                return Err(OpenError::Gone { place });
            }
            return Ok(false);
        };
        if !keep.away && keep.seen.as_deref() == Some(text.as_str()) {
            return Ok(false);
        }
        let before = self.snapshot();
        let reading = Reading::of(before.machine(), &text, Some(&before), draft.next_id());
        if let Some((_, error)) = reading.damaged.first() {
            let (place, error) = (store.place(), error.clone());
            return Err(OpenError::Damaged { place, error });
        }
        (keep.away, keep.seen) = (false, Some(text));
        keep.damaged.clear();
        *draft = reading.draft;
        // A version of its own for each content; and everybody counts as whoever wrote it did.
        let written = reading.version.unwrap_or(0);
        let snapshot = Arc::new(draft.freeze(written.max(before.version() + 1)));
        if *snapshot == *before && written <= before.version() {
            return Ok(false);
        }
        self.publish(
            snapshot,
            draft.next_id(),
            &format!("(read from {})", store.place()),
        );
        Ok(true)
    }

    /// What a store that has not answered yet keeps counts before any change.
    pub(super) fn join(&self, writer: &mut Writer) -> Result<(), SqlError> {
        match self.follow(writer) {
            Ok(_) if !writer.keep.away => Ok(()),
            Ok(_) => {
                let what = "what it keeps is not known yet".to_owned();
                Err(SqlError::new(
                    SqlErrorKind::NotKept { what },
                    Default::default(),
                ))
            }
            Err(OpenError::Store(error)) => Err(not_kept(error)),
            Err(error) => {
                let what = error.to_string();
                Err(SqlError::new(
                    SqlErrorKind::NotKept { what },
                    Default::default(),
                ))
            }
        }
    }

    /// After a change that was not kept: if somebody else came first, what they made counts from now on.
    pub(super) fn after_refusal(&self, writer: &mut Writer, error: SqlError) -> SqlError {
        let conflict = matches!(error.kind, SqlErrorKind::ChangedElsewhere { .. });
        if !conflict || self.shared_store().is_none() {
            return error;
        }
        match self.follow(writer) {
            Ok(_) => error.with_hint(
                "nothing was changed; the catalog has been read again: look at it, then run the statement again",
            ),
            Err(why) => error.with_hint(format!(
                "nothing was changed, and what is there now cannot be taken over: {why}"
            )),
        }
    }
}
