//! A WHERE with its names and types settled.
//!
//! Pure. `None` is SQL's unknown.

use super::names::{Names, Typed, settle};
use super::value::compare;
use crate::sql::like::{ESCAPES, like};
use crate::sql::select::{Compare, Predicate, Scalar, SelectError};
use crate::sql::{Span, SqlError, SqlErrorKind, Type, Value};
use std::cmp::Ordering;

/// A value of a row: one of its columns, or the same for all.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Column(usize),
    Constant(Value),
}

impl Operand {
    pub(super) fn of<'a>(&'a self, row: &'a [Value]) -> &'a Value {
        match self {
            Operand::Column(at) => row.get(*at).unwrap_or(&Value::Null),
            Operand::Constant(value) => value,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Condition {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    Compare(Operand, Compare, Operand),
    /// Equal to one of them.
    In(Operand, Vec<Operand>),
    /// The place is the pattern's.
    Like(Operand, Operand, Span),
    IsNull(Operand),
    Truth(Operand),
}

impl Condition {
    /// Whether it is true of the row; None if that is unknown. Parts are looked at from left to right, as far as needed.
    pub(super) fn holds(&self, row: &[Value]) -> Result<Option<bool>, SqlError> {
        Ok(match self {
            Condition::And(parts) => all(parts, row, true)?,
            Condition::Or(parts) => all(parts, row, false)?,
            Condition::Not(inner) => inner.holds(row)?.map(|truth| !truth),
            Condition::Compare(left, operator, right) => {
                order(left.of(row), right.of(row)).map(|ordering| fits(*operator, ordering))
            }
            Condition::In(operand, list) => is_among(operand.of(row), list, row),
            Condition::Like(operand, pattern, at) => match (operand.of(row), pattern.of(row)) {
                (Value::Text(text), Value::Text(pattern)) => {
                    Some(like(pattern, text).map_err(|_| open_escape(*at))?)
                }
                _ => None,
            },
            Condition::IsNull(operand) => Some(matches!(operand.of(row), Value::Null)),
            Condition::Truth(operand) => match operand.of(row) {
                Value::Bool(truth) => Some(*truth),
                _ => None,
            },
        })
    }
}

fn open_escape(at: Span) -> SqlError {
    SqlError::new(SqlErrorKind::OpenEscape, at).with_hint(ESCAPES)
}

/// `neutral` if all parts are; the opposite if one is that; else unknown.
fn all(parts: &[Condition], row: &[Value], neutral: bool) -> Result<Option<bool>, SqlError> {
    let mut known = Some(neutral);
    for part in parts {
        match part.holds(row)? {
            Some(truth) if truth != neutral => return Ok(Some(truth)),
            Some(_) => {}
            None => known = None,
        }
    }
    Ok(known)
}

fn is_among(value: &Value, list: &[Operand], row: &[Value]) -> Option<bool> {
    let mut known = Some(false);
    for one in list {
        match order(value, one.of(row)) {
            Some(Ordering::Equal) => return Some(true),
            None => known = None,
            Some(_) => {}
        }
    }
    known
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    let known = !matches!(a, Value::Null) && !matches!(b, Value::Null);
    known.then(|| compare(a, b))
}

fn fits(operator: Compare, ordering: Ordering) -> bool {
    match operator {
        Compare::Eq => ordering.is_eq(),
        Compare::Ne => ordering.is_ne(),
        Compare::Lt => ordering.is_lt(),
        Compare::Gt => ordering.is_gt(),
        Compare::Le => ordering.is_le(),
        Compare::Ge => ordering.is_ge(),
    }
}

/// Settles the names and types of a predicate.
pub(super) fn bind(
    predicate: &Predicate,
    names: &Names<'_>,
    place: &'static str,
) -> Result<Condition, SqlError> {
    let not = |condition, negated| {
        if negated {
            Condition::Not(Box::new(condition))
        } else {
            condition
        }
    };
    let all = |parts: &[Predicate], place| {
        let parts = parts.iter().map(|part| bind(part, names, place));
        parts.collect::<Result<Vec<_>, _>>()
    };
    match predicate {
        Predicate::And(parts) => Ok(Condition::And(all(parts, "AND")?)),
        Predicate::Or(parts) => Ok(Condition::Or(all(parts, "OR")?)),
        Predicate::Not(inner) => Ok(Condition::Not(Box::new(bind(inner, names, "NOT")?))),
        Predicate::Compare {
            left,
            operator,
            right,
        } => {
            let (left, right) = names.pair(left, operator.sign(), right)?;
            Ok(Condition::Compare(left, *operator, right))
        }
        Predicate::In {
            scalar,
            list,
            negated,
        } => {
            let mut operand = None;
            let mut among = Vec::with_capacity(list.len());
            let is_value = |one: &&Scalar| matches!(one, Scalar::Literal(_));
            let values: Vec<&Scalar> = list.iter().filter(is_value).collect();
            let common = names.common(scalar, &values)?;
            for one in list {
                let common = common.filter(|_| is_value(&one));
                let (left, right) = names.pair_among(scalar, "=", one, common)?;
                operand = Some(left);
                among.push(right);
            }
            let operand = operand.unwrap_or(Operand::Constant(Value::Null));
            Ok(not(Condition::In(operand, among), *negated))
        }
        Predicate::Like {
            scalar,
            pattern,
            negated,
        } => {
            let operand = text(names, scalar, pattern, *negated)?;
            let (at, pattern) = (pattern.span(), text(names, pattern, scalar, *negated)?);
            Ok(not(Condition::Like(operand, pattern, at), *negated))
        }
        Predicate::Between {
            scalar,
            low,
            high,
            negated,
        } => {
            let (at_least, low) = names.pair(scalar, ">=", low)?;
            let (at_most, high) = names.pair(scalar, "<=", high)?;
            let both = Condition::And(vec![
                Condition::Compare(at_least, Compare::Ge, low),
                Condition::Compare(at_most, Compare::Le, high),
            ]);
            Ok(not(both, *negated))
        }
        Predicate::IsNull { scalar, negated } => {
            let operand = settle(names.scalar(scalar)?, None, scalar.span())?;
            Ok(not(Condition::IsNull(operand), *negated))
        }
        Predicate::Truth(scalar) => {
            let typed = names.scalar(scalar)?;
            match &typed {
                Typed::Known(_, Type::Bool) | Typed::Text(_) | Typed::Null => {}
                Typed::Known(_, kind) => {
                    let kind = kind.name();
                    return Err(SqlError::new(
                        SelectError::NotBoolean { place, kind }.into(),
                        scalar.span(),
                    ));
                }
            }
            let operand = settle(typed, Some(Type::Bool), scalar.span())?;
            Ok(Condition::Truth(operand))
        }
    }
}

fn text(
    names: &Names<'_>,
    scalar: &Scalar,
    other: &Scalar,
    negated: bool,
) -> Result<Operand, SqlError> {
    match names.scalar(scalar)? {
        Typed::Known(_, kind) if kind != Type::Text => {
            let operator = if negated { "!~~" } else { "~~" };
            Err(names.no_operator(
                kind.name(),
                operator,
                "unknown",
                scalar.span().to(other.span()),
            ))
        }
        typed => settle(typed, Some(Type::Text), scalar.span()),
    }
}
