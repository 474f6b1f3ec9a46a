//! What level 1 knows of one group.
//!
//! Pure.

use crate::sched::quota::{Quota, Running};
use crate::sched::weight::Vtime;
use crate::unit::{Nanos, Weight};

#[derive(Debug)]
pub(super) struct Group {
    pub(super) weight: Weight,
    pub(super) vruntime: Vtime,
    /// Credit that may not be spent yet, in virtual time.
    pub(super) held: u64,
    /// Pre-charges of the slices that are running, in virtual time.
    pub(super) inflight: u64,
    /// Workers that serve this group now, and the sum of the instants since when.
    pub(super) running: u32,
    pub(super) since: u128,
    /// How many of those workers compute on in polls that are late.
    pub(super) late: u32,
    /// Until when more such polls are expected, unless polls that were not late have used up the doubt: see `late.rs`.
    pub(super) late_until: Nanos,
    pub(super) doubt: Nanos,
    /// Workers that it may have before others.
    pub(super) reserved: u32,
    /// When it began to claim one last, counted in claims of all groups.
    pub(super) claimed: u64,
    pub(super) quota: Option<Quota>,
    /// Its cap does not hold it back for now.
    pub(super) excused: bool,
    /// How long its cap has held ready tasks back, and since when it does.
    pub(super) throttled: Nanos,
    pub(super) throttled_since: Nanos,
    pub(super) live: bool,
}

impl Group {
    pub(super) fn new(weight: Weight, vruntime: u64) -> Group {
        Group {
            weight,
            vruntime: Vtime::at(vruntime),
            held: 0,
            inflight: 0,
            running: 0,
            since: 0,
            late: 0,
            late_until: Nanos::ZERO,
            doubt: Nanos::ZERO,
            reserved: 0,
            claimed: 0,
            quota: None,
            excused: false,
            throttled: Nanos::ZERO,
            throttled_since: Nanos::ZERO,
            live: true,
        }
    }

    /// Where it stands in the order of service, pre-charges left aside.
    pub(super) fn rank(&self) -> u64 {
        self.vruntime.v.saturating_add(self.held)
    }

    /// Held credit pays half of what is used, to the nanosecond in the group's disfavour. Its vruntime is not
    /// raised beyond `most`.
    pub(super) fn charge(&mut self, time: Nanos, most: u64) {
        let before = self.vruntime;
        self.vruntime.charge(time, self.weight);
        let used = self.vruntime.v - before.v;
        self.held = self.held.saturating_sub(used.div_ceil(2));
        if self.vruntime.v > most {
            self.vruntime = before;
            self.vruntime.raise(most);
        }
    }

    /// Worker time that its running slices have used and not been charged for.
    pub(super) fn uncharged(&self, now: Nanos) -> Nanos {
        let time = (u128::from(self.running) * u128::from(now.0)).saturating_sub(self.since);
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }

    pub(super) fn slices(&self, now: Nanos) -> Running {
        Running {
            slices: self.running,
            used: self.uncharged(now),
        }
    }
}
