//! Input that means harm, or means nothing: an answer or an error, in linear time and constant stack, never a panic.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use quotient::catalog::{Catalog, Key, Machine, Origin};
use quotient::clock::ThreadTime;
use quotient::sql::{self, Caps, SqlError};
use quotient::unit::Bytes;
use std::time::{Duration, Instant};

const VALID: &str = "CREATE RESOURCE GROUP IF NOT EXISTS OR REPLACE bi TO (user='u', query_type IN ('select', 'insert')), \
    (`db`=\"a, b\", source_ip='10.0.0.0/8') WITH ('cpu_weight'='4', mem_limit = 0.5); -- end\n\
    ALTER RESOURCE GROUP bi DROP (10012, 10013); SHOW VERBOSE RESOURCE GROUPS ALL LIKE 'b%'";

/// Whatever the error is, its place lies in the script and its picture is small.
fn check(script: &str, error: &SqlError) {
    let length = script.chars().count();
    assert!(
        error.span.start <= error.span.end && error.span.end <= length,
        "{error}"
    );
    assert!(error.line() <= script.split('\n').count(), "{error}");
    let picture = error.render(script);
    assert!(picture.len() < 8_000, "{} bytes of picture", picture.len());
    assert!(error.to_string().len() < 8_000);
    assert_eq!(
        picture
            .chars()
            .filter(|c| c.is_control() && *c != '\n')
            .count(),
        0
    );
}

/// Reads and, if that works, runs a script.
fn run(script: &str) {
    let statements = match sql::parse(script) {
        Ok(statements) => statements,
        Err(error) => return check(script, &error),
    };
    let catalog = Catalog::new(Machine {
        workers: 4,
        memory_limit: Bytes(8 << 30),
    });
    for (i, statement) in statements.iter().enumerate() {
        let before = catalog.snapshot();
        match catalog.apply(statement, Origin::Statement) {
            Ok(applied) => {
                let step = u64::from(applied.changed);
                assert_eq!(applied.snapshot.version(), before.version() + step);
                assert!(applied.changed || *applied.snapshot == *before);
                let _ = applied.output.to_string();
            }
            Err(error) => {
                check(script, &error.at_statement(i + 1, i));
                assert!(catalog.snapshot() == before);
            }
        }
    }
}

fn soup() -> impl Strategy<Value = String> {
    let words = [
        "CREATE",
        "ALTER",
        "DROP",
        "SHOW",
        "RESOURCE",
        "GROUP",
        "GROUPS",
        "IF",
        "NOT",
        "EXISTS",
        "OR",
        "REPLACE",
        "TO",
        "WITH",
        "ADD",
        "ALL",
        "VERBOSE",
        "USAGE",
        "LIKE",
        "IN",
        "bi",
        "g-1",
        "(",
        ")",
        ",",
        "=",
        ";",
        "'",
        "\"",
        "`",
        "--",
        "/*",
        "*/",
        "\n",
        "''",
        "'x'",
        "'cpu_weight'",
        "'4'",
        "'mem_limit'",
        "'20%'",
        "user",
        "db",
        "query_type",
        "'select'",
        "5",
        "-5",
        "1e9",
        ".5",
        "0x1f",
        "$$",
        "$a$",
        "N'x'",
        "X'1'",
        "E'\\'",
        "U&'x'",
        "B'1'",
        "Q'[x]'",
        "@",
        "@@x",
        "?",
        ":=",
        "->>",
        "<=>",
        "%",
        "\\",
        "\0",
        "\u{feff}",
        "\u{202e}",
        "é",
        "🦀",
        "\r",
        "\u{2028}",
        "/*!50110 x */",
        "#",
    ];
    let word = proptest::sample::select(words.to_vec());
    let gap = proptest::sample::select(vec!["", " ", " ", " "]);
    prop::collection::vec((word, gap), 0..60)
        .prop_map(|parts| parts.into_iter().flat_map(|(w, g)| [w, g]).collect())
}

