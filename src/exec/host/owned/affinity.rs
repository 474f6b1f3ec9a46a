//! Which CPU a worker's thread keeps to.
//!
//! Mechanism; the thread that starts the workers, and each worker's own. Nothing depends on it but caches, so
//! whatever the system refuses is let be.

/// The CPUs that the process may use.
#[cfg(target_os = "linux")]
pub(super) fn cpus() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    match sched_getaffinity(None) {
        Ok(allowed) => (0..CpuSet::MAX_CPU)
            .filter(|&cpu| allowed.is_set(cpu))
            .collect(),
        Err(_) => Vec::new(),
    }
}

/// Keeps the calling thread on these CPUs. Threads that it starts inherit them.
#[cfg(target_os = "linux")]
pub(super) fn keep_to(cpus: &[usize]) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    let _ = sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn cpus() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn keep_to(_cpus: &[usize]) {}
