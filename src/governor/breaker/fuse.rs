//! A group's part of the circuit breaker: its limits, what came of exceeding them, and how often.
//!
//! Wiring; any thread.

use super::Breaker;
use super::cooled::Cooled;
use crate::admission::watch::Rule;
use crate::catalog::{BigQueryAction, GroupSpec};
use crate::exec::limits::{Limits, Overseer};
use crate::sched;
use crate::sched::breaker::{Action, BigQueryKind, Budgets};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub(in crate::governor) struct Fuse {
    pub(in crate::governor) limits: Arc<Limits>,
    /// The version of the catalog since which they are as they are.
    since: AtomicU64,
    /// The limit on elapsed time has changed, and running queries do not know of it.
    rearm: AtomicBool,
    rule: Mutex<Option<Rule>>,
    /// Where the group's queries go on that are cooled down.
    pub(in crate::governor) cooled: Cooled,
    trips: [[AtomicU64; 4]; 4],
    /// Requests that were refused because they are watched.
    watched: AtomicU64,
}

const ACTIONS: [&str; 4] = ["kill", "dry_run", "cooldown", "switch_group"];

impl Fuse {
    pub(in crate::governor) fn new(
        spec: &GroupSpec,
        version: u64,
        limits: sched::Limits,
        breaker: &Arc<Breaker>,
    ) -> Fuse {
        let breaker: Arc<dyn Overseer> = breaker.clone();
        Fuse {
            limits: Arc::new(Limits::new(budgets(spec), Arc::downgrade(&breaker))),
            since: AtomicU64::new(version),
            rearm: AtomicBool::new(false),
            rule: Mutex::new(rule(spec)),
            cooled: Cooled::new(limits),
            trips: Default::default(),
            watched: AtomicU64::new(0),
        }
    }

    /// Takes over what the catalog says now.
    pub(in crate::governor) fn set(&self, spec: &GroupSpec, version: u64) {
        let budgets = budgets(spec);
        let before = self.limits.budgets();
        if budgets != *before {
            let elapsed = budgets.elapsed != before.elapsed;
            self.limits.set(budgets);
            self.since.store(version, Relaxed);
            if elapsed {
                self.rearm.store(true, Relaxed);
            }
        }
        *self.rule.lock() = rule(spec);
    }

    /// Whether running queries have other deadlines since this was asked last.
    pub(super) fn must_rearm(&self) -> bool {
        self.rearm.load(Relaxed) && self.rearm.swap(false, Relaxed)
    }

    pub(super) fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }

    pub(super) fn rule(&self) -> Option<Rule> {
        *self.rule.lock()
    }

    pub(super) fn count(&self, kind: BigQueryKind, action: &Action) {
        if let Some(at) = ACTIONS.iter().position(|&label| label == action.label()) {
            self.trips[kind as usize][at].fetch_add(1, Relaxed);
        }
    }

    /// How many queries tripped, by kind and action.
    pub(in crate::governor) fn trips(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let all = BigQueryKind::ALL.into_iter().flat_map(|kind| {
            let counts = ACTIONS.iter().zip(&self.trips[kind as usize]);
            counts.map(move |(&action, count)| ((kind.label(), action), count.load(Relaxed)))
        });
        all.filter(|&(_, count)| count > 0).collect()
    }

    pub(super) fn refused(&self) {
        self.watched.fetch_add(1, Relaxed);
    }

    /// Requests that were refused because they are watched.
    pub(in crate::governor) fn watched(&self) -> u64 {
        self.watched.load(Relaxed)
    }
}

fn budgets(spec: &GroupSpec) -> Budgets {
    Budgets {
        cpu: spec.big_query_cpu_second_limit(),
        scan_rows: spec.big_query_scan_rows_limit(),
        memory: spec.big_query_mem_limit(),
        elapsed: spec.big_query_elapsed_second_limit(),
        action: match spec.big_query_action() {
            BigQueryAction::Kill => Action::Kill,
            BigQueryAction::DryRun => Action::DryRun,
            BigQueryAction::Cooldown => Action::Cooldown,
            BigQueryAction::SwitchGroup(name) => Action::SwitchGroup(name.into()),
        },
    }
}

fn rule(spec: &GroupSpec) -> Option<Rule> {
    Some(Rule {
        after: spec.quarantine_after()?,
        window: spec.quarantine_window(),
    })
}
