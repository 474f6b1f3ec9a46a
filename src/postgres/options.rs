//! What a fleet's catalog is kept by: names, intervals, patience.
//!
//! Plain values, read by the thread of the link and by the one that waits for it.

use super::connect::Connect;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::Config;

#[derive(Clone)]
pub(super) struct Options {
    pub(super) config: Config,
    pub(super) connect: Connect,
    pub(super) fleet: String,
    pub(super) table: String,
    pub(super) member: String,
    pub(super) poll: Duration,
    pub(super) patience: Duration,
    pub(super) copy: Option<PathBuf>,
}

impl Options {
    pub(super) fn new(config: Config, connect: Connect) -> Options {
        Options {
            config,
            connect,
            fleet: "default".into(),
            table: "quotient_catalog".into(),
            member: member(),
            poll: Duration::from_secs(30),
            patience: Duration::from_secs(5),
            copy: None,
        }
    }

    /// Where the catalog is, without any secret.
    pub(super) fn place(&self) -> String {
        use tokio_postgres::config::Host;
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".into(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        format!(
            "fleet {} in {} of PostgreSQL at {host}:{port}",
            self.fleet, self.table
        )
    }
}

/// Who this process is to people who read the history.
fn member() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    format!("{host}:{}", std::process::id())
}
