//! The catalog: what groups and classifiers exist, as immutable versioned snapshots.
//!
//! ```
//! use quotient::catalog::{Catalog, Machine, Origin};
//! use quotient::unit::Bytes;
//!
//! let machine = Machine { workers: 4, memory_limit: Bytes(8 << 30) };
//! let catalog = Catalog::new(machine);
//! let script = "CREATE RESOURCE GROUP etl TO (user='loader') WITH ('cpu_core_limit'='4', 'concurrency_limit'='6')";
//! for statement in quotient::sql::parse(script)? {
//!     catalog.apply(&statement, Origin::Statement)?;
//! }
//! let snapshot = catalog.snapshot();
//! let etl = snapshot.group("etl").unwrap();
//! assert_eq!(etl.cpu_core_limit().get(), 4);
//! assert_eq!(etl.concurrency_limit(), Some(6));
//! # Ok::<(), quotient::sql::SqlError>(())
//! ```
//!
//! Any thread. Readers take a snapshot without a lock; writers wait for each other.

mod check;
pub mod classifier;
pub mod condition;
pub mod difference;
mod draft;
mod follow;
mod group;
pub mod history;
mod keep;
mod notice;
mod open;
pub mod property;
mod reading;
mod script;
pub mod show;
mod snapshot;
pub mod store;

pub use classifier::{ClassifierSpec, CostRange, QueryType};
pub use group::{GroupSpec, Machine, Written};
pub use open::{CatalogMode, OpenError, Opened};
pub use property::{BigQueryAction, GroupType, Key};
pub use snapshot::{DEFAULT_GROUP, Snapshot};

use crate::clock;
use crate::sql::{Output, Spanned, SqlError, SqlErrorKind, Statement};
use arc_swap::ArcSwap;
use draft::Draft;
use history::{Change, History};
use keep::Keep;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use store::CatalogStore;

/// Where a statement comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client: values beyond this machine are refused.
    Statement,
    /// A catalog file or `init_sql`: values beyond this machine are kept as written, cut in effect and reported, so
    /// that a catalog that moves to a smaller machine always loads.
    File,
}

/// What a statement did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Applied {
    /// Its answer.
    pub output: Output,
    /// Whether the catalog is another one now.
    pub changed: bool,
    /// The catalog after it.
    pub snapshot: Arc<Snapshot>,
}

/// What the statements of a script did, as one change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AppliedAll {
    /// Their answers, one per statement.
    pub outputs: Vec<Output>,
    /// Whether the catalog is another one now.
    pub changed: bool,
    /// The catalog after them.
    pub snapshot: Arc<Snapshot>,
}

/// What a change would do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explained {
    /// The answer that the statement would get.
    pub output: Output,
    /// The catalog as it is.
    pub before: Arc<Snapshot>,
    /// The catalog as it would be; the same one if the statement would change nothing.
    pub after: Arc<Snapshot>,
}

/// The catalog of one governor: in memory, and in a store if it was given one.
#[derive(Debug)]
pub struct Catalog {
    current: ArcSwap<Snapshot>,
    /// The id that was drawn next when `current` was made: for who does not wait for the writer.
    next_id: AtomicU64,
    /// Held while a change is made, kept and published: for as long as the store takes.
    writer: Mutex<Writer>,
    /// Held for a moment only; behind `writer` where both are.
    history: Mutex<History>,
    store: Option<Arc<dyn CatalogStore>>,
    damaged: Vec<SqlError>,
}

#[derive(Debug)]
struct Writer {
    /// The same as `current`, in a form that can be changed.
    draft: Draft,
    keep: Keep,
}

impl Catalog {
    /// A catalog with `default_wg` only, at version 1.
    pub fn new(machine: Machine) -> Catalog {
        let mut draft = Draft::new(machine);
        let first = Arc::new(draft.freeze(1));
        Catalog::at(draft, first, "(new)")
    }

