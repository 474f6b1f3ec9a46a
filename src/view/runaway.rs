//! SHOW RUNAWAY EVENTS and SHOW WATCHES: who used too much, what came of it, and who is refused for it.
//!
//! Pure.

use super::relation::{Cell, Relation, relation};
use crate::sql::Type;

/// One query that went over a limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunawayRow {
    /// Seconds since 1970.
    pub at_unix_seconds: f64,
    /// The query.
    pub query: u64,
    /// The group whose limit it was.
    pub group: String,
    /// Who asked, if that was stated.
    pub user: Option<String>,
    /// The databases that were stated, with commas between.
    pub db: Option<String>,
    /// The fingerprint that was stated, in hexadecimal.
    pub fingerprint: Option<String>,
    /// The property that sets the limit.
    pub property: &'static str,
    /// The version of the catalog since which it is set.
    pub catalog_version: u64,
    /// The limit: seconds, rows or bytes.
    pub allowed: f64,
    /// What was used, in the same unit.
    pub used: f64,
    /// What came of it.
    pub action: String,
    /// Since admission, in seconds.
    pub elapsed_seconds: f64,
    /// Worker time in seconds.
    pub cpu_seconds: f64,
    /// Its longest poll in milliseconds.
    pub longest_poll_ms: f64,
    /// Where the task was spawned whose poll that was.
    pub longest_poll_place: Option<String>,
}

const EVENTS: [Cell<RunawayRow>; 15] = [
    ("at_unix_seconds", Type::Float, |row| {
        row.at_unix_seconds.into()
    }),
    ("query_id", Type::Int, |row| row.query.into()),
    ("group_name", Type::Text, |row| row.group.as_str().into()),
    ("user_name", Type::Text, |row| row.user.clone().into()),
    ("db", Type::Text, |row| row.db.clone().into()),
    ("fingerprint", Type::Text, |row| {
        row.fingerprint.clone().into()
    }),
    ("property", Type::Text, |row| row.property.into()),
    ("catalog_version", Type::Int, |row| {
        row.catalog_version.into()
    }),
    ("allowed", Type::Float, |row| row.allowed.into()),
    ("used", Type::Float, |row| row.used.into()),
    ("action", Type::Text, |row| row.action.as_str().into()),
    ("elapsed_seconds", Type::Float, |row| {
        row.elapsed_seconds.into()
    }),
    ("cpu_seconds", Type::Float, |row| row.cpu_seconds.into()),
    ("longest_poll_ms", Type::Float, |row| {
        row.longest_poll_ms.into()
    }),
    ("longest_poll_place", Type::Text, |row| {
        row.longest_poll_place.clone().into()
    }),
];

/// One kind of requests that is watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchRow {
    /// Its id.
    pub id: u64,
    /// The name of the group.
    pub group: String,
    /// The fingerprint, in hexadecimal.
    pub fingerprint: String,
    /// Kills within the window.
    pub kills: u64,
    /// Whether requests of the kind are refused.
    pub refuses: bool,
    /// When it ends, in seconds from now.
    pub seconds_left: f64,
    /// What the last query of its kind was killed for.
    pub report: String,
}

const WATCHES: [Cell<WatchRow>; 7] = [
    ("id", Type::Int, |row| row.id.into()),
    ("group_name", Type::Text, |row| row.group.as_str().into()),
    ("fingerprint", Type::Text, |row| {
        row.fingerprint.as_str().into()
    }),
    ("kills", Type::Int, |row| row.kills.into()),
    ("state", Type::Text, |row| {
        if row.refuses { "refused" } else { "counted" }.into()
    }),
    ("seconds_left", Type::Float, |row| row.seconds_left.into()),
    ("report", Type::Text, |row| row.report.as_str().into()),
];

/// `runaway_events`: queries that went over a limit, one row each, in the order given.
pub fn events(rows: &[RunawayRow]) -> Relation {
    relation("runaway_events", &EVENTS, rows)
}

/// `watches`: one row each, in the order given.
pub fn watches(rows: &[WatchRow]) -> Relation {
    relation("watches", &WATCHES, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_says_whether_it_only_counts() {
        let row = |refuses| WatchRow {
            id: 3,
            group: "bi".into(),
            fingerprint: "0x2a".into(),
            kills: 2,
            refuses,
            seconds_left: 12.5,
            report: "too many rows".into(),
        };
        let output = watches(&[row(true), row(false)]).show();
        let expected = [
            "id | group_name | fingerprint | kills | state   | seconds_left | report       ",
            "---+------------+-------------+-------+---------+--------------+--------------",
            " 3 | bi         | 0x2a        |     2 | refused |         12.5 | too many rows",
            " 3 | bi         | 0x2a        |     2 | counted |         12.5 | too many rows",
            "(2 rows)",
        ];
        let text = output.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines, expected.map(str::trim_end));
    }
}
