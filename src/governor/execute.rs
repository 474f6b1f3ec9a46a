//! From statements to effects: the catalog changes, and every stage is told what that means for it.
//!
//! Wiring; any thread. Changes are translated one after the other, in the catalog's order.

use super::routing::Routing;
use super::{Error, Governor};
use crate::catalog::{Origin, Snapshot};
use crate::sql::{self, Output, Statement};
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
    /// It does not wait for anything: once polled, it is done. A change of a catalog that is kept is written and
    /// synced in that poll, some milliseconds on a slow disk.
    ///
    /// # Metrics
    ///
    /// `quotient_catalog_version`; `quotient_catalog_apply_errors_total` for a script that fails.
    pub async fn execute(&self, script: &str) -> Result<Vec<Output>, Error> {
        let run = || -> Result<Vec<Output>, sql::SqlError> {
            let statements = sql::parse(script)?;
            let mut outputs = Vec::with_capacity(statements.len());
            for (done, statement) in statements.iter().enumerate() {
                outputs.push(
                    self.apply(statement)
                        .map_err(|error| error.at_statement(done + 1, done))?,
                );
            }
            Ok(outputs)
        };
        run().map_err(|error| {
            self.inner.apply_errors.fetch_add(1, Relaxed);
            Error::from(error)
        })
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
        let _order = self.inner.translating.lock();
        let applied = self.inner.catalog.apply(statement, Origin::Statement)?;
        if applied.changed {
            self.translate(applied.snapshot);
        }
        Ok(applied.output)
    }

    /// Puts a new version of the catalog into effect. The caller holds `translating`.
    fn translate(&self, snapshot: Arc<Snapshot>) {
        let inner = &*self.inner;
        let last = inner.routing.load_full();
        let next = Routing::new(
            snapshot,
            &inner.core,
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
                inner.gate.remove(entry.id);
                entry.group.reserve_no_threads();
            }
            gone.extend(dropped);
        }
        self.inner.settle_breaker();
        self.sweep();
    }

    /// What of the kept catalog was left out at the start, in
    /// [`CatalogMode::Lenient`](crate::catalog::CatalogMode::Lenient): each with its place in the file.
    pub fn catalog_damage(&self) -> &[sql::SqlError] {
        self.inner.catalog.damaged()
    }
}
