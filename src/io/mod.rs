//! Input and output of groups.
//!
//! ```text
//! Metered::poll_read ─▶ the group's own limit ─▶ each IoResource ─▶ the stream ─▶ bytes on the account
//!                       (turnstile: share decides, driver beats)
//! ```
//!
//! It knows groups as the executor does, by their accounts.

pub mod bucket;
pub mod flow;
mod metered;
mod resource;
pub mod share;
mod turnstile;

#[doc(inline)]
pub use metered::Metered;
#[doc(inline)]
pub use resource::{IoResource, ResourceUse};
