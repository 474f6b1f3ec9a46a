//! An axum service whose requests are queries of their tenants' groups, with `/metrics` for Prometheus and a guarded
//! `/admin/sql` for operators: `cargo run --features tower --example axum`
//!
//! It is its own client here, and ends. With `-- serve` it goes on, for a browser or curl:
//!
//! ```sh
//! curl -H 'x-tenant: acme' http://127.0.0.1:3000/report
//! curl -H 'authorization: Bearer secret' --data 'SHOW USAGE RESOURCE GROUPS' http://127.0.0.1:3000/admin/sql
//! ```

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header::AUTHORIZATION, request::Parts};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use quotient::{Attributes, Governor, tower::ResourceGroupLayer};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let governor = Governor::builder()
        .init_sql(
            "CREATE RESOURCE GROUP acme TO (user='acme') WITH ('cpu_core_limit'='3', 'concurrency_limit'='20');
             CREATE RESOURCE GROUP free TO (user='free') WITH ('cpu_core_limit'='1', 'concurrency_limit'='2',
                                                               'max_queued_queries'='10', 'queue_timeout'='5s')",
        )
        .build()?;
    let serves = std::env::args().any(|argument| argument == "serve");
    let address = if serves {
        "127.0.0.1:3000"
    } else {
        "127.0.0.1:0"
    };
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}");
    let server = tokio::spawn(async move { axum::serve(listener, app(governor)).await });
    if serves {
        return Ok(server.await??);
    }
    be_a_client(address).await
}

fn app(governor: Governor) -> Router {
    // Who asks is known before the request runs: here by a header that the proxy in front has checked.
    let groups = ResourceGroupLayer::new(&governor, |parts: &Parts| {
        match parts
            .headers
            .get("x-tenant")
            .and_then(|tenant| tenant.to_str().ok())
        {
            Some(tenant) => Attributes::new().user(tenant),
            None => Attributes::new(),
        }
    });
    let tenants = Router::new().route("/report", get(report)).layer(groups);
    // Operators must get through when tenants do not: outside of the layer.
    let operators = Router::new()
        .route(
            "/admin/sql",
            post(sql).layer(middleware::from_fn(only_operators)),
        )
        .route("/metrics", get(metrics))
        .with_state(governor);
    tenants.merge(operators)
}

/// Runs in its tenant's group; so does what it spawns with `quotient::spawn`.
async fn report() -> String {
    let half = quotient::spawn(async { (1..=500_000_u64).sum::<u64>() });
    let other = (500_001..=1_000_000_u64).sum::<u64>();
    let group = quotient::task::current().map_or_else(String::new, |it| it.group().to_owned());
    match half.await {
        Ok(half) => format!("{group}: {}\n", half + other),
        Err(error) => format!("{group}: {error}\n"),
    }
}

/// Whoever gets here may do everything: groups have no rights of their own.
async fn sql(State(governor): State<Governor>, script: String) -> Response {
    match governor.execute(&script).await {
        Ok(outputs) => outputs
            .iter()
            .map(|output| format!("{output}\n"))
            .collect::<String>()
            .into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

async fn only_operators(request: Request, next: Next) -> Response {
    // A real service compares in constant time, and with something that is not in its source.
    match request.headers().get(AUTHORIZATION) {
        Some(value) if value == "Bearer secret" => next.run(request).await,
        _ => StatusCode::UNAUTHORIZED.into_response(),
    }
}

async fn metrics(State(governor): State<Governor>) -> impl IntoResponse {
    (
        [("content-type", "text/plain; version=0.0.4")],
        governor.render_metrics(),
    )
}

async fn be_a_client(address: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let report = ask(address, "GET /report", "x-tenant: acme", "").await?;
    assert!(report.ends_with("acme: 500000500000\n"), "{report}");

    let refused = ask(
        address,
        "POST /admin/sql",
        "x-tenant: acme",
        "SHOW RUNNING QUERIES",
    )
    .await?;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let operator = "authorization: Bearer secret";
    let close =
        "ALTER RESOURCE GROUP free WITH ('concurrency_limit'='1', 'max_queued_queries'='0')";
    let closed = ask(address, "POST /admin/sql", operator, close).await?;
    assert!(closed.starts_with("HTTP/1.1 200"), "{closed}");
    let usage = "SELECT name, running, queued, cpu_seconds FROM groups ORDER BY name";
    println!(
        "{}",
        ask(address, "POST /admin/sql", operator, usage).await?
    );

    let page = ask(address, "GET /metrics", "accept: text/plain", "").await?;
    for line in page
        .lines()
        .filter(|line| line.starts_with("quotient_group_queries_total{group=\"acme\""))
    {
        println!("{line}");
    }
    assert!(
        page.contains("quotient_group_queries_total{group=\"acme\",outcome=\"completed\"} 1\n")
    );
    Ok(())
}

async fn ask(address: SocketAddr, line: &str, header: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\n{header}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
