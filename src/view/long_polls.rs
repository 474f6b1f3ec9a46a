//! `long_polls`: the polls that others had to wait for, and who these were.
//!
//! Pure.

use super::relation::{Cell, Relation, relation};
use crate::exec::stats::LongPoll;
use crate::sql::{Type, Value};

const COLUMNS: [Cell<LongPoll>; 8] = [
    ("group_name", Type::Text, |poll| poll.group.as_str().into()),
    ("query", Type::Int, |poll| poll.query.map(|it| it.0).into()),
    ("spawned_at", Type::Text, |poll| {
        poll.place.map(ToString::to_string).into()
    }),
    ("began_seconds_ago", Type::Float, |poll| {
        poll.ago.as_secs_f64().into()
    }),
    ("seconds", Type::Float, |poll| {
        poll.lasted.as_secs_f64().into()
    }),
    ("is_over", Type::Bool, |poll| poll.over.into()),
    ("was_blocked", Type::Bool, |poll| poll.blocked.into()),
    ("waited", Type::Text, waited),
];

/// One row per poll that is remembered, in the order given. `waited` names the groups that had ready tasks when it was
/// noticed, and how many each.
pub fn table(polls: &[LongPoll]) -> Relation {
    relation("long_polls", &COLUMNS, polls)
}

fn waited(poll: &LongPoll) -> Value {
    let each = |(group, tasks): &(String, usize)| format!("{group} ({tasks})");
    let all: Vec<String> = poll.waited.iter().map(each).collect();
    all.join(", ").into()
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
