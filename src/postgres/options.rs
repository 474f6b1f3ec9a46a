//! What a fleet's catalog is kept by: names, intervals, patience.
//!
//! Plain values, read by the thread of the link and by the one that waits for it.

use super::connect::Connect;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::Config;

/// Of the patience: how long a statement may be under way, and how long the server may be at it. The rest is for the answer.
const WAY: f64 = 0.2;
const LIMIT: f64 = 0.7;

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

    /// What is connected with. A change that does not arrive is given up by the system too, so that it does not arrive
    /// later, when it was said to have failed; else what a closed connection has not delivered yet is sent on for minutes.
    pub(super) fn connection(&self) -> Config {
        let mut config = self.config.clone();
        if config.get_application_name().is_none() {
            config.application_name("quotient");
        }
        if config.get_tcp_user_timeout().is_none() {
            // Zero would be the system's default.
            let way = self.patience.mul_f64(WAY).max(Duration::from_millis(1));
            config.tcp_user_timeout(way);
        }
        config
    }

    /// How long the server is at a statement before it gives up, by its own clock.
    pub(super) fn statement_limit(&self) -> Duration {
        self.patience.mul_f64(LIMIT).max(Duration::from_millis(1))
    }

    /// How long after a statement was sent it is made, or never will be.
    pub(super) fn given_up(&self) -> Duration {
        self.patience.mul_f64(WAY + LIMIT)
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

#[cfg(test)]
mod tests {
    use super::super::connect;
    use super::*;

    fn options(url: &str, patience: Duration) -> Options {
        let options = Options::new(url.parse().unwrap(), connect::by(tokio_postgres::NoTls));
        Options {
            patience,
            ..options
        }
    }

    #[test]
    fn what_does_not_arrive_is_given_up_before_anybody_says_that_it_failed() {
        for patience in [Duration::from_millis(10), Duration::from_secs(24 * 3600)] {
            let options = options("host=db", patience);
            let config = options.connection();
            let way = *config.get_tcp_user_timeout().unwrap();
            assert!(way >= Duration::from_millis(1));
            assert!(way + options.statement_limit() <= options.given_up());
            assert!(options.given_up() < patience);
        }
        let own = options(
            "host=db tcp_user_timeout=30 application_name=api",
            Duration::from_secs(5),
        );
        let config = own.connection();
        assert_eq!(
            config.get_tcp_user_timeout(),
            Some(&Duration::from_secs(30))
        );
        assert_eq!(config.get_application_name(), Some("api"));
    }
}
