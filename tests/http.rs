//! Web services in groups: what the tower layer and the serve loop promise, with real sockets where there are some.

#![cfg(feature = "hyper")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "http/axum.rs"]
mod axum_router;
#[path = "http/grpc.rs"]
mod grpc;
#[path = "http/load.rs"]
mod load;
#[path = "http/readiness.rs"]
mod readiness;
#[path = "http/scene.rs"]
mod scene;
#[path = "http/serving.rs"]
mod serving;
#[path = "support/mod.rs"]
mod support;
