//! The catalog outlives the program: what is kept, what happens when a step fails, when a person or another program
//! changes the file, and how to go back.

#![allow(clippy::unwrap_used)]

use quotient::catalog::store::{CatalogStore, Disk, FileStore, StoreError};
use quotient::catalog::{Applied, Catalog, CatalogMode, Machine, OpenError, Origin, Snapshot};
use quotient::sql::{self, SqlError};
use quotient::unit::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const MACHINE: Machine = Machine {
    workers: 8,
    memory_limit: Bytes(8 << 30),
};

/// A disk in memory, of which every step can be made to fail. What was not synced is lost by `crash`.
#[derive(Clone, Debug, Default)]
struct Model(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// The files as they are after a crash: names and contents that were synced.
    safe: BTreeMap<PathBuf, Vec<u8>>,
    synced: BTreeMap<PathBuf, Vec<u8>>,
    steps: usize,
    /// The step that fails, counted from 0, and whether half of a write is done before.
    fails: Option<usize>,
}

impl Model {
    fn step(&self) -> io::Result<std::sync::MutexGuard<'_, State>> {
        let mut state = self.0.lock().unwrap();
        state.steps += 1;
        if state.fails == Some(state.steps - 1) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(state)
    }

    fn text(&self) -> String {
        let state = self.0.lock().unwrap();
        String::from_utf8(state.files[Path::new("groups.sql")].clone()).unwrap()
    }

    fn set(&self, text: &str) {
        let mut state = self.0.lock().unwrap();
        let file = PathBuf::from("groups.sql");
        state.files.insert(file.clone(), text.as_bytes().to_vec());
        state.safe.insert(file, text.as_bytes().to_vec());
    }

    /// The power fails: what was not synced is gone.
    fn crash(&self) {
        let mut state = self.0.lock().unwrap();
        state.files = state.safe.clone();
        state.fails = None;
    }

    fn fail_at(&self, step: Option<usize>) {
        let mut state = self.0.lock().unwrap();
        state.steps = 0;
        state.fails = step;
    }

    fn open(&self, mode: CatalogMode) -> Result<Catalog, OpenError> {
        let store = FileStore::on(self.clone(), "groups.sql");
        Catalog::open(MACHINE, Arc::new(store), mode).map(|opened| opened.catalog)
    }
}

impl Disk for Model {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.step()?;
        let file = state.files.get(path).cloned();
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        match self.step() {
            Ok(mut state) => state.files.insert(path.to_owned(), bytes.to_vec()),
            Err(full) => {
                // Half of it fits.
                let half = bytes[..bytes.len() / 2].to_vec();
                self.0.lock().unwrap().files.insert(path.to_owned(), half);
                return Err(full);
            }
        };
        Ok(())
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        let bytes = state.files.get(path).cloned().unwrap_or_default();
        state.synced.insert(path.to_owned(), bytes);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        let bytes = state.files.remove(from).unwrap();
        state.files.insert(to.to_owned(), bytes);
        let synced = state.synced.remove(from).unwrap_or_default();
        state.synced.insert(to.to_owned(), synced);
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        // Names are safe now; contents are those that were synced.
        let names: Vec<PathBuf> = state.files.keys().cloned().collect();
        let safe = names.into_iter().filter_map(|name| {
            let bytes = state.synced.get(&name).or_else(|| state.safe.get(&name))?;
            Some((name, bytes.clone()))
        });
        state.safe = safe.collect();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?.files.remove(path);
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send>> {
        drop(self.step()?);
        Ok(Box::new(()))
    }
}

fn apply(catalog: &Catalog, script: &str) -> Result<Vec<Applied>, SqlError> {
    let statements = sql::parse(script)?;
    statements
        .iter()
        .map(|statement| catalog.apply(statement, Origin::Statement))
        .collect()
}

/// All that identifies a catalog: groups and classifiers with their ids.
fn identity(snapshot: &Snapshot) -> String {
    let groups = snapshot.groups().map(|group| {
        let ids: Vec<String> = group.classifiers.iter().map(|c| c.id.to_string()).collect();
        format!(
            "{} [{}] {}\n",
            group.id,
            ids.join(","),
            group.to_statement()
        )
    });
    groups.collect()
}

