//! The simulator's measuring: what each group was given, what it should have had, and how long it waited.
//!
//! Pure. Times given are integers and exact; entitlement is the water-filling share, integrated from change to
//! change. Lag at any instant is linear between changes, so its extremes are seen at changes.

use crate::sched::entitle::{Demand, water_fill};
use crate::unit::Nanos;

#[derive(Debug, Default)]
pub(super) struct Account {
    weight: u64,
    /// Tasks that wait and tasks that are being polled; none wait while the group is blocked.
    waiting: usize,
    running: usize,
    /// Whether it counted as a group with work when shares were last computed.
    working: bool,
    cores: f64,
    since: Nanos,
    given: Nanos,
    entitled: f64,
    lag: Lag,
    /// What was written off, here or by others.
    settled: f64,
    worst: i64,
    unserved_since: Option<Nanos>,
    longest_unserved: Nanos,
    pub(super) longest_wait: Nanos,
    pub(super) picks: u64,
    pub(super) polls: u64,
}

impl Account {
    fn standing(&self) -> i64 {
        self.lag.ns() + self.settled as i64
    }

    /// Integrates up to `now` at the rates that held since the last change.
    fn touch(&mut self, now: Nanos) {
        let time = now.since(self.since);
        self.since = now;
        if self.working {
            let given = Nanos(time.0 * self.running as u64);
            self.lag.entitle(self.cores, time);
            self.lag.give(given);
            self.entitled += self.cores * time.0 as f64;
            self.given = self.given.plus(given);
            self.worst = self.worst.max(self.standing().abs());
        }
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
    /// Lag that was written off and not yet handed to those that have work.
    written_off: f64,
    /// Time during which a worker was idle though a task was runnable.
    pub(super) wasted: Nanos,
}

impl Books {
    pub(super) fn new(workers: usize) -> Books {
        Books {
            workers,
            accounts: Vec::new(),
            stale: false,
            written_off: 0.0,
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

    pub(super) fn set_weight(&mut self, group: usize, weight: u64) {
        self.accounts[group].weight = weight;
        self.stale = true;
    }

    /// The group has this many waiting and running tasks from now on.
    pub(super) fn demand(&mut self, group: usize, waiting: usize, running: usize, now: Nanos) {
        let account = &mut self.accounts[group];
        account.touch(now);
        let before = (account.waiting + account.running).min(self.workers);
        self.stale |= before != (waiting + running).min(self.workers);
        (account.waiting, account.running) = (waiting, running);
        if waiting == 0 && account.standing() > 0 {
            let owed = account.standing() as f64;
            account.settled -= owed;
            self.written_off += owed;
            self.stale = true;
        }
        let hungry = waiting > 0 && running == 0;
        if !hungry {
            account.longest_unserved = account.unserved(now);
            account.unserved_since = None;
        } else if account.unserved_since.is_none() {
            account.unserved_since = Some(now);
        }
    }

    /// Computes the shares anew if a demand changed. Call before time goes on.
    pub(super) fn share_out(&mut self, now: Nanos) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let mut left_behind = std::mem::take(&mut self.written_off);
        for account in &mut self.accounts {
            account.touch(now);
            let working = account.waiting + account.running > 0;
            if account.working && !working {
                left_behind += account.standing() as f64;
            }
            if working && !account.working {
                account.lag.restart();
                account.settled = 0.0;
            }
            account.working = working;
        }
        let working = || self.accounts.iter().filter(|a| a.working);
        let demands: Vec<Demand> = working()
            .map(|a| Demand {
                weight: a.weight,
                cores: (a.waiting + a.running).min(self.workers) as f64,
            })
            .collect();
        let weights: u64 = demands.iter().map(|d| d.weight).sum();
        let shares = water_fill(self.workers as f64, &demands);
        let working = self.accounts.iter_mut().filter(|a| a.working);
        for (account, cores) in working.zip(shares) {
            account.cores = cores;
            account.settled += left_behind * account.weight as f64 / weights as f64;
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
        self.settle(group, now).lag.ns()
    }

    pub(super) fn worst_lag(&mut self, group: usize, now: Nanos) -> Nanos {
        Nanos(self.settle(group, now).worst.unsigned_abs())
    }

    pub(super) fn longest_unserved(&self, group: usize, now: Nanos) -> Nanos {
        self.accounts[group].unserved(now)
    }

    fn settle(&mut self, group: usize, now: Nanos) -> &Account {
        self.share_out(now);
        self.accounts[group].touch(now);
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
