//! The administration port, by those who use it: the real psql, tokio-postgres, Python's drivers, and who means no good.

#![cfg(feature = "pgwire")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "psql/clients.rs"]
mod clients;
#[path = "psql/drivers.rs"]
mod drivers;
#[path = "psql/guesses.rs"]
mod guesses;
#[path = "psql/hostile.rs"]
mod hostile;
#[path = "psql/leaving.rs"]
mod leaving;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "psql/real.rs"]
mod real;
#[path = "psql/roles.rs"]
mod roles;
#[path = "psql/settings.rs"]
mod settings;
#[cfg(unix)]
#[path = "psql/sockets.rs"]
mod sockets;
#[path = "support/mod.rs"]
mod support;
#[path = "psql/types.rs"]
mod types;

use quotient::server::{Config, ServerHandle, serve};
use quotient::{Governor, Host};

/// A governor with threads of its own, and its port.
struct Service {
    governor: Governor,
    server: ServerHandle,
    _watch: support::Watch,
}

impl Service {
    fn new() -> Service {
        Service::with(Config::default())
    }

    fn with(config: Config) -> Service {
        let governor = Governor::builder()
            .host(Host::Owned)
            .workers(2)
            .memory_limit(8 << 30)
            .build()
            .unwrap();
        let server = serve(&governor, config).unwrap();
        Service::of(governor, server)
    }

    /// Watched against hangs, by the name of the calling test's thread, which is the test's.
    fn of(governor: Governor, server: ServerHandle) -> Service {
        let thread = std::thread::current();
        let _watch = support::watch(thread.name().unwrap_or("a client"), String::new);
        Service {
            governor,
            server,
            _watch,
        }
    }

    fn run(&self, script: &str) {
        // It waits for nothing, and so for no runtime.
        futures::executor::block_on(self.governor.execute(script)).unwrap();
    }

    fn port(&self) -> u16 {
        self.server.local_addr().unwrap().port()
    }
}

/// What other tests start, as a process; by itself it has nothing to do.
#[test]
fn child() {
    if let Some(what) = support::told_to_child() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(hostile::in_little_memory(&what));
    }
}
