//! System views: the state of the governor as rows, for SHOW and SELECT.
//!
//! Pure. A view is handed what was pulled for it; it asks no stage.

pub mod change;
pub mod classify;
pub mod io_resources;
pub mod long_polls;
pub mod memory;
pub mod queries;
pub mod relation;
pub mod runaway;
pub mod select;
pub mod tables;
pub mod tasks;
pub mod usage;
