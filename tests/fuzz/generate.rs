//! Texts by the grammar, of which many are read, and many of these refused for what they mean.

use crate::dice::Dice;
use quotient::catalog::property::PROPERTIES;

const NAMES: [&str; 8] = [
    "a",
    "b",
    "`etl-1`",
    "\"x\"",
    "default_wg",
    "g$",
    "to",
    "'quoted'",
];
const VALUES: [&str; 26] = [
    "0",
    "1",
    "2",
    "3",
    "10000",
    "10001",
    "20%",
    "0.5",
    "1.5GB",
    "512MiB",
    "-1",
    "NaN",
    "inf",
    "9999999999999999999999",
    "300s",
    "250ms",
    "kill",
    "dry_run",
    "cooldown",
    "switch_group(a)",
    "normal",
    "short_query",
    "mv",
    "default_mem_pool",
    "",
    " 7 ",
];
const TEXTS: [&str; 16] = [
    "a",
    "b",
    "a, b",
    "",
    "o''neill",
    "größer",
    "10.0.0.0/8",
    "10.0.0.1",
    "::1",
    "select",
    "insert",
    "[1,2)",
    "[0, 1e6)",
    "(1,2)",
    "🦀",
    "x\ny",
];
const KEYS: [&str; 9] = [
    "user",
    "role",
    "query_type",
    "db",
    "source_ip",
    "plan_cpu_cost_range",
    "plan_mem_cost_range",
    "usr",
    "`db`",
];

pub(crate) fn script(dice: &mut Dice) -> String {
    let mut text = statement(dice);
    while dice.once_in(3) {
        text += dice.of(&[";", "; ", ";;\n", " -- and\n;", "/* ; */;"]);
        text += &statement(dice);
    }
    text
}

fn statement(dice: &mut Dice) -> String {
    if dice.once_in(8) {
        let text = statement(dice);
        return format!("EXPLAIN {text}");
    }
    if dice.once_in(16) {
        return format!("EXPLAIN CLASSIFY {}", classifier(dice));
    }
    let name = dice.of(&NAMES);
    match dice.below(14) {
        0..=3 => {
            let how = dice.of(&[
                "",
                "IF NOT EXISTS ",
                "OR REPLACE ",
                "if not exists or replace ",
            ]);
            let to = match dice.below(3) {
                0 => String::new(),
                _ => format!(" TO {}", list(dice, classifier)),
            };
            format!(
                "CREATE RESOURCE GROUP {how}{name}{to} WITH ({})",
                list(dice, property)
            )
        }
        4 => format!(
            "ALTER RESOURCE GROUP {name} WITH ({})",
            list(dice, property)
        ),
        5 => format!("ALTER RESOURCE GROUP {name} ADD {}", list(dice, classifier)),
        6 => format!(
            "ALTER RESOURCE GROUP {name} DROP ({})",
            10_001 + dice.below(8)
        ),
        7 => format!("DROP RESOURCE GROUP {}{name}", dice.of(&["", "IF EXISTS "])),
        8 => {
            let what = [
                "QUERIES",
                "WATCHES",
                "RESOURCE GROUPS ALL",
                "VERBOSE RESOURCE GROUPS LIKE 'a%'",
                "CATALOG HISTORY",
                "VARIABLES LIKE '%'",
                "RUNNING QUERIES LIMIT 7",
                "RUNAWAY EVENTS",
                "USAGE RESOURCE GROUPS",
            ];
            format!("SHOW {}", dice.of(&what))
        }
        9 => {
            let what = dice.of(&["KILL QUERY", "DROP WATCH", "ROLLBACK CATALOG TO VERSION"]);
            format!("{what} {}", dice.number() >> dice.below(64))
        }
        10 => format!("SET GLOBAL query_runner_threads = '{}'", dice.of(&VALUES)),
        _ => select(dice),
    }
}

fn list(dice: &mut Dice, mut one: impl FnMut(&mut Dice) -> String) -> String {
    let mut text = one(dice);
    while dice.once_in(3) {
        text += ", ";
        text += &one(dice);
    }
    text
}

fn property(dice: &mut Dice) -> String {
    let key = PROPERTIES[dice.below(PROPERTIES.len())].name;
    let quote = dice.of(&["'", "'", "\"", ""]);
    format!("{quote}{key}{quote} = '{}'", dice.of(&VALUES))
}

fn classifier(dice: &mut Dice) -> String {
    let condition = |dice: &mut Dice| {
        let (key, text) = (dice.of(&KEYS), dice.of(&TEXTS));
        match dice.below(6) {
            0 => format!("query_type IN ('{text}', 'select')"),
            _ => format!("{key}='{text}'"),
        }
    };
    format!("({})", list(dice, condition))
}

fn select(dice: &mut Dice) -> String {
    let item = |dice: &mut Dice| {
        let column = dice.of(&["id", "n", "x", "t", "b", "v.id", "\"n\"", "nobody"]);
        match dice.below(8) {
            0 => format!(
                "{}({column})",
                dice.of(&["count", "sum", "min", "max", "avg", "COUNT", "abs"])
            ),
            1 => format!("{column} AS c{}", dice.below(3)),
            _ => column.to_owned(),
        }
    };
    let mut text = match dice.below(4) {
        0 => "SELECT * FROM v".to_owned(),
        1 => "SELECT n, count(*) FROM v".to_owned(),
        _ => format!("SELECT {} FROM v", list(dice, item)),
    };
    if dice.once_in(2) {
        let depth = dice.below(6);
        text += &format!(" WHERE {}", truth(dice, depth));
    }
    for (clause, odds) in [
        (" GROUP BY n", 4),
        (" ORDER BY n DESC, 1", 3),
        (" LIMIT 5", 4),
        (" OFFSET 2", 5),
    ] {
        if dice.once_in(odds) {
            text += clause;
        }
    }
    text
}

fn truth(dice: &mut Dice, depth: usize) -> String {
    let column = dice.of(&["id", "n", "x", "t", "b"]);
    let value = |dice: &mut Dice| {
        dice.of(&[
            "0", "-2", "1.5", "'a'", "''", "NULL", "TRUE", "'NaN'", "1e400", "n", "'é%'",
        ])
        .to_owned()
    };
    match dice.below(if depth == 0 { 5 } else { 8 }) {
        0 => format!(
            "{column} {} {}",
            dice.of(&["=", "<>", "<", ">=", "!="]),
            value(dice)
        ),
        1 => format!(
            "{column} {}IN ({})",
            dice.of(&["", "NOT "]),
            list(dice, value)
        ),
        2 => format!("{column} LIKE {}", value(dice)),
        3 => format!("{column} BETWEEN {} AND {}", value(dice), value(dice)),
        4 => format!(
            "{column} IS {}",
            dice.of(&["NULL", "NOT NULL", "TRUE", "NOT FALSE"])
        ),
        5 => format!("NOT ({})", truth(dice, depth - 1)),
        _ => {
            let (left, right) = (truth(dice, depth - 1), truth(dice, depth - 1));
            format!("({left}) {} {right}", dice.of(&["AND", "OR"]))
        }
    }
}
