//! [`GroupAlloc`]: a global allocator that knows whose every block is. The crate's one unsafe room:
//! this file and its parts.
//!
//! Mechanism; any thread: no lock, no log, no panic, and no allocation but of room for tags. It adds to the
//! allocator inside (the *inner* one) a tag per block, the 16-bit number of its owner:
//!
//! ```text
//!  up to 1022 B           [ the caller's bytes ][tag]            a footer, right behind layout.size()
//!  above, and 8, 16 … 512 [ the caller's bytes ]  …  [tag]       in a table, by address and size
//! ```
//!
//! What makes this sound, cited below by number:
//!
//! 1. *One shape per size.* `inner_size` depends on the caller's size alone, and `GlobalAlloc`'s contract gives
//!    the same size to the end of a block as to its beginning. So every block goes back to the inner allocator
//!    with the layout that it came with, and its tag is looked for where it was put.
//! 2. *The tag is the block's own.* A footer takes two bytes that were asked for in addition. In the `table` blocks of
//!    at least `2^g` bytes and less than twice that share a part, which has a place for each `2^g` bytes of address; two
//!    of them that live do not overlap, so they do not begin in the same `2^g` bytes, and each has its place alone.
//! 3. *The tag is written before the block is handed out and read before it is given back*, by whoever has the
//!    block then; the one who hands a block to another thread orders the two, as for the block's own bytes.
//! 4. *The compiler must not know.* It takes the global allocator's blocks for `size` bytes that nobody looks at
//!    any more when they are freed. With link-time optimisation one side of the allocator may be inlined where the
//!    other is a call: reading behind `size` is then "unreachable", writing a footer "dead". Every pointer that
//!    comes in or goes out is therefore passed through an empty assembler statement, whose result is a pointer
//!    that the compiler knows nothing about. Where there is no inline assembler, all tags are in the table.
//! 5. *No tag, no block.* Where the system has no memory for a tag, the inner block goes back and the request is refused as
//!    one that the inner allocator refuses. So every block that is handed out has a place for its tag; and the table takes
//!    no place away, so that the place is the same at the end of the block. Only [resizing](GlobalAlloc::realloc) a block
//!    in the inner allocator cannot be taken back: as soon as such memory was once missing, a block is copied instead, unless
//!    it gets smaller and its new tag has a place where it is. Memory that is missing for the first time, or for a
//!    smaller block that was moved all the same, ends the process.

#![allow(
    unsafe_code,
    reason = "GlobalAlloc is an unsafe trait; denied in the rest of the crate"
)]

mod grow;
#[cfg(feature = "mimalloc")]
mod inner;
mod pages;
mod put;
mod table;
mod tag;

#[cfg(feature = "mimalloc")]
pub use inner::Mimalloc;

use super::local;
use put::{put_behind, put_in_leaf};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU16;
use table::{Part, place_or_make, tag_in_leaf, tag_in_piece};
use tag::{
    footer_layout, incoming, inner_layout, is_behind, is_power, is_small, outgoing, owner_behind,
    owner_of, table_layout,
};

/// A `#[global_allocator]` over another allocator that knows whose every block is.
///
/// ```
/// use quotient::alloc::GroupAlloc;
///
/// #[global_allocator]
/// static ALLOC: GroupAlloc<std::alloc::System> = GroupAlloc::over(std::alloc::System);
///
/// # fn main() {
/// drop(vec![1u8; 100]);
/// assert!(quotient::mem::is_installed());
/// # }
/// ```
///
/// A block belongs to the query whose task allocates it, or to the group if the task is of no query, or to the
/// process. It counts as the size asked for, small ones too, until it is freed, by whatever thread and whenever
/// that is; growing it by `realloc` makes it the grower's.
///
/// Blocks have addresses of at most 48 bits, beside Android's tags above them. Where the allocator inside gives others, as the
/// system's does on illumos, most requests are refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupAlloc<A = DefaultAlloc> {
    inner: A,
}

#[cfg(feature = "mimalloc")]
type DefaultAlloc = Mimalloc;
#[cfg(not(feature = "mimalloc"))]
type DefaultAlloc = std::alloc::System;

impl GroupAlloc {
    /// Over mimalloc, or over the system's allocator if the feature `mimalloc` is off.
    #[cfg(feature = "mimalloc")]
    pub const fn new() -> GroupAlloc {
        GroupAlloc::over(Mimalloc)
    }

    /// Over mimalloc, or over the system's allocator if the feature `mimalloc` is off.
    #[cfg(not(feature = "mimalloc"))]
    pub const fn new() -> GroupAlloc {
        GroupAlloc::over(std::alloc::System)
    }
}

