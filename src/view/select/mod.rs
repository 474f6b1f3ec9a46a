//! SELECT over a view, as PostgreSQL would answer it over a table of the same rows.
//!
//! Pure. Names and types are settled before the first row is looked at, so that a mistake is found in an empty view
//! too. The semantics are PostgreSQL's, compared with the real one by `tests/select_postgres.rs`: three-valued logic,
//! NULL above everything in ORDER BY, NaN above every number and equal to itself, texts compared by code point
//! (`COLLATE "C"`).

mod condition;
mod fold;
mod names;
mod plan;
mod value;

use super::relation::Relation;
use crate::sql::select::{OrderBy, Select};
use crate::sql::{Output, SqlError, Value};
use plan::{Computed, Plan};
use std::cmp::Ordering;
use std::collections::HashMap;

/// The answer to `select` over `relation`, whose name is the one in its FROM.
///
/// # Errors
///
/// With its place: a column that does not exist, types that do not fit, aggregates where they may not be, a sum that
/// does not fit into 64 bits, a LIKE pattern that ends in its escape.
pub fn answer(select: &Select, relation: &Relation) -> Result<Output, SqlError> {
    let plan = Plan::new(select, relation)?;
    let mut kept: Vec<&[Value]> = Vec::new();
    for row in &relation.rows {
        let holds = match &plan.filter {
            Some(filter) => filter.holds(row)? == Some(true),
            None => true,
        };
        if holds {
            kept.push(row);
        }
    }
    let mut rows = if plan.grouped {
        groups(&plan, &kept)?
    } else {
        let computed = kept.iter().map(|row| plan.row(&[row]));
        computed.collect::<Result<Vec<_>, _>>()?
    };
    rows.sort_by(|a, b| by_keys(&select.order_by, &a.keys, &b.keys));
    let skip = usize::try_from(select.offset).unwrap_or(usize::MAX);
    let most = select.limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let mut output = Output::table("SELECT", plan.names).with_types(plan.types);
    for row in rows.into_iter().skip(skip).take(most) {
        output.push(row.values);
    }
    Ok(output)
}

/// One row per distinct key, in the order in which the keys came; without keys one row, even over nothing.
fn groups(plan: &Plan, kept: &[&[Value]]) -> Result<Vec<Computed>, SqlError> {
    let mut order: Vec<Vec<&[Value]>> = Vec::new();
    if plan.keys.is_empty() {
        order.push(kept.to_vec());
    } else {
        let mut found: HashMap<Vec<value::Key>, usize> = HashMap::new();
        for row in kept {
            let key: Vec<value::Key> = plan
                .keys
                .iter()
                .map(|&column| value::Key::of(row.get(column).unwrap_or(&Value::Null)))
                .collect();
            let at = *found.entry(key).or_insert_with(|| {
                order.push(Vec::new());
                order.len() - 1
            });
            if let Some(group) = order.get_mut(at) {
                group.push(row);
            }
        }
    }
    order.iter().map(|rows| plan.row(rows)).collect()
}

fn by_keys(order: &[OrderBy], a: &[Value], b: &[Value]) -> Ordering {
    for (key, (a, b)) in order.iter().zip(a.iter().zip(b)) {
        let nulls_first = key.nulls_first.unwrap_or(key.descending);
        let ordering = match (a, b) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) if nulls_first => Ordering::Less,
            (Value::Null, _) => Ordering::Greater,
            (_, Value::Null) if nulls_first => Ordering::Greater,
            (_, Value::Null) => Ordering::Less,
            (a, b) if key.descending => value::compare(b, a),
            (a, b) => value::compare(a, b),
        };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}
