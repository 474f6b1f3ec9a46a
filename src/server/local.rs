//! Statements that PostgreSQL's clients send and that concern the session alone: SET, SHOW of a setting, BEGIN, SELECT
//! without FROM.
//!
//! Pure: it says what is meant. `session` does it.

use super::fault::Fault;
use super::lex::{Kind, Token};
use super::scalar::{self, Scalar};
use super::settings::{canonical, is_known};
use super::weight;

/// A statement about the session.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Local {
    /// `SET name = value`; without a value, DEFAULT.
    Set {
        name: String,
        value: Option<String>,
        at: usize,
    },
    /// What concerns things that there are none of, such as cursors: done, with this tag.
    Nothing(&'static str),
    /// `RESET name`; without a name, all.
    Reset(Option<(String, usize)>),
    /// `SHOW name`
    Show { name: String, at: usize },
    /// `SHOW ALL`
    ShowAll,
    /// BEGIN, COMMIT and their like.
    Transaction(Transaction),
    /// `DISCARD ALL`
    DiscardAll,
    /// `DEALLOCATE name`; without a name, all.
    Deallocate(Option<String>),
    /// `SELECT` of values without FROM.
    Select(Vec<Scalar>),
}

/// A word about transactions, which do not exist here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transaction {
    Begin,
    Commit,
    Rollback,
    Savepoint,
    Release,
    RollbackTo,
}

impl Transaction {
    pub(super) fn tag(self) -> &'static str {
        match self {
            Transaction::Begin => "BEGIN",
            Transaction::Commit => "COMMIT",
            Transaction::Rollback | Transaction::RollbackTo => "ROLLBACK",
            Transaction::Savepoint => "SAVEPOINT",
            Transaction::Release => "RELEASE",
        }
    }
}

/// What pools send before they lend a session again, of cursors, channels, roles and the like, and its tag.
#[rustfmt::skip]
const NOTHING: &[(&str, &str)] = &[
    ("close all", "CLOSE CURSOR ALL"),
    ("discard plans", "DISCARD PLANS"),
    ("discard sequences", "DISCARD SEQUENCES"),
    ("discard temp", "DISCARD TEMP"),
    ("discard temporary", "DISCARD TEMP"),
    ("reset role", "RESET"),
    ("reset session authorization", "RESET"),
    ("set role none", "SET"),
    ("set session authorization default", "SET"),
    ("unlisten *", "UNLISTEN"),
];

impl Local {
    /// What the statement is, if it is one of these; within, what is wrong with it.
    pub(super) fn recognise(tokens: &[Token<'_>]) -> Option<Result<Local, Fault>> {
        let (first, rest) = tokens.split_first()?;
        if first.kind != Kind::Word {
            return None;
        }
        let word = |at: usize| rest.get(at).map(Token::value).unwrap_or_default();
        if let Some((_, tag)) = NOTHING.iter().find(|(text, _)| reads(tokens, text)) {
            return Some(Ok(Local::Nothing(tag)));
        }
        let local = match first.value().as_str() {
            "set" if word(0) != "global" => return Some(set(rest, first)),
            "reset" => match rest {
                [one] if one.is("all") => Local::Reset(None),
                [] => {
                    return Some(Err(
                        Fault::error("42601", "RESET names no setting").at(first.char)
                    ));
                }
                names => Local::Reset(Some((dotted(names), names.first().map_or(0, |t| t.char)))),
            },
            "show" => match rest {
                [all] if all.is("all") => Local::ShowAll,
                [a, b, c] if a.is("transaction") && b.is("isolation") && c.is("level") => {
                    Local::Show {
                        name: "transaction_isolation".into(),
                        at: a.char,
                    }
                }
                [a, b] if a.is("time") && b.is("zone") => Local::Show {
                    name: "TimeZone".into(),
                    at: a.char,
                },
                [name] if is_known(&name.value()) => Local::Show {
                    name: name.value(),
                    at: name.char,
                },
                _ => return None,
            },
            "begin" => Local::Transaction(Transaction::Begin),
            "start" if word(0) == "transaction" => Local::Transaction(Transaction::Begin),
            "commit" | "end" => Local::Transaction(Transaction::Commit),
            "abort" => Local::Transaction(Transaction::Rollback),
            "rollback" if word(0) == "catalog" => return None,
            "rollback" if rest.iter().any(|token| token.is("to")) => {
                Local::Transaction(Transaction::RollbackTo)
            }
            "rollback" => Local::Transaction(Transaction::Rollback),
            "savepoint" => Local::Transaction(Transaction::Savepoint),
            "release" => Local::Transaction(Transaction::Release),
            "unlisten" if matches!(rest, [one] if matches!(one.kind, Kind::Word | Kind::Name)) => {
                Local::Nothing("UNLISTEN")
            }
            "discard" if rest.len() == 1 && word(0) == "all" => Local::DiscardAll,
            "deallocate" => {
                let at = usize::from(word(0) == "prepare");
                let name = word(at);
                Local::Deallocate((name != "all").then_some(name))
            }
            "select" => return scalar::select(rest).map(|items| items.map(Local::Select)),
            _ => return None,
        };
        Some(Ok(local))
    }

    /// Bytes that it keeps on the heap.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Local::Set { name, value, .. } => {
                weight::text(name) + value.as_deref().map_or(0, weight::text)
            }
            Local::Reset(Some((name, _)))
            | Local::Show { name, .. }
            | Local::Deallocate(Some(name)) => weight::text(name),
            Local::Select(items) => {
                let texts: usize = items.iter().map(Scalar::bytes).sum();
                size_of_val(items.as_slice()) + texts
            }
            _ => 0,
        }
    }

    /// Whether it answers with rows.
    pub(super) fn has_rows(&self) -> bool {
        matches!(self, Local::Show { .. } | Local::ShowAll | Local::Select(_))
    }
}

