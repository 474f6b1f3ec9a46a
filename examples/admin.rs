//! A service with two tenants and a port for psql. `cargo run --features pgwire --example admin`, then
//! `PGPASSWORD=secret psql -h 127.0.0.1 -p 6432 -U ops quotient`, or `examples/top`.

use quotient::server::{Config, ServerHandle, User, serve};
use quotient::{Attributes, Governor};
use std::error::Error;
use std::time::{Duration, Instant};

const GROUPS: &str = "
    CREATE RESOURCE GROUP bi  TO (user='bi')     WITH ('cpu_core_limit'='3', 'concurrency_limit'='4', 'max_queued_queries'='100');
    CREATE RESOURCE GROUP etl TO (user='loader') WITH ('cpu_core_limit'='1', 'concurrency_limit'='2', 'max_queued_queries'='100')";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (governor, server) = service(6432)?;
    println!("PGPASSWORD=secret psql -h 127.0.0.1 -p 6432 -U ops quotient");
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    governor.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

/// The governor under load, and its port.
pub(crate) fn service(port: u16) -> Result<(Governor, ServerHandle), Box<dyn Error>> {
    let governor = Governor::builder().init_sql(GROUPS).build()?;
    let config = Config::tcp(([127, 0, 0, 1], port))
        .user(User::admin("ops", "secret"))
        .user(User::viewer("guest", "secret"));
    let server = serve(&governor, config)?;
    for user in ["bi", "bi", "bi", "loader", "loader", "loader"] {
        tokio::spawn(tenant(governor.clone(), user));
    }
    Ok((governor, server))
}

/// One query after the other, some seconds of work each; one that is killed is followed by the next.
async fn tenant(governor: Governor, user: &'static str) {
    let attributes = Attributes::new().user(user).db("sales");
    while let Ok(query) = governor.admit(&attributes).await {
        let _ = query.run(work(Duration::from_secs(5))).await;
    }
}

async fn work(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        let turn = Instant::now();
        while turn.elapsed() < Duration::from_micros(200) {
            std::hint::spin_loop();
        }
        quotient::task::yield_now().await;
    }
}
