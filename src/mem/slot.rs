//! The table of owners: what each has been charged, its limit, and who is above it.
//!
//! Mechanism; any thread, also inside the allocator: no lock, no allocation, no panic. 65 536 slots of 64 bytes
//! that cost nothing until they are touched. Slot 0 is the process; a query's slot is below its group's, that
//! below its governor's, that below slot 0. Invariants:
//! 1. A slot's balance includes those below it. Charges go up the chain from the leaf, and so do credits; a
//!    walker reads who is above *before* it takes its bytes off, for afterwards the slot may be somebody else's.
//! 2. `used = live blocks + credits of threads + reservations`, every term at least 0. So `used == 0` proves
//!    that nothing names the slot any more; see [`Life`].
//! 3. A slot whose number is a multiple of 64 is never given out: its place in a thread's credits is slot 0's.

use super::life::Life;
use super::rules::MemoryOverrun;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// How many owners there can be at once in a process.
pub(super) const SLOTS: usize = 1 << 16;
const OVERRUN: u32 = 2;
const PARKED: u16 = 1 << 4;

/// What an owner stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Rank {
    Process = 0,
    Governor = 1,
    Group = 2,
    Query = 3,
}

/// One owner.
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) life: Life,
    /// 0 is none.
    limit: AtomicU64,
    peak: AtomicU64,
    /// Furthest beyond the limit so far.
    overshoot: AtomicU64,
    /// The query below it that was doomed last, as a [`Tenure`]: its memory is about to come back.
    pub(super) pending: AtomicU64,
    /// Bytes above which [`Slot::room`] shrinks the chunks, without refusing anything. 0 is none.
    soft: AtomicU64,
    weight: AtomicU32,
    /// Counts who had the slot.
    pub(super) tenant: AtomicU32,
    /// The tenant that must end.
    pub(super) doomed: AtomicU32,
    parent: AtomicU16,
    /// Its rank; above, the action of [`MemoryOverrun`]; above, whether a thread of it is parked for good.
    traits: AtomicU16,
}

const _: () = assert!(size_of::<Slot>() == 64);

static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
/// One bit per slot that is in use. The lowest of each word stays unused; see invariant 3.
static TAKEN: [AtomicU64; SLOTS / 64] = [const { AtomicU64::new(0) }; SLOTS / 64];
/// One more than the highest slot ever in use.
static HIGH: AtomicU32 = AtomicU32::new(1);
/// Owners that had to share the slot above because the table was full.
pub(super) static SHARED: AtomicU64 = AtomicU64::new(0);

impl Slot {
    const fn new() -> Slot {
        Slot {
            life: Life(AtomicU64::new(0)),
            limit: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            overshoot: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            soft: AtomicU64::new(0),
            weight: AtomicU32::new(0),
            tenant: AtomicU32::new(0),
            doomed: AtomicU32::new(0),
            parent: AtomicU16::new(0),
            traits: AtomicU16::new(0),
        }
    }

    #[inline]
    pub(super) fn used(&self) -> u64 {
        self.life.used()
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    pub(super) fn overshoot(&self) -> u64 {
        self.overshoot.load(Relaxed)
    }

    #[inline]
    pub(super) fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit > 0)
    }

    /// A limit of 0 bytes is one of 1: neither holds a block.
    pub(super) fn set_limit(&self, limit: Option<u64>) {
        self.limit
            .store(limit.map_or(0, |limit| limit.max(1)), Relaxed);
    }

    pub(super) fn soft(&self) -> Option<u64> {
        Some(self.soft.load(Relaxed)).filter(|&limit| limit > 0)
    }

    pub(super) fn set_soft(&self, limit: Option<u64>) {
        self.soft
            .store(limit.map_or(0, |limit| limit.max(1)), Relaxed);
    }

    pub(super) fn weight(&self) -> u64 {
        u64::from(self.weight.load(Relaxed))
    }

    pub(super) fn set_weight(&self, weight: u64) {
        self.weight
            .store(u32::try_from(weight).unwrap_or(u32::MAX), Relaxed);
    }

    pub(super) fn parent(&self) -> u16 {
        self.parent.load(Relaxed)
    }

    pub(super) fn rank(&self) -> Rank {
        match self.traits.load(Relaxed) & 3 {
            1 => Rank::Governor,
            2 => Rank::Group,
            3 => Rank::Query,
            _ => Rank::Process,
        }
    }

    pub(super) fn overrun(&self) -> MemoryOverrun {
        match self.traits.load(Relaxed) >> OVERRUN & 3 {
            1 => MemoryOverrun::Abort,
            2 => MemoryOverrun::Overshoot,
            _ => MemoryOverrun::Quarantine,
        }
    }

    pub(super) fn set_overrun(&self, action: MemoryOverrun) {
        let rank = self.traits.load(Relaxed) & 3;
        self.traits
            .store(rank | (action as u16) << OVERRUN, Relaxed);
    }

    /// A thread is parked in a poll of it for good: its memory does not come back.
    pub(super) fn is_parked(&self) -> bool {
        self.traits.load(Relaxed) & PARKED != 0
    }

    pub(super) fn set_parked(&self) {
        self.traits.fetch_or(PARKED, Relaxed);
    }

    #[inline]
    pub(super) fn is_doomed(&self) -> bool {
        let doomed = self.doomed.load(Relaxed);
        doomed != 0 && doomed == self.tenant.load(Relaxed)
    }

    fn note_peak(&self, used: u64) {
        if used > self.peak.load(Relaxed) {
            self.peak.fetch_max(used, Relaxed);
        }
    }

    fn try_add(&self, bytes: u64) -> bool {
        match self.limit.load(Relaxed) {
            0 => {
                self.life.add(bytes);
                true
            }
            limit => self.life.try_add(bytes, limit).is_ok(),
        }
    }

    fn add(&self, bytes: u64) {
        let used = self.life.add(bytes);
        self.note_peak(used);
        let over = used.saturating_sub(self.limit().unwrap_or(u64::MAX));
        if over > self.overshoot.load(Relaxed) {
            self.overshoot.fetch_max(over, Relaxed);
        }
    }
}