    fn at(draft: Draft, first: Arc<Snapshot>, what: &str) -> Catalog {
        let mut history = History::default();
        history.add(clock::wall(), what, first.clone());
        let keep = Keep::default();
        Catalog {
            current: ArcSwap::new(first),
            next_id: AtomicU64::new(draft.next_id()),
            writer: Mutex::new(Writer { draft, keep }),
            history: Mutex::new(history),
            store: None,
            damaged: Vec::new(),
        }
    }

    /// Makes a version the present, and part of the past.
    fn publish(&self, snapshot: Arc<Snapshot>, next_id: u64, what: &str) {
        let mut history = self.history.lock();
        history.add(clock::wall(), what, snapshot.clone());
        self.next_id.store(next_id, Relaxed);
        self.current.store(snapshot);
    }

    /// The catalog as it is now. Never waits.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Runs one statement, wholly or not at all. A change raises the version by one; SHOW, and a statement with nothing
    /// to do, leave it.
    ///
    /// # Errors
    /// What is wrong with the statement; the catalog is then as it was. SHOW USAGE is not answered here
    /// ([`SqlErrorKind::Unsupported`]).
    pub fn apply(&self, statement: &Statement, origin: Origin) -> Result<Applied, SqlError> {
        match statement {
            Statement::Rollback(version) => return self.rollback(version),
            Statement::ShowHistory => {
                return Ok(Applied {
                    output: history::show(self.history().iter()),
                    changed: false,
                    snapshot: self.snapshot(),
                });
            }
            _ => {}
        }
        let all = self.apply_all(std::slice::from_ref(statement), origin)?;
        Ok(Applied {
            output: all.outputs.into_iter().next().unwrap_or_default(),
            changed: all.changed,
            snapshot: all.snapshot,
        })
    }

    /// Runs a script as one statement: wholly or not at all, and with one new version if it changes anything. With
    /// [`Origin::File`], a group may be named in `big_query_action` before it is created.
    ///
    /// # Errors
    /// What is wrong with the first statement that is refused, with its number; the catalog is then as it was.
    pub fn apply_all(
        &self,
        statements: &[Statement],
        origin: Origin,
    ) -> Result<AppliedAll, SqlError> {
        if statements.iter().all(is_show) {
            let snapshot = self.snapshot();
            let outputs = answers(statements, &snapshot)?;
            return Ok(AppliedAll {
                outputs,
                changed: false,
                snapshot,
            });
        }
        let mut guard = self.writer.lock();
        let writer = &mut *guard;
        // `init_sql` counts while a shared store is away; a change from outside does not.
        let unkept = writer.keep.away && origin == Origin::File;
        if writer.keep.away && !unkept {
            self.join(writer)?;
        }
        let Writer { draft, keep } = &mut *writer;
        let before = self.snapshot();
        let next_id = draft.next_id();
        let done = run_all(draft, statements, origin, &before);
        if done.is_err() && (draft.changed() || statements.len() > 1) {
            // The draft must say again what the snapshot says. Ids that the script drew were never seen.
            *draft = Draft::of(&before, next_id);
        }
        let (outputs, changed) = done?;
        if !changed {
            return Ok(AppliedAll {
                outputs,
                changed,
                snapshot: before,
            });
        }
        let snapshot = Arc::new(draft.freeze(before.version() + 1));
        let what: Vec<String> = statements.iter().map(Statement::to_string).collect();
        if !unkept && let Err(error) = keep.save(&snapshot, draft.next_id()) {
            *draft = Draft::of(&before, next_id);
            return Err(self.after_refusal(writer, error));
        }
        self.publish(snapshot.clone(), draft.next_id(), &what.join("; "));
        Ok(AppliedAll {
            outputs,
            changed,
            snapshot,
        })
    }

