//! SET GLOBAL and SHOW VARIABLES, and what the variables mean for the stages.
//!
//! Wiring; any thread. Changes are made one after the other, under the lock that holds the settings.

use super::{Governor, Inner, throttle};
use crate::admission::{GovernorLimits, Order, ThrottleRules};
use crate::settings::{Scheduler, Settings, VARIABLES, Variable};
use crate::sql::ast::Assignment;
use crate::sql::like::like;
use crate::sql::suggest::closest;
use crate::sql::{Notice, NoticeKind, Output, Spanned, SqlError, SqlErrorKind, Value};
use crate::unit::{Bytes, Nanos};
use crate::view::relation::Relation;
use crate::view::tables;

/// With the throttle on and no query_runner_threads, so many queries per worker may run at once.
const RUNNERS_PER_WORKER: u64 = 16;

impl Governor {
    /// The variables as they are now.
    pub fn settings(&self) -> Settings {
        self.inner.settings.lock().clone()
    }

    pub(super) fn set_global(&self, set: &Assignment) -> Result<Output, SqlError> {
        let inner = &*self.inner;
        let mut current = inner.settings.lock();
        let mut next = current.clone();
        let variable = assign(&mut next, set)?;
        if next.query_scheduler_name == Scheduler::MemoryThrottledFcfs
            && !throttle::has_timers(inner.entrance.runtime())
        {
            let why = "the throttle looks at a runtime's timers, and this one has none".to_owned();
            return Err(bad_value(variable, set, why));
        }
        let mut output = Output::done("SET");
        if let Some(notice) = without_effect(&next, variable) {
            output.notice(notice);
        }
        *current = next;
        if variable == Variable::LongPollThresholdMs {
            let threshold = Nanos::from_millis(current.long_poll_threshold_ms);
            inner.core.set_long_poll(threshold);
        }
        inner.govern(&current);
        Ok(output)
    }

    pub(super) fn show_variables(&self, pattern: Option<&Spanned<String>>) -> Output {
        let mut variables = self.variables_view();
        let fits = |name: &str| pattern.is_none_or(|pattern| like(pattern, name) == Ok(true));
        variables
            .rows
            .retain(|row| matches!(row.first(), Some(Value::Text(name)) if fits(name)));
        variables.show()
    }

    /// The view `variables`.
    pub(super) fn variables_view(&self) -> Relation {
        let settings = self.settings();
        tables::variables(VARIABLES.iter().map(|spec| {
            let value = settings.get(spec.variable);
            [spec.name, &value, spec.default, spec.allowed].map(str::to_owned)
        }))
    }
}

impl Inner {
    /// Puts the variables into effect. The caller holds the settings.
    pub(super) fn govern(&self, settings: &Settings) {
        let limits = limits(settings, self.core.workers(), self.memory_limit);
        self.gate.set_governor(limits);
        self.throttle_changed.notify_one();
    }
}

/// The variables as the gate takes them.
pub(crate) fn limits(settings: &Settings, workers: usize, memory_limit: Bytes) -> GovernorLimits {
    let throttles = settings.query_scheduler_name == Scheduler::MemoryThrottledFcfs;
    let runner_threads = match settings.query_runner_threads {
        0 if throttles => Some(RUNNERS_PER_WORKER * workers as u64),
        threads => Some(threads).filter(|&threads| threads > 0),
    };
    GovernorLimits {
        runner_threads,
        order: match settings.query_scheduler_name {
            Scheduler::RoundRobin => Order::RoundRobin,
            _ => Order::Fcfs,
        },
        throttle: throttles.then(|| ThrottleRules {
            threshold: threshold(settings.memory_usage_percentage_threshold, memory_limit),
            interval: Nanos::from_millis(settings.max_running_queries_update_frequency_ms),
        }),
    }
}

fn threshold(percent: f64, memory_limit: Bytes) -> Bytes {
    Bytes((memory_limit.0 as f64 * percent / 100.0) as u64)
}

/// Sets one variable from a statement.
pub(crate) fn assign(settings: &mut Settings, set: &Assignment) -> Result<Variable, SqlError> {
    let Some(variable) = Variable::from_name(&set.key) else {
        let kind = SqlErrorKind::UnknownVariable {
            name: set.key.value.clone(),
        };
        let known: Vec<&str> = VARIABLES.iter().map(|spec| spec.name).collect();
        return Err(SqlError::new(kind, set.key.span)
            .with_suggestion(Variable::closest(&set.key))
            .with_hint(format!("variables are {}", known.join(", "))));
    };
    if settings.set(variable, &set.value).is_err() {
        return Err(bad_value(variable, set, "it is illegal".to_owned()));
    }
    Ok(variable)
}

fn bad_value(variable: Variable, set: &Assignment, why: String) -> SqlError {
    let spec = variable.spec();
    let kind = SqlErrorKind::BadValue {
        key: spec.name.to_owned(),
        value: set.value.value.clone(),
        why,
    };
    let hint = format!(
        "allowed is {}, as in SET GLOBAL {} = '{}'",
        spec.allowed, spec.name, spec.example
    );
    let words = match variable {
        Variable::QuerySchedulerName => &["round_robin", "fcfs", "MemoryThrottledFCFS"][..],
        _ => &[],
    };
    SqlError::new(kind, set.value.span)
        .with_hint(hint)
        .with_suggestion(closest(&set.value, words.iter().copied()))
}

/// What to say of a variable that changes nothing while another one is as it is.
fn without_effect(settings: &Settings, variable: Variable) -> Option<Notice> {
    let scheduler = settings.query_scheduler_name;
    let throttles = scheduler == Scheduler::MemoryThrottledFcfs;
    let why = match variable {
        Variable::MemoryUsagePercentageThreshold | Variable::MaxRunningQueriesUpdateFrequencyMs
            if !throttles =>
        {
            format!("query_scheduler_name is {scheduler}, not MemoryThrottledFCFS")
        }
        Variable::QuerySchedulerName if !throttles && settings.query_runner_threads == 0 => {
            "query_runner_threads is 0: nobody waits for a place of the governor".to_owned()
        }
        _ => return None,
    };
    Some(Notice {
        kind: NoticeKind::NoEffect,
        groups: Vec::new(),
        property: None,
        message: format!("{} has no effect while {why}", variable.name()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_percent_of_16_gb_are_14_4_gb() {
        let mut settings =
            Settings::from_properties("pinot.query.scheduler.name=MemoryThrottledFCFS").unwrap();
        settings.memory_usage_percentage_threshold = 90.0;
        let limits = limits(&settings, 4, Bytes(16_000_000_000));
        assert_eq!(limits.throttle.unwrap().threshold, Bytes(14_400_000_000));
        assert_eq!(limits.runner_threads, Some(64), "16 per worker");
        assert_eq!(limits.order, Order::Fcfs);
    }

    #[test]
    fn without_the_throttle_no_runner_threads_means_no_limit() {
        let limits = limits(&Settings::new(), 4, Bytes(1 << 30));
        assert_eq!(limits, GovernorLimits::default());
    }
}
