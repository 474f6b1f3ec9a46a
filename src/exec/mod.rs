//! The executor: tasks, workers, charging, on the user's tokio runtime.

pub mod stats;
