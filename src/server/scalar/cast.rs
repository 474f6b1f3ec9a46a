//! A literal that is cast, without a view: `'5'::int8`, `CAST($1 AS int8)` with its value.
//!
//! Pure. Casts to types that [`kinds`] does not know, and of what is no literal, change nothing.

use super::What;
use crate::server::answer::Kind as Column;
use crate::server::fault::Fault;
use crate::server::kinds;
use crate::server::lex::{Kind, Token};
use crate::sql::input;
use crate::sql::select::SelectError;
use crate::sql::{Type, Value};

/// A value and the type that it is cast to.
pub(super) struct Cast<'a> {
    pub(super) value: &'a [Token<'a>],
    target: Target,
}

enum Target {
    Known(input::Kind),
    /// A name that we do not know.
    Other(String),
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
        target: target(kind)?,
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

/// The type with this name; any other of one word is one that we do not know.
fn target(tokens: &[Token<'_>]) -> Option<Target> {
    let tokens = match tokens {
        [schema, dot, rest @ ..] if schema.is("pg_catalog") && dot.sign('.') => rest,
        all => all,
    };
    match (kinds::named(tokens), tokens) {
        (Some((kind, [])), _) => Some(Target::Known(kind)),
        (None, [one]) if matches!(one.kind, Kind::Word | Kind::Name) => {
            Some(Target::Other(one.value()))
        }
        _ => None,
    }
}

impl Cast<'_> {
    /// What is cast, and the name of its column.
    pub(super) fn apply(self, what: What, name: String) -> Result<(What, String), Fault> {
        let What::Literal(value, own) = what else {
            return Ok((what, name));
        };
        let kind = match self.target {
            Target::Known(kind) => kind,
            Target::Other(name) => return Ok((What::Literal(value, own), name)),
        };
        let column = kinds::column(kind);
        let done = |value| {
            Ok((
                What::Literal(value, column),
                kinds::catalog_name(kind).to_owned(),
            ))
        };
        let at = self.value.first().map_or(0, |first| first.char);
        let text = match (value, kind.in_view()) {
            (Value::Null, _) => return done(Value::Null),
            (Value::Text(text), _) => text,
            (Value::Int(n), Type::Int | Type::Float | Type::Text) => n.to_string(),
            (Value::Float(x), Type::Float) => return done(Value::Float(x)),
            (Value::Bool(truth), Type::Bool | Type::Text) => truth.to_string(),
            (Value::Bool(truth), Type::Int) if column == Column::Int4 => {
                i64::from(truth).to_string()
            }
            (Value::Int(n), Type::Bool) if own == Column::Int4 => (n != 0).to_string(),
            (value, _) => return Err(undone(&value, kind).at(at)),
        };
        match kind.read(&text) {
            Ok(value) => done(value),
            Err(why) => {
                let error = SelectError::unread(why, kind.name(), text);
                Err(Fault::error(error.sqlstate(), error.to_string()).at(at))
            }
        }
    }
}

/// A cast between two types that there is none of, or none here.
fn undone(value: &Value, kind: input::Kind) -> Fault {
    let to = kind.name();
    match value {
        // It would be rounded, or lose the digits that it was written with.
        Value::Float(_) if kind != input::Kind::Boolean => {
            let message = format!("a number with a fraction is not cast to {to} here");
            Fault::error("0A000", message).hint("write the value that is meant")
        }
        Value::Int(_) => Fault::error("42846", format!("cannot cast type bigint to {to}")),
        Value::Float(_) => Fault::error("42846", format!("cannot cast type numeric to {to}")),
        _ => Fault::error("42846", format!("cannot cast type boolean to {to}")),
    }
}
