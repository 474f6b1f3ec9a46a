//! What a refused statement looks like: pictures, whole.
//!
//! `tests/pictures/errors.txt` has one of every kind of error. `QUOTIENT_WRITE_PICTURES=1 cargo test --test sql_pictures`
//! writes what is drawn now: read the difference before it is committed.

#![allow(clippy::unwrap_used)]

use quotient::catalog::store::{CatalogStore, StoreError};
use quotient::catalog::{Catalog, CatalogMode, Machine, Origin};
use quotient::sql::{self, SqlError};
use quotient::unit::Bytes;
use quotient::{Error, Governor};
use std::collections::BTreeSet;
use std::fmt::Write;

fn refuse(script: &str) -> SqlError {
    let catalog = Catalog::new(Machine {
        workers: 4,
        memory_limit: Bytes(8 << 30),
    });
    let statements = match sql::parse(script) {
        Err(error) => return error,
        Ok(statements) => statements,
    };
    for (i, statement) in statements.iter().enumerate() {
        if let Err(error) = catalog.apply(statement, Origin::Statement) {
            return error.at_statement(i + 1, i);
        }
    }
    panic!("accepted: {script}");
}

fn assert_picture(script: &str, expected: &[&str]) {
    let picture = refuse(script).render(script);
    assert_eq!(picture.lines().collect::<Vec<_>>(), expected, "\n{picture}");
}

#[test]
fn a_misspelt_property() {
    assert_picture(
        "CREATE RESOURCE GROUP etl TO (user='loader')\n  WITH ('cpu_cor_limit' = '4')",
        &[
            "error[42704]: unknown property 'cpu_cor_limit'",
            " --> line 2, column 9",
            "  |",
            "2 |   WITH ('cpu_cor_limit' = '4')",
            "  |         ^^^^^^^^^^^^^^^",
            "  = did you mean cpu_core_limit?",
            "  = properties are cpu_core_limit, max_cpu_cores, exclusive_cpu_cores, type, mem_limit, \
             spill_mem_limit_threshold, concurrency_limit, max_queued_queries, queue_timeout, \
             big_query_cpu_second_limit, big_query_scan_rows_limit, big_query_mem_limit, \
             big_query_elapsed_second_limit, big_query_action, quarantine_after, quarantine_window, io_weight, \
             max_io_bytes_per_second, mem_pool",
        ],
    );
}

#[test]
fn a_value_out_of_range_in_the_third_statement() {
    assert_picture(
        "CREATE RESOURCE GROUP a WITH ('cpu_weight'='1');\nSHOW RESOURCE GROUPS;\nALTER RESOURCE GROUP a WITH ('spill_mem_limit_threshold'='120%');",
        &[
            "error[22023]: 'spill_mem_limit_threshold' cannot be \"120%\": it is outside the range",
            " --> line 3, column 58, statement 3 (2 applied)",
            "  |",
            "3 | ALTER RESOURCE GROUP a WITH ('spill_mem_limit_threshold'='120%');",
            "  |                                                          ^^^^^^",
            "  = allowed is more than 0 and at most 1, as 80% or 0.8; 1 is off, as in 'spill_mem_limit_threshold'='80%'",
        ],
    );
}

#[test]
fn letters_before_the_place_are_counted_as_characters_and_drawn_as_wide_as_they_are() {
    assert_picture(
        "ALTER RESOURCE GROUP /* größer — 更大 */ default_wg ADD (user='x')",
        &[
            "error[55000]: default_wg is built in: it takes no classifiers",
            " --> line 1, column 40",
            "  |",
            "1 | ALTER RESOURCE GROUP /* größer — 更大 */ default_wg ADD (user='x')",
            "  |                                          ^^^^^^^^^^",
            "  = for example ALTER RESOURCE GROUP default_wg WITH ('cpu_core_limit'='2')",
        ],
    );
}

#[test]
fn a_place_behind_the_last_word() {
    assert_picture(
        "DROP RESOURCE GROUP",
        &[
            "error[42601]: found the end of the statement, expected a name",
            " --> line 1, column 20",
            "  |",
            "1 | DROP RESOURCE GROUP",
            "  |                    ^",
            "  = a name is a letter or _ followed by at most 63 letters, digits, _, $ or -, for example etl_1",
        ],
    );
}

#[test]
fn a_quote_that_is_never_closed() {
    assert_picture(
        "SHOW RESOURCE GROUPS;\nSHOW RESOURCE GROUPS LIKE 'etl%;\n",
        &[
            "error[42601]: this 'text' is never closed",
            " --> line 2, column 27, statement 2 (0 applied)",
            "  |",
            "2 | SHOW RESOURCE GROUPS LIKE 'etl%;",
            "  |                           ^",
            "  = close it with '; a quote inside is doubled: 'it''s'",
        ],
    );
}

