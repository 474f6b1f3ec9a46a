//! Processes that keep their catalog in one PostgreSQL share one set of groups, whatever happens to the database, to its
//! notifications and to the row.
//!
//! Each test starts a PostgreSQL of its own in a folder of its own, reachable by a Unix socket only. Without one
//! installed (Debian's package `postgresql`) the tests say so and pass, unless `QUOTIENT_REQUIRE_TOOLS` is set.

#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)]

#[path = "support/postgres.rs"]
mod postgres;

use postgres::Postgres;
use quotient::catalog::store::StoreError;
use quotient::postgres::PostgresCatalog;
use quotient::{Attributes, CatalogMode, CatalogStore, Error, Governor};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than any test: where a change is seen, it was told of.
const NEVER: Duration = Duration::from_secs(3_600);

fn store(server: &Postgres) -> PostgresCatalog {
    PostgresCatalog::new(&server.url())
        .unwrap()
        .poll_every(NEVER)
        .patience(Duration::from_secs(20))
}

fn member(store: &PostgresCatalog) -> Governor {
    let builder = Governor::builder().workers(2).memory_limit(8 << 30);
    builder.catalog_store(store.clone()).build().unwrap()
}

/// Groups and classifiers, with their ids.
async fn identity(governor: &Governor) -> String {
    let script = "SELECT name, id, cpu_core_limit, concurrency_limit FROM groups ORDER BY id; \
                  SELECT id, group_name, text FROM classifiers ORDER BY id";
    let outputs = governor.execute(script).await.unwrap();
    outputs.iter().map(ToString::to_string).collect()
}

fn version(governor: &Governor) -> u64 {
    let metrics = governor.render_metrics();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("quotient_catalog_version "));
    let (_, version) = line.unwrap().split_once(' ').unwrap();
    version.parse().unwrap()
}

fn refusals(governor: &Governor) -> u64 {
    let metrics = governor.render_metrics();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("quotient_catalog_apply_errors_total "));
    let (_, errors) = line.unwrap().split_once(' ').unwrap();
    errors.parse().unwrap()
}

