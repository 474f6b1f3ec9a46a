//! What the catalog was: its last versions, with the time and the statements that made each.
//!
//! Data only, any thread: times come in. Snapshots share what did not change between them, so that a hundred of a
//! thousand groups are cheap.

use super::snapshot::Snapshot;
use crate::sql::{Output, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Versions that are kept.
pub const KEPT: usize = 100;
/// Characters of a change that are kept.
const SHOWN: usize = 200;

/// One version.
#[derive(Clone, Debug)]
pub struct Change {
    /// When it came into force.
    pub at: SystemTime,
    /// What made it: the statement, or where it was loaded from.
    pub what: String,
    /// The catalog from then on.
    pub snapshot: Arc<Snapshot>,
}

/// The last versions, oldest first.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Change>);

impl History {
    pub(super) fn add(&mut self, at: SystemTime, what: &str, snapshot: Arc<Snapshot>) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        let mut short: String = what.chars().take(SHOWN).collect();
        if short.len() < what.len() {
            short.push('…');
        }
        self.0.push_back(Change {
            at,
            what: short,
            snapshot,
        });
    }

    pub(super) fn version(&self, version: u64) -> Option<&Change> {
        self.0
            .iter()
            .find(|change| change.snapshot.version() == version)
    }

    pub(super) fn changes(&self) -> impl DoubleEndedIterator<Item = &Change> {
        self.0.iter()
    }
}

/// The columns of SHOW CATALOG HISTORY.
pub const COLUMNS: [&str; 4] = ["version", "changed_at", "groups", "change"];

impl Change {
    /// Its cells, under [`COLUMNS`].
    pub fn cells(&self) -> Vec<Value> {
        vec![
            self.snapshot.version().into(),
            utc(self.at).into(),
            (self.snapshot.groups().len() as u64).into(),
            self.what.as_str().into(),
        ]
    }
}

pub(super) fn show<'a>(changes: impl Iterator<Item = &'a Change>) -> Output {
    let mut output = Output::table("SHOW", COLUMNS);
    for change in changes {
        output.push(change.cells());
    }
    output
}

/// A time as `2026-01-31 23:59:59Z`.
pub fn utc(time: SystemTime) -> String {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs();
    let (days, seconds) = (since / 86_400, since % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Days since 1970 as a date; eras of 400 years from 1 March, as Hinnant's "chrono-compatible date algorithms".
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (951_868_800, "2000-03-01 00:00:00Z"),
            (4_107_542_399, "2100-02-28 23:59:59Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
            (1_790_000_000, "2026-09-21 14:13:20Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(utc(time), text);
        }
    }
}
