//! What is refused: statement → kind of error and place, and the catalog is left as it was.
//!
//! E numbers are those of the list of StarRocks' refusals that this grammar keeps.

#![allow(clippy::unwrap_used)]

use quotient::catalog::{Catalog, Machine, Origin};
use quotient::sql::{self, SqlError, Statement};
use quotient::unit::Bytes;

const SETUP: &str = "
    CREATE RESOURCE GROUP rg1 TO (user='a'), (user='b', role='r') WITH ('exclusive_cpu_cores'='16');
    CREATE RESOURCE GROUP rg2 TO (db='x, y') WITH ('cpu_weight'='17', 'mem_limit'='20%');
    CREATE RESOURCE GROUP fast TO (user='kiosk') WITH ('type'='short_query', 'cpu_weight'='4');
    CREATE RESOURCE GROUP spare WITH ('cpu_weight'='2');
    CREATE RESOURCE GROUP watched WITH ('big_query_action'='switch_group(spare)');
";

fn catalog() -> Catalog {
    let catalog = Catalog::new(Machine {
        workers: 32,
        memory_limit: Bytes(64 << 30),
    });
    let setup = sql::parse(SETUP).unwrap();
    catalog.apply_all(&setup, Origin::Statement).unwrap();
    catalog
}

fn run(catalog: &Catalog, script: &str) -> Result<(), SqlError> {
    for (i, statement) in sql::parse(script)?.iter().enumerate() {
        catalog
            .apply(statement, Origin::Statement)
            .map_err(|e| e.at_statement(i + 1, i))?;
    }
    Ok(())
}

