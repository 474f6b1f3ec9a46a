//! A store that others change too, and that does not answer: who waits for it, and who does not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use quotient::catalog::CatalogMode;
use quotient::catalog::store::StoreError;
use quotient::{Attributes, CatalogStore, Governor};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(30);
const MS: Duration = Duration::from_millis(1);

/// Keeps a catalog, and does not answer while it hangs.
#[derive(Clone, Debug, Default)]
struct Store {
    held: Arc<Mutex<Option<String>>>,
    /// Saves that were begun.
    saves: Arc<AtomicUsize>,
    hangs: Arc<AtomicBool>,
}

impl CatalogStore for Store {
    fn load(&self) -> Result<Option<String>, StoreError> {
        Ok(self.held.lock().unwrap().clone())
    }

    fn save(&self, text: &str, _: Option<&str>) -> Result<(), StoreError> {
        self.saves.fetch_add(1, SeqCst);
        while self.hangs.load(SeqCst) {
            std::thread::sleep(MS);
        }
        *self.held.lock().unwrap() = Some(text.to_owned());
        Ok(())
    }

    fn place(&self) -> String {
        "a store that may hang".to_owned()
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Answers at the end, also of a test that fails: the runtime waits for its threads.
struct Hanging(
    Store,
    #[allow(dead_code, reason = "it watches")] support::Watch,
);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.hangs.store(false, SeqCst);
    }
}

/// A runtime with three threads that may block.
fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .max_blocking_threads(3)
        .build()
        .unwrap()
}

fn create(name: &str) -> String {
    format!("CREATE RESOURCE GROUP {name} WITH ('cpu_weight'='1')")
}

/// A governor, and a change of it that waits for its store.
async fn hanging(store: &Store) -> (Governor, tokio::task::JoinHandle<bool>, Hanging) {
    let built = Governor::builder().workers(1).catalog_store(store.clone());
    let governor = built.build().unwrap();
    // What is there at the start is kept.
    sleep(20 * MS).await;
    let before = store.saves.load(SeqCst);
    store.hangs.store(true, SeqCst);
    let changer = governor.clone();
    let change = async move { changer.execute(&create("first")).await.is_ok() };
    let change = tokio::spawn(change);
    while store.saves.load(SeqCst) == before {
        sleep(MS).await;
    }
    let watch = support::watch("a store that does not answer", String::new);
    (governor, change, Hanging(store.clone(), watch))
}

#[test]
fn changes_that_wait_for_a_store_hold_one_thread_and_those_given_up_are_not_made() {
    runtime().block_on(async {
        let store = Store::default();
        let (governor, change, hanging) = hanging(&store).await;
        for number in 0..20 {
            let script = create(&format!("g{number}"));
            let given_up = timeout(MS, governor.execute(&script)).await;
            assert!(given_up.is_err());
        }
        let patient = governor.clone();
        let last = tokio::spawn(async move { patient.execute(&create("last")).await.is_ok() });
        sleep(5 * MS).await;
        // The program's own closures find a thread.
        let own = timeout(LONG, tokio::task::spawn_blocking(|| 7)).await;
        let own = own.expect("all threads wait for the store").unwrap();
        assert_eq!(own, 7);
        assert!(!change.is_finished() && !last.is_finished());
        drop(hanging);
        assert!(change.await.unwrap() && last.await.unwrap());
        let groups = governor.execute("SELECT name FROM groups").await.unwrap();
        let names: Vec<String> = groups[0]
            .rows()
            .iter()
            .map(|row| row[0].to_string())
            .collect();
        assert_eq!(names, ["default_wg", "first", "last"]);
    });
}

#[test]
fn a_change_is_explained_while_another_one_waits_for_its_store() {
    runtime().block_on(async {
        let store = Store::default();
        let (governor, change, hanging) = hanging(&store).await;
        for _ in 0..20 {
            let script = format!("EXPLAIN {}", create("second"));
            let explained = timeout(LONG, governor.execute(&script)).await;
            let explained = explained.expect("it waits for the store").unwrap();
            // Of what counts now: the first one is not made yet.
            assert!(explained[0].to_string().contains("second"));
            let unknown = governor.execute("EXPLAIN DROP RESOURCE GROUP first").await;
            assert!(unknown.is_err());
        }
        drop(hanging);
        assert!(change.await.unwrap());
        let known = governor.execute("EXPLAIN DROP RESOURCE GROUP first").await;
        assert!(known.is_ok());
    });
}

