//! Programs: tokio-postgres, which prepares, describes, binds and reads binary, as JDBC, psycopg and pgx do.

use crate::Service;
use crate::roles::{code, column, connect};
use quotient::server::{Config, User};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio_postgres::error::{ErrorPosition, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage};

const GROUPS: &str =
    "CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='3', 'max_cpu_cores'='0.5');
                      CREATE RESOURCE GROUP etl TO (user='loader') WITH ('cpu_core_limit'='1')";

#[tokio::test]
async fn columns_have_their_types_and_values_are_read_in_binary() {
    let service = Service::new();
    service.run(GROUPS);
    let client = connect(&service, "ops", "").await.unwrap();
    let statement = client
        .prepare("SELECT name, id, max_cpu_cores, true AS yes, count(*) FROM groups GROUP BY 1, 2, 3 ORDER BY name")
        .await
        .unwrap();
    let types: Vec<&Type> = statement
        .columns()
        .iter()
        .map(|column| column.type_())
        .collect();
    assert_eq!(
        types,
        [
            &Type::TEXT,
            &Type::INT8,
            &Type::FLOAT8,
            &Type::BOOL,
            &Type::INT8
        ]
    );
    let rows = client.query(&statement, &[]).await.unwrap();
    let read: Vec<(String, Option<f64>, bool, i64)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(2), row.get(3), row.get(4)))
        .collect();
    assert_eq!(
        read,
        [
            ("bi".into(), Some(0.5), true, 1),
            ("default_wg".into(), None, true, 1),
            ("etl".into(), None, true, 1)
        ]
    );
    // An empty view has its types too.
    let none = client
        .prepare("SELECT id, elapsed_seconds FROM queries")
        .await
        .unwrap();
    let types: Vec<&Type> = none.columns().iter().map(|column| column.type_()).collect();
    assert_eq!(types, [&Type::INT8, &Type::FLOAT8]);
    let one = client.query_one("SELECT 1", &[]).await.unwrap();
    assert_eq!(one.get::<_, i32>(0), 1);
    let row = client.query_one("SHOW server_version", &[]).await.unwrap();
    assert!(row.get::<_, String>("server_version").starts_with("14.0"));
    let shown = client.query("SHOW RESOURCE GROUPS ALL", &[]).await.unwrap();
    assert_eq!(shown[0].get::<_, i64>("cpu_core_limit"), 3);
}

#[tokio::test]
async fn parameters_stand_for_values_of_the_columns_they_are_compared_with() {
    let service = Service::new();
    service.run(GROUPS);
    let client = connect(&service, "ops", "").await.unwrap();
    let sql = "SELECT name FROM groups WHERE name = $1 OR cpu_core_limit > $2 AND max_cpu_cores <= $3 ORDER BY 1 LIMIT $4";
    let statement = client.prepare(sql).await.unwrap();
    assert_eq!(
        statement.params(),
        [Type::TEXT, Type::INT8, Type::FLOAT8, Type::INT8]
    );
    for (name, most, expected) in [
        ("etl", 9_i64, vec!["bi", "etl"]),
        ("etl", 1, vec!["bi"]),
        ("' OR ''='", 9, vec!["bi"]),
    ] {
        let rows = client
            .query(&statement, &[&name, &1_i64, &0.5_f64, &most])
            .await
            .unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(names, expected, "{name}");
    }
    let rows = client
        .query("SELECT name FROM groups WHERE name = $1", &[&None::<&str>])
        .await
        .unwrap();
    assert!(rows.is_empty());
    let negative = client
        .query(
            "SELECT name FROM groups WHERE id > $1 AND lag_ms > $2",
            &[&-1_i64, &-1e9_f64],
        )
        .await
        .unwrap();
    assert_eq!(negative.len(), 3);
    let cast = client
        .query(
            "SELECT name FROM groups WHERE id > $1::int2 AND $2::int8 < id AND lag_ms > $3::float8",
            &[&i16::MIN, &i64::MIN, &f64::NEG_INFINITY],
        )
        .await
        .unwrap();
    assert_eq!(cast.len(), 3);
    let typed = client
        .prepare_typed(
            "SELECT name FROM groups WHERE cpu_core_limit IN ($1, $2)",
            &[Type::INT4, Type::INT2],
        )
        .await
        .unwrap();
    assert_eq!(
        client.query(&typed, &[&3_i32, &7_i16]).await.unwrap().len(),
        1
    );
}

