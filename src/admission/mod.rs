//! Who may start now, who is refused.
//!
//! [`Gate`] is the one door to the executor: [`Policy`] behind it decides on numbers alone, a [`Permit`] is a place
//! that was given and comes back by itself. A place belongs to a group; `concurrency_limit` says how many it has.

pub mod error;
pub mod gate;
pub mod permit;
pub mod policy;
pub mod watch;

pub use error::{AdmissionError, WaitReason};
pub use gate::Gate;
pub use permit::Permit;
pub use policy::{Decision, GroupAdmission, Policy, Rejections};
