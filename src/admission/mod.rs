//! Who may start now, who waits, who is refused.
//!
//! [`Gate`] is the one door to the executor: [`Policy`] behind it decides on numbers alone, a [`Permit`] is a place
//! that was given and comes back by itself. A place belongs to a group, whose `concurrency_limit` says how many it
//! has, and to the governor, which may have fewer than all groups together: `query_runner_threads`, and less while
//! memory is short. Who finds none waits in its group's line, if that has room, or is refused with numbers.

pub mod error;
pub mod gate;
pub mod permit;
pub mod policy;
pub mod waits;
pub mod watch;

pub use error::{AdmissionError, WaitReason};
pub use gate::{Arrived, Gate, Waiting, WaitingQuery, Who};
pub use permit::Permit;
pub use policy::{
    Answer, Counts, Decision, GovernorAdmission, GovernorLimits, GroupAdmission, GroupLimits,
    Order, Policy, Refusal, Rejections, Step, ThrottleRules, Waited,
};
