//! A request for memory that did not fit: whose limit, how much of it is used, how much was asked.
//!
//! Pure.

use std::fmt;

/// Whose limit a request for memory met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum MemoryScope {
    /// The query's own.
    Query = 0,
    /// The `mem_limit` of its group.
    Group = 1,
    /// The governor's `memory_limit`.
    Governor = 2,
}

impl MemoryScope {
    pub(super) fn from_number(number: u8) -> MemoryScope {
        match number {
            0 => MemoryScope::Query,
            1 => MemoryScope::Group,
            _ => MemoryScope::Governor,
        }
    }
}

impl fmt::Display for MemoryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryScope::Query => "query",
            MemoryScope::Group => "group",
            MemoryScope::Governor => "governor",
        })
    }
}

/// A request that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{asked} bytes more than the {used} in use would exceed the {scope}'s memory limit of {limit} bytes"
)]
pub struct Shortfall {
    /// Whose limit.
    pub scope: MemoryScope,
    /// The limit, in bytes.
    pub limit: u64,
    /// Bytes in use below it at that moment, with what threads keep in their credits.
    pub used: u64,
    /// Bytes asked for.
    pub asked: u64,
}
