//! Memory: whose it is, how much there may be, and what happens before there is none.
//!
//! - [`pressure`]: what the kernel says of this process and its cgroup, and what "memory used" means.

pub mod pressure;
