//! The table of tags: whose a block is, found by its address and its size. Unsafe.
//!
//! Mechanism; any thread, inside the allocator. The numbered invariants are those of the [allocator](super).
//!
//! A region, 64 MiB of addresses, has a leaf; a leaf has a part per power of two, `2^g` bytes, with a place for each
//! `2^g` bytes of address. A block has its place in the part of the largest power that it holds:
//!
//! ```text
//!  place    0     1          2 … 3      …   2^(26-g) … 2^(27-g) - 1   …   2^23 … 2^24 - 1
//!  blocks   more  64 … 128   32 … 64 MiB    2^g … 2^(g+1) - 1             8 … 15 bytes
//! ```
//!
//! Of blocks as large as a region or larger, one at most begins in it. So a tag costs two bytes, whatever the block: a
//! leaf is 32 MiB of addresses, of which only the pages with tags become memory.
//!
//! Where the system does not give that many at once (it may limit addresses, or count them as memory), the region's leaf
//! is in pieces from then on: a directory of 512, each mapped when a tag falls on it, and asked for again at the next
//! tag if there was no memory. What is published, a leaf, a directory or a piece, stays for good.

#![allow(unsafe_code, reason = "a part of the allocator")]

use super::pages::{map, unmap};
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU16,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// What a leaf covers.
const LEAF_BITS: u32 = 26;
/// No block in the table is smaller.
pub(super) const LEAST: usize = 8;
/// Places of a leaf: as many as the part of the smallest blocks has, and as many again for all other parts.
const PLACES: usize = 2 << (LEAF_BITS - LEAST.ilog2());
const LEAF_SIZE: usize = PLACES * size_of::<AtomicU16>();

/// Tags, or null: the first of `PLACES` or of `PIECE_PLACES`.
type Tags = AtomicPtr<AtomicU16>;
const PIECE_PLACES: usize = 1 << 15;
const PIECE_SIZE: usize = PIECE_PLACES * size_of::<AtomicU16>();
const PIECES: usize = PLACES / PIECE_PLACES;
const DIRECTORY_SIZE: usize = PIECES * size_of::<Tags>();

/// User space of today's 64-bit machines. Blocks beyond, as in the upper half that illumos gives to programs, are refused.
const ADDRESS_BITS: u32 = if usize::BITS == 64 { 48 } else { 32 };
/// Not a power of two of them: compilers would make another shift of the address of comparing a region's number with that.
const REGIONS: usize = (1 << (ADDRESS_BITS - LEAF_BITS)) - (usize::BITS == 64) as usize;

/// Each region's leaf, or its directory, which is [marked](DIRECTORY), or null: nothing yet.
///
/// Region 0 never has a leaf, but a directory: so a null pointer, which would be in it, has no place in a leaf.
static TABLE: [Tags; REGIONS] = [const { Tags::new(null_mut()) }; REGIONS];

/// The mark of a directory, which no leaf has: programs live in the lower half of 64-bit addresses, and elsewhere a page
/// does not begin at an odd one.
const DIRECTORY: usize = if usize::BITS == 64 { 1 << 63 } else { 1 };

/// The region of an address. Above, Android's allocator has bits that are none of the address's.
#[inline(always)]
fn region(block: *mut u8) -> usize {
    let address = if cfg!(all(target_os = "android", target_pointer_width = "64")) {
        block.addr() & (usize::MAX >> (usize::BITS - ADDRESS_BITS))
    } else {
        block.addr()
    };
    address >> LEAF_BITS
}

/// A leaf could not be mapped, or a part of one, or an address was beyond the table.
static SCARCE: AtomicBool = AtomicBool::new(false);

/// Whether memory for tags was missing once, and may be again.
#[inline(always)]
pub(super) fn is_scarce() -> bool {
    SCARCE.load(Relaxed)
}

/// Which part of a leaf: the power of two. Never below that of [`LEAST`], nor above 63.
#[derive(Clone, Copy)]
pub(super) struct Part(u32);

