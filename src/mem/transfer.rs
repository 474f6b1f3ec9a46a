//! A large buffer becomes another owner's without being copied: its tag is changed, and the charge goes with it.
//!
//! Mechanism; any thread, outside of the allocator.

use super::alloc::tag_of;
use super::owner::{OwnerHandle, enter};
use super::promise;
use super::shortfall::Shortfall;
use super::{is_installed, local};
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

/// What can be handed over as a whole: one block of the global allocator.
///
/// Vectors, strings and boxed slices. What their elements own in turn stays whose it is.
pub trait Buffer: sealed::Block {}

impl<T> Buffer for Vec<T> {}
impl Buffer for String {}
impl<T> Buffer for Box<[T]> {}

mod sealed {
    pub trait Block {
        /// Where the block is, and of how many bytes.
        fn block(&mut self) -> (*mut u8, usize);
    }

    impl<T> Block for Vec<T> {
        fn block(&mut self) -> (*mut u8, usize) {
            let size = self.capacity().saturating_mul(size_of::<T>());
            (self.as_mut_ptr().cast(), size)
        }
    }

    impl Block for String {
        fn block(&mut self) -> (*mut u8, usize) {
            (self.as_ptr().cast_mut(), self.capacity())
        }
    }

    impl<T> Block for Box<[T]> {
        fn block(&mut self) -> (*mut u8, usize) {
            (self.as_mut_ptr().cast(), size_of_val(&**self))
        }
    }
}

/// Makes `buffer` the property of `owner`. The bytes that moved: 0 for small buffers, for one that is the owner's
/// already, and where nothing is tracked.
pub(crate) fn transfer(owner: &OwnerHandle, buffer: &mut impl Buffer) -> Result<u64, Shortfall> {
    let (block, size) = buffer.block();
    if size == 0 || !is_global() {
        return Ok(0);
    }
    let (to, bytes) = (owner.owner().0, size as u64);
    let Some(tag) = tag_of(block, size) else {
        return Ok(0);
    };
    // Relaxed: the buffer is borrowed, so that nobody frees it meanwhile.
    let from = tag.load(Relaxed);
    if from == to {
        return Ok(0);
    }
    // Charged first: what is there is never more than what is charged.
    charge(owner, bytes)?;
    tag.store(to, Relaxed);
    local::give(from, bytes);
    Ok(bytes)
}

/// What the owner has reserved is taken first.
fn charge(owner: &OwnerHandle, bytes: u64) -> Result<(), Shortfall> {
    let number = owner.owner().0;
    let drawn = promise::of(number).draw(bytes);
    owner.try_charge(bytes - drawn).inspect_err(|_| {
        promise::credit(number, drawn);
    })
}

/// Whether blocks of the standard library are tagged. The allocator may be in use without being the global one.
fn is_global() -> bool {
    static GLOBAL: OnceLock<bool> = OnceLock::new();
    const PROBE: usize = 4096;
    is_installed()
        && *GLOBAL.get_or_init(|| {
            let probe = OwnerHandle::open_governor();
            let _entered = enter(&probe);
            let block = black_box(Vec::<u8>::with_capacity(PROBE));
            let counted = probe.used() >= PROBE as u64;
            drop(block);
            counted
        })
}
