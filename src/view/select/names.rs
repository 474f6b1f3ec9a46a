//! From names to columns, from literals to values of the type that they are compared with.
//!
//! Pure.

use super::condition::Operand;
use super::value;
use crate::sql::input;
use crate::sql::select::{Literal, Scalar, SelectError};
use crate::sql::suggest::closest;
use crate::sql::{Span, Spanned, SqlError, Type, Value};
use crate::view::relation::Relation;

/// The columns that names are looked up in.
pub(super) struct Names<'a> {
    pub(super) relation: &'a Relation,
}

/// A scalar as far as its type is known by itself.
pub(super) enum Typed {
    Known(Operand, Type),
    /// A quoted text: of the type of whatever it is compared with.
    Text(String),
    Null,
}

impl Typed {
    pub(super) fn kind(&self) -> Option<Type> {
        match self {
            Typed::Known(_, kind) => Some(*kind),
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        self.kind().map_or("unknown", Type::name)
    }
}

/// A scalar as a value of a type; a text without one stays text.
pub(super) fn settle(typed: Typed, kind: Option<Type>, at: Span) -> Result<Operand, SqlError> {
    match typed {
        Typed::Known(operand, _) => Ok(operand),
        Typed::Null => Ok(Operand::Constant(Value::Null)),
        Typed::Text(text) => {
            let kind = kind.unwrap_or(Type::Text);
            input::read(&text, kind)
                .map(Operand::Constant)
                .map_err(|why| {
                    SqlError::new(SelectError::unread(why, kind.name(), text).into(), at)
                })
        }
    }
}

impl Names<'_> {
    pub(super) fn column(&self, name: &Spanned<String>) -> Result<(usize, Type), SqlError> {
        let columns = &self.relation.columns;
        let at = columns.iter().position(|column| column.name == name.value);
        if let Some((at, column)) = at.and_then(|at| Some((at, columns.get(at)?))) {
            return Ok((at, column.kind));
        }
        let names = || columns.iter().map(|column| column.name);
        let kind = SelectError::UnknownColumn {
            column: name.value.clone(),
            view: self.relation.name.to_owned(),
        };
        let hint = format!("its columns are {}", names().collect::<Vec<_>>().join(", "));
        Err(SqlError::new(kind.into(), name.span)
            .with_suggestion(closest(name, names()))
            .with_hint(hint))
    }

    pub(super) fn scalar(&self, scalar: &Scalar) -> Result<Typed, SqlError> {
        Ok(match scalar {
            Scalar::Column(name) => {
                let (at, kind) = self.column(name)?;
                Typed::Known(Operand::Column(at), kind)
            }
            Scalar::Literal(literal) => match &literal.value {
                Literal::Null => Typed::Null,
                Literal::NullOf(kind) => Typed::Known(Operand::Constant(Value::Null), *kind),
                Literal::Bool(truth) => {
                    Typed::Known(Operand::Constant(Value::Bool(*truth)), Type::Bool)
                }
                Literal::Float(digits) => {
                    let kind = Type::Float;
                    let operand = settle(Typed::Text(digits.clone()), Some(kind), literal.span)?;
                    Typed::Known(operand, kind)
                }
                Literal::Text(text) => Typed::Text(text.clone()),
                Literal::Number(digits) => match value::number(digits) {
                    Ok(value @ Value::Int(_)) => Typed::Known(Operand::Constant(value), Type::Int),
                    Ok(value) => Typed::Known(Operand::Constant(value), Type::Float),
                    Err(why) => {
                        let (kind, text) = (Type::Float.name(), digits.clone());
                        let error = SelectError::unread(why, kind, text);
                        return Err(SqlError::new(error.into(), literal.span));
                    }
                },
            },
        })
    }

    pub(super) fn no_operator(
        &self,
        left: &str,
        operator: &str,
        right: &str,
        at: Span,
    ) -> SqlError {
        let what = format!("operator {left} {operator} {right}");
        SqlError::new(SelectError::NoSuchOperation { what }.into(), at)
            .with_hint("compare values of one type; a quoted text takes the type of the other side")
    }

    /// Two scalars that are compared, brought to types that can be.
    pub(super) fn pair(
        &self,
        left: &Scalar,
        operator: &str,
        right: &Scalar,
    ) -> Result<(Operand, Operand), SqlError> {
        self.pair_among(left, operator, right, None)
    }

    /// As [`pair`](Names::pair), where a text has this type if there is one.
    pub(super) fn pair_among(
        &self,
        left: &Scalar,
        operator: &str,
        right: &Scalar,
        common: Option<Type>,
    ) -> Result<(Operand, Operand), SqlError> {
        let (a, b) = (self.scalar(left)?, self.scalar(right)?);
        if let (Some(x), Some(y)) = (a.kind(), b.kind())
            && x != y
            && !(is_number(x) && is_number(y))
        {
            let at = left.span().to(right.span());
            return Err(self.no_operator(a.name(), operator, b.name(), at));
        }
        let (for_a, for_b) = (common.or(b.kind()), common.or(a.kind()));
        Ok((
            settle(a, for_a, left.span())?,
            settle(b, for_b, right.span())?,
        ))
    }

    /// The type that a text has which is looked for, or is looked for among others: theirs together, if they have one.
    /// As in PostgreSQL, values alone have it, and only if there are several.
    pub(super) fn common(
        &self,
        scalar: &Scalar,
        values: &[&Scalar],
    ) -> Result<Option<Type>, SqlError> {
        let mut common = None;
        if values.len() < 2 {
            return Ok(None);
        }
        for one in values.iter().copied().chain([scalar]) {
            common = match (common, self.scalar(one)?.kind()) {
                (known, None) => known,
                (None, kind) => kind,
                (Some(a), Some(b)) if a == b => Some(a),
                (Some(a), Some(b)) if is_number(a) && is_number(b) => Some(Type::Float),
                _ => return Ok(None),
            };
        }
        Ok(common)
    }
}

fn is_number(kind: Type) -> bool {
    matches!(kind, Type::Int | Type::Float)
}
