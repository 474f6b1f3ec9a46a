//! A statement's text to tokens, by `sqlparser`'s tokenizer, which is linear and does not recurse.
//!
//! Pure. Only here and nowhere else does the crate speak of `sqlparser`'s tokens.

use super::error::{SqlError, SqlErrorKind};
use super::scan::Piece;
use super::span::{Cursor, Span};
use sqlparser::dialect::Dialect;
use sqlparser::tokenizer::{Token, Tokenizer};

/// One token that is neither blank nor comment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tok<'a> {
    pub(super) kind: TokKind,
    /// The token's own text.
    pub(super) text: &'a str,
    /// Where `text` begins in the script, in bytes.
    pub(super) byte: usize,
    pub(super) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokKind {
    /// A word without quotes.
    Word,
    /// `'..'` or `".."`, with its content.
    Text(String),
    /// `` `..` ``, with its content.
    Name(String),
    Number,
    /// One of `( ) , = -`.
    Punct(char),
    /// Anything that our grammar has no use for.
    Other,
}

/// What `sqlparser` needs to know of our lexical rules.
#[derive(Debug)]
struct Lexis;

impl Dialect for Lexis {
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    /// Foreign letters make a word too, so that the error speaks of the whole word.
    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }
}

/// The tokens of one statement, without blanks and comments.
pub(super) fn tokens<'a>(piece: &Piece<'a>) -> Result<Vec<Tok<'a>>, SqlError> {
    let mut here = piece.at;
    let base = here.byte;
    let mut rest = piece.text.chars();
    let mut out = Vec::new();
    let found = Tokenizer::new(&Lexis, piece.text)
        .tokenize_with_location()
        .map_err(|e| {
            let mut at = piece.at;
            let before = (e.location.line, e.location.column);
            advance(&mut at, piece, &mut piece.text.chars(), before);
            let kind = SqlErrorKind::Syntax {
                found: "a token that cannot be read".to_owned(),
                expected: format!("something else ({})", e.message),
            };
            SqlError::new(kind, at.until(&at))
        })?;
    for token in found {
        let from = here;
        let end = (token.span.end.line, token.span.end.column);
        advance(&mut here, piece, &mut rest, end);
        let kind = match token.token {
            Token::Whitespace(_) | Token::EOF => continue,
            Token::Word(w) if w.quote_style.is_some() => TokKind::Name(w.value),
            Token::Word(_) => TokKind::Word,
            Token::SingleQuotedString(t) | Token::DoubleQuotedString(t) => TokKind::Text(t),
            Token::Number(_, false) => TokKind::Number,
            Token::LParen => TokKind::Punct('('),
            Token::RParen => TokKind::Punct(')'),
            Token::Comma => TokKind::Punct(','),
            Token::Eq => TokKind::Punct('='),
            Token::Minus => TokKind::Punct('-'),
            _ => TokKind::Other,
        };
        out.push(Tok {
            kind,
            text: piece
                .text
                .get(from.byte - base..here.byte - base)
                .unwrap_or_default(),
            byte: from.byte,
            span: from.until(&here),
        });
    }
    Ok(out)
}

/// Moves to a place that the tokenizer names: line and column from the start of the piece, from 1.
fn advance(here: &mut Cursor, piece: &Piece<'_>, rest: &mut std::str::Chars<'_>, to: (u64, u64)) {
    let place = |here: &Cursor| {
        let line = here.line - piece.at.line + 1;
        let column = if line == 1 {
            here.column - piece.at.column + 1
        } else {
            here.column
        };
        (line as u64, column as u64)
    };
    while place(here) < to {
        match rest.next() {
            Some(c) => here.step(c),
            None => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::{Caps, split};
    use super::*;

    #[test]
    fn places_count_characters_over_lines() {
        let script = "x; é 'ü\nä' (b)";
        let pieces = split(script, Caps::CLIENT).unwrap();
        let found: Vec<(String, usize, usize, usize)> = tokens(&pieces[1])
            .unwrap()
            .iter()
            .map(|t| (t.text.to_owned(), t.span.start, t.span.line, t.span.column))
            .collect();
        let expected = [
            ("é", 3, 1, 4),
            ("'ü\nä'", 5, 1, 6),
            ("(", 11, 2, 4),
            ("b", 12, 2, 5),
            (")", 13, 2, 6),
        ]
        .map(|(t, s, l, c)| (t.to_owned(), s, l, c));
        assert_eq!(found, expected);
    }

    /// Both say the same about quotes and comments: cut at the semicolons or read whole, the tokens are the same.
    #[test]
    fn the_scan_and_the_tokenizer_agree_on_where_statements_end() {
        use proptest::prelude::*;
        let words = proptest::sample::select(vec![
            "a", "'", "''", "\"", "`", ";", "-", "--", "/", "*", "/*", "*/", "\n", "\r", " ", "\\",
            "é", "1", "1.", "(", "=", "N'", "x'", "$", "#", "@", "%", "e'",
        ]);
        let script = prop::collection::vec(words, 0..40).prop_map(|parts| parts.concat());
        let config = ProptestConfig {
            cases: 2_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let result = runner.run(&script, |script| {
            let Ok(pieces) = split(&script, Caps::NONE) else {
                return Ok(());
            };
            let whole = Piece {
                text: &script,
                at: Cursor::START,
            };
            // What neither grammar has, such as `$$` or `X'\'`, ends in an error on one side or the other.
            let (Ok(whole), Ok(cut)) = (
                tokens(&whole),
                pieces.iter().map(tokens).collect::<Result<Vec<_>, _>>(),
            ) else {
                return Ok(());
            };
            if whole
                .iter()
                .any(|t| t.kind == TokKind::Other && t.text != ";")
            {
                return Ok(());
            }
            let whole: Vec<_> = whole.into_iter().filter(|t| t.text != ";").collect();
            prop_assert_eq!(whole, cut.concat());
            Ok(())
        });
        result.unwrap();
    }
}
