//! The arithmetic of credits and limits: how much a thread takes at once, and what becomes of a request that
//! does not fit.
//!
//! Pure.

/// What a thread takes from an owner's chain at once, at most.
pub const CHUNK: u64 = 256 << 10;
/// All threads together keep about this much in their credits, however many they are.
const ALL_CHUNKS: u64 = 64 << 20;
/// The least chunk worth a walk up the chain, while there is room.
const LEAST_CHUNK: u64 = 4 << 10;
/// Owners whose credit a thread keeps beside the one it works for: together one chunk.
pub(super) const KEPT_OWNERS: u32 = 16;

/// A single request of this size or more is never granted beyond a limit.
pub const LARGE: u64 = 1 << 20;
/// The grace of groups of up to 160 MiB: a twentieth of less would not hold a few requests just below [`LARGE`].
const LEAST_GRACE: u64 = 8 << 20;

/// How much a thread takes beyond what it needs now, `room` bytes below the nearest limit.
///
/// Credits that idle are what makes a refusal early: of the room, `threads` threads with three chunks each
/// hold 3/8 at most.
pub fn chunk(room: u64, threads: u64) -> u64 {
    let threads = threads.max(1);
    let most = (ALL_CHUNKS / threads).clamp(LEAST_CHUNK, CHUNK);
    (room / (8 * threads)).min(most)
}

/// How far beyond `limit` small requests are granted, until the query that must die gets to its next poll
/// boundary.
pub fn grace(limit: u64) -> u64 {
    LEAST_GRACE.max(limit / 20)
}

/// What to do with an infallible request that does not fit and is large, or past the grace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryOverrun {
    /// Park the thread in its poll for good, and go on with another. The process lives; what the poll holds,
    /// locks included, stays held.
    #[default]
    Quarantine,
    /// Fail the request, which makes the standard library abort the process.
    Abort,
    /// Grant it, beyond the limit; the query ends at its next poll boundary.
    Overshoot,
}

/// A request that does not fit, as [`rule`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes charged to whoever refuses.
    pub used: u64,
    /// Its limit.
    pub limit: u64,
}

/// What becomes of a request that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It is granted all the same: within the grace.
    Grace,
    /// It is large or past the grace: the asker itself must end, and the configured action decides.
    Overrun,
}

/// Whether a request is within the grace.
pub fn rule(request: Request) -> Ruling {
    let most = request.limit.saturating_add(grace(request.limit));
    if request.asked < LARGE && request.used.saturating_add(request.asked) <= most {
        Ruling::Grace
    } else {
        Ruling::Overrun
    }
}

/// Whether the memory that doomed queries are about to give back makes room for the request.
pub fn is_pledged(request: Request, pledged: u64) -> bool {
    request.used.saturating_add(request.asked) <= request.limit.saturating_add(pledged)
}

/// Whether a query that holds `used` bytes answers for the group's shortage itself, or the group's largest
/// query does: it does from its equal share of the limit on.
pub fn holds_its_share(used: u64, limit: u64, holders: u64) -> bool {
    used >= limit / holders.max(1)
}

/// How far a group is above its share, by weight, of the governor's limit.
pub fn excess(used: u64, weight: u64, weights: u64, limit: u64) -> i128 {
    let share = i128::from(limit) * i128::from(weight) / i128::from(weights.max(1));
    i128::from(used) - share
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_chunk_is_256_kib_until_the_room_or_the_threads_make_it_smaller() {
        assert_eq!(chunk(u64::MAX, 2), CHUNK);
        assert_eq!(chunk(16 * MIB, 4), CHUNK);
        assert_eq!(chunk(4 * MIB, 4), 128 << 10);
        assert_eq!(chunk(0, 4), 0);
        assert_eq!(chunk(u64::MAX, 1024), 64 << 10);
        assert_eq!(chunk(u64::MAX, 1_000_000), LEAST_CHUNK);
        assert_eq!(chunk(100, 0), 12);
    }

    #[test]
    fn idle_credits_are_at_most_three_eighths_of_the_room() {
        for threads in [1, 2, 7, 64, 4096] {
            for room in [0, 1, 1000, MIB, 1 << 40] {
                assert!(
                    3 * threads * chunk(room, threads) <= room * 3 / 8,
                    "{threads} {room}"
                );
            }
        }
    }

    #[test]
    fn the_grace_is_8_mib_or_5_percent() {
        assert_eq!(grace(100 * MIB), 8 * MIB);
        assert_eq!(grace(1000 * MIB), 50 * MIB);
        assert_eq!(grace(0), 8 * MIB);
    }

    #[test]
    fn small_requests_pass_within_the_grace_and_large_ones_never() {
        let at = |used, asked| {
            rule(Request {
                asked,
                used,
                limit: 100 * MIB,
            })
        };
        assert_eq!(at(100 * MIB, 100), Ruling::Grace);
        assert_eq!(at(108 * MIB - 100, 100), Ruling::Grace);
        assert_eq!(at(108 * MIB - 99, 100), Ruling::Overrun);
        assert_eq!(at(100 * MIB, MIB), Ruling::Overrun);
        assert_eq!(at(0, 101 * MIB), Ruling::Overrun);
        assert_eq!(at(u64::MAX, u64::MAX), Ruling::Overrun);
    }

    #[test]
    fn what_a_doomed_query_holds_counts_as_given_back() {
        let request = Request {
            asked: 10,
            used: 100,
            limit: 100,
        };
        assert!(!is_pledged(request, 9));
        assert!(is_pledged(request, 10));
    }

    #[test]
    fn who_holds_an_equal_share_answers_for_itself() {
        assert!(holds_its_share(50, 100, 2));
        assert!(!holds_its_share(49, 100, 2));
        assert!(holds_its_share(100, 100, 0));
    }

    #[test]
    fn excess_is_measured_against_the_share_by_weight() {
        assert_eq!(excess(60, 1, 4, 100), 35);
        assert_eq!(excess(60, 3, 4, 100), -15);
        assert_eq!(excess(u64::MAX, 1, 0, 0), i128::from(u64::MAX));
    }
}
