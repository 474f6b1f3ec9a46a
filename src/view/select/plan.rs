//! What a SELECT computes: its condition, the keys it groups by, and a source for each cell of the result.
//!
//! Pure.

use super::condition::{self, Condition, Operand};
use super::fold::fold;
use super::names::{Names, settle};
use crate::sql::select::{
    Aggregate, Function, Item, Literal, OrderBy, Scalar, Select, SelectError, Term,
};
use crate::sql::{Span, Spanned, SqlError, Type, Value};
use crate::view::relation::Relation;

/// What a cell of the result is computed from.
#[derive(Clone, Debug)]
enum Cell {
    Operand(Operand),
    Aggregate {
        function: Function,
        column: Option<usize>,
        what: String,
        at: Span,
    },
}

/// A SELECT with its names and types settled.
pub(super) struct Plan {
    pub(super) names: Vec<String>,
    pub(super) types: Vec<Type>,
    pub(super) filter: Option<Condition>,
    pub(super) grouped: bool,
    /// Columns that GROUP BY groups by.
    pub(super) keys: Vec<usize>,
    cells: Vec<Cell>,
    order: Vec<Cell>,
}

/// A row of the result, and what it is sorted by.
pub(super) struct Computed {
    pub(super) values: Vec<Value>,
    pub(super) keys: Vec<Value>,
}

/// A column of the result: its name, and the term it stands for.
struct Shown {
    name: String,
    term: Term,
}

impl Plan {
    pub(super) fn new(select: &Select, relation: &Relation) -> Result<Plan, SqlError> {
        let names = Names { relation };
        let filter = select.filter.as_ref();
        let filter = filter.map(|filter| condition::bind(filter, &names, "WHERE"));
        let filter = filter.transpose()?;
        let outputs = outputs(select, relation);
        let keys = select
            .group_by
            .iter()
            .map(|key| group_key(key, &names, &outputs))
            .collect::<Result<Vec<_>, _>>()?;
        let keys: Vec<usize> = keys.into_iter().flatten().collect();
        let order_terms = select
            .order_by
            .iter()
            .map(|key| order_term(key, &outputs))
            .collect::<Result<Vec<_>, _>>()?;
        let aggregated = |term: &Term| matches!(term, Term::Aggregate(_));
        let grouped = !select.group_by.is_empty()
            || outputs.iter().any(|output| aggregated(&output.term))
            || order_terms.iter().any(aggregated);
        let types = outputs.iter().map(|output| type_of(&output.term, &names));
        let types = types.collect::<Result<Vec<_>, _>>()?;
        let cell = |term: &Term| cell(term, &names);
        let cells = outputs.iter().map(|output| cell(&output.term));
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        let order = order_terms
            .iter()
            .map(cell)
            .collect::<Result<Vec<_>, _>>()?;
        if grouped {
            // After the types: of two mistakes PostgreSQL tells the other one.
            let terms = outputs.iter().map(|output| &output.term);
            for term in terms.chain(&order_terms) {
                is_one_per_group(term, &names, &keys)?;
            }
        }
        Ok(Plan {
            filter,
            grouped,
            keys,
            cells,
            order,
            types,
            names: outputs.into_iter().map(|output| output.name).collect(),
        })
    }

    /// The result's row for a group of rows, or for one row.
    pub(super) fn row(&self, rows: &[&[Value]]) -> Result<Computed, SqlError> {
        let all = |cells: &[Cell]| {
            let values = cells.iter().map(|cell| compute(cell, rows));
            values.collect::<Result<Vec<_>, _>>()
        };
        Ok(Computed {
            values: all(&self.cells)?,
            keys: all(&self.order)?,
        })
    }
}

fn compute(cell: &Cell, rows: &[&[Value]]) -> Result<Value, SqlError> {
    let one = Value::Bool(true);
    match cell {
        Cell::Operand(operand) => {
            let first: &[Value] = rows.first().copied().unwrap_or_default();
            Ok(operand.of(first).clone())
        }
        Cell::Aggregate {
            function,
            column,
            what,
            at,
        } => {
            let values = rows.iter().map(|row| match column {
                Some(column) => row.get(*column).unwrap_or(&Value::Null),
                None => &one,
            });
            fold(*function, values).ok_or_else(|| {
                let what = what.clone();
                SqlError::new(SelectError::OutOfRange { what }.into(), *at)
                    .with_hint("avg(..) has no such bound")
            })
        }
    }
}

fn outputs(select: &Select, relation: &Relation) -> Vec<Shown> {
    let mut outputs = Vec::new();
    for item in &select.items {
        match item {
            Item::All(place) => outputs.extend(relation.columns.iter().map(|column| {
                let name = column.name.to_owned();
                let scalar = Scalar::Column(Spanned::new(name.clone(), place.span));
                let term = Term::Scalar(scalar);
                Shown { name, term }
            })),
            Item::Term { term, alias } => outputs.push(Shown {
                name: alias.clone().unwrap_or_else(|| own_name(term)),
                term: term.clone(),
            }),
        }
    }
    outputs
}

/// What PostgreSQL calls a column without an alias.
fn own_name(term: &Term) -> String {
    match term {
        Term::Scalar(Scalar::Column(name)) => name.value.clone(),
        Term::Aggregate(aggregate) => aggregate.function.name().to_owned(),
        Term::Scalar(Scalar::Literal(literal)) => match literal.value {
            Literal::Bool(_) => "bool".to_owned(),
            _ => "?column?".to_owned(),
        },
    }
}

