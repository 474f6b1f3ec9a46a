//! A statement's result on the wire: typed columns, rows in text or binary, a tag.
//!
//! Pure.

use super::fault::{Fault, Severity};
use crate::sql::{NoticeKind, Output, Type, Value};
use bytes::{BufMut, BytesMut};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};
use pgwire::messages::response::CommandComplete;

/// A column's type, by PostgreSQL's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float8,
    Text,
    /// Of a function that is called for what it does: an empty text.
    Void,
}

impl Kind {
    pub(super) fn oid(self) -> u32 {
        match self {
            Kind::Bool => 16,
            Kind::Int2 => 21,
            Kind::Int4 => 23,
            Kind::Int8 => 20,
            Kind::Float8 => 701,
            Kind::Text => 25,
            Kind::Void => 2278,
        }
    }

    /// Bytes of a value; -1 if they vary.
    fn size(self) -> i16 {
        match self {
            Kind::Bool => 1,
            Kind::Int2 => 2,
            Kind::Int4 | Kind::Void => 4,
            Kind::Int8 | Kind::Float8 => 8,
            Kind::Text => -1,
        }
    }
}

impl From<Type> for Kind {
    fn from(kind: Type) -> Kind {
        match kind {
            Type::Bool => Kind::Bool,
            Type::Int => Kind::Int8,
            Type::Float => Kind::Float8,
            Type::Text => Kind::Text,
        }
    }
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Kind,
}

/// Which format a client wants its columns in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Formats(Vec<u16>);

impl Formats {
    /// As Bind lists them: none is all text, one is for all, else one per column. None if it is neither.
    pub(super) fn read(codes: Vec<u16>) -> Option<Formats> {
        codes
            .iter()
            .all(|&code| code <= 1)
            .then_some(Formats(codes))
    }

    pub(super) fn fit(&self, columns: usize) -> bool {
        self.0.len() <= 1 || self.0.len() == columns
    }

    /// Bytes that it keeps on the heap.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.0.as_slice())
    }

    pub(super) fn is_binary(&self, column: usize) -> bool {
        match self.0.as_slice() {
            [] => false,
            [all] => *all == 1,
            each => each.get(column) == Some(&1),
        }
    }
}

/// What a statement answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// None if the statement has no rows, which is not the same as none of them.
    pub(super) fields: Option<Vec<Field>>,
    pub(super) rows: Vec<Vec<Value>>,
    pub(super) tag: String,
    pub(super) remarks: Vec<Fault>,
}

impl Answer {
    /// Done, without rows.
    pub(super) fn done(tag: impl Into<String>) -> Answer {
        Answer {
            tag: tag.into(),
            ..Answer::default()
        }
    }

    /// A table.
    pub(super) fn table(tag: &str, fields: Vec<Field>, rows: Vec<Vec<Value>>) -> Answer {
        Answer {
            fields: Some(fields),
            rows,
            tag: tag.to_owned(),
            remarks: Vec::new(),
        }
    }

    /// What the governor answered.
    pub(super) fn of(output: Output) -> Answer {
        let fields = output.columns().iter().zip(output.types());
        let fields: Vec<Field> = fields
            .map(|(name, kind)| Field {
                name: name.clone(),
                kind: kind.into(),
            })
            .collect();
        let remarks = output.notices().iter().map(|notice| {
            let (severity, code) = match notice.kind {
                NoticeKind::Skipped => (Severity::Notice, "00000"),
                _ => (Severity::Warning, "01000"),
            };
            Fault::new(severity, code, notice.message.clone())
        });
        Answer {
            remarks: remarks.collect(),
            tag: output.tag().to_owned(),
            rows: output.rows().to_vec(),
            fields: (!fields.is_empty()).then_some(fields),
        }
    }

    /// The tag as clients read it: SELECT counts its rows.
    pub(super) fn complete(&self, sent: usize) -> PgWireBackendMessage {
        let tag = match self.tag.as_str() {
            "SELECT" => format!("SELECT {sent}"),
            other => other.to_owned(),
        };
        PgWireBackendMessage::CommandComplete(CommandComplete::new(tag))
    }
}

/// The description of rows that will come.
pub(super) fn describe(fields: &[Field], formats: &Formats) -> PgWireBackendMessage {
    let field = |(at, field): (usize, &Field)| {
        FieldDescription::new(
            field.name.clone(),
            0,
            0,
            field.kind.oid(),
            field.kind.size(),
            -1,
            i16::from(formats.is_binary(at)),
        )
    };
    let fields = fields.iter().enumerate().map(field).collect();
    PgWireBackendMessage::RowDescription(RowDescription::new(fields))
}

