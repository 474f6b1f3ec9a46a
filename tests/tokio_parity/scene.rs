//! What scenarios are written with: a transcript, values that note their death, and planned panics.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::{Handle, Id, RuntimeFlavor};

/// What happened, line by line; equal on both sides.
pub type Transcript = Vec<String>;

/// A transcript that many tasks write to.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Transcript>>);

impl Log {
    pub fn new() -> Log {
        Log::default()
    }

    /// Adds a line; numbers (ids) become `N`.
    pub fn say(&self, line: impl AsRef<str>) {
        self.0.lock().unwrap().push(anonymous(line.as_ref()));
    }

    /// Adds a line as it is.
    pub fn exactly(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn has(&self, line: &str) -> bool {
        self.0.lock().unwrap().iter().any(|said| said == line)
    }

    /// Waits for a line.
    pub async fn until(&self, line: &str) {
        crate::live::eventually(line, || self.has(line)).await;
    }

    pub fn end(&self) -> Transcript {
        self.0.lock().unwrap().clone()
    }
}

/// Every number becomes `N`: ids differ from run to run.
pub fn anonymous(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('N') {
            out.push('N');
        }
    }
    out
}

/// Says so when it is dropped.
pub struct Noted(pub &'static str, pub Log);

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.say(format!("{} dropped", self.0));
    }
}

/// Panics when it is dropped, unless disarmed or unwinding already.
pub struct Bomb(pub bool);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 && !std::thread::panicking() {
            panic!("planned: a destructor");
        }
    }
}

/// Runtimes that do not look like it, but under which two threads run tasks at once.
static WITH_TWO_THREADS: Mutex<Vec<Id>> = Mutex::new(Vec::new());

/// The current runtime is the one of a governor with two threads of its own.
pub fn has_two_threads() {
    let id = Handle::current().id();
    WITH_TWO_THREADS.lock().unwrap().push(id);
}

/// Whether two threads can run tasks at once.
pub fn two_threads() -> bool {
    let handle = Handle::current();
    handle.runtime_flavor() == RuntimeFlavor::MultiThread
        || WITH_TWO_THREADS.lock().unwrap().contains(&handle.id())
}

/// Long enough that nothing else in a scenario takes as long; never waited out.
pub const LONG: Duration = Duration::from_secs(3600);

/// Runs a closure and tells whether it panicked, with the text.
pub fn caught(closure: impl FnOnce()) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(closure)) {
        Ok(()) => "no panic".into(),
        Err(payload) => text_of(&*payload),
    }
}

/// The text of a panic payload.
pub fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panic: {}", text.unwrap_or("another payload"))
}
