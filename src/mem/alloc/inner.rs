//! mimalloc, as the allocator inside. Unsafe.
//!
//! Mechanism; any thread.

#![allow(unsafe_code, reason = "a part of the allocator")]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

/// mimalloc, called by its plain entry points where their alignment will do: the aligned ones, which the `mimalloc`
/// crate always calls, miss the fast path for some sizes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mimalloc;

// The crate with the bindings declares them with a feature that brings more of them.
unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_malloc_small(size: usize) -> *mut c_void;
}

/// What [`mi_malloc_small`] takes at most: `MI_SMALL_SIZE_MAX`.
const SMALL: usize = 128 * size_of::<usize>();

impl Mimalloc {
    /// Gives memory that is free, and kept for the calling thread or for nobody, back to the system.
    pub(in crate::mem) fn collect() {
        // SAFETY: the signature is that of `mimalloc.h`; it takes no pointer, works on the calling thread's own heap, and
        // any thread may call it at any time outside of mimalloc itself, which calls none of our code.
        unsafe { mi_collect(true) }
    }

    /// A block whose alignment is above what every block has.
    ///
    /// # Safety
    ///
    /// As for [`alloc`](GlobalAlloc::alloc).
    #[cold]
    #[inline(never)]
    unsafe fn alloc_aligned(layout: Layout) -> *mut u8 {
        let size = layout.size();
        // SAFETY: any size is allowed, and any alignment that is a power of two.
        unsafe {
            if Mimalloc::is_natural(layout, size) {
                libmimalloc_sys::mi_malloc(size).cast()
            } else {
                libmimalloc_sys::mi_malloc_aligned(size, layout.align()).cast()
            }
        }
    }

    /// A block that is not small. It is called cold, seldom or not, so that the code of small ones falls through.
    ///
    /// # Safety
    ///
    /// As for [`alloc`](GlobalAlloc::alloc).
    #[cold]
    #[inline(never)]
    unsafe fn alloc_above(size: usize) -> *mut u8 {
        // SAFETY: any size is allowed.
        unsafe { libmimalloc_sys::mi_malloc(size).cast() }
    }

    /// Whether mimalloc aligns a block of that layout by itself: to 16 bytes from that size on, to 8 below.
    #[inline(always)]
    const fn is_natural(layout: Layout, size: usize) -> bool {
        layout.align() <= 8 || (layout.align() <= 16 && size >= 16)
    }
}

// SAFETY: mimalloc is an allocator with malloc's contract: blocks are disjoint, of at least the size asked for, null
// if there is none, and it does not unwind. `mi_free` and `mi_realloc*` take blocks from any of its entry points.
unsafe impl GlobalAlloc for Mimalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size();
        // SAFETY: any size is allowed, up to `SMALL` where that is asked.
        unsafe {
            if layout.align() > 8 {
                Mimalloc::alloc_aligned(layout)
            } else if size <= SMALL {
                mi_malloc_small(size).cast()
            } else {
                Mimalloc::alloc_above(size)
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let size = layout.size();
        // SAFETY: as in `alloc`.
        unsafe {
            if Mimalloc::is_natural(layout, size) {
                libmimalloc_sys::mi_zalloc(size).cast()
            } else {
                libmimalloc_sys::mi_zalloc_aligned(size, layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller's block is one of mimalloc's.
        unsafe { libmimalloc_sys::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's block is one of mimalloc's, and sizes and alignments are as in `alloc`.
        unsafe {
            if Mimalloc::is_natural(layout, new_size) {
                libmimalloc_sys::mi_realloc(block.cast(), new_size).cast()
            } else {
                libmimalloc_sys::mi_realloc_aligned(block.cast(), new_size, layout.align()).cast()
            }
        }
    }
}
