//! The property table: what each property takes.

#![allow(clippy::unwrap_used)]

use quotient::catalog::property::Misfit::{Name, Negative, Range, Text, Word};
use quotient::catalog::property::{Key, PROPERTIES};
use quotient::sql::value::ValueError;

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
fn examples_are_values() {
    for p in &PROPERTIES {
        p.read(p.example)
            .unwrap_or_else(|e| panic!("{}: {e}", p.name));
    }
}

#[test]
fn ranges_hold_at_both_ends() {
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
