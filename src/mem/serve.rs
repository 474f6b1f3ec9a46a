//! What a worker owes the table: to say that it serves, to give credits back when it stops, to look who was doomed.
//!
//! Mechanism; worker threads.

use super::local;
use super::shortfall::Shortfall;

/// While it lives, this thread keeps credits of the owners that it works for. Made by [`serve`].
#[must_use = "credits are given back when the guard is dropped"]
pub struct Serving {
    /// Whether the thread ran a worker before, and how it was parked.
    before: (bool, Option<fn()>),
}

/// This thread runs a worker. `park`: how to take the thread out of the runtime's hands from inside a poll, where
/// that is possible; it need not return.
pub fn serve(park: Option<fn()>) -> Serving {
    Serving {
        before: local::with(|local| local.serve(true, park)),
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        local::with(|local| {
            local.give_back();
            let (serving, park) = self.before;
            local.serve(serving, park);
        });
    }
}

/// This thread is about to sleep: it keeps nothing.
pub(crate) fn flush() {
    local::with(local::Local::give_all_back);
}

/// At the end of a slice: gives credits back if somebody was refused for lack of them, perhaps.
#[inline]
pub(crate) fn look_at_returns() {
    local::with(local::Local::look_at_returns);
}

/// Whether a request on this thread has doomed somebody since it was asked last.
#[inline]
pub(crate) fn take_doom() -> bool {
    local::with(local::Local::take_doom)
}

/// As [`take_doom`], and it can be asked again.
#[inline]
pub(crate) fn is_doomed_here() -> bool {
    local::with(local::Local::has_doom)
}

/// Why the running poll, which belongs to no query, must be its task's last.
pub(crate) fn take_refusal() -> Option<Shortfall> {
    local::with(local::Local::take_refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program's runtime inside of a task has workers too, and the thread is the outer one's again when they return.
    #[test]
    fn a_worker_inside_of_a_poll_leaves_the_outer_one_its_way_to_park() {
        let now = || local::with(|local| (local.is_serving(), local.way_to_park().is_some()));
        assert_eq!(now(), (false, false));
        let outer = serve(Some(|| {}));
        let inner = serve(None);
        assert_eq!(now(), (true, false));
        drop(inner);
        assert_eq!(now(), (true, true));
        drop(outer);
        assert_eq!(now(), (false, false));
    }
}
