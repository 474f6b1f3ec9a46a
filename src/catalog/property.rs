//! **The** property table: every key of `WITH (..)`, in one place.
//!
//! Pure. A new property is one line here, one accessor in `group.rs`, and the stage that obeys it. Its place in the
//! table is its place in every text that is printed.

use crate::sql::ast::is_group_name;
use crate::sql::suggest::closest;
use crate::sql::value::{self, Memory, Number, ValueError};
use crate::unit::{Bytes, Nanos, Weight};
use std::fmt;

/// The properties of a group, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Share of worker time.
    CpuCoreLimit,
    /// Hard cap in cores.
    MaxCpuCores,
    /// Reserved workers.
    ExclusiveCpuCores,
    /// Kind of group.
    Type,
    /// Ceiling of memory.
    MemLimit,
    /// Where spilling begins.
    SpillMemLimitThreshold,
    /// Queries at once.
    ConcurrencyLimit,
    /// Waiting places.
    MaxQueuedQueries,
    /// Longest wait.
    QueueTimeout,
    /// CPU time of one query.
    BigQueryCpuSecondLimit,
    /// Rows scanned by one query.
    BigQueryScanRowsLimit,
    /// Memory of one query.
    BigQueryMemLimit,
    /// Wall time of one query.
    BigQueryElapsedSecondLimit,
    /// What happens to a query over one of these limits.
    BigQueryAction,
    /// Kills after which a kind of query is refused.
    QuarantineAfter,
    /// The time in which these kills are counted.
    QuarantineWindow,
    /// Share of IO time.
    IoWeight,
    /// Hard cap on metered IO.
    MaxIoBytesPerSecond,
    /// Memory shared with other groups.
    MemPool,
}