const SCRIPT: &str = "
    CREATE RESOURCE GROUP bi TO (user='bi', db='sales, crm'), (role='analyst') WITH ('cpu_core_limit'='3', 'mem_limit'='20%');
    CREATE RESOURCE GROUP gone TO (user='x') WITH ('cpu_core_limit'='1');
    CREATE RESOURCE GROUP etl TO (query_type IN ('insert', 'import')) WITH ('cpu_core_limit'='1', 'big_query_action'='switch_group(bi)');
    DROP RESOURCE GROUP gone;
    ALTER RESOURCE GROUP bi ADD (source_ip='10.0.0.0/8', user='o''neill');
    ALTER RESOURCE GROUP default_wg WITH ('concurrency_limit'='100')";

#[test]
fn a_restart_finds_groups_ids_and_version() {
    let disk = Model::default();
    let before = disk.open(CatalogMode::Strict).unwrap();
    apply(&before, SCRIPT).unwrap();
    disk.crash();
    let after = disk.open(CatalogMode::Strict).unwrap();
    assert_eq!(identity(&after.snapshot()), identity(&before.snapshot()));
    assert_eq!(after.snapshot().version(), before.snapshot().version());
    assert_eq!(after.snapshot().version(), 7);
    // An id that anybody ever saw is not given again, though its group is gone.
    let script = "CREATE RESOURCE GROUP new WITH ('cpu_core_limit'='1')";
    let after_that = apply(&after, script).unwrap();
    let new = after_that[0].snapshot.group("new").unwrap().id;
    assert!(after.snapshot().classifiers().all(|(_, c)| c.id.0 < new.0));
}

#[test]
fn a_change_that_cannot_be_kept_is_not_made_whatever_step_fails() {
    for step in 0.. {
        let disk = Model::default();
        let catalog = disk.open(CatalogMode::Strict).unwrap();
        apply(&catalog, SCRIPT).unwrap();
        let (before, kept) = (identity(&catalog.snapshot()), disk.text());
        disk.fail_at(Some(step));
        let drop_it = "DROP RESOURCE GROUP etl";
        let done = apply(&catalog, drop_it);
        let steps = disk.0.lock().unwrap().steps;
        disk.fail_at(None);
        if done.is_ok() {
            assert!(step >= steps, "step {step} was to fail");
            assert!(
                step >= 5,
                "lock, read, write, sync, rename, sync of the folder"
            );
            break;
        }
        let error = done.unwrap_err();
        assert_eq!(error.sqlstate(), "58030", "{error}");
        assert_eq!(identity(&catalog.snapshot()), before, "step {step}");
        assert_eq!(catalog.history().len(), 7);
        // After a crash the old catalog is there, or, if only the folder was not synced, perhaps the new one.
        if !disk.text().contains("version=8") {
            assert_eq!(disk.text(), kept, "step {step}");
        }
        assert!(
            !disk
                .0
                .lock()
                .unwrap()
                .files
                .contains_key(Path::new("groups.sql.new"))
        );
        // The disk works again, and so does the catalog.
        apply(&catalog, drop_it).unwrap();
        disk.crash();
        let again = disk.open(CatalogMode::Strict).unwrap();
        assert_eq!(identity(&again.snapshot()), identity(&catalog.snapshot()));
    }
}

#[test]
fn a_crash_before_the_end_of_a_save_leaves_the_old_catalog_or_the_new_one() {
    for step in 0..7 {
        let disk = Model::default();
        let catalog = disk.open(CatalogMode::Strict).unwrap();
        apply(&catalog, SCRIPT).unwrap();
        let old = identity(&catalog.snapshot());
        disk.fail_at(Some(step));
        let done = apply(&catalog, "DROP RESOURCE GROUP etl");
        disk.crash();
        let after = identity(&disk.open(CatalogMode::Strict).unwrap().snapshot());
        match done {
            Ok(_) => assert_eq!(after, identity(&catalog.snapshot())),
            Err(_) => assert_eq!(after, old, "step {step}"),
        }
    }
}

