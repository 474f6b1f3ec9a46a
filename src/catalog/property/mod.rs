//! Properties of groups: their keys, what values they take, how these are read.
//!
//! Pure. Everything that differs from property to property stands in the [table](PROPERTIES).

mod table;

pub use table::PROPERTIES;

use crate::sql::ast::is_group_name;
use crate::sql::suggest::closest;
use crate::sql::value::{self, Memory, Number, ValueError};
use crate::unit::{Bytes, Nanos};
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
    /// What holds when it is left out, in words.
    pub absent: &'static str,
    /// An example of a value.
    pub example: &'static str,
    /// Fixed once the group exists.
    pub immutable: bool,
    /// What it does.
    pub doc: &'static str,
}

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

    /// The words that it takes, if it takes words.
    pub fn words(&self) -> Vec<&'static str> {
        match self.kind {
            Kind::Type => GroupType::ALL.map(GroupType::name).into(),
            Kind::Action => ACTIONS.into(),
            Kind::Word(word) => vec![word],
            _ => Vec::new(),
        }
    }
}

/// The words of `big_query_action`.
const ACTIONS: [&str; 4] = ["kill", "dry_run", "cooldown", "switch_group"];

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
