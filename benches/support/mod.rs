//! What the benchmarks share: the two sides that are compared, how they are timed, and who notices a hang.
//!
//! Every comparison runs both sides in one process, interleaved repetition by repetition, and reports the
//! median of the *paired* ratios: what disturbs the machine for a while disturbs both members of a pair.

#![allow(
    dead_code,
    reason = "each benchmark binary compiles the whole room and uses its own part"
)]

pub(crate) mod echo;
pub(crate) mod jobs;
pub(crate) mod measure;
pub(crate) mod options;
pub(crate) mod saved;
pub(crate) mod shapes;
pub(crate) mod shares;
pub(crate) mod side;
pub(crate) mod spawn;
pub(crate) mod watchdog;
