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
