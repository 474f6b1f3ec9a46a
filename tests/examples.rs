//! The examples run, as they are: each ends by itself, and fails if what it shows is not so.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../examples/allocator.rs"]
mod allocator;
#[cfg(feature = "tower")]
#[path = "../examples/axum.rs"]
mod axum_service;
#[cfg(feature = "hyper")]
#[path = "../examples/hyper.rs"]
mod hyper_service;
#[path = "../examples/memory_limit.rs"]
mod memory_limit;
#[path = "../examples/priority.rs"]
mod priority;
#[path = "../examples/quickstart.rs"]
mod quickstart;
#[path = "../examples/script.rs"]
mod script;
#[path = "support/mod.rs"]
mod support;
#[cfg(feature = "tower")]
#[path = "../examples/tonic.rs"]
mod tonic_service;

#[global_allocator]
static ALLOC: quotient::alloc::GroupAlloc = quotient::alloc::GroupAlloc::new();

fn runs(name: &str, main: fn() -> Result<(), Box<dyn std::error::Error>>) {
    let _watch = support::watch(name, String::new);
    main().unwrap();
}

#[test]
fn quickstart() {
    runs("quickstart", quickstart::main);
}

#[test]
fn priority() {
    runs("priority", priority::main);
}

#[test]
fn script() {
    runs("script", script::main);
}

#[test]
fn allocator() {
    runs("allocator", allocator::main);
}

#[test]
fn memory_limit() {
    runs("memory_limit", memory_limit::main);
}

#[cfg(feature = "tower")]
#[test]
fn axum() {
    runs("axum", axum_service::main);
}

#[cfg(feature = "tower")]
#[test]
fn tonic() {
    runs("tonic", tonic_service::main);
}

#[cfg(feature = "hyper")]
#[test]
fn hyper() {
    runs("hyper", hyper_service::main);
}
