//! A catalog as the text that is kept: canonical statements, each below a comment with its ids.
//!
//! Pure. A person may edit the text: the comments are for identity only, and what they do not say gets new ids. The
//! first one carries the version and the next id, so that neither is ever given twice.

use super::snapshot::Snapshot;
use crate::sql::{self, Caps, SqlError, Statement};
use crate::unit::{ClassifierId, GroupId};
use std::fmt::Write;

/// No version and no id came that far by counting: somebody typed a larger one, and it says nothing. Above, there is
/// room to count on for ever.
const LARGEST: u64 = 1 << 62;

/// Begins a comment of ours.
const MARK: &str = "--: ";

/// A catalog's text, read.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// The version that was written, if the text says.
    pub(super) version: Option<u64>,
    /// The first id that was never given, if the text says.
    pub(super) next_id: Option<u64>,
    /// The statements that could be read, in order.
    pub(super) statements: Vec<Stored>,
    /// What could not: its text, and why.
    pub(super) unreadable: Vec<(String, SqlError)>,
}

/// A statement with the identity that it had.
#[derive(Debug)]
pub(super) struct Stored {
    /// Its number in the script, from 1.
    pub(super) number: usize,
    pub(super) statement: Statement,
    /// As it was written.
    pub(super) text: String,
    pub(super) group: Option<GroupId>,
    pub(super) classifiers: Vec<ClassifierId>,
}

/// The text that [`read`] reads back as the same catalog.
pub(super) fn write(snapshot: &Snapshot, next_id: u64) -> String {
    let mut text = String::from(
        "-- Resource groups, as SQL. Edit it while the program is down; keep a comment with its statement.\n",
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{MARK}catalog version={} next_id={next_id}",
        snapshot.version()
    );
    for group in snapshot.groups() {
        if group.is_default() && group.properties.is_empty() {
            continue;
        }
        let _ = write!(text, "\n{MARK}group id={}", group.id);
        for (at, classifier) in group.classifiers.iter().enumerate() {
            let before = if at == 0 { " classifiers=" } else { "," };
            let _ = write!(text, "{before}{}", classifier.id);
        }
        let _ = write!(text, "\n{};\n", group.to_statement());
    }
    text
}

/// Reads what [`write`] wrote, or what somebody made of it.
pub(super) fn read(text: &str) -> Script {
    let mut script = Script::default();
    let mut marks = marks(text).into_iter().peekable();
    let mut ids = None;
    for (number, (begin, piece, read)) in (1..).zip(sql::parse_each(text, Caps::NONE)) {
        // The last comment before the statement, if no other statement stands between.
        let mut last = ids.take();
        while let Some((_, words)) = marks.next_if(|(at, _)| *at < begin) {
            if let Some(rest) = words.strip_prefix("catalog ") {
                script.version = value(rest, "version");
                script.next_id = value(rest, "next_id");
            } else {
                last = Some(words);
            }
        }
        match read {
            Ok(statement) => script.statements.push(Stored {
                number,
                statement,
                text: piece.to_owned(),
                group: last.and_then(|words| value(words, "id")).map(GroupId),
                classifiers: last.map(list).unwrap_or_default(),
            }),
            Err(error) => script
                .unreadable
                .push((piece.to_owned(), error.at_statement(number, 0))),
        }
    }
    for (_, words) in marks {
        if let Some(rest) = words.strip_prefix("catalog ") {
            script.version = value(rest, "version");
            script.next_id = value(rest, "next_id");
        }
    }
    script
}

/// Our comments: where each begins, in characters, and what it says.
fn marks(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(words) = line.trim_end().strip_prefix(MARK) {
            found.push((at, words));
        }
        at += line.chars().count();
    }
    found
}

fn word<'a>(words: &'a str, key: &str) -> Option<&'a str> {
    words
        .split_whitespace()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn value(words: &str, key: &str) -> Option<u64> {
    number(word(words, key)?)
}

fn number(word: &str) -> Option<u64> {
    word.parse().ok().filter(|number| *number <= LARGEST)
}

fn list(words: &str) -> Vec<ClassifierId> {
    let ids = word(words, "classifiers").unwrap_or_default();
    ids.split(',')
        .filter_map(number)
        .map(ClassifierId)
        .collect()
}
