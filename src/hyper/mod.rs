//! Groups for [hyper](https://docs.rs/hyper): an executor for its tasks, and a serve loop whose connections are tasks
//! of a group.
//!
//! Under `axum::serve` or tonic's `Server` a connection is a task of tokio's: requests are in their groups, by the
//! layer of [`tower`](crate::tower), and what reads and writes the sockets is in none. With [`serve`] the connections
//! too are in a group, and have its share, its cap and its memory.
//!
//! - [`Executor`] is hyper's `rt::Executor`: HTTP/2 spawns a task per stream by it.
//! - [`serve`] is a loop for an axum `Router` or any other tower service; HTTP/1 and HTTP/2, upgrades, and a shutdown
//!   that lets requests finish.
//! - [`into_tokio`] is for those who ask for a handle of tokio's.

mod connection;
mod executor;
mod foreign;
mod listener;
mod prompt;
mod serve;

pub use connection::Peer;
pub use executor::Executor;
pub use foreign::into_tokio;
pub use listener::Listener;
pub use serve::{Serve, ServeFuture, serve};
