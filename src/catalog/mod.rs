//! The catalog: what groups and classifiers exist, as immutable versioned snapshots.

pub mod classifier;
