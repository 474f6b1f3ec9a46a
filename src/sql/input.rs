//! Texts read as values, as PostgreSQL's types read them.
//!
//! Pure.

use super::output::{Type, Value};
use std::num::IntErrorKind;

/// Why a text is no value of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It does not read as one.
    Form,
    /// It is a number that the type has no room for.
    Range,
}

/// A type of PostgreSQL's that values are cast to. Columns of views have fewer, and parameters may be of more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Smallint,
    Integer,
    Bigint,
    Double,
    Text,
    Varchar,
    Boolean,
}

impl Kind {
    /// As errors call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Smallint => "smallint",
            Kind::Integer => "integer",
            Kind::Bigint => "bigint",
            Kind::Double => "double precision",
            Kind::Text => "text",
            Kind::Varchar => "character varying",
            Kind::Boolean => "boolean",
        }
    }

    /// The type that a column of a view with its values has.
    pub(crate) const fn in_view(self) -> Type {
        match self {
            Kind::Smallint | Kind::Integer | Kind::Bigint => Type::Int,
            Kind::Double => Type::Float,
            Kind::Text | Kind::Varchar => Type::Text,
            Kind::Boolean => Type::Bool,
        }
    }

    /// The value of this type that a text stands for.
    pub(crate) fn read(self, text: &str) -> Result<Value, Unread> {
        let value = read(text, self.in_view())?;
        let fits = match (&value, self) {
            (Value::Int(n), Kind::Smallint) => i16::try_from(*n).is_ok(),
            (Value::Int(n), Kind::Integer) => i32::try_from(*n).is_ok(),
            _ => true,
        };
        if fits { Ok(value) } else { Err(Unread::Range) }
    }
}

/// The value that a text stands for. Blanks around it count in a text alone.
pub(crate) fn read(text: &str, kind: Type) -> Result<Value, Unread> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    match kind {
        Type::Text => Ok(Value::Text(text.to_owned())),
        Type::Int => int(trimmed).map(Value::Int),
        Type::Float => float(trimmed).map(Value::Float),
        Type::Bool => match truth(&trimmed.to_ascii_lowercase()) {
            Some(truth) => Ok(Value::Bool(truth)),
            None => Err(Unread::Form),
        },
    }
}

fn int(text: &str) -> Result<i64, Unread> {
    text.parse::<i64>().map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => Unread::Range,
        _ => Unread::Form,
    })
}

fn float(text: &str) -> Result<f64, Unread> {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let named = ["nan", "inf", "infinity"]
        .iter()
        .any(|name| bare.eq_ignore_ascii_case(name));
    let number: f64 = text.parse().map_err(|_| Unread::Form)?;
    // Only the names stand for infinity; and what is not zero does not become it.
    let digits = bare.split(['e', 'E']).next().unwrap_or_default();
    let lost = number == 0.0 && digits.contains(|c: char| c.is_ascii_digit() && c != '0');
    if named || (number.is_finite() && !lost) {
        Ok(number)
    } else {
        Err(Unread::Range)
    }
}

fn truth(text: &str) -> Option<bool> {
    let starts = |word: &str, least: usize| text.len() >= least && word.starts_with(text);
    if starts("true", 1) || starts("yes", 1) || text == "on" || text == "1" {
        Some(true)
    } else if starts("false", 1) || starts("no", 1) || starts("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_values_as_in_postgresql() {
        for (text, kind, value) in [
            (" 42 ", Type::Int, Ok(Value::Int(42))),
            ("\x0b+7\n", Type::Int, Ok(Value::Int(7))),
            ("4.2", Type::Int, Err(Unread::Form)),
            ("", Type::Int, Err(Unread::Form)),
            ("-9223372036854775809", Type::Int, Err(Unread::Range)),
            ("99999999999999999999x", Type::Int, Err(Unread::Range)),
            ("1e3", Type::Float, Ok(Value::Float(1000.0))),
            (
                "-Infinity",
                Type::Float,
                Ok(Value::Float(f64::NEG_INFINITY)),
            ),
            ("1e999", Type::Float, Err(Unread::Range)),
            ("-1e-999", Type::Float, Err(Unread::Range)),
            ("0e-999", Type::Float, Ok(Value::Float(0.0))),
            ("infinit", Type::Float, Err(Unread::Form)),
            ("--inf", Type::Float, Err(Unread::Form)),
            ("T", Type::Bool, Ok(Value::Bool(true))),
            ("of", Type::Bool, Ok(Value::Bool(false))),
            ("o", Type::Bool, Err(Unread::Form)),
            ("2", Type::Bool, Err(Unread::Form)),
            ("", Type::Bool, Err(Unread::Form)),
            (" a ", Type::Text, Ok(Value::Text(" a ".into()))),
        ] {
            assert_eq!(read(text, kind), value, "{text:?} as {}", kind.name());
        }
        for (text, kind, value) in [
            ("-32768", Kind::Smallint, Ok(Value::Int(-32768))),
            ("32768", Kind::Smallint, Err(Unread::Range)),
            ("2147483647", Kind::Integer, Ok(Value::Int(2_147_483_647))),
            ("-2147483649", Kind::Integer, Err(Unread::Range)),
            ("2147483648", Kind::Bigint, Ok(Value::Int(2_147_483_648))),
            ("x", Kind::Varchar, Ok(Value::Text("x".into()))),
        ] {
            assert_eq!(kind.read(text), value, "{text:?} as {}", kind.name());
        }
        assert!(matches!(read("nan", Type::Float), Ok(Value::Float(x)) if x.is_nan()));
    }
}
