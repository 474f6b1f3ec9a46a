//! `long_polls`: the polls that others had to wait for, and who these were.
//!
//! Pure.

use super::relation::{Column, Relation};
use crate::exec::stats::LongPoll;
use crate::sql::{Type, Value};

/// One row per poll that is remembered, in the order given. `waited` names the groups that had ready tasks when it was
/// noticed, and how many each.
pub fn table(polls: &[LongPoll]) -> Relation {
    let columns = [
        ("group_name", Type::Text),
        ("query", Type::Int),
        ("spawned_at", Type::Text),
        ("began_seconds_ago", Type::Float),
        ("seconds", Type::Float),
        ("is_over", Type::Bool),
        ("was_blocked", Type::Bool),
        ("waited", Type::Text),
    ];
    let column = |(name, kind)| Column { name, kind };
    Relation {
        name: "long_polls",
        columns: columns.into_iter().map(column).collect(),
        rows: polls.iter().map(cells).collect(),
    }
}

fn cells(poll: &LongPoll) -> Vec<Value> {
    let waited = poll.waited.iter();
    let waited: Vec<String> = waited
        .map(|(group, tasks)| format!("{group} ({tasks})"))
        .collect();
    vec![
        poll.group.as_str().into(),
        poll.query.map(|query| query.0).into(),
        poll.place
            .map(|place| format!("{}:{}", place.file(), place.line()))
            .into(),
        poll.ago.as_secs_f64().into(),
        poll.lasted.as_secs_f64().into(),
        poll.over.into(),
        poll.blocked.into(),
        waited.join(", ").into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{Nanos, QueryId};

    #[test]
    fn a_row_says_whose_poll_it_was_and_who_waited() {
        let poll = LongPoll {
            group: "etl".into(),
            query: Some(QueryId(7)),
            place: None,
            ago: Nanos::from_millis(250),
            lasted: Nanos::from_millis(125),
            over: true,
            blocked: false,
            waited: vec![("bi".into(), 3), ("web".into(), 1)],
        };
        let relation = table(&[poll]);
        let expected: Vec<Value> = vec![
            "etl".into(),
            7u64.into(),
            Value::Null,
            0.25.into(),
            0.125.into(),
            true.into(),
            false.into(),
            "bi (3), web (1)".into(),
        ];
        assert_eq!(relation.rows, [expected]);
        assert_eq!(relation.columns.len(), relation.rows[0].len());
    }
}
