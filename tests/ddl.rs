//! What is accepted, and what it does: statements of StarRocks as they are, our own additions, changes in place.

#![allow(clippy::unwrap_used)]

use quotient::catalog::{Applied, Catalog, GroupType, Machine, Origin, Snapshot};
use quotient::sql::{self, NoticeKind, Output, SqlError, Value};
use quotient::unit::{Bytes, GroupId, Nanos};
use std::sync::Arc;

const MACHINE: Machine = Machine {
    workers: 32,
    memory_limit: Bytes(64 << 30),
};

fn catalog() -> Catalog {
    Catalog::new(MACHINE)
}

fn try_run(catalog: &Catalog, script: &str) -> Result<Applied, SqlError> {
    let mut last = None;
    for statement in sql::parse(script)? {
        last = Some(catalog.apply(&statement, Origin::Statement)?);
    }
    Ok(last.unwrap())
}

fn run(catalog: &Catalog, script: &str) -> Applied {
    try_run(catalog, script).unwrap_or_else(|e| panic!("{}", e.render(script)))
}

fn show(catalog: &Catalog, script: &str) -> Output {
    run(catalog, script).output
}

fn text(value: Option<&Value>) -> String {
    value.unwrap().to_string()
}

fn column(output: &Output, name: &str) -> Vec<String> {
    (0..output.rows().len())
        .map(|row| text(output.get(row, name)))
        .collect()
}

fn ids(snapshot: &Snapshot, group: &str) -> Vec<u64> {
    let group = snapshot.group(group).unwrap();
    group.classifiers.iter().map(|c| c.id.0).collect()
}

/// Six statements of StarRocks' kind, one after the other.
#[test]
fn starrocks_statements_run_unchanged() {
    let catalog = catalog();
    run(
        &catalog,
        "CREATE RESOURCE GROUP etl TO (user='loader', query_type IN ('insert')) WITH ('cpu_weight'='4','mem_limit'='30%','concurrency_limit'='6');",
    );
    run(
        &catalog,
        "CREATE RESOURCE GROUP IF NOT EXISTS OR REPLACE bi TO (db='sales'), (role='analyst', source_ip='10.1.0.0/16') WITH ('cpu_weight'='10','mem_limit'='0.4','big_query_cpu_second_limit'='100','big_query_scan_rows_limit'='100000','big_query_mem_limit'='1073741824');",
    );
    let output = show(
        &catalog,
        "ALTER RESOURCE GROUP bi ADD (user='boss'); SHOW RESOURCE GROUP bi;",
    );
    assert_eq!(
        column(&output, "classifiers"),
        [
            "(id=10004, weight=10.0, db='sales')",
            "(id=10005, weight=2.25, role=analyst, source_ip=10.1.0.0/16)",
            "(id=10006, weight=1.0, user=boss)",
        ]
    );
    run(&catalog, "ALTER RESOURCE GROUP bi DROP (10004, 10005);");
    assert_eq!(ids(&catalog.snapshot(), "bi"), [10_006]);
    run(
        &catalog,
        "ALTER RESOURCE GROUP etl WITH ('mem_limit'='20%','concurrency_limit'='2');",
    );
    run(
        &catalog,
        "CREATE RESOURCE GROUP vip TO (user='kiosk') WITH ('exclusive_cpu_cores'='2','mem_limit'='10%');",
    );
    let snapshot = catalog.snapshot();
    let etl = snapshot.group("etl").unwrap();
    assert_eq!(etl.cpu_core_limit().get(), 4);
    assert_eq!(etl.concurrency_limit(), Some(2));
    assert_eq!(etl.mem_limit(), Bytes((64_u64 << 30) / 5));
    let bi = snapshot.group("bi").unwrap();
    assert_eq!(bi.big_query_cpu_second_limit(), Some(Nanos::from_secs(100)));
    assert_eq!(bi.big_query_scan_rows_limit(), Some(100_000));
    assert_eq!(bi.big_query_mem_limit(), Some(Bytes(1 << 30)));
    assert_eq!(snapshot.group("vip").unwrap().exclusive_cpu_cores(), 2);
    assert_eq!(snapshot.version(), 7);
}

