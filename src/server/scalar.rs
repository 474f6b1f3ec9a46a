//! `SELECT` without FROM: literals and the functions by which clients ask where they are.
//!
//! Pure.

mod cast;

use super::answer::Kind as Column;
use super::fault::Fault;
use super::lex::{Kind, Token};
use super::weight;
use crate::sql::input;
use crate::sql::{Type, Value};
use std::time::Duration;

/// One value of the list, and its name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scalar {
    pub(super) name: String,
    pub(super) what: What,
}

/// What is to be computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    Literal(Value, Column),
    Version,
    User,
    Database,
    Schema,
    Process,
    ClientAddress,
    /// `current_setting('name')`
    Setting(String),
    /// `pg_sleep(seconds)`
    Sleep(Duration),
}

impl Scalar {
    /// Bytes that it keeps on the heap.
    pub(super) fn bytes(&self) -> usize {
        let what = match &self.what {
            What::Literal(value, _) => weight::value(value),
            What::Setting(name) => weight::text(name),
            _ => 0,
        };
        weight::text(&self.name) + what
    }
}

impl What {
    /// The type of the value.
    pub(super) fn kind(&self) -> Column {
        match self {
            What::Literal(_, kind) => *kind,
            What::Process => Column::Int4,
            _ => Column::Text,
        }
    }
}

/// Columns of a result at most, as in PostgreSQL.
pub(super) const COLUMNS: usize = 1_664;

/// The list behind SELECT, if every item of it is understood and nothing follows; within, what is wrong with a value.
pub(super) fn select(tokens: &[Token<'_>]) -> Option<Result<Vec<Scalar>, Fault>> {
    let mut items = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Sign('(') => depth += 1,
            Kind::Sign(')') => depth = depth.checked_sub(1)?,
            Kind::Sign(',') if depth == 0 => {
                items.push(item(tokens.get(from..at)?)?);
                if items.len() >= COLUMNS {
                    return None;
                }
                from = at + 1;
            }
            _ => {}
        }
    }
    items.push(item(tokens.get(from..)?)?);
    Some(items.into_iter().collect())
}

