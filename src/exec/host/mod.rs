//! Who drives the workers: the executor's border to a runtime.

pub mod attached;
