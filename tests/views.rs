//! The system views, asked by SELECT through the governor.

#![allow(clippy::unwrap_used)]

use quotient::sql::Value;
use quotient::{Attributes, Error, Governor};

async fn governor() -> Governor {
    let governor = Governor::builder().workers(2).build().unwrap();
    governor
        .execute(
            "CREATE RESOURCE GROUP bi TO (user='bi', source_ip='10.0.0.0/8'), (role='analyst') \
               WITH ('cpu_core_limit'='3', 'concurrency_limit'='1');
             CREATE RESOURCE GROUP etl TO (query_type IN ('insert', 'import')) WITH ('cpu_core_limit'='1')",
        )
        .await
        .unwrap();
    governor
}

async fn ask(governor: &Governor, text: &str) -> Vec<Vec<Value>> {
    let mut outputs = governor.execute(text).await.unwrap();
    outputs.pop().unwrap().rows().to_vec()
}

#[tokio::test]
async fn groups_show_properties_and_use_in_one_row() {
    let governor = governor().await;
    let query = governor
        .admit(&Attributes::new().role("analyst"))
        .await
        .unwrap();
    let rows = ask(
        &governor,
        "SELECT name, cpu_core_limit, running, concurrency_limit FROM groups \
         WHERE cpu_core_limit > 1 AND name <> 'default_wg'",
    )
    .await;
    assert_eq!(
        rows,
        [["bi".into(), Value::Int(3), Value::Int(1), Value::Int(1)]]
    );
    drop(query);
    let rows = ask(&governor, "SELECT sum(running) FROM groups").await;
    assert_eq!(rows, [[Value::Int(0)]]);
}

#[tokio::test]
async fn classifiers_are_rows_with_nulls_for_what_they_do_not_ask() {
    let governor = governor().await;
    let rows = ask(
        &governor,
        "SELECT group_name, user_name, source_ip, query_type FROM classifiers ORDER BY id",
    )
    .await;
    assert_eq!(
        rows,
        [
            ["bi".into(), "bi".into(), "10.0.0.0/8".into(), Value::Null],
            ["bi".into(), Value::Null, Value::Null, Value::Null],
            [
                "etl".into(),
                Value::Null,
                Value::Null,
                "insert, import".into()
            ],
        ]
    );
}

#[tokio::test]
async fn a_rejection_is_counted_with_its_reason() {
    let governor = governor().await;
    let bi = Attributes::new().role("analyst");
    let _first = governor.try_admit(&bi).unwrap();
    assert!(governor.try_admit(&bi).is_err());
    let rows = ask(&governor, "SELECT name, reason, requests FROM rejections").await;
    assert_eq!(rows, [["bi".into(), "concurrency".into(), Value::Int(1)]]);
    let rows = ask(
        &governor,
        "SELECT outcome, sum(requests) FROM admission GROUP BY outcome ORDER BY 1",
    )
    .await;
    assert_eq!(
        rows,
        [
            ["admitted".into(), Value::Int(1)],
            ["rejected".into(), Value::Int(1)]
        ]
    );
}

#[tokio::test]
async fn what_ran_is_in_the_scheduler_and_its_workers() {
    let governor = governor().await;
    let etl = Attributes::new().query_type(quotient::QueryType::Insert);
    let query = governor.admit(&etl).await.unwrap();
    for _ in 0..10 {
        query.run(async {}).await.unwrap();
    }
    let rows = ask(
        &governor,
        "SELECT tasks_total FROM scheduler WHERE name = 'etl' AND polls >= 10",
    )
    .await;
    assert_eq!(rows, [[Value::Int(10)]]);
    let rows = ask(&governor, "SELECT count(worker) FROM workers").await;
    assert_eq!(rows, [[Value::Int(2)]]);
}