impl Part {
    /// Where blocks of `size` bytes have their places.
    #[inline(always)]
    pub(super) const fn of(size: usize) -> Part {
        // What is smaller than `LEAST` is not in the table; here it only matters that no place is outside of the leaf.
        Part((size | LEAST).ilog2())
    }

    /// The same for a power of two: how many zeros it ends with, which is one step on all of today's x86, where the number of the
    /// highest bit takes many on some.
    ///
    /// # Safety
    ///
    /// `size` is a power of two from [`LEAST`] on.
    #[inline(always)]
    pub(super) const unsafe fn of_power(size: usize) -> Part {
        // SAFETY: by the caller.
        unsafe { std::hint::assert_unchecked(size >= LEAST) };
        Part(size.trailing_zeros())
    }

    /// The place in its leaf of a block that begins at `address`: below `2 << LEAF_BITS >> part`, hence below `PLACES`.
    #[inline(always)]
    fn place(self, address: usize) -> usize {
        let within = address & ((1 << LEAF_BITS) - 1);
        (1 << LEAF_BITS | within) >> self.0
    }
}

/// The place of a block, if its region has a leaf. Null has none.
#[inline(always)]
pub(super) fn place_in_leaf(block: *mut u8, part: Part) -> Option<&'static AtomicU16> {
    let entry = TABLE.get(region(block))?.load(Acquire);
    if !is_leaf(entry) {
        return None;
    }
    // SAFETY: a leaf that was published is `PLACES` zeroed, hence initialised, atomics that are never freed.
    Some(unsafe { &*entry.add(part.place(block.addr())) })
}

/// The tag of a block, if its region has a leaf.
///
/// # Safety
///
/// `block` is alive, and what it was handed out with was a tag in this part.
#[inline(always)]
pub(super) unsafe fn tag_in_leaf(block: *mut u8, part: Part) -> Option<u16> {
    // SAFETY: invariant 5: its region is in the table, and what that had when the block was tagged it has now: a leaf as
    // in `place_in_leaf`, or a directory. Whoever handed the block on made that known as well.
    unsafe {
        let entry = region_of_tagged(block);
        if entry.addr() & DIRECTORY != 0 {
            return None;
        }
        // Relaxed: invariant 3.
        Some((*entry.add(part.place(block.addr()))).load(Relaxed))
    }
}

/// The tag of a block whose region has none.
///
/// # Safety
///
/// As for [`tag_in_leaf`], which found none.
#[cold]
#[inline(never)]
pub(super) unsafe fn tag_in_piece(block: *mut u8, part: Part) -> u16 {
    let place = part.place(block.addr());
    // SAFETY: as in `tag_in_leaf`; so it has a directory, and that the piece.
    unsafe {
        let tags = piece_of(region_of_tagged(block), place).load(Acquire);
        (*tags.add(place % PIECE_PLACES)).load(Relaxed)
    }
}

/// What the region of a block has.
///
/// # Safety
///
/// `block` has a tag in the table.
#[inline(always)]
unsafe fn region_of_tagged(block: *mut u8) -> *mut AtomicU16 {
    // SAFETY: by the caller; `place_or_make` and `place_in_leaf` find no place where the table has no region.
    unsafe { TABLE.get_unchecked(region(block)) }.load(Acquire)
}

/// The place of a block, made if there is none yet. None if there is no memory for it, or the address has none.
#[cold]
#[inline(never)]
pub(super) fn place_or_make(block: *mut u8, part: Part) -> Option<&'static AtomicU16> {
    let region = region(block);
    let place = part.place(block.addr());
    let Some(entry) = TABLE.get(region) else {
        // As good as no memory: the next block that is resized must not find out when it has moved.
        SCARCE.store(true, Relaxed);
        return None;
    };
    let entry = leaf_or_directory(entry, region > 0)?;
    if is_leaf(entry) {
        // SAFETY: as in `place_in_leaf`.
        return Some(unsafe { &*entry.add(place) });
    }
    // SAFETY: then it is a directory, and the place is below `PLACES`.
    let piece = unsafe { piece_of(entry, place) };
    let mut tags = piece.load(Acquire);
    if tags.is_null() {
        tags = publish(piece, mapped(PIECE_SIZE), 0, PIECE_SIZE)?;
    }
    // SAFETY: a piece that was published is `PIECE_PLACES` zeroed atomics that are never freed.
    Some(unsafe { &*tags.add(place % PIECE_PLACES) })
}