/// Waits until it is so. The bound is for a broken program only.
async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !so().await {
        assert!(Instant::now() < patience, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn until_alike(one: &Governor, other: &Governor) {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let seen = |governor: Governor| async move {
            format!(
                "version {}
{}",
                version(&governor),
                identity(&governor).await
            )
        };
        let (a, b) = (seen(one.clone()).await, seen(other.clone()).await);
        if a == b {
            return;
        }
        assert!(
            Instant::now() < patience,
            "{a}
is not
{b}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A property of a group, as a text.
async fn value(governor: &Governor, group: &str, column: &str) -> String {
    let select = format!("SELECT {column} FROM groups WHERE name = '{group}'");
    let output = governor.execute(&select).await.unwrap();
    let row = output[0].rows().first();
    row.map_or("no group".to_owned(), |row| row[0].to_string())
}

fn sqlstate(error: &Error) -> &'static str {
    match error {
        Error::Sql(error) => error.sqlstate(),
        other => panic!("{other}"),
    }
}

const BI: &str =
    "CREATE RESOURCE GROUP bi TO (user='bi'), (role='analyst') WITH ('cpu_core_limit'='3')";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_process_is_told_all_of_them_do_under_the_same_ids() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (one, two) = (member(&store(&server)), member(&store(&server)));
    let init = "CREATE RESOURCE GROUP late TO (user='late') WITH ('cpu_core_limit'='1')";
    one.execute(BI).await.unwrap();
    until("told of", async || identity(&two).await.contains("analyst")).await;
    until_alike(&one, &two).await;
    assert_eq!(
        two.classify(&Attributes::new().user("bi")).unwrap().name(),
        "bi"
    );
    // The other way round, and the ids go on from where the first one was.
    two.execute("CREATE RESOURCE GROUP etl TO (user='etl') WITH ('concurrency_limit'='4')")
        .await
        .unwrap();
    until_alike(&one, &two).await;
    one.execute("ALTER RESOURCE GROUP etl WITH ('concurrency_limit'='5')")
        .await
        .unwrap();
    until_alike(&one, &two).await;
    // A third one that comes later asks its init_sql for nothing.
    let builder = Governor::builder()
        .workers(2)
        .memory_limit(8 << 30)
        .init_sql(init);
    let three = builder.catalog_store(store(&server)).build().unwrap();
    until_alike(&one, &three).await;
    // A rollback is a change as any other.
    let back = format!("ROLLBACK CATALOG TO VERSION {}", version(&one) - 1);
    one.execute(&back).await.unwrap();
    until("rolled back", async || {
        value(&three, "etl", "concurrency_limit").await == "4"
    })
    .await;
    until_alike(&one, &three).await;
    // Another fleet in the same table has its own groups.
    let other = member(&store(&server).fleet("other"));
    assert!(!identity(&other).await.contains("bi"));
    // Who changed what is in the database for people to read.
    let count = "SELECT count(*), count(DISTINCT changed_by) FROM quotient_catalog_history WHERE fleet = 'default'";
    assert_eq!(server.ask(count), ["4|1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_is_dropped_elsewhere_drains_here() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (one, two) = (member(&store(&server)), member(&store(&server)));
    one.execute(BI).await.unwrap();
    let bi = Attributes::new().user("bi");
    until("bi", async || two.classify(&bi).unwrap().name() == "bi").await;
    let query = two.admit(&bi).await.unwrap();
    let old = two.classify(&bi).unwrap().id();
    let (end, ends) = tokio::sync::oneshot::channel::<u32>();
    let running = query.spawn(ends);
    one.execute("DROP RESOURCE GROUP bi").await.unwrap();
    until("dropped", async || {
        two.classify(&bi).unwrap().name() == "default_wg"
    })
    .await;
    // The query of the dropped group goes on to its end, and a namesake is another group.
    assert_eq!(query.group(), "bi");
    one.execute(BI).await.unwrap();
    until("bi again", async || {
        two.classify(&bi).unwrap().name() == "bi"
    })
    .await;
    assert_ne!(two.classify(&bi).unwrap().id(), old);
    end.send(7).unwrap();
    assert_eq!(running.await.unwrap().unwrap(), 7);
}

/// The notification is lost, since nobody listens at that moment; the statement meets a catalog that it has not seen.
#[tokio::test]
async fn of_two_changes_of_one_version_the_second_is_refused_and_may_be_tried_again() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (one, two) = (member(&store(&server)), member(&store(&server)));
    one.execute(BI).await.unwrap();
    until_alike(&one, &two).await;
    // Written by a process that tells nobody.
    server.script(
        "UPDATE quotient_catalog SET revision = revision + 1, \
         script = replace(script, '''cpu_core_limit''=''3''', '''cpu_core_limit''=''9''')",
    );
    let version_before = version(&two);
    let alter = "ALTER RESOURCE GROUP bi WITH ('concurrency_limit'='7')";
    let error = two.execute(alter).await.unwrap_err();
    assert_eq!(sqlstate(&error), "40001");
    let text = error.to_string();
    assert!(
        text.contains("changed by somebody else") && text.contains("again"),
        "{text}"
    );
    // It has been read again: what is seen now is what is there.
    assert!(
        value(&two, "bi", "cpu_core_limit").await == "9",
        "{}",
        identity(&two).await
    );
    assert_eq!(version(&two), version_before + 1);
    two.execute(alter).await.unwrap();
    until("both changes", async || {
        value(&one, "bi", "concurrency_limit").await == "7"
            && identity(&one).await == identity(&two).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_away_groups_stay_and_changes_are_refused() {
    let Some(mut server) = Postgres::start() else {
        return;
    };
    let (store_one, store_two) = (store(&server), store(&server));
    let (one, two) = (member(&store_one), member(&store_two));
    one.execute(BI).await.unwrap();
    until_alike(&one, &two).await;
    let before = identity(&one).await;
    server.stop();
    until("noticed", async || !store_one.status().connected).await;
    assert!(store_one.status().last_error.is_some());
    let error = one.execute("DROP RESOURCE GROUP bi").await.unwrap_err();
    assert_eq!(sqlstate(&error), "58030", "{error}");
    assert_eq!(identity(&one).await, before);
    // Work goes on in the groups, and questions are answered.
    let query = one.admit(&Attributes::new().user("bi")).await.unwrap();
    assert_eq!(query.run(async { 6 * 7 }).await.unwrap(), 42);
    one.execute("SHOW RESOURCE GROUPS ALL; SHOW CATALOG HISTORY")
        .await
        .unwrap();
    server.start_again();
    until("connected again", async || {
        store_one.status().connected && store_two.status().connected
    })
    .await;
    one.execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='8')")
        .await
        .unwrap();
    until_alike(&one, &two).await;
    assert!(value(&two, "bi", "cpu_core_limit").await == "8");
    assert!(store_one.status().connections >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_was_told_while_nobody_listened_is_read_after_the_reconnect_or_by_the_poll() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (store_one, store_two) = (store(&server), store(&server));
    let (one, two) = (member(&store_one), member(&store_two));
    let polling = member(&store(&server).poll_every(Duration::from_millis(50)));
    one.execute(BI).await.unwrap();
    until_alike(&one, &two).await;
    until_alike(&one, &polling).await;
    // In one statement: every listener is killed, and the row is another one that nobody is told of.
    let edit = |weight: u32| {
        format!(
            "UPDATE quotient_catalog SET revision = revision + 1, script = \
             regexp_replace(script, '''cpu_core_limit''=''[0-9]+''', '''cpu_core_limit''=''{weight}''')"
        )
    };
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'quotient'";
    let killed = server.ask(&format!("BEGIN; {}; {kill}; COMMIT", edit(5)));
    assert_eq!(killed, ["3"]);
    for governor in [&one, &two, &polling] {
        until("read after the reconnect", async || {
            value(governor, "bi", "cpu_core_limit").await == "5"
        })
        .await;
    }
    // The poll finds a row that somebody wrote by hand; those that do not poll for an hour do not.
    server.script(&edit(6));
    until("read by the poll", async || {
        value(&polling, "bi", "cpu_core_limit").await == "6"
    })
    .await;
    assert!(value(&one, "bi", "cpu_core_limit").await == "5");
    // By hand, with a notification, everybody does.
    server.script(&format!("{}; NOTIFY quotient_catalog, 'default'", edit(7)));
    for governor in [&one, &two, &polling] {
        until("read when told", async || {
            value(governor, "bi", "cpu_core_limit").await == "7"
        })
        .await;
    }
    until("alike", async || {
        identity(&one).await == identity(&two).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_was_edited_by_hand_counts_whole_or_not_at_all() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (one, two) = (member(&store(&server)), member(&store(&server)));
    one.execute(BI).await.unwrap();
    until_alike(&one, &two).await;
    let good = server.ask("SELECT revision FROM quotient_catalog");
    let tell = "NOTIFY quotient_catalog, 'default'";
    // A new group without any comment, and the revision left as it was: both give it the same id, and bi keeps its own.
    let add = "UPDATE quotient_catalog SET script = script || E'\\nCREATE RESOURCE GROUP hand TO (user=''h'') WITH (''cpu_core_limit''=''2'');'";
    server.script(&format!("{add}; {tell}"));
    for governor in [&one, &two] {
        until("hand", async || identity(governor).await.contains("hand")).await;
    }
    assert_eq!(server.ask("SELECT revision FROM quotient_catalog"), good);
    until_alike(&one, &two).await;
    // All comments lost: the groups keep the ids that they have.
    let before = identity(&one).await;
    let strip = "UPDATE quotient_catalog SET script = regexp_replace(script, '^--.*$', '', 'gn')";
    server.script(&format!("{strip}; {tell}"));
    let alter = "ALTER RESOURCE GROUP hand WITH ('cpu_core_limit'='2')";
    // Nothing else happens that could be waited for: a change that meets the edited row, and then does not.
    until("read", async || one.execute(alter).await.is_ok()).await;
    until_alike(&one, &two).await;
    assert_eq!(identity(&one).await, before);
    // A torn row: everybody keeps the last good catalog, says so once, and refuses to write over what a person wrote.
    let errors = refusals(&two);
    let tear = "UPDATE quotient_catalog SET script = left(script, length(script) - 12)";
    server.script(&format!("{tear}; {tell}"));
    until("refused", async || refusals(&two) > errors).await;
    server.script(&format!("{tell}; {tell}; {tell}"));
    assert_eq!(identity(&two).await, before);
    let error = one
        .execute("ALTER RESOURCE GROUP hand WITH ('cpu_core_limit'='4')")
        .await
        .unwrap_err();
    assert_eq!(sqlstate(&error), "40001");
    assert!(
        error.to_string().contains("cannot be taken over"),
        "{error}"
    );
    assert_eq!(refusals(&two), errors + 1);
    // A new process: nothing if it is strict; what can be read if it is lenient.
    let build = |mode| {
        let builder = Governor::builder().workers(2).catalog_mode(mode);
        builder.catalog_store(store(&server)).build()
    };
    assert!(matches!(build(CatalogMode::Strict), Err(Error::Catalog(_))));
    let lenient = build(CatalogMode::Lenient).unwrap();
    assert_eq!(lenient.catalog_damage().len(), 1);
    // Mended from the history, by hand, the fleet goes on.
    server.script(&format!(
        "UPDATE quotient_catalog c SET script = h.script FROM (SELECT script FROM quotient_catalog_history \
         ORDER BY revision DESC LIMIT 1) h; {tell}"
    ));
    until("mended", async || {
        one.execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='4')")
            .await
            .is_ok()
    })
    .await;
    until_alike(&one, &two).await;
    // Nothing there any more: the last one goes on to count, and the next change is kept as a new one.
    server.script(&format!(
        "DROP TABLE quotient_catalog, quotient_catalog_history; {tell}"
    ));
    until("gone", async || refusals(&two) > errors + 1).await;
    assert!(identity(&two).await.contains("bi"));
    until("written anew", async || {
        two.execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='5')")
            .await
            .is_ok()
    })
    .await;
    until("both", async || {
        value(&one, "bi", "cpu_core_limit").await == "5"
    })
    .await;
    // Only the history is gone: the next change begins a new one.
    server.script("DROP TABLE quotient_catalog_history");
    until("a new history", async || {
        two.execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='6')")
            .await
            .is_ok()
    })
    .await;
    let kept = server.ask("SELECT count(*) FROM quotient_catalog_history");
    assert_eq!(kept, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_the_database_is_an_error_or_begins_with_the_copy() {
    let Some(mut server) = Postgres::start() else {
        return;
    };
    let copy = server.beside("copy.sql");
    let store = || store(&server).copy_to(&copy);
    let first = member(&store());
    first.execute(BI).await.unwrap();
    let before = identity(&first).await;
    drop(first);
    let (with_copy, without) = (store(), PostgresCatalog::new(&server.url()).unwrap());
    let (again, without) = (with_copy.clone(), without.fleet("new").poll_every(NEVER));
    server.stop();
    let build = |store: &PostgresCatalog, mode| {
        let builder = Governor::builder().workers(2).memory_limit(8 << 30);
        let init = "CREATE RESOURCE GROUP init TO (user='init') WITH ('cpu_core_limit'='1')";
        builder
            .catalog_store(store.clone())
            .catalog_mode(mode)
            .init_sql(init)
            .build()
    };
    let error = build(&with_copy, CatalogMode::Strict).unwrap_err();
    assert!(error.to_string().contains("quotient_catalog"), "{error}");
    // With a copy, what it says; without one, init_sql. Nobody may change what is not known.
    let lenient = build(&again, CatalogMode::Lenient).unwrap();
    assert_eq!(identity(&lenient).await, before);
    let fresh = build(&without, CatalogMode::Lenient).unwrap();
    assert!(identity(&fresh).await.contains("init"));
    for governor in [&lenient, &fresh] {
        let error = governor
            .execute("DROP RESOURCE GROUP IF EXISTS bi")
            .await
            .unwrap_err();
        assert_eq!(sqlstate(&error), "58030", "{error}");
    }
    server.start_again();
    for (governor, store) in [(&lenient, &again), (&fresh, &without)] {
        until("connected", async || store.status().connected).await;
        until("joined", async || {
            let alter = "ALTER RESOURCE GROUP default_wg WITH ('concurrency_limit'='99')";
            governor.execute(alter).await.is_ok()
        })
        .await;
    }
    assert!(
        identity(&lenient)
            .await
            .starts_with(before.lines().next().unwrap())
    );
    // The fleet that had none yet has what the lenient start began with.
    let fleets = "SELECT fleet, script LIKE '%init%' FROM quotient_catalog ORDER BY fleet";
    assert_eq!(server.ask(fleets), ["default|f", "new|t"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_programs_that_start_together_on_an_empty_database_one_asks_its_init_sql() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let url = server.url();
    let starts: Vec<_> = (0..4)
        .map(|i| {
            let url = url.clone();
            let runtime = tokio::runtime::Handle::current();
            std::thread::spawn(move || {
                let _inside = runtime.enter();
                let store = PostgresCatalog::new(&url)
                    .unwrap()
                    .patience(Duration::from_secs(20));
                let init = format!(
                    "CREATE RESOURCE GROUP of_{i} TO (user='u') WITH ('cpu_core_limit'='1')"
                );
                let builder = Governor::builder().workers(1).memory_limit(8 << 30);
                builder
                    .catalog_store(store)
                    .init_sql(&init)
                    .build()
                    .unwrap()
            })
        })
        .collect();
    let governors: Vec<Governor> = starts
        .into_iter()
        .map(|start| start.join().unwrap())
        .collect();
    for governor in &governors {
        until_alike(governor, &governors[0]).await;
    }
    assert_eq!(
        identity(&governors[0]).await.matches("of_").count(),
        2,
        "one group, one classifier"
    );
}

#[test]
fn governors_on_threads_of_their_own_follow_each_other_without_any_runtime() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let build = || {
        let builder = Governor::builder().host(quotient::Host::Owned).workers(1);
        let builder = builder.memory_limit(8 << 30);
        builder.catalog_store(store(&server)).build().unwrap()
    };
    let (one, two) = (build(), build());
    one.block_on(one.execute(BI)).unwrap();
    two.block_on(until_alike(&one, &two));
    // The last reference to a governor may be let go of while a change of its own is still on its way.
    let (client, connection) = one
        .block_on(tokio_postgres::connect(
            &server.url(),
            tokio_postgres::NoTls,
        ))
        .unwrap();
    let lock = one.block_on(async {
        tokio::spawn(connection);
        client
            .batch_execute("BEGIN; SELECT 1 FROM quotient_catalog FOR UPDATE")
            .await
    });
    lock.unwrap();
    let change = two.clone();
    let begun = two.block_on(async move {
        let change = change.execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='9')");
        tokio::time::timeout(Duration::from_millis(50), change).await
    });
    assert!(begun.is_err());
    drop(two);
    one.block_on(client.batch_execute("COMMIT")).unwrap();
    one.block_on(until("made by one that is gone", async || {
        value(&one, "bi", "cpu_core_limit").await == "9"
    }));
}

/// Four processes at once, each with its own groups: a statement is applied everywhere, or it is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_of_a_crowd_is_applied_everywhere_or_refused() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let governors: Vec<Governor> = (0..4).map(|_| member(&store(&server))).collect();
    let work = governors.iter().enumerate().map(|(me, governor)| {
        let governor = governor.clone();
        tokio::spawn(async move {
            let (mut made, mut refused, mut weight) = (Vec::new(), 0, None);
            for nth in 0..40 {
                let statement = match nth % 4 {
                    3 if !made.is_empty() => format!("DROP RESOURCE GROUP {}", made[0]),
                    2 => format!("ALTER RESOURCE GROUP default_wg WITH ('concurrency_limit'='{}')", me * 100 + nth),
                    _ => format!("CREATE RESOURCE GROUP g{me}_{nth} TO (user='u{me}_{nth}') WITH ('cpu_core_limit'='1')"),
                };
                match governor.execute(&statement).await {
                    Ok(_) if statement.starts_with("CREATE") => made.push(format!("g{me}_{nth}")),
                    Ok(_) if statement.starts_with("DROP") => drop(made.remove(0)),
                    Ok(_) => weight = Some(nth),
                    Err(error) => {
                        assert_eq!(sqlstate(&error), "40001", "{error}");
                        refused += 1;
                    }
                }
            }
            (made, refused, weight)
        })
    });
    let mut expected = Vec::new();
    let (mut refused, mut altered) = (0, 0);
    for work in work.collect::<Vec<_>>() {
        let (made, times, weight) = work.await.unwrap();
        expected.extend(made);
        refused += times;
        altered += usize::from(weight.is_some());
    }
    expected.sort();
    for governor in &governors {
        until("everybody has what was applied", async || {
            let select = "SELECT name FROM groups WHERE name LIKE 'g%' ORDER BY name";
            let names = governor.execute(select).await.unwrap();
            let names = names[0].rows().iter().map(|row| row[0].to_string());
            names.eq(expected.iter().cloned())
        })
        .await;
    }
    for governor in &governors {
        until_alike(governor, &governors[0]).await;
    }
    // No version was made twice, and none is missing: as many as there were statements that were not refused.
    let revisions = server.ask(
        "SELECT revision, (SELECT count(*) FROM quotient_catalog_history) FROM quotient_catalog",
    );
    assert_eq!(revisions, [format!("{0}|{0}", 160 - refused)]);
    assert!(altered <= 4);
}

/// A line between the programs and the database that can be cut: once the server has been told a certain text, its
/// answer never comes.
struct Line {
    folder: std::path::PathBuf,
    cut: Arc<Mutex<Option<&'static str>>>,
    dead: Arc<AtomicBool>,
    /// Whatever is said is swallowed, and nothing is answered: as by a network that drops every packet.
    silent: Arc<AtomicBool>,
}

impl Line {
    fn to(server: &Postgres) -> Line {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        use tokio::net::{UnixListener, UnixStream};
        let folder = server.beside("line");
        std::fs::create_dir(&folder).unwrap();
        let line = Line {
            folder: folder.clone(),
            cut: Arc::default(),
            dead: Arc::default(),
            silent: Arc::default(),
        };
        let (cut, dead) = (line.cut.clone(), line.dead.clone());
        let silent = line.silent.clone();
        let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).unwrap();
        let behind = server.beside(".s.PGSQL.5432");
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if dead.load(SeqCst) {
                    continue;
                }
                let mut server = UnixStream::connect(&behind).await.unwrap();
                let (cut, silent) = (cut.clone(), silent.clone());
                tokio::spawn(async move {
                    let (mut told, mut answer) = ([0; 65_536], [0; 65_536]);
                    let mut doomed = false;
                    loop {
                        tokio::select! {
                            read = client.read(&mut told) => match read {
                                Ok(0) | Err(_) => return,
                                Ok(_) if silent.load(SeqCst) => {}
                                Ok(n) => {
                                    let text = String::from_utf8_lossy(&told[..n]).into_owned();
                                    doomed |= cut.lock().unwrap().take_if(|cut| text.contains(*cut)).is_some();
                                    server.write_all(&told[..n]).await.unwrap();
                                }
                            },
                            read = server.read(&mut answer) => match read {
                                Ok(0) | Err(_) => return,
                                Ok(_) if doomed => return,
                                Ok(_) if silent.load(SeqCst) => {}
                                Ok(n) => client.write_all(&answer[..n]).await.unwrap(),
                            },
                        }
                    }
                });
            }
        });
        line
    }

    fn store(&self) -> PostgresCatalog {
        let folder = self.folder.display();
        let url = format!("host={folder} user=quotient dbname=postgres");
        PostgresCatalog::new(&url).unwrap().poll_every(NEVER)
    }

    fn cut_after(&self, text: &'static str) {
        *self.cut.lock().unwrap() = Some(text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_lost_is_looked_up_and_where_it_cannot_be_the_error_says_so() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let line = Line::to(&server);
    let link = line.store().patience(Duration::from_secs(8));
    let one = member(&link);
    one.execute(BI).await.unwrap();
    // The change is made, and its answer lost with the connection: another connection finds it made.
    line.cut_after("'cpu_core_limit'='5'");
    one.execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='5')")
        .await
        .unwrap();
    assert!(line.cut.lock().unwrap().is_none(), "nothing was cut");
    assert_eq!(link.status().connections, 2);
    assert_eq!(value(&one, "bi", "cpu_core_limit").await, "5");
    // The row is locked by somebody else: the server says in time that it gives up, and nothing has happened.
    let hasty = line.store().patience(Duration::from_millis(1_000));
    let two = member(&hasty);
    let locker = {
        let (client, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
            .batch_execute("BEGIN; SELECT 1 FROM quotient_catalog FOR UPDATE")
            .await
            .unwrap();
        client
    };
    let alter = "ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='6')";
    let error = two.execute(alter).await.unwrap_err();
    assert_eq!(sqlstate(&error), "58030", "{error}");
    // Our backend is killed while it waits for the lock: it is looked up until it is certain that it was not made.
    let kill = async {
        let waiting =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        until("one waits", async || {
            let killed = locker.query(waiting, &[]).await.unwrap();
            !killed.is_empty()
        })
        .await;
    };
    let (done, ()) = tokio::join!(one.execute(alter), kill);
    assert_eq!(sqlstate(&done.unwrap_err()), "58030");
    drop(locker);
    // The answer is lost, and the database with it: nobody knows, until it is back and the catalog is what is there.
    line.cut_after("'cpu_core_limit'='7'");
    line.dead.store(true, SeqCst);
    let error = two
        .execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='7')")
        .await
        .unwrap_err();
    assert_eq!(sqlstate(&error), "08007", "{error}");
    assert_eq!(value(&two, "bi", "cpu_core_limit").await, "5");
    line.dead.store(false, SeqCst);
    until("found out", async || {
        value(&two, "bi", "cpu_core_limit").await == "7"
    })
    .await;
    until_alike(&one, &two).await;
}

/// Nothing that is sent arrives, and nothing comes back: a change ends all the same, with what is known of it, and the
/// catalog is what it was; also while new connections are as silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_sent_into_silence_ends_in_time_and_the_catalog_is_what_it_was() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let line = Line::to(&server);
    let governor = member(&line.store().patience(Duration::from_millis(500)));
    governor.execute(BI).await.unwrap();
    let before = identity(&governor).await;
    line.silent.store(true, SeqCst);
    for weight in [6, 7] {
        let script = format!("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='{weight}')");
        let change = tokio::time::timeout(NEVER, governor.execute(&script)).await;
        let error = change.expect("it waits for ever").unwrap_err();
        // The first is on its way when the silence begins; the next is not sent.
        assert_eq!(sqlstate(&error), "58030", "{error}");
        assert!(error.to_string().contains("in time"), "{error}");
        assert_eq!(identity(&governor).await, before);
    }
    line.silent.store(false, SeqCst);
    until("a change is made again", async || {
        let script = "ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='8')";
        governor.execute(script).await.is_ok()
    })
    .await;
    assert_eq!(value(&governor, "bi", "cpu_core_limit").await, "8");
}

/// A connection that has ended since it was used last is no reason to refuse a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_does_not_fail_by_a_connection_of_yesterday() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let governor = member(&store(&server));
    governor.execute(BI).await.unwrap();
    for weight in 6..12 {
        server.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'quotient'");
        let script = format!("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='{weight}')");
        governor.execute(&script).await.unwrap();
    }
}

/// A current-thread runtime waits for nothing while the database does not answer.
#[tokio::test]
async fn a_database_that_does_not_answer_holds_up_nobody_but_who_changes_something() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let governor = member(&store(&server).patience(Duration::from_secs(2)));
    governor.execute(BI).await.unwrap();
    let (locker, connection) = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    locker
        .batch_execute("BEGIN; SELECT 1 FROM quotient_catalog FOR UPDATE")
        .await
        .unwrap();
    let changer = governor.clone();
    let change = tokio::spawn(async move {
        changer
            .execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='6')")
            .await
    });
    let mut rounds = 0;
    while !change.is_finished() {
        let query = governor.admit(&Attributes::new().user("bi")).await.unwrap();
        query
            .run(async { tokio::task::yield_now().await })
            .await
            .unwrap();
        governor
            .execute(
                "SHOW RESOURCE GROUPS ALL; SHOW CATALOG HISTORY; SELECT * FROM catalog_history",
            )
            .await
            .unwrap();
        governor.render_metrics();
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(sqlstate(&change.await.unwrap().unwrap_err()), "58030");
    assert!(rounds > 20, "{rounds} rounds while a change waited 1.5 s");
    // One that nobody waits for any more is run to its end all the same.
    let dropped = governor.execute("ALTER RESOURCE GROUP bi WITH ('cpu_core_limit'='7')");
    assert!(
        tokio::time::timeout(Duration::from_millis(20), dropped)
            .await
            .is_err()
    );
    locker.batch_execute("COMMIT").await.unwrap();
    until("run to its end", async || {
        value(&governor, "bi", "cpu_core_limit").await == "7"
    })
    .await;
}

