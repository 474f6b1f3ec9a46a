//! SELECT: which views there are, and what each is filled from.
//!
//! Wiring; any thread. A view is pulled when it is asked for, and shows one moment.

use super::Governor;
use crate::metrics::snapshot::GroupRow;
use crate::sql::select::{Select, SelectError};
use crate::sql::suggest::closest;
use crate::sql::{Notice, NoticeKind, Output, SqlError, Type};
use crate::unit::GroupId;
use crate::view::relation::Relation;
use crate::view::{long_polls, memory, select, tables, tasks};

/// A system view: its name, and what fills it.
type View = (&'static str, fn(&Governor) -> Relation);

const VIEWS: [View; 15] = [
    ("admission", |governor| {
        tables::admission(refs(&governor.usage_rows(None)))
    }),
    ("catalog_history", |governor| {
        tables::catalog_history(&governor.inner.catalog.history())
    }),
    ("classifiers", |governor| {
        tables::classifiers(&governor.inner.routing.load().snapshot)
    }),
    ("groups", |governor| {
        let snapshot = governor.inner.routing.load().snapshot.clone();
        tables::groups(refs(&governor.usage_rows(None)), &snapshot)
    }),
    ("io_resources", Governor::io_resources_view),
    ("long_polls", |governor| {
        long_polls::table(&governor.long_polls())
    }),
    ("memory", Governor::memory_view),
    ("queries", Governor::queries_view),
    ("rejections", |governor| {
        tables::rejections(refs(&governor.usage_rows(None)))
    }),
    ("runaway_events", Governor::runaway_view),
    ("scheduler", |governor| {
        tables::scheduler(refs(&governor.usage_rows(None)))
    }),
    ("tasks", |governor| {
        tasks::tasks(&governor.inner.core.tasks(tasks::SHOWN))
    }),
    ("variables", Governor::variables_view),
    ("watches", Governor::watches_view),
    ("workers", |governor| tables::workers(&governor.metrics())),
];

fn refs(rows: &[(GroupId, GroupRow)]) -> impl Iterator<Item = (GroupId, &GroupRow)> {
    rows.iter().map(|(id, row)| (*id, row))
}

impl Governor {
    /// The system views that SELECT reads, by name: the names and types of their columns.
    pub fn views(&self) -> Vec<(&'static str, Vec<(&'static str, Type)>)> {
        let columns = |relation: Relation| {
            let columns = relation.columns.into_iter();
            columns.map(|column| (column.name, column.kind)).collect()
        };
        let views = VIEWS.iter();
        views
            .map(|(name, fill)| (*name, columns(fill(self))))
            .collect()
    }

    pub(super) fn select(&self, statement: &Select) -> Result<Output, SqlError> {
        let name = &statement.from;
        let view = VIEWS.iter().find(|(view, _)| *view == name.value);
        let Some((_, fill)) = view else {
            let names = || VIEWS.iter().map(|(name, _)| *name);
            let kind = SelectError::UnknownView {
                name: name.value.clone(),
            };
            let hint = format!("the views are {}", names().collect::<Vec<_>>().join(", "));
            return Err(SqlError::new(kind.into(), name.span)
                .with_suggestion(closest(name, names()))
                .with_hint(hint));
        };
        let relation = fill(self);
        let mut output = select::answer(statement, &relation)?;
        if relation.name == "tasks" && relation.rows.len() >= tasks::SHOWN {
            output.notice(Notice {
                kind: NoticeKind::Shortened,
                groups: Vec::new(),
                property: None,
                message: format!(
                    "{} tasks were looked at, and there are more; the view groups has their number",
                    tasks::SHOWN
                ),
            });
        }
        Ok(output)
    }

    /// The view `memory`.
    fn memory_view(&self) -> Relation {
        let snapshot = self.metrics();
        memory::memory(&snapshot.memory, &snapshot.groups, &self.query_rows())
    }
}
