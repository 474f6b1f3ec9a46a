//! SHOW QUERIES and SHOW RUNNING QUERIES: what each query has used, and what it waits for.
//!
//! Pure.

use super::relation::{Cell, Relation, relation};
use crate::sql::Type;
use crate::unit::{Bytes, Nanos, QueryId};

/// One query, running or waiting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryRow {
    /// Its id.
    pub id: u64,
    /// The name of its group.
    pub group: String,
    /// Who asked, if that was stated.
    pub user: Option<String>,
    /// The databases that were stated, with commas between.
    pub db: Option<String>,
    /// What it does: `running`, `waiting` for a place, or `ending` because it was killed.
    pub state: &'static str,
    /// What it waits for, if it waits.
    pub waiting_reason: Option<String>,
    /// Since it was admitted; since it asked, if it waits.
    pub elapsed: Nanos,
    /// Worker time.
    pub cpu: Nanos,
    /// Polls.
    pub polls: u64,
    /// Memory that is charged to it now and was at most; none if nobody counts.
    pub memory: Option<(Bytes, Bytes)>,
    /// Rows that it reported as scanned.
    pub rows: u64,
    /// Its longest poll.
    pub longest_poll: Nanos,
    /// Where the task was spawned whose poll that was.
    pub longest_poll_place: Option<String>,
    /// Its tasks that are alive.
    pub tasks: u64,
    /// Of these, the ones that have outlived its first task.
    pub outliving: u64,
    /// What came of its going over a limit, if it did.
    pub runaway: Option<String>,
}

impl QueryRow {
    /// Its id as a query's.
    pub fn query(&self) -> QueryId {
        QueryId(self.id)
    }
}

const COLUMNS: [Cell<QueryRow>; 17] = [
    ("id", Type::Int, |row| row.id.into()),
    ("group_name", Type::Text, |row| row.group.as_str().into()),
    ("user_name", Type::Text, |row| row.user.clone().into()),
    ("db", Type::Text, |row| row.db.clone().into()),
    ("state", Type::Text, |row| row.state.into()),
    ("waiting_reason", Type::Text, |row| {
        row.waiting_reason.clone().into()
    }),
    ("elapsed_seconds", Type::Float, |row| {
        row.elapsed.as_secs_f64().into()
    }),
    ("cpu_seconds", Type::Float, |row| {
        row.cpu.as_secs_f64().into()
    }),
    ("polls", Type::Int, |row| row.polls.into()),
    ("memory_bytes", Type::Int, |row| {
        row.memory.map(|(now, _)| now.0).into()
    }),
    ("memory_peak_bytes", Type::Int, |row| {
        row.memory.map(|(_, peak)| peak.0).into()
    }),
    ("scan_rows", Type::Int, |row| row.rows.into()),
    ("longest_poll_ms", Type::Float, |row| {
        (row.longest_poll.0 as f64 / 1e6).into()
    }),
    ("longest_poll_place", Type::Text, |row| {
        row.longest_poll_place.clone().into()
    }),
    ("tasks", Type::Int, |row| row.tasks.into()),
    ("outliving_tasks", Type::Int, |row| row.outliving.into()),
    ("runaway", Type::Text, |row| row.runaway.clone().into()),
];

/// `queries`: one row per query, in the order given. Memory is NULL where nobody counts it.
pub fn queries(rows: &[QueryRow]) -> Relation {
    relation("queries", &COLUMNS, rows)
}

/// The running ones, those that have used most CPU time first, and `limit` of them at most.
pub fn busiest(mut rows: Vec<QueryRow>, limit: Option<u64>) -> Vec<QueryRow> {
    rows.retain(|row| row.state != "waiting");
    rows.sort_by_key(|row| (std::cmp::Reverse(row.cpu), row.id));
    rows.truncate(limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(id: u64, state: &'static str, cpu: u64) -> QueryRow {
        QueryRow {
            id,
            state,
            cpu: Nanos::from_millis(cpu),
            ..QueryRow::default()
        }
    }

    #[test]
    fn each_number_stands_under_its_name_in_the_unit_that_it_says() {
        let row = QueryRow {
            id: 17,
            group: "bi".into(),
            user: Some("ann".into()),
            state: "running",
            elapsed: Nanos::from_secs(3),
            cpu: Nanos::from_millis(1_500),
            polls: 12,
            rows: 4_096,
            longest_poll: Nanos::from_micros(2_500),
            longest_poll_place: Some("src/scan.rs:12".into()),
            tasks: 8,
            outliving: 2,
            runaway: Some("dry_run".into()),
            ..QueryRow::default()
        };
        let shown = queries(std::slice::from_ref(&row));
        let cells = shown.columns.iter().zip(&shown.rows[0]);
        let named: Vec<String> = cells
            .map(|(column, cell)| format!("{}={cell}", column.name))
            .collect();
        let expected = "id=17 group_name=bi user_name=ann db=NULL state=running waiting_reason=NULL \
                        elapsed_seconds=3 cpu_seconds=1.5 polls=12 memory_bytes=NULL memory_peak_bytes=NULL \
                        scan_rows=4096 longest_poll_ms=2.5 longest_poll_place=src/scan.rs:12 tasks=8 \
                        outliving_tasks=2 runaway=dry_run";
        assert_eq!(named.join(" "), expected);
        let counted = QueryRow {
            memory: Some((Bytes(1), Bytes(2))),
            ..row
        };
        assert_eq!(
            queries(&[counted]).rows[0][9..11],
            [1_u64.into(), 2_u64.into()]
        );
    }

    #[test]
    fn the_busiest_come_first_and_those_that_wait_do_not_run() {
        let rows = vec![
            query(1, "running", 5),
            query(2, "waiting", 0),
            query(3, "ending", 9),
            query(4, "running", 5),
        ];
        let ids = |limit| {
            busiest(rows.clone(), limit)
                .iter()
                .map(|row| row.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(None), [3, 1, 4]);
        assert_eq!(ids(Some(2)), [3, 1]);
        assert!(ids(Some(0)).is_empty());
    }
}
