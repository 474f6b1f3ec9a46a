//! Casts of literals, as drivers write the values of parameters that they put into the statement: `('17'::int8)`.
//!
//! Pure. A column has its type already.

use super::ast::{Literal, Scalar};
use super::error::SelectError;
use super::foreign::{Read, scalar};
use super::places::{Places, begin};
use crate::sql::error::SqlError;
use crate::sql::span::Spanned;
use sqlparser::ast::{DataType, Expr};
use std::num::IntErrorKind;

/// The types that a view's columns have, as PostgreSQL names them in errors.
#[derive(Clone, Copy)]
enum Kind {
    Integer(&'static str, i64, i64),
    Float,
    Text,
    Boolean,
}

impl Kind {
    /// Nothing that cuts or pads a text, nor what rounds to so many digits.
    fn of(data_type: &DataType) -> Option<Kind> {
        Some(match data_type {
            DataType::SmallInt(None) | DataType::Int2(None) => {
                Kind::Integer("smallint", i16::MIN.into(), i16::MAX.into())
            }
            DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => {
                Kind::Integer("integer", i32::MIN.into(), i32::MAX.into())
            }
            DataType::BigInt(None) | DataType::Int8(None) => {
                Kind::Integer("bigint", i64::MIN, i64::MAX)
            }
            DataType::Float8 | DataType::DoublePrecision => Kind::Float,
            DataType::Text | DataType::Varchar(None) | DataType::CharacterVarying(None) => {
                Kind::Text
            }
            DataType::Boolean | DataType::Bool => Kind::Boolean,
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Kind::Integer(name, ..) => name,
            Kind::Float => "double precision",
            Kind::Text => "text",
            Kind::Boolean => "boolean",
        }
    }

    /// The literal of this type that a text stands for.
    fn read(self, text: String) -> Result<Literal, SelectError> {
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
        let found = match self {
            Kind::Integer(_, least, most) => match trimmed.parse::<i64>() {
                Ok(number) if (least..=most).contains(&number) => {
                    Some(Literal::Number(number.to_string()))
                }
                Err(error) if !is_beyond(error.kind()) => None,
                _ => {
                    let what = format!("value {text:?} for type {}", self.name());
                    return Err(SelectError::OutOfRange { what });
                }
            },
            Kind::Float => trimmed.parse::<f64>().ok().map(|number| {
                if number.is_finite() {
                    Literal::Number(number.to_string())
                } else {
                    // There is no such number in SQL; a text is read as one beside a column of this type.
                    Literal::Text(trimmed.to_owned())
                }
            }),
            Kind::Text => Some(Literal::Text(text.clone())),
            Kind::Boolean => match trimmed.to_ascii_lowercase().as_str() {
                "t" | "true" | "yes" | "on" | "1" => Some(Literal::Bool(true)),
                "f" | "false" | "no" | "off" | "0" => Some(Literal::Bool(false)),
                _ => None,
            },
        };
        let kind = self.name();
        found.ok_or(SelectError::InvalidText { kind, text })
    }
}

/// Whether an expression is a cast, in parentheses or not.
pub(super) fn is_cast(expr: &Expr) -> bool {
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    matches!(expr, Expr::Cast { .. })
}

/// `expr::data_type` or `CAST(expr AS data_type)`. It does not recurse: a cast is of a value or a signed number.
pub(super) fn cast(places: &Places<'_>, expr: Expr, data_type: &DataType) -> Read<Scalar> {
    let at = begin(&expr);
    let Some(kind) = Kind::of(data_type) else {
        return Err(places.refuse("a cast to this type", at));
    };
    if is_cast(&expr) {
        return Err(places.refuse("a cast of a cast", at));
    }
    let Scalar::Literal(literal) = scalar(places, expr)? else {
        return Err(places.refuse("a cast of anything but a literal", at));
    };
    let text = match (literal.value, kind) {
        (Literal::Null, _) => {
            return Ok(Scalar::Literal(Spanned::new(Literal::Null, literal.span)));
        }
        (Literal::Bool(truth), Kind::Boolean | Kind::Text) => truth.to_string(),
        (Literal::Number(digits), Kind::Integer(..) | Kind::Float | Kind::Text) => digits,
        (Literal::Text(text), _) => text,
        _ => return Err(places.refuse("this cast", at)),
    };
    match kind.read(text) {
        Ok(value) => Ok(Scalar::Literal(Spanned::new(value, literal.span))),
        Err(error) => Err(SqlError::new(error.into(), literal.span)),
    }
}

/// Whether it is a number, but larger than any of the kind.
fn is_beyond(error: &IntErrorKind) -> bool {
    matches!(error, IntErrorKind::PosOverflow | IntErrorKind::NegOverflow)
}
