//! Where an operator ends, as PostgreSQL reads it: `n>-5` compares, `n!=-5` has an operator that nobody knows.
//!
//! Pure. `sqlparser` takes all signs that touch for one operator, comments that begin among them too. Its tokenizer is
//! told here that there are no such operators, so that each sign stands for itself, and then this is PostgreSQL's rule:
//!
//! 1. Signs that touch are one operator, up to where a comment begins.
//! 2. `+` and `-` at its end are no part of it, unless it has one of `~ ! @ # % ^ & | ? `` ` ``.
//! 3. A number ends before a blank or a sign, not before a letter.

use super::error::SelectError;
use super::places::Places;
use crate::sql::error::{SqlError, SqlErrorKind};
use crate::sql::span::Cursor;
use sqlparser::dialect::{Dialect, PostgreSqlDialect};
use sqlparser::tokenizer::{Location, Span as Place, Token, TokenWithSpan};
use std::any::TypeId;

/// PostgreSQL's lexis as the tokenizer knows it, without operators of any length.
#[derive(Debug)]
pub(super) struct Lexis;

impl Dialect for Lexis {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        PostgreSqlDialect {}.is_identifier_part(ch)
    }

    fn supports_unicode_string_literal(&self) -> bool {
        true
    }

    fn supports_string_escape_constant(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_geometric_types(&self) -> bool {
        true
    }
}

/// What operators are made of.
const SIGNS: &str = "+-*/<>=~!@#%^&|`?";
/// Those that let an operator end in a sign of a number.
const KEEPING: [char; 10] = ['~', '!', '@', '#', '%', '^', '&', '|', '?', '`'];
/// Those that are one token of `sqlparser`'s, and unknown to PostgreSQL.
const UNKNOWN: [&str; 2] = ["==", "<=>"];

/// Refuses operators that PostgreSQL reads as one and does not know, and numbers that end in letters.
pub(super) fn check(places: &Places<'_>, tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut here = Cursor::START;
    let mut run: Vec<(&str, Place)> = Vec::new();
    let mut number = None;
    for token in tokens {
        let text = text(places.text(), &mut here, token.span.end);
        let is_sign = !matches!(token.token, Token::Whitespace(_))
            && !text.is_empty()
            && text.chars().all(|c| SIGNS.contains(c));
        if is_sign {
            run.push((text, token.span));
        } else {
            each_is_known(places, &run)?;
            run.clear();
        }
        match (&token.token, number) {
            (Token::Word(word), Some(number)) if word.quote_style.is_none() => {
                return Err(ends_in_letters(places, number, (text, token.span)));
            }
            (Token::Number(..), _) => number = Some((text, token.span)),
            _ => number = None,
        }
    }
    each_is_known(places, &run)
}

/// The text from here to a place of the tokenizer's.
fn text<'a>(script: &'a str, here: &mut Cursor, to: Location) -> &'a str {
    let from = here.byte;
    while (here.line as u64, here.column as u64) < (to.line, to.column) {
        let rest = script.get(here.byte..).unwrap_or_default();
        match rest.chars().next() {
            Some(c) => here.step(c),
            None => break,
        }
    }
    script.get(from..here.byte).unwrap_or_default()
}

/// The operators of signs that touch must each be one token.
fn each_is_known(places: &Places<'_>, run: &[(&str, Place)]) -> Result<(), SqlError> {
    let Some((_, last)) = run.last() else {
        return Ok(());
    };
    let all: String = run.iter().map(|(text, _)| *text).collect();
    let first = length_of_first(&all);
    let operator = all.get(..first).unwrap_or_default();
    let token = run.first().map_or("", |(text, _)| text);
    // What follows it are signs of numbers, each a token by itself.
    if operator == token && !UNKNOWN.contains(&operator) {
        return Ok(());
    }
    let at = run
        .first()
        .map_or(*last, |(_, first)| Place::new(first.start, last.end));
    let what = format!("operator {operator}");
    let hint = match operator.strip_suffix(['+', '-']) {
        Some("!=") => "a blank parts it from the number's sign, as in tasks != -5",
        _ => "values are compared by = <> < > <= >=",
    };
    let kind = SelectError::NoSuchOperation { what };
    Err(SqlError::new(kind.into(), places.span(at)).with_hint(hint))
}

/// How long the first operator is of signs that touch.
fn length_of_first(signs: &str) -> usize {
    if signs.contains(KEEPING) {
        signs.len()
    } else {
        signs.trim_end_matches(['+', '-']).len().max(1)
    }
}

fn ends_in_letters(places: &Places<'_>, number: (&str, Place), word: (&str, Place)) -> SqlError {
    let found: String = number.0.chars().chain(word.0.chars()).take(40).collect();
    let kind = SqlErrorKind::Syntax {
        found,
        expected: "a blank behind the number".to_owned(),
    };
    let at = Place::new(number.1.start, word.1.end);
    SqlError::new(kind, places.span(at)).with_hint("as in tasks = 5 AND name LIKE 'etl%'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_keeps_a_sign_at_its_end_only_for_the_odd_characters() {
        for (signs, first) in [
            (">-", ">"),
            ("<>-+-", "<>"),
            ("<=+", "<="),
            ("-+", "-"),
            ("+", "+"),
            ("!=-", "!=-"),
            (">@-", ">@-"),
            ("<->", "<->"),
            ("<->-", "<->"),
            (">*", ">*"),
        ] {
            assert_eq!(&signs[..length_of_first(signs)], first, "{signs}");
        }
    }
}
