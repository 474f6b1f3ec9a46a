//! SELECT over a view answers as PostgreSQL answers over a table of the same rows: random statements, both asked.
//!
//! Starts a PostgreSQL of its own in a folder of its own, reachable by a Unix socket only. Without one installed the test
//! says so and passes, unless `QUOTIENT_REQUIRE_TOOLS` is set.

#[path = "support/postgres.rs"]
mod postgres;

use postgres::Postgres;
use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use quotient::metrics::memory::{GroupMemory, ProcessMemory};
use quotient::metrics::snapshot::GroupRow;
use quotient::settings::VARIABLES;
use quotient::sql::{self, Statement, Type, Value};
use quotient::unit::Bytes;
use quotient::view::queries::QueryRow;
use quotient::view::relation::{Column, Relation};
use quotient::view::{memory, select, tables};
use std::fmt::Write;

const STATEMENTS: usize = 3_000;

const COLUMNS: [(&str, Type); 5] = [
    ("id", Type::Int),
    ("n", Type::Int),
    ("x", Type::Float),
    ("t", Type::Text),
    ("b", Type::Bool),
];

/// Rows with every kind of trouble: NULLs, ties, NaN, infinities, both zeros, empty and odd texts. No number whose
/// square overflows: PostgreSQL's avg computes it, and fails.
fn relation() -> Relation {
    let texts = ["", "a", "A", "ab", "b%", "a_b", "ä", "10", "zz\\", "NULL"];
    let floats = [
        0.0,
        -0.0,
        1.5,
        -2.25,
        1e100,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        10.0,
    ];
    let row = |i: usize| {
        let some = |keep: bool, value: Value| if keep { value } else { Value::Null };
        vec![
            Value::Int(i as i64),
            some(!i.is_multiple_of(7), Value::Int((i as i64 * 37) % 11 - 5)),
            some(
                !i.is_multiple_of(5),
                Value::Float(floats[(i * 13) % floats.len()]),
            ),
            some(!i.is_multiple_of(6), texts[(i * 7) % texts.len()].into()),
            some(!i.is_multiple_of(4), Value::Bool(i.is_multiple_of(3))),
        ]
    };
    let column = |(name, kind)| Column { name, kind };
    Relation {
        name: "v",
        columns: COLUMNS.into_iter().map(column).collect(),
        rows: (0..90).map(row).collect(),
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Float(x) => format!("'{x}'::float8"),
        other => other.to_string(),
    }
}

fn table(relation: &Relation) -> String {
    let column = |column: &Column| {
        let collate = if column.kind == Type::Text {
            " COLLATE \"C\""
        } else {
            ""
        };
        format!("{} {}{collate}", column.name, column.kind.name())
    };
    let name = relation.name;
    let columns: Vec<String> = relation.columns.iter().map(column).collect();
    let mut script = format!("CREATE TABLE {name} ({});\n", columns.join(", "));
    for row in &relation.rows {
        let cells: Vec<String> = row.iter().map(literal).collect();
        let _ = writeln!(script, "INSERT INTO {name} VALUES ({});", cells.join(", "));
    }
    script
}

// ---- random statements ------------------------------------------------------------------------------------------

struct Dice(TestRunner);

impl Dice {
    fn new() -> Dice {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
        Dice(TestRunner::new_with_rng(Config::default(), rng))
    }

    fn below(&mut self, n: usize) -> usize {
        let tree = (0..n).new_tree(&mut self.0);
        tree.map_or(0, |tree| tree.current())
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn column(&mut self) -> &'static str {
        COLUMNS[self.below(COLUMNS.len())].0
    }

