//! A block's tag: where it is, how the compiler is kept from knowing of it, how it is read. Unsafe.
//!
//! Mechanism; any thread, inside the allocator. The numbered invariants are those of the [allocator](super).

#![allow(unsafe_code, reason = "a part of the allocator")]

use super::table::{LEAST, place_of};
use std::alloc::Layout;
use std::sync::atomic::Ordering::Relaxed;

// ---- the shape of a block -----------------------------------------------------------------------------------

/// Whether tags can be behind the block: inline assembler is there to hide them. `--cfg quotient_side_table` puts
/// all of them in the table.
const FOOTERS: bool = cfg!(all(
    not(quotient_side_table),
    any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv32",
        target_arch = "riscv64",
        target_arch = "loongarch64",
        target_arch = "s390x",
    )
));
const TAG: usize = size_of::<u16>();
/// The largest block with a footer: with it, it is still small for the common allocators (1024 bytes).
const FOOTER_MOST: usize = 1022;

/// Whether the tag of a block is behind it, and not in the table.
///
/// Allocators hand blocks out in classes, of which the small ones are multiples of 16 bytes: a block that fills its
/// class, or all of it but a byte, would with a footer need the next one, which is up to twice as large.
#[inline(always)]
pub(super) const fn is_behind(size: usize) -> bool {
    // What is one less than a multiple of 16, or one: without its last bit, one more is that multiple.
    FOOTERS && size <= FOOTER_MOST && (size + 1) & 14 != 0
}

/// Whether a block is one of those that programs have by the million.
#[inline(always)]
pub(super) const fn is_small(size: usize) -> bool {
    size <= FOOTER_MOST
}

/// What is asked of the inner allocator for a block of `size`: invariants 1 and 2.
#[inline(always)]
pub(super) const fn inner_size(size: usize) -> usize {
    if is_behind(size) {
        size + TAG
    } else if size < LEAST {
        LEAST
    } else {
        size
    }
}

/// # Safety
///
/// `layout` is a valid one.
#[inline(always)]
pub(super) unsafe fn inner_layout(layout: Layout) -> Layout {
    // SAFETY: the alignment is a layout's, so a power of two. A size that grows, grows to 1024 at most. Rounded up
    // to an alignment of up to 1024, that is 1024; rounded up to a larger one, it is that alignment, as the size
    // before was, which is a valid layout's (its size is not 0).
    unsafe { Layout::from_size_align_unchecked(inner_size(layout.size()), layout.align()) }
}

// ---- what the compiler must not know (invariant 4) ----------------------------------------------------------

/// The pointer, behind a statement that the compiler cannot look into; `$memory` says whether that reads memory.
macro_rules! hidden {
    ($block:expr, $memory:ident) => {{
        let block = $block;
        #[cfg(any(
            target_arch = "x86_64",
            target_arch = "x86",
            target_arch = "aarch64",
            target_arch = "arm",
            target_arch = "riscv32",
            target_arch = "riscv64",
            target_arch = "loongarch64",
            target_arch = "s390x",
        ))]
        let block = {
            let mut hidden = block;
            // SAFETY: no instruction at all; the register keeps its value.
            unsafe {
                std::arch::asm!("/* {0} */", inout(reg) hidden, options(pure, $memory, nostack, preserves_flags));
            }
            hidden
        };
        block
    }};
}

/// A block that comes in: its tag may be read.
#[inline(always)]
#[expect(
    clippy::pointers_in_nomem_asm_block,
    reason = "there is no instruction in it that could use the pointer"
)]
pub(super) fn incoming(block: *mut u8) -> *mut u8 {
    hidden!(block, nomem)
}

/// A block that goes out: its tag may be read by others from now on, so it must be there; for the compiler the
/// statement reads it.
#[inline(always)]
pub(super) fn outgoing(block: *mut u8) -> *mut u8 {
    hidden!(block, readonly)
}

// ---- reading it -------------------------------------------------------------------------------------------

/// The owner of a block of ours.
///
/// # Safety
///
/// `block` is a live block of `size` bytes that `GroupAlloc::tag` handed out, passed through [`incoming`].
#[inline(always)]
pub(super) unsafe fn owner_of(block: *mut u8, size: usize) -> u16 {
    if is_behind(size) {
        // SAFETY: invariants 2 and 3: the two bytes behind `size` are the block's, and were written.
        return unsafe { block.add(size).cast::<u16>().read_unaligned() };
    }
    // A block that was tagged has a place, unless it lies where there is no table.
    place_of(block, size.max(LEAST)).map_or(0, |place| place.load(Relaxed))
}