/// Forms that people write, and what StarRocks refuses but this grammar does not (E5, E6, E7, E9, E11, E15, E29, E31).
#[test]
fn these_forms_are_accepted() {
    for script in [
        "create resource group g to (USER='u') with ('CPU_Weight'='1')",
        "CREATE RESOURCE GROUP g TO (`user`=\"u\") WITH (\"cpu_weight\"=\"1\");;;",
        "/* a; */ CREATE -- ;\n RESOURCE/**/GROUP g WITH('cpu_weight'=1)",
        "CREATE RESOURCE GROUP `g` WITH (cpu_weight = 1, mem_limit = 0.5, queue_timeout = 30)",
        "CREATE RESOURCE GROUP \"my-group\" WITH ('cpu_weight'=' 1 ')",
        "CREATE RESOURCE GROUP my-group WITH ('cpu_weight'='1')",
        "CREATE RESOURCE GROUP a$-1-b2 WITH ('cpu_weight'='1')",
        "CREATE RESOURCE GROUP to TO (user='u') WITH ('cpu_weight'='1')",
        "CREATE RESOURCE GROUP `if` WITH ('cpu_weight'='1')",
        "CREATE RESOURCE GROUP g TO (query_type='mv_refresh'), (query_type in ('SELECT', 'Import', 'other', 'compaction')) WITH ('cpu_weight'='1')",
        "CREATE RESOURCE GROUP g TO (source_ip='10.1.2.3'), (source_ip='2001:db8::/32') WITH ('cpu_weight'='1')",
        "CREATE RESOURCE GROUP g TO (plan_cpu_cost_range=' [ -1,  10.5) ') WITH ('cpu_weight'='1')",
        // E5: no TO. E7: no mem_limit. E9: neither weight nor reservation. E11: weight beyond the cores.
        "CREATE RESOURCE GROUP g WITH ('concurrency_limit'='0')",
        "CREATE RESOURCE GROUP g TO (user='u') WITH ('mem_limit'='10%')",
        "CREATE RESOURCE GROUP g WITH ('cpu_weight'='10000')",
        // E6: an mv group with classifiers.
        "CREATE RESOURCE GROUP g TO (user='u') WITH ('type'='mv', 'cpu_weight'='1'); ALTER RESOURCE GROUP g DROP ALL",
        // E15: two short_query groups.
        "CREATE RESOURCE GROUP g WITH ('type'='short_query'); CREATE RESOURCE GROUP h WITH ('type'='SHORT_QUERY')",
        // E29: any user and role. E31: any database.
        "CREATE RESOURCE GROUP g TO (user='x'), (user='Ünal O''Hara; --'), (role='a\\b') WITH ('cpu_weight'='1')",
        "CREATE RESOURCE GROUP g TO (db='no such database') WITH ('cpu_weight'='1')",
        // E23: 1 is off.
        "CREATE RESOURCE GROUP g WITH ('spill_mem_limit_threshold'='1')",
        "CREATE RESOURCE GROUP g WITH ('mem_pool'='default_mem_pool', 'mem_limit'='512MiB', 'max_cpu_cores'='0.01')",
        "CREATE RESOURCE GROUP g WITH ('cpu_weight'='0', 'exclusive_cpu_cores'='31')",
        "ALTER RESOURCE GROUP default_wg WITH ('concurrency_limit'='5')",
        "DROP RESOURCE GROUP IF EXISTS nobody",
    ] {
        run(&catalog(), script);
    }
}

/// StarRocks' examples of ALTER WITH on a machine of 32 cores, as far as they are accepted.
#[test]
fn the_cpu_pair_changes_hands_in_one_statement() {
    let catalog = catalog();
    run(&catalog, "CREATE RESOURCE GROUP g WITH ('cpu_weight'='17')");
    run(
        &catalog,
        "ALTER RESOURCE GROUP g WITH ('cpu_weight'='0', 'exclusive_cpu_cores'='16')",
    );
    let g = catalog.snapshot().group("g").unwrap().clone();
    assert_eq!((g.cpu_core_limit().get(), g.exclusive_cpu_cores()), (1, 16));
    run(
        &catalog,
        "ALTER RESOURCE GROUP g WITH ('cpu_weight'='15', 'exclusive_cpu_cores'='0')",
    );
    let g = catalog.snapshot().group("g").unwrap().clone();
    assert_eq!((g.cpu_core_limit().get(), g.exclusive_cpu_cores()), (15, 0));
}