/// What it is, the statement with `⟦` before the place of the error, the kind of error, a part of the message.
#[rustfmt::skip]
const REFUSED: &[(&str, &str, &str, &str)] = &[
    // Existence.
    ("E1", "CREATE RESOURCE GROUP ⟦rg2 WITH ('cpu_weight'='1')", "group_exists", "rg2 already exists"),
    ("E1 default", "CREATE RESOURCE GROUP ⟦default_wg WITH ('cpu_weight'='1')", "group_exists", "default_wg already exists"),
    ("E3 alter", "ALTER RESOURCE GROUP ⟦nope WITH ('cpu_weight'='1')", "unknown_group", "nope does not exist"),
    ("E3 drop", "DROP RESOURCE GROUP ⟦nope", "unknown_group", "nope does not exist"),
    ("E3 case counts", "DROP RESOURCE GROUP ⟦RG2", "unknown_group", "RG2 does not exist"),
    ("E4", "SHOW RESOURCE GROUP ⟦nope", "unknown_group", "nope does not exist"),
    ("E4 create", "SHOW CREATE RESOURCE GROUP ⟦nope", "unknown_group", "nope does not exist"),
    // Memory.
    ("E8 zero", "CREATE RESOURCE GROUP g WITH ('mem_limit'=⟦'0')", "bad_value", "outside the range"),
    ("E8 zero percent", "CREATE RESOURCE GROUP g WITH ('mem_limit'=⟦'0%')", "bad_value", "outside the range"),
    ("E8 above one", "ALTER RESOURCE GROUP rg2 WITH ('mem_limit'=⟦'1.1')", "bad_value", "outside the range"),
    ("E8 above all", "ALTER RESOURCE GROUP rg2 WITH ('mem_limit'=⟦'101%')", "bad_value", "outside the range"),
    ("E8 negative", "CREATE RESOURCE GROUP g WITH ('mem_limit'=⟦'-20%')", "bad_value", "negative"),
    ("E8 bytes without unit", "CREATE RESOURCE GROUP g WITH ('mem_limit'=⟦'512')", "bad_value", "outside the range"),
    ("NaN", "CREATE RESOURCE GROUP g WITH ('mem_limit'=⟦'NaN')", "bad_value", "cannot be read"),
    ("infinity", "CREATE RESOURCE GROUP g WITH ('max_cpu_cores'=⟦'inf')", "bad_value", "cannot be read"),
    ("rounds to nothing", "CREATE RESOURCE GROUP g WITH ('mem_limit'=⟦'0.0000000000001%')", "beyond_machine", "less than one byte"),
    ("more than there is", "CREATE RESOURCE GROUP g WITH ('mem_limit'=⟦'65GiB')", "beyond_machine", "memory limit is 68719476736"),
    ("overflow", "CREATE RESOURCE GROUP g WITH ('mem_limit'=⟦'99999999999TiB')", "bad_value", "too large"),
    // The CPU pair.
    ("weight 0 alone", "CREATE RESOURCE GROUP g WITH ('cpu_weight'=⟦'0')", "bad_value", "outside the range"),
    ("weight 0 and no reservation", "ALTER RESOURCE GROUP rg2 WITH ('exclusive_cpu_cores'='0', 'cpu_weight'=⟦'0')", "bad_value", "outside the range"),
    ("weight 0 by ALTER", "ALTER RESOURCE GROUP rg2 WITH ('cpu_core_limit'=⟦'0')", "bad_value", "outside the range"),
    ("weight too large", "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'=⟦'10001')", "bad_value", "outside the range"),
    ("E10", "CREATE RESOURCE GROUP g WITH ('cpu_weight'='1', ⟦'exclusive_cpu_cores'='1')", "conflict", "cpu_core_limit=1 together with exclusive_cpu_cores=1"),
    ("E10 by ALTER", "ALTER RESOURCE GROUP rg2 WITH (⟦'exclusive_cpu_cores'='15')", "conflict", "cpu_core_limit=17 together with exclusive_cpu_cores=15"),
    ("E10 the other way", "ALTER RESOURCE GROUP rg1 WITH (⟦'cpu_weight'='2')", "conflict", "cpu_core_limit=2 together with exclusive_cpu_cores=16"),
    ("E12", "ALTER RESOURCE GROUP rg2 WITH ('cpu_weight'='0', 'exclusive_cpu_cores'=⟦'32')", "beyond_machine", "31 of 32 workers"),
    ("E13 by CREATE", "CREATE RESOURCE GROUP g WITH ('exclusive_cpu_cores'=⟦'16')", "beyond_machine", "reserve 16"),
    ("E13 by ALTER", "ALTER RESOURCE GROUP rg2 WITH ('cpu_weight'='0', 'exclusive_cpu_cores'=⟦'16')", "beyond_machine", "reserve 16"),
    ("E14", "CREATE RESOURCE GROUP g WITH ('type'='short_query', ⟦'exclusive_cpu_cores'='1')", "conflict", "type=short_query together"),
    ("E14 by ALTER", "ALTER RESOURCE GROUP fast WITH ('cpu_weight'='0', ⟦'exclusive_cpu_cores'='1')", "conflict", "type=short_query together"),
    ("E20", "CREATE RESOURCE GROUP g WITH ('max_cpu_cores'=⟦'32.5')", "beyond_machine", "there are 32 workers"),
    // Types and properties.
    ("E16", "CREATE RESOURCE GROUP g WITH ('type'=⟦'default')", "bad_value", "none of the words"),
    ("E17", "ALTER RESOURCE GROUP rg2 WITH (⟦'type'='short_query')", "immutable", "'type' cannot be changed"),
    ("E17 same", "ALTER RESOURCE GROUP rg2 WITH ('cpu_weight'='3', ⟦'type'='normal')", "immutable", "'type' cannot be changed"),
    ("E18", "ALTER RESOURCE GROUP rg2 WITH ⟦()", "nothing_to_set", "sets nothing"),
    ("E18 by CREATE", "CREATE RESOURCE GROUP g WITH ⟦()", "nothing_to_set", "sets nothing"),
    ("E19", "CREATE RESOURCE GROUP g WITH (⟦'cpu_cor_limit'='1')", "unknown_property", "'cpu_cor_limit'"),
    ("E21", "CREATE RESOURCE GROUP g WITH ('concurrency_limit'=⟦'-1')", "bad_value", "negative"),
    ("E21 bare", "CREATE RESOURCE GROUP g WITH (concurrency_limit = ⟦-1)", "bad_value", "negative"),
    ("E22 cpu", "CREATE RESOURCE GROUP g WITH ('big_query_cpu_second_limit'=⟦'-1')", "bad_value", "negative"),
    ("E22 rows", "CREATE RESOURCE GROUP g WITH ('big_query_scan_rows_limit'=⟦'-1')", "bad_value", "negative"),
    ("E22 memory", "CREATE RESOURCE GROUP g WITH ('big_query_mem_limit'=⟦'-1')", "bad_value", "negative"),
    ("E22 elapsed", "CREATE RESOURCE GROUP g WITH ('big_query_elapsed_second_limit'=⟦'-1')", "bad_value", "negative"),
    ("not a number", "CREATE RESOURCE GROUP g WITH ('concurrency_limit'=⟦'many')", "bad_value", "cannot be read"),
    ("too many seconds", "CREATE RESOURCE GROUP g WITH ('big_query_cpu_second_limit'=⟦'99999999999')", "bad_value", "too large"),
    ("E23 zero", "CREATE RESOURCE GROUP g WITH ('spill_mem_limit_threshold'=⟦'0')", "bad_value", "outside the range"),
    ("E23 above one", "CREATE RESOURCE GROUP g WITH ('spill_mem_limit_threshold'=⟦'1.01')", "bad_value", "outside the range"),
    ("pool of one's own", "CREATE RESOURCE GROUP g WITH ('mem_pool'=⟦'mine')", "bad_value", "none of the words"),
    ("no wait", "CREATE RESOURCE GROUP g WITH ('queue_timeout'=⟦'0s')", "bad_value", "outside the range"),
    ("two units", "CREATE RESOURCE GROUP g WITH ('queue_timeout'=⟦'1m30s')", "bad_value", "unit"),
    ("twice", "CREATE RESOURCE GROUP g WITH ('mem_limit'='1', ⟦'mem_limit'='1')", "duplicate", "'mem_limit' is given twice"),
    ("twice by alias and case", "CREATE RESOURCE GROUP g WITH ('cpu_weight'='1', ⟦'CPU_CORE_LIMIT'='1')", "duplicate", "'cpu_core_limit' is given twice"),
    ("switch to nobody", "CREATE RESOURCE GROUP g WITH ('big_query_action'=⟦'switch_group(nope)')", "unknown_group", "nope does not exist"),
    ("switch to itself", "ALTER RESOURCE GROUP rg2 WITH ('big_query_action'=⟦'switch_group(rg2)')", "bad_value", "the group itself"),
    ("switch to a new self", "CREATE RESOURCE GROUP g WITH ('big_query_action'=⟦'switch_group(g)')", "bad_value", "the group itself"),
    ("drop of a target", "DROP RESOURCE GROUP ⟦spare", "in_use", "target of big_query_action of watched"),
    // Built in.
    ("E24", "DROP RESOURCE GROUP ⟦default_wg", "builtin", "cannot be dropped"),
    ("E24 if exists", "DROP RESOURCE GROUP IF EXISTS ⟦default_wg", "builtin", "cannot be dropped"),
    ("E25 add", "ALTER RESOURCE GROUP ⟦default_wg ADD (user='z')", "builtin", "takes no classifiers"),
    ("E25 drop", "ALTER RESOURCE GROUP ⟦default_wg DROP (1)", "builtin", "takes no classifiers"),
    ("E25 drop all", "ALTER RESOURCE GROUP ⟦default_wg DROP ALL", "builtin", "takes no classifiers"),
    ("E25 replace", "CREATE RESOURCE GROUP OR REPLACE default_wg TO ⟦(user='z') WITH ('cpu_weight'='1')", "builtin", "takes no classifiers"),
    ("default stays normal", "CREATE RESOURCE GROUP OR REPLACE default_wg WITH ('type'=⟦'mv')", "builtin", "type is normal"),
    // Classifiers.
    ("E26", "ALTER RESOURCE GROUP rg2 ADD (⟦usr='z')", "unknown_classifier_key", "'usr'"),
    ("E26 IN", "ALTER RESOURCE GROUP rg2 ADD (⟦role IN ('z'))", "not_a_list", "'role' takes one value"),
    ("E27 operator", "ALTER RESOURCE GROUP rg2 ADD (user ⟦<> 'z')", "illegal_operator", "cannot use <>"),
    ("E27 like", "ALTER RESOURCE GROUP rg2 ADD (user ⟦LIKE 'z')", "illegal_operator", "cannot use LIKE"),
    ("E27 not in", "ALTER RESOURCE GROUP rg2 ADD (query_type ⟦NOT IN ('select'))", "illegal_operator", "cannot use NOT"),
    ("E27 number", "ALTER RESOURCE GROUP rg2 ADD (user = ⟦5)", "illegal_operand", "compares with 5"),
    ("E27 word", "ALTER RESOURCE GROUP rg2 ADD (query_type IN (⟦select))", "illegal_operand", "compares with select"),
    ("E28", "ALTER RESOURCE GROUP rg2 ADD (query_type = ⟦'mv')", "bad_value", "no such type"),
    ("E28 in a list", "ALTER RESOURCE GROUP rg2 ADD (query_type IN ('select', ⟦'selct'))", "bad_value", "no such type"),
    ("E30", "ALTER RESOURCE GROUP rg2 ADD (source_ip = ⟦'192.168.1.0/33')", "bad_value", "prefix is too long"),
    ("E30 name", "ALTER RESOURCE GROUP rg2 ADD (source_ip = ⟦'localhost')", "bad_value", "no address"),
    ("E32", "ALTER RESOURCE GROUP rg2 ADD (user='z'), ⟦()", "empty_classifier", "no condition"),
    ("E33 closed", "ALTER RESOURCE GROUP rg2 ADD (plan_cpu_cost_range = ⟦'[1, 10]')", "bad_value", "cannot be read"),
    ("E33 empty", "ALTER RESOURCE GROUP rg2 ADD (plan_mem_cost_range = ⟦'[10, 10)')", "bad_value", "not below"),
    ("E33 infinite", "ALTER RESOURCE GROUP rg2 ADD (plan_mem_cost_range = ⟦'[0, Infinity)')", "bad_value", "cannot be read"),
    ("nobody", "ALTER RESOURCE GROUP rg2 ADD (user = ⟦'')", "bad_value", "empty"),
    ("a hole in the list", "ALTER RESOURCE GROUP rg2 ADD (db = ⟦'a,,b')", "bad_value", "in the list is empty"),
    ("key twice", "ALTER RESOURCE GROUP rg2 ADD (user='z', role='y', ⟦USER='x')", "duplicate", "'user' is given twice"),
    ("identical elsewhere", "ALTER RESOURCE GROUP rg2 ADD (role='new'), ⟦(role='r', user='b')", "identical_classifier", "rg1 has an identical classifier (id 10003)"),
    ("identical once normalised", "CREATE RESOURCE GROUP g TO ⟦(db='y,x , y') WITH ('cpu_weight'='1')", "identical_classifier", "rg2 has"),
    ("identical in the same group", "ALTER RESOURCE GROUP rg1 ADD ⟦(user='a')", "identical_classifier", "rg1 has"),
    ("identical in the statement", "CREATE RESOURCE GROUP g TO (source_ip='10.1.2.3/8'), ⟦(source_ip='10.0.0.0/8') WITH ('cpu_weight'='1')", "identical_classifier", "g has an identical classifier"),
    ("identical by replace", "CREATE RESOURCE GROUP OR REPLACE rg2 TO ⟦(user='kiosk') WITH ('cpu_weight'='1')", "identical_classifier", "fast has"),
    ("unknown id", "ALTER RESOURCE GROUP rg1 DROP (10002, ⟦99)", "unknown_classifier", "rg1 has no classifier 99"),
    ("foreign id", "ALTER RESOURCE GROUP rg2 DROP (⟦10002)", "unknown_classifier", "it belongs to rg1"),
    ("id twice", "ALTER RESOURCE GROUP rg1 DROP (10002, ⟦10002)", "duplicate", "'10002' is given twice"),
    // Names.
    ("digit first", "CREATE RESOURCE GROUP ⟦1st WITH ('cpu_weight'='1')", "bad_name", "\"1st\""),
    ("foreign letter", "CREATE RESOURCE GROUP ⟦grüße WITH ('cpu_weight'='1')", "bad_name", "\"grüße\""),
    ("blank in quotes", "CREATE RESOURCE GROUP ⟦`a b` WITH ('cpu_weight'='1')", "bad_name", "\"a b\""),
    ("empty", "CREATE RESOURCE GROUP ⟦\"\" WITH ('cpu_weight'='1')", "bad_name", "\"\""),
    ("dot", "DROP RESOURCE GROUP ⟦a.b", "bad_name", "\"a.b\""),
    ("65 letters", "DROP RESOURCE GROUP ⟦a1234567890123456789012345678901234567890123456789012345678901234", "bad_name", "not a name"),
    // Grammar.
    ("no statement", "⟦INSERT INTO x VALUES (1)", "syntax", "found INSERT, expected CREATE, ALTER, DROP, SHOW, SET, KILL, SELECT, EXPLAIN or ROLLBACK"),
    ("misspelt", "⟦CREAT RESOURCE GROUP g", "syntax", "found CREAT"),
    ("or replace first", "CREATE ⟦OR REPLACE RESOURCE GROUP g WITH ('cpu_weight'='1')", "syntax", "found OR, expected RESOURCE"),
    ("wrong order", "CREATE RESOURCE GROUP OR REPLACE ⟦IF NOT EXISTS g WITH ('cpu_weight'='1')", "syntax", "found IF"),
    ("no WITH", "CREATE RESOURCE GROUP g TO (user='z')⟦", "syntax", "found the end of the statement, expected , or WITH"),
    ("WITH first", "CREATE RESOURCE GROUP g WITH ('cpu_weight'='1') ⟦TO (user='z')", "syntax", "found TO, expected the end of the statement"),
    ("no value", "CREATE RESOURCE GROUP g WITH ('cpu_weight'⟦)", "syntax", "expected ="),
    ("bare word", "CREATE RESOURCE GROUP g WITH ('type'=⟦normal)", "syntax", "found normal, expected a value in quotes"),
    ("comma at the end", "CREATE RESOURCE GROUP g WITH ('cpu_weight'='1',⟦)", "syntax", "found ), expected the key of a property"),
    ("two changes", "ALTER RESOURCE GROUP rg2 ADD (user='z') ⟦WITH ('cpu_weight'='1')", "syntax", "found WITH"),
    ("id in quotes", "ALTER RESOURCE GROUP rg1 DROP (⟦'10002')", "syntax", "expected the id of a classifier"),
    ("id too large", "ALTER RESOURCE GROUP rg1 DROP (⟦99999999999999999999)", "syntax", "expected the id of a classifier"),
    ("no ids", "ALTER RESOURCE GROUP rg1 DROP (⟦)", "syntax", "expected the id of a classifier"),
    ("rename", "ALTER RESOURCE GROUP rg1 ⟦RENAME rg9", "syntax", "expected ADD, DROP or WITH"),
    ("like without quotes", "SHOW RESOURCE GROUPS LIKE ⟦rg", "syntax", "expected a pattern in quotes"),
    ("more behind", "SHOW RESOURCE GROUPS ALL ⟦ALL", "syntax", "found ALL, expected the end"),
    ("nothing behind", "DROP RESOURCE GROUP⟦", "syntax", "found the end of the statement, expected a name"),
    ("second statement", "DROP RESOURCE GROUP spare;\n  -- then\n  DROP ⟦RESORCE GROUP rg1", "syntax", "found RESORCE, expected RESOURCE or WATCH"),
    ("open quote", "DROP RESOURCE GROUP spare; SHOW RESOURCE GROUPS LIKE ⟦'a", "unterminated", "'text' is never closed"),
    ("open comment", "SHOW RESOURCE GROUPS ⟦/* a", "unterminated", "comment"),
    // Running work.
    ("kill nobody", "KILL⟦", "syntax", "found the end of the statement, expected the id of a query"),
    ("kill by name", "KILL QUERY ⟦etl", "syntax", "found etl, expected the id of a query"),
    ("kill in quotes", "KILL ⟦'17'", "syntax", "expected the id of a query"),
    ("kill less than nobody", "KILL ⟦-1", "syntax", "found -, expected the id of a query"),
    ("kill a half", "KILL ⟦1.5", "syntax", "found 1.5, expected the id of a query"),
    ("kill beyond all ids", "KILL ⟦18446744073709551616", "syntax", "expected the id of a query"),
    ("kill two", "KILL 1⟦, 2", "syntax", "found ,, expected the end of the statement"),
    ("kill misspelt", "KILL ⟦QUERRY 1", "syntax", "found QUERRY, expected the id of a query"),
    ("watch without id", "DROP WATCH⟦", "syntax", "expected the id of a watch"),
    ("running what", "SHOW RUNNING⟦", "syntax", "expected QUERIES"),
    ("runaway what", "SHOW RUNAWAY ⟦QUERIES", "syntax", "found QUERIES, expected EVENTS"),
    ("limit of nothing", "SHOW RUNNING QUERIES LIMIT⟦", "syntax", "expected a number of rows"),
    ("limit of all", "SHOW RUNAWAY EVENTS LIMIT ⟦ALL", "syntax", "found ALL, expected a number of rows"),
    ("no limit here", "SHOW QUERIES ⟦LIMIT 3", "syntax", "found LIMIT, expected the end"),
    ("misspelt queries", "SHOW ⟦QUERYS", "syntax", "found QUERYS, expected RESOURCE"),
    ("NUL", "SHOW RESOURCE GROUPS LIKE 'a⟦\0'", "bad_character", "U+0000"),
];

