//! A slot in the hands of one tenant: marking it, and nobody who comes after, as the one that must end.
//!
//! Mechanism; any thread, also inside the allocator: no lock, no allocation, no panic.

use super::shortfall::{MemoryScope, Shortfall};
use super::slot::{SLOTS, Slot, slot};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// A slot in the hands of one tenant: a number that outlives it and then means nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tenure {
    pub(super) number: u16,
    tenant: u32,
}

/// Why a query was doomed; beside the table, since only few slots ever need it.
struct Record {
    limit: AtomicU64,
    used: AtomicU64,
    asked: AtomicU64,
    scope: AtomicU8,
}

static RECORDS: [Record; SLOTS] = [const { Record::new() }; SLOTS];

impl Tenure {
    pub(super) fn of(number: u16) -> Tenure {
        Tenure {
            number,
            tenant: slot(number).tenant.load(Relaxed),
        }
    }

    /// The slot, while this tenant has it.
    pub(super) fn slot(self) -> Option<&'static Slot> {
        let slot = slot(self.number);
        let same = slot.life.is_live() && slot.tenant.load(Relaxed) == self.tenant;
        same.then_some(slot)
    }

    /// Marks the tenant, and no later one. True if it was not marked before.
    pub(super) fn doom(self) -> bool {
        slot(self.number).doomed.swap(self.tenant, SeqCst) != self.tenant
    }
}

impl Slot {
    /// The query below it that was doomed last.
    pub(super) fn pending(&self) -> Tenure {
        let packed = self.pending.load(Relaxed);
        Tenure {
            number: packed as u16,
            tenant: (packed >> 16) as u32,
        }
    }

    pub(super) fn set_pending(&self, victim: Tenure) {
        let packed = u64::from(victim.tenant) << 16 | u64::from(victim.number);
        self.pending.store(packed, Relaxed);
    }
}

impl Record {
    const fn new() -> Record {
        Record {
            limit: AtomicU64::new(0),
            used: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            scope: AtomicU8::new(0),
        }
    }
}

/// Says why the query of a slot is doomed, before it is marked.
pub(super) fn record(number: u16, shortfall: Shortfall) {
    let record = &RECORDS[usize::from(number)];
    record.limit.store(shortfall.limit, Relaxed);
    record.used.store(shortfall.used, Relaxed);
    record.asked.store(shortfall.asked, Relaxed);
    record.scope.store(shortfall.scope as u8, SeqCst);
}

/// Why it is doomed.
pub(super) fn recorded(number: u16) -> Shortfall {
    let record = &RECORDS[usize::from(number)];
    Shortfall {
        scope: MemoryScope::from_number(record.scope.load(SeqCst)),
        limit: record.limit.load(Relaxed),
        used: record.used.load(Relaxed),
        asked: record.asked.load(Relaxed),
    }
}