/// What texts a property takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A whole number from `min` to `max`.
    Integer {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A decimal number of cores, at least 0.01.
    Cores,
    /// One of [`GroupType`].
    Type,
    /// A share in (0, 1], or bytes above 0 with a unit.
    Memory,
    /// A share in (0, 1].
    Share,
    /// A decimal number of seconds.
    Seconds,
    /// Bytes, with or without a unit.
    Bytes,
    /// A length of time above 0.
    Duration,
    /// One of [`BigQueryAction`].
    Action,
    /// This word only.
    Word(&'static str),
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Property {
    /// Which one.
    pub key: Key,
    /// Its name in texts.
    pub name: &'static str,
    /// Another name that is accepted, StarRocks' newer one.
    pub alias: Option<&'static str>,
    /// Type and range.
    pub kind: Kind,
    /// The range in words.
    pub allowed: &'static str,
    /// The value, as one would write it, that has the same effect as leaving the property out; `None` if there is none.
    pub default: Option<&'static str>,
    /// What holds when it is left out, in words.
    pub absent: &'static str,
    /// An example of a value.
    pub example: &'static str,
    /// Fixed once the group exists.
    pub immutable: bool,
    /// Whether this version obeys it. One that is not is stored and shown, and every answer says so.
    pub enforced: bool,
    /// What it does.
    pub doc: &'static str,
}

const WEIGHT: Kind = Kind::Integer {
    min: Weight::MIN.get(),
    max: Weight::MAX.get(),
};
const COUNT: Kind = Kind::Integer {
    min: 0,
    max: u64::MAX,
};

/// What a line of the table says unless it says otherwise.
const PLAIN: Property = Property {
    key: Key::CpuCoreLimit,
    name: "",
    alias: None,
    kind: COUNT,
    allowed: "",
    default: Some("0"),
    absent: "off",
    example: "",
    immutable: false,
    enforced: false,
    doc: "",
};

/// The table.
pub static PROPERTIES: [Property; 19] = [
    Property {
        key: Key::CpuCoreLimit,
        name: "cpu_core_limit",
        alias: Some("cpu_weight"),
        kind: WEIGHT,
        allowed: "a whole number from 1 to 10000",
        default: Some("1"),
        absent: "1",
        example: "4",
        enforced: true,
        doc: "share of worker time among the groups that have work; not a cap",
        ..PLAIN
    },
    Property {
        key: Key::MaxCpuCores,
        name: "max_cpu_cores",
        kind: Kind::Cores,
        allowed: "a decimal number from 0.01 to the number of workers",
        default: None,
        absent: "none",
        example: "1.5",
        doc: "hard cap in cores, averaged over 100 ms; binds even when workers are idle",
        ..PLAIN
    },
    Property {
        key: Key::ExclusiveCpuCores,
        name: "exclusive_cpu_cores",
        allowed: "a whole number from 0 to the number of workers minus one, over all groups together",
        absent: "0",
        example: "1",
        doc: "workers reserved while the group has work, lent to others while it has none",
        ..PLAIN
    },
    Property {
        key: Key::Type,
        name: "type",
        kind: Kind::Type,
        allowed: "normal, short_query or mv",
        default: Some("normal"),
        absent: "normal",
        example: "short_query",
        immutable: true,
        doc: "short_query: classified first, and cpu_core_limit is a reservation too; mv: as normal",
        ..PLAIN
    },
    Property {
        key: Key::MemLimit,
        name: "mem_limit",
        kind: Kind::Memory,
        allowed: "more than 0 and at most 100%, as 20% or 0.2, or bytes with a unit up to the governor's memory limit",
        default: Some("100%"),
        absent: "100%",
        example: "20%",
        doc: "hard ceiling of memory",
        ..PLAIN
    },
    Property {
        key: Key::SpillMemLimitThreshold,
        name: "spill_mem_limit_threshold",
        kind: Kind::Share,
        allowed: "more than 0 and at most 1, as 80% or 0.8; 1 is off",
        default: Some("1"),
        example: "80%",
        doc: "above this share of mem_limit, spill callbacks run",
        ..PLAIN
    },
    Property {
        key: Key::ConcurrencyLimit,
        name: "concurrency_limit",
        allowed: "a whole number; 0 is unlimited",
        absent: "unlimited",
        example: "10",
        enforced: true,
        doc: "queries running at once",
        ..PLAIN
    },
    Property {
        key: Key::MaxQueuedQueries,
        name: "max_queued_queries",
        allowed: "a whole number; 0 refuses excess queries at once",
        absent: "0",
        example: "100",
        doc: "waiting places once concurrency_limit is reached",
        ..PLAIN
    },
    Property {
        key: Key::QueueTimeout,
        name: "queue_timeout",
        kind: Kind::Duration,
        allowed: "a time above 0: one number with ns, us, ms, s, m, h or d",
        default: Some("300s"),
        absent: "300s",
        example: "2m",
        doc: "longest wait, counted from enqueue",
        ..PLAIN
    },
    Property {
        key: Key::BigQueryCpuSecondLimit,
        name: "big_query_cpu_second_limit",
        kind: Kind::Seconds,
        allowed: "a decimal number of seconds; 0 is off",
        example: "100",
        doc: "CPU time of one query",
        ..PLAIN
    },
    Property {
        key: Key::BigQueryScanRowsLimit,
        name: "big_query_scan_rows_limit",
        allowed: "a whole number; 0 is off",
        example: "100000",
        doc: "rows that one query scans",
        ..PLAIN
    },
    Property {
        key: Key::BigQueryMemLimit,
        name: "big_query_mem_limit",
        kind: Kind::Bytes,
        allowed: "bytes, with or without a unit; 0 is off",
        example: "1GiB",
        doc: "memory of one query",
        ..PLAIN
    },
    Property {
        key: Key::BigQueryElapsedSecondLimit,
        name: "big_query_elapsed_second_limit",
        kind: Kind::Seconds,
        allowed: "a decimal number of seconds; 0 is off",
        example: "600",
        doc: "wall time of one query since admission",
        ..PLAIN
    },
    Property {
        key: Key::BigQueryAction,
        name: "big_query_action",
        kind: Kind::Action,
        allowed: "kill, dry_run, cooldown or switch_group(name)",
        default: Some("kill"),
        absent: "kill",
        example: "cooldown",
        doc: "what happens to a query over one of the big_query limits",
        ..PLAIN
    },
    Property {
        key: Key::QuarantineAfter,
        name: "quarantine_after",
        allowed: "a whole number; 0 is off",
        example: "3",
        doc: "kills of queries of one fingerprint after which it is refused",
        ..PLAIN
    },
    Property {
        key: Key::QuarantineWindow,
        name: "quarantine_window",
        kind: Kind::Duration,
        allowed: "a time above 0: one number with ns, us, ms, s, m, h or d",
        default: Some("10m"),
        absent: "10m",
        example: "30m",
        doc: "the time in which these kills are counted",
        ..PLAIN
    },
    Property {
        key: Key::IoWeight,
        name: "io_weight",
        kind: WEIGHT,
        allowed: "a whole number from 1 to 10000",
        default: None,
        absent: "cpu_core_limit",
        example: "4",
        doc: "share of IO time",
        ..PLAIN
    },
    Property {
        key: Key::MaxIoBytesPerSecond,
        name: "max_io_bytes_per_second",
        kind: Kind::Bytes,
        allowed: "bytes, with or without a unit; 0 is off",
        example: "100MB",
        doc: "hard cap on metered IO",
        ..PLAIN
    },
    Property {
        key: Key::MemPool,
        name: "mem_pool",
        kind: Kind::Word("default_mem_pool"),
        allowed: "default_mem_pool",
        default: Some("default_mem_pool"),
        absent: "default_mem_pool",
        example: "default_mem_pool",
        // The one value that is accepted is what every group has.
        enforced: true,
        doc: "accepted for StarRocks' texts: each group has a memory budget of its own",
        ..PLAIN
    },
];

/// Every key has its line, at its own place: looking one up cannot fail.
const _: () = {
    assert!(PROPERTIES.len() == Key::MemPool as usize + 1);
    let mut i = 0;
    while i < PROPERTIES.len() {
        assert!(PROPERTIES[i].key as usize == i);
        i += 1;
    }
};

/// What kind of group it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GroupType {
    /// Shares by weight.
    #[default]
    Normal,
    /// Its classifiers come before all others; its weight is a reservation too.
    ShortQuery,
    /// As normal; accepted for StarRocks' texts.
    Mv,
}

impl GroupType {
    /// All of them.
    pub const ALL: [GroupType; 3] = [GroupType::Normal, GroupType::ShortQuery, GroupType::Mv];

    /// As in statements, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            GroupType::Normal => "normal",
            GroupType::ShortQuery => "short_query",
            GroupType::Mv => "mv",
        }
    }
}

