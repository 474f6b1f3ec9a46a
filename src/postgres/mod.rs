//! The catalog in PostgreSQL, so that the processes of a fleet share one set of groups.
//!
//! ```no_run
//! use quotient::Governor;
//! use quotient::postgres::PostgresCatalog;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let catalog = PostgresCatalog::new("host=db.internal user=api dbname=ops")?.fleet("api");
//! let governor = Governor::builder().catalog_store(catalog).build()?;
//! // Every process of the fleet has the group a moment later.
//! governor.execute("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='2')").await?;
//! # Ok(()) }
//! ```
//!
//! A table holds the catalog's text, one row per fleet, with a revision that is compared on each change, as the text
//! is: of two changes at the same time one is made and the other refused, with SQLSTATE 40001. The others hear of a
//! change by NOTIFY and read it; since notifications are lost with a connection, they read it after each connection and
//! from time to time in any case. While the database is away every process goes on with what it read last, and changes
//! are refused.
//!
//! One connection per process, on a thread of its own, so that the link goes on whatever the program's workers do.

mod backoff;
mod connect;
mod link;
mod options;
mod schema;
mod session;
mod store;

pub use store::{PostgresCatalog, Status};
