//! Casts of literals, as drivers write the values of parameters that they put into the statement: `('17'::int8)`.
//!
//! Pure. A column has its type already.

use super::ast::{Literal, Scalar};
use super::error::SelectError;
use super::foreign::{Read, scalar};
use super::places::{Places, begin};
use crate::sql::error::SqlError;
use crate::sql::input::{Kind, Unread};
use crate::sql::output::{Type, Value};
use crate::sql::span::Spanned;
use sqlparser::ast::{DataType, Expr};

/// For refusals.
const TYPES: &str = "a text or number is cast to smallint, integer, bigint, double precision, text, varchar or boolean, \
     as in '12'::bigint";

/// Nothing that cuts or pads a text, nor what rounds to so many digits.
fn kind_of(data_type: &DataType) -> Option<Kind> {
    Some(match data_type {
        DataType::SmallInt(None) | DataType::Int2(None) => Kind::Smallint,
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => Kind::Integer,
        DataType::BigInt(None) | DataType::Int8(None) => Kind::Bigint,
        DataType::Float8 | DataType::DoublePrecision => Kind::Double,
        DataType::Text => Kind::Text,
        DataType::Varchar(None) | DataType::CharacterVarying(None) => Kind::Varchar,
        DataType::Boolean | DataType::Bool => Kind::Boolean,
        _ => return None,
    })
}

/// NULL of a type; of text it is like any other, as a text is.
fn null(kind: Kind) -> Literal {
    match kind.in_view() {
        Type::Text => Literal::Null,
        other => Literal::NullOf(other),
    }
}

/// The literal of a type that a text stands for.
fn read(kind: Kind, text: &str) -> Result<Literal, Unread> {
    Ok(match kind.read(text)? {
        Value::Int(number) => Literal::Number(number.to_string()),
        Value::Float(number) => Literal::Float(format!("{number:?}")),
        Value::Bool(truth) => Literal::Bool(truth),
        Value::Text(text) => Literal::Text(text),
        Value::Null => null(kind),
    })
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
    let Some(kind) = kind_of(data_type) else {
        return Err(places.refuse("a cast to this type", at).with_hint(TYPES));
    };
    if is_cast(&expr) {
        return Err(places.refuse("a cast of a cast", at));
    }
    let Scalar::Literal(literal) = scalar(places, expr)? else {
        return Err(places.refuse("a cast of anything but a literal", at));
    };
    let text = match (literal.value, kind.in_view()) {
        (Literal::Null, _) => {
            return Ok(Scalar::Literal(Spanned::new(null(kind), literal.span)));
        }
        (Literal::Bool(truth), Type::Bool | Type::Text) => truth.to_string(),
        (Literal::Number(digits), Type::Float) if digits.parse::<f64>().is_ok() => digits,
        (Literal::Number(digits), Type::Int | Type::Text) if is_plain(&digits) => digits,
        (Literal::Number(_), Type::Int | Type::Float | Type::Text) => {
            return Err(places.refuse("a cast of a number that is not plain digits", at));
        }
        (Literal::Text(text), _) => text,
        _ => return Err(places.refuse("this cast", at)),
    };
    match read(kind, &text) {
        Ok(value) => Ok(Scalar::Literal(Spanned::new(value, literal.span))),
        Err(why) => {
            let error = SelectError::unread(why, kind.name(), text);
            Err(SqlError::new(error.into(), literal.span).with_hint(TYPES))
        }
    }
}

/// Whether PostgreSQL would print the number as it is written. It rounds a fraction for an integer; we refuse it.
fn is_plain(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    number == "0" || (!digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
