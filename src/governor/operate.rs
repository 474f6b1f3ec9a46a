//! Statements about running work: SHOW QUERIES, KILL, SHOW RUNAWAY EVENTS, SHOW WATCHES, DROP WATCH.
//!
//! Wiring; any thread.

use super::Governor;
use super::running::Running;
use crate::admission::WaitingQuery;
use crate::admission::watch::WatchId;
use crate::clock;
use crate::mem;
use crate::query::{Query, Runaway};
use crate::sched::breaker::BigQueryKind;
use crate::sql::operation::Operation;
use crate::sql::{Output, Spanned, SqlError, SqlErrorKind};
use crate::unit::{Bytes, GroupId, Nanos, QueryId};
use crate::view::queries::{self, QueryRow};
use crate::view::relation::Relation;
use crate::view::runaway::{self, RunawayRow, WatchRow};
use std::collections::HashSet;

impl Governor {
    pub(super) fn operate(&self, operation: &Operation) -> Result<Output, SqlError> {
        match operation {
            Operation::ShowQueries => Ok(self.queries_view().show()),
            Operation::ShowRunningQueries { limit } => {
                let limit = limit.as_ref().map(|limit| limit.value);
                Ok(queries::queries(&queries::busiest(self.query_rows(), limit)).show())
            }
            Operation::Kill(id) => self.kill_statement(id),
            Operation::ShowRunawayEvents { limit } => {
                let limit = limit.as_ref().map(|limit| limit.value);
                let most = limit.and_then(|limit| usize::try_from(limit).ok());
                let mut events = self.runaway_view();
                events.rows.truncate(most.unwrap_or(usize::MAX));
                Ok(events.show())
            }
            Operation::ShowWatches => Ok(self.watches_view().show()),
            Operation::DropWatch(id) => {
                if self.inner.breaker.drop_watch(WatchId(id.value)) {
                    return Ok(Output::done(operation.tag()));
                }
                let kind = SqlErrorKind::UnknownWatch { id: id.value };
                Err(SqlError::new(kind, id.span).with_hint("SHOW WATCHES lists those there are"))
            }
        }
    }

    /// Ends a query, running or waiting for a place: what `KILL QUERY id` does. False if there is no such query.
    /// One that was killed before stays killed for its first reason.
    ///
    /// # Metrics
    ///
    /// `quotient_kill_latency_seconds` and, when its last future is gone, `quotient_group_queries_total` with the outcome
    /// `killed`; for one that waited, `quotient_group_admission_total` with `cancelled`, unless it had been given its place.
    pub fn kill(&self, id: QueryId, why: &str) -> bool {
        self.kill_by(id, why, "Governor::kill")
    }

    fn kill_by(&self, id: QueryId, why: &str, by: &str) -> bool {
        let _ours = mem::enter_process();
        let Some((query, _)) = self.inner.running(id) else {
            return self.inner.gate.kill_waiting(id, why);
        };
        query.kill_by(why, by);
        true
    }

    fn kill_statement(&self, id: &Spanned<u64>) -> Result<Output, SqlError> {
        if self.kill_by(QueryId(id.value), "an operator ended it", "KILL QUERY") {
            return Ok(Output::done("KILL"));
        }
        let kind = SqlErrorKind::UnknownQuery { id: id.value };
        Err(SqlError::new(kind, id.span).with_hint("SHOW QUERIES lists those there are"))
    }

    /// The queries that run and those that wait, the oldest first.
    pub(super) fn query_rows(&self) -> Vec<QueryRow> {
        // Those that wait first: one that is let in meanwhile is then seen once or twice, not never.
        let waiting = self.inner.gate.waiting();
        let running = self.inner.all_running();
        let mut rows: Vec<QueryRow> = running.iter().map(|(query, it)| row(query, it)).collect();
        let seen: HashSet<u64> = rows.iter().map(|row| row.id).collect();
        let not_seen = waiting.iter().filter(|it| !seen.contains(&it.id.0));
        rows.extend(not_seen.map(waiting_row));
        rows.sort_by_key(|row| row.id);
        rows
    }