#[tokio::test]
async fn parameters_elsewhere_are_refused_with_their_place_and_places_survive_values() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    let place = |error: &tokio_postgres::Error| match error.as_db_error().unwrap().position() {
        Some(ErrorPosition::Original(at)) => *at,
        other => panic!("{other:?}"),
    };
    let error = client.prepare("DROP RESOURCE GROUP $1").await.unwrap_err();
    assert_eq!(
        (code(&error), place(&error)),
        (&SqlState::FEATURE_NOT_SUPPORTED, 21)
    );
    let error = client
        .prepare("SELECT name FROM groups WHERE name = $1 AND nosuch = 1")
        .await
        .map(drop);
    let error = match error {
        Err(error) => error,
        Ok(()) => client
            .query(
                "SELECT name FROM groups WHERE name = $1 AND nosuch = 1",
                &[&"x"],
            )
            .await
            .unwrap_err(),
    };
    assert_eq!(
        (code(&error), place(&error)),
        (&SqlState::UNDEFINED_COLUMN, 45)
    );
    let error = client
        .simple_query("SELECT name FROM groups WHERE name = $1")
        .await
        .unwrap_err();
    assert_eq!(
        (code(&error), place(&error)),
        (&SqlState::UNDEFINED_PARAMETER, 38)
    );
    let error = client.prepare("SHOW RESOURCE GRÜPS").await.unwrap_err();
    assert_eq!(place(&error), 15);
    assert!(error.as_db_error().unwrap().hint().is_some());
}

#[tokio::test]
async fn after_an_error_the_next_statement_runs_in_either_protocol() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    for _ in 0..3 {
        assert!(
            client
                .query("SELECT nosuch FROM groups", &[])
                .await
                .is_err()
        );
        assert!(
            client
                .simple_query("SELECT nosuch FROM groups")
                .await
                .is_err()
        );
        assert!(client.prepare("NONSENSE").await.is_err());
        assert_eq!(
            client
                .query_one("SELECT 2", &[])
                .await
                .unwrap()
                .get::<_, i32>(0),
            2
        );
        assert_eq!(column(&client, "SELECT 3").await, ["3"]);
    }
    // Many at once on one connection come back in their order.
    let (a, b, c) = tokio::join!(
        client.query_one("SELECT 1", &[]),
        client.query("SELECT nosuch FROM groups", &[]),
        client.query_one("SELECT name FROM groups", &[]),
    );
    assert_eq!(a.unwrap().get::<_, i32>(0), 1);
    assert_eq!(code(&b.unwrap_err()), &SqlState::UNDEFINED_COLUMN);
    assert_eq!(c.unwrap().get::<_, &str>(0), "default_wg");
}

#[tokio::test]
async fn ddl_is_prepared_and_executed_and_a_transaction_is_borne() {
    let service = Service::new();
    let mut client = connect(&service, "ops", "").await.unwrap();
    let statement = client
        .prepare("CREATE RESOURCE GROUP a WITH ('cpu_weight'='1')")
        .await
        .unwrap();
    assert!(statement.columns().is_empty() && !service.governor.has_group("a"));
    assert_eq!(client.execute(&statement, &[]).await.unwrap(), 0);
    assert!(service.governor.has_group("a"));
    let again = client.execute(&statement, &[]).await.unwrap_err();
    assert_eq!(code(&again), &SqlState::DUPLICATE_OBJECT);
    let transaction = client.transaction().await.unwrap();
    transaction
        .execute("DROP RESOURCE GROUP a", &[])
        .await
        .unwrap();
    transaction.rollback().await.unwrap();
    assert!(!service.governor.has_group("a"));
    client.batch_execute("SAVEPOINT s; RELEASE s; DEALLOCATE ALL; DISCARD ALL; SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY").await.unwrap();
}

#[tokio::test]
async fn rows_are_fetched_in_parts() {
    let service = Service::new();
    for group in 0..9 {
        service.run(&format!(
            "CREATE RESOURCE GROUP g{group} WITH ('cpu_weight'='1')"
        ));
    }
    let mut client = connect(&service, "ops", "").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let portal = transaction
        .bind(
            "SELECT name FROM groups WHERE name LIKE $1 ORDER BY 1",
            &[&"g%"],
        )
        .await
        .unwrap();
    let mut names = Vec::new();
    loop {
        let part = transaction.query_portal(&portal, 4).await.unwrap();
        if part.is_empty() {
            break;
        }
        assert!(part.len() <= 4);
        names.extend(part.iter().map(|row| row.get::<_, String>(0)));
    }
    assert_eq!(names.len(), 9);
    assert_eq!(names[8], "g8");
}

