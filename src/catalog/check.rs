//! Rules for the properties of one group: known keys, ranges, what excludes what, what this machine has.
//!
//! Pure. Rules across groups need the other groups and stand in `draft.rs`.

use super::group::{GroupSpec, Machine, Written};
use super::property::{GroupType, Key, PROPERTIES, Setting};
use crate::sql::ast::Assignment;
use crate::sql::suggest::closest;
use crate::sql::value::{Memory, Number, integer};
use crate::sql::{Span, SqlError, SqlErrorKind};
use std::collections::BTreeMap;

/// A `WITH (..)`, read.
#[derive(Debug, Default)]
pub(super) struct Change {
    entries: BTreeMap<Key, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// `None` takes the property away: a weight of 0.
    written: Option<Written>,
    /// The value's text, for messages.
    text: String,
    key: Span,
    value: Span,
}

/// Reads a `WITH (..)`: every key is known and given once, every value fits its property on some machine.
pub(super) fn read(assignments: &[Assignment]) -> Result<Change, SqlError> {
    let mut change = Change::default();
    for a in assignments {
        let Some(key) = Key::from_name(&a.key) else {
            let names: Vec<&str> = PROPERTIES.iter().map(|p| p.name).collect();
            let kind = SqlErrorKind::UnknownProperty {
                key: a.key.value.clone(),
            };
            return Err(SqlError::new(kind, a.key.span)
                .with_suggestion(Key::closest(&a.key))
                .with_hint(format!("properties are {}", names.join(", "))));
        };
        let text = a.value.value.clone();
        // StarRocks' way to say "no weight"; what it means is decided once the reservation is known.
        let written = if key == Key::CpuCoreLimit && integer(&text) == Ok(0) {
            None
        } else {
            let property = key.property();
            let setting = property
                .read(&text)
                .map_err(|misfit| unfit(key, &text, a.value.span, misfit.to_string()))?;
            Some(Written {
                text: text.trim().to_owned(),
                setting,
            })
        };
        let entry = Entry {
            written,
            text,
            key: a.key.span,
            value: a.value.span,
        };
        if change.entries.insert(key, entry).is_some() {
            let kind = SqlErrorKind::Duplicate {
                key: key.name().to_owned(),
            };
            let mut error = SqlError::new(kind, a.key.span);
            if let Some(alias) = key.property().alias {
                error = error.with_hint(format!("{alias} is another name of {}", key.name()));
            }
            return Err(error);
        }
    }
    Ok(change)
}

fn unfit(key: Key, text: &str, span: Span, why: String) -> SqlError {
    let kind = SqlErrorKind::BadValue {
        key: key.name().to_owned(),
        value: text.to_owned(),
        why,
    };
    SqlError::new(kind, span)
        .with_hint(allowed(key))
        .with_suggestion(closest(text.trim(), key.property().words()))
}

/// What a property takes, with an example.
fn allowed(key: Key) -> String {
    let p = key.property();
    format!(
        "allowed is {}, as in '{}'='{}'",
        p.allowed, p.name, p.example
    )
}

