//! What others see of a governor: the facade's recorder, one page beside the program's own, Prometheus, spans.

#![cfg(all(feature = "metrics", feature = "prometheus", feature = "tracing"))]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
#[path = "support/page.rs"]
mod page;
mod support;

#[path = "sight/facade.rs"]
mod facade;
#[path = "sight/rules.rs"]
mod rules;
#[path = "sight/scraped.rs"]
mod scraped;
#[path = "sight/spans.rs"]
mod spans;
