//! SELECT over a view: what is answered, what is refused and where, and that no text does harm.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use quotient::sql::select::*;
use quotient::sql::{self, Output, Spanned, SqlError, Statement, Type, Value};
use quotient::view::relation::{Column, Relation};
use quotient::view::select::answer;

fn groups() -> Relation {
    let columns = [
        ("name", Type::Text),
        ("tasks", Type::Int),
        ("cpu_share", Type::Float),
        ("reserved", Type::Bool),
    ];
    let row = |name: &str, tasks: i64, share: Option<f64>, reserved| {
        vec![
            name.into(),
            Value::Int(tasks),
            share.into(),
            Value::Bool(reserved),
        ]
    };
    Relation {
        name: "groups",
        columns: columns.map(|(name, kind)| Column { name, kind }).into(),
        rows: vec![
            row("bi", 12, Some(0.25), false),
            row("etl", 3, Some(0.5), false),
            row("default_wg", 0, None, false),
            row("dash", 7, Some(0.25), true),
        ],
    }
}

fn parse(text: &str) -> Result<Select, SqlError> {
    match &sql::parse(text)?[..] {
        [Statement::Select(select)] => Ok((**select).clone()),
        other => panic!("{other:?}"),
    }
}

fn ask(text: &str) -> Result<Output, SqlError> {
    answer(&parse(text)?, &groups())
}

fn lines(text: &str) -> Vec<String> {
    let table = ask(text).unwrap().to_string();
    table.lines().map(str::to_owned).collect()
}

#[test]
fn an_operator_asks_who_uses_what() {
    assert_eq!(
        lines(
            "select name, cpu_share from groups where cpu_share >= 0.25 order by cpu_share desc, name"
        ),
        [
            "name | cpu_share",
            "-----+----------",
            "etl  |       0.5",
            "bi   |      0.25",
            "dash |      0.25",
            "(3 rows)",
        ]
    );
    assert_eq!(
        lines(
            "SELECT reserved, count(*), sum(tasks) AS tasks FROM groups GROUP BY reserved ORDER BY 1"
        ),
        [
            "reserved | count | tasks",
            "---------+-------+------",
            "false    |     3 |    15",
            "true     |     1 |     7",
            "(2 rows)",
        ]
    );
}

#[test]
fn a_text_cast_to_a_float_stays_one_whatever_its_digits() {
    for (cast, value, canonical) in [
        ("'5'::float8", 5.0, "'5.0'::float8"),
        ("'-0'::float8", -0.0, "'-0.0'::float8"),
        (
            "'9007199254740993'::float8",
            9_007_199_254_740_992.0,
            "'9007199254740992.0'::float8",
        ),
        ("CAST(1e308 AS double precision)", 1e308, "'1e308'::float8"),
        ("' +Inf '::float8", f64::INFINITY, "'inf'::float8"),
    ] {
        let select = parse(&format!("SELECT {cast} FROM groups LIMIT 1")).unwrap();
        assert_eq!(
            select.to_string(),
            format!("SELECT {canonical} FROM \"groups\" LIMIT 1")
        );
        let output = answer(&select, &groups()).unwrap();
        assert_eq!(output.types(), [Type::Float], "{cast}");
        let [Value::Float(x)] = output.rows()[0][..] else {
            panic!("{output}");
        };
        assert_eq!(x.to_bits(), value.to_bits(), "{cast}");
    }
}

#[test]
fn an_aggregate_over_nothing_is_one_row() {
    assert_eq!(
        lines("SELECT count(*), max(tasks) FROM groups WHERE name = 'none'"),
        ["count | max", "------+-----", "    0 | NULL", "(1 row)"]
    );
}

#[test]
fn an_unknown_share_is_neither_small_nor_large() {
    let names = |text: &str| {
        let output = ask(text).unwrap();
        let names = output.rows().iter().map(|row| row[0].to_string());
        names.collect::<Vec<_>>()
    };
    let small = "SELECT name FROM groups WHERE cpu_share < 1";
    assert_eq!(names(small), ["bi", "etl", "dash"]);
    let large = "SELECT name FROM groups WHERE NOT (cpu_share < 1)";
    assert_eq!(names(large), [""; 0]);
    let unknown = "SELECT name FROM groups WHERE cpu_share IS NULL";
    assert_eq!(names(unknown), ["default_wg"]);
    let last = "SELECT name FROM groups ORDER BY cpu_share, tasks";
    assert_eq!(names(last), ["dash", "bi", "etl", "default_wg"]);
}

