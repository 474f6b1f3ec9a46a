//! One resource group: its properties as written, their effective values, its classifiers.
//!
//! Pure. Texts are kept as they were written, so that a catalog that moves to a larger machine and back says the same
//! as before; the accessors give what holds on this machine.

use super::classifier::ClassifierSpec;
use super::property::{BigQueryAction, GroupType, Key, Setting};
use crate::sql::ast::{AlterAction, AlterGroup, Assignment, CreateGroup, Statement};
use crate::sql::value::{Memory, Number};
use crate::unit::{Bytes, GroupId, Nanos, Weight};
use std::collections::BTreeMap;

/// What the governor has to divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Threads that poll tasks, at least 1.
    pub workers: usize,
    /// The governor's memory limit, at least 1 byte.
    pub memory_limit: Bytes,
}

impl Machine {
    /// The number of workers as properties count them.
    pub(super) fn workers(self) -> u64 {
        (self.workers as u64).max(1)
    }
}

/// A property's value as written, and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The text without quotes.
    pub text: String,
    /// What it says.
    pub setting: Setting,
}

/// A resource group. Immutable: a change makes a new one with the same id.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSpec {
    /// Its identity, the same over all changes.
    pub id: GroupId,
    /// Its name; case counts.
    pub name: String,
    /// What was set, in the order of the property table. What is not here has its default.
    pub properties: BTreeMap<Key, Written>,
    /// Its classifiers, oldest first.
    pub classifiers: Vec<ClassifierSpec>,
    pub(super) machine: Machine,
    /// What the snapshot grants of the reservation, after the groups that come first.
    pub(super) granted_cores: u64,
}

impl GroupSpec {
    pub(super) fn new(id: GroupId, name: String, machine: Machine) -> GroupSpec {
        GroupSpec {
            id,
            name,
            properties: BTreeMap::new(),
            classifiers: Vec::new(),
            machine,
            granted_cores: 0,
        }
    }

    /// Whether it is `default_wg`.
    pub fn is_default(&self) -> bool {
        self.id == GroupId::DEFAULT
    }

    fn setting(&self, key: Key) -> Option<&Setting> {
        self.properties.get(&key).map(|w| &w.setting)
    }

    fn integer(&self, key: Key) -> Option<u64> {
        match self.setting(key) {
            Some(Setting::Integer(n)) => Some(*n),
            _ => None,
        }
    }

    fn time(&self, key: Key) -> Option<Nanos> {
        match self.setting(key) {
            Some(Setting::Time(t)) => Some(*t),
            _ => None,
        }
    }

    fn bytes(&self, key: Key) -> Option<Bytes> {
        match self.setting(key) {
            Some(Setting::Bytes(b)) => Some(*b),
            _ => None,
        }
    }

    /// Share of worker time. Without one, 1; for `default_wg`, the number of workers.
    pub fn cpu_core_limit(&self) -> Weight {
        let absent = if self.is_default() {
            self.machine.workers()
        } else {
            1
        };
        Weight::new(self.integer(Key::CpuCoreLimit).unwrap_or(absent))
    }

    /// Hard cap in cores, at most the number of workers; `None` = no cap.
    pub fn max_cpu_cores(&self) -> Option<f64> {
        match self.setting(Key::MaxCpuCores) {
            Some(Setting::Cores(n)) => {
                Some((*n).min(Number::whole(self.machine.workers())).as_f64())
            }
            _ => None,
        }
    }

    /// Exclusive workers of the group, as far as they are left by groups with smaller ids.
    pub fn exclusive_cpu_cores(&self) -> u64 {
        self.granted_cores.min(self.exclusive_cpu_cores_written())
    }

    /// Workers that are reserved for the group on this machine: its exclusive ones; for a short_query group, as many
    /// as its `cpu_core_limit` says and exclusive ones and groups with smaller ids leave of all but one.
    pub fn reserved_cores(&self) -> u64 {
        self.granted_cores
    }

    /// What the group reserves by what is written, whether this machine has it or not.
    pub(super) fn reserved_cores_written(&self) -> u64 {
        match self.group_type() {
            GroupType::ShortQuery => self.cpu_core_limit().get(),
            GroupType::Normal | GroupType::Mv => self.exclusive_cpu_cores_written(),
        }
    }

    /// What `exclusive_cpu_cores` says, whether this machine has them or not.
    pub fn exclusive_cpu_cores_written(&self) -> u64 {
        self.integer(Key::ExclusiveCpuCores).unwrap_or(0)
    }

    /// Kind of group.
    pub fn group_type(&self) -> GroupType {
        match self.setting(Key::Type) {
            Some(Setting::Type(t)) => *t,
            _ => GroupType::Normal,
        }
    }