/// What happens to a query that exceeds one of its group's big_query limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum BigQueryAction {
    /// It is ended.
    #[default]
    Kill,
    /// It is counted only.
    DryRun,
    /// It goes on as if its group's weight were 1.
    Cooldown,
    /// It moves to the group of that name.
    SwitchGroup(String),
}

impl fmt::Display for BigQueryAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BigQueryAction::Kill => f.write_str("kill"),
            BigQueryAction::DryRun => f.write_str("dry_run"),
            BigQueryAction::Cooldown => f.write_str("cooldown"),
            BigQueryAction::SwitchGroup(name) => write!(f, "switch_group({name})"),
        }
    }
}

/// A property's value, read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// Of [`Kind::Integer`].
    Integer(u64),
    /// Of [`Kind::Cores`].
    Cores(Number),
    /// Of [`Kind::Type`].
    Type(GroupType),
    /// Of [`Kind::Memory`].
    Memory(Memory),
    /// Of [`Kind::Share`].
    Share(Number),
    /// Of [`Kind::Seconds`] and [`Kind::Duration`].
    Time(Nanos),
    /// Of [`Kind::Bytes`].
    Bytes(Bytes),
    /// Of [`Kind::Action`].
    Action(BigQueryAction),
    /// Of [`Kind::Word`].
    Word,
}

