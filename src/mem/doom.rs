//! Who must end for a request that does not fit.
//!
//! Mechanism; the thread that asks, inside the allocator: no lock, no allocation, no panic. It only marks: the
//! marked query is killed at the next poll boundary of the thread that marked it.

use super::local::Local;
use super::rules::{self, MemoryOverrun, Request, Ruling};
use super::shortfall::{MemoryScope, Shortfall};
use super::slot::{self, Rank, Slot, slot};
use super::tenure::{self, Tenure};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Queries doomed so far.
static DOOMS: AtomicU64 = AtomicU64::new(0);

/// How many queries have been doomed in this process: for those who look for them later.
pub(crate) fn dooms() -> u64 {
    DOOMS.load(SeqCst)
}

/// What the allocator does with the request.
pub(super) enum Decree {
    /// It is granted beyond the limit.
    Grant,
    /// It fails.
    Fail,
    /// The thread goes no further.
    Park,
}

/// Judges an infallible request of `owner` that the slot `at` refused.
pub(super) fn decree(local: &Local, owner: u16, asked: u64, at: u16) -> Decree {
    let refusing = slot(at);
    let Some(limit) = refusing.limit() else {
        return Decree::Grant; // lifted meanwhile
    };
    let used = refusing.used();
    let request = Request { asked, used, limit };
    let scope = match refusing.rank() {
        Rank::Query => MemoryScope::Query,
        Rank::Group => MemoryScope::Group,
        Rank::Governor | Rank::Process => MemoryScope::Governor,
    };
    let shortfall = Shortfall {
        scope,
        limit,
        used,
        asked,
    };
    let case = Case {
        local,
        owner,
        at,
        request,
        shortfall,
    };
    match rules::rule(request) {
        Ruling::Grace => {
            if !slot(owner).is_doomed() && !case.is_pledged() {
                case.doom_somebody();
            }
            Decree::Grant
        }
        // Above the governor's limit a group within its share is not to blame.
        Ruling::Overrun if scope == MemoryScope::Governor && !case.is_to_blame() => {
            case.doom_somebody();
            Decree::Grant
        }
        Ruling::Overrun => {
            case.doom_asker();
            match refusing.overrun() {
                MemoryOverrun::Quarantine => Decree::Park,
                MemoryOverrun::Abort => Decree::Fail,
                MemoryOverrun::Overshoot => Decree::Grant,
            }
        }
    }
}

struct Case<'a> {
    local: &'a Local,
    owner: u16,
    at: u16,
    request: Request,
    shortfall: Shortfall,
}

/// What one look at the queries below a slot found.
#[derive(Default)]
struct Survey {
    holders: u64,
    pledged: u64,
    /// Not doomed yet, the furthest above what it may have.
    worst: Option<(i128, u64, Tenure)>,
}

impl Case<'_> {
    /// Whether the query doomed last gives enough back: the usual case while it dies, and one look.
    fn is_pledged(&self) -> bool {
        let pending = slot(self.at).pending().slot();
        pending.is_some_and(|victim| {
            let given = if victim.is_parked() { 0 } else { victim.used() };
            rules::is_pledged(self.request, given)
        })
    }

    fn doom_somebody(&self) {
        let survey = self.survey();
        if rules::is_pledged(self.request, survey.pledged) {
            return;
        }
        let asker = slot(self.owner);
        let answers = match self.shortfall.scope {
            MemoryScope::Query => true,
            MemoryScope::Group => {
                asker.rank() == Rank::Query
                    && rules::holds_its_share(asker.used(), self.request.limit, survey.holders)
            }
            MemoryScope::Governor => false,
        };
        match survey.worst {
            Some((_, _, victim)) if !answers => self.doom(victim),
            _ => self.doom_asker(),
        }
    }

    /// Work that belongs to no query ends alone: the task whose poll asks.
    fn doom_asker(&self) {
        if slot(self.owner).rank() == Rank::Query {
            self.doom(Tenure::of(self.owner));
        } else {
            self.local.note_refusal(self.shortfall);
        }
    }

    fn doom(&self, victim: Tenure) {
        if slot(victim.number).is_doomed() {
            return;
        }
        tenure::record(victim.number, self.shortfall);
        if victim.doom() {
            slot(self.at).set_pending(victim);
            DOOMS.fetch_add(1, SeqCst);
        }
        self.local.note_doom();
    }

    fn survey(&self) -> Survey {
        let weights = match self.shortfall.scope {
            MemoryScope::Governor => self.weights(),
            _ => 0,
        };
        let mut survey = Survey::default();
        for number in slot::numbers() {
            let tenure = Tenure::of(number);
            let Some(query) = tenure.slot() else { continue };
            if query.rank() != Rank::Query || !self.is_below(query) || query.used() == 0 {
                continue;
            }
            survey.holders += 1;
            if query.is_doomed() {
                if !query.is_parked() {
                    survey.pledged += query.used();
                }
                continue;
            }
            let group = slot(query.parent());
            let excess = match self.shortfall.scope {
                MemoryScope::Governor => self.excess(group, weights),
                _ => 0,
            };
            let candidate = (excess, query.used(), tenure);
            let is_worse =
                |worst: (i128, u64, Tenure)| (candidate.0, candidate.1) > (worst.0, worst.1);
            if survey.worst.is_none_or(is_worse) {
                survey.worst = Some(candidate);
            }
        }
        survey
    }

    fn is_below(&self, query: &Slot) -> bool {
        let group = query.parent();
        group == self.at || slot(group).parent() == self.at
    }

    fn excess(&self, group: &Slot, weights: u64) -> i128 {
        rules::excess(group.used(), group.weight(), weights, self.request.limit)
    }

    /// The weights of the groups that hold memory.
    fn weights(&self) -> u64 {
        let groups = slot::numbers().map(slot).filter(|group| {
            group.rank() == Rank::Group && group.parent() == self.at && group.used() > 0
        });
        groups.map(Slot::weight).sum()
    }

    /// Whether the asker's group is above its share of the governor's memory.
    fn is_to_blame(&self) -> bool {
        let asker = slot(self.owner);
        let group = match asker.rank() {
            Rank::Query => slot(asker.parent()),
            _ => asker,
        };
        let asked = i128::from(self.request.asked);
        self.excess(group, self.weights()).saturating_add(asked) > 0
    }
}
