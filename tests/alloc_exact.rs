//! Every byte is somebody's until it is freed: whoever frees it, wherever, whenever.
//!
//! The allocator is called directly, beside the program's own, so that the tests know of every block.

#![allow(unsafe_code, clippy::unwrap_used, clippy::undocumented_unsafe_blocks)]

use quotient::alloc::GroupAlloc;
use quotient::mem::{OwnerHandle, enter, root_used, serve};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;

static ALLOC: GroupAlloc = GroupAlloc::new();
static OVER_SYSTEM: GroupAlloc<System> = GroupAlloc::over(System);

/// The tests share one table: those that count what is in it take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// xorshift64*: the same operations in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    /// Mostly small, around the border between the two kinds of tags, sometimes large.
    fn layout(&mut self) -> Layout {
        let size = match self.below(10) {
            0..=4 => 1 + self.below(128),
            5..=6 => 1 + self.below(1500),
            7 => 1015 + self.below(20),
            8 => 1 + self.below(20_000),
            _ => 1 + self.below(300_000),
        };
        let align = 1 << self.below(8);
        Layout::from_size_align(size as usize, align).unwrap()
    }
}

/// Whether all bytes are `byte`: by comparing the block with itself, which is fast without optimisation too.
fn all(bytes: &[u8], byte: u8) -> bool {
    bytes
        .first()
        .is_none_or(|&first| first == byte && bytes[1..] == bytes[..bytes.len() - 1])
}

/// A live block: where, how long, filled with what.
struct Block {
    address: usize,
    layout: Layout,
    fill: u8,
    owner: usize,
}

impl Block {
    fn new<A: GlobalAlloc>(
        alloc: &A,
        layout: Layout,
        fill: u8,
        zeroed: bool,
        owner: usize,
    ) -> Block {
        let at = unsafe {
            if zeroed {
                alloc.alloc_zeroed(layout)
            } else {
                alloc.alloc(layout)
            }
        };
        assert!(!at.is_null());
        assert_eq!(at as usize % layout.align(), 0, "misaligned: {layout:?}");
        let bytes = unsafe { std::slice::from_raw_parts_mut(at, layout.size()) };
        if zeroed {
            assert!(all(bytes, 0), "not zero: {layout:?}");
        }
        bytes.fill(fill);
        Block {
            address: at as usize,
            layout,
            fill,
            owner,
        }
    }

    fn bytes(&self) -> &[u8] {
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.layout.size()) }
    }

    fn check(&self) {
        assert!(all(self.bytes(), self.fill), "damaged: {:?}", self.layout);
    }

    fn resize<A: GlobalAlloc>(&mut self, alloc: &A, size: usize, owner: usize) {
        self.check();
        let kept = size.min(self.layout.size());
        let at = unsafe { alloc.realloc(self.address as *mut u8, self.layout, size) };
        assert!(!at.is_null());
        assert_eq!(at as usize % self.layout.align(), 0);
        if size > self.layout.size() {
            self.owner = owner; // growing makes it the grower's
        }
        self.address = at as usize;
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
        assert!(all(&self.bytes()[..kept], self.fill), "lost in realloc");
        unsafe { std::slice::from_raw_parts_mut(at, size) }.fill(self.fill);
    }

    fn free<A: GlobalAlloc>(self, alloc: &A) {
        self.check();
        unsafe { alloc.dealloc(self.address as *mut u8, self.layout) };
    }
}