/// The output that a position speaks of, if the term is one.
fn position<'a>(
    term: &Term,
    clause: &'static str,
    outputs: &'a [Shown],
) -> Result<Option<&'a Term>, SqlError> {
    let Term::Scalar(Scalar::Literal(literal)) = term else {
        return Ok(None);
    };
    let number = match &literal.value {
        Literal::Number(digits) => digits.parse::<usize>().ok(),
        _ => None,
    };
    let output = number.and_then(|n| outputs.get(n.checked_sub(1)?));
    match output {
        Some(output) => Ok(Some(&output.term)),
        None => {
            let kind = SelectError::BadPosition {
                clause,
                position: literal.value.to_string(),
                columns: outputs.len(),
            };
            Err(SqlError::new(kind.into(), literal.span))
        }
    }
}

/// The term of the one output of that name; an error if several different ones have it.
fn by_name<'a>(name: &Spanned<String>, outputs: &'a [Shown]) -> Result<Option<&'a Term>, SqlError> {
    let mut found: Option<&Term> = None;
    for output in outputs.iter().filter(|output| output.name == name.value) {
        if found.is_some_and(|found| *found != output.term) {
            let column = name.value.clone();
            return Err(SqlError::new(
                SelectError::Ambiguous { column }.into(),
                name.span,
            ));
        }
        found = Some(&output.term);
    }
    Ok(found)
}

fn order_term(key: &OrderBy, outputs: &[Shown]) -> Result<Term, SqlError> {
    if let Some(term) = position(&key.term, "ORDER BY", outputs)? {
        return Ok(term.clone());
    }
    if let Term::Scalar(Scalar::Column(name)) = &key.term
        && let Some(term) = by_name(name, outputs)?
    {
        return Ok(term.clone());
    }
    Ok(key.term.clone())
}

/// The column that a key of GROUP BY means; none for a literal of the select list, which groups nothing.
fn group_key(key: &Term, names: &Names<'_>, outputs: &[Shown]) -> Result<Option<usize>, SqlError> {
    let misplaced = |at| {
        let place = "GROUP BY";
        Err(SqlError::new(
            SelectError::MisplacedAggregate { place }.into(),
            at,
        ))
    };
    let term = match position(key, "GROUP BY", outputs)? {
        Some(term) => term,
        None => key,
    };
    let Term::Scalar(scalar) = term else {
        return misplaced(key.span());
    };
    let Scalar::Column(name) = scalar else {
        return Ok(None);
    };
    // A column of the view before one of the result.
    let unknown = match names.column(name) {
        Ok((at, _)) => return Ok(Some(at)),
        Err(unknown) => unknown,
    };
    match by_name(name, outputs)? {
        Some(Term::Scalar(Scalar::Column(column))) => Ok(Some(names.column(column)?.0)),
        Some(Term::Scalar(Scalar::Literal(_))) => Ok(None),
        Some(Term::Aggregate(_)) => misplaced(name.span),
        _ => Err(unknown),
    }
}

/// A column that is grouped by has one value per group, another one may have many.
fn is_one_per_group(term: &Term, names: &Names<'_>, keys: &[usize]) -> Result<(), SqlError> {
    let Term::Scalar(Scalar::Column(name)) = term else {
        return Ok(());
    };
    if keys.contains(&names.column(name)?.0) {
        return Ok(());
    }
    let column = name.value.clone();
    Err(SqlError::new(
        SelectError::NotGrouped { column }.into(),
        name.span,
    ))
}

/// The type of a column of the result; that of a literal without one is text.
fn type_of(term: &Term, names: &Names<'_>) -> Result<Type, SqlError> {
    let aggregate = match term {
        Term::Scalar(scalar) => return Ok(names.scalar(scalar)?.kind().unwrap_or(Type::Text)),
        Term::Aggregate(aggregate) => aggregate,
    };
    let column = aggregate.of.as_ref().map(|name| names.column(name));
    let kind = column.transpose()?.map_or(Type::Int, |(_, kind)| kind);
    Ok(match aggregate.function {
        Function::Count => Type::Int,
        Function::Avg => Type::Float,
        Function::Sum | Function::Min | Function::Max => kind,
    })
}

fn cell(term: &Term, names: &Names<'_>) -> Result<Cell, SqlError> {
    match term {
        Term::Scalar(scalar) => {
            settle(names.scalar(scalar)?, None, scalar.span()).map(Cell::Operand)
        }
        Term::Aggregate(aggregate) => aggregated(aggregate, names),
    }
}

fn aggregated(aggregate: &Aggregate, names: &Names<'_>) -> Result<Cell, SqlError> {
    let function = aggregate.function;
    let column = aggregate.of.as_ref().map(|name| names.column(name));
    let column = column.transpose()?;
    let fits = match (function, column) {
        (Function::Count, _) | (_, None) => true,
        (Function::Sum | Function::Avg, Some((_, kind))) => {
            matches!(kind, Type::Int | Type::Float)
        }
        (Function::Min | Function::Max, Some((_, kind))) => kind != Type::Bool,
    };
    let kind = column.map_or("*", |(_, kind)| kind.name());
    if !fits {
        let what = format!("function {}({kind})", function.name());
        return Err(SqlError::new(
            SelectError::NoSuchOperation { what }.into(),
            aggregate.place.span,
        ));
    }
    Ok(Cell::Aggregate {
        function,
        column: column.map(|(at, _)| at),
        what: format!("{}({kind})", function.name()),
        at: aggregate.place.span,
    })
}