#[test]
fn the_sum_of_reservations_leaves_one_worker() {
    let catalog = catalog();
    let create = |name: &str, cores: u64| {
        format!("CREATE RESOURCE GROUP OR REPLACE {name} WITH ('exclusive_cpu_cores'='{cores}')")
    };
    run(&catalog, &create("rg1", 16));
    run(&catalog, &create("rg2", 15));
    assert!(
        try_run(
            &catalog,
            "ALTER RESOURCE GROUP rg1 WITH ('exclusive_cpu_cores'='17')"
        )
        .is_err()
    );
    // A group that is replaced does not count against itself.
    run(&catalog, &create("rg1", 16));
    run(
        &catalog,
        "ALTER RESOURCE GROUP rg1 WITH ('exclusive_cpu_cores'='14')",
    );
    assert!(try_run(&catalog, &create("rg3", 3)).is_err());
    run(&catalog, &create("rg3", 2));
}

#[test]
fn ids_grow_in_text_order_and_are_never_reused() {
    let catalog = catalog();
    run(
        &catalog,
        "CREATE RESOURCE GROUP a TO (user='1'), (user='2') WITH ('cpu_weight'='1')",
    );
    run(
        &catalog,
        "CREATE RESOURCE GROUP b TO (user='3') WITH ('cpu_weight'='1')",
    );
    let snapshot = catalog.snapshot();
    assert_eq!(snapshot.group("a").unwrap().id, GroupId::FIRST);
    assert_eq!(ids(&snapshot, "a"), [10_002, 10_003]);
    assert_eq!(snapshot.group("b").unwrap().id, GroupId(10_004));
    assert_eq!(ids(&snapshot, "b"), [10_005]);
    run(&catalog, "DROP RESOURCE GROUP b");
    assert!(
        try_run(
            &catalog,
            "CREATE RESOURCE GROUP b TO (user='3'), (user='3') WITH ('cpu_weight'='1')"
        )
        .is_err()
    );
    run(
        &catalog,
        "CREATE RESOURCE GROUP b TO (user='3') WITH ('cpu_weight'='1')",
    );
    let snapshot = catalog.snapshot();
    assert_eq!(snapshot.group("b").unwrap().id, GroupId(10_006));
    assert_eq!(ids(&snapshot, "b"), [10_007]);
}

#[test]
fn or_replace_alters_everything_in_place() {
    let catalog = catalog();
    run(
        &catalog,
        "CREATE RESOURCE GROUP g TO (user='a'), (user='b') WITH ('cpu_weight'='3', 'concurrency_limit'='2', 'type'='short_query')",
    );
    let id = catalog.snapshot().group("g").unwrap().id;
    run(
        &catalog,
        "CREATE RESOURCE GROUP OR REPLACE g TO (user='b'), (user='c') WITH ('cpu_weight'='5')",
    );
    let snapshot = catalog.snapshot();
    let g = snapshot.group("g").unwrap();
    assert_eq!(g.id, id, "the same group");
    assert_eq!(ids(&snapshot, "g"), [10_004, 10_005], "new classifiers");
    assert_eq!(g.cpu_core_limit().get(), 5);
    assert_eq!(
        g.concurrency_limit(),
        None,
        "absent properties return to their defaults"
    );
    assert_eq!(g.group_type(), GroupType::Normal);
    // What it no longer asks for is free for others.
    run(
        &catalog,
        "CREATE RESOURCE GROUP h TO (user='a') WITH ('cpu_weight'='1')",
    );
}

#[test]
fn if_not_exists_and_if_exists_say_that_they_skipped() {
    let catalog = catalog();
    run(&catalog, "CREATE RESOURCE GROUP g WITH ('cpu_weight'='3')");
    let before = catalog.snapshot();
    for script in [
        "CREATE RESOURCE GROUP IF NOT EXISTS g WITH ('cpu_weight'='4')",
        "CREATE RESOURCE GROUP IF NOT EXISTS default_wg WITH ('cpu_weight'='4')",
        "DROP RESOURCE GROUP IF EXISTS h",
    ] {
        let applied = run(&catalog, script);
        assert!(!applied.changed);
        assert_eq!(
            applied.output.notices()[0].kind,
            NoticeKind::Skipped,
            "{script}"
        );
    }
    let after = catalog.snapshot();
    assert_eq!((after.version(), &after), (before.version(), &before));
}

