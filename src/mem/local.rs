//! What a thread has taken in advance: the credit of the owner it works for, and of some that it frees for.
//!
//! Mechanism; each thread its own, also inside the allocator: no lock, no allocation, no panic. Invariants:
//! 1. A credit is never negative, and is in its owner's balance: taking a block from it or giving one back to it
//!    changes no shared number. Only [`take_kept`] takes more than there is, and [`take_more`], which follows at once,
//!    first puts it back: nothing looks at the credit in between.
//! 2. The current owner's entry is its own; nothing evicts it while it is current. Its credit is *in hand* then, in
//!    three cells that the allocator finds at once, and not in the entry. What is done with entries is done between
//!    putting it down there and picking it up again.
//! 3. Beside the process's entry, one entry (the *hot* one, current now or last) keeps up to two chunks; the others
//!    keep a sixteenth of one each, and there are [`KEPT_OWNERS`](rules::KEPT_OWNERS) of them at most: three chunks
//!    per thread in all.
//! 4. A thread keeps credits of others than the process only while it serves, that is inside a worker's run, or
//!    while it is entered; it gives them back at the end of either. A thread whose thread-locals are being
//!    destroyed keeps nothing: what it does then goes to the table at once.

mod beyond;
mod thread;

use super::promise;
use super::rules;
use super::shortfall::Shortfall;
use super::slot;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

const ENTRIES: usize = 64;
/// The process's entry: no other owner falls on it, see the table's invariant 3.
const PROCESS: usize = 0;

/// Threads that ever served and still live.
static THREADS: AtomicU64 = AtomicU64::new(0);
/// Raised when somebody was refused: whoever serves gives back at the next end of a slice.
static RETURN: AtomicU32 = AtomicU32::new(0);
/// An allocator of ours has been called.
static CALLED: AtomicBool = AtomicBool::new(false);

/// The credit of one owner.
struct Entry {
    credit: Cell<u64>,
    /// Above this, credit goes back to the table.
    cap: Cell<u32>,
    owner: Cell<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has been kept yet.
    New,
    /// The end of the thread will be noticed.
    Ready,
    /// It is being arranged that it will, or it has come: nothing is kept.
    Direct,
}

/// What a thread keeps.
pub(super) struct Local {
    /// The current owner.
    owner: Cell<u16>,
    /// Its credit.
    credit: Cell<u64>,
    /// Its entry's cap.
    most: Cell<u64>,
    entries: [Entry; ENTRIES],
    hot: Cell<usize>,
    /// What the hot entry may keep at most: two chunks, as large as chunks were last; 0 if nothing is kept.
    cap: Cell<u32>,
    /// Entries that have an owner other than the process.
    held: Cell<u64>,
    stage: Cell<Stage>,
    serving: Cell<bool>,
    counted: Cell<bool>,
    returned: Cell<u32>,
    fallible: Cell<u32>,
    lifted: Cell<u32>,
    /// Queries were doomed on this thread.
    doomed: Cell<bool>,
    /// The running poll, which belongs to no query, must be the task's last.
    refused: Cell<Option<Shortfall>>,
    /// How to park this thread in its poll, if that is possible.
    park: Cell<Option<fn()>>,
}

thread_local! {
    static LOCAL: Local = const { Local::new() };
    /// Has a destructor, other than `LOCAL`: it is what notices the end of the thread.
    static END: End = const { End };
}

struct End;

impl Drop for End {
    fn drop(&mut self) {
        LOCAL.with(Local::end);
    }
}

fn place(owner: u16) -> usize {
    usize::from(owner) % ENTRIES
}

/// Takes `bytes` for the [current](current) owner from its credit, if there is as much. If not, they are taken by
/// [`take_more`], which must be called next.
#[inline(always)]
#[must_use = "they may not have been taken"]
pub(super) fn take_kept(bytes: u64) -> bool {
    LOCAL.with(|local| {
        // Taken first and then looked at: one instruction does both.
        let (left, short) = local.credit.get().overflowing_sub(bytes);
        local.credit.set(left);
        !short
    })
}