/// A row that others write too.
#[derive(Clone, Debug, Default)]
struct Row(Arc<Mutex<Option<String>>>);

impl Row {
    fn get(&self) -> Option<String> {
        self.0.lock().unwrap().clone()
    }

    fn set(&self, text: Option<String>) {
        *self.0.lock().unwrap() = text;
    }

    fn governor(&self, init: &str) -> Governor {
        let builder = Governor::builder().workers(1).catalog_store(self.clone());
        let builder = builder.catalog_mode(CatalogMode::Lenient);
        builder.init_sql(init).build().unwrap()
    }
}

impl CatalogStore for Row {
    fn load(&self) -> Result<Option<String>, StoreError> {
        Ok(self.get())
    }

    fn save(&self, text: &str, seen: Option<&str>) -> Result<(), StoreError> {
        let mut there = self.0.lock().unwrap();
        if there.as_deref() != seen {
            let place = self.place();
            return Err(StoreError::Conflict { place });
        }
        *there = Some(text.to_owned());
        Ok(())
    }

    fn place(&self) -> String {
        "a row".to_owned()
    }

    fn is_shared(&self) -> bool {
        true
    }
}

fn forced(group: &str) -> Attributes {
    Attributes::new().resource_group(group)
}

/// Fleets that have nothing in common begin with the same ids.
#[test]
fn a_known_id_under_another_name_is_another_group() {
    runtime().block_on(async {
        let (ours, theirs) = (Row::default(), Row::default());
        let both = |a: &str, b: &str| format!("{}; {}", create(a), create(b));
        let governor = ours.governor(&both("a", "b"));
        let other = theirs.governor(&both("x", "y"));
        sleep(20 * MS).await;
        let id = |governor: &Governor, name: &str| governor.classify(&forced(name)).unwrap().id();
        assert_eq!(id(&governor, "b"), id(&other, "y"));
        let query = governor.try_admit(&forced("b")).unwrap();
        query.run(async {}).await.unwrap();
        // Their row is ours now; whoever wants to change it finds out.
        ours.set(theirs.get());
        governor.execute(&create("c")).await.unwrap_err();

        assert_eq!(id(&governor, "y"), id(&other, "y"));
        let y = governor.try_admit(&forced("y")).unwrap();
        assert_eq!(y.group(), "y");
        y.run(async {}).await.unwrap();
        assert!(governor.try_admit(&forced("b")).is_err());
        assert!(!governor.has_group("b"));
        governor.spawn_in("y", async {}).unwrap().await.unwrap();
        // The query of b is b's to its end, and no longer.
        let admitted = |group: &str| {
            let row = governor.metrics().by_name().remove(group)?;
            Some((row.queries_running, row.admission.values().sum::<u64>()))
        };
        assert_eq!((admitted("b"), admitted("y")), (Some((1, 1)), Some((1, 1))));
        drop(query);
        drop(y);
        assert_eq!((admitted("b"), admitted("y")), (None, Some((0, 1))));
        let shown = governor
            .execute("SHOW USAGE RESOURCE GROUP y")
            .await
            .unwrap();
        assert_eq!(shown[0].rows().len(), 1);
    });
}

#[test]
fn who_could_not_read_all_of_a_shared_row_does_not_write_over_it() {
    runtime().block_on(async {
        let row = Row::default();
        let first = row.governor(&create("a"));
        sleep(20 * MS).await;
        let good = row.get().unwrap();
        let damaged = good.clone() + "CREATE RESOURCE GROUP torn WITH ('cpu_we";
        row.set(Some(damaged.clone()));
        let late = row.governor("");
        assert_eq!(late.catalog_damage().len(), 1);
        let alter = "ALTER RESOURCE GROUP a WITH ('cpu_weight'='2')";
        for governor in [&late, &first, &late] {
            let error = governor.execute(alter).await.unwrap_err();
            assert!(error.to_string().contains("a row"), "{error}");
            assert_eq!(row.get().as_deref(), Some(&*damaged));
        }
        // Mended, everybody goes on.
        row.set(Some(good.replace("'1'", "'3'")));
        late.execute("ALTER RESOURCE GROUP a WITH ('cpu_weight'='4')")
            .await
            .unwrap();
        assert!(row.get().unwrap().contains("'4'"));
    });
}
