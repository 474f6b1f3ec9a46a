//! Where time comes from: the processor's time stamp counter, or a test's hand.
//!
//! The only file that reads a clock for charging. Deadlines use tokio's clock instead, so that a paused
//! clock controls them. Any thread.

use crate::unit::Nanos;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// A monotonic clock that is cheap enough to be read at every poll boundary.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Tsc {
        counter: quanta::Clock,
        /// Nanoseconds per 2³² steps of the counter: a multiplication by a constant shift is a nanosecond
        /// cheaper per poll than the general conversion.
        scale: u64,
    },
    Manual(Arc<AtomicU64>),
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::tsc()
    }
}

impl Clock {
    /// The time stamp counter, calibrated once per process; the operating system's clock where there is none.
    pub fn tsc() -> Clock {
        let counter = quanta::Clock::new();
        let scale = counter.delta_as_nanos(0, 1 << 32);
        Clock(Source::Tsc { counter, scale })
    }

    /// A clock that stands still until it is moved.
    pub fn manual() -> (Clock, ManualClock) {
        let time = Arc::new(AtomicU64::new(0));
        (Clock(Source::Manual(time.clone())), ManualClock(time))
    }

    /// Whether it runs by itself, so that it can be compared with the operating system's clocks.
    pub fn is_live(&self) -> bool {
        matches!(self.0, Source::Tsc { .. })
    }

    /// Nanoseconds since an origin of the clock's own choice.
    #[inline]
    pub fn now(&self) -> Nanos {
        match &self.0 {
            Source::Tsc { counter, scale } => {
                Nanos(((u128::from(counter.raw()) * u128::from(*scale)) >> 32) as u64)
            }
            Source::Manual(time) => Nanos(time.load(Ordering::Relaxed)),
        }
    }
}

/// The time of day, for what people read. Nothing is decided by it.
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// What the operating system has given to the calling thread so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// Time on a CPU, up to now.
    pub cpu: Nanos,
    /// How often the thread gave up its CPU by itself, to sleep or to wait.
    pub yielded: i64,
}

impl ThreadTime {
    /// Reads it: two system calls, about 0.8 µs. None where the system does not tell.
    ///
    /// The CPU time of `getrusage` is no use here: the kernel brings it up to date at its own ticks only, so that a
    /// poll of a millisecond can seem to have used nothing.
    #[cfg(target_os = "linux")]
    #[allow(
        clippy::useless_conversion,
        reason = "the count is of 32 bits on some machines"
    )]
    pub fn read() -> Option<ThreadTime> {
        use nix::sys::resource::{UsageWho, getrusage};
        let yielded = getrusage(UsageWho::RUSAGE_THREAD)
            .ok()?
            .voluntary_context_switches()
            .into();
        let cpu = cpu_of_this_thread()?;
        Some(ThreadTime { cpu, yielded })
    }

    /// Reads it. None where the system does not tell.
    #[cfg(not(target_os = "linux"))]
    pub fn read() -> Option<ThreadTime> {
        None
    }
}

/// The CPU time of the calling thread; None where the system does not tell. 0.3 µs.
#[cfg(target_os = "linux")]
pub fn cpu_of_this_thread() -> Option<Nanos> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (secs, nanos) = (
        u64::try_from(time.tv_sec).ok()?,
        u64::try_from(time.tv_nsec).ok()?,
    );
    Some(Nanos::from_secs(secs).plus(Nanos(nanos)))
}

/// The CPU time of the calling thread; this system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn cpu_of_this_thread() -> Option<Nanos> {
    None
}

/// The time of day so much later; now, if the system cannot express it.
pub fn wall_after(time: Nanos) -> SystemTime {
    let now = wall();
    now.checked_add(time.into()).unwrap_or(now)
}

/// A time of day as seconds since 1970; 0 before.
pub fn unix_seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// The calling thread's number with the operating system; 0 where there is none.
#[inline]
pub fn this_thread() -> i32 {
    thread_local! {
        static NUMBER: std::cell::Cell<i32> = const { std::cell::Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(thread_number());
        }
        number.get()
    })
}

#[cfg(target_os = "linux")]
fn thread_number() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

#[cfg(not(target_os = "linux"))]
fn thread_number() -> i32 {
    0
}

/// The CPU time of a thread of this process, by its number; None if there is no such thread, or where the system
/// does not tell.
#[cfg(target_os = "linux")]
pub fn cpu_of_thread(thread: i32) -> Option<Nanos> {
    // The kernel's number of the CPU clock of any thread, as the C library makes it: 6 = a thread's, as scheduled.
    let clock = (thread != 0).then_some((!thread << 3) | 6)?;
    let time = nix::time::ClockId::from_raw(clock).now().ok()?;
    let (secs, nanos) = (
        u64::try_from(time.tv_sec()).ok()?,
        u64::try_from(time.tv_nsec()).ok()?,
    );
    Some(Nanos::from_secs(secs).plus(Nanos(nanos)))
}

/// The CPU time of a thread; this system does not tell.
#[cfg(not(target_os = "linux"))]
pub fn cpu_of_thread(_thread: i32) -> Option<Nanos> {
    None
}

/// Whether a thread of this process runs or waits for a CPU, rather than for anything else. True where the system does
/// not tell. About 10 µs.
pub fn wants_cpu(thread: i32) -> bool {
    let path = format!("/proc/self/task/{thread}/stat");
    let Ok(stat) = std::fs::read_to_string(path) else {
        return true;
    };
    // After the name, which is in parentheses and may hold anything.
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim_start().chars().next());
    state == Some('R')
}

/// The hand that moves a [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Nanos) {
        self.0.fetch_add(by.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_still_until_moved() {
        let (clock, hand) = Clock::manual();
        let start = clock.now();
        assert_eq!(clock.now(), start);
        hand.advance(Nanos(7));
        assert_eq!(clock.now().since(start), Nanos(7));
    }

    #[test]
    fn another_threads_cpu_clock_runs_while_it_computes_and_stands_while_it_waits() {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(this_thread()).unwrap();
            wait.recv().unwrap();
            let start = std::time::Instant::now();
            while start.elapsed().as_millis() < 30 {}
            tell.send(0).unwrap();
            let _ = wait.recv();
        });
        let thread = told.recv().unwrap();
        let Some(before) = cpu_of_thread(thread) else {
            return;
        };
        go.send(()).unwrap();
        told.recv().unwrap();
        let after = cpu_of_thread(thread).unwrap();
        assert!(after > before, "{before} {after}");
        while wants_cpu(thread) {
            std::thread::yield_now();
        }
        let (a, b) = (cpu_of_thread(thread), cpu_of_thread(thread));
        assert_eq!(a, b, "it waits");
        assert!(wants_cpu(this_thread()));
        drop(go);
        other.join().unwrap();
        assert_eq!(cpu_of_thread(0), None);
    }

    #[test]
    fn the_counter_does_not_go_back_on_one_thread() {
        let clock = Clock::tsc();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