    /// Mostly of a type that fits, sometimes of one that does not.
    fn literal(&mut self, column: &str) -> String {
        let fits = self.below(12) > 0;
        let numbers = [
            "0",
            "3",
            "-2",
            "+3",
            "1.5",
            "'4'",
            "' 7 '",
            "('4'::int8)",
            "CAST(' -2' AS integer)",
            "(-2)::int2",
            "1e1",
            "NULL",
        ];
        let texts = ["'a'", "'ab'", "''", "'10'", "'B'", "('a'::varchar)", "NULL"];
        let truths = [
            "TRUE",
            "FALSE",
            "'yes'",
            "'0'",
            "('t'::boolean)",
            "'ye'::bool",
            "NULL",
        ];
        let any = [
            "'x'",
            "5",
            "TRUE",
            "'1.5'",
            "2.5",
            "'nan'",
            "'7'::int2",
            "n",
            "t",
            "b",
        ];
        let floats = [
            "'NaN'",
            "'Infinity'",
            "'-inf'",
            "0",
            "-2.25",
            "'1.5'",
            "('1.5'::float8)",
            "'nan'::float8",
            "'-INFINITY'::float8",
            "'1e308'::float8",
            "10",
        ];
        match (column, fits) {
            (_, false) => self.of(&any),
            ("id" | "n", _) => self.of(&numbers[..10]),
            ("x", _) => self.of(&floats),
            ("t", _) => self.of(&texts),
            _ => self.of(&truths),
        }
        .to_owned()
    }

    fn condition(&mut self, depth: usize) -> String {
        let column = self.column();
        let not = self.of(&["", "", "NOT "]);
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 | 1 => {
                let operator = self.of(&["=", "<>", "<", ">", "<=", ">=", "!="]);
                // What may stand there without a blank; `!=-` would be another operator.
                let blanks = match operator {
                    "!=" => &[" ", " ", "/*-*/", "--+\n"][..],
                    _ => &[" ", "", "", "/*-*/", "--+\n"][..],
                };
                let (before, behind) = (self.of(blanks), self.of(blanks));
                format!("{column}{before}{operator}{behind}{}", self.literal(column))
            }
            2 => {
                let list: Vec<String> = (0..=self.below(3)).map(|_| self.literal(column)).collect();
                format!("{column} {not}IN ({})", list.join(", "))
            }
            3 => {
                let (low, high) = (self.literal(column), self.literal(column));
                format!("{column} {not}BETWEEN {low} AND {high}")
            }
            4 => {
                let column = if self.below(8) > 0 { "t" } else { column };
                let patterns = [
                    "'a%'", "'_'", "'%b\\%'", "'%'", "''", "NULL", "'a\\_b'", "'a%'", "'%a%'",
                ];
                let pattern = self.of(&patterns);
                format!("{column} {not}LIKE {pattern}")
            }
            5 => format!("{column} IS {not}NULL"),
            6 => format!("NOT ({})", self.condition(depth - 1)),
            kind => {
                let word = if kind == 7 { "AND" } else { "OR" };
                let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
                format!("({a}) {word} {b}")
            }
        }
    }

    fn filter(&mut self) -> String {
        match self.below(4) {
            0 => String::new(),
            1 if self.below(4) == 0 => " WHERE b".to_owned(),
            _ => format!(" WHERE {}", self.condition(2)),
        }
    }

    fn aggregate(&mut self) -> String {
        match self.of(&["count", "sum", "min", "max", "avg", "*"]) {
            "*" => "count(*)".to_owned(),
            // Sums of infinities and NaN depend on the order of the rows.
            function @ ("sum" | "avg") if self.below(8) > 0 => format!("{function}(n)"),
            function => format!("{function}({})", self.column()),
        }
    }

    fn direction(&mut self) -> &'static str {
        let directions = [
            "",
            " ASC",
            " DESC",
            " NULLS FIRST",
            " DESC NULLS LAST",
            " DESC NULLS FIRST",
        ];
        directions[self.below(directions.len())]
    }

    /// A statement, and whether its rows have a total order.
    fn statement(&mut self) -> (String, bool) {
        let filter = self.filter();
        if self.below(3) == 0 {
            let key = self.column();
            let (first, second) = (self.aggregate(), self.aggregate());
            let ordered = self.below(2) == 0;
            return match self.below(4) {
                0 => (format!("SELECT {first}, {second} FROM v{filter}"), true),
                1 => (
                    format!("SELECT {key}, {first} AS a FROM v{filter} GROUP BY {key}"),
                    false,
                ),
                2 if ordered => (
                    format!(
                        "SELECT {key} AS k, {first} FROM v{filter} GROUP BY 1 ORDER BY k{} LIMIT 4",
                        self.direction()
                    ),
                    true,
                ),
                2 => {
                    let other = self.column();
                    (
                        format!("SELECT {other}, {first} FROM v{filter} GROUP BY {key}"),
                        false,
                    )
                }
                _ => (
                    format!(
                        "SELECT {key}, {first} FROM v{filter} GROUP BY {key} ORDER BY {second}{}, {key}",
                        self.direction()
                    ),
                    true,
                ),
            };
        }
        let items = match self.below(4) {
            0 => "*".to_owned(),
            1 => format!("id, {}", self.column()),
            2 => format!("{} AS id, n AS m", self.column()),
            _ => format!("n, {}, 7 AS seven, 'x' AS y, NULL", self.column()),
        };
        if self.below(3) == 0 {
            return (format!("SELECT {items} FROM v{filter}"), false);
        }
        let key = self.of(&["n", "x", "t", "b", "1", "2", "m", "9"]);
        let direction = self.direction();
        let limit = [
            "",
            " LIMIT 5",
            " LIMIT 3 OFFSET 2",
            " OFFSET 80",
            " LIMIT ('4'::int8) OFFSET ('1'::int4)",
            " LIMIT ALL",
            " LIMIT 0",
        ];
        let limit = limit[self.below(limit.len())];
        let total = if items.contains("AS id") {
            "n, x, t, b"
        } else {
            "id"
        };
        let ordered = !items.contains("AS id");
        let limit = if ordered { limit } else { "" };
        (
            format!("SELECT {items} FROM v{filter} ORDER BY {key}{direction}, {total}{limit}"),
            ordered,
        )
    }
}

