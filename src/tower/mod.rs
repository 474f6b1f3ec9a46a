//! Groups for web services: a [tower](https://docs.rs/tower) layer that classifies each request, admits it, and runs
//! its handler as a query.
//!
//! ```text
//! request ─▶ Attributes ─▶ admission ─▶ handler, a task of the query ─▶ head ─▶ body, a task of the same query
//!                              └─▶ 429, 503, or a grpc-status                     └─▶ frames to the connection
//! ```
//!
//! [`ResourceGroupLayer`] is for HTTP: axum's `Router`, tonic's `Server`, and every other service of `http` requests.
//! [`QueryLayer`] is the same for services of anything else.
//!
//! # What it promises
//!
//! 1. A place is asked for in `call`, in the order of the calls, and never in `poll_ready`: a connection that is idle
//!    holds nothing.
//! 2. The inner service that was ready is the one that is called. A request that has to wait in a line gives that
//!    readiness back and asks for it again when it is its turn, so that lines hold up nobody.
//! 3. The handler and the response's body are polled by workers, in the group's share and in the query's name, whoever
//!    polls the connection. The connection is handed frames that are ready; at most 64 KiB and one frame are made
//!    before it has taken them.
//! 4. The place is free when the handler has returned and its body has come to its end, with the tasks that they spawned
//!    in the query, not when the response is dropped. A client that has gone, so that the future or the body is
//!    dropped, ends the work and frees the place at once. Work that must go on all the same belongs on
//!    [`task::Builder::group`](crate::task::Builder::group).
//! 5. A panic of the handler or of its body goes on in whoever polls the future or the body, as it would without the
//!    layer: a `CatchPanic` layer around this one sees it.
//!
//! A client that reads slowly keeps its query alive, and with it the place; `big_query_elapsed_second_limit` of the group
//! is the bound for that.
//!
//! # What a client is told
//!
//! | situation | HTTP | gRPC | when to come again |
//! |---|---|---|---|
//! | the group's concurrency_limit or queue is full, queue_timeout has passed, or such requests were killed too often | 429 | 8 | as admission estimates |
//! | at query_runner_threads, or throttled for memory | 503 | 14 | as admission estimates |
//! | shutting down, or the process lost its executor | 503 | 14 | in a second: others may answer |
//! | the group is frozen | 503 | 14 | not said |
//! | killed for a limit or by an operator, before the head was sent | 503 | 10 | not said; gRPC: never |
//! | killed later | the body ends in an error | 10 in the trailers | |
//! | it named a group that does not exist | 404 | 5 | |
//! | it may not name that group | 403 | 7 | |
//!
//! A request is gRPC if its `content-type` begins with `application/grpc`; it is answered with HTTP 200 and the status
//! in the head. When to come again is `Retry-After` in whole seconds, rounded up, or `grpc-retry-pushback-ms`. Bodies
//! are empty, since the texts of refusals name groups and their limits, which are the operator's affair: the
//! [`AdmissionError`](crate::AdmissionError) or [`KillReason`](crate::KillReason) is among the response's extensions,
//! for layers that write logs, and [`ResourceGroupLayer::on_reject`] makes other answers.

mod answer;
mod body;
mod course;
mod future;
mod layer;
mod plain;
mod service;

pub use answer::{Answers, OnReject};
pub use body::{BodyError, ResponseBody};
pub use future::ResponseFuture;
pub use layer::ResourceGroupLayer;
pub use plain::{QueryError, QueryFuture, QueryLayer, QueryService};
pub use service::ResourceGroup;