/// One thread's operations against a shadow of what should be: each owner's live bytes, each block's content. No two
/// live blocks may overlap, tags included.
/// As a worker does it, with credits of many owners kept, and as any other thread.
fn against_a_shadow<A: GlobalAlloc>(
    alloc: &A,
    seed: u64,
    operations: u64,
    owners: &[Arc<OwnerHandle>],
) {
    let mut random = Random(seed);
    let mut blocks: Vec<Block> = Vec::new();
    let mut shadow = vec![0u64; owners.len()];
    let before: Vec<u64> = owners.iter().map(|owner| owner.used()).collect();
    let _serving = seed.is_multiple_of(2).then(|| serve(None));
    for step in 0..operations {
        let owner = random.below(owners.len() as u64) as usize;
        let _entered = enter(&owners[owner]);
        match random.below(100) {
            0..45 => {
                let layout = random.layout();
                let zeroed = random.below(4) == 0;
                let block = Block::new(alloc, layout, random.next() as u8, zeroed, owner);
                shadow[owner] += layout.size() as u64;
                blocks.push(block);
            }
            45..60 if !blocks.is_empty() => {
                let place = random.below(blocks.len() as u64) as usize;
                let block = &mut blocks[place];
                shadow[block.owner] -= block.layout.size() as u64;
                block.resize(alloc, random.layout().size(), owner);
                shadow[block.owner] += block.layout.size() as u64;
            }
            _ if !blocks.is_empty() => {
                let place = random.below(blocks.len() as u64) as usize;
                let block = blocks.swap_remove(place);
                shadow[block.owner] -= block.layout.size() as u64;
                block.free(alloc);
            }
            _ => {}
        }
        drop(_entered);
        if step % 64 == 0 {
            for (place, owner) in owners.iter().enumerate() {
                assert_eq!(
                    owner.used() - before[place],
                    shadow[place],
                    "owner {place} at step {step}"
                );
            }
        }
    }
    blocks.into_iter().for_each(|block| block.free(alloc));
    for (place, owner) in owners.iter().enumerate() {
        assert_eq!(owner.used(), before[place], "owner {place} at the end");
    }
}

fn family(queries: usize) -> (Arc<OwnerHandle>, Arc<OwnerHandle>, Vec<Arc<OwnerHandle>>) {
    let governor = OwnerHandle::open_governor();
    let group = OwnerHandle::open_group(&governor);
    let queries = (0..queries)
        .map(|_| OwnerHandle::open_query(&group))
        .collect();
    (governor, group, queries)
}

#[test]
fn balances_follow_a_shadow_of_every_block_over_mimalloc() {
    let _turn = turn();
    let (governor, group, queries) = family(5);
    against_a_shadow(&ALLOC, 0x5eed, 20_000, &queries);
    against_a_shadow(&ALLOC, 0x5eee, 20_000, &queries);
    assert_eq!((governor.used(), group.used()), (0, 0));
}

#[test]
fn balances_follow_a_shadow_of_every_block_over_the_systems_allocator() {
    let _turn = turn();
    let (governor, group, queries) = family(5);
    against_a_shadow(&OVER_SYSTEM, 0xfeed, 20_000, &queries);
    against_a_shadow(&OVER_SYSTEM, 0xfeee, 20_000, &queries);
    assert_eq!((governor.used(), group.used()), (0, 0));
}

#[test]
fn live_blocks_do_not_overlap() {
    let _turn = turn();
    let mut random = Random(77);
    let mut blocks: Vec<Block> = (0..20_000)
        .map(|n| Block::new(&ALLOC, random.layout(), n as u8, false, 0))
        .collect();
    blocks.sort_by_key(|block| block.address);
    for pair in blocks.windows(2) {
        assert!(pair[0].address + pair[0].layout.size() <= pair[1].address);
    }
    blocks.into_iter().for_each(|block| block.free(&ALLOC));
}

/// 10⁷ operations in an optimised build; fewer without, where each takes longer.
const OPERATIONS: u64 = if cfg!(debug_assertions) {
    400_000
} else {
    10_000_000
};

