//! An allocator that is not the program's own is called for the first time while threads are inside of owners. A process
//! of its own: the first call happens once.

use quotient::alloc::GroupAlloc;
use quotient::mem::{OwnerHandle, enter, serve};
use std::alloc::{GlobalAlloc, Layout};
use std::sync::mpsc::sync_channel;
use std::thread;

static ALLOC: GroupAlloc = GroupAlloc::new();

#[test]
fn what_a_thread_frees_that_was_inside_before_the_first_call_goes_back_to_its_owner() {
    let governor = OwnerHandle::open_governor();
    let query = OwnerHandle::open_query(&OwnerHandle::open_group(&governor));
    let layout = Layout::from_size_align(64, 8).unwrap();
    let (inside, entered) = sync_channel(0);
    let (give, given) = sync_channel::<usize>(0);
    let query = &query;
    thread::scope(|scope| {
        scope.spawn(move || {
            let _serving = serve(None);
            {
                let _owner = enter(query);
                inside.send(()).unwrap();
                let block = std::ptr::with_exposed_provenance_mut(given.recv().unwrap());
                // SAFETY: the other thread has it from this allocator, of this layout, and gave it away.
                #[allow(unsafe_code, reason = "an allocator is called")]
                unsafe {
                    ALLOC.dealloc(block, layout);
                }
            }
            let _again = enter(query);
        });
        entered.recv().unwrap();
        let _owner = enter(query);
        // SAFETY: the layout is not of size zero.
        #[allow(unsafe_code, reason = "an allocator is called")]
        let block = unsafe { ALLOC.alloc(layout) };
        give.send(block.expose_provenance()).unwrap();
    });
    assert_eq!((query.used(), governor.used()), (0, 0));
}
