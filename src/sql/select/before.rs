//! What `sqlparser` must not see: texts that no SELECT of ours looks like, and that it reads in exponential time or on a
//! stack without a bound.
//!
//! Pure. Its own limit counts nested expressions, but not nested types and intervals; and it tries several readings of
//! a call, each of which reads the calls inside anew: ten of them, one in the other, took it 14 seconds (measured). It
//! looks at the parser's own tokens, because ours differ: `E'\''` ends elsewhere.
//!
//! 1. At most as many tokens as the cap allows.
//! 2. No parenthesis inside the parentheses of a call: an argument of ours is a column or `*`.
//! 3. Words that nest without parentheses stand at most twice.
//! 4. No cast of a cast: its own limit does not count a chain of `::`, and what walks the tree would be as deep.

use super::TOKENS;
use super::error::SelectError;
use super::places::Places;
use crate::sql::error::SqlError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words before a parenthesis that is not a call's.
const NO_CALLS: [&str; 20] = [
    "ALL",
    "AND",
    "AS",
    "BETWEEN",
    "BY",
    "DISTINCT",
    "EXCEPT",
    "FROM",
    "IN",
    "INTERSECT",
    "JOIN",
    "LIKE",
    "LIMIT",
    "NOT",
    "OFFSET",
    "ON",
    "OR",
    "SELECT",
    "UNION",
    "WHERE",
];

/// Types and literals that hold others of their kind, without a parenthesis.
const NESTING: [&str; 3] = ["ARRAY", "INTERVAL", "STRUCT"];
const TWICE: usize = 2;

/// Refuses such a text where it begins to be one.
pub(super) fn check(places: &Places<'_>, tokens: &[TokenWithSpan]) -> Result<(), SqlError> {
    let mut count = 0;
    let mut nesting = 0;
    let mut last = None;
    let mut in_call = false;
    let mut in_cast = false;
    for token in tokens {
        if !matches!(token.token, Token::Whitespace(_)) {
            in_cast = match &token.token {
                Token::DoubleColon if in_cast => {
                    return Err(places.refuse("a cast of a cast", token.span));
                }
                Token::DoubleColon => true,
                other => in_cast && is_of_a_type(other),
            };
        }
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen if in_call => {
                return Err(places.refuse("a parenthesis inside a call", token.span));
            }
            Token::LParen => in_call = is_name(last),
            Token::RParen => in_call = false,
            word if is_one_of(word, &NESTING) => {
                nesting += 1;
                if nesting > TWICE {
                    return Err(places.refuse(&word.to_string(), token.span));
                }
            }
            _ => {}
        }
        count += 1;
        last = Some(&token.token);
    }
    if count > TOKENS {
        let (tokens, limit) = (count, TOKENS);
        let kind = SelectError::TooManyTokens { tokens, limit };
        return Err(SqlError::new(kind.into(), places.whole()));
    }
    Ok(())
}

/// What may stand between two `::` of one chain. A comma may, too, but a chain of those with one is short.
fn is_of_a_type(token: &Token) -> bool {
    match token {
        Token::Word(_) => !is_one_of(token, &NO_CALLS),
        Token::Number(..) | Token::LParen | Token::RParen | Token::LBracket | Token::RBracket => {
            true
        }
        _ => false,
    }
}

fn is_name(token: Option<&Token>) -> bool {
    token.is_some_and(|token| matches!(token, Token::Word(_)) && !is_one_of(token, &NO_CALLS))
}

fn is_one_of(token: &Token, words: &[&str]) -> bool {
    let Token::Word(word) = token else {
        return false;
    };
    word.quote_style.is_none()
        && words
            .iter()
            .any(|known| word.value.eq_ignore_ascii_case(known))
}
