//! Administration over the PostgreSQL wire protocol: psql, and every other client of PostgreSQL.
//!
//! ```no_run
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use quotient::Governor;
//! use quotient::server::{self, Config};
//!
//! let governor = Governor::builder().build()?;
//! let server = server::serve(&governor, Config::tcp(([127, 0, 0, 1], 6432)))?;
//! // psql -h 127.0.0.1 -p 6432 -c 'SHOW USAGE RESOURCE GROUPS'
//! server.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! A message walks the files once:
//!
//! ```text
//! socket ─ wire ─▶ frame ─▶ request (the governor's, local, psql's catalog) ─ session ─▶ answer or fault ─ wire ─▶ socket
//! ```
//!
//! Works on one thread of its own, `quotient-admin`. [`Config`] has every bound; there is no TLS: between machines, use
//! a tunnel.

mod answer;
mod auth;
mod cancel;
mod config;
mod escape;
mod fault;
mod frame;
mod guesses;
mod kinds;
mod lex;
mod listen;
mod local;
mod parameters;
#[cfg(unix)]
mod place;
mod psql;
mod request;
mod scalar;
mod session;
mod settings;
mod socket;
mod weight;
mod wire;

pub use config::{Config, Role, ServerError, User};
pub use listen::ServerHandle;

use crate::governor::Governor;

/// Serves the governor's SQL to clients of PostgreSQL, until the handle is dropped or shut down. The server has a thread
/// and a runtime of its own, and so needs none around it.
///
/// # Errors
///
/// [`ServerError::Open`] for an address that other machines can reach and no [`Config::user`];
/// [`ServerError::BadUser`] for a user who could not come in, or is named twice; [`ServerError::Listen`] if the system
/// refuses the address or the thread.
pub fn serve(governor: &Governor, config: Config) -> Result<ServerHandle, ServerError> {
    listen::start(governor, config)
}
