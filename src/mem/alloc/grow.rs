//! A block that takes another's place. Unsafe.
//!
//! Mechanism; any thread, inside the allocator. The numbered invariants are those of the [allocator](super).

#![allow(unsafe_code, reason = "a part of the allocator")]

use super::GroupAlloc;
use super::put::put;
use super::table::{Part, is_scarce, place_or_make};
use super::tag::{inner_layout, inner_size, is_behind};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;

impl<A: GlobalAlloc> GroupAlloc<A> {
    /// A block of the inner allocator's, tagged for `owner`, that takes the place of `block`. Null if there is none.
    ///
    /// # Safety
    ///
    /// As for [`realloc`](GlobalAlloc::realloc).
    #[inline(always)]
    pub(super) unsafe fn replaced(
        &self,
        block: *mut u8,
        layout: Layout,
        new_size: usize,
        owner: u16,
    ) -> *mut u8 {
        if !is_behind(new_size) && is_scarce() && !has_place(block, layout.size(), new_size) {
            // SAFETY: by the caller.
            return unsafe { self.copied(block, layout, new_size, owner) };
        }
        // SAFETY: `block` came from the inner allocator with the inner layout. The caller guarantees a new size above
        // 0 that is valid for the alignment, and so is the inner one (see `inner_layout`). As many of the caller's
        // bytes as fit are kept, since an inner size is never below the size. `put` gets the new block.
        unsafe {
            let new = self
                .inner
                .realloc(block, inner_layout(layout), inner_size(new_size));
            if !new.is_null() && !put(new, new_size, owner) {
                // The old block is gone, and this one is nobody's (invariant 5).
                std::process::abort();
            }
            new
        }
    }

    /// The same, where the old block must not go before the new one is tagged: so there are two of it for a moment.
    ///
    /// # Safety
    ///
    /// As for [`realloc`](GlobalAlloc::realloc).
    #[cold]
    #[inline(never)]
    unsafe fn copied(
        &self,
        block: *mut u8,
        layout: Layout,
        new_size: usize,
        owner: u16,
    ) -> *mut u8 {
        // SAFETY: the caller guarantees that the new size is valid for the alignment, and that the block is of the layout's
        // size; the new one, which is another, is of the new size at least.
        unsafe {
            let new_layout =
                inner_layout(Layout::from_size_align_unchecked(new_size, layout.align()));
            let new = self.inner.alloc(new_layout);
            if new.is_null() {
                return new;
            }
            if !put(new, new_size, owner) {
                self.inner.dealloc(new, new_layout);
                return null_mut();
            }
            new.copy_from_nonoverlapping(block, layout.size().min(new_size));
            self.inner.dealloc(block, inner_layout(layout));
            new
        }
    }
}

/// Whether a block gets smaller and has a place for its tag where it is, which is where allocators leave such blocks; that
/// there are two of it would be refused where memory is short, and whoever makes a block smaller expects no refusal.
#[cold]
fn has_place(block: *mut u8, size: usize, new_size: usize) -> bool {
    new_size <= size && place_or_make(block, Part::of(new_size)).is_some()
}