/// Whom this thread works for.
#[inline(always)]
pub(super) fn current() -> u16 {
    LOCAL.with(|local| local.owner.get())
}

/// Takes `bytes` for the current owner, after [`take_kept`] found that they are more than its credit: whose they are now,
/// or none if they are refused.
#[cold]
#[inline(never)]
pub(super) fn take_more(bytes: u64) -> Option<u16> {
    LOCAL.with(|local| {
        local.credit.set(local.credit.get().wrapping_add(bytes));
        local.put_down_for(|| local.refill(bytes))
    })
}

/// Takes `bytes` for the current owner: whose they are now, or none if they are refused.
#[inline]
pub(super) fn take(bytes: u64) -> Option<u16> {
    if take_kept(bytes) {
        Some(current())
    } else {
        take_more(bytes)
    }
}

/// Gives `bytes` back that had been taken for `owner`, if it is the current one and there is room for them.
#[inline(always)]
#[must_use = "they may not have been given back"]
pub(super) fn give_kept(owner: u16, bytes: u64) -> bool {
    LOCAL.with(|local| {
        let credit = local.credit.get() + bytes;
        let keeps = owner == local.owner.get() && credit <= local.most.get();
        if keeps {
            local.credit.set(credit);
        }
        keeps
    })
}

/// Gives `bytes` back that had been taken for `owner`, who is not the current one, or for whom there are too many.
#[inline(never)]
pub(super) fn give_more(owner: u16, bytes: u64) {
    LOCAL.with(|local| {
        let entry = local.entry(place(owner));
        if entry.owner.get() == owner && owner != local.owner.get() {
            let credit = entry.credit.get() + bytes;
            if credit <= u64::from(entry.cap.get()) {
                return entry.credit.set(credit);
            }
        }
        local.put_down_for(|| local.give_to(owner, bytes));
    });
}

/// Gives `bytes` back that had been taken for `owner`.
#[inline]
pub(super) fn give(owner: u16, bytes: u64) {
    if !give_kept(owner, bytes) {
        give_more(owner, bytes);
    }
}

/// Calls `f` with what this thread keeps.
#[inline(always)]
pub(super) fn with<R>(f: impl FnOnce(&Local) -> R) -> R {
    LOCAL.with(f)
}

/// Whether the allocator is in use.
#[inline]
pub(super) fn is_called() -> bool {
    CALLED.load(Relaxed)
}

impl Local {
    const fn new() -> Local {
        Local {
            owner: Cell::new(0),
            credit: Cell::new(0),
            most: Cell::new(0),
            entries: [const {
                Entry {
                    credit: Cell::new(0),
                    cap: Cell::new(0),
                    owner: Cell::new(0),
                }
            }; ENTRIES],
            hot: Cell::new(PROCESS),
            cap: Cell::new(0),
            held: Cell::new(0),
            stage: Cell::new(Stage::New),
            serving: Cell::new(false),
            counted: Cell::new(false),
            returned: Cell::new(0),
            fallible: Cell::new(0),
            lifted: Cell::new(0),
            doomed: Cell::new(false),
            refused: Cell::new(None),
            park: Cell::new(None),
        }
    }

    #[inline]
    fn entry(&self, place: usize) -> &Entry {
        &self.entries[place % ENTRIES]
    }

    /// The place of the current owner's entry.
    #[inline]
    fn current(&self) -> usize {
        place(self.owner.get())
    }

    #[inline]
    fn put_down(&self) {
        let entry = self.entry(self.current());
        // Added: what registering a thread allocates and frees comes in between.
        entry.credit.set(entry.credit.get() + self.credit.take());
    }

    #[inline]
    fn pick_up(&self) {
        let entry = self.entry(self.current());
        self.credit.set(self.credit.get() + entry.credit.take());
        self.most.set(u64::from(entry.cap.get()));
    }

    /// Calls `f` with all credit in the entries.
    #[inline]
    fn put_down_for<R>(&self, f: impl FnOnce() -> R) -> R {
        self.put_down();
        let result = f();
        self.pick_up();
        result
    }