impl<A> GroupAlloc<A> {
    /// Over any other allocator.
    pub const fn over(inner: A) -> GroupAlloc<A> {
        GroupAlloc { inner }
    }
}

// ---- the allocator ------------------------------------------------------------------------------------------

// What blocks usually go through is the caller's own code: besides the inner allocator's, a call would be one more return address
// to store, and a saved register, and of the stores of a block and its end a processor commits about one per cycle: they, and
// not the instructions, are what a tight loop waits for. What is seldom, or dear inside anyway, has functions of its own, so that
// nothing usual saves registers for it, and is reached by a jump. The owner is asked for when the inner allocator has
// returned, so that it needs no register meanwhile: an allocator enters no other.
impl<A: GlobalAlloc> GroupAlloc<A> {
    /// A block with a footer.
    ///
    /// # Safety
    ///
    /// As for [`alloc`](GlobalAlloc::alloc), with a layout whose tag [is behind](is_behind).
    #[inline(always)]
    unsafe fn alloc_behind(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller, and as in `block_for`.
        unsafe {
            if !local::take_kept(layout.size() as u64) {
                return self.alloc_beyond_credit(layout);
            }
            let block = self.inner.alloc(footer_layout(layout));
            if block.is_null() {
                return self.refused(block, layout, local::current());
            }
            put_behind(block, layout.size(), local::current());
            outgoing(block)
        }
    }

    /// A block whose size is a power of two.
    ///
    /// # Safety
    ///
    /// As for [`alloc`](GlobalAlloc::alloc), with a size that [is one](is_power).
    #[inline(always)]
    unsafe fn alloc_power(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller.
        unsafe { self.alloc_tagged_apart(layout, Part::of_power(layout.size())) }
    }

    /// A block whose size is another, with its tag in the table.
    ///
    /// # Safety
    ///
    /// As for [`alloc`](GlobalAlloc::alloc), with a layout whose tag is not behind it.
    #[inline(never)]
    unsafe fn alloc_above(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller.
        unsafe { self.alloc_tagged_apart(layout, Part::of(layout.size())) }
    }

    /// What both do, each for its sizes.
    ///
    /// # Safety
    ///
    /// As for [`alloc`](GlobalAlloc::alloc), with a layout whose tag is not behind it, and the part of its size.
    #[inline(always)]
    unsafe fn alloc_tagged_apart(&self, layout: Layout, part: Part) -> *mut u8 {
        // SAFETY: by the caller, and as in `block_for`.
        unsafe {
            if !local::take_kept(layout.size() as u64) {
                return self.alloc_beyond_credit(layout);
            }
            let block = self.inner.alloc(table_layout(layout));
            if put_in_leaf(block, part, local::current()) {
                outgoing(block)
            } else {
                self.tagged_anew(block, layout, local::current())
            }
        }
    }

    /// A block for an owner whose credit is not enough.
    ///
    /// # Safety
    ///
    /// As for [`alloc`](GlobalAlloc::alloc).
    #[cold]
    #[inline(never)]
    unsafe fn alloc_beyond_credit(&self, layout: Layout) -> *mut u8 {
        match local::take_more(layout.size() as u64) {
            // SAFETY: by the caller.
            Some(owner) => unsafe { self.block_for(owner, layout) },
            None => null_mut(),
        }
    }

    /// A block for `owner`, who has been charged for it. Null if there is none: then the charge is undone.
    ///
    /// # Safety
    ///
    /// As for [`alloc`](GlobalAlloc::alloc).
    #[inline(always)]
    unsafe fn block_for(&self, owner: u16, layout: Layout) -> *mut u8 {
        // SAFETY: the inner layout is valid as the caller's is, and `tagged` gets the block of that layout.
        unsafe {
            let block = self.inner.alloc(inner_layout(layout));
            self.tagged(block, layout, owner)
        }
    }

    /// Takes back a block, after what was charged for it, if that is the thread's to keep: so the call of the inner
    /// allocator is a jump. Nobody else can be granted it before.
    ///
    /// # Safety
    ///
    /// As for [`dealloc`](GlobalAlloc::dealloc), with the owner that the block had.
    #[inline(always)]
    unsafe fn dealloc_of(&self, block: *mut u8, layout: Layout, owner: u16) {
        // SAFETY: by the caller, and invariant 1.
        unsafe {
            if local::give_kept(owner, layout.size() as u64) {
                self.inner.dealloc(block, inner_layout(layout));
            } else {
                self.dealloc_beyond_credit(block, layout, owner);
            }
        }
    }

