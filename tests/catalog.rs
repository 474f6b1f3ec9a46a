//! The catalog as a whole: scripts that apply as one, files from other machines, readers beside writers.

#![allow(clippy::unwrap_used)]

use quotient::catalog::{Catalog, Machine, Origin};
use quotient::sql::{self, NoticeKind, Statement};
use quotient::unit::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};

fn machine(workers: usize, gib: u64) -> Machine {
    Machine {
        workers,
        memory_limit: Bytes(gib << 30),
    }
}

fn parse(script: &str) -> Vec<Statement> {
    sql::parse(script).unwrap()
}

#[test]
fn a_script_applies_as_one_with_one_version() {
    let catalog = Catalog::new(machine(4, 8));
    let before = catalog.snapshot().version();
    let script = "
        CREATE RESOURCE GROUP a TO (user='a') WITH ('cpu_weight'='1');
        SHOW RESOURCE GROUPS;
        ALTER RESOURCE GROUP a ADD (user='b');
        CREATE RESOURCE GROUP b WITH ('cpu_weight'='2')";
    let applied = catalog.apply_all(&parse(script), Origin::File).unwrap();
    assert_eq!(applied.outputs.len(), 4);
    assert_eq!(
        applied.outputs[1].rows().len(),
        1,
        "SHOW sees what came before it"
    );
    assert!(applied.changed);
    assert_eq!(applied.snapshot.version(), before + 1);
    assert_eq!(catalog.snapshot().groups().len(), 3);
    assert_eq!(catalog.snapshot().classifiers().count(), 2);
}

#[test]
fn a_script_with_one_bad_statement_leaves_nothing_behind() {
    let catalog = Catalog::new(machine(4, 8));
    let good = "CREATE RESOURCE GROUP a TO (user='a') WITH ('cpu_weight'='1')";
    catalog.apply_all(&parse(good), Origin::File).unwrap();
    let before = catalog.snapshot();
    let script = "
        CREATE RESOURCE GROUP b TO (user='b') WITH ('cpu_weight'='1');
        SHOW RESOURCE GROUPS;
        ALTER RESOURCE GROUP a DROP ALL;
        DROP RESOURCE GROUP nobody;
        CREATE RESOURCE GROUP c WITH ('cpu_weight'='1')";
    for origin in [Origin::File, Origin::Statement] {
        let error = catalog.apply_all(&parse(script), origin).unwrap_err();
        assert_eq!((error.statement, error.applied, error.line()), (4, 0, 5));
        let after = catalog.snapshot();
        assert_eq!((after.version(), &after), (before.version(), &before));
    }
    // Neither the classifiers nor the ids of the failed script are taken.
    let free = "CREATE RESOURCE GROUP b TO (user='b') WITH ('cpu_weight'='1')";
    let applied = catalog.apply_all(&parse(free), Origin::Statement).unwrap();
    assert_eq!(applied.snapshot.group("b").unwrap().id.0, 10_003);
    let taken = "ALTER RESOURCE GROUP b ADD (user='a')";
    let error = catalog
        .apply_all(&parse(taken), Origin::Statement)
        .unwrap_err();
    assert_eq!(error.kind.code(), "identical_classifier");
}

#[test]
fn a_file_from_a_larger_machine_loads_is_cut_and_says_so() {
    let script = "
        CREATE RESOURCE GROUP a WITH ('max_cpu_cores'='12.5', 'mem_limit'='64GiB');
        CREATE RESOURCE GROUP b WITH ('exclusive_cpu_cores'='2', 'mem_limit'='25%');
        CREATE RESOURCE GROUP c WITH ('exclusive_cpu_cores'='30')";
    let small = Catalog::new(machine(4, 8));
    assert_eq!(
        small
            .apply_all(&parse(script), Origin::Statement)
            .unwrap_err()
            .kind
            .code(),
        "beyond_machine"
    );
    let applied = small.apply_all(&parse(script), Origin::File).unwrap();
    let group = |name: &str| applied.snapshot.group(name).unwrap().clone();
    assert_eq!(group("a").max_cpu_cores(), Some(4.0));
    assert_eq!(group("a").mem_limit(), Bytes(8 << 30));
    assert_eq!(group("b").exclusive_cpu_cores(), 2);
    assert_eq!(group("b").mem_limit(), Bytes(2 << 30));
    assert_eq!(group("c").exclusive_cpu_cores(), 1, "what is left");
    assert_eq!(group("c").exclusive_cpu_cores_written(), 30);
    let cut = |output: &sql::Output| -> Vec<&str> {
        output
            .notices()
            .iter()
            .filter(|n| n.kind == NoticeKind::Clamped)
            .map(|n| n.property.unwrap())
            .collect()
    };
    assert_eq!(cut(&applied.outputs[0]), ["max_cpu_cores", "mem_limit"]);
    assert!(cut(&applied.outputs[1]).is_empty());
    assert_eq!(cut(&applied.outputs[2]), ["exclusive_cpu_cores"]);
    let show = parse("SHOW VERBOSE RESOURCE GROUPS ALL");
    let shown = small.apply(&show[0], Origin::Statement).unwrap().output;
    assert_eq!(
        cut(&shown),
        ["max_cpu_cores", "mem_limit", "exclusive_cpu_cores"]
    );
    let notes = shown.get(2, "notes").unwrap().to_string();
    assert!(
        notes.ends_with("exclusive_cpu_cores is 1 in effect"),
        "{notes}"
    );
    // Kept as written: what SHOW CREATE says means the same on the large machine.
    let large = Catalog::new(machine(64, 256));
    for name in ["a", "b", "c"] {
        let statement = group(name).to_statement();
        large.apply(&statement, Origin::Statement).unwrap();
    }
    assert_eq!(
        large.snapshot().group("c").unwrap().exclusive_cpu_cores(),
        30
    );
    assert_eq!(
        large.snapshot().group("a").unwrap().max_cpu_cores(),
        Some(12.5)
    );
    assert_eq!(
        large.snapshot().group("a").unwrap().mem_limit(),
        Bytes(64 << 30)
    );
}

