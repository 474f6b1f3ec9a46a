//! What the governor measures, pulled at one moment and rendered as Prometheus text.
//!
//! Stages keep plain counters and do not know that they are watched. The governor gathers them into a
//! [`Snapshot`]; [`text::render`] writes the page. [`names`] is the one table of all series.

pub mod memory;
pub mod names;
pub(crate) mod series;
pub mod snapshot;
pub mod text;

pub use snapshot::Snapshot;

#[cfg(feature = "metrics")]
#[doc(inline)]
pub use crate::publish::facade;
#[cfg(feature = "prometheus")]
#[doc(inline)]
pub use crate::publish::prometheus;