/// What a region has, which it is given now if that is nothing.
fn leaf_or_directory(entry: &Tags, leaf: bool) -> Option<*mut AtomicU16> {
    let now = entry.load(Acquire);
    if !now.is_null() {
        return Some(now);
    }
    if leaf && let Some(given) = publish(entry, mapped(LEAF_SIZE), 0, LEAF_SIZE) {
        return Some(given);
    }
    publish(entry, mapped(DIRECTORY_SIZE), DIRECTORY, DIRECTORY_SIZE)
}

/// Neither null nor a directory.
#[inline(always)]
fn is_leaf(entry: *mut AtomicU16) -> bool {
    if usize::BITS == 64 {
        // The same as below in one comparison.
        entry.addr().cast_signed() > 0
    } else {
        !entry.is_null() && entry.addr() & DIRECTORY == 0
    }
}

/// Where a directory has the piece with a place.
///
/// # Safety
///
/// `entry` is a directory that was published, and `place` below `PLACES`.
#[inline(always)]
unsafe fn piece_of(entry: *mut AtomicU16, place: usize) -> &'static Tags {
    let directory = entry.map_addr(|address| address & !DIRECTORY);
    // SAFETY: a directory is `PIECES` zeroed pointers, null ones, that are never freed; a page is aligned for them.
    unsafe { &*directory.cast::<Tags>().add(place / PIECE_PLACES) }
}

/// Zeros for `size` bytes of tags or pointers; none if there are none, or not where the mark can be told from addresses.
fn mapped(size: usize) -> Option<*mut u8> {
    let pages = map(size);
    if !pages.is_null() && pages.addr() & DIRECTORY == 0 {
        return Some(pages);
    }
    SCARCE.store(true, Relaxed);
    if !pages.is_null() {
        // SAFETY: they were mapped above, of this size, and nobody else has seen them.
        unsafe { unmap(pages, size) };
    }
    None
}

