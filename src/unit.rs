//! The numbers that every room speaks: identities, time, bytes, weights.
//!
//! Pure: no clock, thread, lock or I/O. All arithmetic saturates, so that a hostile or absurd value can
//! produce a wrong *scale* but never a wrap-around. A number that crosses a module border is one of these types.

use std::fmt;
use std::time::Duration;

/// Identity of a resource group. Never reused while a process lives; survives restarts through the catalog file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// Identity of a classifier. Grows in the order in which classifiers were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassifierId(pub u64);

/// Identity of an admitted query, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

/// A length of time, or an instant as nanoseconds since the clock's own origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// An amount of memory or of data, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// An amount of workers, in millionths of one: a cap on a group's worker time per time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cores(u64);

/// A scheduling weight (`cpu_core_limit`): 1 to 10 000. Only the ratio among groups with work matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl GroupId {
    /// The built-in group `default_wg`: work that matches no classifier.
    pub const DEFAULT: GroupId = GroupId(2);
    /// The first id that the catalog hands out; the smaller ones are reserved for built-in groups.
    pub const FIRST: GroupId = GroupId(10_001);
}

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// The longest representable time, about 584 years.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// From whole microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us.saturating_mul(1_000))
    }

    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// From whole seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s.saturating_mul(1_000_000_000))
    }

    /// Time since `earlier`; zero if the clock went back.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Sum, saturating at [`Nanos::MAX`].
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// As float seconds, for metrics and humans.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<Nanos> for Duration {
    fn from(n: Nanos) -> Duration {
        Duration::from_nanos(n.0)
    }
}

impl From<Duration> for Nanos {
    fn from(d: Duration) -> Nanos {
        Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Cores {
    /// The least cap there is.
    pub const MIN: Cores = Cores(1);
    /// More than any machine has.
    pub const MAX: Cores = Cores(1_000_000 * 1_000_000);

    /// From millionths, pressed into [`Cores::MIN`] … [`Cores::MAX`].
    pub const fn from_millionths(millionths: u64) -> Cores {
        if millionths < Cores::MIN.0 {
            Cores::MIN
        } else if millionths > Cores::MAX.0 {
            Cores::MAX
        } else {
            Cores(millionths)
        }
    }

    /// From a decimal number, to the nearest millionth. Not a number is the least.
    pub fn from_f64(cores: f64) -> Cores {
        Cores::from_millionths((cores * 1e6).round() as u64)
    }

    /// The number in millionths.
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// As a decimal number.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl fmt::Display for Cores {
    /// As a decimal number: `0.5`, `2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_f64(), f)
    }
}

impl Weight {
    /// The least weight, and the default of `cpu_core_limit`.
    pub const MIN: Weight = Weight(1);
    /// The greatest weight.
    pub const MAX: Weight = Weight(10_000);

    /// A weight, pressed into 1 … 10 000.
    pub const fn new(value: u64) -> Weight {
        if value < 1 {
            Weight::MIN
        } else if value > 10_000 {
            Weight::MAX
        } else {
            Weight(value as u32)
        }
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0 as u64
    }
}

macro_rules! display_as_number {
    ($($t:ty),*) => {$(
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

display_as_number!(GroupId, ClassifierId, QueryId, Weight, Bytes);

impl fmt::Display for Nanos {
    /// In the largest unit that leaves a number of at least one: `1.5ms`, `20µs`, `3s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_goes_back_gives_zero_not_a_wrap() {
        assert_eq!(Nanos(5).since(Nanos(9)), Nanos::ZERO);
        assert_eq!(Nanos::MAX.plus(Nanos(1)), Nanos::MAX);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos::MAX);
    }

    #[test]
    fn cores_are_kept_to_the_millionth_and_are_never_nothing() {
        assert_eq!(Cores::from_f64(0.01).millionths(), 10_000);
        assert_eq!(Cores::from_f64(1.5).to_string(), "1.5");
        for absurd in [0.0, -1.0, f64::NAN] {
            assert_eq!(Cores::from_f64(absurd), Cores::MIN);
        }
        assert_eq!(Cores::from_f64(f64::INFINITY), Cores::MAX);
    }

    #[test]
    fn a_weight_is_always_between_1_and_10_000() {
        assert_eq!(Weight::new(0), Weight::MIN);
        assert_eq!(Weight::new(u64::MAX), Weight::MAX);
        assert_eq!(Weight::new(7).get(), 7);
    }
}
