//! The watchdog: sees to it that ready tasks behind a long poll are taken by workers that sleep.
//!
//! Mechanism; one thread of its own. A task woken from inside a poll waits in its worker's hands without
//! waking anybody, since that poll is nearly always over in a moment and the task then finds warm caches
//! (a wake-up would cost a hundred times as much). If the poll goes on, nobody is awake to notice: the
//! watchdog does. So it does if tasks of the host's own keep it from driving a worker that was woken. It
//! finds the polls that take too long as well; see `core/late.rs`. It
//! ticks only while tasks run, rests, using nothing, when all workers sleep, and ends when they are gone.

use super::core::{Core, Marks, Outlook, Sight};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// Between two looks while something is found, unless half of what makes a poll long is less. What a look costs is the
/// system's timer and two switches of threads: where those are dear, as in a nested virtual machine, 250 a second came
/// to 0.8 % of a core (measured).
const TICK: Duration = Duration::from_millis(4);
/// Between two looks after some that found nothing.
const SLOW: Duration = Duration::from_millis(32);
/// Between two looks at least, however short the polls that count as long.
const FAST: Duration = Duration::from_micros(500);
/// Looks at a sleeping executor before the watchdog rests too.
const PATIENCE: u32 = 12;
/// Looks at short intervals after a poll was long: a second of them, at 5 ms.
const ALERT: u32 = 400;

/// The watchdog's collar: how to rouse it.
#[derive(Debug, Default)]
pub(super) struct Watchdog {
    thread: OnceLock<Thread>,
    resting: AtomicBool,
    alarmed: AtomicBool,
    io: OnceLock<LookAfterIo>,
}

/// Told at every tick whether all workers are kept from looking after I/O; answers whether that mattered.
struct LookAfterIo(Box<dyn Fn(bool) -> bool + Send + Sync>);

impl fmt::Debug for LookAfterIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LookAfterIo")
    }
}

impl Watchdog {
    /// A host whose workers look after I/O themselves wants to know when none of them can. The first call counts.
    pub(super) fn watch_io(&self, look: impl Fn(bool) -> bool + Send + Sync + 'static) {
        let _ = self.io.set(LookAfterIo(Box::new(look)));
    }

    /// Tells the host. True if I/O waited.
    fn look_after_io(&self, core: &Core) -> bool {
        self.io
            .get()
            .is_some_and(|io| (io.0)(core.is_in_long_polls()))
    }

    /// Starts the thread, unless there is one. Without one (the system refuses more threads) tasks wait for long
    /// polls to end.
    pub(super) fn start(&self, core: Weak<Core>) {
        if self.thread.get().is_some() {
            return;
        }
        let run = move || watch(&core);
        if let Ok(handle) = thread::Builder::new()
            .name("quotient-watchdog".into())
            .spawn(run)
        {
            let _ = self.thread.set(handle.thread().clone());
        }
    }

    /// A worker woke up, or is about to. Costs a load if the watchdog is up.
    pub(super) fn rouse(&self) {
        if self.resting.load(SeqCst) && self.resting.swap(false, SeqCst) {
            self.unpark();
        }
    }

    /// A poll was long: more may follow, which must not be found at the slow pace.
    pub(super) fn alarm(&self) {
        if !self.alarmed.load(SeqCst) && !self.alarmed.swap(true, SeqCst) {
            self.unpark();
        }
    }

    /// The executor is gone: the thread ends.
    pub(super) fn dismiss(&self) {
        self.unpark();
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// What the watchdog remembers from look to look.
#[derive(Default)]
struct Memory {
    marks: Marks,
    sight: Sight,
    /// So many looks to come are at short intervals.
    alert: u32,
}

impl Memory {
    /// Looks around; how long to wait until the next look, after a pause of `last`.
    fn look(&mut self, core: &Core, last: Duration) -> Duration {
        let alarmed = &core.watchdog().alarmed;
        let outlook = core.look_for_late(&mut self.sight);
        if outlook == Outlook::Late || (self.alert == 0 && alarmed.load(SeqCst)) {
            self.alert = ALERT;
        } else if self.alert > 0 {
            self.alert -= 1;
            if self.alert == 0 {
                // The next one alarms anew.
                alarmed.store(false, SeqCst);
            }
        }
        let found = core.expose_stuck(&mut self.marks);
        if self.alert > 0 || outlook == Outlook::Uneasy {
            Duration::from(core.long_poll())
                .div_f64(2.0)
                .clamp(FAST, TICK)
        } else if found {
            TICK
        } else {
            // Where polls are short there is nothing to find; looks then become rarer.
            (last * 2).min(SLOW)
        }
    }
}

fn watch(core: &Weak<Core>) {
    let (mut quiet, mut pause, mut memory) = (0, TICK, Memory::default());
    while let Some(core) = core.upgrade() {
        if core.is_unmanned() {
            // If the last ones are lost, nobody else has said so.
            core.watchdog().look_after_io(&core);
            core.dismiss();
            return;
        }
        core.attend_memory();
        let io = core.watchdog().look_after_io(&core);
        if !core.all_asleep() {
            quiet = 0;
            pause = memory.look(&core, pause);
            if io {
                pause = pause.min(TICK);
            }
        } else if quiet < PATIENCE {
            quiet += 1;
        } else {
            // Says that it rests, then looks again: a worker leaves the sleepers, then looks whether it rests.
            core.watchdog().resting.store(true, SeqCst);
            let rest = core.all_asleep();
            drop(core);
            if rest {
                thread::park();
            }
            (quiet, pause) = (0, TICK);
            continue;
        }
        drop(core);
        thread::park_timeout(pause);
    }
}
