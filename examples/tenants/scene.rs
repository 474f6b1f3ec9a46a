//! A scene: an experiment inside the service's process, beside the suites, that tells a story and keeps promises.

use std::fmt;
use std::time::Duration;

/// What a scene said, and whether its promises held.
pub(crate) struct Scene {
    title: &'static str,
    lines: Vec<String>,
    promises: Vec<(&'static str, bool)>,
}

impl Scene {
    pub(crate) fn new(title: &'static str) -> Scene {
        Scene {
            title,
            lines: Vec::new(),
            promises: Vec::new(),
        }
    }

    pub(crate) fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(crate) fn promise(&mut self, what: &'static str, holds: bool) {
        self.promises.push((what, holds));
    }

    pub(crate) fn holds(&self) -> bool {
        self.promises.iter().all(|(_, holds)| *holds)
    }
}

/// In milliseconds, of sorted times; 0 of none.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        for line in &self.lines {
            writeln!(f, "   {line}")?;
        }
        for (what, holds) in &self.promises {
            let verdict = if *holds { "holds" } else { "MISSED" };
            writeln!(f, "   {verdict}: {what}")?;
        }
        Ok(())
    }
}