/// Whether the tokens are these words and signs.
fn reads(tokens: &[Token<'_>], text: &str) -> bool {
    let is = |(token, word): (&Token<'_>, &str)| token.is(word) || token.text == word;
    tokens.len() == text.split(' ').count() && tokens.iter().zip(text.split(' ')).all(is)
}

fn dotted(tokens: &[Token<'_>]) -> String {
    tokens.iter().map(Token::value).collect()
}

/// `SET [SESSION | LOCAL] name { = | TO } { value [, value]... | DEFAULT }`
fn set(rest: &[Token<'_>], first: &Token<'_>) -> Result<Local, Fault> {
    let scope = rest
        .first()
        .is_some_and(|t| t.is("session") || t.is("local"));
    let rest = rest.get(usize::from(scope)..).unwrap_or_default();
    let incomplete = || {
        let end = rest.last().unwrap_or(first);
        let fault = Fault::error("42601", "SET needs a name and a value");
        let at = end.char + end.text.chars().count();
        fault
            .at(at)
            .hint("for example SET application_name = 'ops'")
    };
    let (name, values) = match rest {
        [one, ..] if one.is("transaction") || one.is("characteristics") => {
            return Ok(Local::Nothing("SET"));
        }
        [time, zone, values @ ..] if time.is("time") && zone.is("zone") => (time, values),
        [names, values @ ..] if names.is("names") => (names, values),
        [name, sign, values @ ..] if sign.sign('=') || sign.is("to") => (name, values),
        _ => return Err(incomplete()),
    };
    let at = name.char;
    let name = match name.value().as_str() {
        "time" => "TimeZone".to_owned(),
        "names" => "client_encoding".to_owned(),
        // However it is written, it is one setting.
        other => canonical(other).unwrap_or(other).to_owned(),
    };
    let value = match values {
        [] => return Err(incomplete()),
        [one] if one.is("default") => None,
        many => {
            let texts = many.iter().filter(|token| !token.sign(','));
            let sign = many.first().is_some_and(|token| token.sign('-'));
            let texts: Vec<String> = texts.map(written).collect();
            Some(texts.join(if sign { "" } else { ", " }))
        }
    };
    Ok(Local::Set { name, value, at })
}

/// A value as SHOW repeats it: a bare word keeps its case.
fn written(token: &Token<'_>) -> String {
    match token.kind {
        Kind::Word => token.text.to_owned(),
        _ => token.value(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::lex::tokens;

    fn recognise(text: &str) -> Option<Result<Local, Fault>> {
        Local::recognise(&tokens(text))
    }

    fn set_to(text: &str) -> (String, Option<String>) {
        match recognise(text) {
            Some(Ok(Local::Set { name, value, .. })) => (name, value),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn set_is_read_in_all_its_forms() {
        let some = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        assert_eq!(set_to("SET a = 'b'"), some("a", "b"));
        assert_eq!(set_to("set session A to on"), some("a", "on"));
        assert_eq!(
            set_to("SET LOCAL DateStyle TO ISO, MDY"),
            some("DateStyle", "ISO, MDY")
        );
        assert_eq!(
            set_to("SET extra_float_digits = -3"),
            some("extra_float_digits", "-3")
        );
        assert_eq!(set_to("SET NAMES 'utf8'"), some("client_encoding", "utf8"));
        assert_eq!(set_to("SET TIME ZONE 'UTC'"), some("TimeZone", "UTC"));
        for group in ["resource_group", "RESOURCE_GROUP", "\"Resource_Group\""] {
            assert_eq!(
                set_to(&format!("SET {group} = 'g'")),
                some("resource_group", "g")
            );
        }
        assert_eq!(set_to("SET a TO DEFAULT"), ("a".to_owned(), None));
        assert_eq!(
            recognise("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"),
            Some(Ok(Local::Nothing("SET")))
        );
        assert_eq!(recognise("SET a").unwrap().unwrap_err().at, Some(5));
        assert_eq!(recognise("SET").unwrap().unwrap_err().at, Some(3));
    }

    #[test]
    fn what_is_the_governors_is_left_to_it() {
        for text in [
            "SET GLOBAL query_runner_threads = 4",
            "SHOW RESOURCE GROUPS",
            "SHOW VARIABLES",
            "SHOW nothing_of_the_kind",
            "ROLLBACK CATALOG TO VERSION 3",
            "SELECT name FROM groups",
            "CREATE RESOURCE GROUP a WITH ('cpu_weight'='1')",
            "'text'",
        ] {
            assert_eq!(recognise(text), None, "{text}");
        }
    }

    #[test]
    fn transactions_are_recognised_by_their_first_words() {
        for (text, tag) in [
            ("BEGIN", "BEGIN"),
            ("begin isolation level serializable", "BEGIN"),
            ("START TRANSACTION READ ONLY", "BEGIN"),
            ("COMMIT WORK", "COMMIT"),
            ("END", "COMMIT"),
            ("ABORT", "ROLLBACK"),
            ("ROLLBACK TO SAVEPOINT a", "ROLLBACK"),
            ("SAVEPOINT a", "SAVEPOINT"),
            ("RELEASE a", "RELEASE"),
        ] {
            let Some(Ok(Local::Transaction(found))) = recognise(text) else {
                panic!("{text}");
            };
            assert_eq!(found.tag(), tag);
        }
    }
}
