//! The same figures in other people's formats: the facade `metrics`, and one page with an exporter's.
//!
//! Both pull the governor's snapshot as its own page does. Public as `metrics::facade` and `metrics::prometheus`.

#[cfg(feature = "metrics")]
pub mod facade;
#[cfg(feature = "metrics")]
mod ledger;
#[cfg(feature = "prometheus")]
pub mod prometheus;
