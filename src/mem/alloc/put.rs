//! Tagging a block. Unsafe.
//!
//! Mechanism; any thread, inside the allocator. The numbered invariants are those of the [allocator](super).

#![allow(unsafe_code, reason = "a part of the allocator")]

use super::GroupAlloc;
use super::table::{Part, place_in_leaf, place_or_make};
use super::tag::{inner_layout, is_behind, outgoing};
use crate::mem::local;
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

impl<A: GlobalAlloc> GroupAlloc<A> {
    /// Hands out a block that the inner allocator gave, for `owner`, who has been charged for it. Null if it gave none, or
    /// if there is no memory for the tag: then the block goes back and the charge is undone.
    ///
    /// # Safety
    ///
    /// `block` is null, or was just given for the inner layout of `layout`.
    #[inline(always)]
    pub(super) unsafe fn tagged(&self, block: *mut u8, layout: Layout, owner: u16) -> *mut u8 {
        // SAFETY: by the caller.
        unsafe {
            if !block.is_null() && put(block, layout.size(), owner) {
                outgoing(block)
            } else {
                self.refused(block, layout, owner)
            }
        }
    }

    /// The same, where no leaf is there for the tag.
    ///
    /// # Safety
    ///
    /// As for [`GroupAlloc::tagged`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn tagged_anew(&self, block: *mut u8, layout: Layout, owner: u16) -> *mut u8 {
        // SAFETY: by the caller.
        unsafe { self.tagged(block, layout, owner) }
    }

    /// The same, where there is no block or no room for its tag.
    ///
    /// # Safety
    ///
    /// As for [`GroupAlloc::tagged`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn refused(&self, block: *mut u8, layout: Layout, owner: u16) -> *mut u8 {
        if !block.is_null() {
            // SAFETY: by the caller.
            unsafe { self.inner.dealloc(block, inner_layout(layout)) };
        }
        local::give(owner, layout.size() as u64);
        null_mut()
    }
}

/// Makes a block of `size` bytes `owner`'s. Whether it is: not if there is no memory for the tag.
///
/// # Safety
///
/// `block` is the inner allocator's, of [`inner_size`](super::tag::inner_size)`(size)` bytes, and nobody else's.
#[inline(always)]
pub(super) unsafe fn put(block: *mut u8, size: usize, owner: u16) -> bool {
    if is_behind(size) {
        // SAFETY: by the caller.
        unsafe { put_behind(block, size, owner) };
        return true;
    }
    put_in_leaf(block, Part::of(size), owner) || put_in_table(block, size, owner)
}

/// [`put`] for a block with a footer.
///
/// # Safety
///
/// As for `put`.
#[inline(always)]
pub(super) unsafe fn put_behind(block: *mut u8, size: usize, owner: u16) {
    // SAFETY: invariant 2: the two bytes behind `size` are the block's.
    unsafe { block.add(size).cast::<u16>().write_unaligned(owner) };
}

/// [`put`] for a block whose tag is in the table, if there is a leaf. Not for null.
#[inline(always)]
pub(super) fn put_in_leaf(block: *mut u8, part: Part, owner: u16) -> bool {
    let Some(place) = place_in_leaf(block, part) else {
        return false;
    };
    // Relaxed: invariant 3.
    place.store(owner, Relaxed);
    true
}

#[cold]
#[inline(never)]
fn put_in_table(block: *mut u8, size: usize, owner: u16) -> bool {
    let Some(place) = place_or_make(block, Part::of(size)) else {
        return false;
    };
    place.store(owner, Relaxed);
    true
}
