//! What several test binaries share: a watchdog against hangs, and the question whether a tool is there.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, Once, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Far beyond any healthy test on a busy machine: only a hang takes that long.
const PATIENCE: Duration = Duration::from_secs(360);

/// How long the dump itself may take: what hangs may hold the lock that the dump needs.
const DUMP_PATIENCE: Duration = Duration::from_secs(10);

type Dump = Arc<dyn Fn() -> String + Send + Sync>;

struct Watched {
    id: u64,
    what: String,
    since: Instant,
    dump: Dump,
}

static WATCHED: Mutex<(u64, Vec<Watched>)> = Mutex::new((0, Vec::new()));
static WATCHDOG: Once = Once::new();

/// While it lives, the watchdog waits for its end.
pub(crate) struct Watch(u64);

/// Aborts the process, after printing what `dump` says, if the returned value is still alive after minutes.
///
/// One thread per test binary watches all of them. A hang thus ends with the state of the scheduler in the
/// log, not with a run that somebody kills.
#[must_use = "the watch ends when the value is dropped"]
pub(crate) fn watch(what: &str, dump: impl Fn() -> String + Send + Sync + 'static) -> Watch {
    WATCHDOG.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                if let Some((what, dump)) = overdue(PATIENCE) {
                    report(&format!("{what} hangs\n{}", within(DUMP_PATIENCE, dump)));
                    std::process::abort();
                }
            }
        });
    });
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.0 += 1;
    let id = watched.0;
    watched.1.push(Watched {
        id,
        what: what.to_owned(),
        since: Instant::now(),
        dump: Arc::new(dump),
    });
    Watch(id)
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.1.retain(|entry| entry.id != self.0);
    }
}

/// The first that is older than `patience`.
pub(crate) fn overdue(patience: Duration) -> Option<(String, Dump)> {
    let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    let late = watched
        .1
        .iter()
        .find(|entry| entry.since.elapsed() > patience)?;
    Some((late.what.clone(), late.dump.clone()))
}

/// What the dump says, unless it hangs as well.
pub(crate) fn within(patience: Duration, dump: Dump) -> String {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(dump()));
    told.recv_timeout(patience)
        .unwrap_or_else(|_| "(the dump hangs too, or it panicked)".to_owned())
}

/// Past the test harness, which would keep it from a run that passes or aborts.
fn report(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Where the outside program is, if it is there. If not, says `not run: NAME missing`; the test then returns.
///
/// # Panics
///
/// If it is missing and `QUOTIENT_REQUIRE_TOOLS=1`, which CI sets after it has installed all of them.
pub(crate) fn require_tool(name: &str) -> Option<PathBuf> {
    let required = std::env::var_os("QUOTIENT_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        assert!(!required, "{name} is missing, and QUOTIENT_REQUIRE_TOOLS=1");
        report(&format!("not run: {name} missing"));
    }
    found
}

/// What a process started by [`in_child`] is to do; None in the test binary that was started by hand.
pub(crate) fn told_to_child() -> Option<String> {
    std::env::var(CHILD).ok()
}

const CHILD: &str = "QUOTIENT_TEST_CHILD";

/// Runs this binary's test `child` in a process of its own, which is told `what`, must print `alive` and succeed: for
/// what threads or an allocator do not survive. What it printed.
pub(crate) fn in_child(what: &str) -> String {
    told(Command::new(std::env::current_exe().unwrap()), what)
}

/// The same with an environment variable.
pub(crate) fn in_child_with((name, value): (&str, &str), what: &str) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.env(name, value);
    told(child, what)
}

/// The same under a limit of the address space, in bytes.
pub(crate) fn in_child_within(address_space: usize, what: &str) -> String {
    told(within_limit(address_space), what)
}

/// The same, however it ends.
pub(crate) fn child_within(address_space: usize, what: &str) -> Output {
    output(within_limit(address_space), what)
}

fn within_limit(address_space: usize) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -v $0 && exec \"$@\""])
        .arg((address_space >> 10).to_string())
        .arg(std::env::current_exe().unwrap());
    shell
}

fn output(mut command: Command, what: &str) -> Output {
    command
        .args(["child", "--exact", "--nocapture"])
        .env(CHILD, what)
        .output()
        .unwrap()
}

fn told(command: Command, what: &str) -> String {
    let child = output(command, what);
    let (out, err) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    assert!(
        child.status.success() && out.contains("alive"),
        "{what}: {:?}\n{out}\n{err}",
        child.status
    );
    out.into_owned()
}
