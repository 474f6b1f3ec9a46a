//! Both hosts: plain `tokio::spawn`, and a governor with the groups of tenants.sql beside it.

use crate::host::{Outcome, TENANTS};
use crate::query::Answer;
use crate::service::text;
use axum::http::HeaderMap;
use quotient::{Attributes, Governor, QueryType};
use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

/// Plain tokio, and a governor beside it. Clones are the same hosts.
#[derive(Clone)]
pub(crate) struct Hosts {
    governor: Governor,
}

impl Hosts {
    /// A governor on the current runtime. One that has nothing to do costs nothing: plain tokio runs beside it.
    ///
    /// # Errors
    /// When tenants.sql is wrong.
    pub(crate) fn build(workers: usize) -> Result<Self, quotient::Error> {
        let governor = Governor::builder()
            .workers(workers)
            .init_sql(include_str!("../tenants.sql"))
            .build()?;
        Ok(Hosts { governor })
    }

    /// Runs a script on the governor.
    ///
    /// # Errors
    /// When it is refused.
    pub(crate) async fn execute(&self, script: &str) -> Result<(), quotient::Error> {
        self.governor.execute(script).await.map(drop)
    }

    /// The query as a plain tokio task.
    pub(crate) async fn run_on_tokio(
        &self,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> Result<Outcome, String> {
        let answer = tokio::spawn(work)
            .await
            .map_err(|error| error.to_string())?;
        Ok(Outcome {
            answer,
            group: None,
        })
    }

    /// The query as a task of the group that its headers lead to.
    pub(crate) async fn run_on_quotient(
        &self,
        headers: &HeaderMap,
        peer: IpAddr,
        work: impl Future<Output = Answer> + Send + 'static,
    ) -> Result<Outcome, String> {
        let query = self
            .governor
            .admit(&attributes(headers, peer))
            .await
            .map_err(|error| error.to_string())?;
        let group = Some(query.group().to_owned());
        let answer = query.run(work).await.map_err(|error| error.to_string())?;
        Ok(Outcome { answer, group })
    }

    /// The worker time that the governor has charged each of these groups with so far; zero for one that does not
    /// exist.
    pub(crate) fn charged<'a>(&self, groups: impl Iterator<Item = &'a str>) -> [Duration; TENANTS] {
        let metrics = self.governor.metrics();
        let mut charged = [Duration::ZERO; TENANTS];
        for (sum, name) in charged.iter_mut().zip(groups) {
            for group in metrics.groups.iter().filter(|group| group.name == name) {
                *sum += group.usage.cpu_poll.into();
                *sum += group.usage.cpu_drop.into();
            }
        }
        charged
    }

    /// The governor's metrics page.
    pub(crate) fn render_metrics(&self) -> String {
        self.governor.render_metrics()
    }

    /// Ends the governor; by now no query runs.
    pub(crate) async fn shutdown(&self) {
        self.governor.shutdown(Duration::from_secs(1)).await;
    }
}

/// What a request says of itself.
fn attributes(headers: &HeaderMap, peer: IpAddr) -> Attributes {
    let query_type = match text(headers, "query_type") {
        "select" => QueryType::Select,
        "compaction" => QueryType::Compaction,
        _ => QueryType::Other,
    };
    Attributes::new()
        .user(text(headers, "user"))
        .role(text(headers, "role"))
        .db(text(headers, "db"))
        .query_type(query_type)
        .source_ip(peer)
}