#[inline]
pub(super) fn slot(number: u16) -> &'static Slot {
    &TABLE[usize::from(number)]
}

/// Slots that are, or were, in use: all others are free.
pub(super) fn numbers() -> impl Iterator<Item = u16> {
    (1..HIGH.load(Relaxed)).filter_map(|number| u16::try_from(number).ok())
}

/// Takes a free slot below `parent`, which the caller keeps open. None if there is none.
pub(super) fn open(parent: u16, rank: Rank) -> Option<u16> {
    let number = claim()?;
    let slot = slot(number);
    slot.limit.store(0, Relaxed);
    slot.peak.store(0, Relaxed);
    slot.overshoot.store(0, Relaxed);
    slot.pending.store(0, Relaxed);
    slot.soft.store(0, Relaxed);
    slot.weight.store(1, Relaxed);
    slot.parent.store(parent, Relaxed);
    slot.traits.store(rank as u16, Relaxed);
    slot.set_overrun(TABLE[usize::from(parent)].overrun());
    // 0 is nobody, and must not come round again.
    let tenant = slot.tenant.load(Relaxed).checked_add(1).unwrap_or(1);
    slot.tenant.store(tenant, Relaxed);
    slot.doomed.store(0, Relaxed);
    // A slot whose bit was clear is free: the bit is cleared after the state.
    let opened = slot.life.open();
    debug_assert!(opened, "a free slot was not free");
    Some(number)
}

fn claim() -> Option<u16> {
    for (index, word) in TAKEN.iter().enumerate() {
        let mut taken = word.load(Relaxed) | 1;
        while taken != u64::MAX {
            let bit = (!taken).trailing_zeros();
            // SeqCst, as in `free`: what the last user of the slot did is over.
            taken = word.fetch_or(1 << bit, SeqCst) | 1;
            if taken & (1 << bit) == 0 {
                let number = index as u32 * 64 + bit;
                HIGH.fetch_max(number + 1, Relaxed);
                return u16::try_from(number).ok();
            }
        }
    }
    None
}

fn free(number: u16) {
    let bit = 1 << (number % 64);
    TAKEN[usize::from(number / 64)].fetch_and(!bit, SeqCst);
}

/// Nobody will charge the slot any more, but for what holds credits or blocks of it already.
pub(super) fn close(number: u16) {
    if slot(number).life.close() {
        free(number);
    }
}

/// Charges an owner and all above it, or nobody: then which slot refused.
///
/// Looks before it charges: what is far too much is never charged to those below the one that refuses, where others
/// would see it for a moment and judge by it.
pub(super) fn try_charge(owner: u16, bytes: u64) -> Result<(), u16> {
    if bytes > super::life::MOST {
        return Err(owner);
    }
    walk(owner, |slot| match slot.limit() {
        Some(limit) => slot.used().saturating_add(bytes) <= limit,
        None => true,
    })?;
    walk(owner, |slot| slot.try_add(bytes)).inspect_err(|&at| take_off(owner, at, bytes))?;
    walk(owner, |slot| {
        slot.note_peak(slot.used());
        true
    })
}

/// From an owner to the process, as long as `f` says so; else where it did not.
#[inline]
fn walk(owner: u16, f: impl Fn(&Slot) -> bool) -> Result<(), u16> {
    let mut at = owner;
    loop {
        if !f(slot(at)) {
            return Err(at);
        }
        if at == 0 {
            return Ok(());
        }
        at = slot(at).parent();
    }
}

/// Charges an owner and all above it, limits or not.
pub(super) fn force_charge(owner: u16, bytes: u64) {
    let mut at = owner;
    loop {
        slot(at).add(bytes);
        if at == 0 {
            return;
        }
        at = slot(at).parent();
    }
}

/// Takes bytes off an owner and all above it.
pub(super) fn credit(owner: u16, bytes: u64) {
    if owner != 0 {
        take_off(owner, 0, bytes);
    }
    slot(0).life.sub(bytes);
}

/// Takes bytes off `owner` and those above it, up to and without `end`.
fn take_off(owner: u16, end: u16, bytes: u64) {
    let mut at = owner;
    while at != end {
        let parent = slot(at).parent();
        if slot(at).life.sub(bytes) {
            free(at);
        }
        at = parent;
    }
}

/// Bytes below the nearest limit of an owner's chain.
pub(super) fn room(owner: u16) -> u64 {
    let mut room = u64::MAX;
    let mut at = owner;
    while at != 0 {
        let slot = slot(at);
        for limit in [slot.limit(), slot.soft()].into_iter().flatten() {
            room = room.min(limit.saturating_sub(slot.used()));
        }
        at = slot.parent();
    }
    room
}
