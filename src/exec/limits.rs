//! A group's budgets as the accounts of its queries look at them: after every poll and on every report.
//!
//! Mechanism; any thread. One value per group, shared by its accounts, so that changing a limit is one store that
//! binds running queries at their next look. What is looked at on every poll are plain numbers; the budgets as a
//! whole are read only by somebody who is over one of the numbers.

use crate::sched::breaker::{BigQueryKind, Budgets, Trip};
use crate::unit::{Nanos, QueryId};
use arc_swap::ArcSwap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Who carries out what becomes of a query that uses too much: the layer above.
pub trait Overseer: Send + Sync {
    /// The query went over a limit, for the first time, `late` ago at most. Called once per query, on the thread
    /// that found it, under no lock; perhaps on a worker, between two polls or inside one.
    fn tripped(&self, query: QueryId, trip: Trip, late: Nanos);
}

/// What each query of a group may use.
pub struct Limits {
    /// Above this CPU time somebody must look closer. 0 while there is a limit on memory, which is looked at
    /// after every poll; the largest number = never.
    near: AtomicU64,
    cpu: AtomicU64,
    scan_rows: AtomicU64,
    budgets: ArcSwap<Budgets>,
    overseer: Option<Weak<dyn Overseer>>,
}

const OFF: u64 = u64::MAX;

impl Limits {
    /// No limits, for good.
    pub fn none() -> Limits {
        Limits {
            near: AtomicU64::new(OFF),
            cpu: AtomicU64::new(OFF),
            scan_rows: AtomicU64::new(OFF),
            budgets: ArcSwap::default(),
            overseer: None,
        }
    }

    /// These budgets; `overseer` is told of whoever exceeds them.
    pub fn new(budgets: Budgets, overseer: Weak<dyn Overseer>) -> Limits {
        let limits = Limits {
            overseer: Some(overseer),
            ..Limits::none()
        };
        limits.set(budgets);
        limits
    }

    /// Changes them, also for queries that run.
    pub fn set(&self, budgets: Budgets) {
        let number = |kind| budgets.limit(kind).unwrap_or(OFF);
        let (cpu, rows) = (number(BigQueryKind::Cpu), number(BigQueryKind::ScanRows));
        let near = if budgets.memory.is_some() { 0 } else { cpu };
        self.budgets.store(Arc::new(budgets));
        self.cpu.store(cpu, Relaxed);
        self.scan_rows.store(rows, Relaxed);
        self.near.store(near, Relaxed);
    }

    /// What they are.
    pub fn budgets(&self) -> Arc<Budgets> {
        self.budgets.load_full()
    }

    /// Whether a query that has used this CPU time must be looked at.
    #[inline]
    pub(super) fn are_near(&self, cpu: Nanos) -> bool {
        cpu.0 > self.near.load(Relaxed)
    }

    pub(super) fn cpu(&self) -> Nanos {
        Nanos(self.cpu.load(Relaxed))
    }

    #[inline]
    pub(super) fn scan_rows(&self) -> u64 {
        self.scan_rows.load(Relaxed)
    }

    pub(super) fn judge(&self, kind: BigQueryKind, used: u64) -> Option<Trip> {
        self.budgets.load().judge(kind, used)
    }

    pub(super) fn report(&self, query: QueryId, trip: Trip, late: Nanos) {
        if let Some(overseer) = self.overseer.as_ref().and_then(Weak::upgrade) {
            overseer.tripped(query, trip, late);
        }
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Limits").field(&self.budgets()).finish()
    }
}
