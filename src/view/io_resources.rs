//! `io_resources`: shared capacities, and what each group has of them.
//!
//! Pure.

use super::relation::{Cell, Relation, relation};
use crate::sql::Type;

/// A group's streams at one capacity; or a capacity at which nobody has a stream open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRow {
    /// The capacity's name.
    pub resource: String,
    /// What it passes; `None` = as much as comes.
    pub bytes_per_second: Option<u64>,
    /// Bytes that have passed so far, of all groups.
    pub bytes_total: u64,
    /// The group, its weight, the bytes of its streams, and how many operations of it wait.
    pub group: Option<(String, u64, u64, u64)>,
}

const COLUMNS: [Cell<ResourceRow>; 7] = [
    ("resource", Type::Text, |row| row.resource.as_str().into()),
    ("bytes_per_second", Type::Int, |row| {
        row.bytes_per_second.into()
    }),
    ("bytes_total", Type::Int, |row| row.bytes_total.into()),
    ("group_name", Type::Text, |row| {
        row.group.as_ref().map(|group| group.0.as_str()).into()
    }),
    ("io_weight", Type::Int, |row| {
        row.group.as_ref().map(|group| group.1).into()
    }),
    ("bytes", Type::Int, |row| {
        row.group.as_ref().map(|group| group.2).into()
    }),
    ("waiting", Type::Int, |row| {
        row.group.as_ref().map(|group| group.3).into()
    }),
];

/// One row per capacity and group, in the order given.
pub fn table(rows: &[ResourceRow]) -> Relation {
    relation("io_resources", &COLUMNS, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Value;

    #[test]
    fn a_capacity_without_streams_has_a_row_without_a_group() {
        let idle = ResourceRow {
            resource: "disk".into(),
            bytes_per_second: Some(1_000),
            bytes_total: 70,
            group: None,
        };
        let used = ResourceRow {
            bytes_per_second: None,
            group: Some(("etl".into(), 4, 60, 2)),
            ..idle.clone()
        };
        let relation = table(&[idle, used]);
        let null = || Value::Null;
        let rows: [Vec<Value>; 2] = [
            vec![
                "disk".into(),
                1_000u64.into(),
                70u64.into(),
                null(),
                null(),
                null(),
                null(),
            ],
            vec![
                "disk".into(),
                null(),
                70u64.into(),
                "etl".into(),
                4u64.into(),
                60u64.into(),
                2u64.into(),
            ],
        ];
        assert_eq!(relation.rows, rows);
        assert_eq!(relation.columns.len(), relation.rows[0].len());
    }
}
