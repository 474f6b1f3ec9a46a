//! The condition of a WHERE, from `sqlparser`'s tree.
//!
//! Pure.

use super::ast::{Compare, Predicate};
use super::error::SelectError;
use super::foreign::scalar;
use super::places::{Places, begin};
use crate::sql::error::SqlError;
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// `place`: what asks for a condition, for errors.
pub(super) fn read(
    places: &Places<'_>,
    expr: Expr,
    place: &'static str,
) -> Result<Predicate, SqlError> {
    match expr {
        Expr::Nested(inner) => read(places, *inner, place),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => Ok(Predicate::Not(Box::new(read(places, *expr, "NOT")?))),
        Expr::BinaryOp {
            op: BinaryOperator::And,
            ..
        } => Ok(Predicate::And(chain(places, expr, &BinaryOperator::And)?)),
        Expr::BinaryOp {
            op: BinaryOperator::Or,
            ..
        } => Ok(Predicate::Or(chain(places, expr, &BinaryOperator::Or)?)),
        Expr::BinaryOp { left, op, right } => {
            let operator = match op {
                BinaryOperator::Eq => Compare::Eq,
                BinaryOperator::NotEq => Compare::Ne,
                BinaryOperator::Lt => Compare::Lt,
                BinaryOperator::Gt => Compare::Gt,
                BinaryOperator::LtEq => Compare::Le,
                BinaryOperator::GtEq => Compare::Ge,
                other => {
                    let at = begin(&left);
                    return Err(places.refuse(&format!("the operator {other}"), at));
                }
            };
            Ok(Predicate::Compare {
                left: scalar(places, *left)?,
                operator,
                right: scalar(places, *right)?,
            })
        }
        Expr::InList {
            expr,
            list,
            negated,
        } => Ok(Predicate::In {
            scalar: scalar(places, *expr)?,
            list: list
                .into_iter()
                .map(|one| scalar(places, one))
                .collect::<Result<_, _>>()?,
            negated,
        }),
        Expr::Like {
            negated,
            any: false,
            expr,
            pattern,
            escape_char: None,
        } => Ok(Predicate::Like {
            scalar: scalar(places, *expr)?,
            pattern: scalar(places, *pattern)?,
            negated,
        }),
        Expr::Between {
            expr,
            negated,
            low,
            high,
        } => Ok(Predicate::Between {
            scalar: scalar(places, *expr)?,
            low: scalar(places, *low)?,
            high: scalar(places, *high)?,
            negated,
        }),
        Expr::IsNull(expr) => Ok(Predicate::IsNull {
            scalar: scalar(places, *expr)?,
            negated: false,
        }),
        Expr::IsNotNull(expr) => Ok(Predicate::IsNull {
            scalar: scalar(places, *expr)?,
            negated: true,
        }),
        // Where no level is left, `NOT (..)` reads as a call of that name.
        Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("NOT") => {
            let span = begin(&Expr::Function(call));
            Err(places.refuse("a condition nested that deeply", span))
        }
        Expr::Function(call) => {
            let place = if place == "WHERE" {
                place
            } else {
                "a condition"
            };
            Err(SqlError::new(
                SelectError::MisplacedAggregate { place }.into(),
                places.span(begin(&Expr::Function(call))),
            ))
        }
        other => scalar(places, other).map(Predicate::Truth),
    }
}

/// A chain of one operator, left-deep or nested anyhow, as a flat list.
fn chain(
    places: &Places<'_>,
    expr: Expr,
    operator: &BinaryOperator,
) -> Result<Vec<Predicate>, SqlError> {
    let place = if *operator == BinaryOperator::And {
        "AND"
    } else {
        "OR"
    };
    let mut parts = Vec::new();
    let mut left_to_read = vec![expr];
    while let Some(expr) = left_to_read.pop() {
        match expr {
            Expr::BinaryOp { left, op, right } if op == *operator => {
                left_to_read.push(*right);
                left_to_read.push(*left);
            }
            Expr::Nested(inner) => left_to_read.push(*inner),
            other => parts.push(read(places, other, place)?),
        }
    }
    Ok(parts)
}
