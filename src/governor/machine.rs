//! What this machine has: the defaults of `workers` and `memory_limit`.
//!
//! Mechanism: reads the runtime's and the kernel's figures, once, on the thread that builds the governor.

use crate::unit::Bytes;
use std::fs;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The runtime's workers: one on a current-thread runtime.
pub(super) fn workers(runtime: &Handle) -> usize {
    match runtime.runtime_flavor() {
        RuntimeFlavor::CurrentThread => 1,
        _ => runtime.metrics().num_workers().max(1),
    }
}

/// The CPUs that the process may use.
pub(super) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The least of the cgroup's limit (v2 or v1) and the physical memory.
pub(super) fn memory() -> Bytes {
    let physical = {
        let info = rustix::system::sysinfo();
        (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)))
    };
    let cgroup = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok())
    .filter(|&limit| limit > 0)
    .min();
    Bytes(cgroup.map_or(physical, |limit| limit.min(physical)))
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