#[tokio::test]
async fn a_cancel_request_ends_the_statement_of_its_session_alone() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    let other = connect(&service, "ops", "").await.unwrap();
    let token = client.cancel_token();
    let cancel = async {
        // One that comes before the statement has begun is for nothing.
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            token.cancel_query(NoTls).await.unwrap();
        }
    };
    let sleeping = tokio::time::timeout(
        Duration::from_secs(60),
        client.simple_query("SELECT pg_sleep(600)"),
    );
    let ended = tokio::select! {
        ended = sleeping => ended.expect("it was never interrupted"),
        () = cancel => unreachable!(),
    };
    assert_eq!(code(&ended.unwrap_err()), &SqlState::QUERY_CANCELED);
    assert_eq!(column(&client, "SELECT 1").await, ["1"]);
    assert_eq!(
        column(&other, "SELECT pg_sleep(0.01); SELECT 2").await,
        ["", "2"]
    );
}

#[tokio::test]
async fn a_long_script_keeps_nobody_waiting_and_can_be_interrupted() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    let other = connect(&service, "ops", "").await.unwrap();
    let token = client.cancel_token();
    let script = "SELECT * FROM groups; SELECT pg_sleep(0.01); ".repeat(5_000);
    let running = client.simple_query(&script);
    let beside = async {
        for _ in 0..10 {
            assert_eq!(column(&other, "SELECT 1").await, ["1"]);
        }
        loop {
            token.cancel_query(NoTls).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::select! {
        ended = running => ended,
        () = beside => unreachable!(),
    };
    assert_eq!(code(&ended.unwrap_err()), &SqlState::QUERY_CANCELED);
}

#[tokio::test]
async fn what_a_session_prepares_is_bounded() {
    let service = Service::with(Config::default().max_message(1 << 16));
    let client = connect(&service, "ops", "").await.unwrap();
    let mut kept = Vec::new();
    let refused = loop {
        match client.prepare("SELECT 1").await {
            Ok(statement) => kept.push(statement),
            Err(error) => break error,
        }
    };
    assert_eq!(code(&refused).code(), "53400");
    assert_eq!(kept.len(), 512);
    drop(kept);
    client.batch_execute("SELECT 1").await.unwrap();
    client.prepare("SELECT 2").await.unwrap();
    // By its bytes, too: two messages' worth.
    let long = format!("SELECT 1 /* {} */", "x".repeat(40_000));
    let (a, b, c, d) = (
        client.prepare(&long).await,
        client.prepare(&long).await,
        client.prepare(&long).await,
        client.prepare(&long).await,
    );
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(code(&d.unwrap_err()).code(), "53400");
}

#[tokio::test]
async fn passwords_with_every_kind_of_letter_are_checked_by_scram() {
    let password = "пароль ' \" \\ \u{1F511}";
    let service = Service::with(Config::default().user(User::admin("имя", password)));
    let client = connect(&service, "имя", password).await.unwrap();
    assert_eq!(column(&client, "SELECT current_user").await, ["имя"]);
    for (user, wrong) in [("имя", "x"), ("nobody", password), ("", password)] {
        let error = connect(&service, user, wrong).await.expect_err("let in");
        let expected = [
            SqlState::INVALID_PASSWORD,
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        ];
        assert!(expected.contains(code(&error)), "{user}: {error}");
    }
}

#[tokio::test]
async fn shutdown_tells_the_clients_and_frees_the_port() {
    let service = Service::new();
    let address = service.server.local_addr().unwrap();
    let client = connect(&service, "ops", "").await.unwrap();
    let sleeper = connect(&service, "ops", "").await.unwrap();
    let sleeping = tokio::spawn(async move { sleeper.simple_query("SELECT pg_sleep(600)").await });
    assert_eq!(column(&client, "SELECT 1").await, ["1"]);
    let Service {
        governor, server, ..
    } = service;
    assert!(server.connections() >= 2);
    server.shutdown().await;
    assert!(sleeping.await.unwrap().is_err());
    assert!(client.simple_query("SELECT 1").await.is_err());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    // The governor goes on, and may be served again at the same place.
    let server = quotient::server::serve(&governor, Config::tcp(address)).unwrap();
    let service = Service::of(governor, server);
    let client = connect(&service, "ops", "").await.unwrap();
    assert_eq!(column(&client, "SELECT 2").await, ["2"]);
}

#[tokio::test]
async fn dropping_the_handle_ends_the_server_and_lets_the_governor_go() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    assert_eq!(column(&client, "SELECT 1").await, ["1"]);
    // A task of it lives exactly as long as the governor does.
    let (alive, mut dead) = tokio::sync::oneshot::channel::<()>();
    let task = service.governor.spawn_in("default_wg", async move {
        std::future::pending::<()>().await;
        drop(alive);
    });
    drop(task.unwrap());
    assert!(
        dead.try_recv()
            .is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty)
    );
    drop(service);
    while client.simple_query("SELECT 1").await.is_ok() {
        tokio::task::yield_now().await;
    }
    let dead = tokio::time::timeout(Duration::from_secs(60), dead).await;
    assert!(dead.expect("the governor lives on").is_err());
}

