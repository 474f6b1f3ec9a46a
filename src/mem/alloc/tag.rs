//! A block's tag: where it is, how the compiler is kept from knowing of it, how it is read. Unsafe.
//!
//! Mechanism; any thread, inside the allocator. The numbered invariants are those of the [allocator](super).

#![allow(unsafe_code, reason = "a part of the allocator")]

use std::alloc::Layout;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU16, Ordering::Acquire, Ordering::Relaxed};

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
pub(super) const FOOTER_MOST: usize = if FOOTERS { 1022 } else { 0 };
/// Addresses that share a place in the table; no block without a footer is smaller.
const GRANULE_BITS: u32 = if FOOTERS { 10 } else { 4 };

/// What is asked of the inner allocator for a block of `size`: invariants 1 and 2.
#[inline(always)]
pub(super) const fn inner_size(size: usize) -> usize {
    if size <= FOOTER_MOST {
        size + TAG
    } else if size < 1 << GRANULE_BITS {
        1 << GRANULE_BITS
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

// ---- the table of tags --------------------------------------------------------------------------------------

/// What a leaf of the table covers: 64 MiB of addresses. With one tag per KiB it is 128 KiB, allocated when the
/// first block of that range is.
pub(super) const LEAF_BITS: u32 = 26;
const LEAF_TAGS: usize = 1 << (LEAF_BITS - GRANULE_BITS);
/// User space of today's 64-bit machines. Blocks beyond, should there ever be one, are the process's.
const ADDRESS_BITS: u32 = if usize::BITS == 64 { 48 } else { 32 };

pub(super) static LEAVES: [AtomicPtr<AtomicU16>; 1 << (ADDRESS_BITS - LEAF_BITS)] =
    [const { AtomicPtr::new(null_mut()) }; 1 << (ADDRESS_BITS - LEAF_BITS)];

pub(super) const LEAF: Layout = match Layout::array::<AtomicU16>(LEAF_TAGS) {
    Ok(layout) => layout,
    Err(_) => panic!("a leaf is larger than the address space"),
};

/// A block's place in the table, if its leaf is there.
#[inline]
pub(super) fn place_of(block: *mut u8) -> Option<&'static AtomicU16> {
    let address = block.addr();
    let leaf = LEAVES.get(address >> LEAF_BITS)?.load(Acquire);
    if leaf.is_null() {
        return None;
    }
    // SAFETY: a leaf that was published is `LEAF_TAGS` zeroed, hence initialised, atomics that are never freed;
    // the index is taken modulo that number.
    Some(unsafe { &*leaf.add(address >> GRANULE_BITS & (LEAF_TAGS - 1)) })
}

// ---- reading it -------------------------------------------------------------------------------------------

/// The owner of a block of ours.
///
/// # Safety
///
/// `block` is a live block of `size` bytes that `GroupAlloc::tag` handed out, passed through [`incoming`].
#[inline(always)]
pub(super) unsafe fn owner_of(block: *mut u8, size: usize) -> u16 {
    if size <= FOOTER_MOST {
        // SAFETY: invariants 2 and 3: the two bytes behind `size` are the block's, and were written.
        return unsafe { block.add(size).cast::<u16>().read_unaligned() };
    }
    // A block that was tagged has a place, unless it lies where there is no table.
    place_of(block).map_or(0, |place| place.load(Relaxed))
}
