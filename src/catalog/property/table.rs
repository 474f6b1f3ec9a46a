//! **The** property table: every key of `WITH (..)`, in one place.
//!
//! Pure. A new property is one line here, one accessor in `group.rs`, and the stage that obeys it. Its place in the
//! table is its place in every text that is printed.

use super::{Key, Kind, Property};
use crate::unit::Weight;

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
    absent: "off",
    example: "",
    immutable: false,
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
        absent: "1",
        example: "4",
        doc: "share of worker time among the groups that have work; not a cap",
        ..PLAIN
    },
    Property {
        key: Key::MaxCpuCores,
        name: "max_cpu_cores",
        kind: Kind::Cores,
        allowed: "a decimal number from 0.01 to the number of workers",
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
        absent: "cpu_core_limit",
        example: "4",
        doc: "share of the blocking pool's threads among groups whose closures wait for one, and of shared IO capacities among those whose streams wait",
        ..PLAIN
    },
    Property {
        key: Key::MaxIoBytesPerSecond,
        name: "max_io_bytes_per_second",
        kind: Kind::Bytes,
        allowed: "bytes, with or without a unit; 0 is off",
        example: "100MB",
        doc: "hard cap on what files (quotient::fs) and metered streams pass, both directions together",
        ..PLAIN
    },
    Property {
        key: Key::MemPool,
        name: "mem_pool",
        kind: Kind::Word("default_mem_pool"),
        allowed: "default_mem_pool",
        absent: "default_mem_pool",
        example: "default_mem_pool",
        // The one value that is accepted is what every group has.
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
