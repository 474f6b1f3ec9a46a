//! Which types parameters have: as PostgreSQL says of the same statement over a table of the same columns.

use crate::Service;
use crate::postgres::Postgres;
use crate::roles::connect;
use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

const RANDOM: usize = 600;

/// The types of the parameters, or a SQLSTATE.
type Told = Result<Vec<Type>, String>;

async fn told(client: &Client, condition: &str) -> Told {
    let text = format!("SELECT name FROM groups WHERE {condition}");
    match client.prepare(&text).await {
        Ok(statement) => Ok(statement.params().to_vec()),
        Err(error) => Err(error.code().map_or("none", |code| code.code()).to_owned()),
    }
}

/// A number with a fraction is a double here, and numeric there.
fn without_numeric(told: Told) -> Told {
    let double = |kind| {
        if kind == Type::NUMERIC {
            Type::FLOAT8
        } else {
            kind
        }
    };
    told.map(|types| types.into_iter().map(double).collect())
}

/// What people, drivers and programs that make statements write.
const ASKED: &[&str] = &[
    "id = $1::int8",
    "id = CAST($1 AS int8)",
    "id = cast ( $1 as smallint )",
    "id = (CAST($1 AS int2))",
    "id = (($1))::int4",
    "id = $1 /* :: text */ :: /* text */ int4",
    "name = $1::varchar AND name = CAST($2 AS character varying)",
    "lag_ms > CAST($1 AS double precision)",
    "$1::bool OR CAST($2 AS boolean)",
    "id IN ($1::int8, $2)",
    "id IN ($1::int2, $2)",
    "id IN ($1::float8, $2)",
    "id IN (CAST($1 AS int2), $2, NULL, '5')",
    "lag_ms IN ($1::int8, $2)",
    "lag_ms IN ($1, $2::int8)",
    "name IN ($1::varchar, $2)",
    "$1::varchar IN ($2, $3)",
    "$1 IN ($2::varchar, $3)",
    "$1 IN ($2::int4, $3)",
    "$1 IN ($2::int4, $3::float8)",
    "$1 IN (1, 2)",
    "$1 IN (1, 5000000000)",
    "$1 IN (1, 1.5)",
    "$1 IN ('a', 'b')",
    "$1 IN ($2, $3)",
    "$1 IN ($2)",
    "$1 IN (NULL)",
    "$1 IN (id)",
    "id IN ($1)",
    "id IN ($1, tasks)",
    "id IN ($1, lag_ms)",
    "id IN ($1, $2, lag_ms)",
    "$1::int4 IN (id, 5)",
    "id NOT IN (1.5, $1)",
    "id BETWEEN $1::int8 AND $2",
    "id BETWEEN $1 AND $2::int2",
    "lag_ms NOT BETWEEN $1::int8 AND $2",
    "id BETWEEN CAST($1 AS float8) AND $2",
    "$1 BETWEEN 1 AND $2",
    "$1::int2 BETWEEN $2 AND $3",
    "CAST($1 AS int2) BETWEEN $2 AND $3",
    "5 BETWEEN $1 AND $2",
    "$1 BETWEEN $2 AND $3",
    "$1 NOT BETWEEN id AND 5",
    "$1 = 5",
    "$1 = -5",
    "$1 = 5000000000",
    "$1 = -2147483648",
    "$1 = 1.5",
    "$1 = 1e3",
    "$1 = 'a'",
    "$1 = NULL",
    "$1 = TRUE",
    "$1 = $2",
    "$1 = $2::int4",
    "$1::int8 = $2",
    "$1::varchar = $2",
    "$1 = (-5)::int8",
    "$1 = ((5))::int8",
    "$1 = '5'::int8",
    "$1 = CAST('5' AS int2)",
    "$1 = CAST(-5 AS int8)",
    "$1",
    "NOT $1",
    "NOT ($1) AND $2",
    "id = 1 OR $1",
    "$1::int4 IS NULL",
    "CAST($1 AS int4) IS NOT NULL",
    "name LIKE $1",
    "$1 LIKE $2",
    "$1 LIKE name",
    "$1::varchar NOT LIKE $2",
    "name LIKE CAST($1 AS varchar)",
    "id = $1 AND tasks = $1::int4",
    "id = $1::int4 AND lag_ms = $1",
    "lag_ms = $1 AND id = $1",
    "(id) = ($1)",
    "(((id))) > (($1)) AND ((name)) = $2",
    "((id)) IN (($1), (($2)))",
    "$1 < id",
    "$1>=id AND id!=$2",
    "name = $1 LIMIT $2 OFFSET $3",
    "name = $1 LIMIT CAST($2 AS int2) OFFSET ($3::int4)",
    "TRUE LIMIT ($1)",
    "name = $2 AND id = $1",
    "name /* = $3 */ = $1 -- $2\n",
    "name = '$2' OR \"id\" = $1",
    "id=$1and tasks = 1",
    "id = $1x",
    "id = $1$2",
    "id IN ($1$2)",
    "id = 1$1",
    "id = $1.5",
    "name = 'a'$1",
    "name = $1'a'",
];