#[test]
fn the_line_alone_says_it_too() {
    let error = refuse("ALTER RESOURCE GROUP dflt WITH ('cpu_weight'='1')");
    assert_eq!(
        error.to_string(),
        "resource group dflt does not exist (line 1, column 22); \
         SHOW RESOURCE GROUPS ALL lists them; case counts in names"
    );
    assert_eq!(error.message(), "resource group dflt does not exist");
}

#[test]
fn an_error_is_an_error_value_that_travels() {
    fn travels<E: std::error::Error + Send + Sync + 'static>(_: &E) {}
    travels(&refuse("x"));
    assert!(size_of::<SqlError>() <= 8);
}

// ---- one of every kind ------------------------------------------------------------------------------------------

const SETUP: &str = "
    CREATE RESOURCE GROUP etl TO (user='loader'), (db='sales, crm') WITH ('cpu_core_limit'='4', 'mem_limit'='20%');
    CREATE RESOURCE GROUP spare WITH ('cpu_core_limit'='1');
    CREATE RESOURCE GROUP watched WITH ('big_query_action'='switch_group(spare)')";

/// The situation, and what is said in it.
#[rustfmt::skip]
const CASES: &[(&str, &str)] = &[
    ("too long a statement", "LONG"),
    ("NUL", "SHOW RESOURCE GROUPS LIKE 'a\0b'"),
    ("a text that is never closed", "SHOW RESOURCE GROUPS;\nSHOW RESOURCE GROUPS LIKE 'etl%;\n"),
    ("a name that is never closed", "DROP RESOURCE GROUP `etl"),
    ("a comment that is never closed", "SHOW RESOURCE GROUPS /* for the\nnight shift"),
    ("a misspelt word", "CREATE RESOURCE GRUOP etl2 WITH ('cpu_core_limit'='1')"),
    ("no statement of ours", "INSERT INTO groups VALUES (1)"),
    ("nothing behind the last word", "ALTER RESOURCE GROUP etl"),
    ("a value without quotes", "CREATE RESOURCE GROUP g WITH ('type'=normal)"),
    ("WITH before TO", "CREATE RESOURCE GROUP g\n  WITH ('cpu_core_limit'='1')\n  TO (user='x')"),
    ("a name with a blank", "CREATE RESOURCE GROUP `my group` WITH ('cpu_core_limit'='1')"),
    ("an operator that classifiers do not have", "ALTER RESOURCE GROUP etl ADD (user LIKE 'load%')"),
    ("a condition on a word", "ALTER RESOURCE GROUP etl ADD (user = loader)"),
    ("a classifier without conditions", "ALTER RESOURCE GROUP etl ADD (user='x'), ()"),
    ("nothing to set", "ALTER RESOURCE GROUP etl WITH ()"),
    ("the same property under two names", "ALTER RESOURCE GROUP etl WITH ('cpu_weight'='1', 'mem_limit'='10%', 'cpu_core_limit'='2')"),
    ("a misspelt property", "CREATE RESOURCE GROUP g\n  WITH ('cpu_cor_limit' = '4')"),
    ("a property that is like none", "ALTER RESOURCE GROUP etl WITH ('priority'='4')"),
    ("a misspelt variable", "SET GLOBAL query_runer_threads = 4"),
    ("a misspelt classifier key", "ALTER RESOURCE GROUP etl ADD (usr='ann')"),
    ("a list for a key that takes one value", "ALTER RESOURCE GROUP etl ADD (user IN ('ann', 'bob'))"),
    ("a value out of its range", "ALTER RESOURCE GROUP etl WITH ('mem_limit'='120%')"),
    ("a value that is no number", "ALTER RESOURCE GROUP etl WITH ('concurrency_limit'='many')"),
    ("a word that is none of the words", "ALTER RESOURCE GROUP etl WITH ('big_query_action'='kil')"),
    ("an address that is none", "ALTER RESOURCE GROUP etl ADD (source_ip='10.0.0.0/33')"),
    ("a variable out of its range", "SET GLOBAL memory_usage_percentage_threshold = '100'"),
    ("more than the machine has", "ALTER RESOURCE GROUP etl WITH ('max_cpu_cores'='64')"),
    ("a property that is fixed", "ALTER RESOURCE GROUP etl WITH ('type'='short_query')"),
    ("properties that exclude each other", "ALTER RESOURCE GROUP etl WITH ('exclusive_cpu_cores'='1')"),
    ("a group that does not exist", "DROP RESOURCE GROUP elt"),
    ("a name that is taken", "CREATE RESOURCE GROUP etl WITH ('cpu_core_limit'='1')"),
    ("the built-in group", "DROP RESOURCE GROUP default_wg"),
    ("an id of no classifier", "ALTER RESOURCE GROUP etl DROP (10002, 77)"),
    ("an id of another group's classifier", "ALTER RESOURCE GROUP spare DROP (10002)"),
    ("a classifier that another group has", "CREATE RESOURCE GROUP copy TO (role='r'),\n  (db='crm,\n      sales')\n  WITH ('cpu_core_limit'='1')"),
    ("a group that another one needs", "DROP RESOURCE GROUP spare"),
    ("no such query", "KILL QUERY 1000000"),
    ("no such watch", "DROP WATCH 1000000"),
    ("no such version", "ROLLBACK CATALOG TO VERSION 1000"),
    ("a disk that is full", "STORE full"),
    ("a change by somebody else", "STORE changed"),
    ("an answer that was lost", "STORE lost"),
    ("a misspelt attribute of a request", "EXPLAIN CLASSIFY (user='ann', rol='dev')"),
    ("an attribute that is stated twice", "EXPLAIN CLASSIFY (user='ann', db='a', db='b', user='bob')"),
    ("a change that is explained and refused", "EXPLAIN ALTER RESOURCE GROUP etl WITH ('concurrency_limit'='many')"),
    ("what cannot be explained", "EXPLAIN SELECT * FROM groups"),
    ("a pattern that ends in its escape", "SHOW VARIABLES LIKE 'query\\'"),
    ("a pattern that ends in its escape, met by a row", "SELECT name FROM groups WHERE name LIKE 'e\\'"),
    ("too many tokens", "TOKENS"),
    ("no such view", "SELECT * FROM group_list"),
    ("a misspelt view", "SELECT * FROM grups"),
    ("a misspelt column", "SELECT nam, id FROM groups"),
    ("a name of two columns", "SELECT name AS a, id AS a\nFROM groups\nORDER BY a"),
    ("an operator that types do not have", "SELECT name FROM groups WHERE name > 3"),
    ("an operator that took a number's sign", "SELECT name FROM groups WHERE tasks!=-5"),
    ("a number that ends in letters", "SELECT name FROM groups WHERE tasks = 5and reserved"),
    ("a text that is no number", "SELECT name FROM groups WHERE tasks = 'many'"),
    ("a column that is not grouped", "SELECT name, count(*) FROM groups"),
    ("an aggregate in WHERE", "SELECT name FROM groups WHERE count(*)"),
    ("a position beyond the columns", "SELECT name FROM groups ORDER BY 2"),
    ("a condition that is no truth", "SELECT name FROM groups WHERE tasks"),
    ("a negative limit", "SELECT name FROM groups LIMIT -1"),
    ("a number that its type has no room for", "SELECT name FROM groups WHERE tasks = '40000'::int2"),
    ("a number that would become zero", "SELECT name FROM groups WHERE cpu_share > '1e-400'::float8"),
    ("a sum beyond 64 bits", "SUM"),
    ("what SELECT does not have here", "SELECT g.name FROM groups g JOIN classifiers c ON g.name = c.group_name"),
    ("what is answered elsewhere", "USAGE"),
    ("an attribute that requests do not have", "EXPLAIN CLASSIFY (usr='ann')"),
    ("a pattern that ends with its escape", "SHOW VARIABLES LIKE 'a\\'"),
    // How it is drawn, whatever it says.
    ("a tab before the place", "ALTER RESOURCE GROUP\tetl\tWITH\t('cpu'='1')"),
    ("wide letters and a letter with a mark before the place", "ALTER RESOURCE GROUP etl /* 更大 🦀 e\u{301} */ WITH ('größe'='1')"),
    ("letters that turn the direction of the text", "ALTER RESOURCE GROUP etl WITH (/*\u{202e}*/ 'xx\u{202c}'='1')"),
    ("a line that is too long, the place in its middle", "ALTER RESOURCE GROUP etl ADD (user='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'), (usr='x'), (user='bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb')"),
    ("a value that is too long", "ALTER RESOURCE GROUP etl WITH ('mem_limit'='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')"),
    ("a value of several lines", "ALTER RESOURCE GROUP etl WITH ('mem_limit'='20\n  percent\n\n  of it')"),
    ("the end of a line that ends with a carriage return", "ALTER RESOURCE GROUP etl WITH\r\nSHOW QUERIES"),
];

