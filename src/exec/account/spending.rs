//! What a query spends beside its budgets: every amount is looked at where it is found, and too much is reported once.
//!
//! Mechanism; workers at the end of a poll, tasks that report, and the timer of the layer above.

use super::Account;
use crate::exec::stats::Direction;
use crate::sched::breaker::BigQueryKind;
use crate::unit::Nanos;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl Account {
    /// Adds to the rows that the query has scanned.
    #[inline]
    pub fn record_scan_rows(&self, rows: u64) {
        if let Some(scanned) = self.add_scan_rows(rows) {
            self.over(BigQueryKind::ScanRows, scanned, Nanos::ZERO);
        }
    }

    /// As [`record_scan_rows`](Account::record_scan_rows), but if they are too many now, it is for the caller to say so: how
    /// many they are.
    #[inline]
    #[must_use = "too many are to be reported"]
    pub fn add_scan_rows(&self, rows: u64) -> Option<u64> {
        let before = self.scan_rows.fetch_add(rows, Relaxed);
        let scanned = before.saturating_add(rows);
        (scanned > self.limits.scan_rows()).then_some(scanned)
    }

    /// Adds to the bytes that the query has scanned.
    #[inline]
    pub fn record_scan_bytes(&self, bytes: u64) {
        self.scan_bytes.fetch_add(bytes, Relaxed);
    }

    /// Bytes have passed through a file or stream of the account's: counted for it and for the group that serves it.
    pub fn record_io(&self, direction: Direction, bytes: u64) {
        self.traffic.add(direction, bytes);
        self.group().counters.traffic.add(direction, bytes);
    }

    /// An operation of the account's waited so long before it could begin, for limits on what may pass.
    pub fn record_io_wait(&self, time: Nanos) {
        self.traffic.wait(time);
        self.group().counters.traffic.wait(time);
    }

    /// The query was seen to have used so much of one kind, perhaps too much. `late`: how long ago it may have
    /// gone over its limit. True if it tripped now, for the first time.
    #[cold]
    pub fn over(&self, kind: BigQueryKind, used: u64, late: Nanos) -> bool {
        if self.tripped.load(Relaxed) || self.is_killed() {
            return false;
        }
        let (Some(query), Some(trip)) = (self.query, self.limits.judge(kind, used)) else {
            return false;
        };
        // Tasks on all workers may cross at the same moment: one of them reports it.
        let first = !self.tripped.swap(true, SeqCst);
        if first {
            self.limits.report(query, trip, late);
        }
        first
    }

    /// Whether it went over one of its limits.
    pub fn has_tripped(&self) -> bool {
        self.tripped.load(Relaxed)
    }

    /// The end of a poll of a query whose group limits its CPU time or its memory.
    #[cold]
    pub(super) fn check(&self, cpu: Nanos, took: Nanos) {
        // Its tasks on this worker alone had it at the limit so long ago at most.
        let late = cpu.since(self.limits.cpu()).0.min(took.0);
        self.over(BigQueryKind::Cpu, cpu.0, Nanos(late));
        self.over(BigQueryKind::Memory, self.memory_used(), took);
    }
}