/// What PostgreSQL takes and the port does not: its readers do not agree where these comments end.
const ONLY_THERE: &[&str] = &["name /* /* */ = $2 */ = $1", "name -- \r = $1"];

/// What PostgreSQL refuses, and is answered here: a comparison of anything with a text, which NULL is too.
const ONLY_HERE: &[(&str, &[Type])] = &[
    ("$1 IS NULL", &[Type::TEXT]),
    ("id = $2", &[Type::TEXT, Type::INT8]),
    ("$1 IN (id, 5)", &[Type::INT8]),
    ("id = $1::text", &[Type::TEXT]),
];

struct Dice(TestRunner);

impl Dice {
    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        let tree = (0..choices.len()).new_tree(&mut self.0);
        choices[tree.map_or(0, |tree| tree.current())].clone()
    }

    fn operand(&mut self, parameters: &mut usize) -> String {
        let known = [
            "id",
            "id",
            "tasks",
            "lag_ms",
            "name",
            "5",
            "-5",
            "1.5",
            "'5'",
            "NULL",
            "TRUE",
            "'5'::int2",
            "(7)::float8",
        ];
        if self.of(&[true, false]) {
            return self.of(&known).to_owned();
        }
        *parameters += 1;
        let number = *parameters;
        let kind = self.of(&[
            "int2", "int4", "bigint", "float8", "text", "varchar", "boolean",
        ]);
        match self.of(&[0, 0, 0, 1, 2, 3]) {
            0 => format!("${number}"),
            1 => format!("${number}::{kind}"),
            2 => format!("CAST(${number} AS {kind})"),
            _ => format!("((${number})::{kind})"),
        }
    }

    fn condition(&mut self) -> String {
        let mut count = 0;
        let mut parts = Vec::new();
        for _ in 0..self.of(&[1, 1, 2]) {
            let mut next = || self.operand(&mut count);
            let (a, b, c, d) = (next(), next(), next(), next());
            let operator = self.of(&["=", "<>", ">", "<="]);
            parts.push(match self.of(&[0, 1, 2, 3, 4]) {
                0 => format!("{a} {operator} {b}"),
                1 => format!("{a} IN ({b}, {c})"),
                2 => format!("{a} NOT IN ({b}, {c}, {d})"),
                3 => format!("{a} BETWEEN {b} AND {c}"),
                _ => format!("{a} LIKE {b}"),
            });
        }
        parts.join(" AND ")
    }
}

