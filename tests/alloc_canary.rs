//! Code whose meaning once changed under link-time optimisation, because the compiler knew too much of the allocator:
//! reading a tag behind a block of known size was "unreachable", writing one into a block that is freed next was "dead".
//!
//! Worth its while in an optimised build: the checks run it with `lto` off, thin and fat.

#![allow(clippy::unwrap_used)]

use quotient::alloc::GroupAlloc;
use quotient::mem::{OwnerHandle, enter, serve};
use std::hint::black_box;
use std::process::Command;

#[global_allocator]
static ALLOC: GroupAlloc = GroupAlloc::new();

const ASKED: &str = "QUOTIENT_TEST_CANARY";

/// The branch that drops the default, a block of four bytes of which all is known, must not vanish.
#[inline(never)]
fn choice(given: Option<String>) -> String {
    given.unwrap_or("json".into())
}

#[test]
fn a_default_of_constant_size_is_dropped_on_one_branch_and_kept_on_the_other() {
    if let Some(asked) = std::env::var(ASKED).ok().filter(|asked| !asked.is_empty()) {
        // The child: what was given comes from outside.
        print!("<{}>", choice(Some(asked)));
        return;
    }
    assert_eq!(choice(None), "json");
    for given in ["xml", "csv", "json", "a longer one"] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["a_default_of_constant", "--nocapture"])
            .env(ASKED, given)
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&child.stdout);
        assert!(out.contains(&format!("<{given}>")), "{given}: {out}");
    }
}

/// Takes and frees blocks of a constant size in one function, so that both halves of the allocator may be inlined, and
/// in the other order too; whatever is inlined, the balance says what is there.
macro_rules! constant_sizes {
    ($owner:expr, $($size:literal),*) => {$(
        let before = $owner.used();
        let block: Box<[u8; $size]> = Box::new(black_box([7; $size]));
        let block = black_box(block);
        assert_eq!($owner.used() - before, $size);
        assert_eq!(block[$size - 1], 7);
        drop(block);
        assert_eq!($owner.used(), before, "{} bytes", $size);
        let mut grown: Vec<u8> = Vec::with_capacity($size);
        grown.extend_from_slice(black_box(&[3; $size]));
        grown.push(4);
        assert_eq!(grown.iter().filter(|&&byte| byte == 3).count(), $size);
        drop(grown);
        assert_eq!($owner.used(), before, "{} bytes grown", $size);
    )*};
}

#[test]
fn blocks_of_constant_size_are_counted_however_much_is_inlined() {
    let governor = OwnerHandle::open_governor();
    let group = OwnerHandle::open_group(&governor);
    let query = OwnerHandle::open_query(&group);
    let _serving = serve(None);
    let _entered = enter(&query);
    constant_sizes!(
        query, 1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 48, 64, 100, 512, 1000, 1021, 1022, 1023, 1024,
        1025, 4096, 70_000
    );
}

/// One function frees what another took, for another owner: a tag that was never written would name nobody.
#[inline(never)]
fn take(n: u32) -> Box<[u32; 5]> {
    Box::new([n; 5])
}

#[test]
fn a_tag_is_there_when_the_block_is_freed_elsewhere() {
    let governor = OwnerHandle::open_governor();
    let group = OwnerHandle::open_group(&governor);
    let (first, second) = (
        OwnerHandle::open_query(&group),
        OwnerHandle::open_query(&group),
    );
    let mut held = Vec::with_capacity(1000);
    for n in 0..1000 {
        let _entered = enter(if n % 2 == 0 { &first } else { &second });
        held.push(take(n));
    }
    assert_eq!((first.used(), second.used()), (10_000, 10_000));
    for (n, block) in (0..).zip(held) {
        assert_eq!(*block, [n; 5]);
        drop(block);
    }
    assert_eq!((first.used(), second.used(), governor.used()), (0, 0, 0));
}
