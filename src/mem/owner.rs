//! Owners of memory as the rest of the program has them: open while somebody holds the handle.
//!
//! Mechanism; any thread. A handle keeps those above it open. Dropping it closes the slot, which stays charged,
//! and is given to nobody else, until the last byte that names it has been freed.

use super::local;
use super::rules::MemoryOverrun;
use super::shortfall::{MemoryScope, Shortfall};
use super::slot::{self, Rank, SHARED, slot};
use super::tenure::{self, Tenure};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The number that blocks carry: a query, a group, a governor, or the process (0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(pub(super) u16);

impl Owner {
    /// The process itself: whatever belongs to nobody else.
    pub const PROCESS: Owner = Owner(0);
}

/// An owner that is kept open: a governor, one of its groups, or one of that group's queries.
pub struct OwnerHandle {
    owner: u16,
    /// The slot is its own, not that of `above`.
    own: bool,
    rank: Rank,
    above: Option<Arc<OwnerHandle>>,
}

impl OwnerHandle {
    /// Opens a governor's owner.
    pub fn open_governor() -> Arc<OwnerHandle> {
        OwnerHandle::open(None, Rank::Governor)
    }

    /// Opens a group's owner below its governor's.
    pub fn open_group(governor: &Arc<OwnerHandle>) -> Arc<OwnerHandle> {
        OwnerHandle::open(Some(governor.clone()), Rank::Group)
    }

    /// Opens a query's owner below its group's. If all 65 536 are in use, it shares the group's.
    pub fn open_query(group: &Arc<OwnerHandle>) -> Arc<OwnerHandle> {
        OwnerHandle::open(Some(group.clone()), Rank::Query)
    }

    fn open(above: Option<Arc<OwnerHandle>>, rank: Rank) -> Arc<OwnerHandle> {
        let parent = above.as_ref().map_or(0, |above| above.owner);
        let owner = slot::open(parent, rank);
        if owner.is_none() {
            SHARED.fetch_add(1, Relaxed);
        }
        Arc::new(OwnerHandle {
            owner: owner.unwrap_or(parent),
            own: owner.is_some(),
            rank,
            above,
        })
    }

    /// The number that its blocks carry.
    pub fn owner(&self) -> Owner {
        Owner(self.owner)
    }

    /// Whether its memory can be told from that of the owner above it.
    pub fn is_separate(&self) -> bool {
        self.own
    }

    /// The owner above.
    pub fn above(&self) -> Option<&Arc<OwnerHandle>> {
        self.above.as_ref()
    }

    /// Bytes charged: live blocks, reservations, and what threads keep in their credits. Never less than what is
    /// live; more by three chunks of 256 KiB per thread at most. The calling thread's own credit is left out.
    #[inline]
    pub fn used(&self) -> u64 {
        let kept = local::with(|local| local.kept(self.owner));
        slot(self.owner).used().saturating_sub(kept)
    }

    /// The most that was ever charged at once, threads' credits included.
    pub fn peak(&self) -> u64 {
        slot(self.owner).peak()
    }

    /// The furthest that it was ever beyond its limit, in bytes.
    pub fn overshoot(&self) -> u64 {
        slot(self.owner).overshoot()
    }

    /// Its limit in bytes, if it has one.
    pub fn limit(&self) -> Option<u64> {
        slot(self.owner).limit().filter(|_| self.own)
    }

    /// Changes its limit, from the next check on. A limit below what is used takes nothing away by itself.
    pub fn set_limit(&self, bytes: Option<u64>) {
        if self.own {
            slot(self.owner).set_limit(bytes);
        }
    }

    /// The limit that [`OwnerHandle::is_over_soft_limit`] compares with.
    pub fn soft_limit(&self) -> Option<u64> {
        slot(self.owner).soft().filter(|_| self.own)
    }

    /// Sets a limit that refuses nothing: somebody looks at it at the end of each poll. Near it, threads keep
    /// less in their credits, so that the comparison is sharper.
    pub fn set_soft_limit(&self, bytes: Option<u64>) {
        if self.own {
            slot(self.owner).set_soft(bytes);
        }
    }

    /// Whether it uses more than its soft limit.
    #[inline]
    pub fn is_over_soft_limit(&self) -> bool {
        self.soft_limit().is_some_and(|limit| self.used() > limit)
    }

    /// Its weight among the groups of its governor, for the choice of who must give memory back.
    pub fn set_weight(&self, weight: u64) {
        if self.own {
            slot(self.owner).set_weight(weight);
        }
    }

    /// What happens to requests beyond its limit that are large or past the grace. Those opened below it later
    /// begin with the same.
    pub fn set_overrun(&self, action: MemoryOverrun) {
        if self.own {
            slot(self.owner).set_overrun(action);
        }
    }

    /// Charges `bytes` that no allocator sees, or that are about to be allocated; wholly or not at all, and never
    /// beyond a limit. To be paid back by [`OwnerHandle::credit`] of the same handle.
    ///
    /// # Errors
    ///
    /// [`Shortfall`]: whose limit is in the way. Nobody is doomed for it.
    pub fn try_charge(&self, bytes: u64) -> Result<(), Shortfall> {
        let refused = match slot::try_charge(self.owner, bytes) {
            Ok(()) => return Ok(()),
            Err(_) => {
                // What this thread has taken in advance may be just what is missing.
                local::with(|local| local.give_back());
                slot::try_charge(self.owner, bytes)
            }
        };
        refused.map_err(|at| shortfall(at, bytes))
    }

    /// Its limit and what is used of it, as a request of 0 bytes sees them.
    pub(crate) fn state(&self) -> Shortfall {
        shortfall(self.owner, 0)
    }

    /// Charges `bytes`, limits or not.
    pub fn charge(&self, bytes: u64) {
        slot::force_charge(self.owner, bytes);
    }

    /// Pays `bytes` back that were charged through this handle.
    pub fn credit(&self, bytes: u64) {
        slot::credit(self.owner, bytes);
    }

    /// Whether a request that did not fit has doomed it.
    #[inline]
    pub fn is_doomed(&self) -> bool {
        self.own && slot(self.owner).is_doomed()
    }

    /// The request that doomed it.
    pub fn doom(&self) -> Option<Shortfall> {
        self.is_doomed().then(|| tenure::recorded(self.owner))
    }

    /// Dooms it for `shortfall`, as a request that does not fit would. True if it was not doomed before.
    pub fn set_doom(&self, shortfall: Shortfall) -> bool {
        if !self.own || self.is_doomed() {
            return false;
        }
        tenure::record(self.owner, shortfall);
        Tenure::of(self.owner).doom()
    }
}

fn shortfall(at: u16, asked: u64) -> Shortfall {
    Shortfall {
        scope: match slot(at).rank() {
            Rank::Query => MemoryScope::Query,
            Rank::Group => MemoryScope::Group,
            Rank::Governor | Rank::Process => MemoryScope::Governor,
        },
        limit: slot(at).limit().unwrap_or(u64::MAX),
        used: slot(at).used(),
        asked,
    }
}

impl Drop for OwnerHandle {
    fn drop(&mut self) {
        if self.own {
            // A credit that this thread keeps would hold the slot until the end of its slice.
            local::with(|local| {
                if local.kept(self.owner) > 0 {
                    local.give_back();
                }
            });
            slot::close(self.owner);
        }
    }
}

impl fmt::Debug for OwnerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerHandle")
            .field("owner", &self.owner)
            .field("rank", &self.rank)
            .field("used", &self.used())
            .field("limit", &self.limit())
            .finish_non_exhaustive()
    }
}