#[tokio::test]
async fn parameters_have_the_types_that_postgresql_finds() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let service = Service::new();
    let ours = connect(&service, "ops", "").await.unwrap();
    let columns = ours.prepare("SELECT * FROM groups").await.unwrap();
    let columns = columns.columns().iter().map(|column| {
        let collate = if *column.type_() == Type::TEXT {
            " COLLATE \"C\""
        } else {
            ""
        };
        format!("\"{}\" {}{collate}", column.name(), column.type_().name())
    });
    let columns: Vec<String> = columns.collect();
    server.script(&format!("CREATE TABLE groups ({})", columns.join(", ")));
    let (theirs, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);

    let mut wrong = Vec::new();
    for condition in ASKED {
        let here = told(&ours, condition).await;
        let there = without_numeric(told(&theirs, condition).await);
        if here != there {
            wrong.push(format!(
                "{condition}\n  ours   {here:?}\n  theirs {there:?}"
            ));
        }
    }
    for condition in ONLY_THERE {
        let here = told(&ours, condition).await;
        let there = told(&theirs, condition).await;
        if here != Err("0A000".into()) || there.is_err() {
            wrong.push(format!(
                "{condition}\n  ours   {here:?}\n  theirs {there:?}"
            ));
        }
    }
    for (condition, types) in ONLY_HERE {
        let here = told(&ours, condition).await;
        let there = told(&theirs, condition).await;
        if here.as_deref() != Ok(*types) || there.is_ok() {
            wrong.push(format!(
                "{condition}\n  ours   {here:?}\n  theirs {there:?}"
            ));
        }
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]);
    let mut dice = Dice(TestRunner::new_with_rng(Config::default(), rng));
    let mut compared = 0;
    for _ in 0..RANDOM {
        let condition = dice.condition();
        let there = without_numeric(told(&theirs, &condition).await);
        // A mistake in the types is told when it is described, here as there, or, since a value without a type goes with
        // any, not at all.
        if there.is_err() {
            continue;
        }
        let here = told(&ours, &condition).await;
        compared += usize::from(condition.contains('$'));
        if here != there {
            wrong.push(format!(
                "{condition}\n  ours   {here:?}\n  theirs {there:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > RANDOM / 5, "{compared} were compared");
}

/// The value arrives as the type that was told, however the cast is written, and stands apart from what it touches.
#[tokio::test]
async fn values_of_cast_parameters_arrive() {
    let service = Service::new();
    service.run("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='3')");
    let client = connect(&service, "ops", "").await.unwrap();
    let none: [Option<i64>; 1] = [None];
    for (condition, value, rows) in [
        ("cpu_core_limit>CAST($1 AS int8)", -5_i64, 2),
        ("cpu_core_limit>$1::int8", -5, 2),
        ("cpu_core_limit>$1", -5, 2),
        ("cpu_core_limit!=$1", -5, 2),
        ("$1!=cpu_core_limit", -5, 2),
        ("cpu_core_limit<>$1", 3, 1),
        ("cpu_core_limit<$1", -5, 0),
        ("cpu_core_limit=$1 AND name = 'bi'", 3, 1),
        ("cpu_core_limit IN ($1::int8,CAST($1 AS int8))", 3, 1),
        ("cpu_core_limit BETWEEN($1)AND $1", 3, 1),
        ("cpu_core_limit BETWEEN CAST($1 AS int8)AND 3", -5, 2),
        ("cpu_core_limit>/*=*/$1--5", -5, 2),
    ] {
        let text = format!("SELECT name FROM groups WHERE {condition}");
        let found = client.query(&text, &[&value]).await;
        assert_eq!(found.unwrap().len(), rows, "{condition}");
        assert_eq!(client.query(&text, &[&none[0]]).await.unwrap().len(), 0);
    }
}

/// Also where it stands in the list of what is asked for, and is NULL when that is described.
#[tokio::test]
async fn a_column_of_a_cast_parameter_has_its_type() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    let text =
        "SELECT $1::int8, CAST($2 AS float8), $3::bool, $4::text, $5, NULL::int8 FROM groups";
    let statement = client.prepare(text).await.unwrap();
    let columns = statement.columns().iter();
    let columns: Vec<Type> = columns.map(|column| column.type_().clone()).collect();
    let [number, double, truth, words] = [Type::INT8, Type::FLOAT8, Type::BOOL, Type::TEXT];
    assert_eq!(
        columns,
        [&number, &double, &truth, &words, &words, &number].map(Clone::clone)
    );
    let row = client
        .query_one(&statement, &[&-5_i64, &-0.5, &true, &"a", &"b"])
        .await
        .unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, f64>(1)), (-5, -0.5));
    assert!(row.get::<_, bool>(2) && row.get::<_, Option<i64>>(5).is_none());
    assert_eq!((row.get::<_, &str>(3), row.get::<_, &str>(4)), ("a", "b"));
    for wrong in [
        "name = $1::int8",
        "$1::float8",
        "name LIKE CAST($1 AS int4)",
    ] {
        let text = format!("SELECT name FROM groups WHERE {wrong}");
        let error = client.prepare(&text).await.unwrap_err();
        let code = error.code().unwrap().code();
        assert!(["42883", "42804"].contains(&code), "{wrong}: {code}");
    }
}

