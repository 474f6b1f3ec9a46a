//! What an operator's log should say: one function per kind of event, each with its fields, and a bound on how often.
//!
//! Mechanism; any thread, never on the hot path. With the feature `tracing` an event goes to whoever subscribes to
//! the target `quotient`; without it, nothing is evaluated. Of one kind in one group at most one event in
//! [`EVERY`] is told: a flood of kills must not become a flood of lines. What was left out is counted and told
//! with the next one; the counters of `metrics` leave nothing out.

pub(crate) mod span;

#[cfg(feature = "tracing")]
use crate::clock::Clock;
use crate::unit::{Nanos, QueryId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Between two events of one kind in one group.
pub const EVERY: Nanos = Nanos::from_secs(10);

/// Groups and kinds that are remembered; beyond it the oldest are forgotten, which can only tell too much.
const MOST: usize = 4096;

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A query was ended by the governor or an operator.
    Kill,
    /// A query went over the CPU limit of its group, whatever came of it; so the next three.
    RunawayCpu,
    /// Over the limit on scanned rows.
    RunawayScanRows,
    /// Over the limit on memory.
    RunawayMemory,
    /// Over the limit on elapsed time.
    RunawayElapsed,
    /// A request was refused, or waited in vain.
    Refused,
    /// The memory throttle began or ended.
    Throttle,
    /// Others wait for a poll that takes too long.
    LongPoll,
    /// A worker's own thread broke.
    WorkerLost,
    /// The catalog has a new version.
    Catalog,
    /// A listener could not accept a connection.
    Accept,
    /// Where the catalog is kept cannot be reached; the last one goes on to count.
    CatalogAway,
    /// It can be reached again.
    CatalogBack,
    /// What is kept cannot be taken over; the last one goes on to count.
    CatalogRefused,
    /// Somebody was not let in at the administration port.
    AdminPort,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Kill => "kill",
            Kind::RunawayCpu => "runaway_cpu",
            Kind::RunawayScanRows => "runaway_scan_rows",
            Kind::RunawayMemory => "runaway_memory",
            Kind::RunawayElapsed => "runaway_elapsed",
            Kind::Refused => "refused",
            Kind::Throttle => "throttle",
            Kind::LongPoll => "long_poll",
            Kind::WorkerLost => "worker_lost",
            Kind::Catalog => "catalog",
            Kind::Accept => "accept",
            Kind::CatalogAway => "catalog_away",
            Kind::CatalogBack => "catalog_back",
            Kind::CatalogRefused => "catalog_refused",
            Kind::AdminPort => "admin_port",
        })
    }
}

/// A query was ended: `why` in one line.
pub fn kill(group: &str, query: QueryId, why: &dyn fmt::Display) {
    tell(Kind::Kill, group, Some(query), why);
}

/// A query went over a limit of its group; `kind` is one of the `Runaway` kinds.
pub fn runaway(kind: Kind, group: &str, query: QueryId, what: &dyn fmt::Display) {
    tell(kind, group, Some(query), what);
}

/// A request of this group was refused, or waited in vain: `why` in one line.
pub fn refused(group: &str, why: &dyn fmt::Display) {
    tell(Kind::Refused, group, None, why);
}

/// The memory throttle began or ended: `what` in one line.
pub fn throttle(what: &dyn fmt::Display) {
    tell(Kind::Throttle, "", None, what);
}

/// Others wait for a poll of this group that takes too long: `what` says of whose task, and who waits.
pub fn long_poll(group: &str, query: Option<QueryId>, what: &dyn fmt::Display) {
    tell(Kind::LongPoll, group, query, what);
}

/// Somebody was not let in at the administration port: `what` in one line.
pub fn admin_port(what: &dyn fmt::Display) {
    tell(Kind::AdminPort, "", None, what);
}

/// A worker broke by a panic outside of any poll, and is gone until the governor is built anew.
pub fn worker_lost(worker: usize) {
    let what = format_args!("worker {worker} broke and is gone; with the last one every task ends");
    tell(Kind::WorkerLost, "", None, &what);
}

