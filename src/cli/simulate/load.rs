//! A load as it is described: `user=bi tasks=8 poll=1ms`, `group=etl queries=50/s cpu=20ms poll=1ms from=2s`.
//!
//! Pure. Whose a load is, is said by attributes, as a request states them, or by the group's name.

use crate::classify::Attributes;
use crate::governor::explain::attributes;
use crate::sql::ast::{ATTRIBUTE_KEYS, Assignment};
use crate::sql::suggest::closest;
use crate::sql::value::{duration, integer, number};
use crate::sql::{Span, Spanned};
use crate::unit::Nanos;

/// Before a load in a script's comment.
const MARK: &str = "-- load:";
/// What a load may say besides attributes.
const KEYS: [&str; 10] = [
    "name", "group", "tasks", "queries", "poll", "burst", "sleep", "cpu", "from", "until",
];
/// Polls shorter than this are not simulated: they would be all that the run does.
const SHORTEST: Nanos = Nanos::from_micros(1);
const TASKS: u64 = 100_000;

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// What people call it.
    pub(super) name: String,
    pub(super) attributes: Attributes,
    pub(super) work: Work,
    /// The length of each poll.
    pub(super) poll: Nanos,
    pub(super) from: Nanos,
    pub(super) until: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// So many tasks without end, which sleep after each burst of polls if they sleep at all.
    Tasks {
        tasks: u64,
        burst: u64,
        sleep: Nanos,
    },
    /// One query after the other through the group's gate, of one task that uses so much CPU.
    Queries { every: Nanos, cpu: Nanos },
}

/// Why a description is none.
#[derive(Clone, Debug)]
pub(super) struct Misread {
    pub(super) message: String,
    pub(super) span: Span,
    pub(super) notes: Vec<String>,
}

/// The descriptions in a script's comments, each with its place.
pub(super) fn in_comments(script: &str) -> Vec<Spanned<String>> {
    let mut found = Vec::new();
    let mut start = 0;
    for (line, text) in script.split('\n').enumerate() {
        let length = text.chars().count();
        let blanks = length - text.trim_start().chars().count();
        if let Some(description) = text.trim_start().strip_prefix(MARK) {
            let before = blanks + MARK.chars().count();
            let span = Span {
                start: start + before,
                end: start + length,
                line: line + 1,
                column: before + 1,
            };
            found.push(Spanned::new(description.to_owned(), span));
        }
        start += length + 1;
    }
    found
}

/// Reads one.
pub(super) fn read(description: &Spanned<String>) -> Result<Load, Misread> {
    let words = words(description);
    let mut written: Vec<Assignment> = Vec::new();
    for word in words {
        let Some((key, value)) = word.value.split_once('=') else {
            return Err(misread(&word, format!("{:?} is not key=value", word.value)));
        };
        let key = key.to_ascii_lowercase();
        let known = KEYS.contains(&key.as_str()) || ATTRIBUTE_KEYS.contains(&key.as_str());
        if !known {
            let mut error = misread(&word, format!("a load has no {key:?}"));
            let names = KEYS.iter().chain(&ATTRIBUTE_KEYS).copied();
            if let Some(name) = closest(&key, names) {
                error.notes.insert(0, format!("did you mean {name}?"));
            }
            return Err(error);
        }
        let lists = ["role", "db"].contains(&key.as_str());
        if !lists && written.iter().any(|one| one.key.value == key) {
            return Err(misread(&word, format!("{key} is given twice")));
        }
        written.push(Assignment {
            key: Spanned::new(key, word.span),
            value: Spanned::new(value.to_owned(), word.span),
        });
    }
    load(description, &written)
}

