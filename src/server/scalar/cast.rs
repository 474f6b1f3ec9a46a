//! A literal that is cast, without a view: `'5'::int8`, `CAST($1 AS int8)` with its value.
//!
//! Pure. Casts to other types than the views' columns have, and of what is no literal, change nothing.

use super::What;
use crate::server::answer::Kind as Column;
use crate::server::fault::Fault;
use crate::server::lex::{Kind, Token};
use crate::sql::input::{self, Unread};
use crate::sql::{Type, Value};

/// A value and the type that it is cast to.
pub(super) struct Cast<'a> {
    pub(super) value: &'a [Token<'a>],
    kind: String,
}

/// The cast that an expression is, if it is one.
pub(super) fn of<'a>(tokens: &'a [Token<'a>]) -> Option<Cast<'a>> {
    let (value, kind) = match tokens {
        [word, open, inner @ .., close] if word.is("cast") && open.sign('(') && close.sign(')') => {
            let by = inner.iter().rposition(|token| token.is("as"))?;
            (inner.get(..by)?, inner.get(by + 1..)?)
        }
        all => {
            let colon = all.iter().rposition(|token| token.sign(':'))?;
            let before = colon.checked_sub(1)?;
            if !all.get(before)?.sign(':') {
                return None;
            }
            (all.get(..before)?, all.get(colon + 1..)?)
        }
    };
    Some(Cast {
        value: bare(value),
        kind: name(kind)?,
    })
}

/// Without the parentheses around all of it.
fn bare<'a>(mut tokens: &'a [Token<'a>]) -> &'a [Token<'a>] {
    while let [open, inner @ .., close] = tokens
        && open.sign('(')
        && close.sign(')')
    {
        tokens = inner;
    }
    tokens
}

/// The name that a type has in PostgreSQL's catalog; that of any type of one word.
fn name(tokens: &[Token<'_>]) -> Option<String> {
    let tokens = match tokens {
        [schema, dot, rest @ ..] if schema.is("pg_catalog") && dot.sign('.') => rest,
        all => all,
    };
    let name = match tokens {
        [one] if matches!(one.kind, Kind::Word | Kind::Name) => one.value(),
        [a, b] if a.is("double") && b.is("precision") => "float8".into(),
        [a, b] if a.is("character") && b.is("varying") => "varchar".into(),
        _ => return None,
    };
    Some(match name.as_str() {
        "smallint" => "int2".into(),
        "int" | "integer" => "int4".into(),
        "bigint" => "int8".into(),
        "boolean" => "bool".into(),
        _ => name,
    })
}

impl Cast<'_> {
    /// What is cast, and the name of its column.
    pub(super) fn apply(self, what: What, name: String) -> Result<(What, String), Fault> {
        let What::Literal(value, own) = what else {
            return Ok((what, name));
        };
        let (column, kind) = match self.kind.as_str() {
            "int2" => (Column::Int2, Type::Int),
            "int4" => (Column::Int4, Type::Int),
            "int8" => (Column::Int8, Type::Int),
            "float8" => (Column::Float8, Type::Float),
            "bool" => (Column::Bool, Type::Bool),
            "text" | "varchar" => (Column::Text, Type::Text),
            _ => return Ok((What::Literal(value, own), self.kind)),
        };
        let at = self.value.first().map_or(0, |first| first.char);
        let text = match (value, kind) {
            (Value::Null, _) => return Ok((What::Literal(Value::Null, column), self.kind)),
            (Value::Text(text), _) => text,
            (Value::Int(n), Type::Int | Type::Float | Type::Text) => n.to_string(),
            (Value::Float(x), Type::Float) => {
                return Ok((What::Literal(Value::Float(x), column), self.kind));
            }
            (Value::Bool(truth), Type::Bool | Type::Text) => truth.to_string(),
            (Value::Bool(truth), Type::Int) if column == Column::Int4 => {
                i64::from(truth).to_string()
            }
            (Value::Int(n), Type::Bool) if own == Column::Int4 => (n != 0).to_string(),
            (value, _) => return Err(undone(&value, &self.kind).at(at)),
        };
        match read(&text, kind, column) {
            Ok(value) => Ok((What::Literal(value, column), self.kind)),
            Err(why) => Err(fault(why, &text, &self.kind).at(at)),
        }
    }
}

fn read(text: &str, kind: Type, column: Column) -> Result<Value, Unread> {
    let value = input::read(text, kind)?;
    let fits = match (&value, column) {
        (Value::Int(n), Column::Int2) => i16::try_from(*n).is_ok(),
        (Value::Int(n), Column::Int4) => i32::try_from(*n).is_ok(),
        _ => true,
    };
    if fits { Ok(value) } else { Err(Unread::Range) }
}

/// A cast between two types that there is none of, or none here.
fn undone(value: &Value, kind: &str) -> Fault {
    match value {
        // It would be rounded, or lose the digits that it was written with.
        Value::Float(_) if kind != "bool" => {
            let message = format!("a number with a fraction is not cast to {kind} here");
            Fault::error("0A000", message).hint("write the value that is meant")
        }
        Value::Int(_) => Fault::error("42846", format!("cannot cast type bigint to {kind}")),
        Value::Float(_) => Fault::error("42846", format!("cannot cast type numeric to {kind}")),
        _ => Fault::error("42846", format!("cannot cast type boolean to {kind}")),
    }
}

fn fault(why: Unread, text: &str, kind: &str) -> Fault {
    match why {
        Unread::Form => Fault::error("22P02", format!("invalid input for type {kind}: {text:?}")),
        Unread::Range => {
            let message = format!("value {text:?} is out of range for type {kind}");
            Fault::error("22003", message)
        }
    }
}