#[tokio::test]
async fn several_results_of_one_message_come_one_after_the_other() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    let messages = client
        .simple_query("SELECT 1; SHOW VARIABLES LIKE 'none'; SELECT 'x', NULL; BEGIN")
        .await
        .unwrap();
    let kinds: Vec<String> = messages
        .iter()
        .map(|message| match message {
            SimpleQueryMessage::Row(row) => format!("row {}", row.len()),
            SimpleQueryMessage::CommandComplete(rows) => format!("done {rows}"),
            SimpleQueryMessage::RowDescription(columns) => format!("columns {}", columns.len()),
            _ => "other".to_owned(),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "columns 1",
            "row 1",
            "done 1",
            "columns 4",
            "done 0",
            "columns 2",
            "row 2",
            "done 1",
            "done 0"
        ]
    );
}

/// Keeps a catalog, and takes as long over it as it is told to.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlowStore {
    held: std::sync::Arc<parking_lot::Mutex<Option<String>>>,
    pub(crate) saving: std::sync::Arc<AtomicUsize>,
    pub(crate) slow: std::sync::Arc<AtomicBool>,
}

impl quotient::CatalogStore for SlowStore {
    fn load(&self) -> Result<Option<String>, quotient::catalog::store::StoreError> {
        Ok(self.held.lock().clone())
    }

    fn save(
        &self,
        text: &str,
        _: Option<&str>,
    ) -> Result<(), quotient::catalog::store::StoreError> {
        self.saving.fetch_add(1, SeqCst);
        while self.slow.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        *self.held.lock() = Some(text.to_owned());
        Ok(())
    }

    fn place(&self) -> String {
        "a slow place".to_owned()
    }

    fn is_shared(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_change_that_waits_for_its_store_can_be_interrupted_and_holds_up_nobody() {
    let store = SlowStore::default();
    let governor = quotient::Governor::builder()
        .host(quotient::Host::Owned)
        .workers(1)
        .catalog_store(store.clone())
        .build()
        .unwrap();
    let server = quotient::server::serve(&governor, Config::default()).unwrap();
    let service = Service::of(governor, server);
    let client = connect(&service, "ops", "").await.unwrap();
    let other = connect(&service, "ops", "").await.unwrap();
    let saved = store.saving.load(SeqCst);
    store.slow.store(true, SeqCst);
    let token = client.cancel_token();
    let create = client.simple_query("CREATE RESOURCE GROUP a WITH ('cpu_weight'='1')");
    let beside = async {
        while store.saving.load(SeqCst) == saved {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(
            column(&other, "SELECT name FROM groups").await,
            ["default_wg"]
        );
        loop {
            token.cancel_query(NoTls).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::select! {
        ended = create => ended,
        () = beside => unreachable!(),
    };
    let error = ended.unwrap_err();
    assert_eq!(code(&error), &SqlState::QUERY_CANCELED);
    assert!(error.as_db_error().unwrap().detail().is_some());
    store.slow.store(false, SeqCst);
    // It was begun, and is made.
    while column(&client, "SELECT name FROM groups").await != ["a", "default_wg"] {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
