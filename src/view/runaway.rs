//! SHOW RUNAWAY EVENTS and SHOW WATCHES: who used too much, what came of it, and who is refused for it.
//!
//! Pure.

use crate::sql::{Output, Value};

/// One query that went over a limit.
#[derive(Clone, Debug, PartialEq)]
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
    /// The limit and what was used: seconds, rows or bytes.
    pub limit: Value,
    /// As `limit`.
    pub used: Value,
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

type Column<Row> = (&'static str, fn(&Row) -> Value);

const EVENTS: [Column<RunawayRow>; 15] = [
    ("at_unix_seconds", |row| row.at_unix_seconds.into()),
    ("query", |row| row.query.into()),
    ("group", |row| row.group.as_str().into()),
    ("user", |row| row.user.clone().into()),
    ("db", |row| row.db.clone().into()),
    ("fingerprint", |row| row.fingerprint.clone().into()),
    ("property", |row| row.property.into()),
    ("catalog_version", |row| row.catalog_version.into()),
    ("limit", |row| row.limit.clone()),
    ("used", |row| row.used.clone()),
    ("action", |row| row.action.as_str().into()),
    ("elapsed_seconds", |row| row.elapsed_seconds.into()),
    ("cpu_seconds", |row| row.cpu_seconds.into()),
    ("longest_poll_ms", |row| row.longest_poll_ms.into()),
    ("longest_poll_place", |row| {
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

const WATCHES: [Column<WatchRow>; 7] = [
    ("id", |row| row.id.into()),
    ("group", |row| row.group.as_str().into()),
    ("fingerprint", |row| row.fingerprint.as_str().into()),
    ("kills", |row| row.kills.into()),
    ("state", |row| {
        if row.refuses { "refused" } else { "counted" }.into()
    }),
    ("seconds_left", |row| row.seconds_left.into()),
    ("report", |row| row.report.as_str().into()),
];

fn fill<Row, const N: usize>(columns: &[Column<Row>; N], rows: &[Row]) -> Output {
    let mut output = Output::table("SHOW", columns.map(|(name, _)| name));
    for row in rows {
        output.push(columns.iter().map(|(_, cell)| cell(row)).collect());
    }
    output
}

/// Runaway queries, one line each, in the order given.
pub fn events(rows: &[RunawayRow]) -> Output {
    fill(&EVENTS, rows)
}

/// Watches, one line each, in the order given.
pub fn watches(rows: &[WatchRow]) -> Output {
    fill(&WATCHES, rows)
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
        let output = watches(&[row(true), row(false)]);
        let expected = [
            "id | group | fingerprint | kills | state   | seconds_left | report       ",
            "---+-------+-------------+-------+---------+--------------+--------------",
            " 3 | bi    | 0x2a        |     2 | refused |         12.5 | too many rows",
            " 3 | bi    | 0x2a        |     2 | counted |         12.5 | too many rows",
            "(2 rows)",
        ];
        let text = output.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines, expected.map(str::trim_end));
    }
}
