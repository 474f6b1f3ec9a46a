//! Tagging a block that is about to be handed out. Unsafe.
//!
//! Mechanism; any thread, inside the allocator. The numbered invariants are those of the [allocator](super).

#![allow(unsafe_code, reason = "a part of the allocator")]

use super::table::{make_leaf, place_of};
use super::tag::{is_behind, outgoing};
use crate::mem::{local, slot};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

/// Tags a block that the inner allocator gave for `size` bytes, already charged to `owner`. Null if it gave none: then
/// the charge is undone.
///
/// # Safety
///
/// `block` is null, or of [`inner_size`](super::tag::inner_size)`(size)` bytes and nobody else's.
#[inline(always)]
pub(super) unsafe fn tag(block: *mut u8, size: usize, owner: u16) -> *mut u8 {
    if is_behind(size) {
        // SAFETY: by the caller.
        unsafe { tag_behind(block, size, owner) }
    } else {
        tag_in_table(block, size, owner)
    }
}

/// [`tag`] for a block with a footer.
///
/// # Safety
///
/// As for `tag`.
#[inline(always)]
pub(super) unsafe fn tag_behind(block: *mut u8, size: usize, owner: u16) -> *mut u8 {
    if block.is_null() {
        return refund(owner, size);
    }
    // SAFETY: invariant 2: the two bytes behind `size` are the block's.
    unsafe { block.add(size).cast::<u16>().write_unaligned(owner) };
    outgoing(block)
}

/// [`tag`] for a block whose tag is in the table.
#[inline(always)]
pub(super) fn tag_in_table(block: *mut u8, size: usize, owner: u16) -> *mut u8 {
    if block.is_null() {
        return refund(owner, size);
    }
    let Some(place) = place_of(block, size) else {
        return tag_in_new_leaf(block, size, owner);
    };
    // Relaxed: invariant 3.
    place.store(owner, Relaxed);
    outgoing(block)
}

#[cold]
#[inline(never)]
fn tag_in_new_leaf(block: *mut u8, size: usize, owner: u16) -> *mut u8 {
    make_leaf(block);
    if let Some(place) = place_of(block, size) {
        place.store(owner, Relaxed);
    } else {
        // No memory for the leaf, or an address without one. The block will be taken for the process's, also if a
        // leaf is made later: it begins with zeros.
        local::give(owner, size as u64);
        slot::force_charge(0, size as u64);
    }
    outgoing(block)
}

#[cold]
fn refund(owner: u16, size: usize) -> *mut u8 {
    local::give(owner, size as u64);
    null_mut()
}
