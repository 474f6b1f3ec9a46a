//! Whose statements: the group they run in, and the groups that are shown to whom.

use crate::Service;
use quotient::server::{Config, User, serve};
use quotient::{Attributes, Governor, Host};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

pub(crate) async fn connect(
    service: &Service,
    user: &str,
    password: &str,
) -> Result<Client, tokio_postgres::Error> {
    let mut config = tokio_postgres::Config::new();
    config
        .host("127.0.0.1")
        .port(service.port())
        .user(user)
        .password(password)
        .dbname("quotient");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The first column of a statement's rows.
pub(crate) async fn column(client: &Client, script: &str) -> Vec<String> {
    let messages = client.simple_query(script).await.unwrap();
    let mut cells = Vec::new();
    for message in messages {
        if let SimpleQueryMessage::Row(row) = message {
            cells.push(row.get(0).unwrap_or("NULL").to_owned());
        }
    }
    cells
}

pub(crate) fn code(error: &tokio_postgres::Error) -> &SqlState {
    error
        .code()
        .unwrap_or_else(|| panic!("no SQLSTATE: {error:?}"))
}

#[tokio::test]
async fn a_client_sees_the_groups_that_its_user_role_and_address_fit() {
    let users = Config::default()
        .user(User::admin("ops", "a"))
        .user(User::viewer("bi", "b").role("analyst"));
    let service = Service::with(users);
    service.run(
        "CREATE RESOURCE GROUP by_user TO (user='bi', query_type='select') WITH ('cpu_weight'='1');
         CREATE RESOURCE GROUP by_role TO (role='analyst'), (user='x') WITH ('cpu_weight'='1');
         CREATE RESOURCE GROUP admins TO (role='admin') WITH ('cpu_weight'='1');
         CREATE RESOURCE GROUP here TO (source_ip='127.0.0.0/8') WITH ('cpu_weight'='1');
         CREATE RESOURCE GROUP elsewhere TO (source_ip='10.0.0.0/8', user='bi') WITH ('cpu_weight'='1');
         CREATE RESOURCE GROUP nobody WITH ('cpu_weight'='1')",
    );
    let bi = connect(&service, "bi", "b").await.unwrap();
    assert_eq!(
        column(&bi, "SHOW RESOURCE GROUPS").await,
        ["by_role", "by_role", "by_user", "here"]
    );
    assert_eq!(
        column(&bi, "SHOW VERBOSE RESOURCE GROUPS LIKE 'by_u%'").await,
        ["by_user"]
    );
    let ops = connect(&service, "ops", "a").await.unwrap();
    assert_eq!(
        column(&ops, "SHOW RESOURCE GROUPS").await,
        ["admins", "here"]
    );
    assert_eq!(column(&ops, "SHOW RESOURCE GROUPS ALL").await.len(), 8);
}

#[tokio::test]
async fn a_viewer_looks_and_changes_nothing() {
    let service = Service::with(Config::default().user(User::viewer("v", "look")));
    service.run("CREATE RESOURCE GROUP a WITH ('cpu_weight'='1')");
    let viewer = connect(&service, "v", "look").await.unwrap();
    for script in [
        "CREATE RESOURCE GROUP b WITH ('cpu_weight'='1')",
        "ALTER RESOURCE GROUP a WITH ('cpu_weight'='2')",
        "DROP RESOURCE GROUP a",
        "KILL QUERY 1",
        "SET GLOBAL query_runner_threads = 1",
        "SET resource_group = 'a'",
        "SET \"Resource_Group\" TO a",
        "SELECT 1; DROP RESOURCE GROUP a",
        "ROLLBACK CATALOG TO VERSION 0",
    ] {
        let error = viewer.batch_execute(script).await.unwrap_err();
        assert_eq!(code(&error), &SqlState::INSUFFICIENT_PRIVILEGE, "{script}");
        let error = match viewer.prepare(script).await {
            Ok(statement) => viewer.execute(&statement, &[]).await.unwrap_err(),
            Err(error) => error,
        };
        let expected = if script.contains(';') {
            SqlState::SYNTAX_ERROR
        } else {
            SqlState::INSUFFICIENT_PRIVILEGE
        };
        assert_eq!(code(&error), &expected, "{script}");
    }
    assert_eq!(
        column(
            &viewer,
            "SELECT cpu_core_limit FROM groups WHERE name = 'a'"
        )
        .await,
        ["1"]
    );
    assert_eq!(
        column(&viewer, "SHOW USAGE RESOURCE GROUPS").await,
        ["a", "default_wg"]
    );
}

fn polls(service: &Service, group: &str) -> u64 {
    let group = Attributes::new().user("root").resource_group(group);
    service.governor.classify(&group).unwrap().usage().polls
}

#[tokio::test]
async fn statements_are_charged_to_the_group_that_was_set_and_only_while_it_is_set() {
    let governor = Governor::builder()
        .host(Host::Owned)
        .workers(1)
        .allow_override(|attributes, group| group != "secret" || attributes.get_user() == Some("root"))
        .init_sql(
            "CREATE RESOURCE GROUP own WITH ('cpu_weight'='1'); CREATE RESOURCE GROUP chosen WITH ('cpu_weight'='1');
             CREATE RESOURCE GROUP secret WITH ('cpu_weight'='1')",
        )
        .build()
        .unwrap();
    let server = serve(&governor, Config::default().group("own")).unwrap();
    let service = Service::of(governor, server);
    // A poll is put down just behind its answer.
    let polled = async |group: &str, polls: u64| {
        let begun = std::time::Instant::now();
        while self::polls(&service, group) < polls {
            assert!(begun.elapsed().as_secs() < 60, "never charged to {group}");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        self::polls(&service, group) == polls
    };
    let client = connect(&service, "ops", "").await.unwrap();
    assert_eq!(
        column(&client, "SELECT name FROM groups WHERE name = 'own'").await,
        ["own"]
    );
    assert!(polled("own", 1).await && polled("chosen", 0).await);
    client
        .batch_execute("SET resource_group = 'chosen'")
        .await
        .unwrap();
    assert_eq!(column(&client, "SHOW resource_group").await, ["chosen"]);
    column(&client, "SHOW VARIABLES").await;
    assert!(polled("chosen", 1).await && polled("own", 1).await);

    let refused = client
        .batch_execute("SET resource_group = 'secret'")
        .await
        .unwrap_err();
    assert_eq!(code(&refused), &SqlState::INSUFFICIENT_PRIVILEGE);
    let unknown = client
        .batch_execute("SET resource_group = 'nosuch'")
        .await
        .unwrap_err();
    assert_eq!(code(&unknown), &SqlState::UNDEFINED_OBJECT);
    assert_eq!(column(&client, "SHOW resource_group").await, ["chosen"]);

    // Dropped meanwhile: it is said, and how to go on.
    client
        .batch_execute("DROP RESOURCE GROUP chosen")
        .await
        .unwrap();
    let gone = client.batch_execute("SHOW VARIABLES").await.unwrap_err();
    assert_eq!(code(&gone), &SqlState::UNDEFINED_OBJECT);
    client
        .batch_execute("RESET resource_group; SHOW VARIABLES")
        .await
        .unwrap();
    assert!(polled("own", 2).await);
    // The server's own group may come and go; the operator is never shut out.
    client
        .batch_execute("DROP RESOURCE GROUP own")
        .await
        .unwrap();
    client.batch_execute("SHOW VARIABLES").await.unwrap();
}

#[tokio::test]
async fn a_query_is_found_by_its_view_and_killed() {
    let service = Service::new();
    let query = service
        .governor
        .admit(&Attributes::new().user("bi"))
        .await
        .unwrap();
    let task = query.spawn(std::future::pending::<()>());
    let client = connect(&service, "ops", "").await.unwrap();
    let ids = column(&client, "SELECT id FROM queries WHERE user_name = 'bi'").await;
    assert_eq!(ids, [query.id().to_string()]);
    client
        .batch_execute(&format!("KILL QUERY {}", ids[0]))
        .await
        .unwrap();
    assert!(task.await.unwrap_err().is_cancelled());
    let error = client.batch_execute("KILL QUERY 999999").await.unwrap_err();
    assert_eq!(code(&error), &SqlState::UNDEFINED_OBJECT);
}

#[tokio::test]
async fn the_operator_gets_in_while_every_worker_is_in_a_poll_without_end() {
    let service = Service::new();
    let stuck = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let free = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let query = service
        .governor
        .admit(&Attributes::new().user("bi"))
        .await
        .unwrap();
    for _ in 0..2 {
        let (stuck, free) = (stuck.clone(), free.clone());
        query.spawn(async move {
            stuck.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            while !free.load(std::sync::atomic::Ordering::SeqCst) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
    }
    while stuck.load(std::sync::atomic::Ordering::SeqCst) < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let client = connect(&service, "ops", "").await.unwrap();
    assert_eq!(
        column(&client, "SELECT state FROM queries").await,
        ["running"]
    );
    client
        .batch_execute(&format!("KILL QUERY {}", query.id()))
        .await
        .unwrap();
    assert_eq!(
        column(&client, "SELECT state FROM queries").await,
        ["ending"]
    );
    free.store(true, std::sync::atomic::Ordering::SeqCst);
}