// ---- answers ----------------------------------------------------------------------------------------------------

/// Rows as texts, or a SQLSTATE.
type Answer = Result<Vec<Vec<Option<String>>>, String>;

fn ours(statement: &str, relation: &Relation) -> Answer {
    let answer = || {
        let parsed = sql::parse(statement)?;
        let [Statement::Select(parsed)] = &parsed[..] else {
            panic!("{statement} is not one SELECT");
        };
        select::answer(parsed, relation)
    };
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::Bool(b) => Some(if *b { "t" } else { "f" }.to_owned()),
        other => Some(other.to_string()),
    };
    match answer() {
        Ok(output) => Ok(output
            .rows()
            .iter()
            .map(|row| row.iter().map(text).collect())
            .collect()),
        Err(error) => Err(error.sqlstate().to_owned()),
    }
}

fn same_cell(a: &Option<String>, b: &Option<String>) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return a == b;
    };
    let number = |text: &str| {
        let text = text.replace("Infinity", "inf");
        text.parse::<f64>().ok()
    };
    a == b
        || match (number(a), number(b)) {
            (Some(x), Some(y)) => {
                x == y
                    || (x.is_nan() && y.is_nan())
                    || (x - y).abs() <= 1e-12 * x.abs().max(y.abs())
            }
            _ => false,
        }
}

fn same(ours: &Answer, theirs: &Answer, ordered: bool) -> bool {
    match (ours, theirs) {
        (Ok(a), Ok(b)) => {
            let (mut a, mut b) = (a.clone(), b.clone());
            if !ordered {
                // Zeros of either sign are one number, but two texts.
                let key = |row: &Vec<Option<String>>| {
                    row.iter()
                        .map(|cell| match cell.as_deref() {
                            Some("-0") => Some("0".to_owned()),
                            other => other.map(|text| text.replace("Infinity", "inf")),
                        })
                        .collect::<Vec<_>>()
                };
                a.sort_by_key(key);
                b.sort_by_key(key);
            }
            a.len() == b.len()
                && a.iter().zip(&b).all(|(a, b)| {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_cell(a, b))
                })
        }
        (a, b) => a == b,
    }
}

/// The views of the governor that have NULLs, numbers and texts of their own, as tables.
fn views() -> Vec<Relation> {
    let group = |name: &str, used, limit| GroupRow {
        name: name.to_owned(),
        memory: GroupMemory {
            used,
            peak: used,
            limit,
            reserved: 7,
            ..GroupMemory::default()
        },
        ..GroupRow::default()
    };
    let groups = [
        group("bi", Some(10), Some(100)),
        group("etl", None, None),
        group("ml", Some(30), Some(20)),
    ];
    let query = |id, state, memory: Option<u64>| QueryRow {
        id,
        group: "bi".to_owned(),
        state,
        memory: memory.map(|bytes| (Bytes(bytes), Bytes(bytes + 1))),
        ..QueryRow::default()
    };
    let queries = [
        query(1, "running", Some(4)),
        query(2, "waiting", None),
        query(3, "ending", None),
    ];
    let process = ProcessMemory {
        limit: 1 << 40,
        resident: Some(1 << 33),
        ..ProcessMemory::default()
    };
    let variables = VARIABLES.map(|v| [v.name, v.example, v.default, v.allowed].map(str::to_owned));
    vec![
        memory::memory(&process, &groups, &queries),
        tables::variables(variables),
    ]
}