    /// Ceiling of memory: at least one byte, at most the governor's limit.
    pub fn mem_limit(&self) -> Bytes {
        let most = self.machine.memory_limit.0.max(1);
        let bytes = match self.setting(Key::MemLimit) {
            Some(Setting::Memory(Memory::Share(n))) => n.times(most).unwrap_or(most),
            Some(Setting::Memory(Memory::Bytes(b))) => b.0,
            _ => most,
        };
        Bytes(bytes.clamp(1, most))
    }

    /// The share of `mem_limit` above which spill callbacks run, below 1; `None` = off.
    pub fn spill_mem_limit_threshold(&self) -> Option<f64> {
        match self.setting(Key::SpillMemLimitThreshold) {
            Some(Setting::Share(n)) if *n < Number::whole(1) => Some(n.as_f64()),
            _ => None,
        }
    }

    /// Queries at once; `None` = unlimited.
    pub fn concurrency_limit(&self) -> Option<u64> {
        self.integer(Key::ConcurrencyLimit).filter(|n| *n > 0)
    }

    /// Waiting places once `concurrency_limit` is reached; 0 = excess queries are refused at once.
    pub fn max_queued_queries(&self) -> u64 {
        self.integer(Key::MaxQueuedQueries).unwrap_or(0)
    }

    /// Longest wait, counted from enqueue.
    pub fn queue_timeout(&self) -> Nanos {
        self.time(Key::QueueTimeout)
            .unwrap_or(Nanos::from_secs(300))
    }

    /// CPU time of one query; `None` = no limit.
    pub fn big_query_cpu_second_limit(&self) -> Option<Nanos> {
        self.time(Key::BigQueryCpuSecondLimit)
            .filter(|t| *t > Nanos::ZERO)
    }

    /// Rows that one query scans; `None` = no limit.
    pub fn big_query_scan_rows_limit(&self) -> Option<u64> {
        self.integer(Key::BigQueryScanRowsLimit).filter(|n| *n > 0)
    }

    /// Memory of one query; `None` = no limit.
    pub fn big_query_mem_limit(&self) -> Option<Bytes> {
        self.bytes(Key::BigQueryMemLimit).filter(|b| b.0 > 0)
    }

    /// Wall time of one query since admission; `None` = no limit.
    pub fn big_query_elapsed_second_limit(&self) -> Option<Nanos> {
        self.time(Key::BigQueryElapsedSecondLimit)
            .filter(|t| *t > Nanos::ZERO)
    }

    /// What happens to a query over one of these four limits.
    pub fn big_query_action(&self) -> BigQueryAction {
        match self.setting(Key::BigQueryAction) {
            Some(Setting::Action(action)) => action.clone(),
            _ => BigQueryAction::Kill,
        }
    }

    /// Kills of one fingerprint after which it is refused; `None` = off.
    pub fn quarantine_after(&self) -> Option<u64> {
        self.integer(Key::QuarantineAfter).filter(|n| *n > 0)
    }

    /// The time in which these kills are counted.
    pub fn quarantine_window(&self) -> Nanos {
        self.time(Key::QuarantineWindow)
            .unwrap_or(Nanos::from_secs(600))
    }

    /// Share of IO time. Without one, it follows `cpu_core_limit`.
    pub fn io_weight(&self) -> Weight {
        self.integer(Key::IoWeight)
            .map_or_else(|| self.cpu_core_limit(), Weight::new)
    }

    /// Hard cap on metered IO, bytes per second; `None` = no cap.
    pub fn max_io_bytes_per_second(&self) -> Option<Bytes> {
        self.bytes(Key::MaxIoBytesPerSecond).filter(|b| b.0 > 0)
    }

    /// The statement that makes the group as it is. For `default_wg`, which is always there, it is an ALTER.
    pub fn to_statement(&self) -> Statement {
        let assignment = |(key, written): (&Key, &Written)| Assignment {
            key: key.name().to_owned().into(),
            value: written.text.clone().into(),
        };
        let mut properties: Vec<Assignment> = self.properties.iter().map(assignment).collect();
        if properties.is_empty() {
            properties.push(Assignment {
                key: Key::CpuCoreLimit.name().to_owned().into(),
                value: self.cpu_core_limit().to_string().into(),
            });
        }
        let name = self.name.clone().into();
        if self.is_default() {
            let action = AlterAction::With(properties);
            return Statement::AlterGroup(AlterGroup { name, action });
        }
        Statement::CreateGroup(CreateGroup {
            if_not_exists: false,
            or_replace: false,
            name,
            classifiers: self
                .classifiers
                .iter()
                .map(ClassifierSpec::to_ast)
                .collect(),
            properties,
        })
    }
}
