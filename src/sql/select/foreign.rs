//! `sqlparser`'s tree to ours. Whatever our statement has no place for is refused where it stands.
//!
//! Pure.

use super::ast::*;
use super::before;
use super::cast::{cast, is_cast};
use super::error::SelectError;
use super::operator;
use super::places::{Places, begin, begin_of_name, begin_of_query, begin_of_table};
use super::predicate;
use crate::sql::error::SqlError;
use crate::sql::span::Spanned;
use sqlparser::ast::{
    self as foreign, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    Ident, LimitClause, ObjectName, OrderByKind, SelectFlavor, SelectItem, SetExpr, TableFactor,
    UnaryOperator, WildcardAdditionalOptions,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Span as Place, Token, Tokenizer};

/// Nested parentheses and NOTs at most. One level takes the parser 57 KiB of stack where it is not optimised
/// (measured).
const DEPTH: usize = 16;

pub(super) type Read<T> = Result<T, SqlError>;

pub(super) fn select(places: &Places<'_>) -> Read<Select> {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&operator::Lexis, places.text())
        .tokenize_with_location()
        .map_err(|error| places.unreadable(&error.into()))?;
    before::check(places, &tokens)?;
    operator::check(places, &tokens)?;
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(DEPTH)
        .with_tokens_with_locations(tokens);
    let query = parser
        .parse_query()
        .and_then(|query| parser.expect_token(&Token::EOF).map(|_| query))
        .map_err(|error| places.unreadable(&error))?;
    let at = begin_of_query(&query);
    let extras = [
        (query.with.is_some(), "WITH"),
        (query.fetch.is_some(), "FETCH"),
        (!query.locks.is_empty(), "FOR UPDATE"),
        (query.for_clause.is_some(), "FOR"),
        (query.settings.is_some(), "SETTINGS"),
        (query.format_clause.is_some(), "FORMAT"),
        (!query.pipe_operators.is_empty(), "|>"),
    ];
    refuse_extras(places, &extras, at)?;
    let SetExpr::Select(select) = *query.body else {
        return Err(places.refuse("anything but one plain SELECT", at));
    };
    let (limit, offset) = limits(places, query.limit_clause)?;
    let order_by = match query.order_by.map(|order| (order.kind, order.interpolate)) {
        None => Vec::new(),
        Some((OrderByKind::Expressions(keys), None)) => keys
            .into_iter()
            .map(|key| order_key(places, key))
            .collect::<Read<_>>()?,
        Some(_) => return Err(places.refuse("ORDER BY ALL", at)),
    };
    let (items, from, filter, group_by) = body(places, *select)?;
    Ok(Select {
        items,
        from,
        filter,
        group_by,
        order_by,
        limit,
        offset,
    })
}

fn refuse_extras(places: &Places<'_>, extras: &[(bool, &str)], at: Place) -> Read<()> {
    match extras.iter().find(|(there, _)| *there) {
        Some((_, what)) => Err(places.refuse(what, at)),
        None => Ok(()),
    }
}

type Body = (Vec<Item>, Spanned<String>, Option<Predicate>, Vec<Term>);

