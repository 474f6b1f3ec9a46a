//! Whose place is empty, and who fills it: the protocol that must neither strand work nor leave stand-ins over.
//!
//! Mechanism; any thread. A worker is *absent* while it is stuck in a poll or has stepped aside; a stand-in serves
//! in its place. Invariants:
//! 1. `open` is what is wanted and not filled, as of the last change of the state.
//! 2. Who makes a group ready publishes it in the level-1 queue, *then* reads `open`. A stand-in that finds nothing
//!    opens its place, *then* asks the level-1 queue once more, under its lock. One of the two sees the other
//!    (model-checked below). The same holds for a place that becomes empty.
//! 3. The lock order is: the scheduler's lock, then this one.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Why a worker does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Absence {
    /// It computes in a poll that is late.
    Late,
    /// It waits for something in a poll that is late.
    Blocked,
    /// It said that it would not be back soon: `block_in_place`.
    Aside,
}

/// What a stand-in may serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Role {
    /// Groups of which no poll is late.
    Spare,
    /// Every group.
    Full,
}

/// How many stand-ins there may be.
#[derive(Clone, Copy, Debug)]
pub(in crate::exec) struct Caps {
    /// For workers in late polls.
    pub(in crate::exec) spares: usize,
    /// For workers that stepped aside.
    pub(in crate::exec) aside: usize,
    /// For workers that are lost.
    pub(in crate::exec) lost: usize,
}

impl Caps {
    pub(in crate::exec) fn sum(self) -> usize {
        self.spares + self.aside + self.lost
    }
}

#[derive(Debug)]
pub(in crate::exec) struct Places {
    caps: Caps,
    open: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    late: usize,
    blocked: usize,
    aside: usize,
    lost: usize,
    spares: usize,
    full: usize,
}

impl State {
    fn absent(&mut self, why: Absence) -> &mut usize {
        match why {
            Absence::Late => &mut self.late,
            Absence::Blocked => &mut self.blocked,
            Absence::Aside => &mut self.aside,
        }
    }

    fn serving(&mut self, role: Role) -> &mut usize {
        match role {
            Role::Spare => &mut self.spares,
            Role::Full => &mut self.full,
        }
    }

    /// Stand-ins that are wanted: those that may serve every group, and all.
    fn wanted(&self, caps: &Caps) -> (usize, usize) {
        let blocked = self.blocked.min(caps.spares);
        let full = blocked + self.aside.min(caps.aside) + self.lost.min(caps.lost);
        (full, full + self.late.min(caps.spares - blocked))
    }

    fn next(&self, caps: &Caps) -> Option<Role> {
        let (full, all) = self.wanted(caps);
        if self.spares + self.full >= all {
            None
        } else if self.full < full {
            Some(Role::Full)
        } else {
            Some(Role::Spare)
        }
    }
}

impl Places {
    pub(in crate::exec) fn new(caps: Caps) -> Places {
        Places {
            caps,
            open: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let (_, wanted) = state.wanted(&self.caps);
        let open = wanted.saturating_sub(state.spares + state.full);
        self.open.store(open, SeqCst);
        result
    }

    /// Whether work that nobody else takes should call for a stand-in.
    #[inline]
    pub(in crate::exec) fn is_open(&self) -> bool {
        self.open.load(SeqCst) > 0
    }

    /// A worker is absent, or for another reason than before, or back.
    pub(in crate::exec) fn now_absent(&self, before: Option<Absence>, now: Option<Absence>) {
        if before == now {
            return;
        }
        self.change(|state| {
            if let Some(before) = before {
                let absent = state.absent(before);
                *absent = absent.saturating_sub(1);
            }
            if let Some(now) = now {
                *state.absent(now) += 1;
            }
        });
    }

    /// As [`now_absent`](Places::now_absent) for a worker that is lost. False, and nothing happens, if as many are
    /// already as may be.
    pub(in crate::exec) fn lose(&self, before: Option<Absence>) -> bool {
        self.change(|state| {
            if state.lost >= self.caps.lost {
                return false;
            }
            if let Some(before) = before {
                let absent = state.absent(before);
                *absent = absent.saturating_sub(1);
            }
            state.lost += 1;
            true
        })
    }

    /// Fills a place, if one is open and `has_work` for whoever fills it. The caller holds the scheduler's lock.
    pub(in crate::exec) fn claim(&self, has_work: impl FnOnce(Role) -> bool) -> Option<Role> {
        self.change(|state| {
            let role = state.next(&self.caps).filter(|&role| has_work(role))?;
            *state.serving(role) += 1;
            Some(role)
        })
    }

    /// A stand-in asks whether it is still wanted, and as what. None: it has left.
    pub(in crate::exec) fn review(&self, role: Role) -> Option<Role> {
        self.change(|state| {
            *state.serving(role) -= 1;
            let role = state.next(&self.caps)?;
            *state.serving(role) += 1;
            Some(role)
        })
    }

    /// A stand-in has left.
    pub(in crate::exec) fn leave(&self, role: Role) {
        self.change(|state| *state.serving(role) -= 1);
    }

    /// How many stand-ins serve.
    pub(in crate::exec) fn serving(&self) -> usize {
        let state = self.state.lock();
        state.spares + state.full
    }

    /// Whether stand-ins that serve every group are wanted.
    pub(in crate::exec) fn wants_full(&self) -> bool {
        self.state.lock().wanted(&self.caps).0 > 0
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, quotient_loom))]
mod loom;
