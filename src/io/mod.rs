//! Input and output of groups.
//!
//! ```text
//! fs::read ─▶ slice ─▶ blocking pool ─▶ slice ─▶ blocking pool ─▶ … ─▶ output
//!                      (as the group and query that asked; bytes counted there)
//!
//! Metered::poll_read ─▶ the group's own limit ─▶ each IoResource ─▶ the stream ─▶ bytes on the account
//!                       (turnstile: share decides, driver beats)
//! ```
//!
//! It knows groups as the executor does, by their accounts.

pub mod bucket;
pub mod flow;
pub mod fs;
mod metered;
mod resource;
pub mod share;
mod turnstile;

#[doc(inline)]
pub use metered::Metered;
#[doc(inline)]
pub use resource::{IoResource, ResourceUse};
