//! The table of tags: whose a block is, found by its address and its size. Unsafe.
//!
//! Mechanism; any thread, inside the allocator. The numbered invariants are those of the [allocator](super).
//!
//! 64 MiB of addresses have a leaf; a leaf has a part per power of two, `2^g` bytes, with a place for each `2^g` bytes
//! of address. A block has its place in the part of the largest power that it holds:
//!
//! ```text
//!  place    1        2 … 3      …   2^(26-g) … 2^(27-g) - 1   …    2^23 … 2^24 - 1
//!  blocks   64 MiB   32 … 64        2^g … 2^(g+1) - 1              8 … 15 bytes
//! ```
//!
//! So a tag costs two bytes, whatever the block: a leaf is 32 MiB of addresses, of which only the pages with tags
//! become memory.

#![allow(unsafe_code, reason = "a part of the allocator")]

use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicPtr, AtomicU16,
    Ordering::{AcqRel, Acquire},
};

/// What a leaf covers.
const LEAF_BITS: u32 = 26;
/// No block in the table is smaller.
pub(super) const LEAST: usize = 8;
/// Places of a leaf: as many as the part of the smallest blocks has, and as many again for all other parts.
const PLACES: usize = 2 << (LEAF_BITS - LEAST.ilog2());
const LEAF_SIZE: usize = PLACES * size_of::<AtomicU16>();
/// User space of today's 64-bit machines. Blocks beyond, should there ever be one, are the process's.
const ADDRESS_BITS: u32 = if usize::BITS == 64 { 48 } else { 32 };

static LEAVES: [AtomicPtr<AtomicU16>; 1 << (ADDRESS_BITS - LEAF_BITS)] =
    [const { AtomicPtr::new(null_mut()) }; 1 << (ADDRESS_BITS - LEAF_BITS)];

/// The place of a block of `size` bytes, if its leaf is there.
#[inline(always)]
pub(super) fn place_of(block: *mut u8, size: usize) -> Option<&'static AtomicU16> {
    let address = block.addr();
    let leaf = LEAVES.get(address >> LEAF_BITS)?.load(Acquire);
    if leaf.is_null() {
        return None;
    }
    let within = address & ((1 << LEAF_BITS) - 1);
    // What is smaller than `LEAST` is not in the table; here it only matters that no place is outside of the leaf.
    let part = (size | LEAST).ilog2().min(LEAF_BITS);
    let place = (1 << LEAF_BITS | within) >> part;
    // SAFETY: a leaf that was published is `PLACES` zeroed, hence initialised, atomics that are never freed. The place
    // is below `2 << LEAF_BITS >> part`, and no part is below that of `LEAST`.
    Some(unsafe { &*leaf.add(place) })
}

/// Makes the leaf of a block. If there is no memory for it, or the address has none, it will still be missing.
#[cold]
#[inline(never)]
pub(super) fn make_leaf(block: *mut u8) {
    let Some(entry) = LEAVES.get(block.addr() >> LEAF_BITS) else {
        return;
    };
    let leaf = map();
    if leaf.is_null() {
        return;
    }
    // The alignment of a page is that of an atomic.
    let published = entry.compare_exchange(null_mut(), leaf.cast(), AcqRel, Acquire);
    if published.is_err() {
        // SAFETY: it was mapped above, of this size, and nobody else has seen it.
        unsafe { unmap(leaf) };
    }
}

/// Zeros for a leaf, straight from the system: an allocator might have to clear what it used before, and so touch
/// all of it. Null if there are none.
#[cfg(unix)]
fn map() -> *mut u8 {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // Not every system can be told that most of it will never be used.
    #[cfg(target_os = "linux")]
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    #[cfg(not(target_os = "linux"))]
    let flags = MapFlags::PRIVATE;
    // SAFETY: the system chooses where; nothing that is there is replaced.
    let leaf = unsafe { mmap_anonymous(null_mut(), LEAF_SIZE, protection, flags) };
    let Ok(leaf) = leaf else {
        return null_mut();
    };
    // Of huge pages each tag would be two MiB. If that cannot be said, it is only dearer.
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        // SAFETY: advice about the mapping made above, which does not change what it holds.
        let _ = unsafe { madvise(leaf, LEAF_SIZE, Advice::LinuxNoHugepage) };
    }
    leaf.cast()
}

/// # Safety
///
/// `leaf` is from [`map`], and nobody else knows of it.
#[cfg(unix)]
unsafe fn unmap(leaf: *mut u8) {
    // SAFETY: by the caller. If it fails, some addresses are lost.
    let _ = unsafe { rustix::mm::munmap(leaf.cast(), LEAF_SIZE) };
}

#[cfg(not(unix))]
const LEAF: std::alloc::Layout = match std::alloc::Layout::array::<AtomicU16>(PLACES) {
    Ok(layout) => layout,
    Err(_) => panic!("a leaf is larger than the address space"),
};

#[cfg(not(unix))]
fn map() -> *mut u8 {
    use std::alloc::GlobalAlloc;
    // SAFETY: the layout's size is not 0.
    unsafe { std::alloc::System.alloc_zeroed(LEAF) }
}

/// # Safety
///
/// `leaf` is from [`map`], and nobody else knows of it.
#[cfg(not(unix))]
unsafe fn unmap(leaf: *mut u8) {
    use std::alloc::GlobalAlloc;
    // SAFETY: by the caller: it was allocated with this layout.
    unsafe { std::alloc::System.dealloc(leaf, LEAF) }
}

#[cfg(test)]
mod tests {
    use super::{LEAF_BITS, LEAST, PLACES, make_leaf, place_of};
    use std::ptr::without_provenance_mut;

    /// A range of addresses that no allocator gives: the table never looks at what is there.
    const NOWHERE: usize = 0x7fff << 32 >> LEAF_BITS << LEAF_BITS;

    fn place(address: usize, size: usize) -> usize {
        let block = without_provenance_mut::<u8>(address);
        if place_of(block, size).is_none() {
            make_leaf(block);
        }
        std::ptr::from_ref(place_of(block, size).unwrap()).addr()
    }

    #[test]
    fn blocks_side_by_side_have_each_their_place_whatever_their_sizes() {
        let mut random = 1_u64;
        let mut taken = std::collections::HashSet::new();
        let (mut at, end) = (NOWHERE, NOWHERE + (3 << LEAF_BITS));
        while at < end {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let size = LEAST + (random >> 33) as usize % (LEAST << (random >> 60));
            assert!(taken.insert(place(at, size)), "{size} bytes at {at:x}");
            at += size;
        }
        assert!(taken.len() > 10_000);
    }

    #[test]
    fn a_place_is_within_its_leaf_to_the_last_byte_of_it() {
        let first = place(NOWHERE, 1 << LEAF_BITS) - size_of::<u16>();
        for size in [LEAST, 1000, 1 << LEAF_BITS, usize::MAX >> 1] {
            let last = place(NOWHERE + (1 << LEAF_BITS) - 1, size);
            assert!(
                (first..first + PLACES * size_of::<u16>()).contains(&last),
                "{size}"
            );
        }
    }

    #[test]
    fn an_address_beyond_the_table_has_no_place() {
        let beyond = without_provenance_mut::<u8>(usize::MAX - 4096);
        if usize::BITS == 64 {
            make_leaf(beyond);
            assert!(place_of(beyond, 64).is_none());
        }
    }
}