#[test]
fn each_refusal_has_its_kind_and_place_and_changes_nothing() {
    let catalog = catalog();
    let before = catalog.snapshot();
    for (what, marked, code, fragment) in REFUSED {
        let (head, tail) = marked.split_once('⟦').unwrap();
        let script = format!("{head}{tail}");
        let error = match run(&catalog, &script) {
            Err(error) => error,
            Ok(()) => panic!("{what}: accepted: {script}"),
        };
        assert_eq!(error.kind.code(), *code, "{what}: {error}");
        let line = head.matches('\n').count() + 1;
        let column = head.rsplit('\n').next().unwrap().chars().count() + 1;
        let place = (error.line(), error.column());
        assert_eq!(place, (line, column), "{what}: {}", error.render(&script));
        assert_eq!(error.span.start, head.chars().count(), "{what}: {error}");
        assert!(error.message().contains(fragment), "{what}: {error}");
        assert_eq!(error.sqlstate().len(), 5, "{what}");
        let after = catalog.snapshot();
        assert_eq!(after.version(), before.version(), "{what}");
        assert!(after == before, "{what}: the catalog changed");
    }
}

/// EXPLAIN of a change refuses what the change refuses, for the same reason and at the same place behind the word.
#[test]
fn an_explained_change_is_refused_as_the_change_is() {
    let catalog = catalog();
    let before = catalog.snapshot();
    let mut compared = 0;
    for (what, marked, code, _) in REFUSED {
        let text = marked.replace('⟦', "");
        let Ok(parsed) = sql::parse(&text) else {
            continue;
        };
        let [change] = &parsed[..] else { continue };
        if !matches!(
            change.tag().split(' ').next(),
            Some("CREATE" | "ALTER" | "DROP")
        ) {
            continue;
        }
        let explained = sql::parse(&format!("EXPLAIN {text}")).unwrap();
        let [Statement::ExplainChange(explained)] = &explained[..] else {
            panic!("{what}");
        };
        let real = catalog.apply(change, Origin::Statement).unwrap_err();
        let dry = catalog.explain(explained).unwrap_err();
        assert_eq!(dry.kind, real.kind, "{what}");
        assert_eq!(dry.kind.code(), *code, "{what}");
        assert_eq!(dry.hint, real.hint, "{what}");
        assert_eq!(dry.did_you_mean, real.did_you_mean, "{what}");
        let shift = "EXPLAIN ".len();
        assert_eq!(dry.span.start, real.span.start + shift, "{what}");
        assert_eq!(dry.span.end, real.span.end + shift, "{what}");
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
    assert_eq!(catalog.snapshot().version(), before.version());
    assert_eq!(catalog.snapshot(), before);
}

/// A refused CREATE IF NOT EXISTS of a group that is there has been validated all the same (E2).
#[test]
fn if_not_exists_validates_and_changes_nothing() {
    let catalog = catalog();
    let before = catalog.snapshot();
    run(
        &catalog,
        "CREATE RESOURCE GROUP IF NOT EXISTS rg2 TO (db='x,y') WITH ('cpu_weight'='5')",
    )
    .unwrap();
    assert_eq!(catalog.snapshot(), before);
    for (text, code) in [
        (
            "TO (user='a') WITH ('cpu_weight'='5')",
            "identical_classifier",
        ),
        ("WITH ('cpu_weight'='x')", "bad_value"),
        ("WITH ('exclusive_cpu_cores'='16')", "beyond_machine"),
    ] {
        let script = format!("CREATE RESOURCE GROUP IF NOT EXISTS rg2 {text}");
        assert_eq!(
            run(&catalog, &script).unwrap_err().kind.code(),
            code,
            "{text}"
        );
    }
}

#[test]
fn slips_of_the_hand_get_a_did_you_mean() {
    let catalog = catalog();
    for (script, word) in [
        ("CREAT RESOURCE GROUP g", "CREATE"),
        ("DROP RESOURCE GRUOP g", "GROUP"),
        (
            "CREATE RESOURCE GROUP g WITH ('cpu_cor_limit'='1')",
            "cpu_core_limit",
        ),
        (
            "CREATE RESOURCE GROUP g WITH ('cpu_wieght'='1')",
            "cpu_weight",
        ),
        ("ALTER RESOURCE GROUP rg2 ADD (usr='z')", "user"),
        (
            "ALTER RESOURCE GROUP rg2 ADD (query_type='selct')",
            "select",
        ),
        ("DROP RESOURCE GROUP spar", "spare"),
        ("SHOW RESOURCE GROUP RG1", "rg1"),
    ] {
        let error = run(&catalog, script).unwrap_err();
        assert_eq!(
            error.did_you_mean.as_deref(),
            Some(word),
            "{script}: {error}"
        );
    }
}

/// Every refusal helps: it says what is allowed.
#[test]
fn nearly_every_refusal_has_a_hint() {
    let catalog = catalog();
    for (what, marked, _, _) in REFUSED {
        let error = run(&catalog, &marked.replace('⟦', "")).unwrap_err();
        let plain = matches!(error.kind.code(), "duplicate");
        assert!(error.hint.is_some() || plain, "{what}: {error}");
    }
}
