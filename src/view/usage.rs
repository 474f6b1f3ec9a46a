//! SHOW USAGE RESOURCE GROUPS: who runs what, what it was charged, what it was entitled to.
//!
//! Pure.

use crate::metrics::snapshot::GroupRow;
use crate::sql::{Output, Value};
use crate::unit::GroupId;

/// One column: its name, which carries the unit, and its cell.
type Column = (&'static str, fn(GroupId, &GroupRow) -> Value);

const COLUMNS: [Column; 12] = [
    ("name", |_, row| row.name.as_str().into()),
    ("id", |id, _| id.0.into()),
    ("running", |_, row| row.queries_running.into()),
    ("queued", |_, row| row.queries_queued.into()),
    ("cpu_seconds", |_, row| {
        let usage = &row.usage;
        usage.cpu_poll.plus(usage.cpu_drop).as_secs_f64().into()
    }),
    ("cpu_share", |_, row| row.usage.share.into()),
    ("entitled_share", |_, row| row.usage.entitled.into()),
    ("lag_ms", |_, row| (row.usage.lag_ns as f64 / 1e6).into()),
    ("memory", |_, row| tracked(row.memory.used)),
    ("memory_peak", |_, row| tracked(row.memory.peak)),
    ("memory_limit", |_, row| {
        row.memory.limit.map_or(Value::Null, Value::from)
    }),
    ("tasks", |_, row| {
        let usage = &row.usage;
        (usage.tasks_running + usage.tasks_queued + usage.tasks_waiting).into()
    }),
];

fn tracked(bytes: Option<u64>) -> Value {
    bytes.map_or_else(|| "not tracked".into(), Value::from)
}

/// The table, one line per group, in the order given.
pub fn table<'a>(rows: impl IntoIterator<Item = (GroupId, &'a GroupRow)>) -> Output {
    let names = COLUMNS.map(|(name, _)| name);
    let mut output = Output::table("SHOW USAGE RESOURCE GROUPS", names);
    for (id, row) in rows {
        output.push(COLUMNS.iter().map(|(_, cell)| cell(id, row)).collect());
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::stats::GroupUsage;
    use crate::metrics::memory::GroupMemory;
    use crate::unit::Nanos;

    #[test]
    fn each_number_stands_under_its_name_in_the_unit_that_it_says() {
        let row = GroupRow {
            name: "etl".to_owned(),
            queries_running: 2,
            queries_queued: 3,
            usage: GroupUsage {
                cpu_poll: Nanos::from_millis(1_400),
                cpu_drop: Nanos::from_millis(100),
                share: 0.25,
                entitled: 0.5,
                lag_ns: -2_500_000,
                tasks_running: 1,
                tasks_queued: 10,
                tasks_waiting: 100,
                ..GroupUsage::default()
            },
            memory: GroupMemory {
                used: Some(1_048_576),
                peak: Some(2_097_152),
                limit: Some(8_388_608),
                ..GroupMemory::default()
            },
            ..GroupRow::default()
        };
        let untracked = GroupRow {
            name: "ml".to_owned(),
            ..GroupRow::default()
        };
        let output = table([(GroupId(10_001), &row), (GroupId(10_002), &untracked)]);
        let expected = [
            "name | id    | running | queued | cpu_seconds | cpu_share | entitled_share | lag_ms | memory      | memory_peak | memory_limit | tasks",
            "-----+-------+---------+--------+-------------+-----------+----------------+--------+-------------+-------------+--------------+------",
            "etl  | 10001 |       2 |      3 |         1.5 |      0.25 |            0.5 |   -2.5 |     1048576 |     2097152 |      8388608 |   111",
            "ml   | 10002 |       0 |      0 |           0 |         0 |              0 |      0 | not tracked | not tracked | NULL         |     0",
            "(2 rows)",
        ];
        assert_eq!(output.to_string().lines().collect::<Vec<_>>(), expected);
    }
}