fn load(description: &Spanned<String>, written: &[Assignment]) -> Result<Load, Misread> {
    let text = |key: &str| written.iter().find(|one| one.key.value == key);
    let time = |key: &str, absent: Nanos| match text(key) {
        None => Ok(absent),
        Some(one) => duration(&one.value).map_err(|_| {
            misread(
                &one.value,
                format!("{key} is a time with its unit, as {key}=1ms"),
            )
        }),
    };
    let count = |key: &str, absent: u64, most: u64| match text(key) {
        None => Ok(absent),
        Some(one) => match integer(&one.value) {
            Ok(n) if (1..=most).contains(&n) => Ok(n),
            _ => Err(misread(
                &one.value,
                format!("{key} is a whole number from 1 to {most}"),
            )),
        },
    };
    let poll = time("poll", Nanos::from_millis(1))?;
    if poll < SHORTEST {
        let place = text("poll").map_or(description, |one| &one.value);
        return Err(misread(place, format!("a poll lasts {SHORTEST} at least")));
    }
    let work = match (text("queries"), text("tasks")) {
        (Some(one), Some(_)) => {
            return Err(misread(
                &one.value,
                "a load is tasks or queries, not both".to_owned(),
            ));
        }
        (Some(one), None) => {
            let cpu = time("cpu", Nanos::from_millis(10))?;
            if cpu < SHORTEST {
                let place = text("cpu").map_or(description, |one| &one.value);
                return Err(misread(place, format!("a query uses {SHORTEST} at least")));
            }
            let every = rate(&one.value)?;
            Work::Queries { every, cpu }
        }
        (None, _) => Work::Tasks {
            tasks: count("tasks", 1, TASKS)?,
            burst: count("burst", 1, u64::from(u32::MAX))?,
            sleep: time("sleep", Nanos::ZERO)?,
        },
    };
    let mut stated: Vec<Assignment> = written
        .iter()
        .filter(|one| ATTRIBUTE_KEYS.contains(&one.key.as_str()))
        .cloned()
        .collect();
    stated.extend(text("group").map(|one| Assignment {
        key: "resource_group".to_owned().into(),
        value: one.value.clone(),
    }));
    let attributes = attributes::read(&stated).map_err(|error| Misread {
        message: error.message(),
        span: error.span,
        notes: error.hint.clone().into_iter().collect(),
    })?;
    Ok(Load {
        name: match text("name") {
            Some(one) => one.value.value.clone(),
            None => description.trim().to_owned(),
        },
        attributes,
        work,
        poll,
        from: time("from", Nanos::ZERO)?,
        until: match text("until") {
            Some(_) => Some(time("until", Nanos::ZERO)?),
            None => None,
        },
    })
}

/// `50/s`: the time between two.
fn rate(written: &Spanned<String>) -> Result<Nanos, Misread> {
    let per_second = written.strip_suffix("/s").and_then(|n| number(n).ok());
    let every = per_second.map(|n| 1e9 / n.as_f64());
    match every {
        Some(every) if (1e3..=1e13).contains(&every) => Ok(Nanos(every as u64)),
        _ => {
            let message = "queries is a rate from 0.0001/s to 1000000/s, as queries=50/s";
            Err(misread(written, message.to_owned()))
        }
    }
}

fn misread(place: &Spanned<String>, message: String) -> Misread {
    let example = "for example user=bi tasks=8 poll=1ms, or group=etl queries=50/s cpu=20ms";
    Misread {
        message,
        span: place.span,
        notes: vec![example.to_owned()],
    }
}

/// What stands between blanks, each with its place.
fn words(text: &Spanned<String>) -> Vec<Spanned<String>> {
    let mut found: Vec<Spanned<String>> = Vec::new();
    let mut open = false;
    for (i, c) in text.value.chars().enumerate() {
        if c.is_whitespace() {
            open = false;
            continue;
        }
        if !open {
            let span = Span {
                start: text.span.start + i,
                end: text.span.start + i,
                line: text.span.line,
                column: text.span.column + i,
            };
            found.push(Spanned::new(String::new(), span));
            open = true;
        }
        if let Some(word) = found.last_mut() {
            word.value.push(c);
            word.span.end += 1;
        }
    }
    found
}