/// Statements that parse, with any property, any value, any classifier: most are refused by the catalog.
fn statements() -> impl Strategy<Value = String> {
    let names: Vec<&str> = quotient::catalog::property::PROPERTIES
        .iter()
        .map(|p| p.name)
        .collect();
    let values = prop_oneof![
        proptest::sample::select(vec![
            "0",
            "1",
            "2",
            "3",
            "4",
            "20%",
            "0.5",
            "1.5GB",
            "-1",
            "NaN",
            "inf",
            "9999999999999999999999",
            "300s",
            "kill",
            "switch_group(g1)",
            "switch_group(g2)",
            "normal",
            "short_query",
            "default_mem_pool",
            "",
            " ",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,8}".prop_map(|t| t.replace('\'', "")),
    ];
    let property =
        (proptest::sample::select(names), values).prop_map(|(k, v)| format!("'{k}'='{v}'"));
    let with =
        prop::collection::vec(property, 1..4).prop_map(|p| format!("WITH ({})", p.join(", ")));
    let condition = proptest::sample::select(vec![
        "user='a'",
        "user='b'",
        "role='a'",
        "db='a,b'",
        "db='b, a'",
        "source_ip='10.0.0.1'",
        "query_type IN ('select')",
        "plan_cpu_cost_range='[1,2)'",
        "usr='x'",
        "user=''",
        "source_ip='x'",
    ]);
    let classifier =
        prop::collection::vec(condition, 1..3).prop_map(|c| format!("({})", c.join(", ")));
    let classifiers = prop::collection::vec(classifier, 1..3).prop_map(|c| c.join(", "));
    let group = proptest::sample::select(vec!["g1", "g2", "g3", "default_wg"]);
    (group, 0..8_u8, classifiers, with, 10_001..10_020_u64).prop_map(|(g, what, to, with, id)| {
        match what {
            0 => format!("CREATE RESOURCE GROUP {g} {with}"),
            1 => format!("CREATE RESOURCE GROUP {g} TO {to} {with}"),
            2 => format!("CREATE RESOURCE GROUP IF NOT EXISTS {g} TO {to} {with}"),
            3 => format!("CREATE RESOURCE GROUP OR REPLACE {g} TO {to} {with}"),
            4 => format!("ALTER RESOURCE GROUP {g} ADD {to}"),
            5 => format!("ALTER RESOURCE GROUP {g} {with}"),
            6 => format!("ALTER RESOURCE GROUP {g} DROP ({id})"),
            _ => format!("DROP RESOURCE GROUP {g}"),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(script in any::<String>()) {
        run(&script);
    }

    #[test]
    fn a_soup_of_tokens(script in soup()) {
        run(&script);
    }

    /// A statement cut, with something put into it.
    #[test]
    fn a_statement_with_damage(from in 0..VALID.len(), to in 0..VALID.len(), put in "\\PC{0,3}|['\"`;()\0\n]{0,3}") {
        let (from, to) = (from.min(to), from.max(to));
        run(&format!("{}{put}{}", &VALID[..from], &VALID[to..]));
    }

    /// Random statements on one catalog: refused ones leave no trace, and what is there can be said in statements.
    #[test]
    fn random_statements_keep_the_catalog_whole(script in prop::collection::vec(statements(), 1..12)) {
        let machine = Machine { workers: 4, memory_limit: Bytes(8 << 30) };
        let catalog = Catalog::new(machine);
        run(&script.join(";\n"));
        for text in &script {
            if let Ok(statements) = sql::parse(text) {
                let _ = catalog.apply(&statements[0], Origin::Statement);
            }
        }
        let snapshot = catalog.snapshot();
        let mut identities: Vec<String> = snapshot.classifiers().map(|(_, c)| c.identity()).collect();
        let count = identities.len();
        identities.sort();
        identities.dedup();
        prop_assert_eq!(identities.len(), count, "two classifiers alike");
        let reserved: u64 = snapshot.groups().map(|g| g.exclusive_cpu_cores()).sum();
        prop_assert!(reserved <= 3);
        // Said again, as a file would say it, it is the same but for the ids.
        let said: Vec<sql::Statement> = snapshot.groups().map(|g| g.to_statement()).collect();
        let again = Catalog::new(machine);
        again.apply_all(&said, Origin::File).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let again = again.snapshot();
        prop_assert_eq!(again.groups().len(), snapshot.groups().len());
        for group in snapshot.groups() {
            let twin = again.group(&group.name).unwrap();
            let texts = |g: &quotient::catalog::GroupSpec| -> Vec<String> {
                g.classifiers.iter().map(|c| c.identity()).collect()
            };
            prop_assert_eq!(texts(twin), texts(group));
            if !(group.is_default() && group.properties.is_empty()) {
                prop_assert_eq!(&twin.properties, &group.properties);
            }
            prop_assert!(group.properties.keys().all(|k| Key::from_name(k.name()) == Some(*k)));
        }
    }
}

/// Nothing recurses: a stack that a few hundred frames would fill is enough for the deepest text.
#[test]
fn nesting_of_any_depth_needs_no_stack() {
    let deep = [
        "(".repeat(1 << 20),
        format!("CREATE RESOURCE GROUP g TO {}", "((".repeat(100_000)),
        format!("ALTER RESOURCE GROUP g WITH ('a'={}1", "-".repeat(100_000)),
        "/*".repeat(100_000),
        "CREATE ".repeat(100_000),
        format!("SHOW RESOURCE GROUPS LIKE {}", "'".repeat(100_001)),
        format!("ALTER RESOURCE GROUP g DROP ({}1)", "1,".repeat(200_000)),
        format!(
            "ALTER RESOURCE GROUP g ADD {}(user='u')",
            "(user='u'),".repeat(50_000)
        ),
    ];
    for script in deep {
        std::thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(move || run(&script))
            .unwrap()
            .join()
            .unwrap();
    }
}

#[test]
fn the_caps_hold_for_clients_and_not_for_files() {
    let long = format!("SHOW RESOURCE GROUPS LIKE '{}'", "x".repeat(10 << 20));
    let error = sql::parse(&long).unwrap_err();
    assert_eq!(
        (error.kind.code(), error.line(), error.column()),
        ("too_long", 1, 1)
    );
    assert_eq!(sql::parse_within(&long, Caps::NONE).unwrap().len(), 1);
    let many = "SHOW RESOURCE GROUPS;".repeat(1 << 20);
    assert_eq!(sql::parse(&many).unwrap_err().kind.code(), "too_long");
    // A megabyte of legal statement is read.
    let mut wide = "ALTER RESOURCE GROUP g ADD (user='u0')".to_owned();
    for i in 1..50_000 {
        wide += &format!(", (user='u{i}')");
    }
    assert!(wide.len() < 1 << 20);
    assert_eq!(sql::parse(&wide).unwrap().len(), 1);
}

/// Time grows with the length of the text, not with its square. It is the thread's own time on a CPU: beside others that
/// want one, the long text is interrupted and the short one is not.
#[test]
fn reading_takes_linear_time() {
    type Make = fn(usize) -> String;
    let texts: [(&str, Make); 10] = [
        ("parentheses", |n| "(".repeat(n)),
        ("words", |n| "a ".repeat(n / 2)),
        ("semicolons", |n| ";".repeat(n)),
        ("quotes", |n| "''".repeat(n / 2)),
        ("backquotes", |n| {
            format!("DROP RESOURCE GROUP `{}`", "`".repeat(n / 2 * 2))
        }),
        ("dollars", |n| "$a".repeat(n / 2)),
        ("dots", |n| "1.".repeat(n / 2)),
        ("comments", |n| "/**/--\n".repeat(n / 7)),
        ("classifiers", |n| {
            format!(
                "ALTER RESOURCE GROUP g ADD {}(user='u')",
                "(user='u'),".repeat(n / 11)
            )
        }),
        ("queries", |n| {
            let full = format!("SELECT id FROM groups WHERE id IN ({}1);", "1,".repeat(900));
            full.repeat(n / full.len())
        }),
    ];
    let began = Instant::now();
    let now = || match ThreadTime::read() {
        Some(time) => Duration::from(time.cpu),
        None => began.elapsed(),
    };
    let best = |text: &str| -> Duration {
        (0..3)
            .map(|_| {
                let start = now();
                let _ = sql::parse(text);
                now() - start
            })
            .min()
            .unwrap()
    };
    let query = |tokens: usize| {
        best(&format!(
            "SELECT id FROM groups WHERE id IN ({}1)",
            "1,   ".repeat(tokens / 2)
        ))
    };
    let ratio = query(1_600).as_secs_f64() / query(100).as_secs_f64();
    assert!(
        ratio < 60.0,
        "16 times the query took {ratio:.0} times as long"
    );
    for (what, make) in texts {
        let (small, large) = (make(25_000), make(400_000));
        let ratio = best(&large).as_secs_f64() / best(&small).as_secs_f64().max(1e-6);
        assert!(
            ratio < 100.0,
            "{what}: 16 times the text took {ratio:.0} times as long"
        );
    }
}
