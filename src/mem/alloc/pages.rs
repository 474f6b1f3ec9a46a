//! Pages for the table, straight from the system: an allocator might have to clear what it used before, and so touch all
//! of it. Unsafe.
//!
//! Mechanism; any thread, inside the allocator.

#![allow(unsafe_code, reason = "a part of the allocator")]

/// Zeros, aligned as a page is. Null if there are none.
#[cfg(unix)]
pub(super) fn map(size: usize) -> *mut u8 {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    use std::ptr::null_mut;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // Not every system can be told that most of it will never be used.
    #[cfg(target_os = "linux")]
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    #[cfg(not(target_os = "linux"))]
    let flags = MapFlags::PRIVATE;
    // SAFETY: the system chooses where; nothing that is there is replaced.
    let pages = unsafe { mmap_anonymous(null_mut(), size, protection, flags) };
    let Ok(pages) = pages else {
        return null_mut();
    };
    // Of huge pages each tag would be two MiB. If that cannot be said, it is only dearer.
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        // SAFETY: advice about the mapping made above, which does not change what it holds.
        let _ = unsafe { madvise(pages, size, Advice::LinuxNoHugepage) };
    }
    pages.cast()
}

/// # Safety
///
/// `pages` are from [`map`] with this size, and nobody else knows of them.
#[cfg(unix)]
pub(super) unsafe fn unmap(pages: *mut u8, size: usize) {
    // SAFETY: by the caller. If it fails, some addresses are lost.
    let _ = unsafe { rustix::mm::munmap(pages.cast(), size) };
}

/// As much as any table entry needs.
#[cfg(not(unix))]
const ALIGN: usize = align_of::<u64>();

#[cfg(not(unix))]
pub(super) fn map(size: usize) -> *mut u8 {
    use std::alloc::{GlobalAlloc, Layout, System};
    match Layout::from_size_align(size, ALIGN) {
        // SAFETY: no caller asks for 0 bytes.
        Ok(layout) => unsafe { System.alloc_zeroed(layout) },
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
///
/// `pages` are from [`map`] with this size, and nobody else knows of them.
#[cfg(not(unix))]
pub(super) unsafe fn unmap(pages: *mut u8, size: usize) {
    use std::alloc::{GlobalAlloc, Layout, System};
    if let Ok(layout) = Layout::from_size_align(size, ALIGN) {
        // SAFETY: by the caller: they were allocated with this layout.
        unsafe { System.dealloc(pages, layout) }
    }
}