/// The catalog has this version now, by this change. Told at the level INFO and each time: a log that left a change out
/// would be worth little, and people make them, not load.
pub fn catalog(version: u64, change: &dyn fmt::Display) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "quotient", kind = %Kind::Catalog, version, "{change}");
    #[cfg(not(feature = "tracing"))]
    let _ = (version, change);
}

/// A listener could not accept a connection; it goes on.
pub fn accept_failed(error: &dyn fmt::Display) {
    let what = format_args!("a connection could not be accepted: {error}");
    tell(Kind::Accept, "", None, &what);
}

/// Where the catalog is kept cannot be reached: `why` says where that is.
pub fn catalog_away(why: &dyn fmt::Display) {
    tell(Kind::CatalogAway, "", None, why);
}

/// Where the catalog is kept can be reached again.
pub fn catalog_back(place: &dyn fmt::Display) {
    tell(Kind::CatalogBack, "", None, place);
}

/// What is kept is not taken over, because of `why`; the last catalog goes on to count.
pub fn catalog_refused(why: &dyn fmt::Display) {
    tell(Kind::CatalogRefused, "", None, why);
}

#[cfg(feature = "tracing")]
fn tell(kind: Kind, group: &str, query: Option<QueryId>, what: &dyn fmt::Display) {
    use std::sync::LazyLock;
    static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::tsc);
    static LIMITER: LazyLock<parking_lot::Mutex<Limiter>> = LazyLock::new(Default::default);

    if !tracing::enabled!(target: "quotient", tracing::Level::WARN) {
        return;
    }
    let Some(left_out) = LIMITER.lock().pass(kind, group, CLOCK.now()) else {
        return;
    };
    let query = query.map(|query| query.0);
    tracing::warn!(target: "quotient", kind = %kind, group, query, left_out, "{what}");
}

#[cfg(not(feature = "tracing"))]
fn tell(_: Kind, _: &str, _: Option<QueryId>, _: &dyn fmt::Display) {}

/// Decides which events are told. Pure: time comes in as a number.
#[derive(Debug, Default)]
pub struct Limiter {
    last: HashMap<(Kind, Arc<str>), Told>,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    at: Nanos,
    left_out: u64,
}

impl Limiter {
    /// Whether an event of this kind in this group may be told now, and how many were left out since the last.
    pub fn pass(&mut self, kind: Kind, group: &str, now: Nanos) -> Option<u64> {
        let key = (kind, Arc::from(group));
        if let Some(told) = self.last.get_mut(&key) {
            if now.since(told.at) < EVERY {
                told.left_out += 1;
                return None;
            }
            let left_out = told.left_out;
            *told = Told {
                at: now,
                left_out: 0,
            };
            return Some(left_out);
        }
        if self.last.len() >= MOST {
            self.last.retain(|_, told| now.since(told.at) < EVERY);
            if self.last.len() >= MOST {
                self.last.clear();
            }
        }
        let told = Told {
            at: now,
            left_out: 0,
        };
        self.last.insert(key, told);
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_in_ten_seconds_is_told_and_the_next_says_how_many_were_not() {
        let mut limiter = Limiter::default();
        let at = |seconds| Nanos::from_secs(seconds);
        assert_eq!(limiter.pass(Kind::Kill, "bi", at(1)), Some(0));
        for _ in 0..7 {
            assert_eq!(limiter.pass(Kind::Kill, "bi", at(10)), None);
        }
        assert_eq!(limiter.pass(Kind::Kill, "etl", at(10)), Some(0));
        assert_eq!(limiter.pass(Kind::Kill, "bi", at(11)), Some(7));
        assert_eq!(limiter.pass(Kind::Kill, "bi", at(21)), Some(0));
    }

    #[test]
    fn groups_without_end_do_not_cost_memory_without_end() {
        let mut limiter = Limiter::default();
        for group in 0..3 * MOST {
            assert_eq!(
                limiter.pass(Kind::Kill, &group.to_string(), Nanos::from_secs(1)),
                Some(0)
            );
        }
        assert!(limiter.last.len() <= MOST);
    }
}
