//! The value of a parameter as a literal.
//!
//! Pure.

use crate::server::fault::Fault;
use crate::sql::Value;
use crate::sql::input::{Kind, Unread};

/// A value as the client sent it, as a literal. Types have the numbers of PostgreSQL's `pg_type`.
pub(super) fn literal(value: Option<&[u8]>, oid: u32, binary: bool) -> Result<String, Fault> {
    let Some(bytes) = value else {
        return Ok("NULL".to_owned());
    };
    let bad = |what: &str| {
        Fault::error(
            "22P02",
            format!("invalid value for a parameter of type {what}"),
        )
    };
    fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    let whole = |parsed: Option<i64>, what| parsed.map(|n| n.to_string()).ok_or_else(|| bad(what));
    let text = || {
        std::str::from_utf8(bytes).map_err(|_| Fault::error("22021", "a parameter is not UTF-8"))
    };
    let beyond = |what: &str| {
        let message = format!("the value of a parameter is out of range for type {what}");
        Fault::error("22003", message)
    };
    let read_as = |kind: Kind, what| {
        kind.read(text()?).map_err(|why| match why {
            Unread::Form => bad(what),
            Unread::Range => beyond(what),
        })
    };
    let read = |kind: Kind| read_as(kind, kind.name()).map(|value| value.to_string());
    let float = |parsed: Option<f64>, what| parsed.map(real).ok_or_else(|| bad(what));
    match (oid, binary) {
        (16, true) => match bytes {
            [byte] => Ok(if *byte == 0 { "false" } else { "true" }.to_owned()),
            _ => Err(bad(Kind::Boolean.name())),
        },
        (16, false) => read(Kind::Boolean),
        (20, true) => whole(array(bytes).map(i64::from_be_bytes), Kind::Bigint.name()),
        (21, true) => whole(
            array(bytes).map(|it| i16::from_be_bytes(it).into()),
            Kind::Smallint.name(),
        ),
        (23, true) => whole(
            array(bytes).map(|it| i32::from_be_bytes(it).into()),
            Kind::Integer.name(),
        ),
        (26, true) => whole(array(bytes).map(|it| u32::from_be_bytes(it).into()), "oid"),
        (20, false) => read(Kind::Bigint),
        (21, false) => read(Kind::Smallint),
        (23, false) => read(Kind::Integer),
        (26, false) => match read_as(Kind::Bigint, "oid")? {
            Value::Int(n) if u32::try_from(n).is_err() => Err(beyond("oid")),
            value => Ok(value.to_string()),
        },
        (701, true) => float(array(bytes).map(f64::from_be_bytes), Kind::Double.name()),
        (700, true) => float(array(bytes).map(|it| f32::from_be_bytes(it).into()), "real"),
        (701 | 1700, false) => match read_as(Kind::Double, Kind::Double.name())? {
            Value::Float(x) => Ok(real(x)),
            other => Ok(other.to_string()),
        },
        (700, false) => match read_as(Kind::Double, "real")? {
            Value::Float(x) => {
                let narrow = x as f32;
                let is_lost =
                    narrow.is_infinite() != x.is_infinite() || (narrow == 0.0) != (x == 0.0);
                if is_lost {
                    Err(beyond("real"))
                } else {
                    Ok(real(narrow.into()))
                }
            }
            other => Ok(other.to_string()),
        },
        // text, varchar, bpchar, name, unknown
        (25 | 1043 | 1042 | 19 | 705 | 0, _) => Ok(quoted(text()?)),
        (other, _) => {
            let message =
                format!("a parameter of the type with the number {other} is not supported");
            Err(Fault::error("0A000", message).hint(
                "text, varchar, smallint, integer, bigint, real, double precision and boolean are",
            ))
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Digits that are read as the same number; what has no digits is left to the comparison with a text.
fn real(x: f64) -> String {
    match x {
        x if x.is_nan() => "'NaN'".to_owned(),
        x if x.is_infinite() => quoted(if x > 0.0 { "Infinity" } else { "-Infinity" }),
        x => format!("{x:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_text_and_in_binary() {
        let read = |bytes: &[u8], oid, binary| {
            literal(Some(bytes), oid, binary).map_err(|fault| fault.code)
        };
        assert_eq!(read(&(-3_i64).to_be_bytes(), 20, true).unwrap(), "-3");
        assert_eq!(read(&7_i16.to_be_bytes(), 21, true).unwrap(), "7");
        assert_eq!(read(&0.5_f64.to_be_bytes(), 701, true).unwrap(), "0.5");
        assert_eq!(
            read(&f64::INFINITY.to_be_bytes(), 701, true).unwrap(),
            "'Infinity'"
        );
        for (truth, expected) in [
            ("t", "true"),
            ("\u{b}YE ", "true"),
            ("of", "false"),
            ("fal", "false"),
        ] {
            assert_eq!(read(truth.as_bytes(), 16, false).unwrap(), expected);
        }
        assert_eq!(read(b"o", 16, false), Err("22P02"));
        assert_eq!(read(b"1e400", 701, false), Err("22003"));
        assert_eq!(read(b"99999999999999999999", 20, false), Err("22003"));
        for (text, oid, expected) in [
            ("32767", 21, Ok("32767")),
            ("32768", 21, Err("22003")),
            ("-32769", 21, Err("22003")),
            (" -2147483648 ", 23, Ok("-2147483648")),
            ("2147483648", 23, Err("22003")),
            ("4294967295", 26, Ok("4294967295")),
            ("4294967296", 26, Err("22003")),
            ("0.1", 700, Ok("0.10000000149011612")),
            ("1e39", 700, Err("22003")),
            ("1e-46", 700, Err("22003")),
            ("-inf", 700, Ok("'-Infinity'")),
        ] {
            let found = read(text.as_bytes(), oid, false);
            assert_eq!(found.as_deref(), expected.as_deref(), "{text} as {oid}");
        }
        let fault = literal(Some(b"x"), 21, false).unwrap_err();
        assert!(fault.message.ends_with("smallint"), "{}", fault.message);
        assert_eq!(read(&[1], 16, true).unwrap(), "true");
        assert_eq!(read(b"x", 20, false), Err("22P02"));
        assert_eq!(read(b"123", 20, true), Err("22P02"));
        assert_eq!(read(b"\xff", 25, false), Err("22021"));
        assert_eq!(read(b"x", 1184, false), Err("0A000"));
        assert_eq!(literal(None, 20, false).unwrap(), "NULL");
    }
}