impl Change {
    /// The keys that are set.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.entries.keys().copied()
    }

    /// Where a key's own text stands, if the change has it.
    pub(super) fn key_span(&self, key: Key) -> Option<Span> {
        self.entries.get(&key).map(|e| e.key)
    }

    /// Where a key's value stands, if the change has it.
    pub(super) fn value_span(&self, key: Key) -> Option<Span> {
        self.entries.get(&key).map(|e| e.value)
    }

    /// Takes the change over into a group, and checks what its properties say together.
    pub(super) fn merge_into(&self, spec: &mut GroupSpec) -> Result<(), SqlError> {
        for (key, entry) in &self.entries {
            match &entry.written {
                Some(written) => spec.properties.insert(*key, written.clone()),
                None => spec.properties.remove(key),
            };
        }
        self.check_together(spec)
    }

    fn check_together(&self, spec: &GroupSpec) -> Result<(), SqlError> {
        let reserved = spec.exclusive_cpu_cores_written();
        if let Some(weight) = self.entries.get(&Key::CpuCoreLimit)
            && weight.written.is_none()
            && reserved == 0
        {
            let why = "it is outside the range without exclusive_cpu_cores".to_owned();
            return Err(unfit(Key::CpuCoreLimit, &weight.text, weight.value, why));
        }
        if reserved == 0 {
            return Ok(());
        }
        let conflict = |other: Key, value: String, hint: &str| {
            let kind = SqlErrorKind::Conflict {
                name: spec.name.clone(),
                first: format!("{}={value}", other.name()),
                second: format!("{}={reserved}", Key::ExclusiveCpuCores.name()),
            };
            let span = self
                .key_span(Key::ExclusiveCpuCores)
                .or(self.key_span(other))
                .unwrap_or_default();
            SqlError::new(kind, span).with_hint(hint)
        };
        if let Some(weight) = spec.properties.get(&Key::CpuCoreLimit) {
            let hint = "a group has a weight or a reservation; take one back in the same WITH, \
                        as in 'cpu_core_limit'='0' or 'exclusive_cpu_cores'='0'";
            return Err(conflict(Key::CpuCoreLimit, weight.text.clone(), hint));
        }
        if spec.group_type() == GroupType::ShortQuery {
            let hint = "the cpu_core_limit of a short_query group is its reservation already";
            return Err(conflict(Key::Type, "short_query".to_owned(), hint));
        }
        Ok(())
    }

    /// Refuses what this machine does not have, for the keys of the change only: what was there before stays.
    pub(super) fn check_machine(&self, machine: Machine) -> Result<(), SqlError> {
        for (key, entry) in &self.entries {
            let Some(written) = &entry.written else {
                continue;
            };
            if let Some(why) = beyond(&written.setting, *key, machine) {
                return Err(self.beyond_machine(*key, why));
            }
        }
        Ok(())
    }

    /// A value of the change is more than the machine has.
    pub(super) fn beyond_machine(&self, key: Key, why: String) -> SqlError {
        let entry = self.entries.get(&key);
        let kind = SqlErrorKind::BeyondMachine {
            key: key.name(),
            value: entry.map_or_else(String::new, |e| e.text.clone()),
            why,
        };
        SqlError::new(kind, entry.map_or(Span::default(), |e| e.value)).with_hint(allowed(key))
    }
}

/// Why a value is more, or less, than this machine can give.
fn beyond(setting: &Setting, key: Key, machine: Machine) -> Option<String> {
    let workers = machine.workers();
    let limit = machine.memory_limit;
    match setting {
        Setting::Cores(n) if *n > Number::whole(workers) => {
            Some(format!("there are {workers} workers"))
        }
        Setting::Integer(n) if key == Key::ExclusiveCpuCores && *n > workers - 1 => Some(format!(
            "{} of {workers} workers can be reserved",
            workers - 1
        )),
        Setting::Memory(Memory::Bytes(b)) if *b > limit => {
            Some(format!("the governor's memory limit is {limit} bytes"))
        }
        Setting::Memory(Memory::Share(n)) if n.times(limit.0.max(1)) == Some(0) => Some(format!(
            "it is less than one byte of the governor's memory limit of {limit} bytes"
        )),
        _ => None,
    }
}

/// The properties of a group that hold less than they say, and what they hold.
pub(super) fn clamped(spec: &GroupSpec) -> Vec<(Key, String)> {
    let mut found = Vec::new();
    for (key, written) in &spec.properties {
        let effect = match key {
            Key::ExclusiveCpuCores if spec.exclusive_cpu_cores_written() > spec.granted_cores => {
                spec.granted_cores.to_string()
            }
            Key::ExclusiveCpuCores => continue,
            _ if beyond(&written.setting, *key, spec.machine).is_none() => continue,
            Key::MaxCpuCores => spec.machine.workers().to_string(),
            _ => format!("{} bytes", spec.mem_limit()),
        };
        found.push((*key, effect));
    }
    found
}
