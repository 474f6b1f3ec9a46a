//! The simulator's measuring: what each group was given, what it should have had, and how long it waited.
//!
//! Pure. Times given are integers and exact; entitlement is the water-filling share, integrated from change to
//! change. Lag at any instant is linear between changes, so its extremes are seen at changes.

use crate::sched::entitle::{Demand, water_fill};
use crate::unit::Nanos;

#[derive(Debug, Default)]
pub(super) struct Account {
    weight: u64,
    reserved: f64,
    cap: Option<f64>,
    /// Tasks that wait and tasks that are being polled; none wait while the group is blocked.
    waiting: usize,
    running: usize,
    cores: f64,
    /// It could use more than it has, or has more than it is entitled to.
    contending: bool,
    since: Nanos,
    given: Nanos,
    entitled: f64,
    plain: Lag,
    lag: Lag,
    /// What others wrote off, as far as it was handed over, and where that ended.
    handed: f64,
    handed_at: f64,
    worst: i64,
    unserved_since: Option<Nanos>,
    longest_unserved: Nanos,
    pub(super) longest_wait: Nanos,
    pub(super) picks: u64,
    pub(super) polls: u64,
}

impl Account {
    fn standing(&self) -> i64 {
        self.lag.ns() + self.handed as i64
    }

    /// Integrates up to `now` at the rates that held since the last change.
    fn touch(&mut self, now: Nanos, written_off: f64) {
        let time = now.since(self.since);
        self.since = now;
        let given = Nanos(time.0 * self.running as u64);
        for lag in [&mut self.lag, &mut self.plain] {
            lag.entitle(self.cores, time);
            lag.give(given);
        }
        self.entitled += self.cores * time.0 as f64;
        self.given = self.given.plus(given);
        if self.contending {
            self.handed += (written_off - self.handed_at) * self.weight as f64;
        }
        self.handed_at = written_off;
        self.worst = self.worst.max(self.standing().abs());
    }

    fn demand(&self) -> usize {
        self.waiting + self.running
    }

    /// Has all that it could use, and is entitled to it.
    fn is_satisfied(&self) -> bool {
        self.waiting == 0 && self.cores + 1e-6 >= self.running as f64
    }

    /// What it was owed or owes, which nobody will pay any more.
    fn write_off(&mut self) -> f64 {
        let standing = self.standing() as f64;
        self.lag.restart();
        self.handed = 0.0;
        standing
    }

    fn unserved(&self, now: Nanos) -> Nanos {
        let open = self.unserved_since.map_or(Nanos::ZERO, |s| now.since(s));
        self.longest_unserved.max(open)
    }
}

#[derive(Debug)]
pub(super) struct Books {
    workers: usize,
    accounts: Vec<Account>,
    stale: bool,
    /// Written off just now.
    pending: f64,
    /// All that was ever written off, per weight of those that contended for workers then.
    written_off: f64,
    contending_weight: u64,
    /// Time during which a worker was idle though a task was runnable.
    pub(super) wasted: Nanos,
}

impl Books {
    pub(super) fn new(workers: usize) -> Books {
        Books {
            workers,
            accounts: Vec::new(),
            stale: false,
            pending: 0.0,
            written_off: 0.0,
            contending_weight: 0,
            wasted: Nanos::ZERO,
        }
    }

    pub(super) fn open(&mut self, weight: u64) {
        self.accounts.push(Account {
            weight,
            ..Account::default()
        });
    }

    pub(super) fn of(&mut self, group: usize) -> &mut Account {
        &mut self.accounts[group]
    }

    pub(super) fn set_weight(&mut self, group: usize, weight: u64, now: Nanos) {
        let account = &mut self.accounts[group];
        account.touch(now, self.written_off);
        let old = std::mem::replace(&mut account.weight, weight);
        if account.contending {
            self.contending_weight = self.contending_weight - old + weight;
        }
        self.stale = true;
    }

    pub(super) fn set_reserved(&mut self, group: usize, workers: u32) {
        self.accounts[group].reserved = f64::from(workers);
        self.stale = true;
    }

