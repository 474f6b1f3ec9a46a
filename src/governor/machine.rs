//! What this machine has: the default of `workers`, and the process's CPU time.
//!
//! Mechanism: reads the runtime's and the kernel's figures, once, on the thread that builds the governor.

use tokio::runtime::{Handle, RuntimeFlavor};

/// The runtime's workers: one on a current-thread runtime.
pub(super) fn workers(runtime: &Handle) -> usize {
    match runtime.runtime_flavor() {
        RuntimeFlavor::CurrentThread => 1,
        _ => runtime.metrics().num_workers().max(1),
    }
}

/// The CPUs that the process may use.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time of the whole process so far.
pub(super) fn process_cpu() -> crate::unit::Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let (secs, nanos) = (
        u64::try_from(time.tv_sec).unwrap_or(0),
        u64::try_from(time.tv_nsec).unwrap_or(0),
    );
    crate::unit::Nanos::from_secs(secs).plus(crate::unit::Nanos(nanos))
}