/// A store that can do nothing but fail.
#[derive(Debug)]
struct Failing(&'static str);

impl CatalogStore for Failing {
    fn load(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
    fn save(&self, _: &str, _: Option<&str>) -> Result<(), StoreError> {
        let (place, why) = (
            self.place(),
            "No space left on device (os error 28)".to_owned(),
        );
        Err(match self.0 {
            "full" => StoreError::Failed {
                place,
                step: "write",
                why,
            },
            "changed" => StoreError::Conflict { place },
            _ => StoreError::Unknown {
                place,
                why: "the server did not answer in time".into(),
            },
        })
    }
    fn place(&self) -> String {
        "groups.sql".into()
    }
}

/// What is refused, and the text that its place is in. The words in capitals are texts that are too long to be read here.
async fn refusal(governor: &Governor, said: &str) -> (SqlError, String) {
    let script = match said {
        "LONG" => format!("SHOW RESOURCE GROUPS LIKE '{}'", "x".repeat(1 << 20)),
        "TOKENS" => format!(
            "SELECT id FROM groups WHERE id IN ({}1)",
            "1,".repeat(1_100)
        ),
        other => other.to_owned(),
    };
    let refused = match said.strip_prefix("STORE ") {
        Some(how) => {
            let how = ["full", "changed", "lost"]
                .into_iter()
                .find(|word| *word == how);
            let machine = Machine {
                workers: 4,
                memory_limit: Bytes(8 << 30),
            };
            let store = std::sync::Arc::new(Failing(how.unwrap()));
            let opened = Catalog::open(machine, store, CatalogMode::Strict).unwrap();
            let script = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')";
            let create = sql::parse(script).unwrap();
            return (
                opened
                    .catalog
                    .apply(&create[0], Origin::Statement)
                    .unwrap_err(),
                script.into(),
            );
        }
        None if said == "SUM" => {
            let select = "SELECT sum(id) FROM v";
            return (beyond_64_bits(select), select.into());
        }
        None if said == "USAGE" => {
            let script = "SHOW USAGE RESOURCE GROUPS";
            let builder = Governor::builder().workers(1).init_sql(script);
            (builder.build().map(|_| ()), script.to_owned())
        }
        None => (governor.execute(&script).await.map(|_| ()), script),
    };
    match refused {
        (Err(Error::Sql(error)), script) => (error, script),
        (other, script) => panic!("{other:?}: {script}"),
    }
}

fn beyond_64_bits(select: &str) -> SqlError {
    use quotient::sql::{Statement, Type, Value};
    use quotient::view::relation::{Column, Relation};
    let most = Relation {
        name: "v",
        columns: vec![Column {
            name: "id",
            kind: Type::Int,
        }],
        rows: vec![vec![Value::Int(i64::MAX)]; 2],
    };
    match &sql::parse(select).unwrap()[0] {
        Statement::Select(select) => quotient::view::select::answer(select, &most).unwrap_err(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn every_kind_of_error_has_its_picture() {
    let builder = Governor::builder().workers(4).memory_limit(8 << 30);
    let governor = builder.init_sql(SETUP).build().unwrap();
    let (mut drawn, mut kinds) = (String::new(), BTreeSet::new());
    for (situation, said) in CASES {
        let (error, script) = refusal(&governor, said).await;
        let _ = writeln!(drawn, "## {situation}\n\n{}\n", error.render(&script));
        kinds.insert(error.kind.code());
    }
    // The reference lists every kind.
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let reference = std::fs::read_to_string(root.join("docs/sql.md")).unwrap();
    let rows = reference
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let listed: BTreeSet<&str> = rows
        .filter(|(_, rest)| {
            let code = rest.split(' ').next().unwrap_or_default();
            code.len() == 5
                && code
                    .bytes()
                    .all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        })
        .map(|(kind, _)| kind)
        .collect();
    assert!(listed.len() > 40, "{listed:?}");
    assert_eq!(
        listed.difference(&kinds).collect::<Vec<_>>(),
        [&""; 0],
        "kinds without a picture"
    );
    let path = root.join("tests/pictures/errors.txt");
    if std::env::var_os("QUOTIENT_WRITE_PICTURES").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let pairs = kept.split("## ").zip(drawn.split("## "));
    for (kept, drawn) in pairs {
        assert_eq!(
            kept, drawn,
            "QUOTIENT_WRITE_PICTURES=1 writes what is drawn now"
        );
    }
    assert_eq!(kept, drawn);
}
