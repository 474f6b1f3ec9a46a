//! System views: the state of the governor as rows, for SHOW.
//!
//! Pure. A view is handed what was pulled for it; it asks no stage.

pub mod queries;
pub mod runaway;
pub mod usage;