/// Gives an entry that was null what was [mapped] for it, unless another thread was first. What it has now; none if it still
/// has nothing.
fn publish(
    entry: &Tags,
    pages: Option<*mut u8>,
    mark: usize,
    size: usize,
) -> Option<*mut AtomicU16> {
    let Some(pages) = pages else {
        // What was missing may be what another thread has mapped for the same entry.
        let first = entry.load(Acquire);
        return (!first.is_null()).then_some(first);
    };
    let marked = pages.map_addr(|address| address | mark).cast();
    match entry.compare_exchange(null_mut(), marked, AcqRel, Acquire) {
        Ok(_) => Some(marked),
        Err(first) => {
            // SAFETY: they were mapped for this, of this size, and nobody else has seen them.
            unsafe { unmap(pages, size) };
            Some(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        DIRECTORY, DIRECTORY_SIZE, LEAF_BITS, LEAST, PIECE_SIZE, PIECES, PLACES, Part, REGIONS,
        TABLE, Tags, is_scarce, mapped, place_in_leaf, place_or_make, publish, tag_in_leaf,
        tag_in_piece,
    };
    use std::collections::HashSet;
    use std::ptr::{null_mut, without_provenance_mut};
    use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

    static NEXT: AtomicU16 = AtomicU16::new(1);

    /// The last of all addresses, eight regions for each test; the table never looks at what is there.
    const NOWHERE: usize = (REGIONS - 8) << LEAF_BITS;
    const NOWHERE_ELSE: usize = (REGIONS - 16) << LEAF_BITS;
    const NOWHERE_IN_PIECES: usize = (REGIONS - 24) << LEAF_BITS;

    fn place(address: usize, size: usize) -> usize {
        let (block, part) = (without_provenance_mut::<u8>(address), Part::of(size));
        let place = place_or_make(block, part).unwrap();
        let tag = NEXT.fetch_add(1, Relaxed);
        place.store(tag, Relaxed);
        // SAFETY: it has a place, with a tag.
        let found =
            unsafe { tag_in_leaf(block, part).unwrap_or_else(|| tag_in_piece(block, part)) };
        assert_eq!(found, tag);
        std::ptr::from_ref(place).addr()
    }

    fn in_pieces(address: usize) {
        publish(
            &TABLE[address >> LEAF_BITS],
            mapped(DIRECTORY_SIZE),
            DIRECTORY,
            DIRECTORY_SIZE,
        )
        .unwrap();
        let block = without_provenance_mut::<u8>(address);
        place_or_make(block, Part::of(64)).unwrap();
        assert!(place_in_leaf(block, Part::of(64)).is_none());
    }

    fn each_has_its_own(from: usize) {
        let mut random = 1_u64;
        let mut taken = HashSet::new();
        let (mut at, end) = (from, from + (3 << LEAF_BITS));
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
    fn blocks_side_by_side_have_each_their_place_whatever_their_sizes() {
        each_has_its_own(NOWHERE);
    }

    #[test]
    fn blocks_side_by_side_have_each_their_place_where_leaves_are_in_pieces() {
        // The second of three.
        in_pieces(NOWHERE_IN_PIECES + (1 << LEAF_BITS));
        each_has_its_own(NOWHERE_IN_PIECES);
    }

    #[test]
    fn a_place_is_within_its_leaf_to_the_last_byte_of_it() {
        let first = place(NOWHERE_ELSE, 1 << LEAF_BITS) - size_of::<u16>();
        assert_eq!(place(NOWHERE_ELSE, 2 << LEAF_BITS), first);
        for size in [LEAST, 1000, 1 << LEAF_BITS, usize::MAX >> 1, usize::MAX] {
            let last = place(NOWHERE_ELSE + (1 << LEAF_BITS) - 1, size);
            assert!(
                (first..first + PLACES * size_of::<u16>()).contains(&last),
                "{size}"
            );
        }
    }

    #[test]
    fn a_directory_has_a_piece_for_every_place() {
        assert_eq!(PIECES, 512);
        let last = NOWHERE_IN_PIECES + (5 << LEAF_BITS) - 1;
        in_pieces(last);
        for part in LEAST.ilog2()..=LEAF_BITS {
            place(last, 1 << part);
            place(last >> part << part, 1 << part);
        }
    }

    #[test]
    fn whoever_comes_second_with_tags_for_an_entry_or_has_none_takes_those_of_the_first() {
        for mark in [0, DIRECTORY] {
            let entry = Tags::new(null_mut());
            assert_eq!(publish(&entry, None, mark, PIECE_SIZE), None);
            let first = publish(&entry, mapped(PIECE_SIZE), mark, PIECE_SIZE).unwrap();
            assert_eq!(entry.load(Relaxed), first);
            for (second, of) in [
                (mapped(PIECE_SIZE), PIECE_SIZE),
                (mapped(DIRECTORY_SIZE), DIRECTORY_SIZE),
                (None, 0),
            ] {
                assert_eq!(publish(&entry, second, DIRECTORY, of), Some(first));
                assert_eq!(entry.load(Relaxed), first);
            }
        }
    }

    #[test]
    fn null_has_no_place_in_a_leaf() {
        place(4096, 64);
        assert!(place_in_leaf(std::ptr::null_mut(), Part::of(64)).is_none());
    }

    #[test]
    fn an_address_beyond_the_table_has_no_place() {
        let beyond = without_provenance_mut::<u8>(usize::MAX - 4096);
        if usize::BITS == 64 {
            assert!(place_or_make(beyond, Part::of(64)).is_none());
            assert!(is_scarce());
            assert!(place_in_leaf(beyond, Part::of(64)).is_none());
        }
    }
}
