//! SHOW USAGE RESOURCE GROUPS: who runs what, what it was charged, what it was entitled to.
//!
//! Pure.

use super::relation::Column;
use crate::metrics::snapshot::GroupRow;
use crate::sql::{Output, Type, Value};
use crate::unit::GroupId;

/// One column: its name, which carries the unit, its type, and its cell.
type Usage = (&'static str, Type, fn(GroupId, &GroupRow) -> Value);

const COLUMNS: [Usage; 14] = [
    ("name", Type::Text, |_, row| row.name.as_str().into()),
    ("id", Type::Int, |id, _| id.0.into()),
    ("running", Type::Int, |_, row| row.queries_running.into()),
    ("queued", Type::Int, |_, row| row.queries_queued.into()),
    ("reserved", Type::Int, |_, row| row.usage.reserved.into()),
    ("cpu_seconds", Type::Float, |_, row| {
        row.usage.cpu().as_secs_f64().into()
    }),
    ("cpu_share", Type::Float, |_, row| row.usage.share.into()),
    ("entitled_share", Type::Float, |_, row| {
        row.usage.entitled.into()
    }),
    ("lag_ms", Type::Float, |_, row| {
        (row.usage.lag_ns as f64 / 1e6).into()
    }),
    ("memory", Type::Int, |_, row| bytes(row.memory.used)),
    ("memory_peak", Type::Int, |_, row| bytes(row.memory.peak)),
    ("memory_limit", Type::Int, |_, row| bytes(row.memory.limit)),
    ("io_bytes", Type::Int, |_, row| row.usage.io.total().into()),
    ("tasks", Type::Int, |_, row| {
        let usage = &row.usage;
        (usage.tasks_running + usage.tasks_queued + usage.tasks_waiting).into()
    }),
];

/// Columns that only the allocator can fill.
const TRACKED: [&str; 2] = ["memory", "memory_peak"];

fn bytes(bytes: Option<u64>) -> Value {
    bytes.map_or(Value::Null, Value::from)
}

/// The table, one line per group, in the order given. Where the allocator is not installed, it says so in words; a
/// view, whose columns have types, has NULL there.
pub fn table<'a>(rows: impl IntoIterator<Item = (GroupId, &'a GroupRow)>) -> Output {
    let names = COLUMNS.map(|(name, _, _)| name);
    let mut output = Output::table("SHOW", names);
    for (id, row) in rows {
        let told = |(cell, name): (Value, &str)| match cell {
            Value::Null if TRACKED.contains(&name) => "not tracked".into(),
            cell => cell,
        };
        output.push(cells(id, row).into_iter().zip(names).map(told).collect());
    }
    output
}

/// The columns as those of a view.
pub(super) fn columns() -> impl Iterator<Item = Column> {
    COLUMNS.iter().map(|&(name, kind, _)| Column { name, kind })
}

/// The cells of one group.
pub(super) fn cells(id: GroupId, row: &GroupRow) -> Vec<Value> {
    COLUMNS.iter().map(|(_, _, cell)| cell(id, row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::stats::{GroupUsage, IoBytes};
    use crate::metrics::memory::GroupMemory;
    use crate::unit::Nanos;

    #[test]
    fn each_number_stands_under_its_name_in_the_unit_that_it_says() {
        let row = GroupRow {
            name: "etl".to_owned(),
            queries_running: 2,
            queries_queued: 3,
            usage: GroupUsage {
                cpu_poll: Nanos::from_millis(1_200),
                cpu_drop: Nanos::from_millis(100),
                cpu_blocking: Nanos::from_millis(200),
                reserved: 4,
                share: 0.25,
                entitled: 0.5,
                lag_ns: -2_500_000,
                io: IoBytes {
                    read: 4_096,
                    written: 512,
                },
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
            "name | id    | running | queued | reserved | cpu_seconds | cpu_share | entitled_share | lag_ms | memory      | memory_peak | memory_limit | io_bytes | tasks",
            "-----+-------+---------+--------+----------+-------------+-----------+----------------+--------+-------------+-------------+--------------+----------+------",
            "etl  | 10001 |       2 |      3 |        4 |         1.5 |      0.25 |            0.5 |   -2.5 |     1048576 |     2097152 |      8388608 |     4608 |   111",
            "ml   | 10002 |       0 |      0 |        0 |           0 |         0 |              0 |      0 | not tracked | not tracked | NULL         |        0 |     0",
            "(2 rows)",
        ];
        assert_eq!(output.to_string().lines().collect::<Vec<_>>(), expected);
    }
}