#[test]
fn the_default_group_has_the_workers_as_its_weight_until_told_otherwise() {
    let catalog = catalog();
    let weight = |catalog: &Catalog| catalog.snapshot().default_group().cpu_core_limit().get();
    assert_eq!(weight(&catalog), 32);
    run(
        &catalog,
        "ALTER RESOURCE GROUP default_wg WITH ('cpu_weight'='3')",
    );
    assert_eq!(weight(&catalog), 3);
    assert_eq!(
        catalog.snapshot().group("default_wg").unwrap().id,
        GroupId::DEFAULT
    );
    run(
        &catalog,
        "CREATE RESOURCE GROUP OR REPLACE default_wg WITH ('concurrency_limit'='7')",
    );
    assert_eq!(weight(&catalog), 32);
    assert_eq!(
        catalog.snapshot().default_group().concurrency_limit(),
        Some(7)
    );
}

#[test]
fn io_weight_follows_cpu_core_limit_until_it_is_set() {
    let catalog = catalog();
    run(&catalog, "CREATE RESOURCE GROUP g WITH ('cpu_weight'='3')");
    let io = |catalog: &Catalog| catalog.snapshot().group("g").unwrap().io_weight().get();
    assert_eq!(io(&catalog), 3);
    run(&catalog, "ALTER RESOURCE GROUP g WITH ('cpu_weight'='8')");
    assert_eq!(io(&catalog), 8);
    run(
        &catalog,
        "ALTER RESOURCE GROUP g WITH ('io_weight'='2', 'cpu_weight'='9')",
    );
    assert_eq!(io(&catalog), 2);
}

#[test]
fn show_lists_one_row_per_classifier_with_the_columns_in_order() {
    let catalog = catalog();
    run(
        &catalog,
        "CREATE RESOURCE GROUP rg1 TO (user='u1', role='r1', query_type in ('select'), source_ip='192.168.2.1/24'), (db='d') WITH ('cpu_weight'='10', 'mem_limit'='7%', 'max_cpu_cores'='8', 'concurrency_limit'='11', 'spill_mem_limit_threshold'='0.8', 'big_query_cpu_second_limit'='1.5', 'queue_timeout'='2m')",
    );
    run(
        &catalog,
        "CREATE RESOURCE GROUP lone WITH ('concurrency_limit'='0', 'mem_limit'='512 MiB')",
    );
    let output = show(&catalog, "SHOW RESOURCE GROUPS ALL");
    assert_eq!(
        output.columns(),
        [
            "name",
            "id",
            "cpu_core_limit",
            "max_cpu_cores",
            "exclusive_cpu_cores",
            "mem_limit",
            "spill_mem_limit_threshold",
            "concurrency_limit",
            "max_queued_queries",
            "queue_timeout",
            "big_query_cpu_second_limit",
            "big_query_scan_rows_limit",
            "big_query_mem_limit",
            "big_query_elapsed_second_limit",
            "big_query_action",
            "type",
            "io_weight",
            "max_io_bytes_per_second",
            "classifiers",
        ]
    );
    let row = |i: usize| -> Vec<String> { output.rows()[i].iter().map(Value::to_string).collect() };
    assert_eq!(
        row(0),
        [
            "default_wg",
            "2",
            "32",
            "NULL",
            "0",
            "100.0%",
            "100%",
            "NULL",
            "0",
            "300s",
            "0",
            "0",
            "0",
            "0",
            "kill",
            "NORMAL",
            "32",
            "0",
            "(id=0, weight=0.0)"
        ]
    );
    assert_eq!(
        row(1),
        [
            "lone",
            "10004",
            "1",
            "NULL",
            "0",
            "512 MiB",
            "100%",
            "0",
            "0",
            "300s",
            "0",
            "0",
            "0",
            "0",
            "kill",
            "NORMAL",
            "1",
            "0",
            "(id=0, weight=0.0)"
        ]
    );
    assert_eq!(
        row(2),
        [
            "rg1",
            "10001",
            "10",
            "8",
            "0",
            "7.0%",
            "80%",
            "11",
            "0",
            "120s",
            "1.5",
            "0",
            "0",
            "0",
            "kill",
            "NORMAL",
            "10",
            "0",
            "(id=10002, weight=4.475, user=u1, role=r1, query_type in (SELECT), source_ip=192.168.2.0/24)"
        ]
    );
    assert_eq!(row(3)[18], "(id=10003, weight=10.0, db='d')");
    assert_eq!(output.rows().len(), 4);
    // Without ALL: groups with classifiers. LIKE narrows both.
    assert_eq!(
        column(&show(&catalog, "SHOW RESOURCE GROUPS"), "name"),
        ["rg1", "rg1"]
    );
    let like = show(&catalog, "SHOW RESOURCE GROUPS ALL LIKE '%\\_wg'");
    assert_eq!(column(&like, "name"), ["default_wg"]);
    let verbose = show(&catalog, "SHOW VERBOSE RESOURCE GROUP lone");
    assert_eq!(
        verbose.columns()[18..],
        [
            "quarantine_after",
            "quarantine_window",
            "mem_pool",
            "notes",
            "classifiers"
        ]
    );
}