#[test]
fn a_person_may_edit_the_file_and_comments_out_of_place_do_no_harm() {
    let disk = Model::default();
    apply(&disk.open(CatalogMode::Strict).unwrap(), SCRIPT).unwrap();
    let text = disk.text();
    let bi = identity_of(&disk, "bi");
    // A new group, written by hand, without a comment; one that claims the id of another; one with too many ids.
    let edited = format!(
        "{text}\nCREATE RESOURCE GROUP hand TO (user='h') WITH ('cpu_core_limit'='2');\n\
         --: group id=10001 classifiers=10002,10003,10008\n\
         CREATE RESOURCE GROUP thief TO (user='t'), (user='t2') WITH ('cpu_core_limit'='2');\n\
         --: group id=nonsense classifiers=,,x\n\
         CREATE RESOURCE GROUP odd WITH ('cpu_core_limit'='2'); --: catalog version=999\n"
    );
    disk.set(&edited);
    let catalog = disk.open(CatalogMode::Strict).unwrap();
    assert_eq!(identity_of(&disk, "bi"), bi);
    let snapshot = catalog.snapshot();
    assert_eq!(snapshot.groups().len(), 6);
    let mut ids: Vec<u64> = snapshot.groups().map(|g| g.id.0).collect();
    ids.extend(snapshot.classifiers().map(|(_, c)| c.id.0));
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "no id twice");
    assert_eq!(snapshot.version(), 7);
}

#[test]
fn a_version_and_ids_that_nobody_can_count_on_from_say_nothing() {
    let disk = Model::default();
    let most = u64::MAX;
    disk.set(&format!(
        "--: catalog version={most} next_id={most}\n--: group id={most} classifiers={most}\n\
         CREATE RESOURCE GROUP hand TO (user='h') WITH ('cpu_core_limit'='2');\n"
    ));
    let catalog = disk.open(CatalogMode::Strict).unwrap();
    for name in ["one", "two"] {
        let script =
            format!("CREATE RESOURCE GROUP {name} TO (user='{name}') WITH ('cpu_core_limit'='1')");
        apply(&catalog, &script).unwrap();
    }
    assert_eq!(catalog.snapshot().version(), 3);
    assert_eq!(catalog.snapshot().groups().len(), 4);
    assert!(identity_of(&disk, "two").0 < most / 2);
}

fn identity_of(disk: &Model, name: &str) -> (u64, Vec<u64>) {
    let snapshot = disk.open(CatalogMode::Strict).unwrap().snapshot();
    let group = snapshot.group(name).unwrap();
    (
        group.id.0,
        group.classifiers.iter().map(|c| c.id.0).collect(),
    )
}

#[test]
fn a_damaged_statement_stops_a_strict_start_where_it_stands() {
    let disk = Model::default();
    disk.set("CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1');\nCREATE RESOURCE GRUOP b;\n");
    let Err(OpenError::Damaged { place, error }) = disk.open(CatalogMode::Strict) else {
        panic!("it opened");
    };
    assert_eq!(place, "groups.sql");
    assert_eq!((error.line(), error.column(), error.statement), (2, 17, 2));
}

#[test]
fn a_lenient_start_goes_on_with_the_rest_and_loses_no_word_of_the_damaged_one() {
    let disk = Model::default();
    let broken = [
        "CREATE RESOURCE GRUOP b WITH ('cpu_core_limit'='1')",
        "CREATE RESOURCE GROUP c TO (user='c') WITH ('cpu_core_limit'='many')",
        "CREATE RESOURCE GROUP d WITH ('cpu_core_limit'='1', 'big_query_action'='switch_group(nobody)')",
        "CREATE RESOURCE GROUP e TO (user='never closed",
    ];
    let text = format!(
        "CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1');\n{};\n{};\n{};\n\
         CREATE RESOURCE GROUP z WITH ('cpu_core_limit'='5');\n{};\n",
        broken[0], broken[1], broken[2], broken[3]
    );
    disk.set(&text);
    let catalog = disk.open(CatalogMode::Lenient).unwrap();
    let names: Vec<String> = catalog
        .snapshot()
        .groups()
        .map(|g| g.name.clone())
        .collect();
    assert_eq!(names, ["default_wg", "a", "z"]);
    let places: Vec<(usize, usize)> = catalog
        .damaged()
        .iter()
        .map(|error| (error.statement, error.line()))
        .collect();
    assert_eq!(places, [(2, 2), (3, 3), (4, 4), (6, 6)]);
    // The first save keeps them as comments, and so does every later one.
    for name in ["f", "g"] {
        let script = format!("CREATE RESOURCE GROUP {name} WITH ('cpu_core_limit'='1')");
        apply(&catalog, &script).unwrap();
        for line in broken {
            assert!(disk.text().contains(&format!("-- {line}")), "{line}");
        }
    }
    let again = disk.open(CatalogMode::Strict).unwrap();
    assert_eq!(identity(&again.snapshot()), identity(&catalog.snapshot()));
}