/// While it lives, what this thread allocates is the owner's. Made by [`enter`].
#[must_use = "the owner is left when the guard is dropped"]
pub struct Entered<'a> {
    before: u16,
    // A guard belongs to the thread that it was made on, and lives no longer than the owner.
    _handle: PhantomData<(&'a OwnerHandle, *const ())>,
}

/// Enters an owner on this thread: what is allocated from now on is its own. Guards must be dropped in the reverse
/// order, as they are by scope; panics included.
#[inline]
pub fn enter(handle: &OwnerHandle) -> Entered<'_> {
    enter_unbound(handle)
}

/// As [`enter`], for a caller that keeps the owner at least as long as the guard, somewhere that the compiler does not see.
#[inline]
pub(crate) fn enter_unbound(handle: &OwnerHandle) -> Entered<'static> {
    Entered {
        before: local::with(|local| local.switch(handle.owner)),
        _handle: PhantomData,
    }
}

/// As [`enter`] for the process itself, which is refused nothing. For what is ours and may hold a lock: a thread that
/// is parked for want of memory must not hold one that others need.
#[inline]
pub(crate) fn enter_process() -> Entered<'static> {
    Entered {
        before: local::with(|local| local.switch(0)),
        _handle: PhantomData,
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        local::with(|local| {
            local.switch(self.before);
            if !local.is_serving() {
                local.give_back();
            }
        });
    }
}

/// Bytes of the whole process: of all owners, and of nobody.
pub fn root_used() -> u64 {
    slot(0).used()
}

/// Owners that share another's slot because all were in use, counted since the start of the process.
pub fn shared_owners() -> u64 {
    SHARED.load(Relaxed)
}

/// Whether the process allocates through [`GroupAlloc`](crate::alloc::GroupAlloc): otherwise owners know of
/// reservations only.
pub fn is_installed() -> bool {
    local::is_called()
}
