//! The circuit breaker carried out: a query went over a limit, and this is what comes of it.
//!
//! Wiring; any thread, also workers between two polls. The executor finds CPU time, rows and memory, the
//! housekeeping here finds elapsed time; from there on it is one path. Nothing of it is called for a query that
//! keeps within its limits, but for one look at admission and one at the end if its group limits elapsed time.

mod cooled;
mod deadlines;
mod fuse;
mod quarantine;

pub(super) use fuse::Fuse;

use super::routing::Entry;
use super::running::Running;
use super::shutdown::Rests;
use super::{Governor, Inner};
use crate::admission::watch::WatchList;
use crate::clock;
use crate::event;
use crate::exec::limits::Overseer;
use crate::mem;
use crate::query::{KillReason, Query, Runaway};
use crate::sched::breaker::{Action, BigQueryKind, Trip};
use crate::unit::{GroupId, Nanos, QueryId};
use deadlines::Deadlines;
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Runaway queries that are remembered.
const EVENTS: usize = 1_000;
/// Kinds of requests that are watched.
const WATCHES: usize = 10_000;

pub(super) struct Breaker {
    governor: OnceLock<Weak<Inner>>,
    /// The last ones, the oldest first.
    events: Mutex<VecDeque<Arc<Runaway>>>,
    deadlines: Deadlines,
    watches: Mutex<WatchList>,
    /// The origin of the watches' instants.
    began: Instant,
}

impl Breaker {
    pub(super) fn new() -> Arc<Breaker> {
        Arc::new(Breaker {
            governor: OnceLock::new(),
            events: Mutex::default(),
            deadlines: Deadlines::default(),
            watches: Mutex::new(WatchList::new(WATCHES)),
            began: Instant::now(),
        })
    }

    /// Whose queries it looks after. Before that it does nothing.
    pub(super) fn attach(&self, governor: &Arc<Inner>) {
        // A breaker has one governor for its life.
        let _ = self.governor.set(Arc::downgrade(governor));
    }

    fn remember(&self, runaway: Arc<Runaway>) {
        let mut events = self.events.lock();
        if events.len() >= EVENTS {
            events.pop_front();
        }
        events.push_back(runaway);
    }

    /// The query is over.
    pub(super) fn ended(&self, query: QueryId, running: &Running) {
        self.deadlines.clear(query);
        let runaway = running.runaway.as_ref();
        if runaway.is_some_and(|runaway| runaway.action == Action::Cooldown) {
            running.entry.fuse.cooled.leave(&running.entry.group);
        }
    }
}

impl Overseer for Breaker {
    fn tripped(&self, query: QueryId, trip: Trip, late: Nanos) {
        // Perhaps inside a poll of the query: what is remembered of it is not its memory, and under the locks to come
        // it may not be held back for want of any.
        let _ours = mem::enter_process();
        if let Some(inner) = self.governor.get().and_then(Weak::upgrade) {
            inner.trip(query, trip, late);
        }
    }
}

impl Inner {
    fn trip(self: &Arc<Inner>, id: QueryId, trip: Trip, late: Nanos) {
        let _ours = crate::mem::enter_process();
        let found = self.core.clock().now();
        // If it has ended meanwhile, there is nothing left to be done about it.
        let Some((query, running)) = self.running(id) else {
            return;
        };
        let entry = running.entry;
        let mut action = trip.action;
        if let Action::SwitchGroup(target) = &action
            && !self.switch(&query, &entry, target)
        {
            // The target is gone: the operator took it out of big_query_action a moment ago, and what cannot go on
            // there must not go on here.
            action = Action::Kill;
        }
        let attributes = &running.attributes;
        let runaway = Arc::new(Runaway {
            query: id,
            group: entry.name.clone(),
            user: attributes.get_user().map(Into::into),
            dbs: attributes.get_dbs().map(Into::into).collect(),
            fingerprint: attributes.get_fingerprint(),
            kind: trip.kind,
            used: trip.used,
            limit: trip.limit,
            catalog_version: entry.fuse.since(),
            action: action.clone(),
            at: clock::wall(),
            usage: query.usage(),
            late,
        });
        match action {
            Action::Kill => {
                let reason = KillReason::BigQuery {
                    kind: trip.kind,
                    used: trip.used,
                    limit: trip.limit,
                    group: entry.name.clone(),
                    query: id,
                    report: runaway.clone(),
                };
                if !query.kill_for(reason) {
                    return;
                }
                let since = self.core.clock().now().since(found);
                self.core.crossed(late.plus(since));
                self.quarantine(&entry, &runaway);
            }
            Action::Cooldown => {
                let companion = entry.fuse.cooled.enter(&entry.group);
                query.account().cool_in(&companion);
            }
            Action::DryRun | Action::SwitchGroup(_) => {}
        }
        self.breaker.deadlines.clear(id);
        entry.fuse.count(trip.kind, &runaway.action);
        event::runaway(event_kind(trip.kind), &entry.name, id, &runaway);
        if let Some(running) = self.queries.lock().get_mut(&id) {
            running.runaway = Some(runaway.clone());
        }
        self.breaker.remember(runaway);
    }

