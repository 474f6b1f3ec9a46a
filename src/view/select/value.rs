//! Values compared, and numbers as written.
//!
//! Pure.

use crate::sql::input::{self, Unread};
use crate::sql::{Type, Value};
use std::cmp::Ordering;

/// The order of two values of types that can be compared; NULL equals everything and must be looked at before.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => floats(*a, *b),
        (Value::Int(a), Value::Float(b)) => floats(*a as f64, *b),
        (Value::Float(a), Value::Int(b)) => floats(*a, *b as f64),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        // The plan lets no other pair come here.
        _ => Ordering::Equal,
    }
}

/// NaN is equal to itself and above everything; the zeros are equal.
fn floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    }
}

/// A value as a key of GROUP BY: NULLs are one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(String),
}

impl Key {
    pub(super) fn of(value: &Value) -> Key {
        match value {
            Value::Null => Key::Null,
            Value::Bool(b) => Key::Bool(*b),
            Value::Int(n) => Key::Int(*n),
            Value::Float(x) if x.is_nan() => Key::Float(f64::NAN.to_bits()),
            // -0.0 and 0.0 are one key.
            Value::Float(x) => Key::Float((x + 0.0).to_bits()),
            Value::Text(t) => Key::Text(t.clone()),
        }
    }
}

/// A number as written: whole if it fits 64 bits, else a double, if that has room for it.
pub(super) fn number(digits: &str) -> Result<Value, Unread> {
    match digits.parse::<i64>() {
        Ok(whole) => Ok(Value::Int(whole)),
        Err(_) => input::read(digits, Type::Float),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_above_everything_and_the_zeros_are_one() {
        let nan = Value::Float(f64::NAN);
        assert_eq!(compare(&nan, &nan), Ordering::Equal);
        assert_eq!(
            compare(&nan, &Value::Float(f64::INFINITY)),
            Ordering::Greater
        );
        assert_eq!(compare(&Value::Int(i64::MAX), &nan), Ordering::Less);
        assert_eq!(Key::of(&Value::Float(-0.0)), Key::of(&Value::Float(0.0)));
        assert_eq!(Key::of(&nan), Key::of(&Value::Float(-f64::NAN)));
    }
}
