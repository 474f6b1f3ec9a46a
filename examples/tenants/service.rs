//! The service: answers queries over HTTP on loopback. Connections are tokio's; only the query runs on the host
//! that the path names. `/metrics` is the governor's page.

use crate::governed::Hosts;
use crate::host::{Arm, Meter, Outcome, Pace};
use crate::query::Query;
use crate::table::Table;
use axum::Router;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use axum::serve::ListenerExt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What every request needs.
pub(crate) struct Service {
    pub(crate) table: Arc<Table>,
    pub(crate) hosts: Hosts,
    pub(crate) meter: Arc<Meter>,
}

impl Service {
    /// Serves on `listener` until `stop` is over; answers what is under way, then returns.
    ///
    /// # Errors
    /// When the listener fails.
    pub(crate) async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let routes = Router::new()
            .route("/metrics", get(metrics))
            .route("/{host}/{kind}/{key}/{from}/{length}", get(answer))
            .with_state(self)
            .into_make_service_with_connect_info::<SocketAddr>();
        let listener = listener.tap_io(|stream| {
            // Only latency is at stake: an answer that the kernel holds back is a slower answer.
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, routes)
            .with_graceful_shutdown(stop)
            .await
    }
}

async fn metrics(State(service): State<Arc<Service>>) -> String {
    service.hosts.render_metrics()
}

/// The answer's header that names the resource group.
pub(crate) const GROUP: &str = "resource-group";

type Reply = (Option<[(&'static str, String); 1]>, String);
type Refusal = (StatusCode, String);

/// `GET /{tokio|quotient}/{lookup|aggregate|compact}/{key}/{from}/{length}`, who asks in the headers
/// (user, role, db, query_type; `x-tenant`: the row of the meter, which the governor never sees).
async fn answer(
    State(service): State<Arc<Service>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Path((host, kind, key, from, length)): Path<(String, String, u32, u32, u32)>,
    headers: HeaderMap,
) -> Result<Reply, Refusal> {
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let arm = host.parse::<Arm>().map_err(bad)?;
    let query = Query::from_path(&kind, key, from, length).ok_or_else(|| {
        bad(format!(
            "no such query, or it leaves the table: {kind}/{key}/{from}/{length}"
        ))
    })?;
    let tenant = text(&headers, "x-tenant")
        .parse()
        .map_err(|_| bad("x-tenant is not a number".into()))?;
    let pace = Pace {
        arm,
        meter: service.meter.clone(),
        tenant,
    };
    let work = query.run(service.table.clone(), pace);
    let outcome = match arm {
        Arm::Tokio => service.hosts.run_on_tokio(work).await,
        Arm::Quotient => {
            service
                .hosts
                .run_on_quotient(&headers, peer.ip(), work)
                .await
        }
    };
    let Outcome { answer, group } =
        outcome.map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, why))?;
    let group = group.map(|name| [(GROUP, name)]);
    Ok((
        group,
        format!("{} {} {}", answer.rows, answer.sum, answer.check),
    ))
}

/// A header's text; empty when absent or not ASCII.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
}
