//! Following a shared store: whenever it may keep something else, it is read again.
//!
//! Wiring; a housekeeping task, which waits on threads that may block. Where a program is told nothing, or not all, the
//! store itself rings from time to time.

use super::{Governor, Inner};
use crate::catalog::OpenError;
use crate::catalog::store::CatalogStore;
use crate::event;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

impl Governor {
    /// Follows the store of the catalog, if others change it too.
    pub(super) fn follow_store(&self) {
        let Some(store) = self.inner.catalog.shared_store() else {
            return;
        };
        let changed = Arc::new(Notify::new());
        let bell = changed.clone();
        store.watch(Arc::new(move || bell.notify_one()));
        // What was changed between the opening and now rang for nobody.
        changed.notify_one();
        let store = store.clone();
        self.in_background(|governor| follow(governor, store, changed));
    }
}

/// Runs for as long as the governor is there.
async fn follow(governor: Weak<Inner>, store: Arc<dyn CatalogStore>, changed: Arc<Notify>) {
    let mut told = None;
    loop {
        changed.notified().await;
        let (governor, store) = (governor.clone(), store.clone());
        let read = move || {
            // Without the governor: however long this takes, it keeps nobody's last governor from being dropped.
            let there = store.load();
            let inner = governor.upgrade()?;
            let governor = Governor { inner };
            let read = match there {
                Ok(text) if governor.inner.catalog.has_seen(text.as_deref()) => Ok(false),
                Ok(_) => governor.refresh(),
                Err(error) => Err(OpenError::Store(error)),
            };
            Some((read, Arc::downgrade(&governor.inner)))
        };
        match spawn_blocking(read).await {
            Ok(Some((Ok(_), _))) => told = None,
            Ok(Some((Err(error), governor))) => {
                if told.as_ref() != Some(&error)
                    && let Some(inner) = governor.upgrade()
                {
                    inner.cannot_follow(&error);
                    told = Some(error);
                }
            }
            Ok(None) => return,
            // A panic is ours, and the next change may go well; a runtime that ends comes to an end by itself.
            Err(error) if error.is_panic() => {}
            Err(_) => return,
        }
    }
}

impl Inner {
    /// What is kept cannot be taken over. A store that is away tells so itself.
    fn cannot_follow(&self, error: &OpenError) {
        if !matches!(error, OpenError::Store(_)) {
            self.apply_errors.fetch_add(1, Relaxed);
            event::catalog_refused(error);
        }
    }
}
