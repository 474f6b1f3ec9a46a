//! What a block costs: taken and given back through mimalloc, the system's allocator and `GroupAlloc`, interleaved.
//!
//! ```text
//! cargo bench --bench alloc_pairs                          ns per pair, ratio to mimalloc
//! alloc_pairs --count ALLOCATOR SIZE ROUNDS [foreign]      for valgrind, which counts the instructions; `none` measures itself
//! ```

#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use mimalloc::MiMalloc;
use quotient::alloc::GroupAlloc;
use quotient::mem::{OwnerHandle, enter, serve};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

static GROUPS: GroupAlloc = GroupAlloc::new();
static GROUPS_OVER_SYSTEM: GroupAlloc<System> = GroupAlloc::over(System);

/// Gives the same block again and again: what the measuring itself costs.
struct Nothing(std::cell::UnsafeCell<[u64; 1024]>);

unsafe impl Sync for Nothing {}

unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        self.0.get().cast()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

static NOTHING: Nothing = Nothing(std::cell::UnsafeCell::new([0; 1024]));

/// Blocks that are alive at once: the allocator's free lists work, its pages are not retired.
const BATCH: usize = 64;

/// One batch: taken, touched, given back.
#[inline(never)]
fn batch<A: GlobalAlloc>(
    alloc: &A,
    layout: Layout,
    blocks: &mut [*mut u8; BATCH],
    free_as: Option<&OwnerHandle>,
) {
    for block in blocks.iter_mut() {
        *block = unsafe { alloc.alloc(black_box(layout)) };
        unsafe { block.write(1) };
    }
    black_box(&*blocks);
    let _entered = free_as.map(enter);
    for block in blocks.iter() {
        unsafe { alloc.dealloc(*block, black_box(layout)) };
    }
}

fn count(allocator: &str, size: usize, rounds: usize, foreign: bool) {
    let governor = OwnerHandle::open_governor();
    let group = OwnerHandle::open_group(&governor);
    let (query, other) = (
        OwnerHandle::open_query(&group),
        OwnerHandle::open_query(&group),
    );
    let _serving = serve(None);
    // As a worker is between two polls: with nobody entered.
    let _entered = (allocator != "poll").then(|| enter(&query));
    let layout = Layout::from_size_align(size, 8).unwrap();
    let mut blocks = [std::ptr::null_mut(); BATCH];
    for _ in 0..rounds {
        let free_as = foreign.then_some(&*other);
        match allocator {
            "mimalloc" => batch(&MiMalloc, layout, &mut blocks, free_as),
            "system" => batch(&System, layout, &mut blocks, free_as),
            "groups" => batch(&GROUPS, layout, &mut blocks, free_as),
            "poll" => {
                // What a poll pays for its owner: entered and left.
                for _ in 0..BATCH {
                    drop(black_box(enter(&other)));
                }
            }
            "none" => batch(&NOTHING, layout, &mut blocks, free_as),
            other => panic!("no allocator is called {other}"),
        }
    }
}

/// The fastest of many batches, per pair.
fn nanoseconds<A: GlobalAlloc>(alloc: &A, layout: Layout) -> f64 {
    let mut blocks = [std::ptr::null_mut(); BATCH];
    let since = Instant::now();
    const BATCHES: usize = 40;
    for _ in 0..BATCHES {
        batch(alloc, layout, &mut blocks, None);
    }
    since.elapsed().as_nanos() as f64 / (BATCHES * BATCH) as f64
}

/// Taken on one thread, given back on another.
fn across<A: GlobalAlloc + Sync>(
    alloc: &'static A,
    layout: Layout,
    query: &Arc<OwnerHandle>,
) -> f64 {
    const PAIRS: usize = 64 * 400;
    let (sender, receiver) = sync_channel::<[usize; BATCH]>(16);
    let other = query.clone();
    let taker = std::thread::spawn(move || {
        let _serving = serve(None);
        let _entered = enter(&other);
        for block in receiver.into_iter().flatten() {
            unsafe { alloc.dealloc(block as *mut u8, layout) };
        }
    });
    let since = Instant::now();
    for _ in 0..PAIRS / BATCH {
        let blocks = std::array::from_fn(|_| unsafe {
            let block = alloc.alloc(layout);
            block.write(1);
            block as usize
        });
        sender.send(blocks).unwrap();
    }
    drop(sender);
    taker.join().unwrap();
    since.elapsed().as_nanos() as f64 / PAIRS as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn table() {
    let governor = OwnerHandle::open_governor();
    let group = OwnerHandle::open_group(&governor);
    let query = OwnerHandle::open_query(&group);
    let _serving = serve(None);
    let _entered = enter(&query);
    println!("ns per pair; ratio to mimalloc: median of the rounds' ratios\n");
    println!(
        "{:>14} {:>10} {:>16} {:>16} {:>16}",
        "size", "mimalloc", "system", "groups", "groups/system"
    );
    for size in [16, 48, 64, 256, 1000, 1024, 4096, 16_384] {
        row(&size.to_string(), 300, |round| {
            let layout = Layout::from_size_align(size, 8).unwrap();
            let mut ns = [0.0; 4];
            for turn in 0..4 {
                let which = (turn + round) % 4;
                ns[which] = match which {
                    0 => nanoseconds(&MiMalloc, layout),
                    1 => nanoseconds(&System, layout),
                    2 => nanoseconds(&GROUPS, layout),
                    _ => nanoseconds(&GROUPS_OVER_SYSTEM, layout),
                };
            }
            ns
        });
    }
    for size in [64, 1024, 16_384] {
        row(&format!("{size} across"), 15, |_| {
            let layout = Layout::from_size_align(size, 8).unwrap();
            [
                across(&MiMalloc, layout, &query),
                across(&System, layout, &query),
                across(&GROUPS, layout, &query),
                across(&GROUPS_OVER_SYSTEM, layout, &query),
            ]
        });
    }
}

fn row(name: &str, rounds: usize, mut measure: impl FnMut(usize) -> [f64; 4]) {
    let rounds: Vec<[f64; 4]> = (0..rounds).map(&mut measure).collect();
    let column =
        |which: usize| median(&mut rounds.iter().map(|round| round[which]).collect::<Vec<_>>());
    let ratio = |which: usize| {
        median(
            &mut rounds
                .iter()
                .map(|round| round[which] / round[0])
                .collect::<Vec<_>>(),
        )
    };
    print!("{name:>14} {:>10.2}", column(0));
    for which in 1..4 {
        print!(" {:>8.2} ({:.2})", column(which), ratio(which));
    }
    println!();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == "--count") {
        Some(at) => {
            let size = arguments[at + 2].parse().unwrap();
            let rounds = arguments[at + 3].parse().unwrap();
            let foreign = arguments.get(at + 4).is_some_and(|word| word == "foreign");
            count(&arguments[at + 1], size, rounds, foreign);
        }
        None => table(),
    }
}