#[test]
fn a_catalog_beyond_the_machine_can_still_be_changed_by_statements() {
    let catalog = Catalog::new(machine(4, 8));
    let script = "
        CREATE RESOURCE GROUP b WITH ('exclusive_cpu_cores'='20', 'mem_limit'='64GiB');
        CREATE RESOURCE GROUP c WITH ('exclusive_cpu_cores'='30')";
    catalog.apply_all(&parse(script), Origin::File).unwrap();
    for (statement, accepted) in [
        (
            "ALTER RESOURCE GROUP b WITH ('concurrency_limit'='3')",
            true,
        ),
        ("CREATE RESOURCE GROUP d WITH ('cpu_weight'='3')", true),
        (
            "ALTER RESOURCE GROUP c WITH ('exclusive_cpu_cores'='2')",
            true,
        ),
        (
            "ALTER RESOURCE GROUP c WITH ('exclusive_cpu_cores'='3')",
            false,
        ),
        (
            "ALTER RESOURCE GROUP b WITH ('exclusive_cpu_cores'='0')",
            true,
        ),
        (
            "ALTER RESOURCE GROUP c WITH ('exclusive_cpu_cores'='3')",
            true,
        ),
        (
            "ALTER RESOURCE GROUP c WITH ('exclusive_cpu_cores'='4')",
            false,
        ),
    ] {
        let done = catalog.apply(&parse(statement)[0], Origin::Statement);
        assert_eq!(done.is_ok(), accepted, "{statement}: {:?}", done.err());
    }
    let granted = catalog.snapshot().group("c").unwrap().exclusive_cpu_cores();
    assert_eq!(granted, 3, "what the other one gave back");
    assert_eq!(
        catalog.snapshot().group("b").unwrap().exclusive_cpu_cores(),
        0
    );
}

#[test]
fn a_share_of_a_tiny_limit_is_at_least_one_byte_from_a_file() {
    let tiny = Catalog::new(Machine {
        workers: 1,
        memory_limit: Bytes(10),
    });
    let statement = &parse("CREATE RESOURCE GROUP a WITH ('mem_limit'='1%')")[0];
    assert!(tiny.apply(statement, Origin::Statement).is_err());
    let applied = tiny.apply(statement, Origin::File).unwrap();
    assert_eq!(applied.snapshot.group("a").unwrap().mem_limit(), Bytes(1));
    assert_eq!(applied.output.notices()[0].kind, NoticeKind::Clamped);
}

#[test]
fn with_one_worker_nothing_is_reserved() {
    let catalog = Catalog::new(machine(1, 8));
    let statement = &parse("CREATE RESOURCE GROUP a WITH ('exclusive_cpu_cores'='1')")[0];
    assert!(catalog.apply(statement, Origin::Statement).is_err());
    let applied = catalog.apply(statement, Origin::File).unwrap();
    assert_eq!(
        applied.snapshot.group("a").unwrap().exclusive_cpu_cores(),
        0
    );
}