/// One row. A value is given in the type that its column was described with.
pub(super) fn row(values: &[Value], fields: &[Field], formats: &Formats) -> PgWireBackendMessage {
    let mut data = BytesMut::new();
    for (at, (value, field)) in values.iter().zip(fields).enumerate() {
        let begin = data.len();
        data.put_i32(-1);
        let is_null = !put(&mut data, value, field.kind, formats.is_binary(at));
        if is_null {
            continue;
        }
        let length = i32::try_from(data.len() - begin - 4).unwrap_or(i32::MAX);
        if let Some(place) = data.get_mut(begin..begin + 4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }
    let count = i16::try_from(fields.len()).unwrap_or(i16::MAX);
    PgWireBackendMessage::DataRow(DataRow::new(data, count))
}

/// Writes a value; false for NULL, and for what is not of the column's type.
fn put(data: &mut BytesMut, value: &Value, kind: Kind, binary: bool) -> bool {
    if !binary || matches!(kind, Kind::Text | Kind::Void) {
        let text = match value {
            Value::Null => return false,
            Value::Bool(true) => "t".to_owned(),
            Value::Bool(false) => "f".to_owned(),
            Value::Float(x) => float(*x),
            Value::Int(n) => n.to_string(),
            Value::Text(text) => {
                data.put_slice(text.as_bytes());
                return true;
            }
        };
        data.put_slice(text.as_bytes());
        return true;
    }
    match (kind, value) {
        (Kind::Bool, Value::Bool(truth)) => data.put_u8(u8::from(*truth)),
        (Kind::Int8, Value::Int(n)) => data.put_i64(*n),
        (Kind::Int2, Value::Int(n)) => match i16::try_from(*n) {
            Ok(n) => data.put_i16(n),
            Err(_) => return false,
        },
        (Kind::Int4, Value::Int(n)) => match i32::try_from(*n) {
            Ok(n) => data.put_i32(n),
            Err(_) => return false,
        },
        (Kind::Float8, Value::Float(x)) => data.put_f64(*x),
        (Kind::Float8, Value::Int(n)) => data.put_f64(*n as f64),
        // A parameter's NaN or Infinity, which no number is written as.
        (Kind::Float8, Value::Text(text)) => match text.parse() {
            Ok(x) => data.put_f64(x),
            Err(_) => return false,
        },
        _ => return false,
    }
    true
}

/// As PostgreSQL writes a `double precision`.
fn float(x: f64) -> String {
    if x.is_nan() {
        return "NaN".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = x.abs();
    if x != 0.0 && !(1e-4..1e15).contains(&size) {
        let text = format!("{x:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, power) = match exponent.strip_prefix('-') {
            Some(power) => ('-', power),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{power:0>2}");
    }
    x.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value) -> String {
        let mut data = BytesMut::new();
        put(&mut data, &value, Kind::Text, false);
        String::from_utf8(data.to_vec()).unwrap()
    }

    #[test]
    fn numbers_are_written_as_postgresql_writes_them() {
        for (x, expected) in [
            (1.0, "1"),
            (0.0, "0"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1e-5, "1e-05"),
            (1.5e300, "1.5e+300"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(Value::Float(x)), expected);
        }
        assert_eq!(text(Value::Bool(true)), "t");
    }

    #[test]
    fn a_value_is_sent_in_the_type_that_was_described() {
        let binary = |value, kind| {
            let mut data = BytesMut::new();
            put(&mut data, &value, kind, true).then(|| data.to_vec())
        };
        assert_eq!(
            binary(Value::Int(2), Kind::Int8),
            Some(2_i64.to_be_bytes().to_vec())
        );
        assert_eq!(
            binary(Value::Int(2), Kind::Float8),
            Some(2.0_f64.to_be_bytes().to_vec())
        );
        assert_eq!(binary(Value::Int(2), Kind::Text), Some(b"2".to_vec()));
        assert_eq!(binary(Value::Bool(true), Kind::Bool), Some(vec![1]));
        assert_eq!(binary(Value::Null, Kind::Int8), None);
    }

    #[test]
    fn formats_are_for_none_for_all_or_for_each() {
        let of = |codes: &[u16]| Formats::read(codes.to_vec()).unwrap();
        assert!(!of(&[]).is_binary(3));
        assert!(of(&[1]).is_binary(3));
        assert!(of(&[0, 1]).is_binary(1) && !of(&[0, 1]).is_binary(0) && !of(&[0, 1]).is_binary(9));
        assert!(of(&[0, 1]).fit(2) && !of(&[0, 1]).fit(3));
        assert_eq!(Formats::read(vec![2]), None);
    }
}