#[test]
fn a_value_may_stand_there_with_its_type_as_drivers_write_it() {
    let names = |text: &str| {
        let output = ask(text).unwrap();
        let names = output.rows().iter().map(|row| row[0].to_string());
        names.collect::<Vec<_>>()
    };
    for (filter, expected) in [
        (
            "tasks > ('3'::int8) ORDER BY 1 LIMIT ('1'::int4)",
            &["bi"][..],
        ),
        ("tasks = CAST(' 7 ' AS bigint)", &["dash"]),
        ("tasks = ('-0'::smallint)", &["default_wg"]),
        (
            "name = ('bi'::varchar) OR name = 'etl'::text",
            &["bi", "etl"],
        ),
        ("cpu_share = ('5e-1'::double precision)", &["etl"]),
        ("cpu_share < ('infinity'::float8)", &["bi", "etl", "dash"]),
        ("tasks < 'inf'::float8 AND name = 'bi'", &["bi"]),
        (
            "tasks > '-Infinity'::float8 AND tasks < '3.5'::float8",
            &["etl", "default_wg"],
        ),
        (
            "tasks < 'nan'::float8 AND cpu_share < '1e308'::float8",
            &["bi", "etl", "dash"],
        ),
        ("tasks = '7'::float8", &["dash"]),
        ("tasks = (-0)::float8 AND tasks = 0::int2", &["default_wg"]),
        ("tasks > (-1)::int8 AND tasks = 007::float8", &["dash"]),
        ("cpu_share = .5::float8", &["etl"]),
        ("reserved = ('t'::bool)", &["dash"]),
        ("reserved = 'ye'::bool", &["dash"]),
        ("reserved = '\u{b}y '::bool", &["dash"]),
        (
            "NOT reserved = 'tr'::bool AND reserved = 'of'::bool",
            &["bi", "etl", "default_wg"],
        ),
        ("tasks = (NULL::int8)", &[]),
    ] {
        let text = format!("SELECT name FROM groups WHERE {filter}");
        assert_eq!(names(&text), expected, "{text}");
    }
}

