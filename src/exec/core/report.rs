//! Looking at an executor: samples for the ledger of fairness, usage, and a picture of the state.
//!
//! Mechanism; any thread. Nothing here is on the path of a poll; samples are taken between slices.

use super::{Core, Sched};
use crate::exec::group::Group;
use crate::exec::stats::{GroupUsage, KillTimes, WorkerUsage};
use crate::mem;
use crate::sched::entitle::Demand;
use crate::unit::{Cores, Nanos};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

/// I/O waits for polls of up to this length; of longer ones the host is told.
const IO_WAITS: Nanos = Nanos::from_millis(2);

impl Core {
    /// Counters of each worker.
    pub fn worker_usage(&self) -> Vec<WorkerUsage> {
        self.seats.iter().map(|seat| seat.usage()).collect()
    }

    /// How long it took to end queries that were killed.
    pub fn kill_latency(&self) -> KillTimes {
        self.kills.read()
    }

    /// A query was killed for going over a limit, so long ago.
    pub fn crossed(&self, late: Nanos) {
        self.kills.crossing_to_kill.record(late);
    }

    /// The ready groups' demands, for the ledger. At most once a millisecond, and never more than about a
    /// hundredth of the time however many groups there are.
    pub(in crate::exec) fn sample(
        &self,
        sched: &mut Sched,
        now: Nanos,
        discard: &mut Vec<Arc<Group>>,
    ) {
        let groups = sched.fair.queued_groups() as u64;
        if sched.ledger.age(now).0 < 1_000_000.max(groups * 20_000) {
            return;
        }
        let mut demands = std::mem::take(&mut sched.demands);
        demands.clear();
        for slot in sched.fair.working_groups() {
            let Some(group) = sched.groups.get(slot.0 as usize).and_then(Weak::upgrade) else {
                continue;
            };
            let (running, held) = self.hands(group.uid);
            let tasks = (running + held + group.ready()).clamp(1, self.workers()) as f64;
            let cap = sched.fair.cap(slot).map_or(f64::INFINITY, Cores::as_f64);
            demands.push((
                slot,
                Demand {
                    weight: sched.fair.weight(slot).get(),
                    cores: tasks.min(cap),
                    reserved: f64::from(sched.fair.reserved(slot)),
                },
            ));
            discard.push(group);
        }
        sched.ledger.sample(now, &demands);
        sched.demands = demands;
    }

    /// Tasks of a group that are being polled, and ready ones that workers hold.
    pub(super) fn hands(&self, uid: u64) -> (usize, usize) {
        self.all_seats().fold((0, 0), |(running, held), seat| {
            let mail = seat.inbox.count_of(uid);
            if seat.serving.load(Relaxed) != uid + 1 {
                return (running, held + mail);
            }
            let polling = usize::from(seat.poll_start.load(Relaxed) != 0);
            let hands = seat.ring.len() + usize::from(seat.has_lifo());
            (running + polling, held + mail + hands)
        })
    }

    /// A group's usage but for its counters: what its tasks do now, and what the scheduler knows of it.
    pub(in crate::exec) fn look_at(&self, group: &Group) -> GroupUsage {
        let (running, held) = self.hands(group.uid);
        let queued = held + group.ready();
        let (now, slot) = (self.clock().now(), group.slot);
        let _ours = mem::enter_process();
        let sched = self.sched.lock();
        let fairness = sched.ledger.fairness(slot, now);
        GroupUsage {
            tasks_running: running as u64,
            tasks_queued: queued as u64,
            throttled: sched.fair.throttled(slot, now),
            reserved: u64::from(sched.fair.reserved(slot)),
            lag_ns: fairness.lag_ns,
            share: fairness.share,
            entitled: fairness.entitled,
            ..GroupUsage::default()
        }
    }

    /// Whether every worker that is awake has been in one poll for long, and one is.
    pub(in crate::exec) fn is_in_long_polls(&self) -> bool {
        let now = self.clock().now();
        let (mut some, mut all) = (false, true);
        for seat in &self.seats {
            let aside = seat.aside.load(Relaxed);
            let long = aside || seat.polls_since(now) > IO_WAITS;
            some |= long;
            all &= long || seat.asleep.load(Relaxed);
        }
        some && all
    }

    /// A picture of the state for people, when something hangs. Not a stable format.
    pub fn dump(&self) -> String {
        use fmt::Write;
        let mut out = String::new();
        let _ = writeln!(
            out,
            "sleepers {:?}, spares {:?}, queued groups {}, cancelled {}",
            **self.sleepers,
            self.spares.places,
            self.queued_groups(),
            self.cancelled().is_some()
        );
        match self.sched.try_lock() {
            Some(sched) => {
                let _ = writeln!(out, "{:?}", sched.fair);
            }
            None => out.push_str("the scheduler's lock is held\n"),
        }
        for seat in self.all_seats() {
            let _ = writeln!(
                out,
                "worker {}: serving {}, mail {}, ring {}, lifo {}, poll since {}, preempt {}, {:?}",
                seat.index,
                seat.serving.load(Relaxed),
                !seat.inbox.is_empty(),
                seat.ring.len(),
                seat.has_lifo(),
                seat.poll_start.load(Relaxed),
                seat.preempt.load(Relaxed),
                seat.usage(),
            );
        }
        for account in self.accounts() {
            let _ = writeln!(
                out,
                "{account:?}: {} waiting, {} ready",
                account.waiting.len(),
                account.group().ready()
            );
        }
        out
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("workers", &self.workers())
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}
