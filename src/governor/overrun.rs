//! What happens to requests for memory that are large or past the grace, if nobody has said.
//!
//! Wiring; the thread that builds.

use super::error::Error;
use crate::catalog::Catalog;
use crate::mem::{self, MemoryOverrun};
use crate::unit::Bytes;

/// The action in effect. To go on without the thread that asks there must be another (`threads`): a current-thread
/// runtime has none, so there somebody must choose, once a group of the catalog has a limit below the governor's.
///
/// Without the allocator nothing is ever refused, and nothing need be chosen. Groups that are limited by later
/// statements, with nothing chosen, overshoot.
pub(super) fn choose(
    chosen: Option<MemoryOverrun>,
    catalog: &Catalog,
    memory_limit: Bytes,
    threads: bool,
) -> Result<MemoryOverrun, Error> {
    match chosen {
        Some(MemoryOverrun::Quarantine) if !threads => {}
        Some(action) => return Ok(action),
        None if threads => return Ok(MemoryOverrun::Quarantine),
        None => {}
    }
    let snapshot = catalog.snapshot();
    let limited = snapshot
        .groups()
        .any(|group| group.mem_limit() < memory_limit);
    if limited && mem::is_installed() {
        return Err(Error::Invalid {
            what: "memory_overrun",
            value: chosen.map_or("not set".into(), |action| format!("{action:?}")),
            allowed: "Abort or Overshoot on a current-thread runtime whose groups have a mem_limit: it has no \
                      second thread to go on with",
        });
    }
    Ok(MemoryOverrun::Overshoot)
}
