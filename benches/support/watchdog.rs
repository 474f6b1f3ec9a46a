//! Notices a benchmark that has stopped, says where, prints what it can, and ends the process.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time that one repetition may take: minutes, so that only a hang trips it.
const LIMIT: Duration = Duration::from_secs(120);

/// The exit status after a hang. A missed target is no failure; this is.
const HUNG: i32 = 3;

/// Knows what is running and since when.
#[derive(Clone)]
pub(crate) struct Watchdog(Arc<Mutex<(String, Instant)>>);

impl Watchdog {
    /// Starts the watching thread. `dump` is called, on a thread of its own, when something hangs.
    pub(crate) fn start(dump: impl Fn() -> String + Send + Sync + 'static) -> Watchdog {
        let watchdog = Watchdog(Arc::new(Mutex::new(("start".into(), Instant::now()))));
        let watched = watchdog.clone();
        let dump = Arc::new(dump);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(LIMIT / 60);
                let (what, since) = watched.state();
                if since.elapsed() > LIMIT {
                    report(&what, dump.clone());
                }
            }
        });
        watchdog
    }

    /// Something new begins.
    pub(crate) fn enter(&self, what: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 != what {
            state.0 = what.into();
        }
        state.1 = Instant::now();
    }

    fn state(&self) -> (String, Instant) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn report(what: &str, dump: Arc<dyn Fn() -> String + Send + Sync>) -> ! {
    eprintln!("HUNG for more than {LIMIT:?} in: {what}\n{}", threads());
    // The dump may take a lock that the hang holds.
    let dumping = std::thread::spawn(move || eprintln!("{}", dump()));
    let patience = Instant::now();
    while !dumping.is_finished() && patience.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(50));
    }
    if !dumping.is_finished() {
        eprintln!("(the dump hangs too)");
    }
    std::process::exit(HUNG)
}

/// Name, state and kernel wait channel of every thread, where the system tells them.
fn threads() -> String {
    let mut text = String::new();
    for thread in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let read =
            |file: &str| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let stat = read("stat");
        let state = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().next())
            .unwrap_or("?");
        let _ = writeln!(
            text,
            "  thread {:<20} state {state} waits in {}",
            read("comm").trim(),
            read("wchan")
        );
    }
    text
}
