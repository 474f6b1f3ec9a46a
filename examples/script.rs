//! Groups in a file of SQL: read at start-up, read again on demand, while requests run: `cargo run --example script`
//!
//! `OR REPLACE` makes a script that can be run again: it changes a group in place, and running queries, counters and
//! the group's id stay. In a service `reload` is called on SIGHUP, or by an operator's request.

use quotient::{Attributes, Governor};
use std::path::Path;

const AT_FIRST: &str = "
    -- Everything that this service knows of its tenants.
    CREATE RESOURCE GROUP OR REPLACE bi  TO (user='bi')     WITH ('cpu_core_limit'='3', 'concurrency_limit'='1');
    CREATE RESOURCE GROUP OR REPLACE etl TO (user='loader') WITH ('cpu_core_limit'='1');
";

const LATER: &str = "
    CREATE RESOURCE GROUP OR REPLACE bi  TO (user='bi'), (role='analyst') WITH ('cpu_core_limit'='5');
    DROP RESOURCE GROUP IF EXISTS etl;
";

const BROKEN: &str = "
    CREATE RESOURCE GROUP OR REPLACE bi TO (user='bi') WITH ('cpu_core_limit'='7');
    CREATE RESOURCE GROUP OR REPLACE etl TO (usr='loader') WITH ('cpu_core_limit'='1');
";

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("quotient-groups-{}.sql", std::process::id()));
    std::fs::write(&path, AT_FIRST)?;
    // An error in the script is an error here: a service does not start with half of its groups.
    let governor = Governor::builder()
        .init_sql(&std::fs::read_to_string(&path)?)
        .build()?;
    let running = governor.admit(&Attributes::new().user("bi")).await?;

    std::fs::write(&path, LATER)?;
    reload(&governor, &path).await?;
    // In place: it still runs, and counts, in the group that now has another weight and no limit.
    assert_eq!(running.group(), "bi");
    assert_eq!(weight(&governor).await?, "5");
    assert!(
        governor
            .try_admit(&Attributes::new().role("analyst"))
            .is_ok()
    );

    // A script with a mistake changes nothing, and says where.
    std::fs::write(&path, BROKEN)?;
    match reload(&governor, &path).await {
        Err(error) => println!("refused: {error}"),
        Ok(()) => return Err("a misspelt key was accepted".into()),
    }
    assert_eq!(weight(&governor).await?, "5");

    println!("{}", governor.execute("SHOW RESOURCE GROUPS ALL").await?[0]);
    std::fs::remove_file(&path)?;
    Ok(())
}

/// All of the script or nothing of it.
async fn reload(governor: &Governor, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let script = tokio::fs::read_to_string(path).await?;
    let version = governor.metrics().catalog_version;
    if let Err(error) = governor.execute(&script).await {
        // What cannot be parsed has changed nothing; otherwise the statements before the bad one have run.
        let back = format!("ROLLBACK CATALOG TO VERSION {version}");
        governor.execute(&back).await?;
        return Err(error.into());
    }
    Ok(())
}

async fn weight(governor: &Governor) -> Result<String, quotient::Error> {
    let answer = governor
        .execute("SELECT cpu_core_limit FROM groups WHERE name = 'bi'")
        .await?;
    Ok(answer[0].rows()[0][0].to_string())
}