/// Without FROM, too, a literal has the type of its cast.
#[tokio::test]
async fn a_value_without_a_view_has_the_type_of_its_cast() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    for text in [
        "SELECT $1::int8",
        "SELECT CAST($1 AS bigint) AS n",
        "SELECT ($1)::int8",
    ] {
        let statement = client.prepare(text).await.unwrap();
        assert_eq!(statement.params(), [Type::INT8], "{text}");
        assert_eq!(*statement.columns()[0].type_(), Type::INT8, "{text}");
        for value in [Some(-7_i64), Some(5_000_000_000), None] {
            let row = client.query_one(&statement, &[&value]).await.unwrap();
            assert_eq!(row.get::<_, Option<i64>>(0), value, "{text}");
        }
    }
    let row = client
        .query_one(
            "SELECT $1::float8, CAST($2 AS bool), $3::text, $4",
            &[&-0.5, &true, &"a", &"b"],
        )
        .await
        .unwrap();
    assert_eq!((row.get::<_, f64>(0), row.get::<_, bool>(1)), (-0.5, true));
    assert_eq!((row.get::<_, &str>(2), row.get::<_, &str>(3)), ("a", "b"));
    for (text, code) in [
        ("SELECT 'x'::int8", "22P02"),
        ("SELECT '40000'::int2", "22003"),
        ("SELECT CAST('1e-400' AS float8)", "22003"),
        ("SELECT 5x", "42601"),
        ("SELECT 1e", "42601"),
    ] {
        let error = client.query(text, &[]).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), code, "{text}");
    }
    for (text, shown) in [
        ("SELECT '5'::int8", "5"),
        ("SELECT ' f '::bool", "f"),
        ("SELECT +5", "5"),
        ("SELECT - 5", "-5"),
        ("SELECT 1e3::float8", "1000"),
        ("SELECT .5", "0.5"),
        ("SELECT-1.5e-1", "-0.15"),
    ] {
        let rows = client.simple_query(text).await.unwrap();
        let found = rows.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        assert_eq!(found, Some(shown), "{text}");
    }
}

/// A parameter alone in the list has a column of the type that the client says.
#[tokio::test]
async fn a_column_of_a_parameter_has_its_type() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    let typed = [Type::INT8, Type::INT4, Type::INT2, Type::FLOAT8, Type::BOOL];
    for text in [
        "SELECT $1, $2 AS a, $3 b, $4, $5, $6",
        "SELECT $1, $2 AS a, $3 b, $4, $5, $6 FROM groups",
    ] {
        let statement = client.prepare_typed(text, &typed).await.unwrap();
        let columns = statement.columns().iter();
        let columns: Vec<_> = columns.map(|it| (it.name(), it.type_().clone())).collect();
        let [a, b, c, d, e] = typed.clone();
        let unnamed = "?column?";
        assert_eq!(
            columns,
            [
                (unnamed, a),
                ("a", b),
                ("b", c),
                (unnamed, d),
                (unnamed, e),
                (unnamed, Type::TEXT)
            ],
            "{text}"
        );
        for double in [-0.5, 7.0, f64::INFINITY] {
            let row = client
                .query_one(
                    &statement,
                    &[&-7_i64, &70_000, &7_i16, &double, &true, &"x"],
                )
                .await
                .unwrap();
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1)), (-7, 70_000));
            assert_eq!((row.get::<_, i16>(2), row.get::<_, f64>(3)), (7, double));
            assert_eq!((row.get::<_, bool>(4), row.get::<_, &str>(5)), (true, "x"));
        }
        let none: Option<i64> = None;
        let row = client
            .query_one(&statement, &[&none, &1, &1_i16, &0.0, &false, &"x"])
            .await
            .unwrap();
        assert_eq!(row.get::<_, Option<i64>>(0), None, "{text}");
    }
    let text = "SELECT *, $1 FROM groups";
    let found = client.prepare_typed(text, &[Type::INT8]).await.unwrap();
    assert_eq!(*found.columns().last().unwrap().type_(), Type::INT8);
}

#[tokio::test]
async fn a_text_with_escapes_says_what_it_says_in_postgresql() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    let text = r"SELECT E'a\nb', E'\\', E'\u00e9''', 'a\nb'";
    let row = client.query_one(text, &[]).await.unwrap();
    let found = [0, 1, 2, 3].map(|at| row.get::<_, &str>(at));
    assert_eq!(found, ["a\nb", "\\", "é'", "a\\nb"]);
    // To the reader of scripts the text ends at the second quote.
    let script = r"SELECT E'\'; CREATE RESOURCE GROUP a WITH ('cpu_weight'='1'); --'";
    assert!(client.batch_execute(script).await.is_err());
    assert!(!service.governor.has_group("a"));
}