#[test]
fn a_file_may_name_a_group_before_it_creates_it() {
    let script = "
        CREATE RESOURCE GROUP a WITH ('big_query_action'='switch_group(b)');
        CREATE RESOURCE GROUP b WITH ('big_query_action'='switch_group(a)')";
    let catalog = Catalog::new(machine(4, 8));
    let error = catalog
        .apply_all(&parse(script), Origin::Statement)
        .unwrap_err();
    assert_eq!((error.kind.code(), error.statement), ("unknown_group", 1));
    catalog.apply_all(&parse(script), Origin::File).unwrap();
    // But it has to create it.
    let catalog = Catalog::new(machine(4, 8));
    let script = "
        CREATE RESOURCE GROUP a WITH ('cpu_weight'='1');
        CREATE RESOURCE GROUP c WITH ('big_query_action'='switch_group(missing)')";
    let before = catalog.snapshot();
    let error = catalog.apply_all(&parse(script), Origin::File).unwrap_err();
    assert_eq!(
        (error.kind.code(), error.statement, error.line()),
        ("unknown_group", 2, 3)
    );
    assert_eq!(catalog.snapshot(), before);
}

#[test]
fn look_up_is_by_name_and_by_id_and_case_counts() {
    let catalog = Catalog::new(machine(4, 8));
    let script = "
        CREATE RESOURCE GROUP zeta WITH ('cpu_weight'='1');
        CREATE RESOURCE GROUP Alpha WITH ('cpu_weight'='1');
        CREATE RESOURCE GROUP alpha WITH ('cpu_weight'='2')";
    catalog.apply_all(&parse(script), Origin::File).unwrap();
    let snapshot = catalog.snapshot();
    assert_eq!(snapshot.group("alpha").unwrap().cpu_core_limit().get(), 2);
    assert_eq!(snapshot.group("Alpha").unwrap().cpu_core_limit().get(), 1);
    assert!(snapshot.group("ALPHA").is_none());
    for group in snapshot.groups() {
        assert_eq!(snapshot.group(&group.name).unwrap().id, group.id);
        assert_eq!(snapshot.group_by_id(group.id).unwrap().name, group.name);
    }
    let names: Vec<&str> = snapshot.groups_by_name().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["Alpha", "alpha", "default_wg", "zeta"]);
    let ids: Vec<u64> = snapshot.groups().map(|g| g.id.0).collect();
    assert_eq!(ids, [2, 10_001, 10_002, 10_003]);
}

/// Two properties that one statement always sets together are never seen apart, and versions never go back.
#[test]
fn readers_see_each_statement_wholly_or_not_at_all() {
    let catalog = Catalog::new(machine(4, 8));
    let create = "CREATE RESOURCE GROUP a WITH ('cpu_weight'='1', 'concurrency_limit'='1')";
    catalog
        .apply_all(&parse(create), Origin::Statement)
        .unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let (mut last, mut seen) = (0, 0_u64);
                    while !stop.load(Ordering::Relaxed) {
                        let snapshot = catalog.snapshot();
                        assert!(snapshot.version() >= last);
                        last = snapshot.version();
                        let a = snapshot.group("a").unwrap();
                        assert_eq!(Some(a.cpu_core_limit().get()), a.concurrency_limit());
                        seen += 1;
                    }
                    seen
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let catalog = &catalog;
                scope.spawn(move || {
                    for i in 0..500_u64 {
                        let n = 1 + (i * 2 + writer) % 100;
                        let text = format!(
                            "ALTER RESOURCE GROUP a WITH ('cpu_weight'='{n}', 'concurrency_limit'='{n}')"
                        );
                        let applied = catalog.apply(&parse(&text)[0], Origin::Statement).unwrap();
                        let a = applied.snapshot.group("a").unwrap();
                        assert_eq!(a.concurrency_limit(), Some(n), "the writer's own snapshot");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
    assert_eq!(catalog.snapshot().version(), 2 + 1_000);
}

/// Ten thousand groups in one script, and statements on top of them, stay far from quadratic.
#[test]
fn a_catalog_of_ten_thousand_groups_loads_and_changes() {
    let mut script = String::new();
    for i in 0..10_000 {
        script += &format!(
            "CREATE RESOURCE GROUP g{i} TO (user='u{i}'), (role='r{i}', db='d{}') WITH ('cpu_weight'='3');\n",
            i % 7
        );
    }
    let catalog = Catalog::new(machine(4, 8));
    let applied = catalog.apply_all(&parse(&script), Origin::File).unwrap();
    assert_eq!(applied.snapshot.groups().len(), 10_001);
    assert_eq!(applied.snapshot.classifiers().count(), 20_000);
    for i in 0..100 {
        let text = format!("ALTER RESOURCE GROUP g{i} ADD (user='v{i}')");
        catalog.apply(&parse(&text)[0], Origin::Statement).unwrap();
        let twin = format!("ALTER RESOURCE GROUP g{i} ADD (user='u9999')");
        let error = catalog
            .apply(&parse(&twin)[0], Origin::Statement)
            .unwrap_err();
        assert_eq!(error.kind.code(), "identical_classifier");
    }
    let shown = catalog
        .apply(&parse("SHOW RESOURCE GROUPS ALL")[0], Origin::Statement)
        .unwrap();
    assert_eq!(shown.output.rows().len(), 20_101);
}
