//! Two processes of a fleet, for once in one program: what the one is told, the other does.
//!
//! ```text
//! cargo run --features postgres --example fleet -- "host=/var/run/postgresql user=me dbname=me"
//! ```
//!
//! Needs a PostgreSQL and the right to create a table in it; leaves the tables `fleet_example` and
//! `fleet_example_history` there.

use quotient::postgres::PostgresCatalog;
use quotient::{Attributes, Error, Governor};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(url) = std::env::args().nth(1) else {
        return Err("say where the database is: \"host=… user=… dbname=…\"".into());
    };
    let member = |name: &str| -> Result<Governor, Box<dyn std::error::Error>> {
        let catalog = PostgresCatalog::new(&url)?
            .table("fleet_example")?
            .member(name);
        Ok(Governor::builder().catalog_store(catalog).build()?)
    };
    let (one, two) = (member("one")?, member("two")?);

    change(
        &one,
        "CREATE RESOURCE GROUP OR REPLACE bi TO (user='bi') WITH ('cpu_core_limit'='3')",
    )
    .await?;

    // The other one hears of it by NOTIFY and reads it, some milliseconds later.
    let bi = Attributes::new().user("bi");
    while two.classify(&bi)?.name() != "bi" {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    change(
        &two,
        "ALTER RESOURCE GROUP bi WITH ('concurrency_limit'='40')",
    )
    .await?;
    for output in two
        .execute("SHOW CREATE RESOURCE GROUP bi; SHOW CATALOG HISTORY")
        .await?
    {
        println!("{output}");
    }
    Ok(())
}

/// Runs a statement; again, when somebody else was faster.
async fn change(governor: &Governor, statement: &str) -> Result<(), Error> {
    for _ in 0..10 {
        match governor.execute(statement).await {
            // The catalog has been read again: on what is there now, the statement may do as well.
            Err(Error::Sql(error)) if error.sqlstate() == "40001" => {}
            done => return done.map(|_| ()),
        }
    }
    governor.execute(statement).await.map(|_| ())
}