#[test]
fn eight_threads_that_hand_their_blocks_around_end_at_zero_in_every_slot() {
    const THREADS: u64 = 8;
    let _turn = turn();
    let (governor, group, queries) = family(40);
    let loose = [governor.clone(), group.clone()];
    let owners: Arc<Vec<_>> = Arc::new(queries.iter().chain(&loose).cloned().collect());
    let shelves: Arc<Vec<Mutex<Vec<Block>>>> =
        Arc::new((0..64).map(|_| Mutex::default()).collect());
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (owners, shelves) = (owners.clone(), shelves.clone());
            thread::spawn(move || {
                let mut random = Random(0x1000 + thread);
                let _serving = thread.is_multiple_of(2).then(|| serve(None));
                for _ in 0..OPERATIONS / THREADS {
                    let owner = random.below(owners.len() as u64) as usize;
                    let _entered = enter(&owners[owner]);
                    // Whatever was put on the shelf last, by whatever thread, is freed, grown or added to.
                    let shelf = &shelves[random.below(64) as usize];
                    let last = shelf.lock().unwrap().pop();
                    match (last, random.below(8)) {
                        (Some(mut block), 0) => {
                            let size = 1 + random.below(3000) as usize;
                            block.resize(&ALLOC, size, owner);
                            shelf.lock().unwrap().push(block);
                        }
                        (Some(block), 1..4) => block.free(&ALLOC),
                        (last, _) => {
                            let size = 1 + random.below(600) as usize;
                            let layout = Layout::from_size_align(size, 8).unwrap();
                            let block =
                                Block::new(&ALLOC, layout, random.next() as u8, false, owner);
                            let mut shelf = shelf.lock().unwrap();
                            shelf.extend(last);
                            if shelf.len() < 200 {
                                shelf.push(block);
                            } else {
                                drop(shelf);
                                block.free(&ALLOC);
                            }
                        }
                    }
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());

    // What is left is exactly what is charged, owner by owner.
    let mut left: HashMap<usize, u64> = HashMap::new();
    for block in shelves
        .iter()
        .flat_map(|shelf| std::mem::take(&mut *shelf.lock().unwrap()))
    {
        *left.entry(block.owner).or_default() += block.layout.size() as u64;
        if block.address % 3 == 0 {
            *left.entry(block.owner).or_default() -= block.layout.size() as u64;
            block.free(&ALLOC);
        } else {
            shelves[0].lock().unwrap().push(block);
        }
    }
    for (place, owner) in owners.iter().enumerate().take(40) {
        assert_eq!(
            owner.used(),
            left.get(&place).copied().unwrap_or(0),
            "owner {place}"
        );
    }
    assert_eq!(governor.used(), left.values().sum::<u64>());
    for block in std::mem::take(&mut *shelves[0].lock().unwrap()) {
        block.free(&ALLOC);
    }
    for (place, owner) in owners.iter().enumerate() {
        assert_eq!(owner.used(), 0, "owner {place}");
    }
}

#[test]
fn memory_of_short_lived_threads_is_exact_while_they_live_and_after() {
    let _turn = turn();
    let (governor, _group, queries) = family(3);
    let (sender, receiver) = mpsc::channel::<Block>();
    for round in 0..300u64 {
        let (query, sender) = (queries[round as usize % 3].clone(), sender.clone());
        thread::spawn(move || {
            let _entered = enter(&query);
            let mut random = Random(round + 1);
            for _ in 0..50 {
                let block = Block::new(&ALLOC, random.layout(), 1, false, 0);
                if random.below(2) == 0 {
                    block.free(&ALLOC);
                } else {
                    sender.send(block).unwrap();
                }
            }
        })
        .join()
        .unwrap();
    }
    drop(sender);
    let blocks: Vec<Block> = receiver.into_iter().collect();
    let live: u64 = blocks.iter().map(|block| block.layout.size() as u64).sum();
    assert!(live > 0);
    assert_eq!(governor.used(), live);
    blocks.into_iter().for_each(|block| block.free(&ALLOC));
    assert_eq!(governor.used(), 0);
}

mod at_the_end_of_a_thread {
    use super::*;
    use std::cell::RefCell;

    /// A thread-local that allocates and frees while it is destroyed.
    struct Late(Vec<Block>, Option<Arc<OwnerHandle>>);

    impl Drop for Late {
        fn drop(&mut self) {
            if let Some(owner) = &self.1 {
                let _entered = enter(owner);
                let more = Block::new(&ALLOC, Layout::new::<[u64; 9]>(), 3, false, 0);
                more.free(&ALLOC);
            }
            for block in self.0.drain(..) {
                block.free(&ALLOC);
            }
        }
    }

    thread_local! {
        static LATE: RefCell<Late> = const { RefCell::new(Late(Vec::new(), None)) };
    }

    /// `first`: the thread-local is registered before the allocator's own, and so destroyed after it; or the other
    /// way round.
    fn ends_at_zero(first: bool) {
        let _turn = turn();
        let (governor, _group, queries) = family(1);
        let query = queries[0].clone();
        thread::spawn(move || {
            if first {
                LATE.with_borrow_mut(|late| late.1 = Some(query.clone()));
            }
            let entered = enter(&query);
            let blocks: Vec<Block> = (1..2000)
                .map(|size| Layout::from_size_align(size, 1).unwrap())
                .map(|layout| Block::new(&ALLOC, layout, 7, false, 0))
                .collect();
            drop(entered);
            LATE.with_borrow_mut(|late| *late = Late(blocks, Some(query.clone())));
        })
        .join()
        .unwrap();
        assert_eq!(governor.used(), 0);
    }

    #[test]
    fn thread_locals_destroyed_after_the_allocators_own_are_counted() {
        ends_at_zero(true);
    }

    #[test]
    fn thread_locals_destroyed_before_the_allocators_own_are_counted() {
        ends_at_zero(false);
    }
}

#[test]
fn a_slot_is_given_to_nobody_while_a_byte_names_it() {
    const QUERIES: usize = if cfg!(debug_assertions) {
        60_000
    } else {
        200_000
    };
    let _turn = turn();
    let governor = OwnerHandle::open_governor();
    let group = OwnerHandle::open_group(&governor);
    let (sender, receiver) = mpsc::channel::<Block>();
    let receiver = Arc::new(Mutex::new(receiver));
    let freeing: Vec<_> = (0..2)
        .map(|_| {
            let receiver = receiver.clone();
            thread::spawn(move || {
                // Frees late, when the query has been closed for a while.
                let mut late = std::collections::VecDeque::new();
                loop {
                    let Ok(block) = receiver.lock().unwrap().recv() else {
                        break;
                    };
                    late.push_back(block);
                    if late.len() > 100 {
                        late.pop_front()
                            .into_iter()
                            .for_each(|block: Block| block.free(&ALLOC));
                    }
                }
                late.into_iter().for_each(|block| block.free(&ALLOC));
            })
        })
        .collect();
    let mut numbers = std::collections::HashSet::new();
    for n in 0..QUERIES {
        let query = OwnerHandle::open_query(&group);
        assert!(query.is_separate());
        assert_eq!(query.used(), 0, "a slot was handed out with a balance");
        numbers.insert(query.owner());
        let _entered = enter(&query);
        let layout = Layout::from_size_align(1 + n % 1500, 1).unwrap();
        let block = Block::new(&ALLOC, layout, n as u8, false, 0);
        sender.send(block).unwrap();
    }
    drop(sender);
    freeing
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(
        numbers.len() < QUERIES / 2,
        "no slot was ever given again: {}",
        numbers.len()
    );
    assert_eq!(governor.used(), 0);
    assert_eq!(group.used(), 0);
}

#[test]
fn when_all_slots_are_pinned_a_query_shares_its_groups() {
    let _turn = turn();
    let governor = OwnerHandle::open_governor();
    let group = OwnerHandle::open_group(&governor);
    let mut queries = Vec::new();
    let one_too_many = loop {
        let query = OwnerHandle::open_query(&group);
        if !query.is_separate() {
            break query;
        }
        queries.push(query);
        assert!(queries.len() < 65_536);
    };
    assert!(queries.len() > 64_000);
    assert_eq!(one_too_many.owner(), group.owner());
    assert!(quotient::mem::shared_owners() > 0);
    {
        let _entered = enter(&one_too_many);
        let block = Block::new(&ALLOC, Layout::new::<[u8; 100]>(), 1, false, 0);
        assert_eq!(group.used(), 100);
        block.free(&ALLOC);
    }
    drop(one_too_many);
    assert_eq!(group.used(), 0);
    drop(queries);
    assert!(OwnerHandle::open_query(&group).is_separate());
}

#[test]
fn guards_nest_and_a_panic_restores_the_owner() {
    let _turn = turn();
    let (_governor, _group, queries) = family(2);
    let outer = enter(&queries[0]);
    let unwound = std::panic::catch_unwind(|| {
        let _inner = enter(&queries[1]);
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(unwound.is_err());
    let used = queries[0].used();
    let block = Block::new(&ALLOC, Layout::new::<[u8; 48]>(), 1, false, 0);
    assert_eq!(queries[0].used() - used, 48);
    assert_eq!(queries[1].used(), 0);
    block.free(&ALLOC);
    drop(outer);
}

/// Nothing has been kept there yet when the first of them comes.
#[test]
fn a_thread_that_begins_with_a_large_block_of_the_process_keeps_three_chunks_of_it_at_most() {
    const SIZE: usize = 64 << 20;
    const CHUNKS: u64 = 3 * (256 << 10);
    let _turn = turn();
    let layout = Layout::from_size_align(SIZE, 8).unwrap();
    let before = root_used();
    let block = unsafe { ALLOC.alloc(layout) } as usize;
    assert!(root_used() >= before + SIZE as u64);
    let left = thread::spawn(move || {
        unsafe { ALLOC.dealloc(block as *mut u8, layout) };
        root_used()
    });
    let left = left.join().unwrap();
    assert!(left <= before + CHUNKS, "{left} of {before}");
    assert!(root_used() <= before + CHUNKS);
}