    /// The view `queries`.
    pub(super) fn queries_view(&self) -> Relation {
        queries::queries(&self.query_rows())
    }

    /// The view `runaway_events`: the newest first.
    pub(super) fn runaway_view(&self) -> Relation {
        let events = self.runaway_events();
        let rows: Vec<_> = events
            .iter()
            .rev()
            .map(|event| runaway_row(event))
            .collect();
        runaway::events(&rows)
    }

    /// The view `watches`.
    pub(super) fn watches_view(&self) -> Relation {
        let (watches, now) = self.inner.breaker.watches();
        let routing = self.inner.routing.load();
        let name = |id: GroupId| match routing.by_key(id) {
            Some(entry) => entry.name.to_string(),
            None => id.to_string(),
        };
        let row = |watch: crate::admission::watch::Watch| WatchRow {
            id: watch.id.0,
            group: name(watch.group),
            fingerprint: format!("{:#x}", watch.fingerprint),
            kills: watch.kills,
            refuses: watch.refuses,
            seconds_left: watch.until.since(now).as_secs_f64(),
            report: watch.report.to_string(),
        };
        let rows: Vec<_> = watches.into_iter().map(row).collect();
        runaway::watches(&rows)
    }
}

fn row(query: &Query, running: &Running) -> QueryRow {
    let usage = query.usage();
    let attributes = &running.attributes;
    // Without the allocator only reservations are counted.
    let tracked = mem::is_installed() || usage.memory_peak > 0;
    QueryRow {
        id: query.id().0,
        group: query.group().to_owned(),
        user: attributes.get_user().map(str::to_owned),
        db: list(attributes.get_dbs()),
        state: if query.is_killed() {
            "ending"
        } else {
            "running"
        },
        waiting_reason: None,
        elapsed: usage.elapsed.into(),
        cpu: usage.cpu.into(),
        polls: usage.polls,
        memory: tracked.then_some((Bytes(usage.memory), Bytes(usage.memory_peak))),
        rows: usage.scan_rows,
        longest_poll: usage.longest_poll.into(),
        longest_poll_place: usage.longest_poll_at.map(ToString::to_string),
        tasks: usage.tasks,
        outliving: query.account().outliving(),
        runaway: running.runaway.as_ref().map(|it| it.action.to_string()),
    }
}

fn waiting_row(waiting: &WaitingQuery) -> QueryRow {
    QueryRow {
        id: waiting.id.0,
        group: waiting.group_name.to_string(),
        user: waiting.who.user.as_deref().map(str::to_owned),
        db: list(waiting.who.dbs.iter().map(|db| &**db)),
        state: "waiting",
        waiting_reason: Some(match waiting.reason {
            Some(reason) => format!("{reason}, {} of {}", waiting.position, waiting.queued),
            None => "has a place, not polled yet".to_owned(),
        }),
        elapsed: Nanos::from(waiting.since.elapsed()),
        ..QueryRow::default()
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn runaway_row(event: &Runaway) -> RunawayRow {
    let amount = |amount| match event.kind {
        BigQueryKind::Cpu | BigQueryKind::Elapsed => Nanos(amount).as_secs_f64(),
        BigQueryKind::ScanRows | BigQueryKind::Memory => amount as f64,
    };
    RunawayRow {
        at_unix_seconds: clock::unix_seconds(event.at),
        query: event.query.0,
        group: event.group.to_string(),
        user: event.user.as_deref().map(str::to_owned),
        db: list(event.dbs.iter().map(|db| &**db)),
        fingerprint: event.fingerprint.map(|print| format!("{print:#x}")),
        property: event.kind.property(),
        catalog_version: event.catalog_version,
        allowed: amount(event.limit),
        used: amount(event.used),
        action: event.action.to_string(),
        elapsed_seconds: event.usage.elapsed.as_secs_f64(),
        cpu_seconds: event.usage.cpu.as_secs_f64(),
        longest_poll_ms: event.usage.longest_poll.as_secs_f64() * 1e3,
        longest_poll_place: event.usage.longest_poll_at.map(ToString::to_string),
    }
}