/// Why a text is no value of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// It does not read as one.
    #[error(transparent)]
    Text(#[from] ValueError),
    /// It has a sign.
    #[error("it is negative")]
    Negative,
    /// It reads well, but is out of range.
    #[error("it is outside the range")]
    Range,
    /// It is none of the words.
    #[error("it is none of the words for it")]
    Word,
    /// A group's name is asked for, and this cannot be one.
    #[error("it does not name a group")]
    Name,
}

impl Key {
    /// Its line of the table.
    pub fn property(self) -> &'static Property {
        &PROPERTIES[self as usize]
    }

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        self.property().name
    }

    /// The key of that name or alias, in lower case.
    pub fn from_name(name: &str) -> Option<Key> {
        PROPERTIES
            .iter()
            .find(|p| p.name == name || p.alias == Some(name))
            .map(|p| p.key)
    }

    /// The name or alias that is closest to a misspelt one.
    pub fn closest(name: &str) -> Option<&'static str> {
        closest(
            name,
            PROPERTIES
                .iter()
                .flat_map(|p| [Some(p.name), p.alias])
                .flatten(),
        )
    }
}

impl Property {
    /// Reads a value and checks its range, as far as that does not depend on the machine.
    ///
    /// # Errors
    /// Why the text is no value of this property.
    pub fn read(&self, text: &str) -> Result<Setting, Misfit> {
        let trimmed = text.trim();
        let setting = self.read_kind(text).map_err(|misfit| {
            let number = trimmed
                .strip_prefix('-')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            if number { Misfit::Negative } else { misfit }
        })?;
        Ok(setting)
    }

    fn read_kind(&self, text: &str) -> Result<Setting, Misfit> {
        let within = |ok: bool, setting: Setting| if ok { Ok(setting) } else { Err(Misfit::Range) };
        let share = |n: Number| !n.is_zero() && n <= Number::whole(1);
        match self.kind {
            Kind::Integer { min, max } => {
                let n = value::integer(text)?;
                within((min..=max).contains(&n), Setting::Integer(n))
            }
            Kind::Cores => {
                let n = value::number(text)?;
                within(n.times(100).is_none_or(|h| h >= 1), Setting::Cores(n))
            }
            Kind::Memory => {
                let memory = value::memory(text)?;
                let ok = match memory {
                    Memory::Share(n) => share(n),
                    Memory::Bytes(b) => b.0 > 0,
                };
                within(ok, Setting::Memory(memory))
            }
            Kind::Share => {
                let n = value::share(text)?;
                within(share(n), Setting::Share(n))
            }
            Kind::Seconds => Ok(Setting::Time(value::seconds(text)?)),
            Kind::Duration => {
                let t = value::duration(text)?;
                within(t > Nanos::ZERO, Setting::Time(t))
            }
            Kind::Bytes => Ok(Setting::Bytes(value::bytes(text)?)),
            Kind::Type => GroupType::ALL
                .into_iter()
                .find(|t| t.name().eq_ignore_ascii_case(text.trim()))
                .map(Setting::Type)
                .ok_or(Misfit::Word),
            Kind::Action => action(text).map(Setting::Action),
            Kind::Word(word) if text.trim() == word => Ok(Setting::Word),
            Kind::Word(_) => Err(Misfit::Word),
        }
    }

    /// Whether a value does something that leaving the property out would not do.
    pub fn departs(&self, setting: &Setting) -> bool {
        let default = self.default.and_then(|text| self.read(text).ok());
        default.as_ref() != Some(setting)
    }
}