#[tokio::test]
async fn tasks_say_what_they_do_whose_they_are_and_where_they_come_from() {
    let governor = governor().await;
    let bi = Attributes::new().role("analyst");
    let query = governor.admit(&bi).await.unwrap();
    let line = line!() + 1;
    let waits = query.spawn(std::future::pending::<()>());
    let loose = governor
        .spawn_in("etl", std::future::pending::<()>())
        .unwrap();
    // From its first wait on a task can be seen.
    while ask(&governor, "SELECT id FROM tasks").await.len() < 2 {
        tokio::task::yield_now().await;
    }
    let rows = ask(
        &governor,
        "SELECT id, group_name, query_id, state, ready_ms, spawned_at FROM tasks ORDER BY id",
    )
    .await;
    let place = format!("{}:{line}:", file!());
    let id = |text: String| Value::Int(text.parse().unwrap());
    assert_eq!(
        rows[0][..5],
        [
            id(waits.id().to_string()),
            "bi".into(),
            id(query.id().to_string()),
            "waiting".into(),
            Value::Null
        ]
    );
    assert!(rows[0][5].to_string().starts_with(&place), "{}", rows[0][5]);
    assert_eq!(rows[1][1..4], ["etl".into(), Value::Null, "waiting".into()]);
    // What a query's tasks cost is the query's; a task of none has its own.
    let rows = ask(
        &governor,
        "SELECT group_name FROM tasks WHERE cpu_seconds >= 0",
    )
    .await;
    assert_eq!(rows, [["etl".into()]]);

    waits.abort();
    loose.abort();
    assert!(waits.await.is_err() && loose.await.is_err());
    assert!(ask(&governor, "SELECT id FROM tasks").await.is_empty());
}

/// A task that looks at itself is seen running; one that was woken meanwhile is ready.
#[tokio::test]
async fn a_task_is_seen_running_ready_or_waiting() {
    let governor = Governor::builder().workers(1).build().unwrap();
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    let woken = governor
        .spawn_in("default_wg", async move { told.await.is_ok() })
        .unwrap();
    while ask(&governor, "SELECT id FROM tasks").await.is_empty() {
        tokio::task::yield_now().await;
    }
    let inside = governor.clone();
    let looks = governor
        .spawn_in("default_wg", async move {
            quotient::task::yield_now().await;
            tell.send(()).unwrap();
            ask(&inside, "SELECT state FROM tasks ORDER BY id").await
        })
        .unwrap();
    let seen = looks.await.unwrap();
    assert_eq!(seen, [["ready".into()], [Value::from("running")]]);
    assert!(woken.await.unwrap());
}

#[tokio::test]
async fn of_very_many_tasks_ten_thousand_are_shown_and_it_is_said() {
    const ALL: usize = 30_000;
    let governor = governor().await;
    let query = governor
        .admit(&Attributes::new().role("analyst"))
        .await
        .unwrap();
    let tasks: Vec<_> = (0..ALL)
        .map(|_| query.spawn(std::future::pending::<()>()))
        .collect();
    while query.usage().polls < ALL as u64 {
        tokio::task::yield_now().await;
    }
    let output = governor
        .execute("SELECT count(*) FROM tasks")
        .await
        .unwrap();
    assert_eq!(output[0].rows(), [[Value::Int(10_000)]]);
    assert_eq!(
        output[0].notices()[0].to_string(),
        "10000 tasks were looked at, and there are more; the view groups has their number"
    );
    let rows = ask(&governor, "SELECT tasks FROM groups WHERE name = 'bi'").await;
    assert_eq!(rows, [[Value::Int(ALL as i64)]]);
    drop(tasks);
    query.kill("enough");
}

