//! A store that others change too, and that does not answer: who waits for it, and who does not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod support;

use quotient::catalog::store::StoreError;
use quotient::{CatalogStore, Governor};
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