    pub(super) fn set_cap(&mut self, group: usize, cap: Option<f64>) {
        self.accounts[group].cap = cap;
        self.stale = true;
    }

    /// The group has this many waiting and running tasks from now on.
    pub(super) fn demand(&mut self, group: usize, waiting: usize, running: usize, now: Nanos) {
        let account = &mut self.accounts[group];
        account.touch(now, self.written_off);
        let before = account.demand();
        if before == 0 && waiting + running > 0 {
            account.plain.restart();
        }
        self.stale |= before.min(self.workers) != (waiting + running).min(self.workers);
        (account.waiting, account.running) = (waiting, running);
        self.assess(group);
        let account = &mut self.accounts[group];
        let hungry = waiting > 0 && running == 0;
        if !hungry {
            account.longest_unserved = account.unserved(now);
            account.unserved_since = None;
        } else if account.unserved_since.is_none() {
            account.unserved_since = Some(now);
        }
    }

    /// Settles whether the group contends; writes its lag off if it does not.
    fn assess(&mut self, group: usize) {
        let account = &mut self.accounts[group];
        let contends = !account.is_satisfied();
        let was = std::mem::replace(&mut account.contending, contends);
        if was {
            self.contending_weight -= account.weight;
        }
        if account.contending {
            self.contending_weight += account.weight;
        } else {
            self.pending += account.write_off();
        }
    }

    /// Computes the shares anew if a demand changed, and hands over what was written off. Call before time
    /// goes on.
    pub(super) fn share_out(&mut self, now: Nanos) {
        if std::mem::take(&mut self.stale) {
            let workers = self.workers;
            let bounded = |a: &Account| Demand {
                weight: a.weight,
                cores: (a.demand().min(workers) as f64).min(a.cap.unwrap_or(f64::INFINITY)),
                reserved: a.reserved,
            };
            let demands: Vec<Demand> = self.accounts.iter().map(bounded).collect();
            let shares = water_fill(self.workers as f64, &demands);
            for (i, cores) in shares.into_iter().enumerate() {
                self.accounts[i].touch(now, self.written_off);
                self.accounts[i].cores = cores;
                self.assess(i);
            }
        }
        let pending = std::mem::take(&mut self.pending);
        if self.contending_weight > 0 {
            self.written_off += pending / self.contending_weight as f64;
        }
    }

    pub(super) fn given(&mut self, group: usize, now: Nanos) -> Nanos {
        let account = self.settle(group, now);
        account.given
    }

    pub(super) fn entitled(&mut self, group: usize, now: Nanos) -> Nanos {
        Nanos(self.settle(group, now).entitled as u64)
    }

    pub(super) fn lag(&mut self, group: usize, now: Nanos) -> i64 {
        self.settle(group, now).standing()
    }

    pub(super) fn plain_lag(&mut self, group: usize, now: Nanos) -> i64 {
        self.settle(group, now).plain.ns()
    }

    pub(super) fn worst_lag(&mut self, group: usize, now: Nanos) -> Nanos {
        Nanos(self.settle(group, now).worst.unsigned_abs())
    }

    pub(super) fn longest_unserved(&self, group: usize, now: Nanos) -> Nanos {
        self.accounts[group].unserved(now)
    }

    fn settle(&mut self, group: usize, now: Nanos) -> &Account {
        self.share_out(now);
        self.accounts[group].touch(now, self.written_off);
        &self.accounts[group]
    }
}

/// Entitlement against what was given, since the group last began to have work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lag {
    entitled: f64,
    given: f64,
}

impl Lag {
    fn restart(&mut self) {
        *self = Lag::default();
    }

    fn entitle(&mut self, cores: f64, time: Nanos) {
        self.entitled += cores * time.0 as f64;
    }

    fn give(&mut self, time: Nanos) {
        self.given += time.0 as f64;
    }

    fn ns(&self) -> i64 {
        (self.entitled - self.given) as i64
    }
}
