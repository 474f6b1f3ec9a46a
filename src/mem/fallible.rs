//! Scopes in which a request that does not fit simply fails, or in which none is refused.
//!
//! Mechanism; the thread that enters them.

use super::local;
use std::cell::Cell;

/// A scope of this thread, left on every way out. It must not reach over an `.await`: closures, not guards, are
/// given out.
struct Scope(fn(&local::Local) -> &Cell<u32>);

impl Scope {
    fn enter(count: fn(&local::Local) -> &Cell<u32>) -> Scope {
        local::with(|local| count(local).set(count(local).get().saturating_add(1)));
        Scope(count)
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        local::with(|local| {
            let count = (self.0)(local);
            count.set(count.get().saturating_sub(1));
        });
    }
}

/// Runs `f`; meanwhile, an allocation on this thread that does not fit its limit returns null, so that
/// `Vec::try_reserve` and its like report it. Nobody is killed for it, and not a byte beyond the limit is granted.
///
/// Allocations that cannot report it, such as `Vec::push`, abort the process when they get null: keep the scope
/// around the fallible ones.
///
/// ```
/// let mut rows: Vec<u8> = Vec::new();
/// quotient::memory::fallible(|| rows.try_reserve(1024)).expect("there is no limit here");
/// ```
pub fn fallible<R>(f: impl FnOnce() -> R) -> R {
    let _scope = Scope::enter(local::Local::fallible);
    f()
}

/// Whether this thread is inside [`fallible`].
pub fn is_fallible() -> bool {
    local::with(|local| local.fallible().get() > 0)
}

/// Runs `f`; meanwhile, nothing on this thread is refused: what has been killed must be able to clean up.
pub(crate) fn lifted<R>(f: impl FnOnce() -> R) -> R {
    let _scope = Scope::enter(local::Local::lifted);
    f()
}
