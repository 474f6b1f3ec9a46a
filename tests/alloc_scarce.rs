//! Where the system has no memory left for tags: a block is its owner's all the same, or it is refused. Each in a process
//! of its own, under a limit of its address space.
//!
//! The allocator is called directly, beside the program's own, so that nothing else needs what is scarce. Blocks with a footer
//! bring the inner one up; where there are none, this would need another beginning.

#![cfg(all(unix, not(quotient_side_table)))]
#![allow(unsafe_code, clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]

use quotient::alloc::GroupAlloc;
use quotient::mem::{OwnerHandle, enter, serve};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;

mod support;

static ALLOC: GroupAlloc = GroupAlloc::new();

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

/// Two MiB are left: not enough for all the tags of a stretch of addresses.
fn little(query: &Arc<OwnerHandle>) {
    let taken = Taken::down_to(2 * MIB);
    let mut blocks = [(std::ptr::null_mut::<u8>(), 0); 8 * 50];
    let mut live = 0;
    let mut wrong = 0;
    for (n, block) in blocks.iter_mut().enumerate() {
        let size = IN_TABLE[n % IN_TABLE.len()];
        *block = (unsafe { ALLOC.alloc(layout(size)) }, size);
        if !block.0.is_null() {
            live += size as u64;
        }
        wrong += usize::from(query.used() != live);
    }
    // Growing and shrinking too.
    for (block, size) in &mut blocks {
        let other = if *size < KIB { 2 * *size } else { *size - 1 };
        let moved = unsafe { ALLOC.realloc(*block, layout(*size), other) };
        if !moved.is_null() {
            live = live + other as u64 - *size as u64;
            (*block, *size) = (moved, other);
        }
        wrong += usize::from(query.used() != live);
    }
    drop(taken);
    assert_eq!(wrong, 0, "blocks were not their owner's");
    for (block, size) in blocks {
        free(block, size);
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
            other => panic!("nothing is called {other}"),
        }
    }
    assert_eq!((query.used(), governor.used()), (0, 0));
    println!("alive");
}

#[test]
fn blocks_are_their_owners_where_there_is_little_room_for_tags() {
    support::in_child_within(ADDRESS_SPACE, "little");
}

#[test]
fn a_block_whose_tag_cannot_be_had_is_refused_and_what_it_would_have_replaced_stays() {
    support::in_child_within(ADDRESS_SPACE, "nothing");
}