    /// What [`apply`](Catalog::apply) would make of a CREATE, ALTER or DROP from a client, and nothing of it is done:
    /// what is answered, and the catalog before and after. Whether the change could be kept is not tried. Never waits: a
    /// change that is being kept at the moment does not count yet.
    ///
    /// # Errors
    /// As [`apply`](Catalog::apply).
    pub fn explain(&self, change: &Statement) -> Result<Explained, SqlError> {
        let (before, next_id) = match self.writer.try_lock() {
            Some(writer) => (self.snapshot(), writer.draft.next_id()),
            None => (self.snapshot(), self.next_id.load(Relaxed)),
        };
        let mut draft = Draft::of(&before, next_id);
        let output = draft.run(change, Origin::Statement, 1)?;
        draft.settle()?;
        let after = match draft.changed() {
            true => Arc::new(draft.freeze(before.version() + 1)),
            false => before.clone(),
        };
        Ok(Explained {
            output,
            before,
            after,
        })
    }

    /// Makes the catalog say again what it said at an earlier version, as a new one. A group that was dropped since
    /// comes back under a new id: what it was before has ended.
    ///
    /// # Errors
    /// A version that is not kept; a change that cannot be kept.
    pub fn rollback(&self, version: &Spanned<u64>) -> Result<Applied, SqlError> {
        let mut guard = self.writer.lock();
        let writer = &mut *guard;
        if writer.keep.away {
            self.join(writer)?;
        }
        let Writer { draft, keep } = &mut *writer;
        let before = self.snapshot();
        let Some(then) = self.history.lock().version(version.value).cloned() else {
            let version_kind = SqlErrorKind::UnknownVersion {
                version: version.value,
            };
            let hint = "SHOW CATALOG HISTORY lists those that are";
            return Err(SqlError::new(version_kind, version.span).with_hint(hint));
        };
        let next_id = draft.next_id();
        let mut back = Draft::of(&then.snapshot, next_id);
        back.renew(|id| before.group_by_id(id).is_none());
        let statement = Statement::Rollback(version.clone());
        let output = Output::done(statement.tag());
        if back.freeze(0) == *before {
            return Ok(Applied {
                output,
                changed: false,
                snapshot: before,
            });
        }
        let snapshot = Arc::new(back.freeze(before.version() + 1));
        if let Err(error) = keep.save(&snapshot, back.next_id()) {
            return Err(self.after_refusal(writer, error));
        }
        *draft = back;
        self.publish(snapshot.clone(), draft.next_id(), &statement.to_string());
        Ok(Applied {
            output,
            changed: true,
            snapshot,
        })
    }

    /// The versions that are kept, the newest first: at most [`history::KEPT`].
    pub fn history(&self) -> Vec<Change> {
        self.history.lock().changes().rev().cloned().collect()
    }
}

fn is_show(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::ShowGroups(_)
            | Statement::ShowCreateGroup(_)
            | Statement::ShowUsage(_)
            | Statement::Operate(_)
            | Statement::ShowVariables(_)
    )
}

fn answers(statements: &[Statement], snapshot: &Snapshot) -> Result<Vec<Output>, SqlError> {
    statements
        .iter()
        .enumerate()
        .map(|(i, s)| show::answer(snapshot, s).map_err(|e| e.at_statement(i + 1, 0)))
        .collect()
}

fn run_all(
    draft: &mut Draft,
    statements: &[Statement],
    origin: Origin,
    before: &Snapshot,
) -> Result<(Vec<Output>, bool), SqlError> {
    let mut outputs = Vec::with_capacity(statements.len());
    let mut changed = false;
    for (i, statement) in statements.iter().enumerate() {
        let output = if is_show(statement) {
            changed |= draft.changed();
            show::answer(&draft.freeze(before.version()), statement)
        } else {
            draft.run(statement, origin, i + 1)
        };
        outputs.push(output.map_err(|e| e.at_statement(i + 1, 0))?);
    }
    draft.settle()?;
    Ok((outputs, changed | draft.changed()))
}