#[tokio::test]
async fn memory_is_of_the_process_the_groups_and_the_queries_and_null_where_nobody_counts() {
    let governor = governor().await;
    let query = governor
        .admit(&Attributes::new().role("analyst"))
        .await
        .unwrap();
    let rows = ask(
        &governor,
        "SELECT scope, group_name, query_id, used_bytes, reserved_bytes FROM memory",
    )
    .await;
    // Without the allocator nothing is tracked but reservations.
    let (null, zero) = (Value::Null, Value::Int(0));
    let id = Value::Int(query.id().to_string().parse().unwrap());
    let group = |name: &str| {
        [
            "group".into(),
            name.into(),
            null.clone(),
            null.clone(),
            zero.clone(),
        ]
    };
    assert_eq!(
        rows,
        [
            [
                "process".into(),
                null.clone(),
                null.clone(),
                null.clone(),
                null.clone()
            ],
            [
                "unowned".into(),
                null.clone(),
                null.clone(),
                null.clone(),
                null.clone()
            ],
            group("bi"),
            group("default_wg"),
            group("etl"),
            [
                "query".into(),
                "bi".into(),
                id.clone(),
                null.clone(),
                null.clone()
            ],
        ]
    );
    let reserved = query
        .run(async { quotient::memory::reserve(4_096).await })
        .await
        .unwrap()
        .unwrap();
    let rows = ask(
        &governor,
        "SELECT used_bytes, peak_bytes FROM memory WHERE query_id IS NOT NULL",
    )
    .await;
    assert_eq!(rows, [[Value::Int(4_096), Value::Int(4_096)]]);
    let rows = ask(
        &governor,
        "SELECT reserved_bytes FROM memory WHERE group_name = 'bi' AND scope = 'group'",
    )
    .await;
    assert_eq!(rows, [[Value::Int(4_096)]]);
    drop(reserved);
}

#[tokio::test]
async fn variables_are_rows_too() {
    let governor = governor().await;
    ask(&governor, "SET GLOBAL query_runner_threads = 40").await;
    let rows = ask(
        &governor,
        "SELECT variable_name, value, default_value FROM variables WHERE value <> default_value",
    )
    .await;
    assert_eq!(
        rows,
        [["query_runner_threads".into(), "40".into(), "0".into()]]
    );
    let shown = ask(&governor, "SHOW VARIABLES").await;
    assert_eq!(shown, ask(&governor, "SELECT * FROM variables").await);
}

/// SELECT refuses a pattern that ends in its escape where the comparison gets there, SHOW always, before it looks.
#[tokio::test]
async fn a_pattern_that_ends_in_its_escape_is_refused() {
    let governor = governor().await;
    for (text, column) in [
        ("SHOW RESOURCE GROUPS LIKE 'etl\\'", 27),
        ("SHOW VARIABLES LIKE '\\'", 21),
        ("SELECT name FROM groups WHERE name LIKE 'b\\'", 41),
    ] {
        let Err(Error::Sql(error)) = governor.execute(text).await else {
            panic!("{text}");
        };
        let found = (error.sqlstate(), error.column());
        assert_eq!(found, ("22025", column), "{text}: {error}");
    }
    let rows = ask(&governor, "SELECT name FROM groups WHERE name LIKE 'x\\'").await;
    assert!(rows.is_empty());
    let rows = ask(
        &governor,
        "SELECT count(*) FROM groups WHERE name LIKE 'b_\\\\'",
    )
    .await;
    assert_eq!(rows, [[Value::Int(0)]]);
}

#[tokio::test]
async fn every_view_answers_and_an_unknown_one_is_told_from_them() {
    let governor = governor().await;
    let error = governor.execute("SELECT * FROM grups").await.unwrap_err();
    let Error::Sql(error) = error else {
        panic!("{error}");
    };
    assert_eq!((error.sqlstate(), error.column()), ("42P01", 15));
    assert_eq!(error.did_you_mean.as_deref(), Some("groups"));
    let hint = error.hint.clone().unwrap();
    let names = hint.strip_prefix("the views are ").unwrap();
    for name in names.split(", ") {
        let output = governor
            .execute(&format!("SELECT * FROM {name}"))
            .await
            .unwrap();
        assert!(!output[0].columns().is_empty(), "{name}");
        // Every column can be named and compared.
        for column in output[0].columns().to_vec() {
            let text = format!(
                "SELECT count(*) FROM {name} WHERE \"{column}\" = \"{column}\" OR \"{column}\" IS NULL"
            );
            let rows = ask(&governor, &text).await;
            assert_eq!(rows.len(), 1, "{name}.{column}");
        }
    }
}