    // ---- whom the thread works for --------------------------------------------------------------------------

    /// From now on blocks are `owner`'s, who is kept open by the caller. Whose they were until now.
    #[inline(always)]
    pub(super) fn switch(&self, owner: u16) -> u16 {
        let before = self.owner.get();
        if owner != before {
            if is_called() {
                self.change(owner);
            } else {
                // No thread has any credit yet, and none may have: the entry is made the owner's when it gets the first.
                self.owner.set(owner);
                self.most.set(0);
            }
        }
        before
    }

    #[inline(never)]
    fn change(&self, owner: u16) {
        let entry = self.entry(place(owner));
        let hot = place(owner) == self.hot.get() || owner == 0;
        if entry.owner.get() != owner || !hot {
            self.warm(place(owner), owner);
        }
        self.put_down();
        self.owner.set(owner);
        self.credit.set(entry.credit.take());
        self.most.set(u64::from(entry.cap.get()));
    }

    /// The current owner was entered before the allocator was ever called: from now on it has an entry.
    fn settle_in(&self) {
        let owner = self.owner.get();
        if self.entry(self.current()).owner.get() != owner {
            self.warm(self.current(), owner);
        }
    }

    /// Makes an entry the owner's, and the hot one.
    #[cold]
    #[inline(never)]
    fn warm(&self, place: usize, owner: u16) {
        self.put_down();
        self.register();
        let last = self.hot.replace(place);
        if last != place && last != PROCESS {
            let last = self.entry(last);
            last.cap.set(last.cap.get().min(self.keep()));
            self.reduce(last, u64::from(last.cap.get()));
        }
        let entry = self.entry(place);
        if entry.owner.get() != owner {
            self.claim(place, owner);
        }
    }

    /// Gives an entry to another owner; it is not the current one's.
    fn claim(&self, place: usize, owner: u16) {
        let held = self.held.get();
        if held.count_ones() > rules::KEPT_OWNERS {
            self.clear();
        }
        let entry = self.entry(place);
        self.empty(entry);
        entry.owner.set(owner);
        entry.cap.set(self.keep());
        self.held.set(self.held.get() | 1 << place);
    }

    fn chunk(&self, owner: u16) -> u64 {
        rules::chunk(slot::room(owner), THREADS.load(Relaxed))
    }

    /// What is kept of an owner at first.
    fn keep(&self) -> u32 {
        self.cap.get() / (2 * rules::KEPT_OWNERS)
    }

    // ---- giving credit back ---------------------------------------------------------------------------------

    fn reduce(&self, entry: &Entry, keep: u64) {
        let surplus = entry.credit.get().saturating_sub(keep);
        if surplus > 0 {
            entry.credit.set(entry.credit.get() - surplus);
            promise::credit(entry.owner.get(), surplus);
        }
    }

    fn empty(&self, entry: &Entry) {
        self.reduce(entry, 0);
    }

    /// Gives all credit back but the process's; it has been put down.
    fn clear(&self) {
        let mut held = self.held.get();
        let current = self.current();
        // The current owner's entry stays its own.
        self.held.set(held & (1 << current));
        while held != 0 {
            let place = held.trailing_zeros() as usize;
            held &= held - 1;
            let entry = self.entry(place);
            self.empty(entry);
            if place != current {
                // Nobody has it: no owner of that number falls on this place.
                entry.owner.set(0);
            }
        }
    }

    /// Gives all credit back but the process's.
    pub(super) fn give_back(&self) {
        if self.held.get() != 0 {
            self.put_down_for(|| self.clear());
        }
    }

    /// Gives all credit back.
    pub(super) fn give_all_back(&self) {
        self.put_down_for(|| {
            self.clear();
            self.empty(self.entry(PROCESS));
        });
    }

    /// The credit kept for an owner.
    pub(super) fn kept(&self, owner: u16) -> u64 {
        let entry = self.entry(place(owner));
        if owner == self.owner.get() {
            self.credit.get() + entry.credit.get()
        } else if entry.owner.get() == owner {
            entry.credit.get()
        } else {
            0
        }
    }
}