#[test]
fn show_create_makes_the_same_group_in_an_empty_catalog() {
    let first = catalog();
    run(
        &first,
        "CREATE RESOURCE GROUP `my-group` TO (db='b, a', user='O''Hara', plan_cpu_cost_range='[0,1.5)'), (source_ip='::ffff:10.0.0.0/104', query_type IN ('insert','select')) WITH ('cpu_weight'='3','mem_limit'='512 MiB','big_query_action'='switch_group(default_wg)')",
    );
    let output = show(&first, "SHOW CREATE RESOURCE GROUP `my-group`");
    assert_eq!(output.columns(), ["name", "create_statement"]);
    let statement = text(output.get(0, "create_statement"));
    assert_eq!(
        statement,
        "CREATE RESOURCE GROUP `my-group` TO (user='O''Hara', db='a, b', plan_cpu_cost_range='[0.0, 1.5)'), \
         (query_type IN ('select', 'insert'), source_ip='10.0.0.0/8') \
         WITH ('cpu_core_limit'='3', 'mem_limit'='512 MiB', 'big_query_action'='switch_group(default_wg)')"
    );
    let second = catalog();
    run(&second, &statement);
    assert_eq!(first.snapshot(), second.snapshot());
    let default = show(&first, "SHOW CREATE RESOURCE GROUP default_wg");
    assert_eq!(
        text(default.get(0, "create_statement")),
        "ALTER RESOURCE GROUP default_wg WITH ('cpu_core_limit'='32')"
    );
}

#[test]
fn show_usage_is_read_but_answered_elsewhere() {
    let error = try_run(&catalog(), "SHOW USAGE RESOURCE GROUPS").unwrap_err();
    assert_eq!(
        (error.kind.code(), error.sqlstate()),
        ("unsupported", "0A000")
    );
}

#[test]
fn a_target_of_switch_group_can_be_dropped_once_nobody_names_it() {
    let catalog = catalog();
    run(
        &catalog,
        "CREATE RESOURCE GROUP slow WITH ('cpu_weight'='1'); CREATE RESOURCE GROUP g WITH ('big_query_action'='switch_group( slow )')",
    );
    assert!(try_run(&catalog, "DROP RESOURCE GROUP slow").is_err());
    run(
        &catalog,
        "ALTER RESOURCE GROUP g WITH ('big_query_action'='kill'); DROP RESOURCE GROUP slow",
    );
}

#[test]
fn a_snapshot_in_hand_does_not_change() {
    let catalog = catalog();
    run(
        &catalog,
        "CREATE RESOURCE GROUP g TO (user='u') WITH ('cpu_weight'='1')",
    );
    let held: Arc<Snapshot> = catalog.snapshot();
    run(
        &catalog,
        "ALTER RESOURCE GROUP g WITH ('cpu_weight'='2'); ALTER RESOURCE GROUP g DROP ALL; DROP RESOURCE GROUP g",
    );
    let g = held.group("g").unwrap();
    assert_eq!((g.cpu_core_limit().get(), g.classifiers.len()), (1, 1));
    assert!(catalog.snapshot().group("g").is_none());
    assert_eq!(catalog.snapshot().version(), held.version() + 3);
}
