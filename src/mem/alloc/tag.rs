//! A block's tag: where it is, how the compiler is kept from knowing of it, how it is read. Unsafe.
//!
//! Mechanism; any thread, inside the allocator. The numbered invariants are those of the [allocator](super).

#![allow(unsafe_code, reason = "a part of the allocator")]

use super::table::{LEAST, Part, tag_in_leaf, tag_in_piece};
use std::alloc::Layout;

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
/// The largest block that is small for the common allocators: with a footer too.
const SMALL_MOST: usize = 1024;

/// Whether the tag of a block is behind it, and not in the table.
#[inline(always)]
pub(super) const fn is_behind(size: usize) -> bool {
    FOOTERS && !is_power(size) && size <= SMALL_MOST - TAG
}

/// Whether a size is a power of two from [`LEAST`] on. No block has size 0.
///
/// Allocators hand small blocks out in classes. A power of two fills its class, and would with a footer need the next
/// one, which is a quarter to twice as large; and it is what programs ask for most: vectors double.
#[inline(always)]
pub(super) const fn is_power(size: usize) -> bool {
    // Nothing is left of a power of two from `LEAST` on, and of nothing else: of what is smaller or has lower bits, such
    // a bit is left, and of what has a bit of at least `LEAST` below its highest, the highest.
    size & size.wrapping_sub(LEAST) == 0
}

/// Whether a block is one of those that programs have by the million, and move by copying.
#[inline(always)]
pub(super) const fn is_small(size: usize) -> bool {
    size <= SMALL_MOST
}

/// What is asked of the inner allocator for a block of `size`: invariants 1 and 2.
#[inline(always)]
pub(super) const fn inner_size(size: usize) -> usize {
    if is_behind(size) {
        size + TAG
    } else {
        table_size(size)
    }
}

/// The same for a block whose tag is in the table.
#[inline(always)]
const fn table_size(size: usize) -> usize {
    if !FOOTERS && size < LEAST {
        LEAST
    } else {
        size
    }
}

/// The layout to ask the inner allocator for.
///
/// # Safety
///
/// `layout` is a valid one.
#[inline(always)]
pub(super) unsafe fn inner_layout(layout: Layout) -> Layout {
    // SAFETY: by the caller.
    unsafe {
        if is_behind(layout.size()) {
            footer_layout(layout)
        } else {
            table_layout(layout)
        }
    }
}

/// [`inner_layout`] of a block with a footer.
///
/// # Safety
///
/// As for `inner_layout`; the tag of such a block [is behind](is_behind) it.
#[inline(always)]
pub(super) unsafe fn footer_layout(layout: Layout) -> Layout {
    // SAFETY: the alignment is a layout's, so a power of two. The size grows to 1024 at most. Rounded up to an
    // alignment of up to 1024, that is 1024; rounded up to a larger one, it is that alignment, as the size before was,
    // which is a valid layout's (its size is not 0).
    unsafe { Layout::from_size_align_unchecked(layout.size() + TAG, layout.align()) }
}

/// [`inner_layout`] of a block whose tag is in the table.
///
/// # Safety
///
/// As for `inner_layout`.
#[inline(always)]
pub(super) unsafe fn table_layout(layout: Layout) -> Layout {
    // SAFETY: as for a footer: what grows here, grows to `LEAST` at most.
    unsafe { Layout::from_size_align_unchecked(table_size(layout.size()), layout.align()) }
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
/// `block` is a live block of `size` bytes that `GroupAlloc` handed out, passed through [`incoming`].
#[inline(always)]
pub(super) unsafe fn owner_of(block: *mut u8, size: usize) -> u16 {
    // SAFETY: by the caller.
    unsafe {
        if is_behind(size) {
            owner_behind(block, size)
        } else {
            let part = Part::of(size);
            tag_in_leaf(block, part).unwrap_or_else(|| tag_in_piece(block, part))
        }
    }
}

/// [`owner_of`] a block with a footer.
///
/// # Safety
///
/// As for `owner_of`.
#[inline(always)]
pub(super) unsafe fn owner_behind(block: *mut u8, size: usize) -> u16 {
    // SAFETY: invariants 2 and 3: the two bytes behind `size` are the block's, and were written.
    unsafe { block.add(size).cast::<u16>().read_unaligned() }
}

#[cfg(test)]
mod tests {
    use super::{FOOTERS, inner_size, is_behind};

    #[test]
    fn powers_of_two_from_8_on_and_what_is_above_1022_have_no_footer() {
        for size in 1..5000_usize {
            let in_table = size > 1022 || (size >= 8 && size.is_power_of_two());
            assert_eq!(is_behind(size), FOOTERS && !in_table, "{size}");
            if FOOTERS {
                assert_eq!(inner_size(size), if in_table { size } else { size + 2 });
            } else {
                assert_eq!(inner_size(size), size.max(8));
            }
        }
    }
}