fn action(text: &str) -> Result<BigQueryAction, Misfit> {
    let (word, argument) = value::call(text).map_err(|_| Misfit::Word)?;
    match (word.to_ascii_lowercase().as_str(), argument) {
        ("kill", None) => Ok(BigQueryAction::Kill),
        ("dry_run", None) => Ok(BigQueryAction::DryRun),
        ("cooldown", None) => Ok(BigQueryAction::Cooldown),
        ("switch_group", Some(name)) if is_group_name(name) => {
            Ok(BigQueryAction::SwitchGroup(name.to_owned()))
        }
        ("switch_group", _) => Err(Misfit::Name),
        _ => Err(Misfit::Word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_unique() {
        let mut names = Vec::new();
        for property in &PROPERTIES {
            assert_eq!(Key::from_name(property.name), Some(property.key));
            names.push(property.name);
            names.extend(property.alias);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn examples_and_defaults_are_values_and_examples_do_something() {
        for p in &PROPERTIES {
            let example = p
                .read(p.example)
                .unwrap_or_else(|e| panic!("{}: {e}", p.name));
            if p.key != Key::MemPool {
                assert!(p.departs(&example), "{}", p.name);
            }
            if let Some(default) = p.default {
                assert!(!p.departs(&p.read(default).unwrap()), "{}", p.name);
            }
        }
    }

    /// The list shrinks as stages are built.
    #[test]
    fn these_properties_are_stored_but_not_enforced_yet() {
        let not_yet: Vec<&str> = PROPERTIES
            .iter()
            .filter(|p| !p.enforced)
            .map(|p| p.name)
            .collect();
        assert_eq!(
            not_yet,
            [
                "max_cpu_cores",
                "exclusive_cpu_cores",
                "type",
                "mem_limit",
                "spill_mem_limit_threshold",
                "max_queued_queries",
                "queue_timeout",
                "big_query_cpu_second_limit",
                "big_query_scan_rows_limit",
                "big_query_mem_limit",
                "big_query_elapsed_second_limit",
                "big_query_action",
                "quarantine_after",
                "quarantine_window",
                "io_weight",
                "max_io_bytes_per_second",
            ]
        );
    }

    #[test]
    fn ranges_hold_at_both_ends() {
        use Misfit::*;
        for (name, text, expected) in [
            ("cpu_core_limit", "1", None),
            ("cpu_core_limit", "10000", None),
            ("cpu_core_limit", "0", Some(Range)),
            ("cpu_core_limit", "10001", Some(Range)),
            ("cpu_core_limit", "-1", Some(Negative)),
            ("max_cpu_cores", "0.01", None),
            ("max_cpu_cores", "0.0099", Some(Range)),
            ("max_cpu_cores", "0", Some(Range)),
            ("exclusive_cpu_cores", "0", None),
            ("exclusive_cpu_cores", "1.5", Some(Text(ValueError::Form))),
            ("type", " SHORT_Query ", None),
            ("type", "default", Some(Word)),
            ("mem_limit", "100%", None),
            ("mem_limit", "1", None),
            ("mem_limit", "0", Some(Range)),
            ("mem_limit", "0%", Some(Range)),
            ("mem_limit", "1.1", Some(Range)),
            ("mem_limit", "101%", Some(Range)),
            ("mem_limit", "512", Some(Range)),
            ("mem_limit", "0MiB", Some(Range)),
            ("mem_limit", "-20%", Some(Negative)),
            ("mem_limit", "NaN", Some(Text(ValueError::Form))),
            ("mem_limit", "512PB", Some(Text(ValueError::Unit))),
            ("spill_mem_limit_threshold", "1", None),
            ("spill_mem_limit_threshold", "0", Some(Range)),
            ("spill_mem_limit_threshold", "1.01", Some(Range)),
            (
                "spill_mem_limit_threshold",
                "80MB",
                Some(Text(ValueError::Unit)),
            ),
            ("concurrency_limit", "0", None),
            ("concurrency_limit", "-5", Some(Negative)),
            ("queue_timeout", "0", Some(Range)),
            ("queue_timeout", "1ns", None),
            ("big_query_cpu_second_limit", "0.5", None),
            ("big_query_mem_limit", "1.5GB", None),
            ("big_query_action", "switch_group(etl)", None),
            ("big_query_action", "switch_group", Some(Name)),
            ("big_query_action", "switch_group(1x)", Some(Name)),
            ("big_query_action", "kill(x)", Some(Word)),
            ("big_query_action", "murder", Some(Word)),
            ("mem_pool", "default_mem_pool", None),
            ("mem_pool", "mine", Some(Word)),
        ] {
            let property = Key::from_name(name).unwrap().property();
            assert_eq!(property.read(text).err(), expected, "{name}={text}");
        }
    }
}