#[test]
fn the_built_in_group_is_kept_whichever_way_it_was_changed() {
    let disk = Model::default();
    let catalog = disk.open(CatalogMode::Strict).unwrap();
    let replace = "CREATE RESOURCE GROUP OR REPLACE default_wg WITH ('type'='normal', 'concurrency_limit'='7')";
    apply(&catalog, replace).unwrap();
    let again = disk.open(CatalogMode::Strict).unwrap();
    assert_eq!(identity(&again.snapshot()), identity(&catalog.snapshot()));
}

#[test]
fn a_character_that_may_stand_nowhere_is_kept_as_its_picture() {
    let disk = Model::default();
    disk.set("CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1');\nCREATE RESOURCE \0GROUP b;\n");
    let catalog = disk.open(CatalogMode::Lenient).unwrap();
    apply(
        &catalog,
        "ALTER RESOURCE GROUP a WITH ('cpu_core_limit'='2')",
    )
    .unwrap();
    assert!(
        disk.text().contains("-- CREATE RESOURCE ␀GROUP b"),
        "{}",
        disk.text()
    );
    disk.open(CatalogMode::Strict).unwrap();
}

#[test]
fn a_torn_or_foreign_file_is_an_error_and_never_a_panic() {
    let disk = Model::default();
    apply(&disk.open(CatalogMode::Strict).unwrap(), SCRIPT).unwrap();
    let text = disk.text();
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        disk.set(&text[..end]);
        let _ = disk.open(CatalogMode::Strict);
        let catalog = disk.open(CatalogMode::Lenient).unwrap();
        apply(
            &catalog,
            "CREATE RESOURCE GROUP n WITH ('cpu_core_limit'='1')",
        )
        .unwrap();
        disk.open(CatalogMode::Strict).unwrap();
    }
    disk.0
        .lock()
        .unwrap()
        .files
        .insert("groups.sql".into(), vec![0xff, 0xfe]);
    assert!(matches!(
        disk.open(CatalogMode::Lenient),
        Err(OpenError::Store(StoreError::Failed { step: "read", .. }))
    ));
}

#[test]
fn two_programs_on_one_file_cannot_undo_each_other_unseen() {
    let disk = Model::default();
    let one = disk.open(CatalogMode::Strict).unwrap();
    apply(&one, SCRIPT).unwrap();
    let two = disk.open(CatalogMode::Strict).unwrap();
    apply(&one, "DROP RESOURCE GROUP etl").unwrap();
    let before = identity(&two.snapshot());
    let error = apply(&two, "ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='9')").unwrap_err();
    assert!(
        error.to_string().contains("changed by somebody else"),
        "{error}"
    );
    assert_eq!(identity(&two.snapshot()), before);
    assert!(!disk.text().contains("'9'"));
}

#[test]
fn a_moved_catalog_loads_on_a_smaller_machine_and_keeps_what_was_written() {
    let disk = Model::default();
    let large = disk.open(CatalogMode::Strict).unwrap();
    apply(
        &large,
        "CREATE RESOURCE GROUP big WITH ('max_cpu_cores'='8', 'exclusive_cpu_cores'='7')",
    )
    .unwrap();
    let small = Machine {
        workers: 2,
        memory_limit: Bytes(1 << 30),
    };
    let store = Arc::new(FileStore::on(disk.clone(), "groups.sql"));
    let opened = Catalog::open(small, store, CatalogMode::Strict).unwrap();
    let snapshot = opened.catalog.snapshot();
    let big = snapshot.group("big").unwrap();
    assert_eq!(
        (big.max_cpu_cores(), big.exclusive_cpu_cores()),
        (Some(2.0), 1)
    );
    apply(
        &opened.catalog,
        "ALTER RESOURCE GROUP big WITH ('concurrency_limit'='3')",
    )
    .unwrap();
    assert!(
        disk.text()
            .contains("'max_cpu_cores'='8', 'exclusive_cpu_cores'='7'")
    );
}

// ---- the past ---------------------------------------------------------------------------------------------------