/// (statement, SQLSTATE, line, column, part of the message)
const REFUSED: &[(&str, &str, usize, usize, &str)] = &[
    (
        "SELECT nme FROM groups",
        "42703",
        1,
        8,
        "column \"nme\" does not exist",
    ),
    (
        "SELECT name\nFROM groups\nWHERE taks > 1",
        "42703",
        3,
        7,
        "\"taks\"",
    ),
    (
        "SELECT name FROM groups WHERE tasks = TRUE",
        "42883",
        1,
        31,
        "operator bigint = boolean",
    ),
    (
        "SELECT name FROM groups WHERE name > 3",
        "42883",
        1,
        31,
        "operator text > bigint",
    ),
    (
        "SELECT name FROM groups WHERE tasks = 'x'",
        "22P02",
        1,
        39,
        "bigint: \"x\"",
    ),
    (
        "SELECT name FROM groups WHERE tasks LIKE 'x'",
        "42883",
        1,
        31,
        "~~",
    ),
    (
        "SELECT name FROM groups WHERE tasks",
        "42804",
        1,
        31,
        "must be boolean",
    ),
    (
        "SELECT name FROM groups WHERE reserved AND tasks",
        "42804",
        1,
        44,
        "AND must be boolean",
    ),
    (
        "SELECT name, count(*) FROM groups",
        "42803",
        1,
        8,
        "GROUP BY",
    ),
    (
        "SELECT name FROM groups WHERE count(*) > 1",
        "0A000",
        1,
        31,
        "expression",
    ),
    (
        "SELECT name FROM groups GROUP BY count(*)",
        "42803",
        1,
        34,
        "not allowed in GROUP BY",
    ),
    (
        "SELECT sum(name) FROM groups",
        "42883",
        1,
        8,
        "function sum(text)",
    ),
    (
        "SELECT max(reserved) FROM groups",
        "42883",
        1,
        8,
        "function max(boolean)",
    ),
    (
        "SELECT name FROM groups ORDER BY 2",
        "42P10",
        1,
        34,
        "position 2",
    ),
    (
        "SELECT name AS a, tasks AS a FROM groups ORDER BY a",
        "42702",
        1,
        51,
        "ambiguous",
    ),
    (
        "SELECT name FROM groups LIMIT -1",
        "2201W",
        1,
        32,
        "LIMIT must not be negative",
    ),
    (
        "SELECT name FROM groups LIMIT 1.5",
        "0A000",
        1,
        31,
        "whole number",
    ),
    (
        "SELECT DISTINCT name FROM groups",
        "0A000",
        1,
        1,
        "DISTINCT",
    ),
    (
        "SELECT name FROM groups HAVING count(*) > 1",
        "0A000",
        1,
        1,
        "HAVING",
    ),
    (
        "SELECT name FROM groups, workers",
        "0A000",
        1,
        26,
        "more than one view",
    ),
    (
        "SELECT name FROM groups JOIN workers ON TRUE",
        "0A000",
        1,
        30,
        "more than one view",
    ),
    ("SELECT name FROM a.groups", "0A000", 1, 18, "schema"),
    (
        "SELECT name FROM 'groups'",
        "0A000",
        1,
        1,
        "a text for a name",
    ),
    (
        "SELECT name AS 'n' FROM groups",
        "0A000",
        1,
        1,
        "a text for a name",
    ),
    (
        "SELECT name 'n' FROM groups",
        "0A000",
        1,
        1,
        "a text for a name",
    ),
    ("SELECT name FROM groups AS g", "0A000", 1, 18, "FROM"),
    ("SELECT name FROM (SELECT 1) x", "0A000", 1, 19, "FROM"),
    ("SELECT 1", "0A000", 1, 1, "without FROM"),
    (
        "SELECT name || 'x' FROM groups",
        "0A000",
        1,
        8,
        "expression",
    ),
    (
        "SELECT lower(name) FROM groups",
        "0A000",
        1,
        8,
        "a function",
    ),
    (
        "SELECT count(DISTINCT name) FROM groups",
        "0A000",
        1,
        8,
        "DISTINCT",
    ),
    ("SELECT count(*) OVER () FROM groups", "0A000", 1, 8, "OVER"),
    (
        "SELECT name FROM groups WHERE tasks + 1 > 2",
        "0A000",
        1,
        31,
        "expression",
    ),
    (
        "SELECT name FROM groups WHERE name ~ 'x'",
        "0A000",
        1,
        31,
        "operator ~",
    ),
    (
        "SELECT name FROM groups WHERE name ILIKE 'x'",
        "0A000",
        1,
        31,
        "expression",
    ),
    (
        "SELECT name FROM groups WHERE EXISTS (SELECT 1)",
        "0A000",
        1,
        39,
        "expression",
    ),
    (
        "SELECT name FROM groups UNION SELECT name FROM groups",
        "0A000",
        1,
        1,
        "one plain SELECT",
    ),
    (
        "SELECT name FROM groups FOR UPDATE",
        "0A000",
        1,
        1,
        "FOR UPDATE",
    ),
    (
        "SELECT name FROM groups FETCH FIRST 1 ROW ONLY",
        "0A000",
        1,
        1,
        "FETCH",
    ),
    ("SELECT FROM groups", "0A000", 1, 1, "empty select list"),
    (
        "SELECT name FROM groups WHERE",
        "42601",
        1,
        30,
        "expected an expression",
    ),
    (
        "SELECT name FROM groups WHERE (tasks = 1",
        "42601",
        1,
        41,
        "expected )",
    ),
    (
        "SELECT name FROM groups WHERE tasks = 'x'::int8",
        "22P02",
        1,
        39,
        "invalid input for type bigint: \"x\"",
    ),
    (
        "SELECT name FROM groups WHERE tasks = '40000'::int2",
        "22003",
        1,
        39,
        "value \"40000\" is out of range for type smallint",
    ),
    (
        "SELECT name FROM groups WHERE tasks = '99999999999999999999'::int8",
        "22003",
        1,
        39,
        "is out of range",
    ),
    (
        "SELECT name FROM groups WHERE cpu_share = '1e-400'::float8",
        "22003",
        1,
        43,
        "value \"1e-400\" is out of range for type double precision",
    ),
    (
        "SELECT name FROM groups WHERE tasks > '-40000'::int2",
        "22003",
        1,
        39,
        "value \"-40000\" is out of range for type smallint",
    ),
    (
        "SELECT name FROM groups WHERE cpu_share > 1e-400",
        "22003",
        1,
        43,
        "value \"1e-400\" is out of range for type double precision",
    ),
    (
        "SELECT -1e400 FROM groups",
        "22003",
        1,
        9,
        "value \"-1e400\" is out of range",
    ),
    (
        "SELECT name FROM groups WHERE tasks!=-5",
        "42883",
        1,
        36,
        "operator !=- does not exist",
    ),
    (
        "SELECT name\nFROM groups WHERE /*é*/ tasks ==+-5",
        "42883",
        2,
        31,
        "operator == does not exist",
    ),
    (
        "SELECT name FROM groups WHERE tasks ><5",
        "42883",
        1,
        37,
        "operator >< does not exist",
    ),
    (
        "SELECT name FROM groups WHERE tasks>-5 AND é = 1",
        "42703",
        1,
        44,
        "column \"é\"",
    ),
    (
        "SELECT name FROM groups WHERE tasks>/*é*/-5 AND nam = 1",
        "42703",
        1,
        49,
        "column \"nam\"",
    ),
    (
        "SELECT name FROM groups WHERE tasks<=--'\n-5 AND nam = 1",
        "42703",
        2,
        8,
        "column \"nam\"",
    ),
    (
        "SELECT name FROM groups WHERE name>-5",
        "42883",
        1,
        31,
        "operator text > bigint",
    ),
    (
        "SELECT name FROM groups WHERE tasks>-5e400",
        "22003",
        1,
        38,
        "out of range",
    ),
    (
        "SELECT name FROM groups WHERE tasks>-5and reserved",
        "42601",
        1,
        38,
        "found 5and, expected a blank behind the number",
    ),
    ("SELECT 5é FROM groups", "42601", 1, 8, "5é"),
    (
        "SELECT name FROM groups WHERE tasks = 1.5::int4",
        "0A000",
        1,
        39,
        "a cast of a number that is not plain digits",
    ),
    (
        "SELECT 1e3::int8 FROM groups",
        "0A000",
        1,
        8,
        "a cast of a number that is not plain digits",
    ),
    (
        "SELECT 007::text FROM groups",
        "0A000",
        1,
        8,
        "a cast of a number that is not plain digits",
    ),
    (
        "SELECT (-0)::text FROM groups",
        "0A000",
        1,
        10,
        "a cast of a number that is not plain digits",
    ),
    (
        "SELECT .5::varchar FROM groups",
        "0A000",
        1,
        8,
        "a cast of a number that is not plain digits",
    ),
    (
        "SELECT name FROM groups ORDER BY '1'::int4",
        "0A000",
        1,
        34,
        "a cast in ORDER BY",
    ),
    (
        "SELECT name FROM groups ORDER BY tasks, ('1'::int4) DESC",
        "0A000",
        1,
        42,
        "a cast in ORDER BY",
    ),
    (
        "SELECT name FROM groups GROUP BY CAST(1 AS int4)",
        "0A000",
        1,
        39,
        "a cast in GROUP BY",
    ),
    (
        "SELECT name FROM groups WHERE cpu_share < '1e400'::float8",
        "22003",
        1,
        43,
        "value \"1e400\" is out of range for type double precision",
    ),
    (
        "SELECT name FROM groups WHERE name = 'nan'::float8",
        "42883",
        1,
        31,
        "operator text = double precision",
    ),
    (
        "SELECT name FROM groups WHERE tasks = 'x'::date",
        "0A000",
        1,
        39,
        "a cast to this type",
    ),
    (
        "SELECT tasks::text FROM groups",
        "0A000",
        1,
        8,
        "a cast of anything but a literal",
    ),
    (
        "SELECT name FROM groups WHERE tasks = '1'::int4::int8",
        "0A000",
        1,
        48,
        "a cast of a cast",
    ),
    (
        "SELECT name FROM groups WHERE tasks = ('1'::int4)::int8",
        "0A000",
        1,
        50,
        "a cast of a cast",
    ),
    (
        "SELECT name FROM groups WHERE tasks = CAST('1'::int4 AS int8)",
        "0A000",
        1,
        44,
        "a cast of a cast",
    ),
    (
        "SELECT name FROM groups WHERE tasks = -'1'::int4",
        "0A000",
        1,
        40,
        "a sign before a cast",
    ),
    (
        "SELECT name FROM groups WHERE reserved = 1::bool",
        "0A000",
        1,
        42,
        "this cast",
    ),
    ("SELECT name groups WHERE", "42601", 1, 25, "found the end"),
];

