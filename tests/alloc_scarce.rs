//! Where the system has no memory left for tags: a block is its owner's all the same, or it is refused. Each in a process
//! of its own, under a limit of its address space.
//!
//! The allocator is called directly, beside the program's own, so that nothing else needs what is scarce, and over one that
//! counts what it has handed out. Blocks with a footer bring that up; where there are none, this would need another beginning.

#![cfg(all(target_os = "linux", feature = "mimalloc", not(quotient_side_table)))]
#![allow(unsafe_code, clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]

use quotient::alloc::{GroupAlloc, Mimalloc};
use quotient::mem::{OwnerHandle, enter, serve};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt as _;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

mod support;

static ALLOC: GroupAlloc<Counted> = GroupAlloc::over(Counted);

/// mimalloc, counted: what was asked for must come back, and with the size that it was asked for with.
struct Counted;

static BLOCKS: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);
static CALLS_OF_ALLOC: AtomicI64 = AtomicI64::new(0);

fn counted(block: *mut u8, bytes: i64, blocks: i64) -> *mut u8 {
    if !block.is_null() {
        BLOCKS.fetch_add(blocks, Relaxed);
        BYTES.fetch_add(bytes, Relaxed);
    }
    block
}

unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS_OF_ALLOC.fetch_add(1, Relaxed);
        counted(unsafe { Mimalloc.alloc(layout) }, layout.size() as i64, 1)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = unsafe { Mimalloc.alloc_zeroed(layout) };
        counted(block, layout.size() as i64, 1)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        counted(block, -(layout.size() as i64), -1);
        unsafe { Mimalloc.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let new = unsafe { Mimalloc.realloc(block, layout, new_size) };
        counted(new, new_size as i64 - layout.size() as i64, 0)
    }
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Of the whole process: some hundred more than it needs, and less than what mimalloc would like to have at once.
const ADDRESS_SPACE: usize = 600 * MIB;

/// Address space that is taken, never touched, and given back when dropped.
struct Taken(Vec<(usize, Layout)>);

