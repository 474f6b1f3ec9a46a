//! What may be done with our types: exactly what may be done with tokio's, judged by the compiler.

use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

/// Whether a type is what a marker asks for: the inherent constant is preferred where it exists.
struct Is<T: ?Sized> {
    _type: PhantomData<T>,
}

macro_rules! judge {
    ($($marker:ident: $yes:ident, $no:ident;)+) => {$(
        #[allow(dead_code, reason = "no type above lacks all of these")]
        trait $no {
            const $marker: bool = false;
        }
        impl<T: ?Sized> $no for Is<T> {}
                impl<T: ?Sized + $yes> Is<T> {
            const $marker: bool = true;
        }
    )+};
}

judge! {
    SEND: Send, NotSend;
    SYNC: Sync, NotSync;
    UNPIN: Unpin, NotUnpin;
    UNWIND_SAFE: UnwindSafe, NotUnwindSafe;
    REF_UNWIND_SAFE: RefUnwindSafe, NotRefUnwindSafe;
    CLONE: Clone, NotClone;
    COPY: Copy, NotCopy;
}

/// Everything that is known of one type.
macro_rules! all {
    ($type:ty) => {
        [
            Is::<$type>::SEND,
            Is::<$type>::SYNC,
            Is::<$type>::UNPIN,
            Is::<$type>::UNWIND_SAFE,
            Is::<$type>::REF_UNWIND_SAFE,
            Is::<$type>::CLONE,
            Is::<$type>::COPY,
        ]
    };
}

/// Equal; but ours may be unwind safe where tokio's is not: that of its `JoinSet` depends on which locks tokio is
/// built with.
const fn same(tokio: [bool; 7], ours: [bool; 7]) -> bool {
    let mut i = 0;
    while i < tokio.len() {
        let more = ours[i] && (i == 3 || i == 4);
        if tokio[i] != ours[i] && !more {
            return false;
        }
        i += 1;
    }
    true
}

macro_rules! same {
    ($($tokio:ty = $ours:ty;)+) => {$(
        const _: () = assert!(same(all!($tokio), all!($ours)), stringify!($ours));
    )+};
}

macro_rules! same_with {
    ($($output:ty),+ $(,)?) => {$(
        same! {
            tokio::task::JoinHandle<$output> = quotient::JoinHandle<$output>;
            tokio::task::JoinSet<$output> = quotient::JoinSet<$output>;
            tokio_util::task::AbortOnDropHandle<$output> = quotient::task::AbortOnDropHandle<$output>;
        }
    )+};
}

same! {
    tokio::task::AbortHandle = quotient::AbortHandle;
    tokio::task::JoinError = quotient::JoinError;
    tokio::task::Id = quotient::task::Id;
    tokio_util::task::AbortOnDrop = quotient::task::AbortOnDrop;
}

struct Pinned {
    _pin: PhantomPinned,
}

same_with! {
    (),
    Cell<u8>,
    Rc<u8>,
    *mut u8,
    Pinned,
    std::sync::MutexGuard<'static, u8>,
    &'static mut u8,
    &'static Cell<u8>,
    Box<dyn FnMut() + Send>,
}

/// The comparison itself can tell.
#[test]
fn the_judge_sees_differences() {
    assert_eq!(all!(u8), [true; 7]);
    assert_eq!(
        all!(Rc<Cell<u8>>),
        [false, false, true, false, false, true, false]
    );
    assert!(!same(all!(u8), all!(Rc<Cell<u8>>)));
}