/// Statements that people ask of these views, and every way in which a pattern can end.
const ASKED: &[&str] = &[
    "SELECT * FROM memory ORDER BY scope, group_name, query_id",
    "SELECT scope, count(*), sum(used_bytes), max(peak_bytes), avg(limit_bytes) FROM memory GROUP BY scope ORDER BY scope",
    "SELECT group_name FROM memory WHERE used_bytes > limit_bytes",
    "SELECT scope FROM memory WHERE NOT used_bytes > 5 ORDER BY 1",
    "SELECT query_id FROM memory WHERE query_id IS NOT NULL ORDER BY used_bytes DESC NULLS LAST, query_id",
    "SELECT count(*) FROM memory WHERE scope IN ('group', NULL)",
    "SELECT * FROM variables ORDER BY variable_name",
    "SELECT variable_name FROM variables WHERE value <> default_value ORDER BY 1",
    "SELECT variable_name FROM variables WHERE variable_name LIKE 'query\\_%' ORDER BY 1",
    "SELECT id FROM v WHERE t LIKE 'a\\' ORDER BY id",
    "SELECT id FROM v WHERE t LIKE 'zzz\\' ORDER BY id",
    "SELECT id FROM v WHERE t LIKE '\\' ORDER BY id",
    "SELECT id FROM v WHERE t LIKE '%\\' ORDER BY id",
    "SELECT id FROM v WHERE t LIKE '_%\\' ORDER BY id",
    "SELECT id FROM v WHERE t LIKE '%__\\' ORDER BY id",
    "SELECT id FROM v WHERE t LIKE '%____\\' ORDER BY id",
    "SELECT id FROM v WHERE t LIKE '%b\\' ORDER BY id",
    "SELECT id FROM v WHERE t LIKE 'zz\\\\' ORDER BY id",
    "SELECT id FROM v WHERE t LIKE t ORDER BY id",
    "SELECT id FROM v WHERE 'zz' LIKE t ORDER BY id",
    "SELECT id FROM v WHERE 'zzz' LIKE t ORDER BY id",
    "SELECT id FROM v WHERE 'zzz' NOT LIKE t ORDER BY id",
    "SELECT id FROM v WHERE id < 5 AND t LIKE 'a\\' ORDER BY id",
    "SELECT count(*) FROM v WHERE b OR t LIKE 'q\\'",
    "SELECT id FROM v WHERE id < 'inf'::float8 ORDER BY id",
    "SELECT id FROM v WHERE t = 'nan'::float8",
    "SELECT '5'::float8, '-0'::float8, '9007199254740993'::float8, 007::float8, .5::float8 FROM v",
    "SELECT '1e400'::float8 FROM v",
    "SELECT '-1e-400'::float8 FROM v",
    "SELECT '--inf'::float8 FROM v",
    "SELECT ' \u{b}of '::bool, 'y'::bool, 'fal'::bool, (-5)::text, 17::varchar FROM v",
    "SELECT id FROM v WHERE n IN ('-3'::float8, 3::float8) OR n = '2.5'::float8 ORDER BY id",
    "SELECT 'o'::bool FROM v",
    "SELECT id FROM v WHERE x > '1e-400'",
    "SELECT id FROM v WHERE id < '99999999999999999999'",
    "SELECT '99999999999999999999x'::int8 FROM v",
    "SELECT '32768'::int2 FROM v",
    "SELECT (-32768)::int2, CAST(-32768 AS int2), '-9223372036854775808'::int8 FROM v",
    // Where an operator ends: a sign behind it is the value's, unless the operator has one of ~ ! @ # % ^ & | ` ?
    "SELECT id FROM v WHERE n>-2 ORDER BY id",
    "SELECT id FROM v WHERE n=-2 ORDER BY id",
    "SELECT id FROM v WHERE n<>-2 ORDER BY id",
    "SELECT id FROM v WHERE n<-2 ORDER BY id",
    "SELECT id FROM v WHERE n<=-2 ORDER BY id",
    "SELECT id FROM v WHERE n>=+2 ORDER BY id",
    "SELECT id FROM v WHERE n>- 2 ORDER BY id",
    "SELECT id FROM v WHERE n>+-2 ORDER BY id",
    "SELECT id FROM v WHERE n>-+2 ORDER BY id",
    "SELECT id FROM v WHERE n<>-+-2 ORDER BY id",
    "SELECT id FROM v WHERE x>-2.25 ORDER BY id",
    "SELECT id FROM v WHERE x<=-.5 ORDER BY id",
    "SELECT id FROM v WHERE -2<n AND+3>=n ORDER BY id",
    "SELECT id FROM v WHERE n>(-2) AND(-2)<n ORDER BY id",
    "SELECT id FROM v WHERE n BETWEEN-2 AND+2 ORDER BY id",
    "SELECT id FROM v WHERE n IN(-2,+2,-+1) ORDER BY id",
    "SELECT id FROM v WHERE n!=2 AND t!='a' AND NOT(n!= -2) ORDER BY id",
    "SELECT id FROM v WHERE n!=-2",
    "SELECT id FROM v WHERE n!=+2",
    "SELECT id FROM v WHERE n!=- 2",
    "SELECT id FROM v WHERE n><2",
    "SELECT id FROM v WHERE n==2",
    "SELECT id FROM v WHERE n<=>2",
    "SELECT id FROM v WHERE n<=>-2",
    "SELECT id FROM v WHERE n=>2",
    "SELECT id FROM v WHERE n=!2",
    "SELECT id FROM v WHERE n>*2",
    "SELECT id FROM v WHERE n>@2",
    "SELECT id FROM v WHERE n < = 2",
    "SELECT id FROM v WHERE n>--2\n-2 ORDER BY id",
    "SELECT id FROM v WHERE n>=-- 'x\n+2 ORDER BY id",
    "SELECT id FROM v WHERE n<>--\n-2 ORDER BY id",
    "SELECT id FROM v WHERE n!=--\n2 ORDER BY id",
    "SELECT id FROM v WHERE n=--\r-2 ORDER BY id",
    "SELECT id FROM v WHERE n>/*-*/-2 ORDER BY id",
    "SELECT id FROM v WHERE n</*'*/-2 ORDER BY id",
    "SELECT id FROM v WHERE n>=/* = */2 ORDER BY id",
    "SELECT id FROM v WHERE n!=/**/-2 ORDER BY id",
    "SELECT id FROM v WHERE n>-/**/2 ORDER BY id",
    "SELECT id FROM v WHERE n>-/* a /* b */ c */2 ORDER BY id",
    "SELECT id FROM v WHERE n>--2",
    "SELECT*/**/ FROM v WHERE id<3",
    "SELECT count(*)--\n FROM v",
    "SELECT-2,+2,- -2,-+ -2 FROM v",
    "SELECT 2x FROM v",
    "SELECT 2_x FROM v",
    "SELECT 1e FROM v",
    "SELECT id FROM v WHERE n=2and b",
    "SELECT id FROM v WHERE n BETWEEN-2and 2",
    "SELECT 2\"x\" FROM v",
    "SELECT id FROM v WHERE n IN (1.5, '1.5', '-3') ORDER BY id",
    "SELECT id FROM v WHERE n IN ('1.5')",
    "SELECT id FROM v WHERE n IN ('1.5', x)",
    "SELECT id FROM v WHERE n IN ('-3', '1.5')",
    "SELECT id FROM v WHERE n IN ('-3', NULL, '4'::float8, '1.5') ORDER BY id",
    "SELECT id FROM v WHERE x NOT IN (1, '1.5') ORDER BY id",
    "SELECT id FROM v WHERE '1.5' IN (1, 1.5) AND id < 3 ORDER BY id",
    "SELECT id FROM v WHERE '1.5' IN (1, 1.5, x) ORDER BY id",
    "SELECT id FROM v WHERE '1.5' IN (1, 1.5, n)",
    "SELECT id FROM v WHERE '1.5' IN (n, 1.5)",
    "SELECT id FROM v WHERE '3' IN (n, id) ORDER BY id",
    "SELECT id FROM v WHERE t IN ('a', 5)",
    "SELECT id FROM v WHERE b IN (TRUE, 'x')",
    "SELECT id FROM v WHERE n BETWEEN '1.5' AND 2.5",
    "SELECT id FROM v WHERE n BETWEEN 1.5 AND '3' ORDER BY id",
    "SELECT id FROM v WHERE '1' BETWEEN 0.5 AND n ORDER BY id",
    // A NULL has the type of its cast.
    "SELECT NULL::int8, CAST(NULL AS float8) FROM v",
    "SELECT id FROM v WHERE n IN (NULL::float8, '1.5', '-3') ORDER BY id",
    "SELECT id FROM v WHERE n IN ('1.5', NULL::int8)",
    "SELECT id FROM v WHERE n NOT BETWEEN '4' AND NULL::float8 ORDER BY id",
    "SELECT id FROM v WHERE t = NULL::int8",
    "SELECT id FROM v WHERE 'x' = NULL::int8",
    "SELECT id FROM v WHERE '5' = (NULL::int8)",
    "SELECT id FROM v WHERE b OR NOT NULL::bool ORDER BY id",
    "SELECT id FROM v WHERE NULL::int8",
    "SELECT id FROM v WHERE t LIKE NULL::varchar",
    "SELECT id FROM v WHERE t LIKE CAST(NULL AS int4)",
    "SELECT id FROM v WHERE NULL::int8 IS NULL AND n IS NULL ORDER BY id",
    "SELECT id FROM v ORDER BY id LIMIT NULL::int8 OFFSET (CAST(NULL AS int4))",
    "SELECT id FROM v WHERE x > 1e400",
    "SELECT id FROM v WHERE x < -1e400",
    "SELECT id FROM v WHERE x > 1e-400",
];