impl Taken {
    /// All but less than `least`, of what can be had.
    fn down_to(least: usize) -> Taken {
        // Reserved first: afterwards there may be nothing to grow into.
        let mut taken = Taken(Vec::with_capacity(100_000));
        let mut size = 64 * MIB;
        while size >= least {
            let layout = Layout::from_size_align(size, 8).unwrap();
            let block = unsafe { System.alloc(layout) };
            if block.is_null() || taken.0.len() == taken.0.capacity() {
                size /= 2;
            } else {
                taken.0.push((block as usize, layout));
            }
        }
        taken
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        for (block, layout) in self.0.drain(..) {
            unsafe { System.dealloc(block as *mut u8, layout) };
        }
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn free(block: *mut u8, size: usize) {
    assert!(!block.is_null());
    unsafe { ALLOC.dealloc(block, layout(size)) };
}

/// Sizes whose tags are in the table, of each kind.
const IN_TABLE: [usize; 8] = [8, 16, 64, 512, KIB, 4 * KIB, 20 * KIB, 100_000];

/// The inner allocator has memory, in which no block of the table has been yet.
fn warmed_up() {
    for _ in 0..2 {
        let blocks: Vec<_> = [40, 300, 900]
            .iter()
            .map(|&size| (unsafe { ALLOC.alloc(layout(size)) }, size))
            .collect();
        blocks
            .into_iter()
            .for_each(|(block, size)| free(block, size));
    }
}

/// Sizes and what they become: tags that stay where they are, that move within the table, into it and out of it.
const RESIZED: [(usize, usize); 9] = [
    (8, 16),
    (64, 128),
    (200, 256),
    (512, KIB),
    (KIB, 1000),
    (4 * KIB, 4 * KIB - 1),
    (20 * KIB, 20 * KIB - 1),
    (100_000, 99_999),
    (16 * KIB, 40 * KIB),
];

/// A block and what it is filled with.
#[derive(Clone, Copy)]
struct Block(*mut u8, usize, u8);

impl Block {
    fn fill(self) {
        if !self.0.is_null() {
            unsafe { self.0.write_bytes(self.2, self.1) };
        }
    }

    /// Bytes of the first `size` that are others.
    fn wrong(self, size: usize) -> usize {
        let bytes = unsafe { std::slice::from_raw_parts(self.0, size.min(self.1)) };
        bytes.iter().filter(|&&byte| byte != self.2).count()
    }
}

/// Two MiB are left: not enough for all the tags of a stretch of addresses.
fn little(query: &Arc<OwnerHandle>) {
    // Had first and given back last, so that it does not matter what the rest is.
    let left = layout(2 * MIB);
    // The optimiser must not take it and its end for nothing.
    let gap = black_box(unsafe { System.alloc(left) });
    let taken = Taken::down_to(64 * KIB);
    unsafe { System.dealloc(gap, left) };
    let mut blocks = [Block(null_mut(), 0, 0); RESIZED.len() * 40];
    let mut used = 0;
    let (mut live, mut resized) = (0, 0);
    // Of blocks that were not their owner's, of bytes that changed, and of those that moved for nothing.
    let mut wrong = [0; 3];
    for (n, block) in blocks.iter_mut().enumerate() {
        let (size, _) = RESIZED[n % RESIZED.len()];
        *block = Block(unsafe { ALLOC.alloc(layout(size)) }, size, n as u8);
        block.fill();
        if !block.0.is_null() {
            live += 1;
            used += size as u64;
        }
        wrong[0] += usize::from(query.used() != used);
    }
    for (block, (size, other)) in blocks.iter_mut().zip(RESIZED.into_iter().cycle()) {
        if block.0.is_null() {
            continue;
        }
        let calls = CALLS_OF_ALLOC.load(Relaxed);
        let moved = unsafe { ALLOC.realloc(block.0, layout(size), other) };
        if !moved.is_null() {
            resized += 1;
            used = used + other as u64 - size as u64;
            (block.0, block.1) = (moved, other);
        }
        wrong[0] += usize::from(query.used() != used);
        wrong[1] += block.wrong(size);
        let stays = other < size && other.ilog2() == size.ilog2();
        wrong[2] += usize::from(stays && CALLS_OF_ALLOC.load(Relaxed) != calls);
        block.fill();
    }
    drop(taken);
    println!("{live} and {resized} of {}", blocks.len());
    assert_eq!(wrong, [0; 3]);
    assert!(live >= 300 && resized >= 300, "{live} and {resized}");
    for block in blocks.into_iter().filter(|block| !block.0.is_null()) {
        assert_eq!(block.wrong(block.1), 0, "{} bytes", block.1);
        free(block.0, block.1);
    }
}

/// Nothing is left.
fn nothing(query: &Arc<OwnerHandle>) {
    let kept = unsafe { ALLOC.alloc(layout(200)) };
    unsafe { kept.write_bytes(7, 200) };
    let taken = Taken::down_to(64);
    let refused = [8, 64, 512, 4 * KIB].map(|size| unsafe {
        let plain = ALLOC.alloc(layout(size));
        let zeroed = ALLOC.alloc_zeroed(layout(size));
        let grown = ALLOC.realloc(kept, layout(200), 64 * size);
        let shrunk = ALLOC.realloc(kept, layout(200), 128);
        (
            [plain, zeroed, grown, shrunk].map(|block| block.is_null()),
            query.used(),
        )
    });
    // What has its tag behind it needs no other memory.
    let behind = unsafe { ALLOC.alloc(layout(40)) };
    let used = query.used();
    drop(taken);
    assert_eq!(refused, [([true; 4], 200); 4]);
    assert_eq!(used, 240);
    assert!((0..200).all(|n| unsafe { *kept.add(n) } == 7));
    free(behind, 40);
    free(kept, 200);
    // It was refused once; now there is memory.
    for size in IN_TABLE {
        let block = unsafe { ALLOC.alloc(layout(size)) };
        assert_eq!(query.used(), size as u64);
        free(block, size);
    }
}

/// Nothing is left, and nobody has noticed when a block is grown.
fn first() {
    let kept = unsafe { ALLOC.alloc(layout(200)) };
    let _taken = Taken::down_to(64);
    unsafe { ALLOC.realloc(kept, layout(200), 256) };
}

/// What the other tests start, as a process; by itself it has nothing to do.
#[test]
fn child() {
    let Some(name) = support::told_to_child() else {
        return;
    };
    let governor = OwnerHandle::open_governor();
    let query = OwnerHandle::open_query(&OwnerHandle::open_group(&governor));
    {
        let _serving = serve(None);
        let _entered = enter(&query);
        warmed_up();
        match name.as_str() {
            "little" => little(&query),
            "nothing" => nothing(&query),
            "first" => first(),
            other => panic!("nothing is called {other}"),
        }
    }
    assert_eq!((query.used(), governor.used()), (0, 0));
    assert_eq!((BLOCKS.load(Relaxed), BYTES.load(Relaxed)), (0, 0));
    println!("alive");
}

#[test]
fn blocks_are_their_owners_where_there_is_little_room_for_tags() {
    let _watch = support::watch("tags are scarce", String::new);
    support::in_child_within(ADDRESS_SPACE, "little");
}

#[test]
fn a_block_whose_tag_cannot_be_had_is_refused_and_what_it_would_have_replaced_stays() {
    let _watch = support::watch("tags are scarce", String::new);
    support::in_child_within(ADDRESS_SPACE, "nothing");
}

#[test]
fn a_block_that_has_moved_when_its_tag_cannot_be_had_for_the_first_time_ends_the_process() {
    let _watch = support::watch("tags are scarce", String::new);
    let ended = support::child_within(ADDRESS_SPACE, "first");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.signal(), Some(6), "{said}");
    // Not by the program's own allocator.
    assert!(!said.contains("memory allocation"), "{said}");
}