fn body(places: &Places<'_>, select: foreign::Select) -> Read<Body> {
    let at = select.select_token.0.span;
    let extras = [
        (select.distinct.is_some(), "DISTINCT"),
        (select.top.is_some(), "TOP"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.into.is_some(), "INTO"),
        (!select.optimizer_hints.is_empty(), "a hint"),
        (select.select_modifiers.is_some(), "a modifier of SELECT"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (select.having.is_some(), "HAVING"),
        (!select.named_window.is_empty(), "WINDOW"),
        (select.qualify.is_some(), "QUALIFY"),
        (select.value_table_mode.is_some(), "AS STRUCT"),
        (
            select.flavor != SelectFlavor::Standard,
            "FROM before SELECT",
        ),
        (select.projection.is_empty(), "an empty select list"),
    ];
    refuse_extras(places, &extras, at)?;
    let from = view(places, select.from, at)?;
    let items = select.projection.into_iter().map(|item| match item {
        SelectItem::UnnamedExpr(expr) => Ok(Item::Term {
            term: term(places, expr)?,
            alias: None,
        }),
        SelectItem::ExprWithAlias { expr, alias } => Ok(Item::Term {
            term: term(places, expr)?,
            alias: Some(name_of(places, &alias)?),
        }),
        SelectItem::Wildcard(options) if options == WildcardAdditionalOptions::default() => {
            let star = options.wildcard_token.0.span;
            Ok(Item::All(Spanned::new((), places.span(star))))
        }
        _ => Err(places.refuse("this in the select list", at)),
    });
    let items = items.collect::<Read<Vec<_>>>()?;
    let filter = select.selection;
    let filter = filter.map(|expr| predicate::read(places, expr, "WHERE"));
    let group_by = match select.group_by {
        GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => keys
            .into_iter()
            .map(|key| key_term(places, key, "a cast in GROUP BY"))
            .collect::<Read<Vec<_>>>()?,
        _ => return Err(places.refuse("this GROUP BY", at)),
    };
    Ok((items, from, filter.transpose()?, group_by))
}

fn view(
    places: &Places<'_>,
    mut from: Vec<foreign::TableWithJoins>,
    at: Place,
) -> Read<Spanned<String>> {
    let Some(table) = from.pop() else {
        return Err(places.refuse("SELECT without FROM", at));
    };
    let second = table.joins.first().map(|join| &join.relation);
    let second = second.or((!from.is_empty()).then_some(&table.relation));
    if let Some(second) = second {
        return Err(places.refuse("more than one view", begin_of_table(second)));
    }
    let table_at = begin_of_table(&table.relation);
    match table.relation {
        TableFactor::Table {
            name,
            alias: None,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
        } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
            match single(&name) {
                Some(ident) => Ok(Spanned::new(
                    name_of(places, ident)?,
                    places.span(ident.span),
                )),
                None => Err(places.refuse("a schema before a view's name", begin_of_name(&name))),
            }
        }
        _ => Err(places.refuse("anything but the name of a view in FROM", table_at)),
    }
}

fn single(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}

/// A name, where the grammar takes a text for one too: the value of a parameter must not become a name.
fn name_of(places: &Places<'_>, ident: &Ident) -> Read<String> {
    match ident.quote_style {
        Some('\'') => Err(places.refuse("a text for a name", ident.span)),
        _ => Ok(folded(ident)),
    }
}

/// As PostgreSQL: lower case, unless it is quoted.
pub(super) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

fn order_key(places: &Places<'_>, key: foreign::OrderByExpr) -> Read<OrderBy> {
    if key.with_fill.is_some() {
        return Err(places.refuse("WITH FILL", begin(&key.expr)));
    }
    Ok(OrderBy {
        term: key_term(places, key.expr, "a cast in ORDER BY")?,
        descending: key.options.asc == Some(false),
        nulls_first: key.options.nulls_first,
    })
}

/// A number there is a position, and one that is cast is none.
fn key_term(places: &Places<'_>, expr: Expr, cast: &str) -> Read<Term> {
    if is_cast(&expr) {
        return Err(places.refuse(cast, begin(&expr)));
    }
    term(places, expr)
}

fn term(places: &Places<'_>, expr: Expr) -> Read<Term> {
    match expr {
        Expr::Function(function) => aggregate(places, function).map(Term::Aggregate),
        other => scalar(places, other).map(Term::Scalar),
    }
}

fn aggregate(places: &Places<'_>, call: foreign::Function) -> Read<Aggregate> {
    let at = begin_of_name(&call.name);
    let name = single(&call.name).map(folded);
    let function = Function::ALL
        .into_iter()
        .find(|function| name.as_deref() == Some(function.name()));
    let Some(function) = function else {
        return Err(places.refuse("a function other than count, sum, min, max and avg", at));
    };
    let extras = [
        (call.filter.is_some(), "FILTER"),
        (call.over.is_some(), "OVER"),
        (call.null_treatment.is_some(), "RESPECT or IGNORE NULLS"),
        (!call.within_group.is_empty(), "WITHIN GROUP"),
        (call.uses_odbc_syntax, "{fn ..}"),
        (call.parameters != FunctionArguments::None, "parameters"),
    ];
    refuse_extras(places, &extras, at)?;
    let FunctionArguments::List(list) = call.args else {
        return Err(places.refuse("this argument", at));
    };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return Err(places.refuse("DISTINCT or ORDER BY inside an aggregate", at));
    }
    let place = Spanned::new((), places.span(at));
    let mut arguments = list.args.into_iter();
    let of = match (arguments.next(), arguments.next()) {
        (Some(FunctionArg::Unnamed(FunctionArgExpr::Wildcard)), None)
            if function == Function::Count =>
        {
            None
        }
        (Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(column)))), None) => {
            Some(Spanned::new(folded(&column), places.span(column.span)))
        }
        _ => return Err(places.refuse("an argument that is not one column", at)),
    };
    Ok(Aggregate {
        function,
        of,
        place,
    })
}