/// `expression [[AS] name]`, where the expression may be cast
fn item(tokens: &[Token<'_>]) -> Option<Result<Scalar, Fault>> {
    let (tokens, alias) = match tokens {
        all if cast::of(all).is_some() => (all, None),
        [expression @ .., by, name] if by.is("as") && is_name(name) => {
            (expression, Some(name.value()))
        }
        [expression @ .., name]
            if is_name(name)
                && expression
                    .last()
                    .is_some_and(|last| !last.sign('.') && !last.sign(':')) =>
        {
            (expression, Some(name.value()))
        }
        all => (all, None),
    };
    let (what, name) = match cast::of(tokens) {
        Some(cast) => {
            let (what, name) = expression(cast.value)?;
            match cast.apply(what, name) {
                Ok(cast) => cast,
                Err(fault) => return Some(Err(fault)),
            }
        }
        None => expression(tokens)?,
    };
    let name = alias.unwrap_or(name);
    Some(Ok(Scalar { name, what }))
}

fn is_name(token: &Token<'_>) -> bool {
    const KEYWORDS: [&str; 9] = [
        "null",
        "true",
        "false",
        "current_user",
        "session_user",
        "user",
        "current_schema",
        "current_catalog",
        "current_role",
    ];
    match token.kind {
        Kind::Name => true,
        Kind::Word => !KEYWORDS.iter().any(|word| token.is(word)),
        _ => false,
    }
}

fn expression(tokens: &[Token<'_>]) -> Option<(What, String)> {
    // Once: who nests it deeper is not understood.
    let tokens = match tokens {
        [schema, dot, rest @ ..] if schema.is("pg_catalog") && dot.sign('.') => rest,
        all => all,
    };
    let unnamed = "?column?".to_owned();
    let literal = |value, kind| Some((What::Literal(value, kind), unnamed.clone()));
    match tokens {
        [minus, one] if minus.sign('-') && one.kind == Kind::Number => {
            number(&format!("-{}", one.text))
        }
        [plus, one] if plus.sign('+') && one.kind == Kind::Number => number(one.text),
        [one] => match one.kind {
            Kind::Number => number(one.text),
            Kind::Text => literal(Value::Text(one.value()), Column::Text),
            Kind::Word => match one.value().as_str() {
                "null" => literal(Value::Null, Column::Text),
                word @ ("true" | "false") => Some((
                    What::Literal(Value::Bool(word == "true"), Column::Bool),
                    "bool".into(),
                )),
                word => Some((call(word, &[])?, word.to_owned())),
            },
            _ => None,
        },
        [name, open, arguments @ .., close]
            if name.kind == Kind::Word && open.sign('(') && close.sign(')') =>
        {
            let name = name.value();
            Some((call(&name, arguments)?, name))
        }
        _ => None,
    }
}

fn number(text: &str) -> Option<(What, String)> {
    let unnamed = "?column?".to_owned();
    if let Ok(whole) = text.parse::<i64>() {
        let kind = if i32::try_from(whole).is_ok() {
            Column::Int4
        } else {
            Column::Int8
        };
        return Some((What::Literal(Value::Int(whole), kind), unnamed));
    }
    let value = input::read(text, Type::Float).ok()?;
    Some((What::Literal(value, Column::Float8), unnamed))
}

fn call(name: &str, arguments: &[Token<'_>]) -> Option<What> {
    Some(match (name, arguments) {
        ("version", []) => What::Version,
        ("current_user" | "session_user" | "user" | "current_role", []) => What::User,
        ("current_database" | "current_catalog", []) => What::Database,
        ("current_schema", []) => What::Schema,
        ("pg_backend_pid", []) => What::Process,
        ("inet_client_addr", []) => What::ClientAddress,
        ("pg_is_in_recovery", []) => What::Literal(Value::Bool(false), Column::Bool),
        // There are none.
        ("pg_advisory_unlock_all", []) => What::Literal("".into(), Column::Void),
        // What \d+ asks of a view: there is no text of it.
        ("pg_get_viewdef", [_, ..]) => What::Literal(Value::Null, Column::Text),
        ("current_setting", [setting, ..]) if setting.kind == Kind::Text => {
            What::Setting(setting.value())
        }
        ("pg_sleep", [seconds]) => {
            let seconds: f64 = seconds.value().parse().ok()?;
            What::Sleep(Duration::try_from_secs_f64(seconds).ok()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::lex::tokens;

    fn names(text: &str) -> Option<Vec<String>> {
        let items = select(&tokens(text))?.unwrap();
        Some(items.into_iter().map(|item| item.name).collect())
    }

    #[test]
    fn values_are_named_as_postgresql_names_them() {
        for (list, expected) in [
            ("1", vec!["?column?"]),
            ("1 AS one, 'x' two, -1.5", vec!["one", "two", "?column?"]),
            ("version()", vec!["version"]),
            ("pg_catalog.version() v", vec!["v"]),
            (
                "current_user, current_schema()",
                vec!["current_user", "current_schema"],
            ),
            ("true, null", vec!["bool", "?column?"]),
            (
                "1::bigint, '5'::int, 1::double precision",
                vec!["int8", "int4", "float8"],
            ),
            (
                "'x'::pg_catalog.text, CAST('x' AS varchar)",
                vec!["text", "varchar"],
            ),
            (
                "true::text, CAST(1 AS int2) one, (1)::int8 AS two",
                vec!["text", "one", "two"],
            ),
            (
                "version()::text, 'pg_class'::regclass",
                vec!["version", "regclass"],
            ),
            (
                "pg_catalog.pg_get_viewdef('1'::pg_catalog.oid, true)",
                vec!["pg_get_viewdef"],
            ),
            ("current_setting('server_version')", vec!["current_setting"]),
        ] {
            assert_eq!(names(list).unwrap(), expected, "{list}");
        }
    }

    #[test]
    fn whole_numbers_are_as_wide_as_they_must_be() {
        let kind = |text| select(&tokens(text)).unwrap().unwrap()[0].what.kind();
        assert_eq!(kind("1"), Column::Int4);
        assert_eq!(kind("-2147483648"), Column::Int4);
        assert_eq!(kind("2147483648"), Column::Int8);
        assert_eq!(kind("1::int8"), Column::Int8);
        assert_eq!(kind("true::int4"), Column::Int4);
        assert_eq!(kind("0::bool"), Column::Bool);
        assert_eq!(kind("1.0"), Column::Float8);
        assert_eq!(kind("1e3"), Column::Float8);
        assert_eq!(kind("-7::int2"), Column::Int2);
        assert_eq!(kind("CAST(NULL AS pg_catalog.int4)"), Column::Int4);
    }

    #[test]
    fn a_text_that_is_no_value_of_its_type_is_refused_where_it_stands() {
        for (list, code, at) in [
            ("1, 'x'::int8", "22P02", 3),
            ("CAST( '40000' AS int2)", "22003", 6),
            ("('-1e-400')::float8 AS x", "22003", 1),
            ("'of course'::bool", "22P02", 0),
            ("3000000000::int4", "22003", 0),
            ("1, 1.5::int8", "0A000", 3),
            ("1.50::text", "0A000", 0),
            ("1.5::bool", "42846", 0),
            ("3000000000::bool", "42846", 0),
            ("true::int8", "42846", 0),
        ] {
            let fault = select(&tokens(list)).unwrap().unwrap_err();
            assert_eq!((fault.code, fault.at), (code, Some(at)), "{list}");
        }
        for (list, message) in [
            ("true::int8", "cannot cast type boolean to bigint"),
            (
                "1.5::int2",
                "a number with a fraction is not cast to smallint here",
            ),
        ] {
            let fault = select(&tokens(list)).unwrap().unwrap_err();
            assert_eq!(fault.message, message, "{list}");
        }
        let fault = select(&tokens("'x'::int4")).unwrap().unwrap_err();
        assert!(fault.message.contains("integer"), "{}", fault.message);
    }

    #[test]
    fn what_is_not_understood_is_not_guessed() {
        for list in [
            "1 + 1",
            "name FROM groups",
            "nosuch()",
            "",
            "1,",
            "(1)",
            ")",
            "pg_sleep(-1)",
            "x",
            "1 LIMIT 1",
            "5x",
            "1e",
            "0x10",
            "1_000",
            "1e400",
            "'1'::int8::int4",
            "'5'::'int8'",
            "'5'::+",
            "CAST(1 AS int8",
            "-'5'",
        ] {
            assert_eq!(names(list), None, "{list}");
        }
    }
}
