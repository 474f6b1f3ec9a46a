//! From statements to effects: the catalog changes, and every stage is told what that means for it.
//!
//! Wiring; any thread. Changes are translated one after the other, in the catalog's order.

use super::routing::Routing;
use super::{Error, Governor};
use crate::catalog::{Catalog, OpenError, Origin, Snapshot};
use crate::event;
use crate::sql::{self, Output, Span, SqlErrorKind, Statement};
use std::fmt;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Governor {
    /// Runs a script: one output per statement.
    ///
    /// The script is parsed as a whole first. Then its statements run in order, each wholly or not at all;
    /// the first that fails ends the script, and the error tells how many had been applied.
    ///
    /// # Errors
    ///
    /// [`Error::Sql`], with the place in the script.
    ///
    /// # Cancel safety
    ///
    /// It does not wait for anything: once polled, it is done. A change of a catalog that is kept in a file is written
    /// and synced in that poll, some milliseconds on a slow disk. With a catalog that is kept in a shared store, each
    /// change runs on a thread that may block, one at a time: a statement that was begun is then run to its end, and when
    /// the future is dropped, those after it are not begun, nor is one that waits for its turn.
    ///
    /// # Metrics
    ///
    /// `quotient_catalog_version`; `quotient_catalog_apply_errors_total` for a script that fails.
    pub async fn execute(&self, script: &str) -> Result<Vec<Output>, Error> {
        self.run_script(script).await.map_err(|error| {
            self.inner.apply_errors.fetch_add(1, Relaxed);
            Error::from(error)
        })
    }

    async fn run_script(&self, script: &str) -> Result<Vec<Output>, sql::SqlError> {
        let statements = sql::parse(script)?;
        let mut outputs = Vec::with_capacity(statements.len());
        let aside = self.inner.catalog.shared_store().is_some();
        for (done, statement) in statements.into_iter().enumerate() {
            let output = if aside && is_change(&statement) {
                self.apply_aside(statement).await
            } else {
                self.apply(&statement)
            };
            outputs.push(output.map_err(|error| error.at_statement(done + 1, done))?);
        }
        Ok(outputs)
    }

    /// Runs a statement that waits for a store, where waiting holds up nobody.
    async fn apply_aside(&self, statement: Statement) -> Result<Output, sql::SqlError> {
        // However many wait for a store that does not answer, they take one thread from the program, not all.
        let turn = self.inner.at_store.clone().acquire_owned().await;
        let governor = self.clone();
        let runtime = self.inner.entrance.runtime();
        let applied = runtime.spawn_blocking(move || {
            let applied = governor.apply(&statement);
            drop(turn);
            applied
        });
        match applied.await {
            Ok(output) => output,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => {
                    let what = "the runtime is shutting down".to_owned();
                    let kind = SqlErrorKind::NotKept { what };
                    Err(sql::SqlError::new(kind, Span::default()))
                }
            },
        }
    }

    fn apply(&self, statement: &Statement) -> Result<Output, sql::SqlError> {
        let _ours = crate::mem::enter_process();
        if let Statement::ShowUsage(name) = statement {
            return self.show_usage(name.as_ref());
        }
        if let Statement::Operate(operation) = statement {
            return self.operate(operation);
        }
        if let Statement::SetGlobal(set) = statement {
            return self.set_global(set);
        }
        if let Statement::ShowVariables(pattern) = statement {
            return Ok(self.show_variables(pattern.as_ref()));
        }
        if let Statement::Select(select) = statement {
            return self.select(select);
        }
        if let Statement::ExplainClassify(attributes) = statement {
            return self.explain_classify_statement(attributes);
        }
        if let Statement::ExplainChange(change) = statement {
            return self.explain_change(change);
        }
        let catalog = &self.inner.catalog;
        if !is_change(statement) {
            return Ok(catalog.apply(statement, Origin::Statement)?.output);
        }
        let _order = self.inner.translating.lock();
        let applied = catalog.apply(statement, Origin::Statement);
        // Also after a refusal: what somebody else changed may have come to light.
        self.translate(catalog.snapshot());
        Ok(applied?.output)
    }

    /// Reads a shared store again, and puts what it keeps into effect. Blocks.
    pub(super) fn refresh(&self) -> Result<bool, OpenError> {
        let _ours = crate::mem::enter_process();
        let _order = self.inner.translating.lock();
        let changed = self.inner.catalog.refresh();
        self.translate(self.inner.catalog.snapshot());
        changed
    }

    /// Puts a version of the catalog into effect, unless it is. The caller holds `translating`.
    fn translate(&self, snapshot: Arc<Snapshot>) {
        let inner = &*self.inner;
        let last = inner.routing.load_full();
        if Arc::ptr_eq(&snapshot, &last.snapshot) {
            return;
        }
        let next = Routing::new(
            snapshot,
            &inner.core,
            &inner.station,
            &inner.gate,
            &inner.breaker,
            Some(&last),
        );
        let dropped = last.missing_in(&next);
        {
            // A group moves from the one place to the other in the eyes of whoever lists both.
            let mut gone = inner.dropped.lock();
            // First nobody finds a dropped group any more, then it refuses those who found it before.
            inner.routing.store(Arc::new(next));
            for entry in &dropped {
                inner.gate.retire(entry.key);
                entry.group.reserve_no_threads();
            }
            gone.extend(dropped);
        }
        self.inner.settle_breaker();
        self.sweep();
        let version = self.inner.routing.load().snapshot.version();
        event::catalog(version, &MadeBy(&self.inner.catalog, version));
    }

    /// What of the kept catalog was left out at the start, in
    /// [`CatalogMode::Lenient`](crate::catalog::CatalogMode::Lenient): each with its place in the file.
    pub fn catalog_damage(&self) -> &[sql::SqlError] {
        self.inner.catalog.damaged()
    }
}

/// What made this version of the catalog: a statement, or where it was read from.
struct MadeBy<'a>(&'a Catalog, u64);

impl fmt::Display for MadeBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes = self.0.history();
        let mut changes = changes.iter();
        let change = changes.find(|change| change.snapshot.version() == self.1);
        f.write_str(change.map_or("", |change| &change.what))
    }
}

/// Whether a statement may change the catalog.
fn is_change(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateGroup(_)
            | Statement::AlterGroup(_)
            | Statement::DropGroup(_)
            | Statement::Rollback(_)
    )
}
