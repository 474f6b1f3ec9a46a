//! **The** table of variables: name in SQL, key in properties files, range, default.
//!
//! Pure. A new variable is one line here, one field in [`Settings`](super::Settings), and the stage that obeys it.

use crate::sql::suggest::closest;

/// The variables, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Variable {
    /// Who starts next.
    QuerySchedulerName,
    /// Above this share of the memory limit, admission is throttled.
    MemoryUsagePercentageThreshold,
    /// Time between two steps of the throttle.
    MaxRunningQueriesUpdateFrequencyMs,
    /// Queries at once over all groups.
    QueryRunnerThreads,
    /// From here on a poll is long.
    LongPollThresholdMs,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct VariableSpec {
    /// Which one.
    pub variable: Variable,
    /// Its name in SQL.
    pub name: &'static str,
    /// Its key in Pinot's properties files; none if it has none.
    pub property: Option<&'static str>,
    /// Its value if nobody sets it.
    pub default: &'static str,
    /// Its values in words.
    pub allowed: &'static str,
    /// One of them.
    pub example: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// The table.
pub static VARIABLES: [VariableSpec; 5] = [
    VariableSpec {
        variable: Variable::QuerySchedulerName,
        name: "query_scheduler_name",
        property: Some("pinot.query.scheduler.name"),
        default: "round_robin",
        allowed: "round_robin, fcfs or MemoryThrottledFCFS",
        example: "MemoryThrottledFCFS",
        doc: "who starts next when a place of the governor is free; MemoryThrottledFCFS lets fewer run while memory is short",
    },
    VariableSpec {
        variable: Variable::MemoryUsagePercentageThreshold,
        name: "memory_usage_percentage_threshold",
        property: Some("pinot.query.scheduler.throttle.memoryUsagePercentageThreshold"),
        default: "95",
        allowed: "more than 0 and less than 100, decimals allowed",
        example: "90",
        doc: "above this share of the memory limit, in percent, MemoryThrottledFCFS throttles",
    },
    VariableSpec {
        variable: Variable::MaxRunningQueriesUpdateFrequencyMs,
        name: "max_running_queries_update_frequency_ms",
        property: Some("pinot.query.scheduler.throttle.maxRunningQueriesUpdateFrequencyMs"),
        default: "1000",
        allowed: "a whole number, 1 or more",
        example: "1000",
        doc: "milliseconds between two looks at the memory, and between two rises of the cap after throttling",
    },
    VariableSpec {
        variable: Variable::QueryRunnerThreads,
        name: "query_runner_threads",
        property: Some("pinot.query.scheduler.query_runner_threads"),
        default: "0",
        allowed: "a whole number; 0 is no limit, with MemoryThrottledFCFS 16 per worker",
        example: "40",
        doc: "queries at once over all groups",
    },
    VariableSpec {
        variable: Variable::LongPollThresholdMs,
        name: "long_poll_threshold_ms",
        property: None,
        default: "5",
        allowed: "a whole number, 1 or more",
        example: "5",
        doc: "milliseconds from which on a poll counts as long",
    },
];

/// Every variable has its line, at its own place: looking one up cannot fail.
const _: () = {
    let mut i = 0;
    while i < VARIABLES.len() {
        assert!(VARIABLES[i].variable as usize == i);
        i += 1;
    }
    assert!(VARIABLES.len() == Variable::LongPollThresholdMs as usize + 1);
};

impl Variable {
    /// Its line of the table.
    pub fn spec(self) -> &'static VariableSpec {
        &VARIABLES[self as usize]
    }

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The variable of that name, in lower case.
    pub fn from_name(name: &str) -> Option<Variable> {
        let found = VARIABLES.iter().find(|spec| spec.name == name);
        found.map(|spec| spec.variable)
    }

    /// The name that is closest to a misspelt one.
    pub fn closest(name: &str) -> Option<&'static str> {
        closest(name, VARIABLES.iter().map(|spec| spec.name))
    }
}
