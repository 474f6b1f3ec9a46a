//! What an operator sets for the whole governor: variables of SQL, keys of a properties file, fields of a struct.
//!
//! Pure. The [table](VARIABLES) has one line per variable; SET GLOBAL, SHOW VARIABLES and
//! [`Settings::from_properties`] are written from it. What a value means is the business of the stage that obeys it.

mod error;
mod properties;
mod variable;

pub use error::SettingsError;
pub use variable::{VARIABLES, Variable, VariableSpec};

use crate::sql::value::{Number, integer, number};
use std::fmt;

/// Who starts next when a place of the governor is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheduler {
    /// The groups take turns, first in, first out inside each.
    #[default]
    RoundRobin,
    /// First come, first served over all groups.
    Fcfs,
    /// As [`Fcfs`](Scheduler::Fcfs), and fewer at once while memory is short: StarTree's scheduler.
    MemoryThrottledFcfs,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Scheduler; 3] = [
        Scheduler::RoundRobin,
        Scheduler::Fcfs,
        Scheduler::MemoryThrottledFcfs,
    ];

    /// As in SET GLOBAL.
    pub const fn name(self) -> &'static str {
        match self {
            Scheduler::RoundRobin => "round_robin",
            Scheduler::Fcfs => "fcfs",
            Scheduler::MemoryThrottledFcfs => "MemoryThrottledFCFS",
        }
    }

    /// The scheduler of that name, in any case, or of StarTree's class name.
    pub fn from_name(name: &str) -> Option<Scheduler> {
        const CLASS: &str = "ai.startree.query.scheduler.MemoryThrottledFCFSQueryScheduler";
        if name == CLASS {
            return Some(Scheduler::MemoryThrottledFcfs);
        }
        let named = |it: &Scheduler| it.name().eq_ignore_ascii_case(name);
        Scheduler::ALL.into_iter().find(named)
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The governor's variables, by field.
///
/// ```
/// use quotient::Settings;
///
/// let mut settings = Settings::from_properties("pinot.query.scheduler.name=MemoryThrottledFCFS")?;
/// settings.query_runner_threads = 40;
/// # Ok::<(), quotient::settings::SettingsError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Who starts next when a place of the governor is free. Default: the groups take turns.
    pub query_scheduler_name: Scheduler,
    /// Share of the memory limit, in percent, above which admission is throttled: more than 0, less than 100.
    /// Default: 95.
    pub memory_usage_percentage_threshold: f64,
    /// Milliseconds between two looks at the memory, and between two rises of the cap after throttling: 1 or more.
    /// Default: 1000.
    pub max_running_queries_update_frequency_ms: u64,
    /// Queries at once over all groups; 0 = no limit, or with [`Scheduler::MemoryThrottledFcfs`] 16 per worker.
    /// Default: 0.
    pub query_runner_threads: u64,
    /// Milliseconds from which on a poll counts as long: 1 or more. Default: 5.
    pub long_poll_threshold_ms: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            query_scheduler_name: Scheduler::RoundRobin,
            memory_usage_percentage_threshold: 95.0,
            max_running_queries_update_frequency_ms: 1_000,
            query_runner_threads: 0,
            long_poll_threshold_ms: 5,
        }
    }
}

/// A text is no value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit;

impl Settings {
    /// The defaults.
    pub fn new() -> Settings {
        Settings::default()
    }

    /// Reads a Java properties file with StarTree's and Pinot's keys, as their documents print them.
    ///
    /// Keys outside `pinot.query.scheduler.` are none of ours and ignored; one inside that is not known is an error.
    /// Of a key that occurs twice the last one counts, as in Java.
    ///
    /// # Errors
    /// The first line that cannot be read or whose value is out of range.
    pub fn from_properties(text: &str) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        for property in properties::read(text)? {
            let Some(variable) = property.variable()? else {
                continue;
            };
            settings
                .set(variable, &property.value)
                .map_err(|Misfit| SettingsError::BadValue {
                    line: Some(property.line),
                    key: property.key.clone(),
                    value: property.value.clone(),
                    variable,
                })?;
        }
        Ok(settings)
    }

    /// Sets one variable from its text.
    ///
    /// # Errors
    /// If the text is none of its values; nothing is changed then.
    pub fn set(&mut self, variable: Variable, text: &str) -> Result<(), Misfit> {
        let text = text.trim();
        let whole = |least: u64| {
            let read = integer(text).ok().filter(|n| *n >= least);
            read.ok_or(Misfit)
        };
        match variable {
            Variable::QuerySchedulerName => {
                self.query_scheduler_name = Scheduler::from_name(text).ok_or(Misfit)?;
            }
            Variable::MemoryUsagePercentageThreshold => {
                let share = number(text).ok().filter(|n| *n < Number::whole(100));
                let share = share.map(Number::as_f64).filter(|n| is_threshold(*n));
                self.memory_usage_percentage_threshold = share.ok_or(Misfit)?;
            }
            Variable::MaxRunningQueriesUpdateFrequencyMs => {
                self.max_running_queries_update_frequency_ms = whole(1)?;
            }
            Variable::QueryRunnerThreads => self.query_runner_threads = whole(0)?,
            Variable::LongPollThresholdMs => self.long_poll_threshold_ms = whole(1)?,
        }
        Ok(())
    }

    /// The text of one variable.
    pub fn get(&self, variable: Variable) -> String {
        match variable {
            Variable::QuerySchedulerName => self.query_scheduler_name.to_string(),
            Variable::MemoryUsagePercentageThreshold => {
                self.memory_usage_percentage_threshold.to_string()
            }
            Variable::MaxRunningQueriesUpdateFrequencyMs => {
                self.max_running_queries_update_frequency_ms.to_string()
            }
            Variable::QueryRunnerThreads => self.query_runner_threads.to_string(),
            Variable::LongPollThresholdMs => self.long_poll_threshold_ms.to_string(),
        }
    }

    /// Whether all fields are in their ranges.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut copy = self.clone();
        for spec in &VARIABLES {
            let text = self.get(spec.variable);
            copy.set(spec.variable, &text)
                .map_err(|Misfit| SettingsError::BadValue {
                    line: None,
                    key: spec.name.to_owned(),
                    value: text.clone(),
                    variable: spec.variable,
                })?;
        }
        Ok(())
    }
}

fn is_threshold(percent: f64) -> bool {
    percent > 0.0 && percent < 100.0
}