#[test]
fn what_is_not_supported_is_refused_where_it_stands() {
    let mut wrong = Vec::new();
    for (text, state, line, column, part) in REFUSED {
        match ask(text) {
            Ok(output) => wrong.push(format!("{text}: answered\n{output}")),
            Err(error) => {
                let found = (error.sqlstate(), error.line(), error.column());
                if found != (*state, *line, *column) || !error.message().contains(part) {
                    wrong.push(format!("{text}: {found:?} {error}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_misspelt_column_finds_its_name() {
    let error = ask("SELECT cpu_shar FROM groups").unwrap_err();
    assert_eq!(error.did_you_mean.as_deref(), Some("cpu_share"));
    assert!(
        error
            .to_string()
            .contains("name, tasks, cpu_share, reserved")
    );
}

#[test]
fn names_are_folded_unless_quoted() {
    assert_eq!(ask("SELECT NAME FROM Groups").unwrap().columns(), ["name"]);
    assert!(ask("SELECT \"NAME\" FROM groups").is_err());
}

// ---- hostile texts ----------------------------------------------------------------------------------------------

#[test]
fn texts_beyond_the_caps_are_refused_unread() {
    let long = format!(
        "SELECT name FROM groups WHERE name = '{}'",
        "x".repeat(9_000)
    );
    assert_eq!(parse(&long).unwrap_err().kind.code(), "too_long");
    let chain = format!("SELECT name FROM groups WHERE b{}", " OR b".repeat(1_000));
    assert_eq!(parse(&chain).unwrap_err().kind.code(), "too_many_tokens");
}

#[test]
fn the_longest_chains_that_are_allowed_do_no_harm_on_a_small_stack() {
    let texts = [
        format!(
            "SELECT name FROM groups WHERE reserved{}",
            " OR reserved".repeat(600)
        ),
        format!(
            "SELECT name FROM groups WHERE{} reserved",
            " NOT".repeat(1_900)
        ),
        format!(
            "SELECT name FROM groups WHERE {}reserved{}",
            "(".repeat(900),
            ")".repeat(900)
        ),
        format!(
            "SELECT name FROM groups WHERE tasks = {}1",
            "- ".repeat(1_900)
        ),
        format!(
            "SELECT name FROM groups WHERE tasks = 1{}",
            " + 1".repeat(900)
        ),
        format!("SELECT name FROM groups{}", " UNION SELECT 1".repeat(600)),
        format!(
            "SELECT name FROM {}groups{}",
            "(".repeat(900),
            ")".repeat(900)
        ),
        format!(
            "SELECT {}1{} FROM groups",
            "CASE WHEN b THEN ".repeat(400),
            " END".repeat(400)
        ),
        format!("SELECT {}'1' FROM groups", "INTERVAL ".repeat(880)),
        format!(
            "SELECT name FROM groups WHERE tasks = '1'{}",
            "::int".repeat(980)
        ),
        format!(
            "SELECT name FROM groups WHERE tasks = '1'{}",
            "::numeric(1,2)".repeat(240)
        ),
        format!(
            "SELECT name FROM groups WHERE tasks = {}'1'{}",
            "(".repeat(400),
            "::int)".repeat(400)
        ),
        format!("SELECT CAST(a AS {}int", "ARRAY<".repeat(900)),
        format!("SELECT CAST(a AS {}int", "STRUCT<a ".repeat(600)),
        format!("SELECT CAST(a AS {}int", "TABLE(a ".repeat(600)),
        format!(
            "SELECT 1 FROM JSON_TABLE('a', 'b' COLUMNS({}",
            "NESTED PATH 'a' COLUMNS(".repeat(300)
        ),
        // Our words end where PostgreSQL's text has not: what stands between is seen by one of the two only.
        format!(
            "SELECT E'\\'' = {}E'\\'' FROM groups",
            "INTERVAL ".repeat(880)
        ),
    ];
    let run = move || {
        for text in &texts {
            match parse(text) {
                Ok(select) => {
                    let _ = (select.to_string(), answer(&select, &groups()));
                }
                Err(error) => assert!(error.render(text).len() < 20_000),
            }
        }
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run);
    thread.unwrap().join().unwrap();
}

/// `sqlparser` reads what stands in a call once for each way in which it may be meant: twice or four times per level.
#[test]
fn calls_inside_calls_are_refused_before_they_are_read() {
    for call in [
        "POSITION(",
        "SUBSTRING(",
        "CAST(",
        "\"f\"(",
        "f(IN (POSITION(",
    ] {
        let text = format!("SELECT {}1", call.repeat(200));
        let error = parse(&text).unwrap_err();
        assert_eq!(error.kind.code(), "unsupported", "{text}");
    }
    // As deep as its own limit allows, whatever stands between the parentheses.
    for level in [
        "(",
        "NOT (",
        "- (",
        "a IN (",
        "a IN ((",
        "ALL (",
        "DISTINCT (",
        "(SELECT ",
        "(SELECT ALL (",
        "(SELECT * FROM (",
        "(a, ",
        "((a), ",
        "CASE WHEN (",
        "(NOT ",
        "a BETWEEN (",
        "a LIKE (",
        "(a AS (",
        "a OR (",
        "x -> (",
        "a[(",
        "[(",
        "{",
        "(1::",
    ] {
        for depth in 1..17 {
            let _ = parse(&format!("SELECT {}1", level.repeat(depth)));
            let _ = parse(&format!("SELECT 1 FROM {}a", level.repeat(depth)));
            let _ = parse(&format!("SELECT 1 FROM a WHERE {}1", level.repeat(depth)));
        }
    }
}

/// A place is found without counting to it: a script of many full SELECTs is read in the time of its tokens.
#[test]
fn places_beyond_and_between_lines_are_exact() {
    let text = "SHOW VARIABLES;\n  SELECT name\r\n, é\nFROM groups WHERE nam = 1";
    let statements = sql::parse(text).unwrap();
    let Statement::Select(select) = &statements[1] else {
        panic!("{statements:?}");
    };
    let at = answer(select, &groups()).unwrap_err();
    assert_eq!((at.line(), at.column()), (4, 19));
    assert_eq!(
        at.render(text).lines().nth(4).unwrap().trim(),
        "|                   ^^^"
    );
    let text = "SHOW VARIABLES; SELECT name FROM groups WHERE";
    let end = sql::parse(text).unwrap_err();
    assert_eq!((end.line(), end.column(), end.span.start), (1, 46, 45));
}

fn name() -> impl Strategy<Value = Spanned<String>> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,8}",
        "[A-Za-z\" .]{1,8}",
        Just("user".to_owned()),
        Just("group".to_owned()),
        Just("name".to_owned()),
    ]
    .prop_map(Spanned::from)
}

fn scalar() -> impl Strategy<Value = Scalar> {
    let literal = prop_oneof![
        Just(Literal::Null),
        prop::sample::select(vec![Type::Int, Type::Float, Type::Bool]).prop_map(Literal::NullOf),
        any::<bool>().prop_map(Literal::Bool),
        any::<i32>().prop_map(|n| Literal::Number(n.to_string())),
        Just(Literal::Number("1.5e3".to_owned())),
        any::<f64>().prop_map(|x| Literal::Float(format!("{x:?}"))),
        "[a-z'%\\\\é]{0,6}".prop_map(Literal::Text),
    ];
    prop_oneof![
        name().prop_map(Scalar::Column),
        literal.prop_map(|literal| Scalar::Literal(literal.into())),
    ]
}

fn predicate() -> impl Strategy<Value = Predicate> {
    let operator = prop::sample::select(vec![
        Compare::Eq,
        Compare::Ne,
        Compare::Lt,
        Compare::Gt,
        Compare::Le,
        Compare::Ge,
    ]);
    let column = || name().prop_map(Scalar::Column);
    let leaf = prop_oneof![
        (column(), operator, scalar()).prop_map(|(left, operator, right)| Predicate::Compare {
            left,
            operator,
            right
        }),
        (
            column(),
            prop::collection::vec(scalar(), 1..3),
            any::<bool>()
        )
            .prop_map(|(scalar, list, negated)| Predicate::In {
                scalar,
                list,
                negated
            }),
        (column(), scalar(), any::<bool>()).prop_map(|(scalar, pattern, negated)| {
            Predicate::Like {
                scalar,
                pattern,
                negated,
            }
        }),
        (column(), scalar(), scalar(), any::<bool>()).prop_map(|(scalar, low, high, negated)| {
            Predicate::Between {
                scalar,
                low,
                high,
                negated,
            }
        }),
        (column(), any::<bool>())
            .prop_map(|(scalar, negated)| Predicate::IsNull { scalar, negated }),
        column().prop_map(Predicate::Truth),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let flat = |and: bool, parts: Vec<Predicate>| {
            let parts = parts.into_iter().flat_map(|part| match part {
                Predicate::And(inner) if and => inner,
                Predicate::Or(inner) if !and => inner,
                other => vec![other],
            });
            parts.collect::<Vec<_>>()
        };
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(move |parts| Predicate::And(flat(true, parts))),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(move |parts| Predicate::Or(flat(false, parts))),
            inner.prop_map(|inner| Predicate::Not(Box::new(inner))),
        ]
    })
}

fn term() -> impl Strategy<Value = Term> {
    let aggregate = (prop::sample::select(Function::ALL.to_vec()), name());
    prop_oneof![
        scalar().prop_map(Term::Scalar),
        aggregate.prop_map(|(function, of)| Term::Aggregate(Aggregate {
            function,
            of: Some(of),
            place: ().into()
        })),
        Just(Term::Aggregate(Aggregate {
            function: Function::Count,
            of: None,
            place: ().into()
        })),
    ]
}

/// No cast may stand there.
fn key_term() -> impl Strategy<Value = Term> {
    term().prop_map(|term| match term {
        Term::Scalar(Scalar::Literal(literal))
            if matches!(literal.value, Literal::Float(_) | Literal::NullOf(_)) =>
        {
            Term::Scalar(Scalar::Literal(Literal::Null.into()))
        }
        other => other,
    })
}

fn select() -> impl Strategy<Value = Select> {
    let alias = prop::option::of(name().prop_map(|name| name.value));
    let item = prop_oneof![
        1 => Just(Item::All(().into())),
        4 => (term(), alias).prop_map(|(term, alias)| Item::Term { term, alias }),
    ];
    let key = (key_term(), any::<bool>(), any::<Option<bool>>()).prop_map(
        |(term, descending, nulls_first)| OrderBy {
            term,
            descending,
            nulls_first,
        },
    );
    (
        prop::collection::vec(item, 1..4),
        name(),
        prop::option::of(predicate()),
        prop::collection::vec(key_term(), 0..3),
        prop::collection::vec(key, 0..3),
        any::<Option<u64>>(),
        any::<u32>(),
    )
        .prop_map(
            |(items, from, filter, group_by, order_by, limit, offset)| Select {
                items,
                from,
                filter,
                group_by,
                order_by,
                limit,
                offset: offset.into(),
            },
        )
}

proptest! {
    #[test]
    fn a_select_reads_back_as_it_prints(select in select()) {
        let text = select.to_string();
        prop_assert_eq!(parse(&text), Ok(select), "{}", text);
    }

    #[test]
    fn any_text_behind_select_is_an_answer_or_an_error_inside_the_text(rest in "\\PC{0,60}") {
        let text = format!("SELECT {rest}");
        if let Err(error) = sql::parse(&text) {
            prop_assert!(error.span.end <= text.chars().count(), "{}", error);
        }
    }
}