/// One server answers both kinds.
#[test]
fn selects_are_answered_as_postgresql_answers_them() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut relations = views();
    relations.push(relation());
    relations
        .iter()
        .for_each(|view| server.script(&table(view)));
    let mut dice = Dice::new();
    let statements: Vec<(String, bool)> = (0..STATEMENTS).map(|_| dice.statement()).collect();
    let random = statements.iter().map(|(text, _)| text.as_str());
    let texts: Vec<&str> = ASKED.iter().copied().chain(random).collect();
    let mut theirs = server.answers(&texts);
    assert_eq!(theirs.len(), texts.len());
    let of_random = theirs.split_off(ASKED.len());
    what_people_ask_of_the_views(&relations, &theirs);
    random_selects(&statements, &of_random);
}

fn what_people_ask_of_the_views(relations: &[Relation], theirs: &[Answer]) {
    let (mut refused, mut wrong) = (0, Vec::new());
    for (statement, theirs) in ASKED.iter().zip(theirs) {
        let from = |view: &&Relation| {
            let words: Vec<&str> = statement.split(' ').collect();
            words.windows(2).any(|pair| pair == ["FROM", view.name])
        };
        let relation = relations.iter().find(from).expect("a view");
        let ours = ours(statement, relation);
        refused += usize::from(ours == Err("22025".to_owned()));
        let ordered = statement.contains("ORDER BY");
        if !same(&ours, theirs, ordered) {
            wrong.push(format!(
                "{statement}\n  ours   {ours:?}\n  theirs {theirs:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused >= 5, "{refused} patterns were refused by both");
}

fn random_selects(statements: &[(String, bool)], theirs: &[Answer]) {
    let relation = relation();
    let (mut refused, mut wrong) = (0, Vec::new());
    for ((statement, ordered), theirs) in statements.iter().zip(theirs) {
        let ours = ours(statement, &relation);
        refused += usize::from(ours.is_err());
        if !same(&ours, theirs, *ordered) {
            wrong.push(format!(
                "{statement}\n  ours   {ours:?}\n  theirs {theirs:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {STATEMENTS} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
    // Both kinds of answers were compared.
    assert!(
        (100..STATEMENTS / 2).contains(&refused),
        "{refused} were refused"
    );
    println!("{STATEMENTS} statements, {refused} of them refused by both with one SQLSTATE");
}