#[test]
fn a_rollback_is_a_new_version_that_says_what_an_old_one_said() {
    let disk = Model::default();
    let catalog = disk.open(CatalogMode::Strict).unwrap();
    apply(&catalog, SCRIPT).unwrap();
    let (good, good_version) = (catalog.snapshot(), catalog.snapshot().version());
    apply(
        &catalog,
        "DROP RESOURCE GROUP etl; ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='9')",
    )
    .unwrap();
    let back = apply(
        &catalog,
        &format!("ROLLBACK CATALOG TO VERSION {good_version}"),
    )
    .unwrap();
    assert!(back[0].changed);
    let now = catalog.snapshot();
    assert_eq!(now.version(), good_version + 3);
    // In place where the group is still there; a group that was dropped comes back as another one.
    let (bi, etl) = (now.group("bi").unwrap(), now.group("etl").unwrap());
    assert_eq!(bi.cpu_core_limit().get(), 3);
    assert_eq!(bi.id, good.group("bi").unwrap().id);
    assert_ne!(etl.id, good.group("etl").unwrap().id);
    assert_eq!(
        etl.to_statement(),
        good.group("etl").unwrap().to_statement()
    );
    // Kept, and the versions in between are still there to go to.
    let again = disk.open(CatalogMode::Strict).unwrap();
    assert_eq!(identity(&again.snapshot()), identity(&now));
    apply(
        &catalog,
        &format!("ROLLBACK CATALOG TO VERSION {}", good_version + 2),
    )
    .unwrap();
    assert!(catalog.snapshot().group("etl").is_none());
    // To where it is already: nothing to do.
    let version = catalog.snapshot().version();
    let same = apply(&catalog, &format!("ROLLBACK CATALOG TO VERSION {version}")).unwrap();
    assert!(!same[0].changed);
}

#[test]
fn history_is_the_last_hundred_versions_and_an_older_one_cannot_come_back() {
    let catalog = Catalog::new(MACHINE);
    apply(
        &catalog,
        "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')",
    )
    .unwrap();
    for weight in 2..=150 {
        apply(
            &catalog,
            &format!("ALTER RESOURCE GROUP g WITH ('cpu_core_limit'='{weight}')"),
        )
        .unwrap();
    }
    let shown = apply(&catalog, "SHOW CATALOG HISTORY").unwrap();
    let rows = shown[0].output.rows();
    assert_eq!(rows.len(), 100);
    assert_eq!(rows[0][0], quotient::sql::Value::Int(151));
    assert_eq!(rows[99][0], quotient::sql::Value::Int(52));
    let error = apply(&catalog, "ROLLBACK CATALOG TO VERSION 51").unwrap_err();
    assert_eq!((error.kind.code(), error.column()), ("unknown_version", 29));
    apply(&catalog, "ROLLBACK CATALOG TO VERSION 52").unwrap();
    assert_eq!(
        catalog
            .snapshot()
            .group("g")
            .unwrap()
            .cpu_core_limit()
            .get(),
        51
    );
}

// ---- real files -------------------------------------------------------------------------------------------------

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("quotient-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_governor_finds_its_groups_again_and_asks_init_sql_only_once() {
    let folder = Folder::new("catalog");
    let path = folder.0.join("groups.sql");
    let build = |init: &str| {
        let builder = quotient::Governor::builder().workers(2);
        builder.catalog_path(&path).init_sql(init).build()
    };
    let governor =
        build("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='2')").unwrap();
    governor
        .execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='3')")
        .await
        .unwrap();
    drop(governor);
    let governor = build("CREATE RESOURCE GROUP other WITH ('cpu_core_limit'='2')").unwrap();
    let outputs = governor
        .execute("SELECT cpu_core_limit FROM groups WHERE name IN ('bi', 'other')")
        .await
        .unwrap();
    assert_eq!(outputs[0].rows(), [[quotient::sql::Value::Int(3)]]);
    let outputs = governor
        .execute("SELECT version, change FROM catalog_history")
        .await;
    assert_eq!(outputs.unwrap()[0].rows().len(), 1);
    // A folder that is not there: an error that says where, and nothing starts.
    let error = quotient::Governor::builder()
        .catalog_path(folder.0.join("no/such/groups.sql"))
        .init_sql("CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='2')")
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("no/such/groups.sql"), "{error}");
}

#[test]
fn programs_that_share_a_file_wait_for_each_other() {
    let folder = Folder::new("shared");
    let path = folder.0.join("groups.sql");
    FileStore::new(&path).save("0", None).unwrap();
    // Each adds one whenever the file is what it last saw: if two ever replaced the same text, a number would be lost.
    let add = |path: PathBuf| {
        let store = FileStore::new(path);
        let mut added = 0;
        while added < 50 {
            let seen = store.load().unwrap().unwrap();
            let next = (seen.parse::<u64>().unwrap() + 1).to_string();
            match store.save(&next, Some(&seen)) {
                Ok(()) => added += 1,
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let path = path.clone();
            scope.spawn(move || add(path));
        }
    });
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "200");
}
