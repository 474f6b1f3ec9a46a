//! EXPLAIN CLASSIFY: an explanation as rows, one per classifier.
//!
//! Pure.

use crate::classify::explanation::{Candidate, Decider, Explanation, Term, Verdict};
use crate::sql::{Notice, NoticeKind, Output, Type, Value};

/// Columns before those of the conditions.
const FIRST: [(&str, Type); 5] = [
    ("place", Type::Int),
    ("group_name", Type::Text),
    ("classifier_id", Type::Int),
    ("verdict", Type::Text),
    ("weight", Type::Float),
];
/// The conditions' keys, and the column of each.
const TERMS: [(&str, &str); 7] = [
    ("user", "user_name"),
    ("role", "role"),
    ("query_type", "query_type"),
    ("db", "db"),
    ("source_ip", "source_ip"),
    ("plan_cpu_cost_range", "plan_cpu_cost_range"),
    ("plan_mem_cost_range", "plan_mem_cost_range"),
];

/// The group that the request goes to stands first, the others in the order in which they would come, `default_wg`
/// last of those that match. A condition that a classifier does not have is NULL.
pub fn table(explanation: &Explanation, default_group: &str) -> Output {
    let columns = || {
        let terms = TERMS.map(|(_, column)| (column, Type::Text));
        FIRST.into_iter().chain(terms)
    };
    let mut output = Output::table("EXPLAIN", columns().map(|(name, _)| name))
        .with_types(columns().map(|(_, kind)| kind));
    let mut place = 0_u64;
    let mut next = || {
        place += 1;
        place
    };
    if explanation.decided_by == Decider::Request {
        let why = "chosen: the request names it";
        output.push(group(next(), &explanation.group_name, why));
    }
    let matches = |one: &&Candidate| one.verdict != Verdict::NotMet;
    for one in explanation.candidates.iter().filter(matches) {
        output.push(row(Some(next()), one));
    }
    let verdict = match explanation.decided_by {
        Decider::Nobody => Some("chosen: no classifier matches"),
        Decider::Classifier(_) => Some("lost: a classifier matches"),
        _ => None,
    };
    if let Some(verdict) = verdict {
        output.push(group(next(), default_group, verdict));
    }
    for one in explanation.candidates.iter().filter(|one| !matches(one)) {
        output.push(row(None, one));
    }
    if explanation.unlisted > 0 {
        output.notice(Notice {
            kind: NoticeKind::Shortened,
            groups: Vec::new(),
            property: None,
            message: format!(
                "{} more classifiers do not match; those that come nearest are shown",
                explanation.unlisted
            ),
        });
    }
    output
}

fn group(place: u64, name: &str, verdict: &str) -> Vec<Value> {
    vec![place.into(), name.into(), Value::Null, verdict.into()]
}

fn row(place: Option<u64>, one: &Candidate) -> Vec<Value> {
    let mut cells = vec![
        place.into(),
        one.group_name.as_str().into(),
        one.classifier.id.0.into(),
        one.to_string().into(),
        rounded(one.weight()).into(),
    ];
    cells.extend(TERMS.iter().map(|(key, _)| {
        let term = one.terms.iter().find(|term| term.key == *key);
        term.map(told).into()
    }));
    cells
}

/// `bi: met, +1`, or `bi: not met`.
fn told(term: &Term) -> String {
    match term.met {
        true => format!("{}: met, +{}", term.asks, rounded(term.weight)),
        false => format!("{}: not met", term.asks),
    }
}

/// Six digits show every weight exactly, and hide what the sum of floats adds.
fn rounded(weight: f64) -> f64 {
    (weight * 1e6).round() / 1e6
}