    /// The same for an owner who is not the current one, or whose credit would be too much: before what was charged for
    /// it, so that it is free when others are granted that.
    ///
    /// # Safety
    ///
    /// As for [`GroupAlloc::dealloc_of`].
    #[inline(never)]
    unsafe fn dealloc_beyond_credit(&self, block: *mut u8, layout: Layout, owner: u16) {
        // SAFETY: by the caller, and invariant 1.
        unsafe { self.inner.dealloc(block, inner_layout(layout)) };
        local::give_more(owner, layout.size() as u64);
    }

    /// Takes back a block with its tag in the table.
    ///
    /// # Safety
    ///
    /// As for [`dealloc`](GlobalAlloc::dealloc), with the part of the block's size.
    #[inline(always)]
    unsafe fn dealloc_tagged_apart(&self, block: *mut u8, layout: Layout, part: Part) {
        // SAFETY: by the caller.
        unsafe {
            match tag_in_leaf(block, part) {
                Some(owner) => self.dealloc_of(block, layout, owner),
                None => self.dealloc_in_piece(block, layout),
            }
        }
    }

    /// Takes back a block whose size is no power of two, with its tag in the table.
    ///
    /// # Safety
    ///
    /// As for [`dealloc`](GlobalAlloc::dealloc).
    #[inline(never)]
    unsafe fn dealloc_above(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the caller.
        unsafe { self.dealloc_tagged_apart(block, layout, Part::of(layout.size())) };
    }

    /// Takes back a block with its tag in the table, in a region that has no leaf.
    ///
    /// # Safety
    ///
    /// As for [`dealloc`](GlobalAlloc::dealloc).
    #[cold]
    #[inline(never)]
    unsafe fn dealloc_in_piece(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the caller.
        unsafe {
            let owner = tag_in_piece(block, Part::of(layout.size()));
            self.dealloc_of(block, layout, owner);
        }
    }
}

/// Where the number of a block's owner is; none for a small block.
///
/// For the numbers to be right, whoever changes it has the block alone, and the block is of `size` bytes and from the
/// global allocator, which is a [`GroupAlloc`].
pub(super) fn tag_of(block: *mut u8, size: usize) -> Option<&'static AtomicU16> {
    if is_small(size) {
        return None;
    }
    // It is there already.
    place_or_make(block, Part::of(size))
}

// SAFETY: blocks are the inner allocator's, which is one, made two bytes longer or not (invariants 1 and 2), so that
// they are valid, aligned and disjoint for the caller's layout. Nothing here unwinds: `local` and `slot` only do
// arithmetic on cells and atomics. Null is returned where the inner allocator returns it, a limit refuses or no tag can be had.
unsafe impl<A: GlobalAlloc> GlobalAlloc for GroupAlloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is valid and of more than 0 bytes.
        unsafe {
            if is_power(layout.size()) {
                self.alloc_power(layout)
            } else if is_behind(layout.size()) {
                self.alloc_behind(layout)
            } else {
                self.alloc_above(layout)
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let size = layout.size();
        let Some(owner) = local::take(size as u64) else {
            return null_mut();
        };
        // SAFETY: as in `alloc`; the tag is behind the caller's bytes, which stay zero.
        unsafe {
            let block = self.inner.alloc_zeroed(inner_layout(layout));
            self.tagged(block, layout, owner)
        }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let block = incoming(block);
        // SAFETY: the caller says that `block` is a live block of ours with this layout: it was tagged, and it came from
        // the inner allocator with the inner layout (invariant 1).
        unsafe {
            if is_power(layout.size()) {
                self.dealloc_tagged_apart(block, layout, Part::of_power(layout.size()));
            } else if is_behind(layout.size()) {
                self.dealloc_of(block, layout, owner_behind(block, layout.size()));
            } else {
                self.dealloc_above(block, layout);
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let block = incoming(block);
        let old_size = layout.size();
        // SAFETY: as in `dealloc`.
        let old_owner = unsafe { owner_of(block, old_size) };
        // A block that grows is the grower's, and for a moment there are two of it. One that shrinks stays whose it
        // is and needs nothing.
        let grows = new_size > old_size;
        let owner = if grows {
            let Some(owner) = local::take(new_size as u64) else {
                return null_mut();
            };
            owner
        } else {
            old_owner
        };
        // SAFETY: by the caller; `owner` has been charged, or has the block already.
        let new = unsafe { self.replaced(block, layout, new_size, owner) };
        if new.is_null() {
            if grows {
                local::give(owner, new_size as u64);
            }
            return null_mut();
        }
        local::give(
            old_owner,
            if grows { old_size } else { old_size - new_size } as u64,
        );
        outgoing(new)
    }
}
