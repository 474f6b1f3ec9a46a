//! A service with a page to look at: `/dashboard`, and `/metrics` for Prometheus.
//!
//! ```text
//! cargo run --release --example dashboard --features dashboard [ADDRESS]
//! ```
//!
//! Four tenants of its own keep it busy, so that there is something to see: `web` with short queries, `bi` with more of them
//! than its places, `etl` whose largest query is a runaway, and `ml` under a cap.

use axum::Router;
use axum::routing::get;
use quotient::{Attributes, Governor, alloc::GroupAlloc, task};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOC: GroupAlloc = GroupAlloc::new();

pub(crate) const GROUPS: &str = "
    CREATE RESOURCE GROUP web TO (user='web') WITH ('cpu_core_limit'='4', 'mem_limit'='20%');
    CREATE RESOURCE GROUP bi  TO (user='ann'), (user='bob')
      WITH ('cpu_core_limit'='2', 'concurrency_limit'='3', 'max_queued_queries'='8', 'queue_timeout'='30s', 'mem_limit'='20%');
    CREATE RESOURCE GROUP etl TO (user='loader')
      WITH ('cpu_core_limit'='1', 'big_query_cpu_second_limit'='1', 'mem_limit'='20%');
    CREATE RESOURCE GROUP ml  TO (user='model') WITH ('cpu_core_limit'='1', 'max_cpu_cores'='0.1', 'mem_limit'='10%')";

/// One kind of client: who asks, how much worker time its queries take, how much memory, how long it thinks.
struct Client(&'static str, &'static str, u64, usize, u64);

const CLIENTS: [Client; 9] = [
    Client("web", "shop", 4, 1, 2),
    Client("web", "shop", 4, 1, 2),
    Client("web", "search", 12, 2, 3),
    Client("ann", "sales", 300, 24, 10),
    Client("ann", "sales", 500, 48, 10),
    Client("bob", "sales", 400, 24, 10),
    Client("bob", "stock", 600, 32, 10),
    Client("loader", "lake", 1500, 64, 50),
    Client("model", "features", 800, 16, 20),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:8080")).await?;
    println!("http://{}/dashboard", listener.local_addr()?);
    let governor = Governor::builder().init_sql(GROUPS).build()?;
    keep_busy(&governor);
    axum::serve(listener, service(&governor)).await?;
    Ok(())
}

/// What a service adds to its own routes.
pub(crate) fn service(governor: &Governor) -> Router {
    let dashboard = quotient::dashboard::router(governor);
    let governor = governor.clone();
    let page = || async move {
        let kind = [("content-type", "text/plain; version=0.0.4")];
        (kind, governor.render_metrics())
    };
    Router::new()
        .nest("/dashboard", dashboard)
        .route("/metrics", get(page))
}

/// Starts the clients: each asks, waits for the answer, thinks, and asks again.
pub(crate) fn keep_busy(governor: &Governor) {
    for Client(user, db, milliseconds, mebibytes, think) in CLIENTS {
        let governor = governor.clone();
        tokio::spawn(async move {
            loop {
                let attributes = Attributes::new().user(user).db(db);
                // A refusal or a kill is part of the show: metrics and page tell of it.
                if let Ok(query) = governor.admit(&attributes).await {
                    let work = work(Duration::from_millis(milliseconds), mebibytes << 20);
                    let _ = query.run(work).await;
                }
                tokio::time::sleep(Duration::from_millis(think)).await;
            }
        });
    }
}

/// A query that computes for so long, in slices of a fifth of a millisecond, and holds so much memory meanwhile.
async fn work(length: Duration, bytes: usize) -> usize {
    let scratch = vec![1_u8; bytes];
    let mut spent = Duration::ZERO;
    while spent < length {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(200) {
            std::hint::spin_loop();
        }
        spent += begun.elapsed();
        task::yield_now().await;
    }
    scratch.len()
}