    /// Moves a query to another group, with its account and its place. False if that group is not there.
    fn switch(&self, query: &Query, from: &Entry, target: &str) -> bool {
        let routing = self.routing.load();
        let Some(target) = routing.by_name(target).filter(|to| to.key != from.key) else {
            return false;
        };
        let Some(place) = self.gate.move_in(target.key) else {
            return false;
        };
        if !query.account().move_to(&target.group) {
            return false;
        }
        if let Some(running) = self.queries.lock().get_mut(&query.id()) {
            running.entry = target.clone();
        }
        // The old place, which may let somebody in.
        drop(query.change_place(place));
        true
    }

    /// A query was admitted, or the limits of its group have changed.
    pub(super) fn watch_elapsed(self: &Arc<Inner>, query: &Query, entry: &Entry) {
        let limit = entry.fuse.limits.budgets().elapsed;
        // One nanosecond more: only what is strictly greater trips.
        let deadline = limit.and_then(|limit| {
            query
                .admitted()
                .checked_add(Duration::from(limit.plus(Nanos(1))))
        });
        let Some(deadline) =
            deadline.filter(|_| !query.account().has_tripped() && !query.is_killed())
        else {
            self.breaker.deadlines.clear(query.id());
            return;
        };
        if self.breaker.deadlines.set(query.id(), deadline) {
            let governor = Governor {
                inner: self.clone(),
            };
            governor.in_background(watch);
        }
    }

    /// A new version of the catalog is in effect: running queries have new deadlines, and groups without
    /// quarantine watch nobody any more.
    pub(super) fn settle_breaker(self: &Arc<Inner>) {
        let routing = self.routing.load_full();
        let entries = || routing.entries();
        let timed = entries().filter(|entry| entry.fuse.must_rearm());
        let timed: HashSet<GroupId> = timed.map(|entry| entry.key).collect();
        if !timed.is_empty() {
            for (query, running) in self.all_running() {
                if timed.contains(&running.entry.key) {
                    self.watch_elapsed(&query, &running.entry);
                }
            }
        }
        let ruled = entries().filter(|entry| entry.fuse.rule().is_some());
        let ruled: HashSet<GroupId> = ruled.map(|entry| entry.key).collect();
        self.breaker.keep_watches(|key| ruled.contains(&key));
    }

    fn is_up(self: &Arc<Inner>, id: QueryId) {
        let Some((query, running)) = self.running(id) else {
            return;
        };
        let elapsed = Nanos::from(query.admitted().elapsed());
        let limit = running.entry.fuse.limits.budgets().elapsed;
        let late = elapsed.since(limit.unwrap_or(elapsed));
        let tripped = query.account().over(BigQueryKind::Elapsed, elapsed.0, late);
        if !tripped {
            // The limit was raised meanwhile.
            self.watch_elapsed(&query, &running.entry);
        }
    }
}

fn event_kind(kind: BigQueryKind) -> event::Kind {
    match kind {
        BigQueryKind::Cpu => event::Kind::RunawayCpu,
        BigQueryKind::ScanRows => event::Kind::RunawayScanRows,
        BigQueryKind::Memory => event::Kind::RunawayMemory,
        BigQueryKind::Elapsed => event::Kind::RunawayElapsed,
    }
}

/// Waits for deadlines, and looks at the queries that are due.
async fn watch(governor: Weak<Inner>) {
    let Some(breaker) = governor.upgrade().map(|inner| inner.breaker.clone()) else {
        return;
    };
    let mut rests = Rests::default();
    loop {
        let next = breaker.deadlines.next();
        let left = next.map(|at| at.saturating_duration_since(Instant::now()));
        let earlier = std::pin::pin!(breaker.deadlines.earlier());
        match left {
            None => earlier.await,
            Some(left) => {
                let rest = std::pin::pin!(rests.rest(left));
                futures::future::select(rest, earlier).await;
            }
        }
        let due = breaker.deadlines.take_due(Instant::now());
        let Some(inner) = governor.upgrade() else {
            return;
        };
        due.into_iter().for_each(|query| inner.is_up(query));
    }
}

impl Governor {
    /// The last 1 000 queries that went over a limit of their group, the oldest first: what `SHOW RUNAWAY EVENTS`
    /// lists.
    pub fn runaway_events(&self) -> Vec<Arc<Runaway>> {
        let _ours = mem::enter_process();
        self.inner.breaker.events.lock().iter().cloned().collect()
    }
}