pub(super) fn scalar(places: &Places<'_>, expr: Expr) -> Read<Scalar> {
    let at = begin(&expr);
    let literal = |literal| Ok(Scalar::Literal(Spanned::new(literal, places.span(at))));
    match expr {
        Expr::Identifier(column) => Ok(Scalar::Column(Spanned::new(
            folded(&column),
            places.span(column.span),
        ))),
        Expr::Nested(inner) => scalar(places, *inner),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type,
            array: false,
            format: None,
        } => cast(places, *expr, &data_type),
        Expr::Value(value) => match value.value {
            foreign::Value::Null => literal(Literal::Null),
            foreign::Value::Boolean(truth) => literal(Literal::Bool(truth)),
            foreign::Value::Number(digits, false) => literal(Literal::Number(digits)),
            foreign::Value::SingleQuotedString(text) => literal(Literal::Text(text)),
            _ => Err(places.refuse("this kind of literal", at)),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus | UnaryOperator::Plus,
            expr,
        } if is_cast(&expr) => Err(places.refuse("a sign before a cast", at)),
        Expr::UnaryOp {
            op: op @ (UnaryOperator::Minus | UnaryOperator::Plus),
            expr,
        } => match scalar(places, *expr)? {
            Scalar::Literal(Spanned {
                value: Literal::Number(digits),
                ..
            }) => literal(Literal::Number(match (op, digits.strip_prefix('-')) {
                (UnaryOperator::Minus, Some(digits)) => digits.to_owned(),
                (UnaryOperator::Minus, None) => format!("-{digits}"),
                _ => digits,
            })),
            _ => Err(places.refuse("a sign before anything but a number", at)),
        },
        _ => Err(places.refuse("this expression", at)),
    }
}

fn limits(places: &Places<'_>, clause: Option<LimitClause>) -> Read<(Option<u64>, u64)> {
    let (limit, offset) = match clause {
        None => return Ok((None, 0)),
        Some(LimitClause::LimitOffset {
            limit,
            offset,
            limit_by,
        }) if limit_by.is_empty() => (limit, offset.map(|offset| offset.value)),
        Some(_) => return Err(places.refuse("this LIMIT", Place::empty())),
    };
    let limit = limit.map(|expr| count(places, expr, "LIMIT")).transpose()?;
    let offset = offset
        .map(|expr| count(places, expr, "OFFSET"))
        .transpose()?;
    Ok((limit.flatten(), offset.flatten().unwrap_or(0)))
}

fn count(places: &Places<'_>, expr: Expr, clause: &'static str) -> Read<Option<u64>> {
    let at = begin(&expr);
    let Scalar::Literal(literal) = scalar(places, expr)? else {
        return Err(places.refuse("a LIMIT or OFFSET that is not a number", at));
    };
    match literal.value {
        Literal::Null | Literal::NullOf(_) => Ok(None),
        Literal::Number(digits) if digits.starts_with('-') => Err(SqlError::new(
            SelectError::Negative { clause }.into(),
            literal.span,
        )),
        Literal::Number(digits) => match digits.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(places.refuse("a LIMIT or OFFSET that is not a whole number", at)),
        },
        Literal::Float(_) => Err(places.refuse("a LIMIT or OFFSET that is not a whole number", at)),
        _ => Err(places.refuse("a LIMIT or OFFSET that is not a number", at)),
    }
}
