//! The child process: HTTP clients that act for the tenants, in closed loops, and check every answer.
//!
//! It does what its stdin says (`wire::Command`), tells its stdout what came out (`wire::Event`), and ends when its
//! stdin does, so that it never outlives the service.

use crate::host::Arm;
use crate::ledger::Ledger;
use crate::machine::cpu_time;
use crate::query::{Answer, Query};
use crate::service::{GROUP, text};
use crate::suites::{Load, SUITES, Tenant};
use crate::table::mix;
use crate::wire::{Command, Event, LoadOutcome};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::time::ClockId;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

/// Acts as clients of the service at `address` until stdin ends.
///
/// # Errors
/// When a request fails or an answer is wrong; the parent has been told by then.
pub(crate) fn act(address: SocketAddr) -> Result<(), String> {
    let ledger = Arc::new(Ledger::compute());
    let (lines, mut commands) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
        // The parent is gone or has finished: whatever is under way has no reader.
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(string)?;
    let outcome = runtime.block_on(async {
        say(&Event::Ready)?;
        while let Some(line) = commands.recv().await {
            obey(line.parse()?, address, &ledger).await?;
            say(&Event::Done)?;
        }
        Ok(())
    });
    if let Err(why) = &outcome {
        say(&Event::Failed(String::clone(why)))?;
    }
    outcome
}

fn say(event: &Event) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{event}")
        .and_then(|()| stdout.flush())
        .map_err(string)
}

/// A query's (start, end).
type Span = (Instant, Instant);

async fn obey(command: Command, address: SocketAddr, ledger: &Arc<Ledger>) -> Result<(), String> {
    let suite = SUITES.get(command.suite).ok_or("no such suite")?;
    let mut clients = JoinSet::new();
    let start = Instant::now();
    let (open, close) = (
        start + command.warm_up,
        start + command.warm_up + command.window,
    );
    for (tenant_index, tenant) in suite.present(command.company).iter().enumerate() {
        for (load_index, load) in tenant.loads.iter().enumerate() {
            for number in 0..load.clients_per_worker * command.workers {
                let client = Client {
                    arm: command.arm,
                    tenant_index,
                    tenant,
                    load,
                    shrink: command.shrink,
                    // Both hosts get the same queries.
                    random: [command.suite, tenant_index, load_index, number]
                        .iter()
                        .fold(0, |seed, part| mix(seed ^ *part as u64)),
                    ledger: ledger.clone(),
                };
                clients.spawn(async move {
                    let spans = client.run(address, close).await?;
                    Ok::<_, String>((tenant_index, load_index, spans))
                });
            }
        }
    }
    let mut outcomes: Vec<LoadOutcome> = Vec::new();
    let mut window = Box::pin(async {
        sleep_until(open.into()).await;
        say(&Event::Open(cpu_time(ClockId::ProcessCPUTime)))?;
        sleep_until(close.into()).await;
        say(&Event::Close(cpu_time(ClockId::ProcessCPUTime)))
    });
    let mut closed = false;
    loop {
        tokio::select! {
            said = &mut window, if !closed => {
                said?;
                closed = true;
            }
            client = clients.join_next() => {
                let Some(client) = client else { break };
                let (tenant, load, spans) = client.map_err(string)??;
                add(&mut outcomes, (tenant, load), &spans, (open, close));
            }
        }
    }
    outcomes
        .into_iter()
        .try_for_each(|outcome| say(&Event::Load(outcome)))
}

/// Adds one client's queries to its load's outcome.
fn add(outcomes: &mut Vec<LoadOutcome>, of: (usize, usize), spans: &[Span], (open, close): Span) {
    let found = outcomes
        .iter()
        .position(|outcome| (outcome.tenant, outcome.load) == of);
    let index = found.unwrap_or_else(|| {
        outcomes.push(LoadOutcome {
            tenant: of.0,
            load: of.1,
            ..LoadOutcome::default()
        });
        outcomes.len() - 1
    });
    let outcome = &mut outcomes[index];
    for &(start, end) in spans {
        let inside = end.min(close).saturating_duration_since(start.max(open));
        let whole = end
            .saturating_duration_since(start)
            .max(Duration::from_nanos(1));
        outcome.queries += inside.as_secs_f64() / whole.as_secs_f64();
        if (open..close).contains(&end) {
            outcome.latencies.push(whole.as_micros() as u64);
        }
    }
}

fn string(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// One connection, one request in flight.
struct Client {
    arm: Arm,
    tenant_index: usize,
    tenant: &'static Tenant,
    load: &'static Load,
    shrink: u32,
    random: u64,
    ledger: Arc<Ledger>,
}

impl Client {
    /// Asks until `close`; the last query is waited for.
    async fn run(mut self, address: SocketAddr, close: Instant) -> Result<Vec<Span>, String> {
        let mut service = connect(address).await?;
        let mut spans = Vec::new();
        loop {
            let start = Instant::now();
            if start >= close {
                return Ok(spans);
            }
            self.random = mix(self.random);
            let query = self.load.shape.shrunk(self.shrink).draw(self.random);
            let got = self.ask(&mut service, query).await?;
            spans.push((start, Instant::now()));
            let want = self.ledger.expect(query);
            if got != want {
                return Err(format!(
                    "wrong answer to {}: {got:?} instead of {want:?}",
                    query.to_path()
                ));
            }
        }
    }

    async fn ask(
        &self,
        service: &mut SendRequest<Empty<Bytes>>,
        query: Query,
    ) -> Result<Answer, String> {
        let request = Request::get(format!("/{}/{}", self.arm, query.to_path()))
            .header("host", "tenants")
            .header("x-tenant", self.tenant_index)
            .header("user", self.tenant.user)
            .header("role", self.tenant.role)
            .header("db", self.tenant.db)
            .header("query_type", self.load.query_type)
            .body(Empty::new())
            .map_err(string)?;
        let response = service.send_request(request).await.map_err(string)?;
        let status = response.status();
        let group = text(response.headers(), GROUP).to_owned();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(string)?
            .to_bytes();
        let body = String::from_utf8_lossy(&body);
        if status != StatusCode::OK {
            return Err(format!("{status} for {}: {body}", query.to_path()));
        }
        // The group has the tenant's name; its classifiers saw only the headers.
        if self.arm == Arm::Quotient && group != self.tenant.name {
            return Err(format!(
                "a query of {} ran in group `{group}`",
                self.tenant.name
            ));
        }
        let numbers: Vec<u64> = body
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [rows, sum, check] => Ok(Answer { rows, sum, check }),
            _ => Err(format!("not an answer: {body}")),
        }
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Empty<Bytes>>, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| format!("{address}: {error}"))?;
    stream.set_nodelay(true).map_err(string)?;
    let (service, connection) = handshake(TokioIo::new(stream)).await.map_err(string)?;
    // Its error comes back through the request that it breaks.
    tokio::spawn(connection);
    Ok(service)
}