/// A server may be at a change for some time after nobody waits for its answer: "it is not made" is said when it has
/// given up, and not before.
#[test]
fn a_change_that_is_sent_late_and_made_later_is_not_said_to_have_failed() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let link = store(&server).patience(Duration::from_secs(2));
    link.save("first", None).unwrap();
    let mut locker = std::process::Command::new("psql")
        .args(["-X", "-q", "-d", &server.url()])
        .args([
            "-c",
            "BEGIN",
            "-c",
            "SELECT 1 FROM quotient_catalog FOR UPDATE",
        ])
        .args(["-c", "SELECT pg_sleep(2.6)", "-c", "COMMIT"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let locked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    while server.ask(locked) != ["1"] {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The first waits for the lock until the server gives up; the second is sent behind it, with little time left.
    let save = |text: &'static str| {
        let link = link.clone();
        std::thread::spawn(move || link.save(text, Some("first")))
    };
    let one = save("second");
    std::thread::sleep(Duration::from_millis(100));
    let other = save("third");
    let (one, other) = (one.join().unwrap(), other.join().unwrap());
    locker.wait().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let script = server.ask("SELECT script FROM quotient_catalog");
    let (made, said) = (
        script == ["third"],
        format!("{one:?}, {other:?}, {script:?}"),
    );
    assert!(one.is_err(), "{said}");
    match &other {
        Ok(()) => assert!(made, "{said}"),
        Err(StoreError::Unknown { .. }) => {}
        Err(_) => assert!(!made, "{said}"),
    }
}

/// A deadline of for ever is none that a clock can hold, and a name may be longer than a channel's.
#[test]
fn for_ever_and_a_long_name_are_options_too() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.ask(&format!("CREATE SCHEMA {}", "s".repeat(40)));
    let table = format!("{}.{}", "s".repeat(40), "t".repeat(40));
    let link = store(&server)
        .patience(Duration::MAX)
        .poll_every(Duration::MAX)
        .table(&table)
        .unwrap();
    link.save("first", None).unwrap();
    assert_eq!(link.load().unwrap().as_deref(), Some("first"));
}

#[test]
fn a_server_that_hangs_up_at_once_is_asked_less_and_less_often() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.ask("CREATE ROLE shown_out SUPERUSER LOGIN");
    server.ask("ALTER ROLE shown_out SET idle_session_timeout = 1");
    let url = server.url().replace("user=quotient", "user=shown_out");
    let link = PostgresCatalog::new(&url).unwrap().poll_every(NEVER);
    let begun = Instant::now();
    // It may be shown out before it has asked.
    while link.status().connections < 3 {
        let _ = link.load();
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            link.status()
        );
    }
    let before = link.status().connections;
    std::thread::sleep(Duration::from_secs(4));
    let more = link.status().connections - before;
    // By a wait of a tenth of a second each time there would be about fifty.
    assert!(more <= 12, "{more} connections in four seconds");
}
