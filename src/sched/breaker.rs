//! The circuit breaker: what one query of a group may use, and what becomes of one that uses more.
//!
//! Pure. The executor compares after every poll and on every report; the governor carries out what comes of it.
//!
//! 1. Strictly more trips: a query that uses exactly its limit goes on.
//! 2. A limit of its kind alone decides; which kind is looked at is the caller's business, as each has its own
//!    moment: CPU and memory at the end of a poll, rows when they are reported, elapsed time when it is up.
//! 3. That a query trips once, whoever looks how often, is [`Account`](crate::exec::account::Account)'s to see to.

use crate::unit::{Bytes, Nanos};
use std::fmt;
use std::sync::Arc;

/// What a query can use too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BigQueryKind {
    /// Worker time, over all its tasks.
    Cpu,
    /// Rows that it reported as scanned.
    ScanRows,
    /// Memory that is charged to it.
    Memory,
    /// Time since it was admitted.
    Elapsed,
}

impl BigQueryKind {
    /// All of them.
    pub const ALL: [BigQueryKind; 4] = [
        BigQueryKind::Cpu,
        BigQueryKind::ScanRows,
        BigQueryKind::Memory,
        BigQueryKind::Elapsed,
    ];

    /// The value of the label `kind`.
    pub const fn label(self) -> &'static str {
        match self {
            BigQueryKind::Cpu => "cpu",
            BigQueryKind::ScanRows => "scan_rows",
            BigQueryKind::Memory => "memory",
            BigQueryKind::Elapsed => "elapsed",
        }
    }

    /// The property of a resource group that limits it.
    pub const fn property(self) -> &'static str {
        match self {
            BigQueryKind::Cpu => "big_query_cpu_second_limit",
            BigQueryKind::ScanRows => "big_query_scan_rows_limit",
            BigQueryKind::Memory => "big_query_mem_limit",
            BigQueryKind::Elapsed => "big_query_elapsed_second_limit",
        }
    }

    /// An amount of this kind for people: `1.5 s of CPU time`, `7 scanned rows`.
    ///
    /// `amount`: nanoseconds, rows or bytes, as the kind has it.
    pub fn amount(self, amount: u64) -> impl fmt::Display {
        Amount(self, amount)
    }
}

impl fmt::Display for BigQueryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

struct Amount(BigQueryKind, u64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Amount(kind, amount) = *self;
        match kind {
            BigQueryKind::Cpu => write!(f, "{} of CPU time", Nanos(amount)),
            BigQueryKind::ScanRows => write!(f, "{amount} scanned rows"),
            BigQueryKind::Memory => write!(f, "{amount} bytes of memory"),
            BigQueryKind::Elapsed => write!(f, "{} since admission", Nanos(amount)),
        }
    }
}

/// What becomes of a query that uses too much.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Action {
    /// It is ended.
    #[default]
    Kill,
    /// It is counted and goes on.
    DryRun,
    /// It goes on as if its group's weight were 1.
    Cooldown,
    /// It goes on in the group of that name.
    SwitchGroup(Arc<str>),
}

impl Action {
    /// The value of the label `action`.
    pub const fn label(&self) -> &'static str {
        match self {
            Action::Kill => "kill",
            Action::DryRun => "dry_run",
            Action::Cooldown => "cooldown",
            Action::SwitchGroup(_) => "switch_group",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::SwitchGroup(group) => write!(f, "switch_group({group})"),
            other => f.write_str(other.label()),
        }
    }
}

/// What one query of a group may use. The default has no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Worker time; none = no limit.
    pub cpu: Option<Nanos>,
    /// Rows; none = no limit.
    pub scan_rows: Option<u64>,
    /// Memory; none = no limit.
    pub memory: Option<Bytes>,
    /// Time since admission; none = no limit.
    pub elapsed: Option<Nanos>,
    /// What becomes of a query over one of them.
    pub action: Action,
}

/// A query uses too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trip {
    /// Of what.
    pub kind: BigQueryKind,
    /// How much it has used: nanoseconds, rows or bytes.
    pub used: u64,
    /// How much it may use, in the same unit.
    pub limit: u64,
    /// What becomes of it.
    pub action: Action,
}

impl Budgets {
    /// The limit of one kind, in nanoseconds, rows or bytes.
    pub fn limit(&self, kind: BigQueryKind) -> Option<u64> {
        match kind {
            BigQueryKind::Cpu => self.cpu.map(|time| time.0),
            BigQueryKind::ScanRows => self.scan_rows,
            BigQueryKind::Memory => self.memory.map(|bytes| bytes.0),
            BigQueryKind::Elapsed => self.elapsed.map(|time| time.0),
        }
    }

    /// Whether a query that has used this much of one kind has used too much.
    pub fn judge(&self, kind: BigQueryKind, used: u64) -> Option<Trip> {
        let limit = self.limit(kind).filter(|&limit| used > limit)?;
        Some(Trip {
            kind,
            used,
            limit,
            action: self.action.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(kind: BigQueryKind, limit: u64, action: Action) -> Budgets {
        let of = |this| (this == kind).then_some(limit);
        Budgets {
            cpu: of(BigQueryKind::Cpu).map(Nanos),
            scan_rows: of(BigQueryKind::ScanRows),
            memory: of(BigQueryKind::Memory).map(Bytes),
            elapsed: of(BigQueryKind::Elapsed).map(Nanos),
            action,
        }
    }

    /// Every kind with every action: at the limit nothing, one above it the action, and no other kind minds.
    #[test]
    fn kind_by_action() {
        let actions = [
            Action::Kill,
            Action::DryRun,
            Action::Cooldown,
            Action::SwitchGroup("slow".into()),
        ];
        for kind in BigQueryKind::ALL {
            for action in &actions {
                let budgets = budgets(kind, 1_000, action.clone());
                assert_eq!(budgets.judge(kind, 999), None);
                assert_eq!(budgets.judge(kind, 1_000), None, "{kind} at its limit");
                let trip = Trip {
                    kind,
                    used: 1_001,
                    limit: 1_000,
                    action: action.clone(),
                };
                assert_eq!(budgets.judge(kind, 1_001), Some(trip), "{kind} {action}");
                for other in BigQueryKind::ALL.into_iter().filter(|&it| it != kind) {
                    assert_eq!(budgets.judge(other, u64::MAX), None, "{kind} {other}");
                }
            }
        }
    }

    #[test]
    fn a_limit_of_nothing_is_a_limit_and_the_largest_number_trips_none() {
        let nothing = budgets(BigQueryKind::ScanRows, 0, Action::Kill);
        assert_eq!(nothing.judge(BigQueryKind::ScanRows, 0), None);
        assert!(nothing.judge(BigQueryKind::ScanRows, 1).is_some());
        let most = budgets(BigQueryKind::Cpu, u64::MAX, Action::Kill);
        assert_eq!(most.judge(BigQueryKind::Cpu, u64::MAX), None);
    }

    #[test]
    fn amounts_read_with_their_unit() {
        let texts = BigQueryKind::ALL.map(|kind| kind.amount(1_500_000_000).to_string());
        assert_eq!(
            texts,
            [
                "1.5s of CPU time",
                "1500000000 scanned rows",
                "1500000000 bytes of memory",
                "1.5s since admission",
            ]
        );
    }
}
