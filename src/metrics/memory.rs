//! Memory as it is measured: of each group, and of the process around them.
//!
//! Pure: plain values of one moment. "Tracked" is what the allocator counts; without it, reservations alone are known.

/// One group's memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupMemory {
    /// Live blocks and reservations of its queries and tasks, with what threads keep in their credits. None where
    /// nothing is tracked.
    pub used: Option<u64>,
    /// The most that `used` was at once.
    pub peak: Option<u64>,
    /// Its `mem_limit`.
    pub limit: Option<u64>,
    /// Explicit reservations; part of `used`.
    pub reserved: u64,
    /// Reservations that wait for room.
    pub waiting: u64,
    /// How often a query was asked to spill; a counter.
    pub spill_requests: u64,
}

impl GroupMemory {
    /// Adds a draining group's numbers to those of the new one of its name.
    pub(super) fn add(&mut self, other: &GroupMemory) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.used = sum(self.used, other.used);
        self.peak = sum(self.peak, other.peak);
        self.limit = self.limit.or(other.limit);
        self.reserved = self.reserved.saturating_add(other.reserved);
        self.waiting += other.waiting;
        self.spill_requests += other.spill_requests;
    }

    /// What remains when the group is gone: the counter without the gauges.
    pub(crate) fn at_rest(&self) -> GroupMemory {
        GroupMemory {
            spill_requests: self.spill_requests,
            ..GroupMemory::default()
        }
    }
}

/// The memory of the process and its surroundings, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// What the allocator has given out, with the reservations. None where nothing is tracked.
    pub tracked: Option<u64>,
    /// The part of it that belongs to no group of this governor: `tracked` less the sum over the groups.
    pub unowned: Option<u64>,
    /// What the kernel keeps in memory for the process.
    pub resident: Option<u64>,
    /// What the cgroup nearest to its limit holds, less the page cache that can be taken back.
    pub cgroup: Option<u64>,
    /// The limit of that cgroup.
    pub cgroup_limit: Option<u64>,
    /// What counts as used: the greatest of the figures that are about this process.
    pub used: u64,
    /// The governor's `memory_limit`.
    pub limit: u64,
}

impl ProcessMemory {
    /// `tracked` bytes in the process, of which the groups hold `owned`. Credits move meanwhile, so that the sum over
    /// the groups may be ahead by a moment; what is nobody's is never negative.
    pub fn tracking(self, tracked: Option<u64>, owned: u64) -> ProcessMemory {
        let seen = tracked.map(|tracked| tracked.max(owned));
        ProcessMemory {
            tracked: seen,
            unowned: tracked.map(|tracked| tracked.saturating_sub(owned)),
            used: self.used.max(seen.unwrap_or(0)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_nobodys_memory_are_all_there_is() {
        let memory = ProcessMemory::default().tracking(Some(100), 70);
        assert_eq!((memory.tracked, memory.unowned), (Some(100), Some(30)));
        let torn = ProcessMemory::default().tracking(Some(100), 101);
        assert_eq!(
            (torn.tracked, torn.unowned, torn.used),
            (Some(101), Some(0), 101)
        );
        let untracked = ProcessMemory::default().tracking(None, 0);
        assert_eq!((untracked.tracked, untracked.unowned), (None, None));
    }

    #[test]
    fn a_draining_namesake_adds_its_memory_and_leaves_the_limit() {
        let mut new = GroupMemory {
            used: Some(1),
            peak: Some(2),
            limit: Some(100),
            reserved: 1,
            waiting: 0,
            spill_requests: 3,
        };
        let old = GroupMemory {
            used: Some(10),
            peak: Some(20),
            limit: Some(50),
            reserved: 5,
            waiting: 2,
            spill_requests: 4,
        };
        new.add(&old);
        let sum = GroupMemory {
            used: Some(11),
            peak: Some(22),
            limit: Some(100),
            reserved: 6,
            waiting: 2,
            spill_requests: 7,
        };
        assert_eq!(new, sum);
        new.add(&old.at_rest());
        assert_eq!((new.used, new.spill_requests), (Some(11), 11));
    }
}
