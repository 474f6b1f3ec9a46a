//! Memory: whose it is, how much there may be, and what happens before there is none.
//!
//! - [`waiting`]: reservations that do not fit yet, in their order.
//! - [`spill`]: who is asked for memory back, and for how much.
//! - [`pressure`]: what the kernel says of this process and its cgroup, and what "memory used" means.

pub mod pressure;
pub mod spill;
pub mod waiting;
